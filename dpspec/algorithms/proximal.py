"""Accelerated prox-gradient steps whose number to an accuracy is known beforehand, from public numbers alone, rounding included.

For f + h with f S-smooth and mu-strongly convex, h convex with an exact prox, and gradients that are off by at most e (what rounding does
to a step counts as an error of its gradient), N steps of length 1/S with momentum (k - 1)/(k + 2) from a point at distance D of the
minimiser w* give

    (f + h)(w_N) - min <= 2 S/(N + 1)^2 (D + e N (N + 1)/S)^2

(Schmidt, Le Roux, Bach 2011, Proposition 2), hence |w_N - w*| <= 2 sqrt(S/mu)/(N + 1) (D + e N (N + 1)/S). With the least N + 1 >= 4
sqrt(S/mu) that is at most D/2 + 8 e/mu. R such rounds, each from the last one's point without momentum, end within 2^-R D + 16 e/mu. So
32 e <= tolerance and R >= log2(2 D mu/tolerance) put the end within tolerance/mu of w*, for every data set: nothing can fail.

All points of a round are within D + 16 e/mu of w*: in the same proof the momentum's point v_k is within D + e k (k + 1)/S of it, and w_k
and the points where gradients are taken are convex combinations of those.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dpspec.algorithms.sets import Vector

#: The most steps that a plan may need in the worst case.
MOST_STEPS: Final = 2**24
#: What a tolerance is at least, in gradient errors e: 2 * 16 of the proof, and room for the rounding of this very bound.
ERRORS: Final = 33.0


@dataclass(frozen=True, slots=True)
class Course:
    """``rounds`` rounds of ``length`` steps of size 1/``smooth``."""

    smooth: float
    length: int
    rounds: int

    @property
    def steps(self) -> int:
        return self.length * self.rounds


def course(smooth: float, strong: float, distance: float, tolerance: float) -> Course | None:
    """How to get within tolerance/strong of the minimiser from ``distance``; None when that may take more than ``MOST_STEPS`` steps."""
    condition, halvings = math.sqrt(smooth / strong), math.log2(max(2 * distance * strong / tolerance, 1.0))
    if not 4 * (condition + 1) * (halvings + 1) <= MOST_STEPS:
        return None
    return Course(smooth, math.ceil(4 * condition * (1 + 1e-9)) - 1, math.ceil(halvings + 1e-9))


def follow(
    c: Course,
    gradient: Callable[[Vector], Vector],
    prox: Callable[[Vector, float], Vector],
    start: Vector,
    done: Callable[[Vector, Vector, Vector], Any] | None = None,
) -> Vector:
    """The point at the end of the course from ``start``. ``done(z, g, w)``, when given, says after a step from z with gradient g to w
    whether w will do (a certificate of its own, which may be reached sooner)."""
    eta, w = 1 / c.smooth, start
    for _ in range(c.rounds):
        z, before = w, w
        for k in range(1, c.length + 1):
            g = gradient(z)
            w = prox(z - eta * g, eta)
            if done is not None and done(z, g, w):
                return w
            z, before = w + (k - 1) / (k + 2) * (w - before), w
    return np.asarray(w)
