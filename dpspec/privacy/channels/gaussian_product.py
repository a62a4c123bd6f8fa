"""The Gaussian channel for products x*y: one side of a local regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspec.numeric.norms import check_size
from dpspec.privacy.channels.protocol import Records, check_level, check_positive, check_scale, clip_cube, numbers, rows
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, NoiseSource


@dataclass(frozen=True, slots=True)
class GaussianProduct:
    """Each user clips x coordinate by coordinate at tau1, y at tau2, and answers x*y + N(0, scale^2 I).

    Neighbours: any two records (x, y), local. The products fill the cube of half-width tau1*tau2, whose l2 diameter is the
    sensitivity 2*sqrt(d)*tau1*tau2 (attained: x = (tau1, ..., tau1), y = tau2 against y = -tau2). Source: 004, Algorithm 1, step 2.
    """

    dim: int
    x_clip: float
    y_clip: float
    kind: ClassVar[str] = "gaussian-product"
    family: ClassVar[Family] = "gaussian"
    norm: ClassVar[Norm] = "l2"
    reference: ClassVar[str] = "004 Algorithm 1 step 2, Theorem 2"

    def __post_init__(self) -> None:
        check_positive(dim=self.dim)
        check_size(x_clip=self.x_clip, y_clip=self.y_clip, sensitivity=self.sensitivity)

    @property
    def sensitivity(self) -> float:
        return 2.0 * math.sqrt(self.dim) * self.x_clip * self.y_clip

    @property
    def size(self) -> int:
        return self.dim

    def scale(self, level: float) -> float:
        return check_scale(check_level(level) * self.sensitivity)

    def variance(self, level: float) -> float:
        """E|R - x*y|_2^2."""
        return self.dim * self.scale(level) ** 2

    def clip(self, records: Records) -> tuple[Array, Array, bool]:
        """(x, y) after clipping; a record with a NaN or an infinity in x or y is the record 0."""
        x, single = rows(records[0], self.dim)
        y = numbers(records[1], x.shape[0])
        return clip_cube(x, self.x_clip), clip_cube(y, self.y_clip), single

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Array:
        x, y, single = self.clip(records)
        out = noise.add_gaussian(x * y[:, None], self.scale(level), sensitivity=self.sensitivity, dim=self.dim)
        return out[0] if single else out

    def aggregate(self, reports: Array, level: float) -> Array:
        mean: Array = np.atleast_2d(reports).mean(axis=0)
        return mean

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """One matrix-vector product and one normal vector N(0, scale^2/n)."""
        accumulator = self.accumulate()
        accumulator.add(*records)
        return accumulator.finish(level, noise)

    def accumulate(self) -> ProductAccumulator:
        return ProductAccumulator(self)


class ProductAccumulator:
    __slots__ = ("_channel", "_total", "count")

    def __init__(self, channel: GaussianProduct) -> None:
        self._channel, self._total, self.count = channel, np.zeros(channel.dim), 0

    def add(self, x: Array, y: Array | None = None) -> None:
        if y is None:
            raise ValueError("this channel takes blocks (x, y)")
        block, response, _ = self._channel.clip((x, y))
        self._total += response @ block
        self.count += block.shape[0]

    def finish(self, level: float, noise: NoiseSource) -> Array:
        return self._total / self.count + noise.gaussian(self._channel.scale(level) / self.count**0.5, self._channel.dim)
