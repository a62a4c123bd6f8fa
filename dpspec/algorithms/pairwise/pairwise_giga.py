"""Pairwise GIGA without privacy: the reference of this family.

    w_t = prox_{eta_t}(w_{t-1} - eta_t (g_t + A (w_{t-1} - w_0))),   g_t = 1/(t-1) sum_{i<t} grad phi(w_{t-1}; z_t, z_i),  t = 2, ..., n,

the records in a public random order, with A the ridge of the spec or, without one, ``alpha`` added to it; the answer is the average of
the last ``tail`` of the iterates, weighted by their number. Source: 000, sections 3.3.2 and 3.3.5 (NonPrivate in Figures 3.9 to 3.14), the
recursion of Lemma 3.3.1. Differences: eta_t = 2/(A (t + 2 B/A)), which needs no start phase of random points. Study mode only.
"""

from __future__ import annotations

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.pairwise._chain import PairOracle, average, refused
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="pairwise-giga",
    title="Pairwise gradient descent in one pass (not private)",
    family="pairwise",
    task="minimise-pairwise",
    models=("central",),
    guarantees=(),
    sources=(Source("000", "3.3.2, 3.3.5", "pairwise GIGA (NonPrivate)", ("Lemma 3.3.1",)),),
    summary="One pass of gradient steps, each record against all earlier ones, and the average of the last of them.",
    needs=(
        Need("smooth", "utility", "the loss of a pair is B-smooth"),
        Need("convex", "utility", "the loss of a pair is convex in w"),
    ),
    tunables={
        "reach": Tunable("min(w_radius, 2*L/max(B, L/10^6)) else 2*L/max(B, L/10^6)", "distance to cover, as for off-pair-c"),
        "alpha": Tunable(
            "max(L/(4*reach*sqrt(n)) - lam, 0)",
            "the added ridge: alpha*reach^2 against a part of L^2/(alpha*n)",
            minimum=0.0,
            maximum=1e100,
        ),
        "T_1": Tunable("1", "no start phase; 000: max(ceil(16*B^2/alpha^2), 7)", integer=True, minimum=1),
        "tail": Tunable("1/2", "share of the last steps that is averaged", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "regret",
            "order",
            "upper",
            "C*(L^2*(1 + log(n))/lam + L*T_1*D)",
            "claimed",
            "000, proofs of Theorems 3.3.2 and 3.3.4",
            conditions="strongly convex; the documents' two constants, 1/2 and 2, disagree",
        ),
    ),
    faults=(
        Fault(
            "000, proofs of Theorems 3.3.2, 3.3.4 and 3.3.6: a regret of G^2 (1 + log n)/(2 alpha), or of 2 G^2 (1 + log n)/alpha",
            "two constants for one chain: a linear loss whose sign follows the iterate exceeds the first, and the second holds",
            "tests/algorithms/pairwise/test_pairwise_giga.py::test_the_smaller_of_the_two_printed_regrets_is_exceeded",
            "utility",
        ),
    ),
    margins="several",
    cost={"gradients": "n^2/2", "memory_bytes": "8*n*(2*d + 6)"},
    role="reference",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p)
    if reason is None and not t.alpha + p.loss.l2 > 0:  # type: ignore[union-attr]
        return "alpha and the ridge of the loss are both 0"
    return reason


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem[PairOracle], t: Tunables, release: Door | None) -> Estimate:
    """``release.public`` orders the records."""
    assert release is not None
    return Estimate(p.objective.over.project(average(records, p, t, release)))
