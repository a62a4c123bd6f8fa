"""EM without privacy: the exact M-step, the reference of dp-em.

    gmm:                      beta <- mean tanh(<beta, x>/sigma^2) x
    mixture-of-regressions:   beta <- (mean x x^T)^-1 mean tanh(y <beta, x>/sigma^2) y x
    regression-with-missing:  beta <- (mean K)^-1 mean y m,  m and K the posterior mean and second moment of x
    gmm(K), K means:          weights, means and variances weighted by the posterior probabilities of the components

from the leading direction of the moments, or from k-means (the documents assume a good start), until it stands still. Source: 000, sections
7.2.2 and 7.2.5. Study mode only.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.em import _clusters as clusters
from dpspec.algorithms.em import _steps as steps
from dpspec.algorithms.estimate import Estimate
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

_BLOCK = 1 << 15

CARD = Card(
    id="em",
    title="EM (not private)",
    family="em",
    task="fit",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("000", "7.2.2", "EM"), Source("000", "7.2.5", "", ("Theorem 7.2.8",))),
    summary="The exact M-step at the current posterior, from a moment estimate or k-means.",
    needs=(Need("signal-to-noise", "utility", "components are far apart against their spread: EM contracts around the truth"),),
    tunables={
        "T": Tunable("200", "most rounds; stops at a relative change of tolerance", integer=True, minimum=1, maximum=100_000),
        "tolerance": Tunable("1/10^9", "the reference is exact to many digits", minimum=0.0),
    },
    bounds=(
        Bound(
            "l2-error-up-to-sign",
            "order",
            "upper",
            "C*sqrt(d/n)",
            "claimed",
            "000 proof of Theorem 7.2.8, the deviation of the M-step over 1 - g",
            conditions="the contraction g is below 1 around beta*",
        ),
    ),
    faults=tuple(f for f in steps.FAULTS if "w = 1/(1 + exp" in f.claim),
    cost={"gradients": "n*T", "memory_bytes": "8*(n*d + d*d)"},
    role="reference",
)


class Model(Protocol):
    """A latent model with an M-step and a place to begin."""

    def normal(self, beta: Any, x: Any, y: Any) -> tuple[Any, Any]:
        """Gram matrix (d, d) and moment (d,) of a block: the M-step solves gram beta' = moment."""

    def first(self, records: Any) -> Any:
        """A moment estimate of beta*, (d,)."""


def accepts(p: Problem, t: Tunables) -> str | None:
    return None if "components" in p.facts else steps.refusal(p)


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem[Any], t: Tunables, release: Door | None) -> Estimate:
    """``release`` is not used."""
    if "components" in p.facts:
        return Estimate(clusters.fit(records, p.oracle, p.facts["sigma"], rounds=t.T, tolerance=t.tolerance))
    return Estimate(climb(records, p.oracle, t.T, t.tolerance))


def climb(records: Rows, model: Model, rounds: int, tolerance: float) -> Any:
    """M-steps from the model's own start until one moves by less than ``tolerance`` of the estimate."""
    beta = model.first(records)
    for _ in range(rounds):
        blocks = [model.normal(beta, x, y) for x, y in records.blocks(_BLOCK)]
        gram, moment = np.sum([g for g, _ in blocks], axis=0), np.sum([m for _, m in blocks], axis=0)
        moved = np.linalg.lstsq(gram, moment)[0]
        step, beta = float(np.linalg.norm(moved - beta)), moved
        if step <= tolerance * float(np.linalg.norm(beta)):
            break
    return beta
