"""Perturbation of an approximate minimiser of a strongly convex risk.

    w: a point of the set with a subgradient of F + ridge/2 |w|^2 of norm at most g;   released: the projection of w + noise,

Gaussian noise, or noise of density exp(-|z|/b) under a pure budget. Source: 000, section 3.1.1, Table 3.1 (Iyengar et al. 2019, cited);
sensitivity re-derived: exact minimisers of neighbours are at most 2L/(n mu) apart (replace-one), mu = lam + ridge, and each approximate
one is within g/mu of its own: 2L/(n mu) + 2g/mu. The argument holds over any convex set and with an l1 or group term, unlike in the
table. The solver is certain to get within g/mu, in a number of steps that public numbers bound (``_solve``): a run that stopped for want
of it would tell about the records.

Bound: E F(w) - F* <= ridge D^2/2 + c/2 N + G sqrt(N) + g^2/(2 mu), N = E|noise|^2, c = B + lam + ridge, G = ridge*D on R^d
(the noise has mean zero) and the largest slope on a set.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.convex_erm._common import STRENGTH_ANY, distance, is_pure, refused
from dpspec.algorithms.convex_erm._solve import FLOOR, stationary, unreached
from dpspec.algorithms.convex_erm.output_perturbation import noise_energy
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.formulas import STRENGTH_SOURCE
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.mechanisms.norm_laplace import NormLaplace, output_perturbation_sensitivity
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="approximate-minima-perturbation",
    title="Perturbation of an approximate minimiser",
    family="convex_erm",
    task="minimise",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("000", "3.1.1", "output perturbation of Iyengar et al. 2019 (cited)", ("Table 3.1",)),),
    summary="Solve to a tolerance, add one noisy vector for strong convexity's sensitivity and the tolerance.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("convex", "privacy", "every record's loss is convex in w, without the ridge"),
        Need("smooth", "utility", "the solver needs smoothness to reach its tolerance"),
    ),
    tunables={
        "strength": Tunable(STRENGTH_ANY, STRENGTH_SOURCE),
        "reach": Tunable("min(w_radius, 2*L/B) else 2*L/B", "distance that the ridge is weighed against, as for dp-gd"),
        "ridge": Tunable(
            "max(0, (4*B*d*(L/(n*strength))^2/reach^2)^(1/3) - lam)",
            "added ridge: least ridge D^2/2 + B/2 d (2 L/(n mu strength))^2",
            minimum=0.0,
        ),
        "tolerance": Tunable(
            f"max(L/(1000*n), {FLOOR})",
            "norm of the subgradient at the solution: a thousandth of one record, and above the rounding of a mean of n gradients",
            minimum=1e-300,
        ),
    },
    bounds=(
        Bound(
            "excess-empirical-risk",
            "explicit",
            "upper",
            "ridge*D^2/2 + (B+lam+ridge)/2*N + G*sqrt(N) + tolerance^2/(2*(lam+ridge))",
            "proved",
            "strong convexity and smoothness",
            conditions="N = d*scale^2 (Gaussian) or d*(d+1)*scale^2 (pure); G = ridge*D on R^d, else L + (lam+ridge)*D; ridge only",
            where={
                "B": "smoothness without the ridge",
                "lam": "the ridge of the loss",
                "D": "distance of the start to a minimiser, at most",
                "N": "E|noise|^2: d*scale^2, or d*(d+1)*scale^2 for pure budgets",
                "G": "slope of the added ridge on R^d; of the objective over a ball",
            },
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*d/(n^2*epsilon^2)",
            "claimed",
            "Table 3.1 (Iyengar et al. 2019)",
            conditions="strongly convex, log(1/delta) left out",
            needs=("strongly-convex",),
        ),
    ),
    cost={"gradients": "50*n", "rounds": "1", "memory_bytes": "8*n*(features + 1)"},
    reads="passes",
    spec="specs/convex_erm/approximate-minima-perturbation.dps",
    margins="several",
)


def sensitivity(p: Problem, t: Tunables) -> float:
    assert p.loss is not None
    mu = p.loss.l2 + t.ridge
    return output_perturbation_sensitivity(p.loss.lipschitz, p.n, mu, t.tolerance, p.neighbours) * (1 + 1e-12)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p, smooth=True, exact_projections=True)
    if reason is None and not p.loss.l2 + t.ridge > 0:  # type: ignore[union-attr]
        return "neither the objective nor the option ridge makes it strongly convex"
    return reason or unreached(p, t.tolerance, t.ridge)


def schedule(p: Problem, t: Tunables) -> Tree:
    s = sensitivity(p, t)
    return Draw("output", NormLaplace(s, p.d) if is_pure(p) else Gaussian(s, p.d))


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    assert p.loss is not None
    f = p.objective
    at_zero, lost = p.loss.at_zero, p.loss.gradient_error()
    w = stationary(f, records, p.n, p.loss.smooth, p.loss.lipschitz, np.zeros(p.d), t.ridge, t.tolerance, at_zero=at_zero, lost=lost)
    noisy = release.draw("output", w, sensitivity=sensitivity(p, t))
    return Estimate(f.over.project(np.asarray(noisy)))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    D, N, mu = distance(p), noise_energy(p, calibrated), p.loss.l2 + t.ridge
    if not math.isfinite(D) or not p.loss.smooth_penalty or p.task.over.kind not in ("reals", "ball"):
        return {}
    slope = t.ridge * D if p.task.over.kind == "reals" else p.loss.lipschitz + mu * max(D, 1.0)
    value = t.ridge * D**2 / 2 + (p.loss.smooth + mu) / 2 * N + slope * math.sqrt(N) + t.tolerance**2 / (2 * mu)
    return {"strong convexity and smoothness": value} if value <= (p.loss.lipschitz + mu * D) * 2 * D else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    D, mu = distance(p), p.loss.l2 + t.ridge
    G = t.ridge * D if p.task.over.kind == "reals" else p.loss.lipschitz + mu * max(D, 1.0)
    names = {"B": p.loss.smooth, "lam": p.loss.l2, "D": D, "N": noise_energy(p, calibrated), "G": G}
    return {"strong convexity and smoothness": names}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The bound on R^d at distance ``reach``, with a curvature of B/sqrt(d) for records that spread over the coordinates."""
    assert p.loss is not None
    curvature = p.loss.smooth / math.sqrt(p.d) + p.loss.l2
    return float(t.ridge * t.reach**2 / 2 + curvature / 2 * noise_energy(p, calibrated))
