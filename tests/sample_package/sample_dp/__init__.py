"""A package that brings an algorithm to dpspec by an entry point."""
