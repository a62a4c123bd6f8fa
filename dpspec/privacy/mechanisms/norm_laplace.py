"""Noise with density proportional to exp(-|z|_2/b), and output perturbation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_numbers, check_positive
from dpspec.privacy.noise import Array, NoiseSource, add_rounded
from dpspec.privacy.schedule import Family, Norm


def output_perturbation_sensitivity(
    lipschitz: float, n: int, strongly_convex: float, tolerance: float = 0.0, neighbours: str = "replace-one"
) -> float:
    """l2 sensitivity of an approximate minimiser of a mu-strongly convex average of n losses with gradients of norm at most G.

    Exact minimisers of neighbours differ by at most 2*G/(n*mu) under replace-one (G/(n*mu) when one loss is set to 0); a point with
    gradient norm at most ``tolerance`` is within tolerance/mu of the minimiser, once on each side. Source: 000, Table 3.1 (Iyengar et al.
    2019; Chaudhuri, Monteleoni and Sarwate 2011, Lemma 8), re-derived. The stopping rule must hold: a solver that gave up voids the claim.
    """
    check_positive(lipschitz=lipschitz, n=n, strongly_convex=strongly_convex)
    change = (2.0 if neighbours == "replace-one" else 1.0) * lipschitz / (n * strongly_convex)
    return change + 2.0 * tolerance / strongly_convex


def norm_laplace(scale: float, dim: int, noise: NoiseSource) -> Array:
    """z with density proportional to exp(-|z|_2/scale): a uniform direction and a Gamma(dim, scale) length."""
    length = float(noise.exponential(scale, dim).sum())
    z: Array = noise.directions(1, dim)[0] * length
    return z


@dataclass(frozen=True, slots=True)
class NormLaplace(Drawn):
    """value + noise of density proportional to exp(-|z|_2/b): epsilon-DP with epsilon = sensitivity/b, by the triangle inequality.

    ``sensitivity``: l2. Level = epsilon. E|z|^2 = dim*(dim + 1)*b^2. Pure output perturbation (Chaudhuri, Monteleoni and Sarwate 2011,
    Algorithm 1). Secure source: value and noise are rounded to one public grid.
    """

    sensitivity: float
    size: int
    kind: ClassVar[str] = "norm-laplace"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "l2"
    reference: ClassVar[str] = "Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1; 000 Table 3.1"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, size=self.size)

    def scale(self, level: float) -> float:
        return self.sensitivity / check_level(level)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon = sensitivity/b."""
        return self.sensitivity / noise["scale"]

    def check(self, value: Any) -> str | None:
        return check_numbers(value, self.size)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        array = np.asarray(value, dtype=float)
        b = self.scale(level) * (1.0 + 2.0**-24)
        step = min(b, self.sensitivity) / math.sqrt(self.size)
        return add_rounded(array, norm_laplace(b, self.size, noise).reshape(array.shape), step, noise)
