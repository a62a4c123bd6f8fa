"""``minimise pairwise metric-logistic over ball(l2, r)``: metric learning, a loss of two records and a Mahalanobis matrix.

F(W) = 1/(n (n - 1)) sum over i != j of phi(y_i y_j (b - (x_i - x_j)^T W (x_i - x_j))) + l2/2 |W|^2, W a symmetric positive semidefinite
d x d matrix of Frobenius norm at most r, kept as d*d numbers, row after row. The constants are proved in :mod:`dpspec.symbolic.metric`.

Pairs of a block of records with a block of others are one matrix product, and their gradients four: with S the slopes,

    sum S_ij (x_i - x_j)(x_i - x_j)^T = X^T diag(S 1) X + Z^T diag(S^T 1) Z - X^T S Z - (X^T S Z)^T,

so a pair costs O(d) and nothing holds n x n numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms import sums
from dpspec.algorithms.card import Problem
from dpspec.algorithms.sets import ConstraintSet, Vector, constraint_set
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.measures.risk import EXCESS_EMPIRICAL_RISK
from dpspec.numeric.slopes import expit
from dpspec.spec.model import Minimise
from dpspec.symbolic import metric
from dpspec.symbolic.margin import bounded
from dpspec.tasks.minimise import certificate
from dpspec.tasks.minimise_pairwise import REGRET, stream_regret
from dpspec.tasks.protocol import Binding, Reference, Task

#: Numbers of a block of pairs.
_BLOCK: Final = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Records in an order that depends on none of them. ``x``: (n, d), dense; ``y``: (n,)."""

    objective: MetricObjective
    x: Vector
    y: Vector

    def gradient(self, w: Vector, k: int) -> Vector:
        """(1/k) sum over i < k of the gradients of the pairs (z_k, z_i), counted from 0; shape (d*d,)."""
        return self._pairs(w, slice(k, k + 1), slice(0, k), earlier=False)

    def against(self, w: Vector, rows: slice, others: NDArray[np.int64]) -> Vector:
        """The mean of the gradients of all pairs (z_t, z_i), t of ``rows``, i of ``others`` (which may repeat)."""
        return self._pairs(w, rows, others, earlier=False)

    def against_earlier(self, w: Vector, rows: slice) -> Vector:
        """The mean over t of ``rows`` of the mean over all i < t of the gradients of the pairs (z_t, z_i)."""
        return self._pairs(w, rows, slice(0, rows.stop - 1), earlier=True)

    def penalty(self, w: Vector, rows: slice) -> float:
        """The sum over t of ``rows`` of the mean over all i < t of phi of the pair (z_t, z_i); record 0 has none before it."""
        total, times = 0.0, np.arange(rows.start, rows.stop)[:, None]
        here, y = self.x[rows], self.y[rows]
        width = max(1, _BLOCK // max(len(here), 1))
        for a in range(0, rows.stop - 1, width):
            part = slice(a, min(a + width, rows.stop - 1))
            values = self.objective.values(w, here, self.x[part], y, self.y[part])
            total += float((np.where(np.arange(part.start, part.stop) < times, values, 0.0) / np.maximum(times, 1)).sum())
        return total

    def _pairs(self, w: Vector, rows: slice, others: Any, *, earlier: bool) -> Vector:
        f, here, there = self.objective, self.x[rows], self.x[others]
        mine, theirs = self.y[rows], self.y[others]
        b, m = len(here), len(there)
        total = sums.Sum(w.size)
        width = max(1, _BLOCK // b)
        with np.errstate(all="ignore"):
            for a in range(0, m, width):
                part = slice(a, min(a + width, m))
                s = f.slopes(w, here, there[part], mine, theirs[part])
                if earlier:
                    times = np.arange(rows.start, rows.stop)[:, None]
                    s = np.where(np.arange(part.start, part.stop) < times, s / times, 0.0)
                total.add(_outer(here, there[part], s) / (b if earlier else b * m))
        return total.value


@dataclass(frozen=True, slots=True, eq=False)
class MetricObjective:
    """``name``, ``b``, ``factor``: of the loss. ``limit``, ``length``, ``curve``: certified bounds of |phi'|, into which computed slopes
    are brought, of the gradient of a pair and of phi''. ``over``: the semidefinite matrices of the set. ``records`` have ``x`` (n, d) and
    ``y`` in {-1, 1}. ``online``: values are means over t of the mean over the pairs with earlier records, as in a regret."""

    name: str
    b: float
    factor: float
    over: ConstraintSet
    l2: float = 0.0
    limit: float = math.inf
    length: float = math.inf
    curve: float = math.inf
    online: bool = False

    def size(self, features: int) -> int:
        """How many weights there are."""
        return features * features

    @property
    def smooth_penalty(self) -> bool:
        return True

    def ordered(self, records: Any, order: NDArray[np.intp]) -> Pairs:
        """The records in ``order``, a permutation that depends on none of them."""
        return Pairs(self, _dense(records.x[order]), np.asarray(records.y, dtype=np.float64)[order])

    def arriving(self, records: Any) -> Pairs:
        """The records in the order in which they come."""
        return Pairs(self, _dense(records.x), np.asarray(records.y, dtype=np.float64))

    def _t(self, w: Vector, x: Vector, z: Vector, y1: Vector, y2: Vector) -> tuple[Vector, Vector]:
        """(t, y1 y2) of every pair of a row of ``x`` and one of ``z``."""
        d = x.shape[1]
        W = w.reshape(d, d)
        left = x @ W
        u = np.einsum("id,id->i", left, x)[:, None] + np.einsum("id,id->i", z @ W, z)[None, :] - left @ z.T - (z @ W @ x.T).T
        sign = y1[:, None] * y2[None, :]
        return sign * (self.b - u), sign

    def values(self, w: Vector, x: Vector, z: Vector, y1: Vector, y2: Vector) -> Vector:
        """phi of every pair of a row of ``x`` and one of ``z``."""
        t, _ = self._t(w, x, z, y1, y2)
        return np.asarray(self.factor * (np.logaddexp(0.0, -t) if self.name == "metric-logistic" else np.maximum(0.0, 1.0 - t)))

    def slopes(self, w: Vector, x: Vector, z: Vector, y1: Vector, y2: Vector) -> Vector:
        """The slope in u of every pair, within the certified range."""
        t, sign = self._t(w, x, z, y1, y2)
        steep = expit(-t) if self.name == "metric-logistic" else 1.0 * (t < 1.0)
        return bounded(self.factor * sign * steep, self.limit)

    def data_value(self, w: Vector, records: Any) -> float:
        """The mean of phi over the ordered pairs of different records."""
        come, n = self.arriving(records), records.x.shape[0]
        if self.online:
            return float(sum(come.penalty(w, rows) for rows in _rows(n)) / (n - 1))
        total = sum(float(self.values(w, come.x[r], come.x, come.y[r], come.y).sum()) for r in _rows(n))
        itself = self.factor * n * (math.log1p(math.exp(-self.b)) if self.name == "metric-logistic" else max(0.0, 1.0 - self.b))
        return float((total - itself) / (n * (n - 1)))

    def data_gradient(self, w: Vector, records: Any) -> Vector:
        """The gradient of :meth:`data_value`, shape (d*d,)."""
        come, n = self.arriving(records), records.x.shape[0]
        total = np.zeros(w.size)
        for rows in _rows(n):
            if self.online:
                rows = slice(max(rows.start, 1), rows.stop)
                total += (rows.stop - rows.start) * come.against_earlier(w, rows) / (n - 1) if rows.stop > rows.start else 0.0
            else:
                total += _outer(come.x[rows], come.x, self.slopes(w, come.x[rows], come.x, come.y[rows], come.y)) / (n * (n - 1))
        return total

    def stream_regret(self, path: Vector, times: Vector, records: Any) -> float:
        """As :meth:`dpspec.tasks.minimise_pairwise.PairObjective.stream_regret`, all pairs run through in blocks."""
        return stream_regret(self, path, times, records)

    def regulariser(self, w: Vector) -> float:
        return 0.5 * self.l2 * float(w @ w)

    def value(self, w: Vector, records: Any) -> float:
        """F(W). In study mode only."""
        return self.data_value(w, records) + self.regulariser(w)

    def gradient(self, w: Vector, records: Any) -> Vector:
        """The gradient of F, ridge included. In study mode only."""
        return self.data_gradient(w, records) + self.l2 * w

    def prox(self, v: Vector, step: float) -> Vector:
        """The nearest matrix of the set; the ridge is not in it."""
        return self.over.project(v)


def _dense(x: Any) -> Vector:
    return np.asarray(x if isinstance(x, np.ndarray) else x.toarray())


def _rows(n: int) -> Iterator[slice]:
    width = max(1, _BLOCK // n)
    for a in range(0, n, width):
        yield slice(a, min(a + width, n))


def _outer(x: Vector, z: Vector, s: Vector) -> Vector:
    """sum s_ij (x_i - z_j)(x_i - z_j)^T, flat."""
    cross = x.T @ (s @ z)
    whole = (x.T * s.sum(axis=1)) @ x + (z.T * s.sum(axis=0)) @ z - cross - cross.T
    return np.asarray(whole).ravel()


def bind(binding: Binding) -> Any:
    """The :class:`MetricObjective` of a certified loss."""
    loss, found = binding.problem.loss, metric.of(binding.node.loss, binding.facts)
    if loss is None or found is None or not math.isfinite(loss.lipschitz):
        return None
    return MetricObjective(
        name=found.name,
        b=float(found.b),
        factor=float(found.factor),
        over=ConstraintSet("semidefinite", radius=constraint_set(binding.node.over, binding.facts).radius),
        l2=loss.l2,
        limit=loss.slope,
        length=loss.lipschitz,
        curve=loss.curve,
    )


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    """The minimiser over all pairs of these records and the least value."""
    from dpspec.algorithms.objective import optimum

    return optimum(problem.oracle, records, tolerance=1e-4)


#: Neighbours that vote.
NEAREST: Final = 3


def neighbour_error(w: Array, trial: Trial) -> float:
    """The share of records whose label is not that of most of its 3 nearest others in the learned metric (000, section 3.3.5: the
    accuracy of 3-NN, there on a test part). Ties go to the earlier record."""
    x, y = _dense(trial.records.x), np.asarray(trial.records.y, dtype=np.float64)
    n, d = x.shape
    W = np.asarray(w, dtype=np.float64).reshape(d, d)
    own = np.einsum("id,id->i", x @ W, x)
    wrong = 0
    for rows in _rows(n):
        far = own[rows, None] + own[None, :] - (x[rows] @ (W + W.T)) @ x.T
        far[np.arange(len(far)), np.arange(rows.start, rows.stop)] = np.inf
        near = np.argsort(far, axis=1, kind="stable")[:, : min(NEAREST, n - 1)]
        wrong += int((np.sign(y[near].sum(axis=1)) != y[rows]).sum())
    return float(wrong / n)


NEIGHBOUR_ERROR: Final = Measure("nearest-neighbour-error", neighbour_error, "records")

TASK = Task(
    name="minimise-metric",
    serves=lambda node: isinstance(node, Minimise) and node.pairwise and metric.mentions(node.loss),
    words=("minimise-pairwise",),
    measures=(EXCESS_EMPIRICAL_RISK, NEIGHBOUR_ERROR, REGRET),
    certificate=certificate,
    bind=bind,
    reference=reference,
    labelled=lambda node: True,
)
