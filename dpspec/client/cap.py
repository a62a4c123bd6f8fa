"""PrivUnit on a device: the cap is given by the client file, and what it spends is worked out from the cap, without SciPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy.channels.priv_unit import Cap, PrivUnit

_PANELS, _NODES = 64, 48


def mass(dim: int, height: float) -> float:
    """P(<u, v> >= height) of a uniform u of the unit sphere, -1 < height < 1:

    Gamma(d/2)/(sqrt(pi) Gamma((d - 1)/2)) times the integral of sin^(d-2) from 0 to arccos(height), by Gauss and Legendre over panels.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    top = math.acos(height)
    edges = np.linspace(max(0.0, top - 40.0 / math.sqrt(dim)), top, _PANELS + 1)  # below, a factor exp(-700) or less of the integrand
    half = np.diff(edges)[:, None] / 2
    angle = edges[:-1, None] + half * (1 + nodes)
    log_factor = math.lgamma(dim / 2) - math.lgamma((dim - 1) / 2) - 0.5 * math.log(math.pi)
    with np.errstate(divide="ignore", under="ignore"):
        values = np.exp((dim - 2) * np.log(np.sin(angle)) + log_factor)
    return float((values * weights * half).sum())


@dataclass(frozen=True)
class GivenCap(PrivUnit):
    """:class:`~dpspec.privacy.channels.priv_unit.PrivUnit` with the cap that a file gives, at every level."""

    given: Cap
    kind: ClassVar[str] = "priv-unit"

    def cap(self, level: float) -> Cap:
        return self.given

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon of the given cap: inside/P against (1 - inside)/(1 - P), P the mass of the smallest region that its rounded height may be
        (the proof is at PrivUnit)."""
        p = self.given.inside
        least = mass(self.dim, min(self.given.height + (2 * self.dim + 16) * 2.0**-53, 1.0 - 2.0**-53))
        return abs(math.log(p) - math.log(1 - p) + math.log1p(-least) - math.log(least))


def given(form: Mapping[str, Any], cap: Any) -> GivenCap:
    """The channel of its form and ``coins`` (``height``, ``inside`` in steps of 2^-64, ``mean``). Raises ``ValueError``."""
    if set(form) != {"kind", "family", "dim", "radius"} or form["family"] != "pure" or type(form["dim"]) is not int:
        raise ValueError("the channel priv-unit has the fields dim, family and radius")
    if type(form["radius"]) not in (int, float) or not isinstance(cap, Mapping) or set(cap) != {"height", "inside", "mean"}:
        raise ValueError("a cap has a height, a chance of the inside, and a mean")
    if not all(isinstance(value, str) and len(value) < 40 for value in cap.values()):
        raise ValueError("the numbers of a cap are words")
    height, inside, mean = float(cap["height"]), Fraction(int(cap["inside"]), 2**64), float(cap["mean"])
    if not (0 <= height < 1 - 1e-6 and 0 < inside < 1 and 0 < mean <= 1):
        raise ValueError("a cap has a height in [0, 1), a chance in (0, 1) and a mean in (0, 1]")
    dim = form["dim"]
    return GivenCap(dim, float(form["radius"]), Cap(height, mass(dim, height) if height else 0.5, inside, mean))
