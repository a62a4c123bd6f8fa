"""``minimise pairwise LOSS over SET``: a loss of two records, in w, x1, y1, x2, y2.

F(w) = 1/(n (n - 1)) sum over i != j of phi(<w, x_i - x_j>, y_i, y_j) + penalty(w), as for losses of one record.

Nothing here holds n x n numbers. A study's value and gradient over all pairs are sums over products: where phi of two labels is smooth, it
is interpolated in the two margins by Chebyshev polynomials, phi(a - b) = sum_kl c_kl T_k(a) T_l(b), and the sum over all pairs is one over
p^2 products of sums over records, to 1e-12 of the largest value; where the polynomials do not get there (kinks, labels that are not few),
the pairs are run through in blocks.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from dpspec.algorithms import sums
from dpspec.algorithms.card import Problem
from dpspec.algorithms.sets import REALS, ConstraintSet, GroupNorm, prox
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.measures.risk import EXCESS_EMPIRICAL_RISK
from dpspec.measures.vector import DISTANCES
from dpspec.spec.expr import Call, names, walk
from dpspec.spec.model import Minimise
from dpspec.spec.words import LOSSES
from dpspec.symbolic.margin import bounded
from dpspec.symbolic.metric import mentions
from dpspec.tasks.minimise import certificate
from dpspec.tasks.protocol import Binding, Reference, Task

Vector: TypeAlias = NDArray[np.float64]
#: phi or its slope in u, elementwise over u, y1, y2 that broadcast.
Scalar: TypeAlias = Callable[[Any, Any, Any], Vector]

#: Up to so many records all pairs are run through; pairs of a block of them at a time.
_FEW: Final = 600
_BLOCK: Final = 1 << 18
#: Degrees of the polynomials, tried in turn, what they have to reach, and with how many labels they are tried at all.
_DEGREES: Final = (24, 48, 96)
_ENOUGH: Final = 1e-12
_LABELS: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """Records in a public order. ``x``: (n, d), dense or CSR."""

    objective: PairObjective
    x: Any
    y: Vector

    def gradient(self, w: Vector, k: int) -> Vector:
        """(1/k) sum over i < k of the gradients of the pairs (z_k, z_i), counted from 0; shape (d,)."""
        f, earlier, here = self.objective, self.x[:k], self.x[k : k + 1]
        with np.errstate(all="ignore"):
            u = (here @ w)[0] - earlier @ w
            s = bounded(f.slope(u, self.y[k], self.y[:k]), f.limit)
            own = here[0] if isinstance(here, np.ndarray) else here.toarray()[0]
            return np.asarray((own * s.sum() - earlier.T @ s) / k)

    def against(self, w: Vector, rows: slice, others: NDArray[np.int64]) -> Vector:
        """The mean of the gradients of all pairs (z_t, z_i), t of ``rows``, i of ``others`` (which may repeat); shape (d,)."""
        return self._pairs(w, rows, others, earlier=False)

    def against_earlier(self, w: Vector, rows: slice) -> Vector:
        """The mean over t of ``rows`` of the mean over all i < t of the gradients of the pairs (z_t, z_i); shape (d,)."""
        return self._pairs(w, rows, slice(0, rows.stop - 1), earlier=True)

    def penalty(self, w: Vector, rows: slice) -> float:
        """The sum over t of ``rows`` of the mean over all i < t of phi of the pair (z_t, z_i); record 0 has none before it."""
        f, total, upto = self.objective, 0.0, rows.stop - 1
        mine, theirs = np.asarray(self.x[rows] @ w), np.asarray(self.x[:upto] @ w)
        times = np.arange(rows.start, rows.stop)[:, None]
        width = max(1, _BLOCK // len(mine))
        for a in range(0, upto, width):
            part = slice(a, min(a + width, upto))
            values = f.phi(mine[:, None] - theirs[None, part], self.y[rows][:, None], self.y[None, part])
            total += float((np.where(np.arange(part.start, part.stop) < times, values, 0.0) / np.maximum(times, 1)).sum())
        return total

    def _pairs(self, w: Vector, rows: slice, others: Any, *, earlier: bool) -> Vector:
        f, here, there = self.objective, self.x[rows], self.x[others]
        b, m = here.shape[0], there.shape[0]
        total = sums.Sum(len(w))
        with np.errstate(all="ignore"):
            mine, theirs = np.asarray(here @ w), np.asarray(there @ w)
            width = max(1, _BLOCK // b)
            for a in range(0, m, width):
                part = slice(a, min(a + width, m))
                u = mine[:, None] - theirs[None, part]
                s = bounded(f.slope(u, self.y[rows][:, None], self.y[others][None, part]), f.limit)
                if earlier:
                    times = np.arange(rows.start, rows.stop)[:, None]
                    s = np.where(np.arange(part.start, part.stop) < times, s / times, 0.0)
                total.add((here.T @ s.sum(axis=1) - there[part].T @ s.sum(axis=0)) / (b if earlier else b * m))
        return total.value


@dataclass(frozen=True, slots=True, eq=False)
class ByLabel:
    """Records in a public order, kept label by label: a record meets the earlier ones of each label as one slice, and those of labels that
    leave its pairs without a slope (equal ones, in ranking) not at all. ``parts``: (label, their places in the order, their rows)."""

    objective: PairObjective
    parts: tuple[tuple[float, list[int], Any], ...]
    label: NDArray[np.intp]
    within: NDArray[np.intp]

    def gradient(self, w: Vector, k: int) -> Vector:
        """As :meth:`Ordered.gradient`."""
        f = self.objective
        own, _, rows = self.parts[self.label[k]]
        here = rows[self.within[k] : self.within[k] + 1]
        total, pull = 0.0, np.zeros(len(w))
        with np.errstate(all="ignore"):
            margin = (here @ w)[0]
            for other, places, theirs in self.parts:
                count = bisect_left(places, k)
                if count == 0 or (own, other) in f.silent:
                    continue
                earlier = theirs[:count]
                s = bounded(f.slope(margin - earlier @ w, own, other), f.limit)
                total, pull = total + s.sum(), pull + earlier.T @ s
            mine = here[0] if isinstance(here, np.ndarray) else here.toarray()[0]
            return np.asarray((mine * total - pull) / k)


@dataclass(frozen=True, slots=True, eq=False)
class PairObjective:
    """``phi`` and its ``slope`` in u = <w, x1 - x2>; ``limit``, ``length``: certified bounds of |phi'|, into which computed slopes are
    brought, and of the gradient of a pair. ``l2``, ``l1``, ``group``, ``over`` as in :class:`dpspec.algorithms.objective.Objective`.
    ``records`` have ``x`` (n, d), dense or CSR, and ``y`` (n,)."""

    phi: Scalar
    slope: Scalar
    l2: float = 0.0
    l1: float = 0.0
    over: ConstraintSet = field(default_factory=lambda: REALS)
    group: GroupNorm | None = None
    limit: float = math.inf
    length: float = math.inf
    curve: float = math.inf
    residual: bool = False  # phi knows u - (y1 - y2) alone, but for terms without w
    silent: frozenset[tuple[float, float]] = frozenset()  # labels of pairs without a slope
    online: bool = False  # data_value is the mean over t of the mean over the pairs with earlier records, as in a regret

    def size(self, features: int) -> int:
        """How many weights there are."""
        return features

    def ordered(self, records: Any, order: NDArray[np.intp]) -> Ordered | ByLabel:
        """The records in ``order``, a permutation that depends on none of them."""
        y = _labels(records)[order]
        labels, label = np.unique(y, return_inverse=True)
        if not self.silent or len(labels) > _LABELS:
            return Ordered(self, records.x[order], y)
        places = [np.flatnonzero(label == j) for j in range(len(labels))]
        within = np.empty(len(y), dtype=np.intp)
        for found in places:
            within[found] = np.arange(len(found))
        parts = tuple((float(v), found.tolist(), records.x[order[found]]) for v, found in zip(labels, places, strict=True))
        return ByLabel(self, parts, label, within)

    def arriving(self, records: Any) -> Ordered:
        """The records in the order in which they come."""
        return Ordered(self, records.x, _labels(records))

    def data_value(self, w: Vector, records: Any) -> float:
        """The mean of phi over the ordered pairs of different records."""
        if self.online:
            come, n = self.arriving(records), records.x.shape[0]
            found = self._running(self.phi, w, records, gradient=False)
            return float((sum(come.penalty(w, rows) for rows in _blocks(n)) if found is None else found) / (n - 1))
        y, m = _labels(records), np.asarray(records.x @ w)
        n = len(y)
        total, itself = self._sum(self.phi, m, y, gradient=False), self.phi(np.zeros(n), y, y).sum()
        return float((total - itself) / (n * (n - 1)))

    def data_gradient(self, w: Vector, records: Any) -> Vector:
        """The gradient of :meth:`data_value`, shape (d,); a record beside itself has none."""
        if self.online:
            come, n, total = self.arriving(records), records.x.shape[0], np.zeros(len(w))
            found = self._running(self.slope, w, records, gradient=True)
            if found is not None:
                return np.asarray(records.x.T @ found / (n - 1))
            for rows in _blocks(n):
                rows = slice(max(rows.start, 1), rows.stop)
                total += (rows.stop - rows.start) * come.against_earlier(w, rows) if rows.stop > rows.start else 0.0
            return np.asarray(total / (n - 1))
        y, m = _labels(records), np.asarray(records.x @ w)
        n = len(y)
        return np.asarray(records.x.T @ self._sum(self.slope, m, y, gradient=True)) / (n * (n - 1))

    def stream_regret(self, path: Vector, times: Vector, records: Any, near: Vector | None = None) -> float:
        """The mean over the records after the first of F_t(w_{t-1}), the mean loss of a record with all earlier ones at the point that was
        out when it came, less the least such mean of one point of the set. ``path``: (Q + 1, d); ``times``: how many records had come when
        each point was released, the first 0. A step of the search for that point takes O(n p^2) by running sums of p polynomials where
        these are accurate (smooth losses, few labels), and n^2 losses where they are not; it begins at ``near``, or at the minimiser over
        all pairs. In study mode only."""
        return stream_regret(self, path, times, records, near)

    def regulariser(self, w: Vector) -> float:
        """l2/2 |w|^2 + l1 |w|_1 + the group norm."""
        group = 0.0 if self.group is None else self.group.value(w)
        return 0.5 * self.l2 * float(w @ w) + self.l1 * float(np.abs(w).sum()) + group

    @property
    def smooth_penalty(self) -> bool:
        """Whether the regulariser is a ridge or nothing."""
        return self.l1 == 0.0 and self.group is None

    def value(self, w: Vector, records: Any) -> float:
        """F(w). In study mode only."""
        return self.data_value(w, records) + self.regulariser(w)

    def gradient(self, w: Vector, records: Any) -> Vector:
        """The gradient of the smooth part, ridge included. In study mode only."""
        return self.data_gradient(w, records) + self.l2 * w

    def prox(self, v: Vector, step: float) -> Vector:
        """argmin over u in the set of |u - v|^2/2 + step*(l1 |u|_1 + the group norm); the ridge is not in it."""
        return prox(v, self.over, step, self.l1, self.group)

    def _running(self, f: Scalar, w: Vector, records: Any, *, gradient: bool) -> Any:
        """Sum over t of the mean over i < t of f of the pair (t, i); with ``gradient``, for each record the sum of these terms as t less
        that as i. None where there are few records or polynomials are not accurate enough."""
        y, m = _labels(records), np.asarray(records.x @ w)
        if self.residual:
            m, y = m - y, np.zeros(len(y))
        labels = np.unique(y)
        if len(m) <= _FEW or len(labels) > _LABELS:
            return None
        found = _interpolated(f, m, labels)
        if found is None:
            return None
        middle, half, every = found
        return _earlier((m - middle) / half, [y == label for label in labels], every, gradient)

    def _sum(self, f: Scalar, m: Vector, y: Vector, *, gradient: bool) -> Any:
        """Sum of f(m_i - m_j, y_i, y_j) over all i and j; with ``gradient``, for each i the sum over j of that less the other way round."""
        if self.residual:  # labels move margins, and all records have one
            m, y = m - y, np.zeros(len(y))
        labels = np.unique(y)
        if len(m) > _FEW and len(labels) <= _LABELS:
            found = _separated(f, m, [np.flatnonzero(y == label) for label in labels], labels, gradient)
            if found is not None:
                return found
        out = np.zeros(len(m))
        for rows in _blocks(len(m)):
            block = f(m[rows, None] - m[None, :], y[rows, None], y[None, :])
            out[rows] += block.sum(axis=1)
            if gradient:
                out -= block.sum(axis=0)
        return out if gradient else out.sum()


def stream_regret(objective: Any, path: Vector, times: Vector, records: Any, near: Vector | None = None) -> float:
    """:meth:`PairObjective.stream_regret` of any loss of two records."""
    come, n = objective.arriving(records), records.x.shape[0]
    ends = [*np.asarray(times, dtype=np.int64)[1:], n]
    paid = start = 0
    if len(path) == 1:  # one point for all records: a value that running sums know
        ends, paid = [], (n - 1) * replace(objective, online=True).value(np.asarray(path[0]), records)
    for w, end in zip(path if ends else [], ends, strict=True):
        if end > start:
            paid = paid + come.penalty(w, slice(int(start), int(end))) + (end - max(start, 1)) * objective.regulariser(w)
        start = end
    return float(paid / (n - 1) - _least(objective, records, near))


#: The least mean losses of one fixed point, oldest first: estimates of a trial, and points of a study that vary a budget, share records.
_LEAST: dict[Any, float] = {}
_MOST_LEAST: Final = 256


def _least(objective: Any, records: Any, near: Vector | None) -> float:
    """What the best fixed point of the set pays, found once for the same records and the same objective."""
    from dpspec.algorithms.objective import optimum

    key = _asked(objective, records)
    if key not in _LEAST:
        if near is None:
            near, _ = optimum(objective, records)  # over all pairs, by sorting: close to it, and quick
        while len(_LEAST) >= _MOST_LEAST:
            _LEAST.pop(next(iter(_LEAST)))
        _LEAST[key] = optimum(replace(objective, online=True), records, start=near, tolerance=1e-4)[1]
    return _LEAST[key]


def _asked(objective: Any, records: Any) -> Any:
    """What the best fixed point depends on: the numbers of the records, and the fields of the objective."""
    x = records.x
    parts = (x,) if isinstance(x, np.ndarray) else (x.data, x.indices, x.indptr)
    digest = hashlib.sha256(repr(x.shape).encode())
    for part in (*parts, _labels(records)):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest(), _said(objective)


def _said(value: Any) -> Any:
    """A value that is equal for equal content: of an object that compares by identity, its fields."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if is_dataclass(value) and not isinstance(value, type) and type(value).__eq__ is object.__eq__:
        return (type(value), *(_said(getattr(value, f.name)) for f in fields(value)))
    return getattr(value, "__func__", None), getattr(value, "__self__", value)


