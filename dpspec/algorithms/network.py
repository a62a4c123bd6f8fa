"""The objective of a network of two layers: F(theta) = (1/n) sum phi(W x_i, v, y_i) + l2/2 |theta|^2 + l1 |theta|_1 over a set.

theta is the matrix of the shape (K, d), or (K, d + 1) with the output weights v in the last column, as the vector of its entries row after
row, which is how algorithms see it. A block of records takes one matrix product each way: the margins Z = W X^T (K, rows), and for the
gradient S X, S the partial derivatives of phi (K, rows), beside the row sums of those in v.

What sensitivities rest on: a record's gradient has the norm of its scaled slopes, (R |s_w|, |s_v|), or less, R the bound of |x|_2; they are
kept to the certified one (:func:`dpspec.algorithms.multinomial.bounded`) before they meet x, whatever doubles make of the expression. In
the same way the second derivatives, scaled by R for each margin, are kept to the certified Frobenius norm (:meth:`Network.curvatures`).

Under add-remove (``alone``) margins are summed record by record, as in :mod:`dpspec.algorithms.multinomial`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.multinomial import bounded
from dpspec.algorithms.objective import Objective, margins
from dpspec.algorithms.sets import ConstraintSet, Vector
from dpspec.symbolic import network as tree
from dpspec.symbolic.network_values import function

_BLOCK_BYTES = 1 << 20
_CSR_BYTES = 1 << 25
_DOWN = 1.0 - 2.0**-48


@dataclass(frozen=True, slots=True, eq=False)
class Network(Objective):
    """``phi``, ``slope`` and ``curvature`` are functions of margins, (rows,) each, output weights and labels. ``reach``: R; ``frobenius``:
    a bound of the Hessian of a record."""

    width: int = 1
    outputs: bool = False
    reach: float = 1.0
    frobenius: float = math.inf
    alone: bool = False

    def size(self, features: int) -> int:
        return self.width * (features + int(self.outputs))

    def _inputs(self, w: Vector, x: Any) -> Any:
        """A list of margins, (rows,) each, and output weights."""
        matrix = w.reshape(self.width, -1)
        W = np.ascontiguousarray(matrix[:, :-1]) if self.outputs else matrix
        if self.alone:
            z = np.stack([margins(x, row) for row in W])
        else:
            z = W @ x.T if isinstance(x, np.ndarray) else np.ascontiguousarray(np.asarray(x @ W.T).T)
        return [*z, *(float(v) for v in matrix[:, -1])] if self.outputs else list(z)

    def _blocks(self, records: Any) -> Iterator[tuple[Any, Vector]]:
        if getattr(records, "sparse", False):
            rows = sums.block_rows(_CSR_BYTES // 8, 4 * self.width)
        else:
            rows = sums.block_rows(_BLOCK_BYTES // 8, max(records.d, 4 * self.width))
        for x, y in records.blocks(rows):
            if y is None:
                raise ValueError("the loss needs labels y and the records have none")
            yield x, y

    def _slopes(self, x: Any, w: Vector, y: Vector, cap: float) -> Vector:
        """The partial derivatives (variables, rows), of which the scaled ones have norms of at most ``cap`` R."""
        return self._kept(self.slope(self._inputs(w, x), y), cap)

    def _kept(self, s: Vector, cap: float) -> Vector:
        if self.reach != 1.0:
            s[: self.width] *= self.reach
        s = bounded(s, min(cap, self.limit) * self.reach * _DOWN)
        if self.reach != 1.0:
            s[: self.width] /= self.reach * (1 + 2.0**-50)
        return s

    def data_value(self, w: Vector, records: Any, n: int | None = None) -> float:
        """(1/n) sum phi."""
        with np.errstate(all="ignore"):
            total = sum(float(self.phi(self._inputs(w, x), y).sum()) for x, y in self._blocks(records))
        return total / (records.n if n is None else n)

    def data_gradient(self, w: Vector, records: Any, n: int | None = None, *, within: float = math.inf) -> Vector:
        """(1/n) sum of the records' gradients, flat; none is longer than ``within``, nor than ``length``."""
        cap = self._slope_of(within)
        return self._summed(records, w.size, n, lambda x, y: self._slopes(x, w, y, cap))

    def data_difference(self, v: Vector, w: Vector, records: Any, n: int | None = None, *, within: float = math.inf) -> Vector:
        """(1/n) sum (grad phi_i(v) - grad phi_i(w)), flat; every record's difference is no longer than ``within``."""
        cap = self._slope_of(within)
        return self._summed(
            records, w.size, n, lambda x, y: self._kept(self._slopes(x, v, y, math.inf) - self._slopes(x, w, y, math.inf), cap)
        )

    def _summed(self, records: Any, size: int, n: int | None, slopes: Callable[[Any, Vector], Vector]) -> Vector:
        total = sums.Sum((self.width, size // self.width))
        with np.errstate(all="ignore"):
            for x, y in self._blocks(records):
                s = slopes(x, y)
                own = s[: self.width]
                part = own @ x if isinstance(x, np.ndarray) else np.asarray(x.T @ own.T).T
                total.add(np.hstack([part, s[self.width :].sum(axis=1, keepdims=True)]) if self.outputs else part)
            return (total.value / (records.n if n is None else n)).ravel()

    def curvatures(self, x: Any, w: Vector, y: Vector) -> Vector:
        """The second derivatives (variables, variables, rows), of which the scaled ones have Frobenius norms of at most ``frobenius``; 0
        where one is no number. Raises ``ValueError`` where the loss has none."""
        if self.curvature is None:
            raise ValueError("this loss has no second derivative")
        m = self.width * (2 if self.outputs else 1)
        radii = np.array([self.reach] * self.width + [1.0] * (m - self.width))
        square = np.outer(radii, radii).reshape(m * m, 1)
        c = self.curvature(self._inputs(w, x), y).reshape(m * m, -1) * square
        kept: Vector = bounded(c, self.frobenius * _DOWN) / (square * (1 + 2.0**-50))
        return kept.reshape(m, m, -1)

    def data_hessian(self, w: Vector, records: Any, n: int | None = None) -> Vector:
        """(1/n) sum of the records' Hessians, shape (size, size)."""
        total = sums.Sum((w.size, w.size))
        with np.errstate(all="ignore"):
            for x, y in self._blocks(records):
                total.add(self._hessian(x, self.curvatures(x, w, y), w.size))
            return np.asarray(total.value / (records.n if n is None else n))

    def _hessian(self, x: Any, c: Vector, size: int) -> Vector:
        """The sum of a block's Hessians: X^T diag(c_jk) X for units j, k, X^T c_jk for a unit and an output weight, sums for two such."""
        K, columns = self.width, size // self.width
        out = np.zeros((K, columns, K, columns))
        d = columns - int(self.outputs)
        for j in range(K):
            for k in range(K):
                own = c[j, k]
                scaled = x * own[:, None] if isinstance(x, np.ndarray) else x.multiply(own[:, None]).tocsr().toarray()
                out[j, :d, k, :d] = np.asarray(x.T @ scaled)
                if self.outputs:
                    cross = np.asarray(x.T @ c[j, K + k])
                    out[j, :d, k, d] = cross
                    out[k, d, j, :d] = cross
                    out[j, d, k, d] = c[K + j, K + k].sum()
        return out.reshape(size, size)

    def data_product(self, w: Vector, v: Vector, records: Any, n: int | None = None) -> Vector:
        """(1/n) sum of the records' Hessians times ``v``, without a matrix of that size."""
        total = sums.Sum((self.width, w.size // self.width))
        with np.errstate(all="ignore"):
            for x, y in self._blocks(records):
                c = self.curvatures(x, w, y)
                s = sum(c[:, k] * along for k, along in enumerate(self._inputs(v, x)))
                own = s[: self.width]
                part = own @ x if isinstance(x, np.ndarray) else np.asarray(x.T @ own.T).T
                total.add(np.hstack([part, s[self.width :].sum(axis=1, keepdims=True)]) if self.outputs else part)
            return (total.value / (records.n if n is None else n)).ravel()

    def gradients(self, w: Vector, x: Any, y: Vector) -> Vector:
        """The gradients of single records, (rows, size)."""
        with np.errstate(all="ignore"):
            s = self._slopes(x, w, y, math.inf).T
            dense = x if isinstance(x, np.ndarray) else x.toarray()
            out = s[:, : self.width, None] * dense[:, None, :]
            if self.outputs:
                out = np.concatenate([out, s[:, self.width :, None]], axis=2)
            return np.asarray(out.reshape(len(s), -1))


def network(net: tree.Network, over: ConstraintSet, *, smooth: bool, l2: float = 0.0, l1: float = 0.0, **more: Any) -> Network:
    """The objective of a certified network; ``over``: a set of vectors of all weights; ``smooth``: whether second derivatives exist;
    ``more``: reach, frobenius, alone, and limit and length of :class:`~dpspec.algorithms.objective.Objective`."""
    return Network(
        phi=function(net, 0),
        slope=function(net, 1),
        curvature=function(net, 2) if smooth else None,
        l2=l2,
        l1=l1,
        over=over,
        width=net.width,
        outputs=net.outputs,
        **more,
    )
