"""One coordinate, one bit: the cheapest report for a vector of the cube."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspec.numeric.norms import check_size
from dpspec.privacy.channels.one_bit import one_bit
from dpspec.privacy.channels.protocol import Records, check_level, check_positive, check_scale, clip_cube, from_coth, rows
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, NoiseSource


@dataclass(frozen=True, slots=True)
class SampledCoordinate:
    """Each user draws a coordinate j uniformly, without looking at its record, and sends (j, the one-bit report of x_j at the full
    epsilon).

    Records are clipped to the cube of half-width r. The report is the vector dim*B*sign*e_j with B = r*(e^eps + 1)/(e^eps - 1): unbiased,
    E|R - x|_2^2 = dim^2*B^2 - |x|_2^2. epsilon-LDP: j is independent of the record, and the sign is randomised response.
    Reports are pairs of integers (j, sign), shape (users, 2).
    """

    dim: int
    radius: float
    kind: ClassVar[str] = "sampled-coordinate"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    reference: ClassVar[str] = "Nguyen et al. 2016 (Harmony), with the one-bit report of Duchi, Jordan and Wainwright 2018"

    def __post_init__(self) -> None:
        check_positive(dim=self.dim)
        check_size(radius=self.radius)

    @property
    def size(self) -> int:
        return self.dim

    def scale(self, level: float) -> float:
        """The magnitude dim*B of the one entry that is not zero."""
        return check_scale(self.dim * self.radius / math.tanh(check_level(level) / 2.0))

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon from the length of a report, which is set by the probability of its sign: coth(epsilon/2) = scale/factor."""
        factor = self.dim * self.radius
        return from_coth(noise["scale"] / factor)

    def variance(self, level: float, norm: float = 0.0) -> float:
        """E|R - x|_2^2."""
        return self.scale(level) ** 2 - norm**2

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Array:
        x, single = rows(records, self.dim)
        users = x.shape[0]
        j = noise.integers(self.dim, users)
        shares = clip_cube(x[np.arange(users), j], self.radius) / self.radius
        reports = np.stack([j.astype(float), one_bit(shares, level, noise)], axis=1)
        return np.asarray(reports[0]) if single else reports

    def aggregate(self, reports: Array, level: float) -> Array:
        pairs = np.atleast_2d(reports)
        total = np.bincount(pairs[:, 0].astype(np.int64), weights=pairs[:, 1], minlength=self.dim)
        return np.asarray(total * (self.scale(level) / pairs.shape[0]), dtype=float)

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """O(n) already: the clients' own path."""
        return self.aggregate(np.atleast_2d(self.encode(records, level, noise)), level)
