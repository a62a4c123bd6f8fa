"""Dawid-Skene EM for one-coin workers, without privacy: the reference of this family.

Start from majority vote, then alternate abilities and posteriors (:mod:`dpspec.algorithms.crowdsourcing._one_coin`). Source: 000, section
7.1.3, equations (7.1) to (7.8); projected form (7.10). An ability of 0 or 1 never changes again, so `lam` keeps them off the ends. Study
mode only.
"""

from __future__ import annotations

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.crowdsourcing import _answers as answers
from dpspec.algorithms.crowdsourcing import _one_coin as one_coin
from dpspec.algorithms.estimate import Estimate
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

_EVIDENCE = "tests/algorithms/crowdsourcing/test_private_dawid_skene.py::"

CARD = Card(
    id="dawid-skene",
    title="Dawid-Skene EM for one-coin workers (not private)",
    family="crowdsourcing",
    task="infer",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("000", "7.1.3", "equations (7.1) to (7.8), (7.10)", ("Theorem 7.1.2",)),),
    summary="Majority vote, then workers weighted by how often they agree with the posterior, and again.",
    needs=(Need("one-coin", "utility", "a worker errs with one probability on every task, independently"),),
    tunables={
        "T": Tunable("20", "000: any T >= 1", integer=True, minimum=1, maximum=10_000),
        "lam": Tunable("1/(2*d + 2)", "half an answer: abilities of 0 and 1 are absorbing", minimum=1e-12, maximum=0.49),
    },
    bounds=(
        Bound(
            "label-error",
            "explicit",
            "upper",
            "2*exp(-n*ability/2)",
            "claimed",
            "000 Theorem 7.1.2 without noise",
            probability="1 - 3/d",
            conditions="two labels; n*ability >= 256 Lam^2 log(d), Lam = log((1 - lam)/lam)/(1 - 2 lam), and a start near the truth",
        ),
    ),
    faults=(
        Fault(
            "000 (7.4): sum of (1 - y_i) over tasks j",
            "(1 - y_j); with it each half step raises the objective",
            _EVIDENCE + "test_half_steps_never_lower_the_objective",
            "text",
        ),
    ),
    cost={"gradients": "0", "memory_bytes": "14*n*d + 8*(n + d)"},
    role="reference",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return None if p.facts.get("classes", 0) >= 2 else "the domain of x lists fewer than two labels"


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem[answers.Answers], t: Tunables, release: Door | None) -> Estimate:
    """``release`` is not used. ``abilities``: the share of right answers of each worker by the posterior; ``answered``: the share of
    tasks that it answered."""
    matrices = one_coin.named(p.oracle.codes(records), len(p.oracle.labels))
    y, abilities = one_coin.em(matrices, t.lam, 1 - t.lam, t.T)
    answered = one_coin.right(matrices, y)[1] / p.d
    return Estimate(p.oracle.named(np.argmax(y, axis=1)), {"abilities": abilities, "answered": answered})
