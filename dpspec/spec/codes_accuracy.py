"""Diagnostic codes of one area; see :mod:`dpspec.spec.codes`."""

from __future__ import annotations

from dpspec.spec.codes import Code

CODES: dict[str, Code] = {}
