"""Objective perturbation for generalised linear losses, pure form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy.mechanisms.norm_laplace import norm_laplace
from dpspec.privacy.mechanisms.protocol import Minimised, check_level, check_positive
from dpspec.privacy.noise import Array, NoiseSource
from dpspec.privacy.schedule import Family, Norm


@dataclass(frozen=True, slots=True)
class ObjectivePerturbation(Minimised):
    """argmin over R^p of (1/n)*sum phi(<x_i, w>, y_i) + (l2 + extra)/2*|w|^2 + <b, w>/n, density of b proportional to
    exp(-epsilon'*|b|_2/sensitivity): epsilon-DP. Level = epsilon.

    phi is convex and twice differentiable; ``lipschitz`` bounds |phi'|*|x| and ``smooth`` bounds phi''*|x|^2. ``sensitivity`` =
    moved*lipschitz is the change of the sum of gradients: ``moved`` is 2 where a record is replaced, and 1 where it is added, removed or
    zeroed at the same public n (one of the two rank-one terms below is then absent, however many records there are). The map from b to
    the minimiser has a Jacobian whose determinant changes by the ratio (1 + a u^T B^-1 u)/(1 + a' v^T B^-1 v) <= 1 + smooth/(n*Lambda)
    between neighbours, where B >= n*Lambda*I is the part that both share and Lambda = l2 + extra, so
    epsilon' = epsilon - ln(1 + smooth/(n*Lambda)).
    ``extra`` is the least addition with epsilon' >= epsilon/2. (Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 2, has the square of the
    determinant factor; 000, Table 3.1.)

    The proof is for the exact minimiser over R^p with a smooth convex regulariser, which adds the same positive semidefinite matrix to
    both determinants. A closed convex set and any convex regulariser follow as limits (Moreau envelopes: the minimisers converge for
    every b, and P <= e^epsilon P' passes to limits); where ``lipschitz`` and ``smooth`` hold on the set only, phi is continued linearly
    beyond the margins that the set and the record allow, which changes no minimiser. Solve to a gradient norm gamma and pay for the gap
    with a second draw of sensitivity 2*gamma/Lambda
    (:func:`dpspec.privacy.mechanisms.norm_laplace.output_perturbation_sensitivity`).
    """

    n: int
    dim: int
    lipschitz: float
    smooth: float
    l2: float
    moved: float = 2.0
    kind: ClassVar[str] = "objective-perturbation"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "l2"
    reference: ClassVar[str] = "Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 2 (determinant factor sharpened); 000 Table 3.1"

    def __post_init__(self) -> None:
        check_positive(n=self.n, dim=self.dim, lipschitz=self.lipschitz, smooth=self.smooth, moved=self.moved)
        if not (math.isfinite(self.l2) and self.l2 >= 0):
            raise ValueError(f"l2 must be at least 0, not {self.l2!r}")

    @property
    def sensitivity(self) -> float:
        return self.moved * self.lipschitz

    @property
    def size(self) -> int:
        return self.dim

    def extra(self, level: float) -> float:
        """The l2 weight that is added to the objective."""
        return max(0.0, self.smooth / (self.n * math.expm1(check_level(level) / 2.0)) - self.l2) * (1.0 + 1e-12)

    def linear_epsilon(self, level: float) -> float:
        """epsilon', the share of the linear term."""
        return (level - math.log1p(self.smooth / (self.n * (self.l2 + self.extra(level))))) * (1.0 - 1e-12)

    def scale(self, level: float) -> float:
        """sensitivity/epsilon': |b|_2 is Gamma(dim, scale)."""
        return self.sensitivity / self.linear_epsilon(level)

    def numbers(self, level: float) -> dict[str, float]:
        return {"scale": self.scale(level), "extra": self.extra(level)}

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon: that of the linear term, and the logarithm of the ratio of the determinants."""
        if noise["extra"] < 0:
            raise ValueError("the added l2 weight is at least 0")
        return self.sensitivity / noise["scale"] + math.log1p(self.smooth / (self.n * (self.l2 + noise["extra"])))

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        """``value(linear, extra)`` returns the minimiser of the loss plus extra/2*|w|^2 plus <linear, w>. The linear term stays in here."""
        linear = norm_laplace(self.scale(level), self.dim, noise) / self.n
        w: Array = np.asarray(value(linear, self.extra(level)), dtype=float)
        if w.shape != (self.dim,) or not np.isfinite(w).all():
            raise ValueError(f"the solver did not return {self.dim} finite numbers")
        return w
