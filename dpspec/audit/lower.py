"""Lower bounds on compositions, by other mathematics than the upper ones (:mod:`dpspec.audit.losses`), so that the two check each other.

A pair of neighbours becomes a finite mechanism: outputs whose losses lie between two points are merged into one. A composition is the
product of finite mechanisms, and after each product outputs of nearly equal loss are merged once more, so that some hundreds are left.
Merging is post-processing: every number that comes out is the privacy of a real, if coarser, release. There is no lattice of losses, no
transform and no tilt; only products and sums of positive numbers are formed, each right to a few units in the last place. A merged output
of losses w apart shows less by about w^2/12 of the variance, and the cells grow with the spread of the composition, so that squaring costs
log T times that loss and not T times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpspec.audit.pairs import Array, Atoms, Pair, Reversed, symmetric

_FINE = 1e-11  # relative error of the mass of a cell, differences of tail functions included
_CELLS = 700
_BINS = 1 << 18


@dataclass(frozen=True, slots=True)
class Finite:
    """Outputs in order of their loss ln(P/Q): ``mass[i]`` under P at ``loss[i]``, and ``sure`` of P where Q is 0. ``error``: relative."""

    mass: Array
    loss: Array
    sure: float
    error: float

    def epsilon(self, delta: float) -> float:
        """The largest epsilon at which ``delta`` does not suffice; 0 when it always does, infinite when it never does."""
        keep = 1 - self.error
        if self.sure * keep > delta:
            return math.inf
        if self.mass.size == 0:
            return 0.0
        above = np.cumsum(self.mass[::-1]) * keep
        log_other = np.logaddexp.accumulate((np.log(self.mass) - self.loss)[::-1]) - math.log(keep)
        # every set S of outputs shows ln((P(S) - delta)/Q(S)); the best sets are those above a loss
        spare = above - (delta - self.sure * keep)
        shown = spare > 0
        return max(0.0, float(np.max(np.log(spare[shown]) - log_other[shown], initial=0.0)))

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence at ``epsilon``, from below."""
        keep = 1 - self.error
        gain = keep - np.exp(np.minimum(epsilon - self.loss, 50.0)) / keep
        return self.sure * keep + float(np.sum(self.mass * np.maximum(gain, 0.0)))


