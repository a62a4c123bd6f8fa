"""Subset selection: a random set of categories that tends to hold the true one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpspec.privacy.channels.categories import check_categories, check_tellable, codes
from dpspec.privacy.channels.protocol import Records, check_level
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, Bools, Integers, NoiseSource, down


@dataclass(frozen=True, slots=True)
class SubsetSelection:
    """The report is a set of w = ceil(k/(e^eps + 1)) categories, at most k - 1: with probability p = e^eps*w/(e^eps*w + k - w) the
    record and w - 1 others, otherwise w of the others, uniform in both cases. epsilon-LDP: a set has probability p/C(k-1, w-1) or
    (1-p)/C(k-1, w), ratio e^eps.

    Estimate (share of reports that hold j - q)/(p - q) with q = p*(w - 1)/(k - 1) + (1 - p)*w/(k - 1). Optimal in the minimax sense for all
    epsilon. Source: Ye and Barg 2018; Wang et al. 2019. Reports: boolean rows of length k.
    """

    k: int
    kind: ClassVar[str] = "subset-selection"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    reference: ClassVar[str] = "Ye and Barg 2018; Wang et al. 2019"

    def __post_init__(self) -> None:
        check_categories(self.k)

    @property
    def size(self) -> int:
        return self.k

    def width(self, level: float) -> int:
        """w."""
        return min(self.k - 1, max(1, math.ceil(self.k / (math.exp(min(check_level(level), 700.0)) + 1.0))))

    def truth(self, level: float) -> Fraction:
        """p, never above its formula; and, from this level on, never so far below it that the ratio turns over."""
        w = self.width(check_tellable(level))
        return down(w / (w + (self.k - w) * math.exp(-level)))

    def scale(self, level: float) -> float:
        """1/(p - q)."""
        p, q = self._chances(level)
        return 1.0 / (p - q)

    def numbers(self, level: float) -> dict[str, float]:
        return {"scale": self.scale(level), "truth": float(self.truth(level)), "width": self.width(level)}

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon: a set of w with the record has probability p/C(k - 1, w - 1), one without it (1 - p)/C(k - 1, w)."""
        p, w = noise["truth"], noise["width"]
        if not (0 < p < 1 and 1 <= w < self.k and w == int(w)):
            raise ValueError("a set has between 1 and k - 1 categories, and a probability lies in (0, 1)")
        return math.log(p / (1.0 - p) * (self.k - w) / w)

    def _chances(self, level: float) -> tuple[float, float]:
        p, w = float(self.truth(level)), self.width(level)
        return p, (p * (w - 1) + (1.0 - p) * w) / (self.k - 1)

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Bools:
        x, single = codes(records, self.k)
        users, w = x.size, self.width(level)
        holds = noise.bernoulli(self.truth(level), users)
        others = self._others(x, noise)
        out = np.zeros((users, self.k), dtype=bool)
        np.put_along_axis(out, others[:, : w - 1], True, axis=1)
        row = np.arange(users)
        out[row, np.where(holds, x, others[:, w - 1])] = True
        return np.asarray(out[0]) if single else out

    def _others(self, x: Integers, noise: NoiseSource) -> Integers:
        """The other categories of each user in uniform order, then its own, shape (users, k): by 62-bit keys. A row with two equal keys is
        drawn again, as an order that falls back on positions is not uniform."""
        order = np.empty((x.size, self.k), dtype=np.int64)
        left = np.arange(x.size)
        while left.size:
            keys = noise.integers(2**62, (left.size, self.k))
            keys[np.arange(left.size), x[left]] = np.iinfo(np.int64).max
            order[left] = np.argsort(keys, axis=1)
            ranked = np.take_along_axis(keys, order[left], axis=1)
            left = left[(ranked[:, 1:] == ranked[:, :-1]).any(axis=1)]
        return order

    def aggregate(self, reports: Bools, level: float) -> Array:
        p, q = self._chances(level)
        mean: Array = (np.atleast_2d(reports).mean(axis=0) - q) / (p - q)
        return mean

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """The clients' own path, in blocks."""
        x, _ = codes(records, self.k)
        total, step = np.zeros(self.k), max(1, 2**20 // self.k)
        for start in range(0, x.size, step):
            part = x[start : start + step]
            total += part.size * self.aggregate(self.encode(part, level, noise), level)
        return total / x.size
