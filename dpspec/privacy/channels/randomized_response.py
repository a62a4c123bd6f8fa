"""Randomised response: binary and k-ary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpspec.privacy.channels.categories import check_categories, check_tellable, codes, multinomial_uniform
from dpspec.privacy.channels.protocol import Records, check_level, from_coth
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, Integers, NoiseSource, down


@dataclass(frozen=True, slots=True)
class BinaryResponse:
    """A bit is kept with probability p = e^eps/(1 + e^eps), flipped otherwise: epsilon-LDP, ratio exactly e^eps; level = epsilon.

    ``aggregate``: (mean - (1 - p))/(2p - 1), unbiased for the share of ones; variance at most 1/(4n)*coth(eps/2)^2. Source: Warner
    1965; 000, equation (7.9), for crowd labels. Records: 0 or 1, shape (users,); anything else is 0. Reports: integers.
    """

    kind: ClassVar[str] = "binary-response"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    size: ClassVar[int] = 1
    reference: ClassVar[str] = "Warner 1965; 000 eq. (7.9)"

    def scale(self, level: float) -> float:
        """coth(eps/2): an unbiased report is 1/2 +- scale/2."""
        return 1.0 / math.tanh(check_level(level) / 2.0)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon from the length of a report, which is set by the probability of its sign: coth(epsilon/2) = scale."""
        return from_coth(noise["scale"])

    def variance(self, level: float) -> float:
        """Of one unbiased report, whatever the bit, around it: (scale^2 - 1)/4."""
        return (self.scale(level) ** 2 - 1.0) / 4.0

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Integers:
        bits, single = codes(records, 2)
        out: Integers = np.where(noise.keep(check_level(level), bits.size), bits, 1 - bits)
        return out[0] if single else out

    def aggregate(self, reports: Integers, level: float) -> Array:
        return self.from_counts(np.bincount(np.atleast_1d(reports), minlength=2), level)

    def from_counts(self, counts: Integers, level: float) -> Array:
        """The estimate from how many reports are 0 and 1."""
        return np.array([0.5 + self.scale(level) * (float(counts[1] / counts.sum()) - 0.5)])

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """Two binomials."""
        bits, _ = codes(records, 2)
        ones, p = int(bits.sum()), 0.5 + 0.5 * math.tanh(check_level(level) / 2.0)
        kept = noise.binomial(np.array([ones, bits.size - ones]), p, 2)
        return np.array([0.5 + self.scale(level) * ((kept[0] + bits.size - ones - kept[1]) / bits.size - 0.5)])


@dataclass(frozen=True, slots=True)
class KaryResponse:
    """One of k categories is kept with probability e^eps/(e^eps + k - 1), otherwise one of the others is sent: epsilon-LDP.

    Drawn as: the record with probability a = (e^eps - 1)/(e^eps - 1 + k), a uniform category otherwise. The ratio is 1 + k*a/(1 - a) =
    e^eps; the secure source cuts a downwards. Variance of one frequency estimate about (k - 2 + e^eps)/(n*(e^eps - 1)^2). Source:
    Kairouz, Bonawitz and Ramage 2016.
    """

    k: int
    kind: ClassVar[str] = "kary-response"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    size: ClassVar[int] = 1
    reference: ClassVar[str] = "Kairouz, Bonawitz and Ramage 2016"

    def __post_init__(self) -> None:
        check_categories(self.k)

    def truth(self, level: float) -> Fraction:
        """a, never above (e^eps - 1)/(e^eps - 1 + k)."""
        grow = math.expm1(min(check_tellable(level), 700.0))
        return down(grow / (grow + self.k))

    def scale(self, level: float) -> float:
        """1/a: the weight of a report in the unbiased estimate."""
        return float(1 / self.truth(level))

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon: the record with a + (1 - a)/k against (1 - a)/k, a = 1/scale."""
        a = 1.0 / noise["scale"]
        if not 0 <= a < 1:
            raise ValueError("the weight of a report is above 1")
        return math.log1p(self.k * a / (1.0 - a))

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Integers:
        x, single = codes(records, self.k)
        out: Integers = np.where(noise.bernoulli(self.truth(level), x.size), x, noise.integers(self.k, x.size))
        return out[0] if single else out

    def aggregate(self, reports: Integers, level: float) -> Array:
        return self.from_counts(np.bincount(np.atleast_1d(reports), minlength=self.k), level)

    def from_counts(self, counts: Integers, level: float) -> Array:
        """The estimate from how many reports name each category."""
        a = float(self.truth(level))
        out: Array = (counts / counts.sum() - (1.0 - a) / self.k) / a
        return out

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """Kept counts are binomial, the rest falls uniformly: O(k) draws."""
        x, _ = codes(records, self.k)
        kept = noise.binomial(np.bincount(x, minlength=self.k), self.truth(level), self.k)
        return self.from_counts(kept + multinomial_uniform(x.size - int(kept.sum()), self.k, noise), level)
