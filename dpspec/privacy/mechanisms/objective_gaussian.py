"""Objective perturbation for generalised linear losses with a Gaussian linear term: (epsilon, delta)-DP."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np

from dpspec.privacy import gaussian
from dpspec.privacy.mechanisms.protocol import Minimised, check_level, check_positive
from dpspec.privacy.noise import Array, NoiseSource
from dpspec.privacy.schedule import Family, Norm

#: The share of epsilon and of delta that pays for the gap between the solver's point and the minimiser.
GAP: Final = 0.01


@lru_cache(maxsize=256)
def _largest_mu(epsilon: float, delta: float) -> float:
    """The largest mu, rounded down, with (:func:`factor`)*delta_mu(epsilon) <= delta, delta_mu the curve of the Gaussian mechanism."""
    mu = gaussian.mu_of(epsilon, Fraction(delta) / 2)
    return mu if factor(epsilon, mu) == 2 else gaussian.mu_of(epsilon, Fraction(delta) / 4)


def factor(epsilon: float, mu: float) -> int:
    """2 where the tail of |Z1| + |Z2| is at most that of 2|Z| from the threshold on, else 4 (see :class:`GaussianObjective`)."""
    return 2 if epsilon / mu - mu / 2 >= math.sqrt(3.0) * (1 + 1e-9) else 4


@dataclass(frozen=True, slots=True)
class GaussianObjective(Minimised):
    """argmin of (1/n) sum phi(<x_i, w>, y_i) + r(w) + (l2 + extra)/2 |w|^2 + <b, w>/n, b ~ N(0, s^2 I), plus N(0, g^2 I) for the solver.

    phi convex, |phi'||x| <= ``lipschitz``, phi' Lipschitz with phi''|x|^2 <= ``smooth``; r convex, the same for all. Level = epsilon.

    Proof (Kifer, Smith, Thakurta 2012, re-derived; 000 Tables 3.1 to 3.3). First r is smooth. b is a bi-Lipschitz function of the
    minimiser w, so w has the density N(b(w))*|det db/dw|. Neighbours: (1) the determinants' ratio is at most 1 + smooth/(n Lambda),
    Lambda = l2 + extra, as one rank-one term is exchanged for another on a common part >= n*Lambda; (2) b moves by t = s u - s' v with unit
    vectors u, v *that do not depend on w* (generalised linear) and |s|, |s'| <= lipschitz =: L. With mu = 2L/s the loss is at most
    c + mu^2/2 + mu (|Z1| + |Z2|)/2, c = log(1 + smooth/(n Lambda)), Z1 and Z2 standard normal with some correlation. The tail of
    (|Z1| + |Z2|)/2 is at most 4 Q(x) always (one of the two exceeds x), and at most 2 Q(x) for x >= sqrt(3): |Z1| + |Z2| = max |Z1 +- Z2|,
    normal with variances v and 4 - v, and Q(2x/sqrt(v)) is convex in v on [0, 4] then, so the sum is greatest at v = 0 or 4. Against the
    Gaussian mechanism's loss mu^2/2 + mu Z this gives delta(epsilon) <= 2 (or 4) delta_mu(epsilon - c). Any closed convex set and
    any convex r follow as limits of smooth ones (Moreau envelopes): the minimisers converge for every b, and the inequality passes to
    limits.

    A general loss has no such u and v, and its determinants differ by (1 + smooth/(n Lambda))^dim. The printed change of gradients is L
    (add/remove) or 2L (replace-one). Where a record is added, removed or zeroed (``moved`` 1), t = s u alone and (1) is one term more or
    less on the same common part, however many records there are: with mu = L/s the loss is at most c + mu^2/2 + mu |Z|, whose tail is 2 Q.

    The minimiser is found up to ``tolerance`` (norm of a subgradient of the mean objective), and the secure source draws b on a grid: as
    the rounding of a continuous b, it is at most s*sqrt(dim)/2^27 from it. Without more, minimisers of neighbours would lie on different
    point sets, each the image of the grid. Both together put the point within (tolerance + s*sqrt(dim)/(2^27 n))/Lambda of the exact
    minimiser for a continuous b; g covers twice that by 1 % of epsilon and delta.
    """

    n: int
    dim: int
    lipschitz: float
    smooth: float
    l2: float
    delta: float
    tolerance: float
    ridge: float = 0.0
    moved: float = 2.0
    kind: ClassVar[str] = "objective-gaussian"
    family: ClassVar[Family] = "approx"
    norm: ClassVar[Norm] = "l2"
    reference: ClassVar[str] = "Kifer, Smith and Thakurta 2012 (re-derived); 000 Tables 3.1 to 3.3"

    def __post_init__(self) -> None:
        check_positive(n=self.n, dim=self.dim, lipschitz=self.lipschitz, smooth=self.smooth, delta=self.delta, tolerance=self.tolerance)
        if not (math.isfinite(self.l2) and self.l2 >= 0 and math.isfinite(self.ridge) and self.ridge >= 0):
            raise ValueError("l2 and ridge must be at least 0")

    @property
    def sensitivity(self) -> float:
        """Change of the sum of gradients: ``moved`` times one."""
        return self.moved * self.lipschitz

    @property
    def size(self) -> int:
        return self.dim

    def extra(self, level: float) -> float:
        """The l2 weight that is added to the objective: ``ridge``, and enough for the determinants to cost a quarter of epsilon at most."""
        return max(self.ridge, self.smooth / (self.n * math.expm1(check_level(level) / 4.0)) - self.l2) * (1.0 + 1e-12)

    def determinants(self, level: float) -> float:
        """c = log(1 + smooth/(n Lambda))."""
        return math.log1p(self.smooth / (self.n * (self.l2 + self.extra(level)))) * (1.0 + 1e-12)

    def linear_mu(self, level: float) -> float:
        """mu = sensitivity/s of the linear term."""
        epsilon = ((1 - GAP) * level - self.determinants(level)) * (1 - 1e-12)
        return _largest_mu(epsilon, (1 - GAP) * self.delta * (1 - 1e-12))

    def scale(self, level: float) -> float:
        """s, the standard deviation of an entry of b."""
        return self.sensitivity / self.linear_mu(level)

    def gap_sensitivity(self, level: float) -> float:
        """How far apart the points of two runs with the same exact minimiser can be: the solver's tolerance and the grid of b, twice."""
        grid = self.scale(level) * math.sqrt(self.dim) * 2.0**-27 * (1 + 2.0**-20) / self.n
        return 2 * (self.tolerance + grid) / (self.l2 + self.extra(level)) * (1 + 1e-12)

    def gap_scale(self, level: float) -> float:
        """g, the standard deviation of the noise on the minimiser."""
        mu = gaussian.mu_of(GAP * level * (1 - 1e-12), GAP * self.delta * (1 - 1e-12))
        return self.gap_sensitivity(level) / mu * (1 + 1e-12)

    def numbers(self, level: float) -> dict[str, float]:
        return {"scale": self.scale(level), "extra": self.extra(level), "gap_scale": self.gap_scale(level)}

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon at ``delta``, from the numbers of the noise: the determinants, the Gaussian curve of the linear term at a half or a
        quarter of its share of delta, and the Gaussian curve of the noise on the minimiser at the rest."""
        s, weight, g = noise["scale"], self.l2 + noise["extra"], noise["gap_scale"]
        if not (s > 0 and weight > 0 and g > 0 and noise["extra"] >= 0):
            raise ValueError("scales are positive and so is the l2 weight")
        mu, share = self.sensitivity / s, (1 - GAP) * self.delta
        linear = gaussian.epsilon_of(mu, Fraction(share) / 2)
        if factor(linear, mu) != 2:
            linear = gaussian.epsilon_of(mu, Fraction(share) / 4)
        grid = s * math.sqrt(self.dim) * 2.0**-27 / self.n
        gap = gaussian.epsilon_of(2 * (self.tolerance + grid) / weight / g, GAP * self.delta)
        return math.log1p(self.smooth / (self.n * weight)) + linear + gap

    def sure(self, noise: Mapping[str, float]) -> float:
        """No output is impossible under a neighbour, but with normal noise on the minimiser the loss has no bound."""
        return 0.0

    def delta_by_quadrature(self, level: float, epsilon: float) -> float:
        """The delta at ``epsilon`` of the noise for ``level``: E (1 - e^(epsilon' - loss))_+ over the bounding loss by quadrature, and the
        gap's share as stated."""
        from scipy.integrate import quad

        mu, c = self.linear_mu(level), self.determinants(level)
        left = epsilon - GAP * level - c
        start = (left - mu * mu / 2) / mu
        if start <= 0:
            return 1.0
        tails = factor((1 - GAP) * level - c, mu)

        def weighed(z: float) -> float:
            return -math.expm1(left - mu * mu / 2 - mu * z) * math.exp(-z * z / 2)

        spent, _ = quad(weighed, start, start + 30, limit=200, epsabs=0.0)
        return float(tails * spent / math.sqrt(2 * math.pi) + GAP * self.delta)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        """``value(linear, extra)`` returns the minimiser up to ``tolerance``, or raises. The linear term stays in here."""
        linear = noise.gaussian(self.scale(level), self.dim) / self.n
        w: Array = np.asarray(value(linear, self.extra(level)), dtype=float)
        if w.shape != (self.dim,) or not np.isfinite(w).all():
            raise ValueError(f"the solver did not return {self.dim} finite numbers")
        return noise.add_gaussian(w, self.gap_scale(level), sensitivity=self.gap_sensitivity(level), dim=self.dim)
