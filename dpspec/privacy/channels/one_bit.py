"""One bit a user for the mean of a bounded number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspec.numeric.norms import check_size
from dpspec.privacy.channels.protocol import Records, check_level, check_scale, clip_cube, from_coth, rows
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, NoiseSource


@dataclass(frozen=True, slots=True)
class OneBitMean:
    """A number v of [-r, r] becomes the sign b with mean v/r; the sign is kept with probability e^eps/(1 + e^eps); the report is B
    times it, B = r*(e^eps + 1)/(e^eps - 1). epsilon-LDP with ratio exactly e^eps at v = r against v = -r; E R = v; Var R = B^2 - v^2.

    A vector record is one such bit a coordinate only in :class:`~dpspec.privacy.channels.sampled_coordinate.SampledCoordinate`; here dim
    is 1. Source: Duchi, Jordan and Wainwright 2018; it is the repair of 000, Algorithm 5.1.32, whose one-bit message is not epsilon-LDP
    (the message 0 of its transform was never checked).
    """

    radius: float
    kind: ClassVar[str] = "one-bit-mean"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    size: ClassVar[int] = 1
    reference: ClassVar[str] = "Duchi, Jordan and Wainwright 2018; repairs 000 Algorithm 5.1.32"

    def __post_init__(self) -> None:
        check_size(radius=self.radius)

    def scale(self, level: float) -> float:
        return check_scale(self.radius / math.tanh(check_level(level) / 2.0))

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon from the length of a report, which is set by the probability of its sign: coth(epsilon/2) = scale/factor."""
        factor = self.radius
        return from_coth(noise["scale"] / factor)

    def variance(self, level: float, value: float = 0.0) -> float:
        return self.scale(level) ** 2 - value**2

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Array:
        x, single = rows(records, 1)
        reports = one_bit(clip_cube(x, self.radius) / self.radius, level, noise) * self.scale(level)
        return np.asarray(reports[0]) if single else reports

    def aggregate(self, reports: Array, level: float) -> Array:
        return np.array([float(np.mean(reports))])

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """One coin a user with the product probability 1/2 + v/(2B): half the draws of :meth:`encode`."""
        x, _ = rows(records, 1)
        v = clip_cube(x[:, 0], self.radius)
        heads = int(noise.bernoulli(0.5 + 0.5 * v / self.scale(level), v.size).sum())
        return np.array([self.scale(level) * (2.0 * heads / v.size - 1.0)])


def one_bit(shares: Array, level: float, noise: NoiseSource) -> Array:
    """Signs (+1, -1) with mean share*tanh(eps/2), share in [-1, 1]. The last step is randomised response on a sign, whose ratio is at most
    e^eps whatever the rounding of the first."""
    b = noise.bernoulli(np.clip(0.5 + 0.5 * shares, 0.0, 1.0), shares.shape)
    kept = noise.keep(level, shares.shape)
    return np.where(b == kept, 1.0, -1.0)
