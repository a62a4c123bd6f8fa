"""The objective of a ``minimise`` task, vectorised: F(w) = (1/n) sum phi(<w, x_i>, y_i) + penalty over a set,

penalty(w) = l2/2 |w|^2 + l1 |w|_1 + sum_g c_g |w_g| (g: groups of coordinates).

The *data part* (1/n) sum phi is what an algorithm noises: the regulariser is public, so it is added after the draw and cancels in
every sensitivity. Products run over cache-sized blocks of records, dense or CSR, so the gradient reads the data once from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms import sums
from dpspec.algorithms.sets import REALS, ConstraintSet, GroupNorm, prox

Vector: TypeAlias = NDArray[np.float64]
#: phi or a derivative of it in u, elementwise over u = <w, x> and y, both of shape (rows,).
Scalar: TypeAlias = Callable[[Vector, Vector], Vector]

_BLOCK_BYTES = 1 << 19


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """``phi`` and its first two derivatives in u (``curvature`` may be None where phi is not twice differentiable).

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

    def size(self, features: int) -> int:
        """How many weights there are."""
        return features

    def data_value(self, w: Vector, records: Any, n: int | None = None) -> float:
        """(1/n) sum phi(<w, x_i>, y_i)."""
        total = 0.0
        for x, y in _blocks(records):
            total += float(self.phi(np.asarray(x @ w), y).sum())
        return total / (records.n if n is None else n)

    def data_gradient(self, w: Vector, records: Any, n: int | None = None) -> Vector:
        """(1/n) sum phi'(<w, x_i>, y_i) x_i, shape (d,)."""
        total = sums.Sum(w.size)
        for x, y in _blocks(records):
            total.add(x.T @ self.slope(np.asarray(x @ w), y))
        return total.value / (records.n if n is None else n)

    def data_hessian(self, w: Vector, records: Any, n: int | None = None) -> Vector:
        """(1/n) sum phi''(<w, x_i>, y_i) x_i x_i^T, shape (d, d). Raises ``ValueError`` without a second derivative."""
        if self.curvature is None:
            raise ValueError("this loss has no second derivative")
        total = np.zeros((w.size, w.size))
        for x, y in _blocks(records):
            c = self.curvature(np.asarray(x @ w), y)
            total += np.asarray(x.T @ (x * c[:, None] if isinstance(x, np.ndarray) else x.multiply(c[:, None]).tocsr().toarray()))
        total /= records.n if n is None else n
        return total

    def gradients(self, w: Vector, x: Any, y: Vector) -> Vector:
        """The gradients of single records, (rows, d): what a client or a clipping algorithm needs."""
        s = self.slope(np.asarray(x @ w), y)
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


def _blocks(records: Any) -> Iterator[tuple[Any, Vector]]:
    # a block is a view, and the second product finds a dense one in the cache; the rounding of a sum counts on no longer blocks
    rows = sums.MOST if getattr(records, "sparse", False) else sums.block_rows(_BLOCK_BYTES // 8, records.d)
    for x, y in records.blocks(rows):
        if y is None:
            raise ValueError("the loss needs labels y and the records have none")
        yield x, y


def optimum(objective: Objective, records: Any, *, iterations: int = 20_000, start: Vector | None = None) -> tuple[Vector, float]:
    """The non-private reference (catalogue 01, gd-optimum): accelerated proximal gradient with restarts, or L-BFGS where nothing is
    constrained; ``(w*, F(w*))``. ``start``: a point of the set to begin at, for losses that are not convex. For study mode: the value
    depends on the records without noise."""
    d = objective.size(records.d)
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
    still = 1e-10 if objective.smooth_penalty or objective.over.kind != "polytope" else 1e-7  # to what the prox is known
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
