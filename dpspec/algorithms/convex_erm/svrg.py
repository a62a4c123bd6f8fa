"""Proximal SVRG and gradient descent without privacy: the references of this family.

SVRG: x <- prox(x - eta*(grad f_i(x) - grad f_i(z) + grad F(z))), i uniform, m steps an epoch from the anchor z, the next anchor the mean.
``method = gradient`` descends until the prox-gradient step is shorter than the tolerance (the optimum that 000 measures against).
Source: 000, sections 3.1.3 and 3.1.5. Study mode only: the result depends on the records without noise.
"""

from __future__ import annotations

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.convex_erm._common import norm, prox, refused
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="svrg",
    title="SVRG and gradient descent (not private)",
    family="convex_erm",
    task="minimise",
    models=("central",),
    guarantees=(),
    sources=(Source("000", "3.1.3, 3.1.5", "SVRG; the optimum by gradient descent", ("Lemma 3.1.1",)),),
    summary="Proximal SVRG, or proximal gradient descent to a tolerance.",
    needs=(Need("smooth", "utility", "the loss is B-smooth"), Need("convex", "utility", "the loss is convex in w")),
    options={"method": ("svrg", "gradient")},
    tunables={
        "T": Tunable("30", "epochs of SVRG", True, 1),
        "m": Tunable("2*n", "steps an epoch", True, 1),
        "eta": Tunable("1/(10*B)", "step of SVRG", minimum=0.0),
        "steps": Tunable("10000", "most steps of gradient descent", True, 1),
        "tolerance": Tunable("1/10^9", "least step of gradient descent, relative", minimum=0.0),
    },
    bounds=(
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*(1/2)^T",
            "claimed",
            "000 section 3.1.3",
            conditions="strongly convex, m of order B/lam",
        ),
    ),
    faults=(
        Fault(
            "000 section 3.1.5: the optimality gap is plotted against the exact optimum",
            "the optimum is a function of the records: the gap is a diagnostic of a study and must not be released",
            "docs/faults.md#optimum-is-private",
            "text",
        ),
    ),
    cost={"gradients": "T*(n + 2*m)", "memory_bytes": "8*n*(features + 1)"},
    role="reference",
    margins="several",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return refused(p, smooth=True)


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door | None) -> Estimate:
    """``release.public`` picks the records of SVRG."""
    assert p.loss is not None
    f = p.objective
    z = f.over.start(p.d)
    if t.method == "gradient":
        eta = 1 / p.loss.smooth
        for _ in range(t.steps):
            before, z = z, prox(f, z - eta * f.data_gradient(z, records, p.n), eta)
            if norm(z - before) <= t.tolerance * max(1.0, norm(z)):
                break
        return Estimate(z)
    assert release is not None, "its public order comes with the meter"
    picks = release.public.generator("svrg")
    for _ in range(t.T):
        full, x, total = f.data_gradient(z, records, p.n), z, np.zeros(p.d)
        for i in picks.integers(0, p.n, t.m):
            one = records.take([int(i)])
            x = prox(f, x - t.eta * (f.data_gradient(x, one, 1) - f.data_gradient(z, one, 1) + full), t.eta)
            total += x
        z = total / t.m
    return Estimate(z)
