"""Integers plus noise of the l_inf norm: the K-norm mechanism of a cube."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy.mechanisms.discrete import _check_integers
from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_positive
from dpspec.privacy.noise import Integers, NoiseSource
from dpspec.privacy.schedule import Family, Norm


@dataclass(frozen=True, slots=True)
class CubeNorm(Drawn):
    """Integers plus noise with P(z) proportional to exp(-|z|_inf/b): epsilon-DP with epsilon = sensitivity/b, by the triangle inequality.

    ``sensitivity``: l_inf, in whole steps. Level = epsilon. Where each of ``size`` numbers of a record may be anything in an interval it
    has
    half the error of independent Laplace noise, whose l1 sensitivity is ``size`` times as large: E|z_j| = (size + 1) b/2 against size*b.
    Source: Hardt and Talwar 2010 (the K-norm mechanism).
    """

    sensitivity: float
    size: int
    kind: ClassVar[str] = "cube-norm"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "linf"
    reference: ClassVar[str] = "Hardt and Talwar 2010, the K-norm mechanism with the cube"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, size=self.size)

    def scale(self, level: float) -> float:
        if (self.size + 1) * self.sensitivity / check_level(level) > 2.0**50:
            raise ValueError(f"noise of {self.sensitivity / level:.3g} in {self.size} coordinates does not fit 64-bit integers")
        return self.sensitivity / level

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon = sensitivity/b."""
        return self.sensitivity / noise["scale"]

    def check(self, value: Any) -> str | None:
        return _check_integers(value, self.size)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Integers:
        array = np.asarray(value)
        drawn = sample(math.nextafter(self.scale(level), math.inf), self.size, noise)
        return array.astype(np.int64) + drawn.reshape(array.shape)


@dataclass(frozen=True, slots=True)
class CubeBlocks(Drawn):
    """``blocks`` vectors of ``width`` integers, each with noise of its own, P(z) proportional to exp(-|z|_inf/b): epsilon-DP with
    epsilon = sensitivity/b. Level = epsilon.

    ``sensitivity``: the sum over blocks of how far a unit moves them in l_inf, which is the norm whose K-norm mechanism this is. Blocks
    are groups of records, and a record is in one of them. Source: Hardt and Talwar 2010 (the K-norm mechanism).
    """

    sensitivity: float
    width: int
    blocks: int
    kind: ClassVar[str] = "cube-blocks"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "linf"
    reference: ClassVar[str] = "Hardt and Talwar 2010, the K-norm mechanism with a sum of cubes' norms"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, width=self.width, blocks=self.blocks)

    @property
    def size(self) -> int:
        return self.width * self.blocks

    @property
    def one(self) -> CubeNorm:
        """The noise of one block."""
        return CubeNorm(self.sensitivity, self.width)

    def scale(self, level: float) -> float:
        return self.one.scale(level)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon = sensitivity/b."""
        return self.sensitivity / noise["scale"]

    def check(self, value: Any) -> str | None:
        return _check_integers(value, self.size)

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        apart = np.abs(np.asarray(one, dtype=float) - np.asarray(other, dtype=float)).reshape(self.blocks, self.width)
        return math.fsum(apart.max(axis=1))

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Integers:
        array = np.asarray(value)
        scale = math.nextafter(self.scale(level), math.inf)
        drawn = np.concatenate([sample(scale, self.width, noise) for _ in range(self.blocks)])
        found: Integers = array.astype(np.int64) + drawn.reshape(array.shape)
        return found


def sample(scale: float, size: int, noise: NoiseSource) -> Integers:
    """z with P(z) proportional to exp(-|z|_inf/scale) on the integer vectors of ``size`` entries; exact in the secure source.

    With q = exp(-1/scale): if T has P(t) proportional to (2t + 1)^size q^t and z is uniform on the cube of radius T, then P(z) is
    proportional
    to the sum of q^t over t >= |z|_inf. T is the sum of size + 1 geometric numbers, P(t) proportional to C(t + size, size) q^t, kept with
    probability prod_j (2t + 1)/(2 (t + j)), which is the ratio of the two laws over its supremum 2^size size!. Each geometric number is a
    discrete Laplace one that is not negative.
    """
    while True:
        radius = int(_geometric(scale, size + 1, noise).sum())
        if radius >= 2**60:
            raise ValueError("the noise does not fit 64-bit integers")
        if all(int(noise.integers(2 * (radius + j), 1)[0]) < 2 * radius + 1 for j in range(1, size + 1)):
            return noise.integers(2 * radius + 1, size) - radius


def _geometric(scale: float, count: int, noise: NoiseSource) -> Integers:
    found = np.empty(0, dtype=np.int64)
    while found.size < count:
        drawn = noise.discrete_laplace(scale, 2 * count + 8)
        found = np.concatenate([found, drawn[drawn >= 0]])
    return found[:count]
