"""Noise scaled to a smooth bound of the local sensitivity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy.gaussian import float_down
from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_numbers, check_positive
from dpspec.privacy.noise import Array, NoiseSource
from dpspec.privacy.schedule import Family, Norm


@dataclass(frozen=True, slots=True)
class SmoothStudent(Drawn):
    """f(D) + S(D)/s*T with T of Student's law with nu degrees of freedom: epsilon-DP. Level = epsilon.

    S must satisfy both: S(D) is at least the local sensitivity of f at D, and S(D) <= e^t*S(D') for all neighbours, t = ``smoothing``
    (an upper bound of a smooth bound is in general not smooth: 000, Algorithm 3.2.6, breaks here). Then

        epsilon = s*(nu + 1)/(2*sqrt(nu)) + nu*t:

    the log density of T has slope at most (nu + 1)/(2*sqrt(nu)), and a dilation by e^(+-t) changes it by at most nu*t. E T^2 = nu/(nu - 2).
    It takes the place of the documents' arsinh-normal noise (000, section 3.2.4: s = epsilon/4, t = epsilon^2/16, variance 3.19 for
    epsilon^2/2-zCDP), which no exact family of accounting here covers; epsilon-DP implies that zCDP, and with t = epsilon/6 and nu = 3 the
    noise is 1.8 times smaller: standard deviation 4.0*S/epsilon against 7.1*S/epsilon. Source: Nissim, Raskhodnikova and Smith 2007;
    Bun and Steinke 2019, Theorem 31, with nu*t for (nu + 1)*t, re-derived.

    The noise scale depends on the records, so no grid can be chosen from it; the secure source rounds the sum to a multiple of the
    public ``resolution``.
    """

    smoothing: float
    resolution: float
    freedom: int = 3
    kind: ClassVar[str] = "smooth-student"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    size: ClassVar[int] = 1
    reference: ClassVar[str] = "Bun and Steinke 2019, Theorem 31 (re-derived); 000 section 3.2.4"

    def __post_init__(self) -> None:
        check_positive(smoothing=self.smoothing, resolution=self.resolution, freedom=self.freedom)

    def scale(self, level: float) -> float:
        """1/s: the noise is scale*S*T."""
        left = float_down(Fraction(check_level(level)) - self.freedom * Fraction(self.smoothing))
        if left <= 0:
            raise ValueError(
                f"smoothing {self.smoothing} with {self.freedom} degrees of freedom spends the whole epsilon {level}: smooth less"
            )
        return (self.freedom + 1) / (2.0 * math.sqrt(self.freedom) * left) * (1.0 + 2.0**-40)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon: the slope of the log density times s = 1/scale, and the cost of dilating."""
        return (self.freedom + 1) / (2.0 * math.sqrt(self.freedom)) / noise["scale"] + self.freedom * self.smoothing

    def check(self, value: Any) -> str | None:
        """``value`` is the pair (f(D), S(D))."""
        problem = check_numbers(value, 2)
        if problem is None and not np.ravel(value)[1] > 0:
            return "the smooth bound is not positive"
        return problem

    @property
    def claim(self) -> float:
        """A run states the exponent of its smooth bound."""
        return self.smoothing

    def blind(self, value: Any) -> tuple[Any, Any]:
        return np.array(value, dtype=float), (0.0, 1.0)

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        """In units of :attr:`claim`: how far the values are apart in the smaller of the two bounds, and the logarithms of the bounds in
        ``smoothing``, whichever is more."""
        (f, s), (g, r) = (np.ravel(v).tolist() for v in (one, other))
        return self.smoothing * float(max(abs(f - g) / min(s, r), abs(math.log(s) - math.log(r)) / self.smoothing))

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        centre, bound = (float(v) for v in np.ravel(value))
        normals = noise.gaussian(1.0, self.freedom + 1)
        t = normals[0] / math.sqrt(float(normals[1:] @ normals[1:]) / self.freedom)
        out = centre + self.scale(level) * bound * t
        return np.array(np.rint(out / self.resolution) * self.resolution if noise.secure else out)
