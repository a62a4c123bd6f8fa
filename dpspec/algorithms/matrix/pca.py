"""Principal components without privacy: the reference of the private subspaces.

The k leading eigenvectors of the second moment, or with ``lam`` > 0 the Fantope projection and selection of the same matrix. Source: 000,
sections 6.1.3 and 6.1.4. Study mode only.
"""

from __future__ import annotations

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.matrix import _fantope
from dpspec.algorithms.matrix._moment import leading, second_moment
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="pca",
    title="Principal subspace (not private)",
    family="matrix",
    task="estimate",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("000", "6.1.3", "top-k eigenvectors"), Source("000", "6.1.4", "equation (6.5) without noise")),
    summary="Leading eigenvectors of the second moment, or its Fantope projection and selection.",
    needs=(Need("eigengap", "utility", "lambda_k > lambda_{k+1}"),),
    tunables={"lam": Tunable("0", "l1 penalty of (6.5); 0: plain eigenvectors", minimum=0.0)},
    bounds=(
        Bound(
            "subspace-distance",
            "order",
            "lower",
            "C*sqrt(eig_max*(eig_max - gap)*rank*d/n)/gap",
            "claimed",
            "000 section 6.1 [58], minimax",
        ),
        Bound(
            "subspace-distance",
            "order",
            "lower",
            "C*sqrt(eig_max*(eig_max - gap)*k_x*(rank + log(d))/n)/gap",
            "claimed",
            "000 section 6.1 [292], minimax, sparse",
        ),
    ),
    cost={"gradients": "0", "memory_bytes": "16*d*d"},
    role="reference",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return None if p.task.what == "subspace" else "it estimates subspace(x, k)"


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem, t: Tunables, release: Door | None) -> Estimate:
    """``release`` is not used."""
    moment, k = second_moment(records), int(p.facts["rank"])
    if t.lam > 0:
        moment = _fantope.select(moment, k, t.lam).x
    values, vectors = leading(moment, k)
    return Estimate(vectors, {"eigenvalues": values})
