"""Minimisers with a certificate: a point whose distance to the exact minimiser is bounded by its own stationarity.

The objective is F(w) + extra/2 |w|^2 + <linear, w> over the set, mu-strongly convex with mu = l2 + extra. At a prox-gradient step
w = prox(z - eta*grad(z)) v = (z - w)/eta - grad(z) + grad(w) is a subgradient of the objective at w, so |w - w*| <= |v|/mu.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.convex_erm._common import norm
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import Vector


def stationary(
    f: Objective, records: Any, n: int, smooth: float, linear: Vector, extra: float, tolerance: float, limit: int = 100_000
) -> Vector:
    """The minimiser up to a subgradient of norm at most ``tolerance``; ``smooth``: the smoothness of the data part over n records.

    ``n`` is the public divisor. There may be more records (add-remove), and then the data part is steeper: the solver's steps follow how
    many there are, the tolerance does not, and only the time tells.

    Newton steps on R^d without an l1 term (d <= 1000), else accelerated prox-gradient with restarts. Raises ``ValueError`` when the
    tolerance is not reached: the privacy claim would not hold.
    """
    ridge = float(f.l2) + extra
    share = max(1.0, records.n / n)
    smooth, limit = share * smooth, math.ceil(math.sqrt(share) * limit)

    def gradient(w: Vector) -> Vector:
        return f.data_gradient(w, records, n) + ridge * w + linear

    w = f.over.start(linear.size)
    if f.over.kind == "reals" and f.l1 == 0.0 and f.curvature is not None and w.size <= 1000:
        w, reached = _newton(f, records, n, ridge, linear, w, gradient, tolerance)
        if reached:
            return w
    eta, z, before, momentum = 1 / (smooth + ridge), w, w, 1.0
    for _ in range(limit):
        g = gradient(z)
        w = f.prox(z - eta * g, eta)
        if norm(z - w) / eta <= 0.5 * tolerance and norm((z - w) / eta - g + gradient(w)) <= tolerance:
            return w
        if float((z - w) @ (w - before)) > 0:
            momentum = 1.0
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        z, before, momentum = w + (momentum - 1) / following * (w - before), w, following
    raise ValueError("the minimiser was not found to the tolerance that the guarantee needs")


def _newton(
    f: Objective, records: Any, n: int, ridge: float, linear: Vector, w: Vector, gradient: Any, tolerance: float
) -> tuple[Vector, bool]:
    def value(u: Vector) -> float:
        return f.data_value(u, records, n) + ridge / 2 * float(u @ u) + float(linear @ u)

    g = gradient(w)
    for _ in range(60):
        if norm(g) <= tolerance:
            return w, True
        step = np.linalg.solve(f.data_hessian(w, records, n) + ridge * np.eye(w.size), -g)
        slope, size, here = float(g @ step), 1.0, value(w)
        while size > 1e-8 and value(w + size * step) > here + 1e-4 * size * slope + 1e-14 * abs(here):
            size /= 2
        w = w + size * step
        g = gradient(w)
    return w, norm(g) <= tolerance
