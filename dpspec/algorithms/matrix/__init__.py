"""Covariance, precision and principal subspaces: noise on a second moment, then post-processing."""
