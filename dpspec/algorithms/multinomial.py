"""The objective of multinomial logistic regression: F(W) = (1/n) sum phi(W x_i, y_i) + l2/2 |W|^2 + l1 |W|_1 over a set.

W has the shape (K, d). Algorithms see it as the vector of its K*d entries, row after row, so norms are Frobenius norms and sets are sets
of vectors of K*d numbers; only this file knows the matrix. A block of records takes one matrix product each way: the margins
Z = W X^T (K, rows), and (softmax(Z) - onehot(y)) X for the gradient. A record's slope, a vector of K numbers, is kept to its certified
l2 norm as in :mod:`dpspec.algorithms.objective` (:func:`bounded`).

Under add-remove (``alone``) a record's margins must not depend on where it stands in its block, as they do by a few units in a
matrix product: they are then summed record by record. Under the other relations every record keeps its place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.objective import Objective, margins
from dpspec.algorithms.sets import ConstraintSet, Vector

_BLOCK_BYTES = 1 << 19
_CSR_BYTES = 1 << 25


def _shifted(z: Vector) -> tuple[Vector, Vector, Vector]:
    """exp(z - max z), its sum over the classes, and max z: nothing overflows, and the sum is at least 1."""
    top = z.max(axis=0)
    e = np.exp(z - top)
    return e, e.sum(axis=0), top


def value(z: Vector, y: Vector) -> Vector:
    """log sum_j exp(z_j) - z_y; z (K, rows) (a reduction over long rows is several times faster), y (rows,) labels 0..K-1."""
    _, total, top = _shifted(z)
    out: Vector = top - z[y.astype(np.intp), np.arange(z.shape[1])] + np.log(total)
    return out


def softmax(z: Vector) -> Vector:
    """Probabilities, (K, rows)."""
    e, total, _ = _shifted(z)
    e /= total
    return e


def slope(z: Vector, y: Vector) -> Vector:
    """softmax(z) - onehot(y), (K, rows)."""
    p = softmax(z)
    p[y.astype(np.intp), np.arange(z.shape[1])] -= 1.0
    return p


def bounded(s: Vector, cap: float) -> Vector:
    """Slopes (K, rows) whose columns have an l2 norm of at most ``cap``: a longer one is scaled down, one with an entry that is not
    finite is 0. ``s`` where nothing changes.

    Entries are differences of numbers in [0, 1] or not finite, so squares do not overflow, and those that underflow are of no account: a
    computed norm is off by (K + 2) 2^-53 of itself and sqrt(K) 1e-154 at most; the margins of the comparison and of the goal are wider,
    as no bound of a planned gradient is that short.
    """
    if s.size == 0:
        return s
    size, room = np.sqrt(np.einsum("kr,kr->r", s, s)), (len(s) + 8) * 2.0**-52
    if size.max() <= cap * (1 - room):  # not for NaN
        return s
    goal = cap * (1 - 2 * room)
    factor = np.where(size > cap * (1 - room), goal / np.where(size > 0, size, 1.0), 1.0)
    finite = np.isfinite(size)
    return np.asarray(np.where(finite, s, 0.0) * np.where(finite, factor, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Multinomial(Objective):
    """``factor`` times the multinomial loss of ``classes`` classes, with the interface of an objective of K*d weights. ``phi``, ``slope``
    and ``curvature`` are functions of the margins (K, rows); the curvature is given by the probabilities (:meth:`data_hessian`)."""

    classes: int = 2
    factor: float = 1.0
    alone: bool = False

    def size(self, features: int) -> int:
        return self.classes * features

    def _margins(self, w: Vector, x: Any) -> Vector:
        """(K, rows)."""
        W = w.reshape(self.classes, -1)
        if self.alone:
            return np.stack([margins(x, row) for row in W])
        return W @ x.T if isinstance(x, np.ndarray) else np.ascontiguousarray(np.asarray(x @ W.T).T)

    def _blocks(self, records: Any) -> Iterator[tuple[Any, Vector]]:
        if getattr(records, "sparse", False):
            rows = sums.block_rows(_CSR_BYTES // 8, self.classes)
        else:
            rows = sums.block_rows(_BLOCK_BYTES // 8, max(records.d, self.classes))
        for x, y in records.blocks(rows):
            if y is None:
                raise ValueError("the loss needs labels y and the records have none")
            yield x, y

    def _slopes(self, x: Any, w: Vector, y: Vector, cap: float) -> Vector:
        """(K, rows), without the factor."""
        return bounded(self.slope(self._margins(w, x), y), min(cap, self.limit) / self.factor * (1 - 2.0**-48))

    def data_value(self, w: Vector, records: Any, n: int | None = None) -> float:
        """(1/n) sum phi(W x_i, y_i)."""
        with np.errstate(all="ignore"):
            total = sum(float(self.phi(self._margins(w, x), y).sum()) for x, y in self._blocks(records))
        return self.factor * total / (records.n if n is None else n)

    def data_gradient(self, w: Vector, records: Any, n: int | None = None, *, within: float = math.inf) -> Vector:
        """(1/n) sum (p_i - e_{y_i}) x_i^T, flat, shape (K*d,); no record's gradient is longer than ``within``, nor than ``length``."""
        cap = self._slope_of(within)
        return self._summed(records, w.size, n, lambda x, y: self._slopes(x, w, y, cap))

    def data_difference(self, v: Vector, w: Vector, records: Any, n: int | None = None, *, within: float = math.inf) -> Vector:
        """(1/n) sum (grad phi_i(v) - grad phi_i(w)), flat; every record's difference is no longer than ``within``."""
        cap = self._slope_of(within) / self.factor * (1 - 2.0**-48)
        return self._summed(
            records, w.size, n, lambda x, y: bounded(self._slopes(x, v, y, math.inf) - self._slopes(x, w, y, math.inf), cap)
        )

    def _summed(self, records: Any, size: int, n: int | None, slopes: Any) -> Vector:
        """(factor/n) times the sum of slopes x^T."""
        total = sums.Sum((self.classes, size // self.classes))
        with np.errstate(all="ignore"):
            for x, y in self._blocks(records):
                s = slopes(x, y)
                total.add(s @ x if isinstance(x, np.ndarray) else np.asarray(x.T @ s.T).T)
            return (total.value * (self.factor / (records.n if n is None else n))).ravel()

    def data_hessian(self, w: Vector, records: Any, n: int | None = None) -> Vector:
        """(1/n) sum (diag(p_i) - p_i p_i^T) kron x_i x_i^T, shape (K*d, K*d): K(K + 1)/2 products X^T diag(.) X."""
        K, d = self.classes, w.size // self.classes
        total = np.zeros((K, d, K, d))
        for x, _ in self._blocks(records):
            p = softmax(self._margins(w, x))
            for j in range(K):
                for k in range(j, K):
                    c = p[j] * ((j == k) - p[k])
                    scaled = x * c[:, None] if isinstance(x, np.ndarray) else x.multiply(c[:, None]).tocsr().toarray()
                    total[j, :, k] += np.asarray(x.T @ scaled)
        for j in range(K):
            for k in range(j):
                total[j, :, k] = total[k, :, j]  # X^T diag(.) X is symmetric
        total *= self.factor / (records.n if n is None else n)
        return total.reshape(w.size, w.size)

    def gradients(self, w: Vector, x: Any, y: Vector) -> Vector:
        """The gradients of single records, (rows, K*d)."""
        with np.errstate(all="ignore"):
            s = self.factor * self._slopes(x, w, y, math.inf).T
            dense = x if isinstance(x, np.ndarray) else x.toarray()
            return np.asarray((s[:, :, None] * dense[:, None, :]).reshape(len(s), -1))


def multinomial(classes: int, over: ConstraintSet, *, factor: float = 1.0, l2: float = 0.0, l1: float = 0.0, **more: Any) -> Multinomial:
    """The objective of a ``minimise multinomial(K)`` task; ``over``: a set of vectors of K*d numbers; ``more``: alone, and limit and
    length of :class:`~dpspec.algorithms.objective.Objective`."""
    return Multinomial(phi=value, slope=slope, curvature=slope, l2=l2, l1=l1, over=over, classes=classes, factor=factor, **more)
