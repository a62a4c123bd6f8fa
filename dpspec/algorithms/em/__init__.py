"""Latent variables: expectation maximisation and its gradient form."""
