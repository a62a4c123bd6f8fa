"""The objective of a ``minimise`` task, vectorised: F(w) = (1/n) sum phi(<w, x_i>, y_i) + penalty over a set,

penalty(w) = l2/2 |w|^2 + l1 |w|_1 + sum_g c_g |w_g| (g: groups of coordinates).

The *data part* (1/n) sum phi is what an algorithm noises: the regulariser is public, so it is added after the draw and cancels in
every sensitivity. Products run over cache-sized blocks of records, dense or CSR, so the gradient reads the data once from memory.

What sensitivities rest on, in the doubles that run. A certificate bounds the real function phi'; the expression that is evaluated may
leave that bound, or be no number at all, where terms cancel or overflow. So every record's computed slope s is brought into the
certified range before it multiplies x (:func:`dpspec.symbolic.margin.bounded`): |s| <= ``limit``, and 0 where s is not finite. Then the
exact product s x has a norm of at most ``limit`` |x| <= ``length``, however s came about, and only the rounding of the sum is left,
which the sensitivities count. Where a sensitivity uses that gradients are shorter at these weights, or that the gradients at two points
are close, the slope, or the difference of the two slopes, is cut at that bound in the same way (``within``).

A sum over neighbours differs by one record's term only when the other terms are the same doubles. A margin <w, x> is therefore summed
record by record in one order (:func:`margins`): products of BLAS round a row by its place in the block, which moves when a record leaves.

Nothing warns: a message on stderr would say that some record overflowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms import sums
from dpspec.algorithms.sets import REALS, ConstraintSet, GroupNorm, prox
from dpspec.models.rows import each
from dpspec.symbolic.margin import bounded

Vector: TypeAlias = NDArray[np.float64]
#: phi or a derivative of it in u, elementwise over u = <w, x> and y, both of shape (rows,).
Scalar: TypeAlias = Callable[[Vector, Vector], Vector]

_BLOCK_BYTES = 1 << 20
#: Slopes are evaluated so many at a time: a few temporaries of that size stay in the cache.
_PIECE = 1 << 14
#: Caps are quotients and products of doubles, rounded down by more than that takes.
_DOWN = 1.0 - 2.0**-48


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """``phi`` and its first two derivatives in u (``curvature`` may be None where phi is not twice differentiable).

    ``limit``, ``length`` and ``curve``: certified bounds of |phi'|, of the norm of a record's gradient (``limit`` times that of x) and of
    |phi''|; infinite without a certificate.

    ``records`` below have ``x`` (n, d), ``y`` (n,) and ``blocks(size)``; ``n`` is the public number of records that sums are divided
    by, and defaults to how many there are. Raises ``ValueError`` when there are no labels and phi needs them (y is None).
    """

    phi: Scalar
    slope: Scalar
    curvature: Scalar | None = None
    l2: float = 0.0
    l1: float = 0.0
    over: ConstraintSet = field(default_factory=lambda: REALS)
    group: GroupNorm | None = None
    limit: float = math.inf
    length: float = math.inf
    curve: float = math.inf

    def size(self, features: int) -> int:
        """How many weights there are."""
        return features

    def data_value(self, w: Vector, records: Any, n: int | None = None) -> float:
        """(1/n) sum phi(<w, x_i>, y_i)."""
        total = 0.0
        with np.errstate(all="ignore"):
            for part in _parts(records, lambda x, y: float(self.phi(margins(x, w), y).sum())):
                total += part
        return total / (records.n if n is None else n)

    def data_gradient(self, w: Vector, records: Any, n: int | None = None, *, within: float = math.inf) -> Vector:
        """(1/n) sum phi'(<w, x_i>, y_i) x_i, shape (d,); every record's gradient is no longer than ``within``, nor than ``length``."""
        total, cap = sums.Sum(w.size), min(self.limit, self._slope_of(within))
        with np.errstate(all="ignore"):
            for part in _parts(records, lambda x, y: x.T @ self._slopes(x, w, y, cap)):
                total.add(part)
            return total.value / (records.n if n is None else n)

    def data_difference(self, v: Vector, w: Vector, records: Any, n: int | None = None, *, within: float = math.inf) -> Vector:
        """(1/n) sum (grad phi_i(v) - grad phi_i(w)), shape (d,); every record's difference is no longer than ``within``."""
        total, cap = sums.Sum(w.size), self._slope_of(within)
        with np.errstate(all="ignore"):

            def part(x: Any, y: Vector) -> Any:
                return x.T @ bounded(self._slopes(x, v, y, self.limit) - self._slopes(x, w, y, self.limit), cap)

            for one in _parts(records, part):
                total.add(one)
            return total.value / (records.n if n is None else n)

    def _slopes(self, x: Any, w: Vector, y: Vector, cap: float) -> Vector:
        """phi'(<w, x_i>, y_i) in [-cap, cap], shape (rows,)."""
        u = margins(x, w)
        for a in range(0, u.size, _PIECE):
            u[a : a + _PIECE] = bounded(self.slope(u[a : a + _PIECE], y[a : a + _PIECE]), cap)
        return u

    def _slope_of(self, within: float) -> float:
        """The slope of a gradient of norm ``within`` whatever the record's norm is, rounded down."""
        if not math.isfinite(self.length) or within == math.inf:
            return math.inf
        return self.limit * (within / self.length) * _DOWN

    def data_hessian(self, w: Vector, records: Any, n: int | None = None) -> Vector:
        """(1/n) sum phi''(<w, x_i>, y_i) x_i x_i^T, shape (d, d). Raises ``ValueError`` without a second derivative."""
        if self.curvature is None:
            raise ValueError("this loss has no second derivative")
        total = np.zeros((w.size, w.size))
        with np.errstate(all="ignore"):
            for x, y in _blocks(records):
                c = bounded(self.curvature(margins(x, w), y), self.curve)
                total += np.asarray(x.T @ (x * c[:, None] if isinstance(x, np.ndarray) else x.multiply(c[:, None]).tocsr().toarray()))
            total /= records.n if n is None else n
        return total

    def gradients(self, w: Vector, x: Any, y: Vector) -> Vector:
        """The gradients of single records, (rows, d): what a client or a clipping algorithm needs."""
        with np.errstate(all="ignore"):
            s = self._slopes(x, w, y, self.limit)
            dense: Vector = x * s[:, None] if isinstance(x, np.ndarray) else x.multiply(s[:, None]).toarray()
        return dense

    def regulariser(self, w: Vector) -> float:
        """l2/2 |w|^2 + l1 |w|_1 + the group norm."""
        group = 0.0 if self.group is None else self.group.value(w)
        return 0.5 * self.l2 * float(w @ w) + self.l1 * float(np.abs(w).sum()) + group

    @property
    def smooth_penalty(self) -> bool:
        """Whether the regulariser is a ridge or nothing."""
        return self.l1 == 0.0 and self.group is None

    def value(self, w: Vector, records: Any) -> float:
        """F(w). In study mode only: on private data it is a release that nobody paid for."""
        return self.data_value(w, records) + self.regulariser(w)

    def gradient(self, w: Vector, records: Any, n: int | None = None) -> Vector:
        """The gradient of the smooth part, ridge included."""
        return self.data_gradient(w, records, n) + self.l2 * w

    def prox(self, v: Vector, step: float) -> Vector:
        """argmin over u in the set of |u - v|^2/2 + step*(l1 |u|_1 + the group norm), see :func:`dpspec.algorithms.sets.prox`; the ridge is
        not in it."""
        return prox(v, self.over, step, self.l1, self.group)


