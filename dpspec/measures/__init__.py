"""Measures of error, one function each. A task lists those that it has; the compiler's names and a study's code are the same objects."""
