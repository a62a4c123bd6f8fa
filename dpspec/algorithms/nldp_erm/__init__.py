"""Local, non-interactive empirical risk minimisation: one report a user."""
