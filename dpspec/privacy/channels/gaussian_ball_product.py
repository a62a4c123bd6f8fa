"""The Gaussian channel for products x*y of a vector and a response, with the vector clipped in l2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspec.numeric.norms import check_size, clip_rows, lengths
from dpspec.privacy.channels.protocol import Records, check_level, check_positive, check_scale, clip_cube, numbers, rows
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, NoiseSource


@dataclass(frozen=True, slots=True)
class GaussianBallProduct:
    """Each user scales x into the l2 ball of radius r, clips y at tau2, and answers x*y + N(0, scale^2 I).

    Neighbours: any two records (x, y), local. |x*y|_2 <= r*tau2, so the l2 sensitivity is the diameter 2*r*tau2 (attained: the same x
    with y = tau2 against -tau2). 004, Algorithm 1, step 2, clips x coordinate by coordinate at tau1 instead and has 2*sqrt(d)*tau1*tau2,
    which is larger whenever r < sqrt(d)*tau1; step 1 of the same algorithm scales x into this ball already.
    """

    dim: int
    radius: float
    y_clip: float
    kind: ClassVar[str] = "gaussian-ball-product"
    family: ClassVar[Family] = "gaussian"
    norm: ClassVar[Norm] = "l2"
    reference: ClassVar[str] = "l2 diameter 2 r tau2 of the clipped products; 004 Algorithm 1 step 2 with the ball of step 1"

    def __post_init__(self) -> None:
        check_positive(dim=self.dim)
        check_size(radius=self.radius, y_clip=self.y_clip, sensitivity=self.sensitivity)

    @property
    def sensitivity(self) -> float:
        return 2.0 * self.radius * self.y_clip

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
        return clip_rows(x, self.radius), clip_cube(y, self.y_clip), single

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Array:
        x, y, single = self.clip(records)
        out = noise.add_gaussian(x * y[:, None], self.scale(level), sensitivity=self.sensitivity, dim=self.dim)
        return out[0] if single else out

    def aggregate(self, reports: Array, level: float) -> Array:
        return np.asarray(np.atleast_2d(reports).mean(axis=0))

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """One matrix-vector product and one normal vector N(0, scale^2/n)."""
        accumulator = self.accumulate()
        accumulator.add(*records)
        return accumulator.finish(level, noise)

    def accumulate(self) -> BallProductAccumulator:
        return BallProductAccumulator(self)


class BallProductAccumulator:
    __slots__ = ("_channel", "_total", "count")

    def __init__(self, channel: GaussianBallProduct) -> None:
        self._channel, self._total, self.count = channel, np.zeros(channel.dim), 0

    def add(self, x: Array, y: Array | None = None) -> None:
        if y is None:
            raise ValueError("this channel takes blocks (x, y)")
        found = lengths(x) if np.ndim(x) == 2 and x.shape[1] == self._channel.dim else None
        if found is not None and not found.scaled.any() and np.isfinite(y).all():  # no copy: the scaling goes into y
            self._total += (clip_cube(y, self._channel.y_clip) * np.minimum(1.0, found.limits(self._channel.radius))) @ x
        else:
            block, response, _ = self._channel.clip((x, y))
            self._total += response @ block
        self.count += x.shape[0]

    def finish(self, level: float, noise: NoiseSource) -> Array:
        return self._total / self.count + noise.gaussian(self._channel.scale(level) / self.count**0.5, self._channel.dim)
