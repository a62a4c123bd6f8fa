"""The trust-region method without privacy: the reference of the second-order methods.

    h_k = argmin over |h| <= r of <grad F(w_k), h> + h^T H(w_k) h/2,   w_{k+1} = w_k + h_k,   r = sqrt(alpha/rho),

until the multiplier lam_k of the subproblem is at most sqrt(alpha rho); then w_{k+1} is a second-order point: |grad F| <= 3 alpha/2 and
lambda_min >= -2 sqrt(alpha rho), after at most 3 sqrt(rho) (F(w_0) - F*)/alpha^1.5 steps (:mod:`_saddles` with e1 = e2 = 0). Source: 000,
section 4.3.2, equation (4.57), Lemma 4.3.1. Differences: the hard case, in which H + lam I is singular, is solved too.
"""

from __future__ import annotations

import math

import numpy as np

from dpspec.algorithms import second_order
from dpspec.algorithms.card import Bound, Card, Fault, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.nonconvex_erm._common import gap, refused
from dpspec.algorithms.nonconvex_erm._saddles import BEND, GAP, HESSIAN_LIPSCHITZ, unbounded
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

_TESTS = "tests/algorithms/nonconvex/test_trust_region.py::"

CARD = Card(
    id="trust-region",
    title="Trust-region method (not private)",
    family="nonconvex_erm",
    task="minimise",
    models=("central",),
    guarantees=(),
    sources=(Source("000", "4.3.2", "equation (4.57)", ("Lemma 4.3.1",)),),
    summary="Exact trust-region steps on the gradient and the Hessian of all records, until the multiplier is small.",
    needs=(HESSIAN_LIPSCHITZ,),
    tunables={
        "gap": GAP,
        "bend": BEND,
        "alpha": Tunable("0.001", "the point is an alpha-second-order one up to a constant", minimum=1e-12, maximum=1e12),
        "T": Tunable("ceil(min(3*sqrt(bend)*gap/alpha^1.5, 2000))", "steps, at most", integer=True, minimum=1, maximum=1e6),
    },
    bounds=(
        Bound(
            "second-order-stationarity",
            "explicit",
            "upper",
            "4*alpha*max(1, bend/rho)",
            "proved",
            "trust-region steps",
            conditions="R^d, bend >= rho, T >= 3*sqrt(bend)*DF/alpha^1.5, DF the public gap",
            where={"rho": "Lipschitz constant of the Hessian"},
        ),
    ),
    faults=(
        Fault(
            "000 Lemma 4.3.1: H + lam I is positive definite",
            "semidefinite: in the hard case it is singular and a lowest eigenvector is added",
            _TESTS + "test_the_hard_case_needs_a_lowest_eigenvector",
            "text",
        ),
    ),
    cost={"gradients": "n*T", "memory_bytes": "8*n*(features + 1) + 8*d^2"},
    role="reference",
    margins="network",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return refused(p) or second_order.refused(p) or unbounded(p)


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door | None) -> Estimate:
    f, radius, enough = p.objective, math.sqrt(t.alpha / t.bend), math.sqrt(t.alpha * t.bend)
    w = f.over.start(p.d)
    for _ in range(t.T):
        H = second_order.symmetric(second_order.mean_hessian(records, p, w)) + f.l2 * np.eye(p.d)
        h, multiplier = second_order.trust_region(f.gradient(w, records, p.n), H, radius)
        w = w + h
        if multiplier <= enough:
            break
    return Estimate(np.asarray(w))


def explicit_bounds(p: Problem, t: Tunables, calibrated: object) -> dict[str, float]:
    assert p.loss is not None
    rho, enough = p.loss.hessian_lipschitz(), 3 * math.sqrt(t.bend) * gap(p) / t.alpha**1.5
    if t.bend < rho * (1 - 1e-12) or not enough * (1 - 1e-12) <= t.T:
        return {}
    return {"trust-region steps": 4 * t.alpha * max(1.0, t.bend / rho)}


def bound_terms(p: Problem, t: Tunables, calibrated: object) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    return {"trust-region steps": {"rho": p.loss.hessian_lipschitz()}}
