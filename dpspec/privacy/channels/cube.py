"""The channel of Duchi, Jordan and Wainwright for vectors of the cube."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspec.numeric.norms import check_size
from dpspec.privacy.channels.protocol import Records, block_rows, check_level, check_positive, check_scale, clip_cube, from_coth, rows
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, NoiseSource


@dataclass(frozen=True, slots=True)
class Cube:
    """epsilon-LDP for vectors of the l_inf ball of radius r; level = epsilon.

    The client rounds x to a corner v of {-1, 1}^p with mean x/r, draws z uniform on {-1, 1}^p and s = +1 with probability
    e^eps/(1 + e^eps), and answers B*s*sgn(<z, v>)*z, with B = r*(e^eps + 1)/(e^eps - 1)*2^(p-1)/binom(p - 1, floor(p/2)) ~ sqrt(pi*p/2).
    Unbiased: E[sgn(<z, v>) z_j] = v_j*E|sum of p signs|/p. E|R - x|^2 = p*B^2 - |x|^2.

    The source draws from the closed half cubes {<z, v> >= 0} and {<= 0}, where even p puts the corners of the boundary into both; its
    constant is then (2^(p-1) + binom(p, p/2)/2)/binom(p - 1, p/2). Here a boundary corner keeps probability 2^-p, which has the same
    ratio e^eps and a smaller B. The ratio does not depend on floating point, as in the hemisphere channel: given {z, -z}, one of the
    two ends is chosen by a sign with probability between 1/(1 + e^eps) and e^eps/(1 + e^eps). Source: Duchi, Jordan and Wainwright
    2018, section 4.2.3.
    """

    dim: int
    radius: float
    kind: ClassVar[str] = "cube"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    reference: ClassVar[str] = "Duchi, Jordan and Wainwright 2018, section 4.2.3 (boundary corners of even dimensions shared evenly)"

    def __post_init__(self) -> None:
        check_positive(dim=self.dim)
        check_size(radius=self.radius)

    @property
    def size(self) -> int:
        return self.dim

    def scale(self, level: float) -> float:
        """B, the magnitude of every coordinate of a report."""
        p, half = self.dim, self.dim // 2
        log_binomial = math.lgamma(p) - math.lgamma(half + 1) - math.lgamma(p - half)
        return check_scale(self.radius / math.tanh(check_level(level) / 2.0) * math.exp((p - 1) * math.log(2.0) - log_binomial))

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon from the length of a report, which is set by the probability of its sign: coth(epsilon/2) = scale/factor."""
        p, half = self.dim, self.dim // 2
        factor = self.radius * math.exp((p - 1) * math.log(2.0) - math.lgamma(p) + math.lgamma(half + 1) + math.lgamma(p - half))
        return from_coth(noise["scale"] / factor)

    def variance(self, level: float, norm: float = 0.0) -> float:
        """E|R - x|_2^2 for a record of l2 norm ``norm``."""
        return self.dim * self.scale(level) ** 2 - norm**2

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Array:
        x, single = rows(records, self.dim)
        users = x.shape[0]
        shares = np.clip(0.5 + 0.5 * clip_cube(x, self.radius) / self.radius, 0.0, 1.0)
        v = np.where(noise.bernoulli(shares, shares.shape), 1.0, -1.0)
        z = noise.sign((users, self.dim))
        sign = np.where(noise.keep(level, users) == (np.einsum("ij,ij->i", z, v) >= 0), 1.0, -1.0)
        z *= (sign * self.scale(level))[:, None]
        return np.asarray(z[0]) if single else z

    def aggregate(self, reports: Array, level: float) -> Array:
        mean: Array = np.atleast_2d(reports).mean(axis=0)
        return mean

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """Block by block; no cheaper exact law is known."""
        x, _ = rows(records, self.dim)
        total, step = np.zeros(self.dim), block_rows(self.dim)
        for start in range(0, x.shape[0], step):
            total += self.encode(x[start : start + step].reshape(-1, self.dim), level, noise).reshape(-1, self.dim).sum(axis=0)
        mean: Array = total / x.shape[0]
        return mean
