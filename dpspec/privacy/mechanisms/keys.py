"""Counts and sums of keys that nobody declared: noise of bounded reach, and a key is named only above it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy.mechanisms import cube_norm
from dpspec.privacy.mechanisms.gaussian_keys import GaussianKeys, moved, not_counts
from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_positive
from dpspec.privacy.noise import Integers, NoiseSource
from dpspec.privacy.schedule import Family, Norm

_MARGIN = 1e-9  # share of delta kept back for the rounding of two exponentials


def edge(scale: float, reach: int) -> float:
    """P(Z = reach) of discrete Laplace noise of this scale, conditioned on |Z| <= reach."""
    q, rest = math.exp(-1.0 / scale), -math.expm1(-1.0 / scale)
    far = math.exp(-reach / scale)
    return far * rest / (2.0 * q * -math.expm1(-reach / scale) + rest)


def top(scale: float, reach: int, most: int) -> float:
    """P(Z > reach - most), the weight of the ``most`` largest values of that noise; 1 where the reach is no larger."""
    if most <= 0:
        return 0.0
    return 1.0 if most > reach else edge(scale, reach) * (math.expm1(most / scale) / math.expm1(1.0 / scale) if most > 1 else 1.0)


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

    ``most``: how far one key's count moves, where a unit has several records: then |moves| add up to ``sensitivity``, and for a key that
    moves by m the laws differ by e^(m/s), and one has no weight where the other has P(Z > r - m), which is convex in m and 0 at 0: the
    largest sum over keys is where as many as possible move by ``most``, and one by what is left.

    Source: Desfontaines, Voss, Gipson and Mandayam 2022, Theorems 1 and 3, where r is one number for all keys. Drawn by rejection from
    exact discrete Laplace noise, which is conditioning without rounding.
    """

    sensitivity: float
    delta: float
    most: int = 1
    kind: ClassVar[str] = "keys-truncated"
    family: ClassVar[Family] = "approx"
    norm: ClassVar[Norm] = "l1"
    size: ClassVar[int] = 1
    open_ended: ClassVar[bool] = True
    accountant: ClassVar[str] = "truncated noise"
    reference: ClassVar[str] = "Desfontaines, Voss, Gipson and Mandayam 2022, Theorems 1 and 3"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, delta=self.delta, most=self.most)
        if not self.delta < 1:
            raise ValueError(f"delta must be below 1, not {self.delta!r}")
        if self.most > 1 and self.sensitivity != math.floor(self.sensitivity):
            raise ValueError("counts move by whole numbers")

    @property
    def moved(self) -> float:
        """How many keys one unit moves at most: at least two where a record is replaced."""
        return self.sensitivity

    @property
    def moves(self) -> tuple[tuple[int, float], ...]:
        """How far keys move where the most delta is spent, and how many of them: (by, keys)."""
        if self.most == 1:
            return ((1, self.sensitivity),)
        full, left = divmod(int(self.sensitivity), self.most)
        return ((self.most, float(full)), (left, 1.0))

    def lost(self, scale: float, reach: int) -> float:
        """The delta of one reach for all keys."""
        return math.fsum(keys * top(scale, reach, by) for by, keys in self.moves if by and keys)

    def scale(self, level: float) -> float:
        found = self.sensitivity / check_level(level)
        if found > 2.0**40:
            raise ValueError(f"discrete Laplace noise {found:.3g} wide is not drawn")
        return found

    def reach(self, level: float) -> tuple[int, float]:
        """(k, p): the larger reach, and the probability of k - 1 in its place."""
        if self.most > 1:
            return self._farther(self._drawn(level), self.delta * (1.0 - _MARGIN))
        scale, target = self._drawn(level), self.delta / self.sensitivity * (1.0 - _MARGIN)
        k = least_reach(scale, target)
        if k == 1:  # a reach of 0 names every key
            return 1, 0.0
        long, short = edge(scale, k), edge(scale, k - 1)
        return k, min(max((target - long) / (short - long), 0.0), 1.0)

    def _farther(self, scale: float, target: float) -> tuple[int, float]:
        low, high = self.most, 2 * self.most + 2
        while self.lost(scale, high) > target:
            low, high = high, 2 * high
            if high > 2**52:
                raise ValueError(f"a reach of {high:.3g} does not fit 64-bit integers")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.lost(scale, middle) <= target else (middle, high)
        long, short = self.lost(scale, high), self.lost(scale, high - 1)
        return high, min(max((target - long) / (short - long), 0.0), 1.0)

    def numbers(self, level: float) -> dict[str, float]:
        k, p = self.reach(level)
        return {"scale": self.scale(level), "reach": float(k), "p": p}

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon = sensitivity/s, where the reach keeps ``delta``; infinite where it does not."""
        reach, p = int(noise["reach"]), noise["p"]
        if reach != noise["reach"] or reach < 1 or noise["scale"] <= 0 or not 0 <= p <= 1:
            raise ValueError("the reach is a whole number of at least 1, the scale is positive and p is a probability")
        if (1 - p) * self.lost(noise["scale"], reach) + (p * self.lost(noise["scale"], reach - 1) if p else 0.0) > self.delta:
            return math.inf
        return self.sensitivity / noise["scale"]

    def delta_by_quadrature(self, level: float, epsilon: float) -> float:
        """delta at ``epsilon``, a key at a time, from the sum of all weights."""
        s, (k, p) = self._drawn(level), self.reach(level)

        def of(reach: int, by: int) -> float:
            most, allowed = by / s, epsilon * by / self.sensitivity  # where both have weight
            ahead = 0.0 if allowed >= most else math.exp(most) * -math.expm1(allowed - most) if most < 700 else math.inf
            total = math.fsum(float(np.exp(-np.arange(a, min(a + 2**20, reach + 1)) / s).sum()) for a in range(0, reach + 1, 2**20))
            alone = math.fsum(math.exp(-v / s) for v in range(max(reach - by, 0) + 1, reach + 1))
            return (alone + ahead * total) / (2.0 * total - 1.0)

        return math.fsum(keys * ((1.0 - p) * of(k, by) + (p * of(k - 1, by) if p else 0.0)) for by, keys in self.moves if by and keys)

    @staticmethod
    def _wider(scale: float) -> float:
        return float(np.nextafter(scale, math.inf))

    def _drawn(self, level: float) -> float:
        return self._wider(self.scale(level))

    def check(self, value: Any) -> str | None:
        """``value``: (2, m), the keys as different numbers and their counts."""
        return not_counts(value)

    def blind(self, value: Any) -> tuple[Any, Any]:
        """What is drawn in its place is that of no key."""
        return np.array(value, dtype=float), np.zeros((2, 0))

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        """The sum over keys of how far their counts are apart, infinite where one is by more than ``most``."""
        apart = moved(one, other)
        return math.inf if max(apart, default=0.0) > self.most else math.fsum(apart)

    def half(self, level: float) -> float:
        """About the count at which a key is named half of the time."""
        k, p = self.reach(level)
        return k + 1 - p

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


@dataclass(frozen=True, slots=True)
class KeyedSums(Drawn):
    """For each key that the records hold: how many units have it, and ``width`` whole numbers; a key is named by its count, and of a named
    key the numbers are published with noise P(z) proportional to e^(-|z|_inf/b): (level, ``delta``)-DP. Level = epsilon.

    ``keys``: in how many keys one unit is counted, once each (2 where a record is replaced); ``sensitivity``: the sum over keys of how far
    it moves their numbers in l_inf. The ``share`` of epsilon goes to the names: :class:`TruncatedKeys` of the counts, at share*epsilon and
    delta. Whatever set of keys is named, the numbers of just these keys (0 for one that the records lack) move by at most
    ``sensitivity``, so that their noise, b = sensitivity/((1 - share) epsilon), is (1 - share) epsilon-DP given the names: adaptive
    composition. Sources: Desfontaines, Voss, Gipson and Mandayam 2022; Hardt and Talwar 2010.
    """

    sensitivity: float
    keys: float
    width: int
    delta: float
    share: float
    kind: ClassVar[str] = "keys-sums"
    family: ClassVar[Family] = "approx"
    norm: ClassVar[Norm] = "linf"
    size: ClassVar[int] = 1
    open_ended: ClassVar[bool] = True
    accountant: ClassVar[str] = "truncated noise and a K-norm"
    reference: ClassVar[str] = "Desfontaines, Voss, Gipson and Mandayam 2022; Hardt and Talwar 2010"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, keys=self.keys, width=self.width, delta=self.delta)
        if not (self.delta < 1 and 0 < self.share < 1):
            raise ValueError("delta and the share of epsilon for names lie between 0 and 1")

    @property
    def names(self) -> TruncatedKeys | GaussianKeys:
        return TruncatedKeys(self.keys, self.delta)

    @property
    def moved(self) -> float:
        return self.names.moved

    def scale(self, level: float) -> float:
        """b of the numbers' noise."""
        found = self.sensitivity / (check_level(level) * (1.0 - self.share))
        if (self.width + 1) * found > 2.0**50:
            raise ValueError(f"noise of {found:.3g} in {self.width} coordinates does not fit 64-bit integers")
        return found

    def numbers(self, level: float) -> dict[str, float]:
        named = self.names.numbers(level * self.share)
        return {"scale": self.scale(level), "names": named.pop("scale"), **named}

    def spent(self, noise: Mapping[str, float]) -> float:
        """What the names spend, and sensitivity/b; infinite where they do not keep ``delta``."""
        if noise["scale"] <= 0:
            raise ValueError("the scale is positive")
        return self.names.spent({**noise, "scale": noise["names"]}) + self.sensitivity / noise["scale"]

    def delta_by_quadrature(self, level: float, epsilon: float) -> float:
        """delta at ``epsilon``: that of the names at what the numbers leave of it."""
        return self.names.delta_by_quadrature(level * self.share, max(epsilon - level * (1.0 - self.share), 0.0))

    def check(self, value: Any) -> str | None:
        """``value``: (2 + width, m): keys, counts of units, and numbers."""
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or array.ndim != 2 or array.shape[0] != 2 + self.width:
            return f"the value is not a row of keys, a row of counts and {self.width} of numbers"
        problem = self.names.check(array[:2])
        if problem is None and ((array[2:] != np.rint(array[2:])).any() or (np.abs(array[2:]) >= 2.0**53).any()):
            return "a number is not a whole number below 2^53"
        return problem

    def blind(self, value: Any) -> tuple[Any, Any]:
        """What is drawn in its place is that of no key."""
        return np.array(value, dtype=float), np.zeros((2 + self.width, 0))

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        """How far the numbers are apart; infinite where counts are by more than they may."""
        first, second = ({float(k[0]): k[1:] for k in np.asarray(v, dtype=float).T} for v in (one, other))
        none = np.zeros(1 + self.width)
        apart = [np.abs(first.get(k, none) - second.get(k, none)) for k in {*first, *second}]
        counts = [float(a[0]) for a in apart]
        if max(counts, default=0.0) > 1 or math.fsum(counts) > self.keys:
            return math.inf
        return math.fsum(float(a[1:].max()) for a in apart)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Integers:
        """(1 + width, m): the noisy count of each key, 0 where it is not named, and its noisy numbers, 0 where it is not."""
        array = np.asarray(value)
        counts = self.names.apply(array[:2], level * self.share, noise)
        numbers = np.zeros((self.width, counts.size), dtype=np.int64)
        scale = float(np.nextafter(self.scale(level), math.inf))
        for j in np.flatnonzero(counts):
            numbers[:, j] = array[2:, j].astype(np.int64) + cube_norm.sample(scale, self.width, noise)
        return np.vstack([counts, numbers])


@dataclass(frozen=True, slots=True)
class GaussianKeyedSums(KeyedSums):
    """The same where the names are those of :class:`GaussianKeys`, at share*epsilon and delta: the better where a unit has many keys."""

    kind: ClassVar[str] = "keys-sums-gaussian"
    family: ClassVar[Family] = "approx"
    accountant: ClassVar[str] = "Gaussian threshold and a K-norm"
    reference: ClassVar[str] = "Wilkins, Kifer, Zhang and Karrer 2024; Hardt and Talwar 2010"

    @property
    def names(self) -> TruncatedKeys | GaussianKeys:
        return GaussianKeys(self.keys, int(self.keys), self.delta)
