"""Losses, certificates and bounds as expressions. See :mod:`dpspec.symbolic.certify` and :mod:`dpspec.symbolic.bounds`."""
