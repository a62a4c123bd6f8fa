"""The pure channel for second moments x x^T: symmetrised Wishart noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspec.numeric.norms import check_size, clip_rows
from dpspec.privacy.channels.gaussian_outer import symmetric
from dpspec.privacy.channels.protocol import Records, check_level, check_positive, check_scale, rows
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, NoiseSource, add_rounded


@dataclass(frozen=True, slots=True)
class WishartOuter:
    """Each user scales x into the l2 ball of radius r and releases the upper triangle of x x^T + W1 - W2, W_d(d + 1, t*I) each,
    t = r^2/epsilon: epsilon-LDP. Level = epsilon.

    Neighbours: any two records, nuclear-norm sensitivity of x x^T at most 2 r^2. Proof at
    :class:`dpspec.privacy.mechanisms.wishart.SymmetrisedWishart`. Source: 000, section 6.3.5 asks for "the same for epsilon-LDP" and
    names no mechanism. The aggregate is a symmetric (dim, dim) matrix; the mean of the noise is 0.
    """

    dim: int
    radius: float
    kind: ClassVar[str] = "wishart-outer"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"  # the nuclear norm
    reference: ClassVar[str] = "000 section 6.3.5 (left open there): difference of two Wishart matrices, nuclear-norm sensitivity"

    def __post_init__(self) -> None:
        check_positive(dim=self.dim)
        check_size(radius=self.radius)
        check_size(sensitivity=self.sensitivity)

    @property
    def sensitivity(self) -> float:
        return 2.0 * self.radius**2

    @property
    def size(self) -> int:
        return self.dim * (self.dim + 1) // 2

    def scale(self, level: float) -> float:
        """t, the scale matrix of both Wishart laws being t*I."""
        return check_scale(self.sensitivity / (2.0 * check_level(level)))

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon: shifting the noise by D costs tr|D|/(2t), and tr|D| is at most 2 r^2."""
        return 2.0 * self.radius**2 / (2.0 * noise["scale"])

    def variance(self, level: float) -> float:
        """E|R - T|_2^2 of the upper triangle: an entry of W_d(m, tI) has variance m t^2 off the diagonal and 2 m t^2 on it."""
        d, t = self.dim, self.scale(level)
        return 2 * (d + 1) * t * t * (d * (d - 1) / 2 + 2 * d)

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """Reports of shape (users, dim*(dim + 1)/2): the upper triangle row by row."""
        x, single = rows(records, self.dim)
        x = clip_rows(x, self.radius)
        i, j = np.triu_indices(self.dim)
        g = noise.gaussian(1.0, (2, len(x), self.dim, self.dim + 1))
        w = g @ g.transpose(0, 1, 3, 2)
        t = self.scale(level)
        out = add_rounded(x[:, i] * x[:, j], t * (w[0] - w[1])[:, i, j], t, noise)
        return out[0] if single else out

    def aggregate(self, reports: Array, level: float) -> Array:
        return symmetric(np.atleast_2d(reports).mean(axis=0), self.dim)

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """X^T X/n plus (W1 - W2)/n, the sums of n Wishart matrices being Wishart with n(d + 1) degrees (Bartlett's decomposition)."""
        accumulator = self.accumulate()
        accumulator.add(records[0] if isinstance(records, tuple) else records)
        return accumulator.finish(level, noise)

    def accumulate(self) -> WishartAccumulator:
        return WishartAccumulator(self)


class WishartAccumulator:
    __slots__ = ("_channel", "_total", "count")

    def __init__(self, channel: WishartOuter) -> None:
        self._channel, self._total, self.count = channel, np.zeros((channel.dim, channel.dim)), 0

    def add(self, x: Array, y: Array | None = None) -> None:
        """``y`` is not used: the block may be a block of pairs."""
        block, _ = rows(x, self._channel.dim)
        clip_rows(block, self._channel.radius)
        self._total += block.T @ block
        self.count += block.shape[0]

    def finish(self, level: float, noise: NoiseSource) -> Array:
        d, n = self._channel.dim, self.count
        one, other = (bartlett(n * (d + 1), d, noise) for _ in range(2))
        return np.asarray((self._total + self._channel.scale(level) * (one - other)) / n)


def bartlett(degrees: int, dim: int, noise: NoiseSource) -> Array:
    """A draw of W_dim(degrees, I) for degrees >= dim: L L^T, L lower triangular with chi on the diagonal and normals below."""
    lower = np.tril(noise.gaussian(1.0, (dim, dim)), -1)
    for i in range(dim):
        half, odd = divmod(degrees - i, 2)
        square = 2.0 * float(noise.gamma(half, 1.0, 1)[0]) if half else 0.0
        if odd:
            square += float(noise.gaussian(1.0, 1)[0]) ** 2
        lower[i, i] = math.sqrt(square)
    return np.asarray(lower @ lower.T)
