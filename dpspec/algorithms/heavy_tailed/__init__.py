"""Means and risks of records with few moments."""
