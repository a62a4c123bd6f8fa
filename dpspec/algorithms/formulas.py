"""Formulas that the tunables of several algorithms share."""

from __future__ import annotations

from typing import Final

STRENGTH: Final = "mu else sqrt(2*rho) else 1.3*sqrt(2)*(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))"
STRENGTH_SOURCE: Final = "about the Gaussian-DP mu that the budget buys (zCDP gives 1.2 to 1.5 times less); the noise itself is exact"
