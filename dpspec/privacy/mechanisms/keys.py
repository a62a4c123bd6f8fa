"""Counts of keys that nobody declared: noise of bounded reach, and a key is named only above it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_positive
from dpspec.privacy.noise import Integers, NoiseSource
from dpspec.privacy.schedule import Family, Norm

_MARGIN = 1e-9  # share of delta kept back for the rounding of two exponentials


def edge(scale: float, reach: int) -> float:
    """P(Z = reach) of discrete Laplace noise of this scale, conditioned on |Z| <= reach."""
    q, rest = math.exp(-1.0 / scale), -math.expm1(-1.0 / scale)
    far = math.exp(-reach / scale)
    return far * rest / (2.0 * q * -math.expm1(-reach / scale) + rest)


def least_reach(scale: float, target: float) -> int:
    """The least reach whose :func:`edge` is at most ``target``."""
    q, rest = math.exp(-1.0 / scale), -math.expm1(-1.0 / scale)
    guess = scale * math.log((rest + 2.0 * q * target) / (target * (1.0 + q)))
    if guess > 2.0**52:
        raise ValueError(f"a reach of {guess:.3g} does not fit 64-bit integers")
    k = max(1, math.ceil(guess) - 2)
    while edge(scale, k) > target:
        k += 1
    return k


@dataclass(frozen=True, slots=True)
class TruncatedKeys(Drawn):
    """The counts of the keys that the records hold, (keys, counts), each with noise Z, P(Z = z) proportional to e^(-|z|/s) for |z| <= r;
    a key is published, with its noisy count, where that exceeds r: (level, ``delta``)-DP. Level = epsilon.

    ``sensitivity``: how many keys' counts one record moves, each by one: 1 where it is there or not, 2 where it is replaced. A key without
    records is never published, since 0 + Z <= r, so it does not matter that only keys that are there are looked at. For each key that is
    moved: the two laws differ by a factor of at most e^(1/s) where both have weight, and each has weight P(Z = r) where the other has
    none: (1/s, P(Z = r)) a key, s = sensitivity/epsilon, and basic composition adds up.

    r is whole, so P(Z = r) is not delta/sensitivity in general. Each key tosses a coin that does not look at it: r = k with P(Z = k) below
    that, or r = k - 1 with probability p, such that the mean is delta/sensitivity: a mixture has at most the mean of its parts' deltas. A
    key of one record is then named with probability delta/sensitivity, which nobody can beat.

    Source: Desfontaines, Voss, Gipson and Mandayam 2022, Theorems 1 and 3, where r is one number for all keys. Drawn by rejection from
    exact discrete Laplace noise, which is conditioning without rounding.
    """

    sensitivity: float
    delta: float
    kind: ClassVar[str] = "keys-truncated"
    family: ClassVar[Family] = "approx"
    norm: ClassVar[Norm] = "l1"
    size: ClassVar[int] = 1
    open_ended: ClassVar[bool] = True
    accountant: ClassVar[str] = "truncated noise"
    reference: ClassVar[str] = "Desfontaines, Voss, Gipson and Mandayam 2022, Theorems 1 and 3"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, delta=self.delta)
        if not self.delta < 1:
            raise ValueError(f"delta must be below 1, not {self.delta!r}")

    def scale(self, level: float) -> float:
        found = self.sensitivity / check_level(level)
        if found > 2.0**40:
            raise ValueError(f"discrete Laplace noise {found:.3g} wide is not drawn")
        return found

    def reach(self, level: float) -> tuple[int, float]:
        """(k, p): the larger reach, and the probability of k - 1 in its place."""
        scale, target = self._drawn(level), self.delta / self.sensitivity * (1.0 - _MARGIN)
        k = least_reach(scale, target)
        if k == 1:  # a reach of 0 names every key
            return 1, 0.0
        long, short = edge(scale, k), edge(scale, k - 1)
        return k, min(max((target - long) / (short - long), 0.0), 1.0)

    def numbers(self, level: float) -> dict[str, float]:
        k, p = self.reach(level)
        return {"scale": self.scale(level), "reach": float(k), "p": p}

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon = sensitivity/s, where the reach keeps ``delta``; infinite where it does not."""
        reach, p = int(noise["reach"]), noise["p"]
        if reach != noise["reach"] or reach < 1 or noise["scale"] <= 0 or not 0 <= p <= 1:
            raise ValueError("the reach is a whole number of at least 1, the scale is positive and p is a probability")
        alone = (1 - p) * edge(noise["scale"], reach) + (p * edge(noise["scale"], reach - 1) if p else 0.0)
        if self.sensitivity * alone > self.delta:
            return math.inf
        return self.sensitivity / noise["scale"]

    def delta_by_quadrature(self, level: float, epsilon: float) -> float:
        """delta at ``epsilon``, a key at a time, from the sum of all weights."""
        s, (k, p) = self._drawn(level), self.reach(level)
        ahead = max(0.0, math.exp(1.0 / s) - math.exp(epsilon / self.sensitivity))  # where both have weight

        def of(reach: int) -> float:
            total = math.fsum(float(np.exp(-np.arange(a, min(a + 2**20, reach + 1)) / s).sum()) for a in range(0, reach + 1, 2**20))
            return (math.exp(-reach / s) + ahead * total) / (2.0 * total - 1.0)

        return self.sensitivity * ((1.0 - p) * of(k) + (p * of(k - 1) if p else 0.0))

    @staticmethod
    def _wider(scale: float) -> float:
        return float(np.nextafter(scale, math.inf))

    def _drawn(self, level: float) -> float:
        return self._wider(self.scale(level))

    def check(self, value: Any) -> str | None:
        """``value``: (2, m), the keys as different numbers and their counts."""
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or array.ndim != 2 or array.shape[0] != 2:
            return "the value is not a row of keys above a row of counts"
        if not np.isfinite(array).all():
            return "the value holds a NaN or an infinity"
        counts = array[1]
        if (counts != np.rint(counts)).any() or (counts < 0).any() or (counts > 2.0**52).any():
            return "a count is not a whole number between 0 and 2^52"
        return "a key stands twice" if np.unique(array[0]).size != array.shape[1] else None

    def blind(self, value: Any) -> tuple[Any, Any]:
        """What is drawn in its place is that of no key."""
        return np.array(value, dtype=float), np.zeros((2, 0))

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        """The sum over keys of how far their counts are apart, infinite where one is by more than one."""
        first, second = ({float(k): float(c) for k, c in np.asarray(v, dtype=float).T} for v in (one, other))
        apart = [abs(first.get(k, 0.0) - second.get(k, 0.0)) for k in {*first, *second}]
        return math.inf if max(apart, default=0.0) > 1 else math.fsum(apart)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Integers:
        """The noisy count of each key, 0 where it is not published."""
        counts = np.asarray(value)[1].astype(np.int64)
        scale, (k, p) = self._drawn(level), self.reach(level)
        reach = k - np.asarray(noise.bernoulli(p, counts.size), dtype=np.int64)
        drawn = np.zeros(counts.shape, dtype=np.int64)
        left = np.arange(counts.size)
        while left.size:
            z = np.asarray(noise.discrete_laplace(scale, left.size), dtype=np.int64)
            kept = np.abs(z) <= reach[left]
            drawn[left[kept]] = z[kept]
            left = left[~kept]
        noisy = counts + drawn
        return np.where(noisy > reach, noisy, 0)
