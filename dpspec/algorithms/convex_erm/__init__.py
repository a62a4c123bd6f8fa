"""Convex empirical risk minimisation: one file an algorithm."""
