"""Minimisers with a certificate: a point whose distance to the exact minimiser is bounded by its own stationarity.

The objective is F(w) + extra/2 |w|^2 + <linear, w> over the set, mu-strongly convex with mu = l2 + extra. At a prox-gradient step
w = prox(z - eta*grad(z)) v = (z - w)/eta - grad(z) + grad(w) is a subgradient of the objective at w, so |w - w*| <= |v|/mu.

Gradients are computed in doubles, and the guarantee is about the point that is released: the certificate counts their rounding. With
u = 2^-53, a sum of m vectors of length at most L is off by at most m u m L in any order of summation (Higham 2002, section 4.2), a margin
<w, x> by d u |w||x|, which turns a record's gradient by d u |w| B at most, and one slope by a few u L beside what its evaluation
loses (``error``, :mod:`dpspec.symbolic.running`: the proof is about the real gradients, and slopes of terms that cancel are far from them).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.algorithms.convex_erm._common import norm
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import Vector

_U: Final = 2.0**-53
_OPERATIONS: Final = 64  # of one slope and of the last sums, with room

#: Gradients are summed over so many records at a time and these sums exactly: rounding does not grow with their number.
_ROWS: Final = 2048
#: The least tolerance that is safely above the rounding of a mean gradient, as a formula of a tunable.
FLOOR: Final = "(d + 4096)*L/2^42"
#: Under add-remove there may be more than n records, and (1/n) times their sum rounds by as many times more: a tolerance has to leave room
#: for so many times n of them. A solver that failed for fewer would tell how many there are.
ROOM: Final = 256


def too_fine(p: Problem, tolerance: float) -> str | None:
    """Why a tolerance cannot be certified: a public reason, so that no run fails on it."""
    assert p.loss is not None
    room = ROOM if p.neighbours == "add-remove" else 1
    least = 4 * _U * room * (min(room * p.n, _ROWS) + p.d + _OPERATIONS) * p.loss.lipschitz + 4 * room * p.loss.gradient_error()
    if tolerance >= least:
        return None
    where = f" of up to {ROOM}*n records" if room > 1 else ""
    return f"tolerance = {tolerance:g} is below the rounding errors of a mean gradient{where} in doubles (at least {least:.2g} here)"


def stationary(
    f: Objective,
    records: Any,
    n: int,
    smooth: float,
    lipschitz: float,
    linear: Vector,
    extra: float,
    tolerance: float,
    error: float = 0.0,
    limit: int = 100_000,
) -> Vector:
    """The minimiser up to a subgradient of norm at most ``tolerance``, rounding included. ``smooth``: the smoothness of the data part
    over n records; ``lipschitz``: of one record; ``error``: how far a record's computed gradient is from the real one at its margin.

    ``n`` is the public divisor. There may be more records (add-remove), and then the data part is steeper: the solver's steps follow how
    many there are, the tolerance does not, and only the time tells.

    Newton steps on R^d with a ridge or no regulariser (d <= 1000), else accelerated prox-gradient with restarts. Raises ``ValueError``
    when the tolerance is not reached: the privacy claim would not hold.
    """
    ridge = float(f.l2) + extra
    share = max(1.0, records.n / n)
    smooth, limit = share * smooth, math.ceil(math.sqrt(share) * limit)

    def gradient(w: Vector) -> Vector:
        return _mean_gradient(f, w, records, n) + ridge * w + linear

    def rounding(w: Vector) -> float:
        data = share * (min(records.n, _ROWS) + w.size + _OPERATIONS) * lipschitz + w.size * smooth * norm(w)
        return float(share * error + _U * (data + 4 * (ridge * norm(w) + norm(linear))))

    w = f.over.start(linear.size)
    if f.over.kind == "reals" and f.smooth_penalty and f.curvature is not None and w.size <= 1000:
        w, reached = _newton(f, records, n, ridge, linear, w, gradient, rounding, tolerance)
        if reached:
            return w
    eta, z, before, momentum = 1 / (smooth + ridge), w, w, 1.0
    for _ in range(limit):
        g = gradient(z)
        w = f.prox(z - eta * g, eta)
        if norm(z - w) / eta <= 0.5 * tolerance:
            errors = rounding(z) + rounding(w) + 8 * _U * (norm(z) + norm(w)) / eta
            if norm((z - w) / eta - g + gradient(w)) + errors <= tolerance:
                return w
        if float((z - w) @ (w - before)) > 0:
            momentum = 1.0
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        z, before, momentum = w + (momentum - 1) / following * (w - before), w, following
    raise ValueError("the minimiser was not found to the tolerance that the guarantee needs")


def _mean_gradient(f: Objective, w: Vector, records: Any, n: int) -> Vector:
    """(1/n) times the sum of the gradients, rounded as a sum over ``_ROWS`` records is."""
    parts = [f.data_gradient(w, records.slice(a, min(a + _ROWS, records.n)), n) for a in range(0, records.n, _ROWS)]
    if not parts:
        return np.zeros(w.size)
    return parts[0] if len(parts) == 1 else np.array([math.fsum(entries) for entries in np.stack(parts, axis=1)])


def _newton(
    f: Objective, records: Any, n: int, ridge: float, linear: Vector, w: Vector, gradient: Any, rounding: Any, tolerance: float
) -> tuple[Vector, bool]:
    def value(u: Vector) -> float:
        return f.data_value(u, records, n) + ridge / 2 * float(u @ u) + float(linear @ u)

    g = gradient(w)
    for _ in range(60):
        if norm(g) + rounding(w) <= tolerance:
            return w, True
        step = np.linalg.solve(f.data_hessian(w, records, n) + ridge * np.eye(w.size), -g)
        slope, size, here = float(g @ step), 1.0, value(w)
        while size > 1e-8 and value(w + size * step) > here + 1e-4 * size * slope + 1e-14 * abs(here):
            size /= 2
        w = w + size * step
        g = gradient(w)
    return w, norm(g) + rounding(w) <= tolerance