def _labels(records: Any) -> Vector:
    return np.zeros(records.x.shape[0]) if records.y is None else np.asarray(records.y, dtype=np.float64)


def _blocks(n: int) -> Iterator[slice]:
    rows = max(1, _BLOCK // n)
    for a in range(0, n, rows):
        yield slice(a, min(a + rows, n))


def _separated(f: Scalar, m: Vector, groups: list[Any], labels: Vector, gradient: bool) -> Any:
    """:meth:`PairObjective._sum` by polynomials in both margins; None where they are not accurate enough."""
    found = _interpolated(f, m, labels)
    if found is None:
        return None
    middle, half, every = found
    degree = len(every[0][0])
    powers = [chebyshev.chebvander((m[g] - middle) / half, degree - 1) for g in groups]
    sums = [p.sum(axis=0) for p in powers]
    if not gradient:
        return sum(float(sums[i] @ every[i][j] @ sums[j]) for i in range(len(groups)) for j in range(len(groups)))
    out = np.zeros(len(m))
    for i, g in enumerate(groups):
        out[g] = sum(powers[i] @ (every[i][j] @ sums[j] - sums[j] @ every[j][i]) for j in range(len(groups)))
    return out


def _interpolated(f: Scalar, m: Vector, labels: Vector) -> tuple[float, float, list[list[Vector]]] | None:
    """(middle, half the width) of the margins and, for each pair of labels, the coefficients of f(a - b) in T_k(a) T_l(b); None where no
    degree is accurate enough."""
    low, high = float(m.min()), float(m.max())
    middle, half = (low + high) / 2, max((high - low) / 2, 1e-150)
    if not math.isfinite(half):
        return None
    for degree in _DEGREES:
        nodes = chebyshev.chebpts1(degree)
        u = half * (nodes[:, None] - nodes[None, :])
        every = [[_coefficients(f(u, a, b)) for b in labels] for a in labels]
        if all(_small(c) for row in every for c in row):
            break
    else:
        return None
    return middle, half, every


def _earlier(m: Vector, groups: list[Any], every: list[list[Vector]], gradient: bool) -> Any:
    """:meth:`PairObjective._running` of margins in [-1, 1]: one pass forwards, with running sums of the polynomials of each label, and for
    gradients one backwards. Holds a block of records' polynomials at a time."""
    n, degree, kinds = len(m), len(every[0][0]), range(len(groups))
    rows = max(1, _BLOCK // degree)
    starts = range(0, n, rows)

    def polynomials(a: int) -> list[Vector]:
        return [chebyshev.chebvander(m[a : a + rows], degree - 1) * g[a : a + rows, None] for g in groups]

    before, total, out = [np.zeros(degree) for _ in groups], 0.0, np.zeros(n)
    for a in starts:
        p = polynomials(a)
        share = 1.0 / np.maximum(np.arange(a, a + len(p[0])), 1)
        for j in kinds:
            sums = np.cumsum(p[j], axis=0)
            earlier = before[j] + sums - p[j]
            for i in kinds:
                value = np.einsum("tk,tk->t", p[i] @ every[i][j], earlier) * share
                total += float(value.sum())
                out[a : a + rows] += value
            before[j] = before[j] + sums[-1]
    if not gradient:
        return total
    after = [np.zeros(degree) for _ in groups]
    for a in reversed(starts):
        p = polynomials(a)
        share = 1.0 / np.maximum(np.arange(a, a + len(p[0])), 1)
        for i in kinds:
            weighted = p[i] * share[:, None]
            sums = np.cumsum(weighted[::-1], axis=0)[::-1]
            later = after[i] + sums - weighted
            for j in kinds:
                out[a : a + rows] -= np.einsum("tk,tk->t", later @ every[i][j], p[j])
            after[i] = after[i] + sums[0]
    return out


def _coefficients(values: Vector) -> Vector:
    """Of T_k(a) T_l(b), from the values at the Chebyshev points of both."""
    degree = len(values)
    basis = _basis(degree)
    return np.asarray(basis.T @ values @ basis)


@lru_cache(maxsize=len(_DEGREES))
def _basis(degree: int) -> Vector:
    basis = chebyshev.chebvander(chebyshev.chebpts1(degree), degree - 1) * (2.0 / degree)
    basis[:, 0] /= 2
    basis.flags.writeable = False
    return np.asarray(basis)


def _small(c: Vector) -> bool:
    """Whether the coefficients of the highest degrees are lost beside the largest."""
    if not np.isfinite(c).all():
        return False
    size, edge = np.abs(c), max(2, len(c) // 8)
    return float(max(size[-edge:].max(), size[:, -edge:].max())) <= _ENOUGH * max(float(size.max()), 1e-300)


def bind(binding: Binding) -> Any:
    """The :class:`PairObjective` of a certified loss."""
    from dpspec.algorithms.sets import constraint_set, group_norm
    from dpspec.domains.variable import NOTHING_SAID
    from dpspec.symbolic.pair_loss import pair_loss

    problem, proved = binding.problem, binding.certificate
    if proved is None or proved.form is None or problem.loss is None:
        return None
    loss, y = problem.loss, binding.domains.get("y", NOTHING_SAID).enforced
    functions = pair_loss(proved.name, proved.form, y)
    return PairObjective(
        phi=functions.value,
        slope=functions.slope,
        l2=loss.l2,
        l1=loss.l1,
        over=constraint_set(binding.node.over, binding.facts),
        group=group_norm(loss.group, problem.d),
        limit=loss.slope,
        length=loss.lipschitz,
        curve=loss.curve,
        residual=functions.residual,
        silent=functions.silent,
    )


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    """The minimiser over all pairs of these records and the least value."""
    from dpspec.algorithms.objective import optimum

    return optimum(problem.oracle, records)


def auc_error(w: Array, trial: Trial) -> float:
    """1 - the area under the curve of <w, x> on the records: the share of pairs, one of the largest label and one of the least, that it
    ranks the wrong way; ties count half. 1/2 where all labels are one."""
    m, y = np.asarray(trial.records.x @ w), _labels(trial.records)
    above, below = np.sort(m[y == y.max()]), np.sort(m[y == y.min()])  # sorted ones are looked up in order, that is in the cache
    if y.max() == y.min():
        return 0.5
    first, last = np.searchsorted(above, below, "left"), np.searchsorted(above, below, "right")
    return float((first + last).sum() / 2 / (len(above) * len(below)))


def regret(w: Array, trial: Trial) -> float:
    """Of the points that were released while the records came, against the best fixed one; of one point, the same for that point alone."""
    path, times = trial.released.get("transcript"), trial.released.get("times")
    own = trial.released.get("theta")
    if path is None or times is None or own is None or not np.array_equal(w, own):
        path, times = np.asarray(w)[None, :], np.zeros(1)
    return float(trial.problem.oracle.stream_regret(path, times, trial.records, trial.reference))


def labelled(loss: Any) -> bool:
    """Whether the loss reads y: by name, or as every named loss of two records does."""
    return not names(loss).isdisjoint(("y1", "y2", *LOSSES)) or any(isinstance(e, Call) and e.function in LOSSES for e in walk(loss))


REGRET: Final = Measure("regret", regret, "records", transfers=False)
AUC_ERROR: Final = Measure("auc-error", auc_error, "records")

TASK = Task(
    name="minimise-pairwise",
    serves=lambda node: isinstance(node, Minimise) and node.pairwise and not mentions(node.loss),
    words=("minimise-pairwise",),
    measures=(EXCESS_EMPIRICAL_RISK, AUC_ERROR, REGRET, *DISTANCES),
    certificate=certificate,
    bind=bind,
    reference=reference,
    labelled=lambda node: labelled(node.loss),
)
