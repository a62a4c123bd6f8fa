"""The Gaussian channel for vectors of the l2 ball."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspec.numeric.norms import check_size, clip_rows, lengths
from dpspec.privacy.channels.protocol import Records, block_rows, check_level, check_positive, check_scale, plain, rows
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, NoiseSource


@dataclass(frozen=True, slots=True)
class GaussianVector:
    """Each user scales its record into the l2 ball of radius r and adds N(0, scale^2) to every coordinate.

    Neighbours: any two records (local model, replace-one), l2 sensitivity 2r: the diameter of the ball. Exactly mu-GDP with
    mu = 2r/scale = 1/level. Variance scale^2 a coordinate. Source: 000, sections 5.1 and 5.2; 004, Algorithm 1.
    """

    dim: int
    radius: float
    sensitivity: float = 0.0  # 0: the diameter 2*radius
    kind: ClassVar[str] = "gaussian-vector"
    family: ClassVar[Family] = "gaussian"
    norm: ClassVar[Norm] = "l2"
    reference: ClassVar[str] = "l2 diameter of the clipping ball; Dong, Roth, Su 2022 (Gaussian DP)"

    def __post_init__(self) -> None:
        check_positive(dim=self.dim)
        check_size(radius=self.radius)
        if self.sensitivity == 0.0:
            object.__setattr__(self, "sensitivity", 2.0 * self.radius)
        if not self.sensitivity >= 2.0 * self.radius:
            raise ValueError("a record of the ball can move by its diameter 2*radius: the sensitivity is not smaller")
        check_size(sensitivity=self.sensitivity)

    @property
    def size(self) -> int:
        return self.dim

    def scale(self, level: float) -> float:
        return check_scale(check_level(level) * self.sensitivity)

    def variance(self, level: float) -> float:
        """E|R - x|_2^2."""
        return self.dim * self.scale(level) ** 2

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Array:
        x, single = rows(records, self.dim)
        x = noise.add_gaussian(clip_rows(x, self.radius), self.scale(level), sensitivity=self.sensitivity, dim=self.dim)
        return x[0] if single else x

    def aggregate(self, reports: Array, level: float) -> Array:
        mean: Array = np.atleast_2d(reports).mean(axis=0)
        return mean

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """The sum of n independent normals is one normal: the clipped mean plus N(0, scale^2/n)."""
        accumulator = self.accumulate()
        accumulator.add(records)
        return accumulator.finish(level, noise)

    def accumulate(self) -> VectorAccumulator:
        return VectorAccumulator(self)


class VectorAccumulator:
    __slots__ = ("_channel", "_total", "count")

    def __init__(self, channel: GaussianVector) -> None:
        self._channel, self._total, self.count = channel, np.zeros(channel.dim), 0

    def add(self, x: Array, y: Array | None = None) -> None:
        channel, step = self._channel, block_rows(self._channel.dim, 1 << 18)
        whole = plain(x, channel.dim)
        for start in range(0, whole.shape[0], step):
            block = whole[start : start + step]
            found = lengths(block)
            if found.scaled.any():
                self._total += clip_rows(np.array(block), channel.radius).sum(axis=0)
            else:  # no copy: the factors of the rows into the ball are the weights of their sum
                self._total += np.minimum(1.0, found.limits(channel.radius)) @ block
        self.count += whole.shape[0]

    def finish(self, level: float, noise: NoiseSource) -> Array:
        return self._total / self.count + noise.gaussian(self._channel.scale(level) / self.count**0.5, self._channel.dim)
