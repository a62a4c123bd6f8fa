"""Generalised linear model without privacy: the reference of this family.

``method = likelihood`` minimises the mean of A(<w, x>) - y <w, x>; ``scaled`` is nldp-glm-public without its noise: least squares for the
direction, the score equation on the same records for the length. Source: 000, section 5.2.5. Study mode only.
"""

from __future__ import annotations

import numpy as np

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.objective import Objective, optimum
from dpspec.algorithms.public_data import _scaled as scaled
from dpspec.algorithms.public_data import newton_scale_root as root
from dpspec.algorithms.public_data import nldp_glm_public as private
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree
from dpspec.symbolic.links import glm_loss
from dpspec.symbolic.margin import margin_functions

CARD = Card(
    id="glm",
    title="Generalised linear model (not private)",
    family="public_data",
    task="estimate-theta",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("000", "5.2.5", "baseline of the experiments"),),
    summary="Maximum likelihood, or scaled least squares without noise.",
    needs=(
        Need("elliptical", "utility", "method = scaled: x has mean 0 and an elliptical law"),
        Need("eigenvalues", "utility", "the second moment of x is invertible"),
    ),
    options={"method": ("likelihood", "scaled")},
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*sqrt(d/n)",
            "proved",
            "the Fisher information of a correct model",
            conditions="n >= C*d",
            regime="C*d",
        ),
    ),
    cost={"gradients": "100*n", "memory_bytes": "8*(n + d*d)"},
    role="reference",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if (reason := private.unknown(p)) is not None:
        return reason
    return None if p.n > p.d else f"n = {p.n} records in dimension d = {p.d} have no invertible second moment"


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem, t: Tunables, release: Door | None) -> Estimate:
    """``release`` is not used. Labels -1 and 1 are read as 0 and 1."""
    half = private.halves(p)
    a, b = np.zeros((p.d, p.d)), np.zeros(p.d)
    for x, y in scaled.blocks(records, 0.0):
        a += x.T @ x / p.n
        b += x.T @ (half * y) / p.n
    v = scaled.shrunk(a, 0.0) @ b
    if t.method == "scaled":
        u = np.concatenate([x @ v for x, _ in scaled.blocks(records, 0.0)])
        scale = root.solve(root.score(u, private.functions(private.link_of(p))[0]))
        return Estimate(constraint_set(p.task.over, p.facts).project(scale.c * v), {"direction": v, "scale": scale.c})

    shift = 0.0 if half == 1.0 else 0.5
    f = margin_functions(glm_loss(private.link_of(p)))
    likelihood = Objective(
        lambda u, y: f.value(u, half * y + shift),
        lambda u, y: f.derivative(u, half * y + shift),
        lambda u, y: f.second(u, half * y + shift),
        over=constraint_set(p.task.over, p.facts),
    )
    return Estimate(np.asarray(optimum(likelihood, records)[0]), {"direction": v})
