"""Staircase noise for one integer: the least mean error of all pure mechanisms of its sensitivity."""

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
class Staircase(Drawn):
    """An integer plus noise with P(z) proportional to exp(-epsilon*k(|z|)), k(v) = floor(v/D) + [v mod D >= r]: epsilon-DP. Level =
    epsilon.

    ``sensitivity``: D, a whole number: how far neighbours' integers are apart. Then k differs by at most 1 between z and any z' with
    |z - z'| <= D, since k(v + D) = k(v) + 1 and k does not fall. ``r``, the tread, is the one of least E|z| (:func:`tread`); with D = 1
    it is
    discrete Laplace noise, and for large D r/D tends to 1/(1 + e^(epsilon/2)). Source: Geng and Viswanath 2014, Theorems 3 and 8.
    """

    sensitivity: float
    kind: ClassVar[str] = "staircase"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "l1"
    size: ClassVar[int] = 1
    reference: ClassVar[str] = "Geng and Viswanath 2014"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity)
        if self.sensitivity > 2**50 or self.sensitivity != math.floor(self.sensitivity):
            raise ValueError("the sensitivity of an integer is a whole number of at most 2^50")

    def scale(self, level: float) -> float:
        """sensitivity/epsilon, which is b of the Laplace noise of this level."""
        if self.sensitivity / check_level(level) > 2.0**55:
            raise ValueError(f"staircase noise {self.sensitivity / level:.3g} wide does not fit 64-bit integers")
        return self.sensitivity / level

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon = sensitivity/scale."""
        return self.sensitivity / noise["scale"]

    def check(self, value: Any) -> str | None:
        return _check_integers(value, 1)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Integers:
        array = np.asarray(value)
        return array.astype(np.int64) + sample(int(self.sensitivity), check_level(level), noise).reshape(array.shape)


#: Places of a step that are tried for one that is kept, at most about.
_TRIES = 2**18


def tread(sensitivity: int, epsilon: float) -> int:
    """The r with the least E|z|, which has one local minimum in r, next to D/(1 + e^(epsilon/2)); at least D/2^18, so that a place is found
    (above epsilon 25 alone that is not the least)."""
    near = sensitivity / (1.0 + math.exp(min(epsilon / 2.0, 700.0)))
    least = max(1, -(-sensitivity // _TRIES))
    tried = {min(max(least, math.floor(near) + k), sensitivity) for k in (-1, 0, 1, 2)}
    return min(sorted(tried), key=lambda r: mean_error(sensitivity, epsilon, r))


def mean_error(sensitivity: int, epsilon: float, r: int) -> float:
    """E|z| at a tread."""
    q, rest = math.exp(-epsilon), -math.expm1(-epsilon)
    step = r + (sensitivity - r) * q
    below, all_ = r * (r - 1) / 2, sensitivity * (sensitivity - 1) / 2
    return 2.0 * (sensitivity * q / rest * step + below + q * (all_ - below)) / (2.0 * step - rest)


def sample(sensitivity: int, epsilon: float, noise: NoiseSource) -> Integers:
    """One draw, shape (1,): a whole number of steps, a place in the step, and a sign; exact in the secure source.

    How many steps: the conditional law of a discrete Laplace number that is not negative. Its scale is rounded up, so one step costs at
    most
    epsilon. A negative 0 is drawn again: 0 would count twice.
    """
    scale = math.nextafter(1.0 / epsilon, math.inf)
    r = tread(sensitivity, epsilon)
    while True:
        steps = int(noise.discrete_laplace(scale, 1)[0])
        negative = bool(noise.sign(1)[0] < 0)
        found = steps * sensitivity + _place(sensitivity, r, epsilon, noise)
        if steps >= 0 and not (negative and found == 0):
            if found >= 2**62:
                raise ValueError("the noise does not fit 64-bit integers")
            return np.array([-found if negative else found], dtype=np.int64)


def _place(sensitivity: int, r: int, epsilon: float, noise: NoiseSource) -> int:
    """One of 0 .. D - 1, of weight 1 below r and e^-epsilon beyond: the first that is kept of uniform ones."""
    while True:
        tried = noise.integers(sensitivity, 1 + min(sensitivity // r, 2 * _TRIES))
        kept = tried < r
        kept[~kept] = noise.bernoulli_exp(np.full(int((~kept).sum()), epsilon))
        if kept.any():
            return int(tried[np.argmax(kept)])
