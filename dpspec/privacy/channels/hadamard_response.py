"""Hadamard response: one integer a user, near-optimal for small epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspec.privacy.channels.categories import check_categories, codes
from dpspec.privacy.channels.protocol import Records, check_level, from_coth
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, Bools, Integers, NoiseSource


@dataclass(frozen=True, slots=True)
class HadamardResponse:
    """Category x owns the half C_x of {0 .. K - 1} where row x + 1 of the K by K Hadamard matrix is +1 (K = 2^ceil(log2(k + 1))); the
    report is a uniform member of C_x with probability e^eps/(1 + e^eps), of its complement otherwise. epsilon-LDP, ratio exactly e^eps.

    Drawn as: y uniform on K, a sign s of probability e^eps/(1 + e^eps), and y moved to the other half by flipping one fixed bit of row
    x + 1 when its half is not the wanted one. Two halves of different categories share K/4 members, so the estimate
    2*coth(eps/2)*(share of reports in C_x - 1/2) is unbiased. Source: Acharya, Sun and Zhang 2019.
    """

    k: int
    kind: ClassVar[str] = "hadamard-response"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    size: ClassVar[int] = 1
    reference: ClassVar[str] = "Acharya, Sun and Zhang 2019"

    def __post_init__(self) -> None:
        check_categories(self.k)

    @property
    def order(self) -> int:
        """K."""
        return 1 << self.k.bit_length()

    def scale(self, level: float) -> float:
        """coth(eps/2): an unbiased estimate of the frequency of x is the mean of scale*(+1 in C_x, -1 outside)."""
        return 1.0 / math.tanh(check_level(level) / 2.0)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon from the length of a report, which is set by the probability of its sign: coth(epsilon/2) = scale."""
        return from_coth(noise["scale"])

    def variance(self, level: float) -> float:
        """Largest variance of one frequency estimate of one report: scale^2."""
        return self.scale(level) ** 2

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Integers:
        x, single = codes(records, self.k)
        row = x + 1
        y = noise.integers(self.order, x.size)
        outside = _odd(row & y)
        move = outside == noise.keep(check_level(level), x.size)
        out = np.where(move, y ^ (row & -row), y)
        return out[0] if single else out

    def aggregate(self, reports: Integers, level: float) -> Array:
        """A fast Walsh-Hadamard transform of the counts: O(K log K)."""
        return self.from_counts(np.bincount(np.atleast_1d(reports), minlength=self.order), level)

    def from_counts(self, counts: Integers, level: float) -> Array:
        """The estimate from how many reports name each of the K members."""
        out: Array = self.scale(level) * walsh(np.asarray(counts, dtype=float))[1 : self.k + 1] / counts.sum()
        return out

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """O(n) already: the clients' own path."""
        x, _ = codes(records, self.k)
        return self.aggregate(self.encode(x, level, noise), level)


def _odd(values: Integers) -> Bools:
    """Whether the number of set bits is odd."""
    v = values.copy()
    for shift in (32, 16, 8, 4, 2, 1):
        v ^= v >> shift
    odd: Bools = (v & 1) == 1
    return odd


def walsh(values: Array) -> Array:
    """H v for the Sylvester Hadamard matrix H_ij = (-1)^popcount(i & j); the length is a power of two."""
    v = values.copy()
    step = 1
    while step < v.size:
        v = v.reshape(-1, 2, step)
        v = np.stack([v[:, 0] + v[:, 1], v[:, 0] - v[:, 1]], axis=1).reshape(-1)
        step *= 2
    return v
