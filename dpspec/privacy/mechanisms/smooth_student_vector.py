"""Noise in several coordinates scaled to a smooth bound of the local sensitivity in l2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpspec.numeric.norms import length
from dpspec.privacy.gaussian import float_down
from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_numbers, check_positive
from dpspec.privacy.noise import Array, NoiseSource
from dpspec.privacy.schedule import Family, Norm


@dataclass(frozen=True, slots=True)
class SmoothStudentVector(Drawn):
    """f(D) + S(D)/s*T in R^size, T of the multivariate Student law with nu = size + 2 degrees of freedom: epsilon-DP. Level = epsilon.

    S must satisfy both: S(D) is at least the l2 local sensitivity of f at D, and S(D) <= e^t*S(D') for all neighbours, t = ``smoothing``.
    The density is proportional to (1 + |x|^2/nu)^(-(nu + size)/2). With r = |x|:

        shift:     |grad log p| = (nu + size) r/(nu + r^2) <= (nu + size)/(2 sqrt(nu)), the largest at r = sqrt(nu);
        dilation:  d/da log(e^(-size a) p(e^(-a) x)) = (nu + size) r^2/(nu + r^2) - size (r of e^(-a) x) lies in [-size, nu];

    from D to D' first the centre moves by at most S(D), in units of the noise by s, and then the noise is dilated by at most e^(+-t), so

        epsilon = s*(size + 1)/sqrt(size + 2) + (size + 2)*t.

    E |T|^2 = size + 2. At size 1 it is :class:`~dpspec.privacy.mechanisms.smooth_sensitivity.SmoothStudent` with three degrees of freedom;
    nu = size + 4 has the least variance at a given s, and costs more for the dilation. Source: the method is that of Nissim,
    Raskhodnikova and Smith 2007, section 2; re-derived for this law. It takes the place of the Gaussian noise of 000, Algorithm 3.2.5,
    which has a delta.

    The noise scale depends on the records, so no grid can be chosen from it; the secure source rounds the sum to multiples of the
    public ``resolution``.
    """

    smoothing: float
    resolution: float
    size: int
    kind: ClassVar[str] = "smooth-student-vector"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    reference: ClassVar[str] = "Nissim, Raskhodnikova and Smith 2007, section 2 (re-derived for the multivariate Student law)"

    def __post_init__(self) -> None:
        check_positive(smoothing=self.smoothing, resolution=self.resolution, size=self.size)

    @property
    def freedom(self) -> int:
        return self.size + 2

    @property
    def _slope(self) -> float:
        """The largest slope of the log density, rounded up."""
        return (self.size + 1) / math.sqrt(self.size + 2) * (1.0 + 2.0**-50)

    def scale(self, level: float) -> float:
        """1/s: the noise is scale*S*T."""
        left = float_down(Fraction(check_level(level)) - self.freedom * Fraction(self.smoothing))
        if left <= 0:
            raise ValueError(
                f"smoothing {self.smoothing} with {self.freedom} degrees of freedom spends the whole epsilon {level}: smooth less"
            )
        return self._slope / left * (1.0 + 2.0**-40)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon: the slope of the log density times s = 1/scale, and the cost of dilating."""
        return self._slope / noise["scale"] + self.freedom * self.smoothing

    def check(self, value: Any) -> str | None:
        """``value`` is f(D) and S(D) in one array of size + 1 numbers."""
        problem = check_numbers(value, self.size + 1)
        if problem is None and not np.ravel(value)[-1] > 0:
            return "the smooth bound is not positive"
        return problem

    @property
    def claim(self) -> float:
        """A run states the exponent of its smooth bound."""
        return self.smoothing

    def blind(self, value: Any) -> tuple[Any, Any]:
        return np.array(value, dtype=float), np.append(np.zeros(self.size), 1.0)

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        """In units of :attr:`claim`: how far the values are apart in the smaller of the two bounds, and the logarithms of the bounds in
        ``smoothing``, whichever is more."""
        v, w = np.ravel(one).astype(float), np.ravel(other).astype(float)
        s, r = float(v[-1]), float(w[-1])
        return self.smoothing * max(length(v[:-1] - w[:-1]) / min(s, r), abs(math.log(s) - math.log(r)) / self.smoothing)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        numbers = np.ravel(value).astype(float)
        normals = noise.gaussian(1.0, self.size + self.freedom)
        t = normals[: self.size] / math.sqrt(float(normals[self.size :] @ normals[self.size :]) / self.freedom)
        out = numbers[:-1] + self.scale(level) * numbers[-1] * t
        return np.asarray(np.rint(out / self.resolution) * self.resolution if noise.secure else out)
