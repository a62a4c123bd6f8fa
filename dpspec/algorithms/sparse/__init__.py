"""Sparse linear regression: one file an algorithm."""