def coarser(a: Finite, tail: float, cells: int = _CELLS) -> Finite:
    """At most about ``cells`` outputs: fine cells where most of P is, and again from there to where ``tail`` of P is left."""
    mass, loss = a.mass, a.loss
    if mass.size <= cells:
        return a
    low, high = float(loss.min()), float(loss.max())
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        return Finite(np.array([mass.sum()]), np.array([low]), a.sure, a.error + 1e-14)
    width = (high - low) / (_BINS * (1 - 1e-12))
    at: NDArray[np.int64] = ((loss - low) / width).astype(np.int64)
    binned = np.asarray(np.bincount(at, weights=mass, minlength=_BINS), dtype=float)
    moment = np.asarray(np.bincount(at, weights=mass * (loss - low), minlength=_BINS), dtype=float)
    below, above = np.cumsum(binned), np.cumsum(binned[::-1])[::-1]
    total = float(below[-1])
    start, stop = int(np.searchsorted(below, 1e-7 * total)), int(np.searchsorted(-above, -tail)) + 1
    left, right = int(np.searchsorted(below, 1e-3 * total)), int(np.searchsorted(-above, -1e-3 * total)) + 1
    edges = [
        np.linspace(left, right, cells // 3),
        np.linspace(start, stop, cells // 3),
        np.searchsorted(below, np.linspace(0, total, cells // 6)),
        np.linspace(0, _BINS, cells // 6),
    ]
    cuts = np.unique(np.clip(np.concatenate(edges).astype(np.int64), 0, _BINS - 1))
    return _cells(binned, moment, cuts, low, width, a)


def _cells(binned: Array, moment: Array, cuts: NDArray[np.int64], low: float, width: float, a: Finite) -> Finite:
    """The bins between cuts as one output each. Within a bin the loss of the merged outputs, -ln E[e^-L], is at least E[L] - width^2/8
    (Hoeffding), which takes the place of all its losses."""
    solid = np.flatnonzero(binned > 0)
    mass = binned[solid]
    loss = low + moment[solid] / mass - width**2 / 8
    first = np.unique(np.searchsorted(solid, cuts))
    first = first[first < solid.size]
    lowest = np.minimum.reduceat(loss, first)
    cell = np.repeat(np.arange(first.size), np.diff(np.append(first, solid.size)))
    whole = np.add.reduceat(mass, first)
    other = np.add.reduceat(mass * np.exp(lowest[cell] - loss), first)
    merged = lowest - np.log(other / whole)
    order = np.argsort(merged, kind="stable")
    return Finite(whole[order], merged[order], a.sure, a.error + 1e-13)


def _atoms(p: Array, q: Array) -> Finite:
    both = (p > 1e-300) & (q > 1e-300)
    loss = np.log(p[both]) - np.log(q[both])
    order = np.argsort(loss, kind="stable")
    return Finite(p[both][order], loss[order], float(p[q == 0].sum()), 1e-15)


def finite(pair: Pair, tail: float) -> Finite:
    """A post-processing of ``pair``; what has less than ``tail`` of P at either end is one output."""
    if isinstance(pair, Atoms):
        return _atoms(np.asarray(pair.p, dtype=float), np.asarray(pair.q, dtype=float))
    if isinstance(pair, Reversed) and isinstance(pair.pair, Atoms):
        return _atoms(np.asarray(pair.pair.q, dtype=float), np.asarray(pair.pair.p, dtype=float))
    wide, narrow = pair.reach(tail), pair.reach(1e-3)
    edges = np.unique(np.concatenate([np.linspace(*wide, 3 * _CELLS), np.linspace(*narrow, 3 * _CELLS)]))
    p_up, q_up, p_down, q_down = pair.tails(edges)
    right = edges[:-1] >= 0
    p = np.concatenate([[p_down[0]], np.where(right, p_up[:-1] - p_up[1:], p_down[1:] - p_down[:-1]), [p_up[-1]]])
    q = np.concatenate([[q_down[0]], np.where(right, q_up[:-1] - q_up[1:], q_down[1:] - q_down[:-1]), [q_up[-1]]])
    p_size = np.concatenate([[p_down[0]], np.where(right, p_up[:-1], p_down[1:]), [p_up[-1]]])
    q_size = np.concatenate([[q_down[0]], np.where(right, q_up[:-1], q_down[1:]), [q_up[-1]]])
    sure = float(p[-1]) if q[-1] == 0.0 and q_up[-1] == 0.0 and wide[1] < 650 else 0.0
    if sure > 0:
        p[-1] = 0.0
    # a mass that is the small difference of two large numbers is not known well: its output joins the heaviest one
    beyond = (q < 1e-290) & (p > 1e-5 * p_size) & (p > 1e-290)  # too small for a double; the lower edge bounds the loss from below
    known = ((p > 1e-5 * p_size) & (q > 1e-5 * q_size) & (p > 1e-290) & (q > 1e-290)) | beyond
    if not known.any():
        return Finite(np.zeros(0), np.zeros(0), sure, _FINE)
    heavy = int(np.argmax(np.where(known & ~beyond, p, -1.0)))
    p[heavy] += float(np.maximum(p[~known], 0.0).sum())
    q[heavy] += float(np.maximum(q[~known], 0.0).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.where(beyond, np.concatenate([[-np.inf], edges]), np.log(p) - np.log(q))
    p, loss = p[known], loss[known]
    order = np.argsort(loss, kind="stable")
    return Finite(p[order], loss[order], sure, _FINE)


def times(a: Finite, b: Finite, tail: float, cells: int = _CELLS) -> Finite:
    """Both releases, outputs of nearly equal loss merged."""
    a, b = coarser(a, tail, cells), coarser(b, tail, cells)
    sure = a.sure + b.sure - a.sure * b.sure
    mass, loss = np.outer(a.mass, b.mass).ravel(), np.add.outer(a.loss, b.loss).ravel()
    solid = mass > 1e-300
    if not solid.all():
        mass, loss = mass[solid], loss[solid]
    whole = Finite(mass, loss, sure, a.error + b.error)
    if mass.size > cells:
        return coarser(whole, tail, cells)
    order = np.argsort(loss, kind="stable")
    return Finite(mass[order], loss[order], sure, whole.error)


def power(a: Finite, count: int, tail: float) -> Finite:
    """``count`` independent uses, by squaring."""
    found: Finite | None = None
    square, left = a, count
    while True:
        if left & 1:
            found = square if found is None else times(found, square, tail)
        left >>= 1
        if not left:
            assert found is not None
            return found
        square = times(square, square, tail)


def composed(parts: Sequence[tuple[Pair, int]], tail: float, reverse: bool = False) -> Finite:
    """The composition of real pairs that neighbours show together, ``reverse``: with the data sets exchanged."""
    whole: Finite | None = None
    for pair, count in parts:
        one = power(finite(Reversed(pair) if reverse else pair, tail), count, tail)
        whole = one if whole is None else times(whole, one, tail)
    assert whole is not None
    return whole


def _turns(parts: Sequence[tuple[Pair, int]]) -> tuple[bool, ...]:
    return (False,) if all(symmetric(pair) for pair, _ in parts) else (False, True)


def epsilon_at_least(parts: Sequence[tuple[Pair, int]], delta: float) -> float:
    """An epsilon >= 0 that the composition of ``parts`` exceeds at ``delta`` > 0, in the worse direction."""
    if not parts:
        return 0.0
    return max(composed(parts, 1e-4 * delta, turn).epsilon(delta) for turn in _turns(parts))


def delta_at_least(parts: Sequence[tuple[Pair, int]], epsilon: float) -> float:
    """A delta below that of the composition of ``parts`` at ``epsilon``, in the worse direction."""
    if not parts:
        return 0.0
    found = max(composed(parts, 1e-13, turn).delta(epsilon) for turn in _turns(parts))
    if found < 1e-8:  # far in the tail: once more, with outputs for it
        found = max(found, *(composed(parts, max(1e-4 * found, 1e-40), turn).delta(epsilon) for turn in _turns(parts)))
    return found
