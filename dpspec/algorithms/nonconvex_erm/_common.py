"""What the algorithms of this family share: what they require of a loss, the public gap, which iterates a released one is from."""

from __future__ import annotations

import math

from dpspec.algorithms.card import Problem, Tunables
from dpspec.algorithms.gradients import LARGEST, norm
from dpspec.algorithms.sets import constraint_set


def typical_gap(gap: float, error: float, curve: float, d: int, gamma: float, T: int) -> float:
    """What the Frank-Wolfe gap is expected to be after T steps of ``gamma``, for a late iterate: no bound.

    ``error``: how much worse than the best vertex a chosen one is under the noise. A drift that noise outweighs is balanced by the pull
    gamma w of a step at a gap of error |w|/r, half of it at a minimiser half-way out. ``curve``: S Q^2, of which a step of length gamma Q/2
    in a mean direction sees the d-th part of a quarter. The start is forgotten like exp(-gamma k).
    """
    return error / 2 + curve * gamma / (32 * d) + gap * math.exp(-gamma * T / 2)


def refused(p: Problem) -> str | None:
    """What the gradient methods of this family require of a loss."""
    loss = p.loss
    if loss is None:
        return "the loss has no certificate"
    if not (math.isfinite(loss.lipschitz) and loss.lipschitz > 0):
        return "no finite Lipschitz constant of the loss is proved over the enforced record domain"
    if not loss.lipschitz * p.n < LARGEST:
        return "the sum of the records' gradients may leave the range of doubles"
    if not math.isfinite(loss.smooth):
        return "no finite smoothness constant of the loss is proved, and its steps need one"
    if p.task.over.kind == "sparse":
        return "the k-sparse vectors are not a convex set"
    return None


def kept(t: Tunables) -> int:
    """Of how many of the last iterates the released one is one."""
    return max(1, math.ceil(float(t.tail) * int(t.T)))


def short(t: Tunables) -> int:
    """How many of the last steps are short."""
    return max(1, math.ceil(float(t.late) * int(t.T)))


def gap(p: Problem) -> float:
    """A public bound of (F + r)(w_0) - min: the range of the loss above its infimum at 0, or the slope times the extent of the set."""
    assert p.loss is not None
    over = constraint_set(p.task.over, p.facts)
    far, start = over.distance_bound(p.d), over.start(p.d)
    found = math.inf
    if math.isfinite(far):
        slope = p.loss.lipschitz + p.loss.l2 * norm(start)
        if norm(start) > 0:  # elsewhere penalties are least at w_0
            slope += p.loss.penalty_slope(p.d)
        found = slope * far
    return min(found, p.loss.at_zero) if norm(start) == 0 else found
