"""Gradient descent with robust means of the gradients, without privacy: the reference of this family.

    w_t = prox(w_{t-1} - step (g_t + lam w_{t-1})),   g_t the robust mean of heavy-tailed-dp-gd-catoni over all records or ``b`` of them.

Source: 000, section 3.2.5 (RGD in Figures 3.5 to 3.8: Algorithm 3.2.8 with sigma = 0; stochastic: batches of 1000, step 1/sqrt(t), averaged
iterates); 000, Lemma 3.2.9. Differences: the scale, printed sqrt(n v/(2 log(1/zeta))), is the best one of PAC-Bayes for d coordinates and T
steps; the step is one over the smoothness, over sqrt(t) too where b < n. Steps that read all records end where one moves the point by less
than a billionth of its length (or of 1): the others would be there too. Study mode only: batches are public randomness.

The bound of heavy-tailed-dp-gd-catoni without noise is for disjoint batches. Here records are read again, and Lemma 3.2.9's stands on the
card, claimed.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.heavy_tailed import _gradients as heavy
from dpspec.algorithms.heavy_tailed.heavy_tailed_dp_gd_catoni import stepped
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

#: A point stands still where a step moves it by no more than this share of its length.
STILL: Final = 1e-9

CARD = Card(
    id="robust-gd",
    title="Gradient descent with robust means of the gradients (not private)",
    family="heavy_tailed",
    task="minimise",
    models=("central",),
    guarantees=(),
    sources=(Source("000", "3.2.5", "robust gradient descent (RGD)", ("Lemma 3.2.9",)),),
    summary="Steps along robust coordinate means of all records' gradients, or of batches of them.",
    needs=(*(n for n in heavy.NEEDS if n.role == "utility"),),
    tunables={
        "zeta": heavy.ZETA,
        "tau": heavy.TAU,
        "smoothness": heavy.SMOOTHNESS,
        "T": Tunable("100", "steps; 000: (smoothness/alpha) log(n)", integer=True, minimum=1, maximum=1e5),
        "b": Tunable("n", "records of a step; 000: 1000 in its stochastic variant", integer=True, minimum=1),
        "beta": Tunable("sqrt(2*log(2*d*T/zeta))", "least (1 + 1/beta)*(beta/2 + log(2*d*T/zeta))", minimum=0.05, maximum=1e4),
        "s": Tunable(
            "sqrt(tau*(1 + 1/beta)/2*b/(beta/2 + log(2*d*T/zeta)))",
            "balances truncation and spread; 000: sqrt(n*tau/(2*log(1/zeta)))",
            minimum=1e-100,
            maximum=1e100,
        ),
        "step": Tunable("1/smoothness", "one over the smoothness", minimum=1e-300),
        "tail": Tunable("1/2", "share of the last iterates that is averaged", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*tau*d*log(d*n/zeta)/n",
            "claimed",
            "000 Lemma 3.2.9",
            probability="1 - zeta",
            conditions="the square of its gradient error; strongly convex, B and alpha left out; records' gradients Lipschitz on average",
        ),
    ),
    cost={"gradients": "b*T", "memory_bytes": "8*(n*(d + 1) + 12*262144)"},
    role="reference",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return heavy.refused(p, t) or (None if t.b <= p.n else f"a step reads b = {t.b} of n = {p.n} records")


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door | None) -> Estimate:
    """``release.public`` chooses the batches, where they are not all records."""
    f, w, kept = p.objective, p.objective.over.start(p.d), math.ceil(t.tail * t.T)
    chosen: Any = release.public.generator("batches") if t.b < p.n and release is not None else None
    total = np.zeros(p.d)
    for k in range(t.T):
        batch = records if chosen is None else records.take(np.sort(chosen.choice(records.n, t.b, replace=False)))
        g = heavy.robust_gradient(batch, w, p, t, batch.n)
        before, w = w, stepped(f, w, g, t.step if chosen is None else t.step / math.sqrt(k + 1))
        if chosen is None and float(np.linalg.norm(w - before)) <= STILL * max(1.0, float(np.linalg.norm(w))):
            return Estimate((total + w * min(kept, t.T - k)) / kept)
        if k >= t.T - kept:
            total += w
    return Estimate(total / kept)
