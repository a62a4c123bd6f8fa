"""What the excess risks of the paper on local regression are measured against, without privacy.

    least squares over a set:   w minimises |X w - y|^2/(2 n) over it (the l1 ball in the paper)
    kernel ridge:               f = sum_i c_i k(x_i, .),  c = (K + (n/C) I)^{-1} y
    ridge on features:          g = (C Phi^T Phi/n + I)^{-1} C Phi^T y/n;   the two agree where K = Phi Phi^T

``run`` is least squares over the set of the question; the other two are functions here, for tests and studies. The mean of records needs no
module. Source: 001, section 3, definitions of w*, f*, g*. Study mode only.
"""

from __future__ import annotations

import numpy as np

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.nldp_erm import ldp_direct_perturbation as direct
from dpspec.algorithms.sets import Vector, constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="references-001",
    title="Least squares over a set, kernel ridge, ridge on features (not private)",
    family="nldp_erm",
    task="estimate-theta",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("001", "3", "definitions of w*, f*, g*"),),
    summary="Least squares over the set of the question, on the records themselves.",
    needs=(Need("eigenvalues", "utility", "the second moment of x is invertible, for one minimiser"),),
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*sqrt(d/n)",
            "proved",
            "least squares of a correct linear model",
            conditions="n >= C*d",
            regime="C*d",
        ),
    ),
    cost={"gradients": "0", "memory_bytes": "8*d*d"},
    role="reference",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return "the model is not linear" if p.task.form != "linear" else None


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem, t: Tunables, release: Door | None) -> Estimate:
    """``release`` is not used."""
    s, b = np.zeros((p.d, p.d)), np.zeros(p.d)
    for x, y in direct.blocks(records):
        s += x.T @ x / records.n
        b += x.T @ y / records.n
    over = constraint_set(p.task.over, p.facts)
    if over.kind == "reals":
        return Estimate(np.asarray(np.linalg.lstsq(s, b, rcond=None)[0]))
    return Estimate(direct.least_squares(direct.raised(s, 0.0), b, over))


def kernel_ridge(kernel: Vector, y: Vector, c: float) -> Vector:
    """The coefficients of the records, (n,), for a kernel matrix (n, n): (K + (n/C) I)^{-1} y."""
    return np.asarray(np.linalg.solve(kernel + len(y) / c * np.eye(len(y)), y))


def feature_ridge(features: Vector, y: Vector, c: float) -> Vector:
    """The weights of the features, (p,), for features (n, p): (C Phi^T Phi/n + I)^{-1} C Phi^T y/n."""
    n, p = features.shape
    return np.asarray(np.linalg.solve(c * features.T @ features / n + np.eye(p), c * features.T @ y / n))
