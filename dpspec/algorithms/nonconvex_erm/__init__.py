"""Empirical risks of smooth losses that need not be convex: points whose gradient is short."""
