"""What the algorithms of this family that minimise share: robust means of gradients, and the smoothness of a risk of the law.

One record adds kernel(phi'(<w, x>, y) x_j/s)*s to coordinate j of a sum over m records: at most cap(beta)*s whatever the record holds, NaN
and overflow included, so no domain has to be enforced. A record of zeros adds 0.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Fault, Need, Problem, Tunable, Tunables
from dpspec.algorithms.objective import Objective, margins
from dpspec.algorithms.sets import Vector, constraint_set
from dpspec.numeric import robust

BOUNDED: Final = "one record moves a robust mean by at most twice the kernel's supremum times s/m, whatever it holds"
NEEDS: Final = (
    Need("x", "privacy", "a record has bounded influence", enforced_by=BOUNDED),
    Need("y", "privacy", "a record has bounded influence", enforced_by=BOUNDED),
    Need(
        "moment",
        "utility",
        "coordinates of the data part's gradient have second moments at most tau everywhere on the set",
        of=("gradient",),
    ),
)
ZETA: Final = Tunable("1/20", "the probability that the bound fails", minimum=1e-12, maximum=0.5)
TAU: Final = Tunable(
    "moment_bound_gradient^(2/moment_order_gradient) else moment_bound^(2/moment_order)",
    "second moment of a gradient's coordinate on the whole set, from the declared moment of order 2 or more (Jensen)",
    minimum=1e-300,
)
#: Of F, the mean loss of the law with its ridge. Formulas see no certificate's phi'' but this one.
SMOOTHNESS: Final = Tunable(
    "B + lam else max_curve*eig_max + lam else max_curve*d*moment_bound_x^(2/moment_order_x) + lam",
    "smoothness of the mean loss: proved, or sup phi'' times the largest eigenvalue of E x x^T, or its trace",
    minimum=1e-300,
)
KERNEL_FAULT: Final = Fault(
    "000 (3.68) to (3.78), 003 (5): the closed form bounds the influence of a gradient",
    "not in doubles: it cancels for large entries and is NaN for tiny, huge and missing ones, and one such record makes the iterate NaN, "
    "which no noise hides",
    "tests/algorithms/sparse/test_robust.py::test_the_bare_closed_form_breaks_its_bound",
    "privacy",
)


def refused(p: Problem, t: Tunables) -> str | None:
    """The first requirement of a risk with heavy-tailed gradients that fails, or None."""
    if getattr(p.task, "pairwise", False):
        return "the loss is over pairs of records"
    if p.loss is None:
        return "the loss has no certificate"
    if p.loss.several:
        return "its robust means are of losses of one margin"
    if p.task.over.kind == "sparse":
        return "the k-sparse vectors are not a convex set (dp-sparse-optimization-heavy-tailed)"
    order = p.facts.get("moment_order_gradient", p.facts.get("moment_order", 2.0))
    if order < 2:
        return "it needs a second moment of the gradients, and the declared one is of a lower order"
    declared = p.facts.get("moment_bound_gradient", 0.0) ** (2 / p.facts.get("moment_order_gradient", 2.0))
    if t.tau < declared * (1 - 1e-12):
        return f"tau = {t.tau:g} contradicts the declared moment, by which E g_j^2 may be {declared:g}: its bound would be false"
    return None


def sensitivity(p: Problem, t: Tunables, least: int, largest: int, root: float = 1.0) -> float:
    """Between neighbours, of a robust mean over at least ``least`` and at most ``largest`` records, their number being the divisor:
    coordinate by coordinate, times ``root`` (sqrt(d) for l2). The slope and its product with x round in each record alone, so that the
    terms of the sum, bounded by the kernel, are doubles that neighbours share."""
    moved = 2.0 if p.neighbours == "replace-one" else 1.0
    return sums.sensitivity(moved * robust.supremum(t.beta) * t.s * root / least, largest, moved, hidden=p.neighbours == "add-remove")


def robust_gradient(records: Any, w: Vector, p: Problem[Objective], t: Tunables, divisor: int) -> Vector:
    """(s/divisor) sum kernel(g_ij/s) of the data part's gradients at ``w``, shape (d,). ``records``: rows, or one batch (x, y)."""
    total = sums.Sum(w.size)
    for x, y in blocks(records, sums.block_rows(1 << 15, w.size, 64)):
        with np.errstate(all="ignore"):
            total.add(robust.column_sums(x, p.objective.slope(margins(x, w), y), t.s, t.beta))
    return np.asarray(total.value / divisor)


def blocks(records: Any, rows: int) -> Any:
    if not isinstance(records, tuple):
        yield from records.blocks(rows)
        return
    x, y = records
    for start in range(0, x.shape[0], rows):
        yield x[start : start + rows], y[start : start + rows]


# ---------------------------------------------------------------------------------------------------------- risks of the law


def smoothness(p: Problem) -> float:
    """Of the mean loss of the law in l2, ridge included, from public facts alone: what is proved of each loss, or sup|phi''| times a bound
    of the largest eigenvalue of E x x^T. Infinite where nothing is known."""
    assert p.loss is not None
    return min(p.loss.smooth, p.loss.curve * _top(p)) + p.loss.l2


def _top(p: Problem) -> float:
    found = [p.facts.get("eig_max", math.inf)]
    if "moment_bound_x" in p.facts and p.facts["moment_order_x"] >= 2:
        found.append(p.d * second_moment(p))
    return min(found)


def second_moment(p: Problem) -> float:
    """A bound of E x_j^2 for every j by the declared moment; infinite without one."""
    order = p.facts.get("moment_order_x", 0.0)
    return float(p.facts["moment_bound_x"] ** (2 / order)) if order >= 2 else math.inf


def spread(p: Problem) -> tuple[float, float]:
    """(distance of the start from any point of the set, diameter)."""
    over = constraint_set(p.task.over, p.facts)
    return (over.distance_bound(p.d), over.diameter(p.d)) if over.kind != "reals" else (math.inf, math.inf)


def coordinate_error(t: Tunables, count: int, tail: float) -> float:
    """Of one coordinate of a robust mean over ``count`` records, both sides, except with probability 2 exp(-tail): PAC-Bayes, 002 (36)."""
    return float(t.tau * (1 + 1 / t.beta) / (2 * t.s) + t.s * (t.beta / 2 + tail) / count)
