"""f' of the named losses in their own argument, written for speed, in NumPy alone: the executor's objectives and the clients of gradient
methods evaluate the same. Parameters as in :func:`dpspec.symbolic.normal.named_loss`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from dpspec.numeric.norms import Vector


def expit(z: Vector) -> Vector:
    """1/(1 + exp(-z)), to a few units in the last place on both sides; below -709, where exp overflows, 0 (the truth is under 1e-307)."""
    with np.errstate(over="ignore"):
        e = np.exp(-z)
    e += 1.0
    out: Vector = 1.0 / e
    return out


def bump(z: Vector) -> Vector:
    """s(z)(1 - s(z)) of the logistic function s."""
    e = np.exp(-np.abs(z))
    out: Vector = e / (1.0 + e) ** 2
    return out


def soft_step(v: Vector, b: float) -> Vector:
    """(v/sqrt(v^2 + b^2) - 1)/2, without cancellation for large v."""
    r = np.hypot(v, b)
    out: Vector = np.where(v > 0, -b * b / (2 * r * (r + np.abs(v))), (v / r - 1) / 2)
    return out


SLOPES: Final[dict[str, Callable[..., Vector]]] = {
    "logistic": lambda z: -expit(-z),
    "sigmoid": lambda z: -bump(z),
    "hinge": lambda z, m=1.0: -1.0 * (z < m),
    "squared-hinge": lambda z, m=1.0: -2.0 * np.maximum(m - z, 0.0),
    "smoothed-hinge": lambda z, b, m: soft_step(z - m, b),
    "squared": lambda s: s,
    "absolute": lambda s: np.sign(s),
    "huber": lambda s, c: np.clip(s, -c, c),
    "biweight": lambda s, c: s * np.maximum(1 - (s / c) ** 2, 0.0) ** 2,
    "cauchy": lambda s, c: s / (1 + (s / c) ** 2),
}
