"""A vertex chosen privately for a small <v, mean gradient>: what Frank-Wolfe methods over sets of few vertices share.

One score moves by at most moved*c*max|v|_1/n, c a bound of every entry of a record's gradient that is enforced by clipping them to [-c, c];
by Hoelder moved*L*max|v|_2/n holds as well, and the smaller of the two is used. The exponential mechanism (bounded range) or the greatest
score with Laplace noise of scale 2*sensitivity/epsilon chooses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Problem, Tunable, Tunables
from dpspec.algorithms.gradients import moved
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import Vector, constraint_set
from dpspec.numeric.norms import lengths
from dpspec.privacy.mechanisms.exponential import Exponential
from dpspec.privacy.mechanisms.noisy_max import NoisyMax

AVERAGED: Final = "number of the first point that is averaged"


def tail(share: str) -> Tunable:
    """Which of the points w_1, ..., w_T are averaged."""
    return Tunable(share, "share of the points that is averaged, by their numbers; 003: the last one", False, 1e-9, 1.0)


def first(t: Tunables) -> int:
    """A: points A, ..., T are averaged."""
    T = int(t.T)
    return T - max(1, math.ceil(float(t.tail) * T * (1 - 2.0**-40))) + 1


def average(points: Sequence[Vector], t: Tunables) -> Vector:
    """The mean of points A, ..., T of (1, ..., T), shape (d,), weighted by their numbers: in the set, as it is convex."""
    start = first(t)
    return np.asarray(np.average(np.asarray(points[start - 1 :]), axis=0, weights=np.arange(start, int(t.T) + 1)))


def few(p: Problem) -> bool:
    """Whether the set has few vertices: an l1 ball, the simplex or a polytope."""
    over = p.task.over
    return bool(over.kind in ("simplex", "polytope") or (over.kind == "ball" and over.norm == "l1"))


def shape(p: Problem) -> tuple[int, float, float]:
    """(number of vertices, max |v|_1, max |v|_2), the norms rounded up."""
    over = constraint_set(p.task.over, p.facts)
    if over.vertices is not None:
        return len(over.vertices), float(lengths(over.vertices, "l1").upper.max()), float(lengths(over.vertices).upper.max())
    return (p.d, 1.0, 1.0) if over.kind == "simplex" else (2 * p.d, over.radius, over.radius)


def sensitivity(p: Problem, clip: float) -> float:
    """The largest change of one score <v, mean gradient>."""
    assert p.loss is not None
    _, l1, l2 = shape(p)
    slope = min(clip * l1, p.loss.lipschitz * l2)
    # a score is an inner product of a vertex and a mean gradient with the ridge's: off by (d + 4)u of what it is at most, in both runs
    most = (sums.HIDDEN if p.neighbours == "add-remove" else 1) * slope + p.loss.l2 * l2**2
    return sums.sensitivity(
        moved(p) * slope / p.n, p.n, moved(p), hidden=p.neighbours == "add-remove", terms=8 * p.loss.rows, beside=(p.d + 4) * most
    )


def curvature(p: Problem) -> float:
    """The curvature C of the objective over the set: F(w + g (v - w)) is at most g^2 C/2 above its tangent, for w and v of the set.

    The smaller of (B + lam) Q^2, Q the l2 diameter, and sup|phi''| |x|_inf^2 Q_1^2 + lam Q^2, Q_1 twice the largest l1 norm of a vertex:
    <x, v - w>^2 <= |x|_inf^2 |v - w|_1^2. In d dimensions the second is smaller by up to d where entries of records are bounded."""
    assert p.loss is not None
    Q = constraint_set(p.task.over, p.facts).diameter(p.d)
    flat = p.loss.curve * p.facts.get("x_linf", math.inf) ** 2 * (2 * shape(p)[1]) ** 2 + p.loss.l2 * Q**2
    if p.loss.network is not None and p.loss.network.outputs:  # derivatives in output weights do not fall with the entries of x
        flat = math.inf
    return float(min((p.loss.smooth + p.loss.l2) * Q**2, flat))


def selection(p: Problem, clip: float, word: str) -> Exponential | NoisyMax:
    """The mechanism that the word ``exponential`` or ``laplace`` names."""
    s, count = sensitivity(p, clip), shape(p)[0]
    return Exponential(s, count) if word == "exponential" else NoisyMax(s, count)


def slack(p: Problem, scale: float, word: str) -> float:
    """By how much a chosen vertex is worse than the best, in expectation."""
    count = shape(p)[0]
    return scale * math.log(count) if word == "exponential" else 2 * scale * (math.log(count) + 1)


def clipped_gradient(f: Objective, w: Vector, records: Any, n: int, clip: float, lipschitz: float) -> Vector:
    """(1/n) sum of the records' gradients, each entry clipped to [-clip, clip] (one that cannot be computed is 0); no work where the norm
    bound implies it."""
    if clip >= lipschitz:
        return f.data_gradient(w, records, n)
    total = sums.Sum(w.size)
    for x, y in records.blocks(4096):
        total.add(np.clip(np.nan_to_num(f.gradients(w, x, y), nan=0.0), -clip, clip).sum(axis=0))
    return total.value / n


def never_clips(p: Problem, clip: float) -> bool:
    """Whether the entries of the gradients are proved to be no larger than ``clip``."""
    assert p.loss is not None
    return bool(min(p.loss.lipschitz_inf, p.loss.lipschitz) <= clip * (1 + 1e-12))


def chosen(release: Any, records: Any, p: Problem, w: Vector, clip: float) -> Vector:
    """The draw ``vertex`` at ``w``, a function of earlier releases."""
    assert p.loss is not None
    f = p.objective
    g = clipped_gradient(f, w, records, p.n, clip, min(p.loss.lipschitz, p.loss.lipschitz_inf)) + f.l2 * w
    return nearest(release, p, g, sensitivity(p, clip))


def nearest(release: Any, p: Problem, g: Vector, s: float) -> Vector:
    """The draw ``vertex``, with the scores -<v, g> of sensitivity ``s``."""
    over = constraint_set(p.task.over, p.facts)
    if over.vertices is not None:
        return np.asarray(over.vertices[release.draw("vertex", -(over.vertices @ g), sensitivity=s)])
    scores = -g if over.kind == "simplex" else over.radius * np.concatenate([-g, g])
    j = release.draw("vertex", scores, sensitivity=s)
    v = np.zeros(p.d)
    v[j % p.d] = 1.0 if over.kind == "simplex" else over.radius * (1 if j < p.d else -1)
    return v
