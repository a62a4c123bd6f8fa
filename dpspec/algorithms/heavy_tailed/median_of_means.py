"""Median of means, coordinate by coordinate, without privacy: a comparator of the means of this family.

    the records in ``k`` blocks of n // k, m_b the mean of block b;   answer: the median of m_1j, ..., m_kj for each j.

With k = ceil(8 log(d/zeta)) a coordinate is within 2 sqrt(tau/b), b = n // k, of the mean with probability 1 - zeta/d: a block is further
away with probability at most 1/4 (Chebyshev), and half of them with at most exp(-k/8) (Hoeffding). Source: Nemirovsky and Yudin 1983;
Lugosi and Mendelson 2019, Theorem 2. Study mode only.
"""

from __future__ import annotations

import numpy as np

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="median-of-means",
    title="Median of means of each coordinate (not private)",
    family="heavy_tailed",
    task="mean",
    models=("central",),
    guarantees=(),
    sources=(Source("literature", "Lugosi and Mendelson 2019", "median of means", ("Theorem 2",)),),
    summary="The median of the means of blocks, for each coordinate.",
    needs=(Need("moment", "utility", "E x_j^2 is at most tau for every coordinate"),),
    tunables={
        "zeta": Tunable("1/20", "the probability that the bound fails", minimum=1e-12, maximum=0.5),
        "tau": Tunable(
            "moment_bound_x^(2/moment_order_x) else moment_bound^(2/moment_order) else x_linf^2",
            "second moment of a coordinate",
            minimum=1e-300,
        ),
        "k": Tunable("min(n, ceil(8*log(d/zeta)))", "blocks", integer=True, minimum=1),
    },
    bounds=(
        Bound(
            "linf-error",
            "explicit",
            "upper",
            "2*sqrt(tau*k/(n - k))",
            "proved",
            "Chebyshev in a block, Hoeffding over blocks; n // k >= (n - k)/k",
            probability="1 - zeta",
            conditions="k >= 8*log(d/zeta), n > k",
        ),
    ),
    cost={"gradients": "n", "memory_bytes": "8*n*d"},
    role="reference",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.what != "mean":
        return f"it estimates mean(x), not {p.task.what}(x)"
    return None if t.k <= p.n else f"k = {t.k} blocks need a record each, and there are n = {p.n}"


def bounds_apply(p: Problem, t: Tunables) -> bool:
    """Enough blocks for the probability that is stated."""
    return bool(t.k >= 8 * np.log(p.d / t.zeta) and p.n > t.k)


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem, t: Tunables, release: Door | None) -> Estimate:
    b = p.n // t.k
    x = np.concatenate([v if isinstance(v, np.ndarray) else v.toarray() for v, _ in records.blocks()])[: t.k * b]
    middle = np.median(x.reshape(t.k, b, p.d).mean(axis=1), axis=0)
    return Estimate(constraint_set(p.task.over, p.facts).project(middle))
