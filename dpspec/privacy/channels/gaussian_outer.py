"""The Gaussian channel for second moments x x^T."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspec.numeric.norms import check_size, clip_rows, lengths
from dpspec.privacy.channels.protocol import Records, check_level, check_positive, check_scale, rows
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, NoiseSource


@dataclass(frozen=True, slots=True)
class GaussianOuter:
    """Each user scales x into the l2 ball of radius r and releases the upper triangle of x x^T with N(0, scale^2) on every entry.

    Neighbours: any two records, local. The l2 sensitivity of the upper triangle (diagonal included) is sqrt(2)*r^2; the documents
    print 2*r^2. Proof, with T the upper triangle of x x^T - z z^T: off the diagonal T counts half of the Frobenius mass, so
    |T|^2 = 1/2*|x x^T - z z^T|_F^2 + 1/2*sum_i (x_i^2 - z_i^2)^2
          <= 1/2*(|x|^4 + |z|^4 - 2<x, z>^2) + 1/2*(|x|^4 + |z|^4 - 2*sum_i x_i^2 z_i^2) <= |x|^4 + |z|^4 <= 2*r^4,
    attained at x = r*e1, z = r*e2. In dimension 1 the release is x^2 in [0, r^2] and the sensitivity is r^2.
    Source: 004, Algorithm 1, step 1. The aggregate is a symmetric (dim, dim) matrix.
    """

    dim: int
    radius: float
    kind: ClassVar[str] = "gaussian-outer"
    family: ClassVar[Family] = "gaussian"
    norm: ClassVar[Norm] = "l2"
    reference: ClassVar[str] = "004 Algorithm 1 step 1, Theorem 2 (sensitivity sqrt(2) r^2 of the upper triangle instead of 2 r^2)"

    def __post_init__(self) -> None:
        check_positive(dim=self.dim)
        check_size(radius=self.radius)
        check_size(sensitivity=self.sensitivity)

    @property
    def sensitivity(self) -> float:
        return (math.sqrt(2.0) if self.dim > 1 else 1.0) * self.radius**2

    @property
    def size(self) -> int:
        return self.dim * (self.dim + 1) // 2

    def scale(self, level: float) -> float:
        return check_scale(check_level(level) * self.sensitivity)

    def variance(self, level: float) -> float:
        """E|R - T|_2^2 of the upper triangle."""
        return self.size * self.scale(level) ** 2

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """Reports of shape (users, dim*(dim + 1)/2): the upper triangle row by row."""
        x, single = rows(_first(records), self.dim)
        x = clip_rows(x, self.radius)
        i, j = np.triu_indices(self.dim)
        out = noise.add_gaussian(x[:, i] * x[:, j], self.scale(level), sensitivity=self.sensitivity, dim=self.size)
        return out[0] if single else out

    def aggregate(self, reports: Array, level: float) -> Array:
        return symmetric(np.atleast_2d(reports).mean(axis=0), self.dim)

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """X^T X/n of the clipped records plus one symmetric normal matrix with upper-triangle variance scale^2/n."""
        accumulator = self.accumulate()
        accumulator.add(_first(records))
        return accumulator.finish(level, noise)

    def accumulate(self) -> OuterAccumulator:
        return OuterAccumulator(self)


def _first(records: Records) -> Array:
    """x of (x, y) or x itself."""
    x: Array = records[0] if isinstance(records, tuple) else records
    return x


def symmetric(upper: Array, dim: int) -> Array:
    """The symmetric matrix of an upper triangle given row by row."""
    out = np.empty((dim, dim))
    i, j = np.triu_indices(dim)
    out[i, j] = upper
    out[j, i] = upper
    return out


class OuterAccumulator:
    __slots__ = ("_channel", "_total", "count")

    def __init__(self, channel: GaussianOuter) -> None:
        self._channel, self._total, self.count = channel, np.zeros((channel.dim, channel.dim)), 0

    def add(self, x: Array, y: Array | None = None) -> None:
        """``y`` is not used: the block may be a block of pairs."""
        radius = self._channel.radius
        block: Array = x
        norms = lengths(x).values if np.ndim(x) == 2 and x.shape[1] == self._channel.dim else np.array([np.inf])
        if norms.max(initial=0.0) <= 1e3 * radius:  # no NaN passes this comparison
            self._total += x.T @ x
            out = np.flatnonzero(norms > radius)
            if out.size:  # what the clip takes off those rows, without a copy of the block
                far = x[out]
                self._total -= far.T @ (far - far * (np.minimum(lengths(far).limits(radius), 1.0) ** 2)[:, None])
        else:
            block, _ = rows(x, self._channel.dim)
            clip_rows(block, radius)
            self._total += block.T @ block
        self.count += block.shape[0]

    def finish(self, level: float, noise: NoiseSource) -> Array:
        channel = self._channel
        upper = noise.gaussian(channel.scale(level) / self.count**0.5, channel.size)
        return self._total / self.count + symmetric(upper, channel.dim)
