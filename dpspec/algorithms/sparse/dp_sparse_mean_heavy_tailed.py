"""Sparse mean of heavy-tailed records: one robust mean, one peeling (central model).

    theta = Peeling(robust mean of the coordinates at scale s; kept, sensitivity 2 sup s/n).

Source: 003, section 5.2, Algorithm 5 with the loss |x - w|^2 (gamma = mu = 2: one iteration with eta = 1/2 is exact), Theorems 8 and 9. The
kernel and its supremum: see dp-sparse-optimization-heavy-tailed.
"""

from __future__ import annotations

import math
from typing import Any

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.sets import unkept
from dpspec.algorithms.sparse import _central as central
from dpspec.algorithms.sparse.dp_sparse_optimization_heavy_tailed import ROBUST_FAULTS
from dpspec.algorithms.sums import Sum, block_rows
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.numeric import robust
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="dp-sparse-mean-heavy-tailed",
    title="Sparse mean of heavy-tailed records",
    family="sparse",
    task="mean",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp", "pure"),
    sources=(Source("003", "5.2", "Algorithm 5 with a squared distance", ("Theorem 8", "Theorem 9")),),
    summary="Robust coordinate means of bounded influence, released by one peeling.",
    needs=(
        Need("x", "privacy", "a record has bounded influence", enforced_by="the kernel is bounded whatever a record holds"),
        Need("moment", "utility", "E x_j^2 <= moment_bound (tau) for every coordinate"),
        Need("sparse", "utility", "the mean has at most k non-zeros"),
    ),
    options=central.PEELING,
    tunables={
        "kept": Tunable("min(d, k)", "the sparsity of the mean", integer=True, minimum=1),
        "tau": Tunable(
            "moment_bound_x^(2/moment_order_x) else moment_bound^(2/moment_order) else 1",
            "second moment of a coordinate, from the declared moment of order 2 or more (Jensen)",
            minimum=1e-12,
        ),
        "beta": Tunable("1", "003: O(1)", minimum=0.05, maximum=100.0),
        "scale": Tunable(
            "sqrt(tau*n*epsilon/(sqrt(kept*log(1/delta))*log(d + 1))) else sqrt(tau*n*epsilon/(kept*log(d + 1)))",
            "balances the bias tau/scale and the noise",
            minimum=1e-12,
        ),
        "selecting": central.WEIGHT,
    },
    bounds=(
        Bound(
            "squared-l2-error",
            "order",
            "upper",
            "C*tau*k^(3/2)*log(d)*sqrt(log(1/delta))/(n*epsilon)",
            "proved",
            "003 Theorem 8 for the mean",
            probability="1 - zeta",
            conditions="the balanced scale",
        ),
        Bound(
            "squared-l2-error",
            "order",
            "lower",
            "C*tau*min(k*log(d), log(1/delta))/(n*epsilon)",
            "claimed",
            "003 Theorem 9",
            conditions="its own lemma gives a factor k more",
        ),
    ),
    faults=(
        *ROBUST_FAULTS,
        *central.PEELING_FAULTS,
        Fault(
            "003, line 381: min L = 0",
            "the minimum of E|x - w|^2 is the trace of the covariance; the excess is |w - mean|^2",
            "docs/faults.md#excess-of-a-mean",
            "text",
        ),
    ),
    cost={"gradients": "n", "rounds": "1", "memory_bytes": "8*(n*d + 12*262144)"},
    reads="sums",
    spec="specs/sparse/dp-sparse-mean-heavy-tailed.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.what != "mean":
        return f"it estimates means, not a {p.task.what}"
    if p.facts.get("moment_order_x", p.facts.get("moment_order", 2.0)) < 2:
        return "its bounds need a second moment, and the declared one is of a lower order"
    return unkept(p) if t.kept <= p.d else f"kept = {t.kept} entries of {p.d} cannot be kept"


def sensitivity(p: Problem, t: Tunables) -> float:
    """l_inf distance of the robust mean between neighbours, with the public n as divisor."""
    return central.sensitivity(p, central.moved(p) * robust.supremum(t.beta) * t.scale / p.n, p.n)


def schedule(p: Problem, t: Tunables) -> Tree:
    return central.one(p, t, sensitivity(p, t))


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    total = Sum(p.d)
    for x, _ in records.blocks():
        for a, _y in central.pieces(x, None, block_rows(1 << 15, p.d, 64)):
            total.add(robust.column_sums(a, None, t.scale, t.beta))
    return Estimate(release.peel("peel", total.value / p.n, sensitivity=sensitivity(p, t), kept=t.kept))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Squared l2 error: noise and bias tau/scale on the kept entries."""
    select = float(calibrated.scale("peel/select")) * math.log(max(p.d, 2))
    each = math.hypot(central.noise_of(t, calibrated), select, t.tau / t.scale, math.sqrt(t.tau / p.n))
    return float(t.kept * each**2)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    return central.published(p, t, budget, 4 * math.sqrt(2) * t.scale / (3 * p.n), "003 Algorithm 4")
