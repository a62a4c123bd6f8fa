"""The Laplace channel for vectors of an l1 ball or a cube."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpspec.numeric.norms import check_size, clip_rows
from dpspec.privacy.channels.protocol import Records, check_level, check_positive, check_scale, clip_cube, rows
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, NoiseSource


@dataclass(frozen=True, slots=True)
class LaplaceVector:
    """Each user brings its record into the ball of radius r and adds Laplace(b) to every coordinate: epsilon = sensitivity/b = 1/level.

    ``ball`` ``l1``: the record is scaled into the l1 ball, l1 sensitivity 2r. ``linf``: each coordinate is clipped to [-r, r], l1
    sensitivity 2*r*dim. Neighbours: any two records. Variance 2*b^2 a coordinate. Source: 000, Definition 2.1.5 with the diameter of
    the ball.
    """

    dim: int
    radius: float
    ball: Literal["l1", "linf"] = "l1"
    kind: ClassVar[str] = "laplace-vector"
    family: ClassVar[Family] = "laplace"
    norm: ClassVar[Norm] = "l1"
    reference: ClassVar[str] = "l1 diameter of the clipping set; Dwork, McSherry, Nissim and Smith 2006"

    def __post_init__(self) -> None:
        check_positive(dim=self.dim)
        check_size(radius=self.radius, sensitivity=self.sensitivity)

    @property
    def sensitivity(self) -> float:
        return 2.0 * self.radius * (self.dim if self.ball == "linf" else 1)

    @property
    def size(self) -> int:
        return self.dim

    def scale(self, level: float) -> float:
        return check_scale(check_level(level) * self.sensitivity)

    def variance(self, level: float) -> float:
        """E|R - x|_2^2."""
        return 2.0 * self.dim * self.scale(level) ** 2

    def clip(self, records: Records) -> tuple[Array, bool]:
        x, single = rows(records, self.dim)
        if self.ball == "linf":
            return clip_cube(x, self.radius), single
        return clip_rows(x, self.radius, "l1"), single

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Array:
        x, single = self.clip(records)
        x = noise.add_laplace(x, self.scale(level), sensitivity=self.sensitivity, dim=self.dim)
        return np.asarray(x[0]) if single else x

    def aggregate(self, reports: Array, level: float) -> Array:
        mean: Array = np.atleast_2d(reports).mean(axis=0)
        return mean

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """A Laplace variable is a difference of two exponentials, so the sum of n is a difference of two Gamma(n) variables."""
        x, _ = self.clip(records)
        n, b = x.shape[0], self.scale(level)
        mean: Array = x.mean(axis=0) + (noise.gamma(n, b, self.dim) - noise.gamma(n, b, self.dim)) / n
        return mean
