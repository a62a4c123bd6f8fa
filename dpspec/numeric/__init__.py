"""Arithmetic that guarantees rest on, done once."""
