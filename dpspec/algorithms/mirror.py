"""Mirror maps of symmetric sets and the simplex, scaled to the unit set.

In u = w/R on the unit ball of a norm |.|_C: ``potential`` is 1-strongly convex with respect to |.|_C, ``step`` solves
argmin over u of <g, u> + V(u, u_0), V its Bregman divergence, ``width`` bounds E (max_{u in C} <b, u>)^2 for b ~ N(0, I) (000, Lemma 3.1.7
with constant 1 by Gaussian Poincare: G_C^2 + max |u|_2^2), ``far`` bounds V(u, start).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.algorithms.sets import Vector, constraint_set, project_l2
from dpspec.numeric import norms


@dataclass(frozen=True, slots=True)
class Geometry:
    """``kind``: l2, l1, linf or simplex; ``radius`` R; ``d``. Shapes (d,)."""

    kind: str
    radius: float
    d: int

    @property
    def start(self) -> Vector:
        """The minimiser of the potential, in units of R."""
        return np.full(self.d, 1 / self.d) if self.kind == "simplex" else np.zeros(self.d)

    @property
    def far(self) -> float:
        """max V(u, start): 1/2 (l2), e^2 log(d)/2 (l1, d >= 3, else d/2 by the Euclidean map), d/2 (linf), log d (simplex)."""
        match self.kind:
            case "l1" if self.d >= 3:
                return math.e**2 * math.log(self.d) / 2
            case "l1":
                return self.d / 2
            case "linf":
                return self.d / 2
            case "simplex":
                return math.log(max(self.d, 2))
            case _:
                return 0.5

    @property
    def width(self) -> float:
        """Bound of E |b|_*^2 in the dual norm: G_C^2 + max |u|_2^2, G_C <= sqrt(2 log 2d), sqrt(d), d sqrt(2/pi)."""
        match self.kind:
            case "l1" | "simplex":
                return 2 * math.log(2 * self.d) + 1.0
            case "linf":
                return self.d**2 * 2 / math.pi + self.d
            case _:
                return self.d + 1.0

    @property
    def l2(self) -> float:
        """max |u|_2 over the unit set."""
        return math.sqrt(self.d) if self.kind == "linf" else 1.0

    def norm(self, v: Vector) -> float:
        """|v|_C: the norm of the set, of the simplex |.|_1."""
        return norms.length(v, "l1" if self.kind == "simplex" else self.kind)  # type: ignore[arg-type]

    def step(self, u: Vector, g: Vector) -> Vector:
        """argmin of <g, v> + V(v, u) over the unit set."""
        match self.kind:
            case "l2":
                return project_l2(u - g, 1.0)
            case "linf":
                return np.clip(u - g, -1.0, 1.0)
            case "simplex":
                logs = np.log(np.maximum(u, 1e-300)) - g
                weights = np.exp(logs - logs.max())
                out: Vector = weights / weights.sum()
                return out
            case _:
                return self._l1(u, g)

    def _l1(self, u: Vector, g: Vector) -> Vector:
        """w = c/2 |u|_a^2, a = 1 + 1/log d, c = e^2/(a - 1). In the dual vector grad w(u) - g a multiplier of |u|_1 is a soft threshold;
        the norm of the image falls in it, so bisection finds the one that meets the ball."""
        if self.d < 3:
            from dpspec.algorithms.sets import project_l1

            return project_l1(u - g / self.d, 1.0)  # w = d/2 |u|_2^2
        a = 1 + 1 / math.log(self.d)
        c = math.e**2 / (a - 1)
        dual = c * _power(u, a) - g
        back = a / (a - 1)

        def image(threshold: float) -> Vector:
            return _power(np.sign(dual) * np.maximum(np.abs(dual) - threshold, 0.0), back) / c

        v = image(0.0)
        if float(np.abs(v).sum()) <= 1.0:
            return v
        low, high = 0.0, float(np.abs(dual).max())
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if float(np.abs(image(middle)).sum()) > 1.0 else (low, middle)
        return image(high)


def _power(u: Vector, a: float) -> Vector:
    """The gradient of |u|_a^2/2: |u|_a^(2-a) sign(u) |u|^(a-1)."""
    largest = float(np.abs(u).max())
    if largest == 0.0:
        return np.zeros_like(u)
    unit = np.abs(u) / largest
    size = float((unit**a).sum()) ** (1 / a)
    out: Vector = largest * size ** (2 - a) * np.sign(u) * unit ** (a - 1)
    return out


def geometry(p: Problem) -> Geometry | None:
    """The set of the task, or None when it has no mirror map here."""
    over = p.task.over
    if over.kind == "simplex":
        return Geometry("simplex", 1.0, p.d)
    if over.kind == "ball" and over.norm in ("l1", "l2", "linf"):
        return Geometry(over.norm, constraint_set(over, p.facts).radius, p.d)
    return None
