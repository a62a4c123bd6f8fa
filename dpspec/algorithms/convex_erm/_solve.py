"""Minimisers with a certificate: a point whose distance to the exact minimiser is bounded.

The objective is F(w) + extra/2 |w|^2 + <linear, w> over the set, mu-strongly convex with mu = l2 + extra. What is promised is
|w - w*| <= tolerance/mu, by one of two proofs:

* at a prox-gradient step w = prox(z - eta*grad(z)) v = (z - w)/eta - grad(z) + grad(w) is a subgradient of the objective at w, so
  |w - w*| <= |v|/mu: Newton's or accelerated steps stop as soon as |v| and its rounding are within the tolerance;
* where these do not get there, :mod:`dpspec.algorithms.proximal` does, in a number of steps that public numbers bound. So whether a run
  ends, and how, is the same for every data set. A plan for whose numbers that proof fails is refused (:func:`unreached`).

Gradients are computed in doubles, and the guarantee is about the point that is released: both proofs count their rounding. With
u = 2^-53, a sum of m vectors of length at most L is off by at most m u m L in any order of summation (Higham 2002, section 4.2), a margin
<w, x> by d u |w||x|, which turns a record's gradient by d u |w| B at most, and one slope by a few u L beside what its evaluation loses
(``error``, :mod:`dpspec.symbolic.running`: the proof is about the real gradients, and slopes of terms that cancel are far from them). The
second proof takes margins by a compensated product and sums exactly, which leaves 2 u |w||x| and u of the sum. A step is rounded by a few u
of its point and its length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.algorithms.gradients import OPERATIONS, U, norm, step_rounding
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.proximal import ERRORS, MOST_STEPS, Course, course, follow
from dpspec.algorithms.sets import ConstraintSet, Vector, constraint_set

#: Gradients are summed over so many records at a time and these sums exactly: rounding does not grow with their number.
_ROWS: Final = 2048
#: The least tolerance that is safely above the rounding of a mean gradient, as a formula of a tunable.
FLOOR: Final = "(d + 4096)*L/2^42"
#: Under add-remove there may be more than n records, and (1/n) times their sum rounds by as many times more: a tolerance has to leave room
#: for so many times n of them. A solver that failed for fewer would tell how many there are.
ROOM: Final = 16


@dataclass(frozen=True, slots=True)
class Reach:
    """What doubles allow. ``least``: the least tolerance that is reached for every data set; ``course``: how, or None: not in time."""

    least: float
    course: Course | None


def reach(
    over: ConstraintSet,
    d: int,
    share: float,
    smooth: float,
    lipschitz: float,
    strong: float,
    linear: float,
    tolerance: float,
    *,
    at_zero: float = math.inf,
    classes: int = 1,
    plain: bool = True,
    lost: float = 0.0,
) -> Reach:
    """The a priori proof in numbers. ``share``: records over n, at least 1; ``smooth``, ``lipschitz``: of one record; ``strong``: mu, the
    ridge in all; ``linear``: the norm of the linear term; ``at_zero``: how far a record's loss at 0 is above its infimum; ``plain``: the
    regulariser is a ridge or nothing; ``lost``: how far a record's computed gradient is from the real one at its margin.

    |w0 - w*| is at most the set's extent and, where 0 is in the set, (share L + |linear|)/mu (strong monotonicity at 0, where l1 and
    group terms are least) and what mu/2 |w*|^2 - |linear||w*| <= share*at_zero allows.
    """
    start = over.start(d)
    far, here = over.distance_bound(d), norm(start)
    if here == 0.0:
        far = min(far, (share * lipschitz + linear) / strong)
        if math.isfinite(at_zero):
            far = min(far, (linear + math.sqrt(linear**2 + 2 * strong * share * at_zero)) / strong)
    longest = here + 2 * far + tolerance / strong  # of all points of the course
    steep = share * smooth + strong
    data = share * (OPERATIONS * lipschitz + (4 + (d // classes if classes > 1 else 0)) * smooth * longest)
    pull = share * lipschitz + strong * longest + linear
    step = step_rounding(over, d, plain) * (2 * steep * longest + pull)
    error = share * lost + U * (data + step + 4 * (strong * longest + linear))
    return Reach(ERRORS * error, course(steep, strong, far, tolerance))


def unreached(p: Problem, tolerance: float, extra: float, linear: float = 0.0) -> str | None:
    """Why a run could end without the tolerance for some data set: a public reason, so that no run does. ``extra``: the least weight that
    is added to the ridge; ``linear``: the largest norm of the linear term."""
    assert p.loss is not None
    room = ROOM if p.neighbours == "add-remove" else 1
    over, strong = constraint_set(p.task.over, p.facts), p.loss.l2 + extra
    found = reach(
        over,
        p.d,
        float(room),
        p.loss.smooth,
        p.loss.lipschitz,
        strong,
        linear,
        tolerance,
        at_zero=p.loss.at_zero,
        classes=p.loss.classes,
        plain=p.loss.smooth_penalty,
        lost=p.loss.gradient_error(),
    )
    where = f" of up to {ROOM}*n records" if room > 1 else ""
    if not tolerance >= found.least:
        return (
            f"tolerance = {tolerance:g} is below the rounding errors of the solver in doubles for some data set{where} (at least "
            f"{1.05 * found.least:.2g} here; a larger ridge or a smaller set after `over` lowers it), and whether it is reached would "
            "tell about the records"
        )
    if found.course is None:
        condition = (room * p.loss.smooth + strong) / strong
        return (
            f"its solver may need more than {MOST_STEPS} steps to tolerance = {tolerance:g} for some data set{where}: smoothness over "
            f"strong convexity is {condition:.2g}; a larger ridge lowers it"
        )
    return None


def stationary(
    f: Objective,
    records: Any,
    n: int,
    smooth: float,
    lipschitz: float,
    linear: Vector,
    extra: float,
    tolerance: float,
    limit: int = 100_000,
    *,
    at_zero: float = math.inf,
    lost: float = 0.0,
) -> Vector:
    """A point within ``tolerance``/mu of the minimiser, mu = l2 + extra, rounding included. ``smooth``: the smoothness of the data part
    over n records; ``lipschitz``: of one record; ``at_zero``, ``lost``: as for :func:`reach`.

    ``n`` is the public divisor. There may be more records (add-remove), and then the data part is steeper: the solver's steps follow how
    many there are, the tolerance does not, and only the time tells.

    Newton steps on R^d with a ridge or no regulariser (d <= 1000), else accelerated prox-gradient with restarts; where they do not reach
    their certificate (in ``limit`` steps), the course of :func:`reach`. Raises ``ValueError`` when its proof does not cover the tolerance
    either, which plans exclude (:func:`unreached`; under add-remove for up to ``ROOM``*n records).
    """
    with np.errstate(all="ignore"):
        ridge = float(f.l2) + extra
        share = max(1.0, records.n / n)
        steep = share * smooth + ridge
        turn = U * step_rounding(f.over, linear.size, f.smooth_penalty) * steep

        def gradient(w: Vector) -> Vector:
            return _mean_gradient(f, w, records, n) + ridge * w + linear

        def rounding(w: Vector) -> float:
            data = share * ((min(records.n, _ROWS) + w.size + OPERATIONS) * lipschitz + w.size * smooth * norm(w))
            return float(share * lost + U * (data + 4 * (ridge * norm(w) + norm(linear))))

        def certified(z: Vector, g: Vector, w: Vector) -> bool:
            if not norm(z - w) * steep <= 0.5 * tolerance:
                return False
            errors = rounding(z) + rounding(w) + turn * (norm(z) + norm(w))
            return bool(norm((z - w) * steep - g + gradient(w)) + errors <= tolerance)

        start = f.over.start(linear.size)
        if f.over.kind == "reals" and f.smooth_penalty and f.curvature is not None and start.size <= 1000:
            w, reached = _newton(f, records, n, ridge, linear, start, gradient, rounding, tolerance)
            if reached:
                return w
        w, reached = _accelerated(f, gradient, certified, start, 1 / steep, math.ceil(math.sqrt(share) * limit))
        if reached:
            return w
        known = reach(
            f.over,
            start.size,
            share,
            smooth,
            lipschitz,
            ridge,
            norm(linear),
            tolerance,
            at_zero=at_zero,
            classes=getattr(f, "classes", 1),
            plain=f.smooth_penalty,
            lost=lost,
        )
        if known.course is None or not tolerance >= known.least:
            raise ValueError("the tolerance that the guarantee needs is not certain to be reached")
        return follow(known.course, lambda v: _careful_gradient(f, v, records, n) + ridge * v + linear, f.prox, start, certified)


def _accelerated(f: Objective, gradient: Any, certified: Any, w: Vector, eta: float, limit: int) -> tuple[Vector, bool]:
    z, before, momentum = w, w, 1.0
    for _ in range(limit):
        g = gradient(z)
        w = f.prox(z - eta * g, eta)
        if certified(z, g, w):
            return w, True
        if not math.isfinite(norm(w)):
            break
        if float((z - w) @ (w - before)) > 0:
            momentum = 1.0
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        z, before, momentum = w + (momentum - 1) / following * (w - before), w, following
    return w, False


def _mean_gradient(f: Objective, w: Vector, records: Any, n: int) -> Vector:
    """(1/n) times the sum of the gradients, rounded as a sum over ``_ROWS`` records is."""
    parts = [f.data_gradient(w, records.slice(a, min(a + _ROWS, records.n)), n) for a in range(0, records.n, _ROWS)]
    if not parts:
        return np.zeros(w.size)
    return parts[0] if len(parts) == 1 else np.array([math.fsum(entries) for entries in np.stack(parts, axis=1)])


def _careful_gradient(f: Objective, w: Vector, records: Any, n: int) -> Vector:
    """The same with margins to twice the working precision (one margin a record) and exact sums: many times slower."""
    parts = [np.zeros(w.size)]
    for x, y in records.blocks(max(1, (1 << 20) // w.size)):
        if getattr(f, "classes", 1) > 1:
            each = f.gradients(w, x, y)
        else:
            dense = x if isinstance(x, np.ndarray) else x.toarray()
            each = dense * f.slope(compensated(dense, w), y)[:, None]
        parts.append(np.array([math.fsum(column) for column in each.T]))
    return np.array([math.fsum(column) for column in np.stack(parts, axis=1)]) / n


def compensated(x: Vector, w: Vector) -> Vector:
    """x @ w, (rows,), as if summed in twice the working precision and then rounded (Ogita, Rump, Oishi 2005, Algorithm 5.3)."""
    total, rest = np.zeros(len(x)), np.zeros(len(x))
    for column, weight in zip(x.T, w, strict=True):
        product = column * weight
        a, b = _split(column), _split(np.float64(weight))
        missed = a[1] * b[1] - (((product - a[0] * b[0]) - a[1] * b[0]) - a[0] * b[1])
        following = total + product
        back = following - total
        rest += ((total - (following - back)) + (product - back)) + missed
        total = following
    return np.asarray(total + rest)


def _split(a: Any) -> tuple[Any, Any]:
    """a as a sum of two numbers of 26 bits (Dekker, Veltkamp)."""
    c = 134217729.0 * a
    high = c - (c - a)
    return high, a - high


def _newton(
    f: Objective, records: Any, n: int, ridge: float, linear: Vector, w: Vector, gradient: Any, rounding: Any, tolerance: float
) -> tuple[Vector, bool]:
    def value(u: Vector) -> float:
        return f.data_value(u, records, n) + ridge / 2 * float(u @ u) + float(linear @ u)

    g = gradient(w)
    for _ in range(60):
        if norm(g) + rounding(w) <= tolerance:
            return w, True
        try:
            step = np.linalg.solve(f.data_hessian(w, records, n) + ridge * np.eye(w.size), -g)
        except np.linalg.LinAlgError:  # a curvature of nought next to a ridge that is lost beside it, or not finite
            return w, False
        if not math.isfinite(norm(step)):
            return w, False
        slope, size, here = float(g @ step), 1.0, value(w)
        while size > 1e-8 and value(w + size * step) > here + 1e-4 * size * slope + 1e-14 * abs(here):
            size /= 2
        w = w + size * step
        g = gradient(w)
    return w, norm(g) + rounding(w) <= tolerance
