"""The language server: what editors show, as pure functions, and the wiring."""
