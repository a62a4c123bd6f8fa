"""Gradient EM without privacy: the reference of this family.

beta <- beta + eta mean_i grad q_i(beta; beta), from the leading direction of the moments (the documents assume a start near the truth),
until it stands still. Source: 000, section 7.2.2; 002, section 3, after Balakrishnan, Wainwright and Yu 2017. Study mode only.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.em import _steps as steps
from dpspec.algorithms.estimate import Estimate
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

_BLOCK = 1 << 15

CARD = Card(
    id="gradient-em",
    title="Gradient EM (not private)",
    family="em",
    task="fit",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("000", "7.2.2", "gradient EM"), Source("002", "3", "gradient EM")),
    summary="Steps along the mean gradient of Q at the current estimate, from a moment estimate.",
    needs=(Need("signal-to-noise", "utility", "|beta*| is large against sigma: EM contracts around beta*"),),
    tunables={
        "T": Tunable("200", "most steps; stops at a relative change of tolerance", integer=True, minimum=1, maximum=100_000),
        "eta": steps.ETA,
        "tolerance": Tunable("1/10^9", "the reference is exact to many digits", minimum=0.0),
    },
    bounds=(
        Bound(
            "l2-error-up-to-sign",
            "order",
            "upper",
            "C*sqrt(d/n)",
            "claimed",
            "000 section 7.2.2, the deviation of the mean gradient over 1 - g",
            conditions="the contraction g is below 1 around beta*",
        ),
    ),
    faults=tuple(f for f in steps.FAULTS if "w = 1/(1 + exp" in f.claim),
    cost={"gradients": "n*T", "memory_bytes": "8*(n*d + d*d)"},
    role="reference",
)


class Start(steps.Model, Protocol):
    """A model that knows where to begin."""

    def first(self, records: Any) -> Any:
        """A moment estimate of beta*, (d,)."""


def accepts(p: Problem, t: Tunables) -> str | None:
    return steps.refusal(p)


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem[Start], t: Tunables, release: Door | None) -> Estimate:
    """``release`` is not used."""
    return Estimate(climb(records, p.oracle, t.T, t.eta, t.tolerance))


def climb(records: Rows, model: Start, rounds: int, eta: float, tolerance: float) -> Any:
    """Steps from the model's own start until one is shorter than ``tolerance`` of the estimate."""
    beta = model.first(records)
    for _ in range(rounds):
        step = eta * np.sum([model.gradients(beta, x, y).sum(axis=0) for x, y in records.blocks(_BLOCK)], axis=0) / records.n
        beta = beta + step
        if float(np.linalg.norm(step)) <= tolerance * float(np.linalg.norm(beta)):
            break
    return beta
