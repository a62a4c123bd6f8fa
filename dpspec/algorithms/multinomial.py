"""The objective of multinomial logistic regression: F(W) = (1/n) sum phi(W x_i, y_i) + l2/2 |W|^2 + l1 |W|_1 over a set.

W has the shape (K, d). Algorithms see it as the vector of its K*d entries, row after row, so norms are Frobenius norms and sets are sets
of vectors of K*d numbers; only this file knows the matrix. A block of records takes one matrix product each way: the margins
Z = W X^T (K, rows), and (softmax(Z) - onehot(y)) X for the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.objective import Objective
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


@dataclass(frozen=True, slots=True, eq=False)
class Multinomial(Objective):
    """``factor`` times the multinomial loss of ``classes`` classes, with the interface of an objective of K*d weights. ``phi``, ``slope``
    and ``curvature`` are functions of the margins (K, rows); the curvature is given by the probabilities (:meth:`data_hessian`)."""

    classes: int = 2
    factor: float = 1.0

    def size(self, features: int) -> int:
        return self.classes * features

    def _margins(self, w: Vector, x: Any) -> Vector:
        """(K, rows)."""
        W = w.reshape(self.classes, -1)
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

    def data_value(self, w: Vector, records: Any, n: int | None = None) -> float:
        """(1/n) sum phi(W x_i, y_i)."""
        total = sum(float(self.phi(self._margins(w, x), y).sum()) for x, y in self._blocks(records))
        return self.factor * total / (records.n if n is None else n)

    def data_gradient(self, w: Vector, records: Any, n: int | None = None) -> Vector:
        """(1/n) sum (p_i - e_{y_i}) x_i^T, flat, shape (K*d,)."""
        total = sums.Sum((self.classes, w.size // self.classes))
        for x, y in self._blocks(records):
            s = self.slope(self._margins(w, x), y)
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
        s = self.factor * self.slope(self._margins(w, x), y).T
        dense = x if isinstance(x, np.ndarray) else x.toarray()
        return np.asarray((s[:, :, None] * dense[:, None, :]).reshape(len(s), -1))


def multinomial(classes: int, over: ConstraintSet, *, factor: float = 1.0, l2: float = 0.0, l1: float = 0.0) -> Multinomial:
    """The objective of a ``minimise multinomial(K)`` task; ``over``: a set of vectors of K*d numbers."""
    return Multinomial(phi=value, slope=slope, curvature=slope, l2=l2, l1=l1, over=over, classes=classes, factor=factor)
