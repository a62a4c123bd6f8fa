"""The graphical lasso without privacy: Theta*_rho, the reference of every error of the precision algorithms.

min over Theta > 0 of -log det Theta + <S, Theta> + rho*|Theta|_1, the diagonal penalised. Source: 000, section 6.3, equation (6.83); the
document solves it by alternating linearisation [251]. ``solver = admm`` (default) is ours, with a certified duality gap;
``solver = sklearn`` calls scikit-learn's coordinate descent, which leaves the diagonal free, on S + rho*I: the same problem, since
Theta_ii > 0. It is slow and may miss its tolerance for rho below about 0.01. Study mode only.
"""

from __future__ import annotations

import numpy as np

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.matrix._lasso import graphical_lasso
from dpspec.algorithms.matrix._moment import second_moment
from dpspec.algorithms.matrix._precision import PENALTY
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="graphical-lasso",
    title="l1-penalised precision matrix (not private)",
    family="matrix",
    task="estimate",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("000", "6.3", "equation (6.83)", ("Lemma 6.3.5",)),),
    summary="The l1-penalised maximum-likelihood precision matrix of the second moment.",
    needs=(Need("sparse", "utility", "the precision matrix is sparse"),),
    options={"solver": ("admm", "sklearn")},
    tunables={"penalty": PENALTY},
    bounds=(
        Bound(
            "least-eigenvalue",
            "explicit",
            "lower",
            "1/(x_l2^2 + penalty*d)",
            "proved",
            "000 Lemma 6.3.5",
            conditions="eigenvalues of Theta* lie between this and d/penalty",
        ),
    ),
    cost={"gradients": "0", "memory_bytes": "64*d*d"},
    role="reference",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return None if p.task.what == "precision" else "it estimates precision(x)"


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem, t: Tunables, release: Door | None) -> Estimate:
    """``release`` is not used."""
    moment, rho = second_moment(records), float(t.penalty)
    if t.solver == "sklearn":
        from sklearn.covariance import graphical_lasso as descent

        _, theta = descent(moment + rho * np.eye(p.d), alpha=rho, tol=1e-6, max_iter=1000)
        return Estimate(theta)
    return Estimate(graphical_lasso(moment, rho).theta)
