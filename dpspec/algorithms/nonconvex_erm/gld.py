"""Gradient Langevin dynamics without privacy: the reference of this family.

    w_k = prox_eta(w_{k-1} - eta grad F(w_{k-1}) + sqrt(2 eta/beta) xi_k),   xi_k ~ N(0, I), k = 1..T,

F with its ridge, beta the inverse temperature: near the Gibbs law of density exp(-beta F) for small steps. Source: 000, section 4.2.2,
equations (4.15) and (4.16); Lemma 4.2.2. Differences: (4.14) with unit drift and noise sqrt(2) has the stationary law exp(-F), not
exp(-beta F). Study mode only: the xi are statistical noise, seeded, and no draw of the meter.
"""

from __future__ import annotations

import math

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.nonconvex_erm._common import refused
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="gld",
    title="Gradient Langevin dynamics (not private)",
    family="nonconvex_erm",
    task="minimise",
    models=("central",),
    guarantees=(),
    sources=(Source("000", "4.2.2", "equations (4.15), (4.16)", ("Lemma 4.2.1", "Lemma 4.2.2")),),
    summary="Gradient steps with statistical noise at a temperature: the last point is near a draw of the Gibbs law.",
    needs=(Need("smooth", "utility", "the objective is S-smooth in l2, S = B + lam"),),
    tunables={
        "beta": Tunable("1000", "inverse temperature; Lemma 4.2.2 needs 4/lam at least", minimum=1e-12),
        "eta": Tunable("1/(4*(B + lam))", "step; 000: lam/(8*(B + lam)^2) at most", minimum=0.0),
        "T": Tunable("2000", "steps", integer=True, minimum=1),
    },
    bounds=(
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*d*log(beta)/beta",
            "claimed",
            "000 Lemma 4.2.2",
            conditions="in expectation over the Gibbs law, beta >= 4/lam",
        ),
    ),
    faults=(
        Fault(
            "000 (4.14): drift grad F and noise sqrt(2) have the stationary law exp(-beta F)",
            "it is exp(-F); the noise has to be sqrt(2/beta)",
            "tests/algorithms/nonconvex/test_gld.py::test_the_variance_is_that_of_the_gibbs_law",
            "utility",
        ),
    ),
    cost={"gradients": "n*T", "memory_bytes": "8*n*(features + 1)"},
    role="reference",
    margins="several",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return refused(p)


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door | None) -> Estimate:
    """``release.public`` draws the xi."""
    assert release is not None
    f, spread = p.objective, math.sqrt(2 * t.eta / t.beta)
    xi, w = release.public.generator("gld"), f.over.start(p.d)
    for _ in range(t.T):
        w = f.prox(w - t.eta * (f.data_gradient(w, records, p.n) + f.l2 * w) + spread * xi.standard_normal(p.d), t.eta)
    return Estimate(np.asarray(w))