def margins(x: Any, w: Vector) -> Vector:
    """<w, x_i> of every row, shape (rows,), each a function of that row and ``w`` alone, bit for bit, wherever it stands: dense rows by
    :func:`numpy.einsum` (faster than BLAS for rows of this length, too), CSR rows by their own loop."""
    return np.einsum("ij,j->i", x, w) if isinstance(x, np.ndarray) else np.asarray(x @ w)


def _rows(records: Any) -> int:
    # a block is a view, and the second product finds a dense one in the cache; the rounding of a sum counts on no longer blocks
    return sums.MOST if getattr(records, "sparse", False) else sums.block_rows(_BLOCK_BYTES // 8, records.d)


def _blocks(records: Any) -> Iterator[tuple[Any, Vector]]:
    for x, y in records.blocks(_rows(records)):
        yield x, _labelled(y)


def _labelled(y: Any) -> Vector:
    if y is None:
        raise ValueError("the loss needs labels y and the records have none")
    return y  # type: ignore[no-any-return]


def _parts(records: Any, part: Callable[[Any, Vector], Any]) -> Iterator[Any]:
    """``part`` of every block, in order; workers ignore what NumPy has to say of it, as the caller does."""

    def quietly(x: Any, y: Any) -> Any:
        with np.errstate(all="ignore"):
            return part(x, _labelled(y))

    return each(records, _rows(records), quietly)


def optimum(
    objective: Objective, records: Any, *, iterations: int = 20_000, start: Vector | None = None, tolerance: float = 1e-10
) -> tuple[Vector, float]:
    """The non-private reference (catalogue 01, gd-optimum): accelerated proximal gradient with restarts, or L-BFGS where nothing is
    constrained; ``(w*, F(w*))``. ``start``: a point of the set to begin at, for losses that are not convex. ``tolerance``: the relative
    step at which it stops; the value is known to about its square. For study mode: the value depends on the records without noise."""
    d = objective.size(records.d)
    # the bounds hold on the set, and extrapolated points of the search need not lie in it
    objective = replace(objective, limit=math.inf, length=math.inf, curve=math.inf)
    if objective.smooth_penalty and objective.over.kind == "reals":
        from scipy.optimize import minimize

        found = minimize(
            lambda w: (objective.value(w, records), objective.gradient(w, records)),
            np.zeros(d) if start is None else start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-15, "gtol": 1e-11, "maxcor": 30},
        )
        return found.x, float(found.fun)

    def smooth(w: Vector) -> float:
        return objective.data_value(w, records) + 0.5 * objective.l2 * float(w @ w)

    w = z = objective.over.start(d) if start is None else start
    theta, step = 1.0, 1.0
    known = 0.0 if objective.smooth_penalty or objective.over.kind != "polytope" else 1e-7  # of the prox
    still = max(tolerance, known)
    for _ in range(iterations):
        g, at = objective.gradient(z, records), smooth(z)
        while True:  # backtracking
            u = objective.prox(z - step * g, step)
            gap = u - z
            if smooth(u) <= at + float(g @ gap) + float(gap @ gap) / (2 * step) + 1e-14 * abs(at) or step < 1e-14:
                break
            step /= 2
        if float(np.linalg.norm(gap)) <= still * max(1.0, float(np.linalg.norm(u))):  # a fixed point of the prox-gradient step
            w = u
            break
        if float((z - u) @ (u - w)) > 0.0:  # restart the acceleration (O'Donoghue, Candes 2015)
            theta = 1.0
        following = (1 + float(np.sqrt(1 + 4 * theta * theta))) / 2
        z, w, theta, step = u + (theta - 1) / following * (u - w), u, following, step * 1.05
    return w, objective.value(w, records)
