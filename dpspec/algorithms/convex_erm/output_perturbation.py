"""Output perturbation of gradient descent.

    w_{t+1} = prox(w_t - eta*grad F(w_t)), t = 0..T-1, from a public point;   released: the projection of w_T + noise,

Gaussian noise, or noise of density exp(-|z|/b) under a pure budget. Source: 000, sections 3.1.1 and 3.1.5, Tables 3.1 and 3.2 (Zhang et
al. 2017, cited without constants). Sensitivity, re-derived: a prox-gradient step with eta <= 2/(B + 2 lam) is a contraction by 1 -
eta*lam (of the smooth part F + ridge, whose smoothness is B + lam) and the mean gradient moves by at most 2L/n (replace-one), so runs on
neighbours are at most (2L/n) eta sum_{t<T} (1 - eta lam)^t apart: 2 L eta T/n without a ridge, at most 2L/(n lam) with one. Projection
and prox are non-expansive, so sets and l1 or group terms are allowed, unlike in the table. What doubles add to a step on each side is
counted beside 2L/n.

In doubles a step is off by eta times the error of a mean gradient (that of its slopes, :mod:`dpspec.symbolic.running`, and of its margins,
d u |w| B, u = 2^-53) and by a few units of its own, which later steps do not enlarge: so every step of either run adds it once more, beside
2L/n (:func:`rounding`). A loss whose slopes cancel would add more than a record does, and is refused.

Bound on a ball or R^d, c the smoothness B + lam of F: E F(w) - F* <= D^2/(2 eta T) + c/2 E|noise|^2 + G sqrt(E|noise|^2)
with G = 0 on R^d (the noise has mean zero) and the largest slope L + lam D on a set (projection does not lengthen the noise).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.convex_erm._common import STRENGTH_ANY, distance, is_pure, mean_sensitivity, norm, refused
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.formulas import STRENGTH_SOURCE
from dpspec.algorithms.gradients import OPERATIONS, U, step_rounding
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.mechanisms.norm_laplace import NormLaplace
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="output-perturbation",
    title="Output perturbation of gradient descent",
    family="convex_erm",
    task="minimise",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("000", "3.1.1, 3.1.5", "DP-GD of Zhang et al. 2017 (cited)", ("Table 3.1", "Table 3.2")),),
    summary="Gradient descent without noise, one noisy vector at the end; the sensitivity follows from contraction.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("smooth", "privacy", "the objective is smooth, so that gradient steps contract"),
        Need("convex", "privacy", "every record's loss is convex in w without the ridge, so that gradient steps contract"),
    ),
    tunables={
        "reach": Tunable("min(w_radius, 2*L/B) else 2*L/B", "distance to cover, as for dp-gd"),
        "strength": Tunable(STRENGTH_ANY, STRENGTH_SOURCE),
        "eta": Tunable("1/(B + lam)", "step", minimum=0.0),
        "T": Tunable(
            "ceil(max(5, min((B + lam)*((reach*n*strength)^2/(8*B*d*L^2))^(1/3), 5*(B + lam)/max(lam, B/10^6), 3000)))",
            "least D^2/(2 tau) + B/2 d (2 L tau/(n mu))^2, tau = eta T, at most 5/lam",
            integer=True,
            minimum=1,
            maximum=1e6,
        ),
    },
    bounds=(
        Bound(
            "excess-empirical-risk",
            "explicit",
            "upper",
            "D^2/(2*eta*T) + (B+lam)/2*N + G*sqrt(N)",
            "proved",
            "descent and smoothness",
            conditions="N = d*scale^2 (Gaussian) or d*(d+1)*scale^2 (pure); G = 0 on R^d, else L + lam*D; eta <= 1/(B + lam), ridge only",
            where={
                "D": "distance to a minimiser, at most",
                "B": "smoothness without the ridge",
                "lam": "the ridge",
                "N": "E|noise|^2: d*scale^2, or d*(d+1)*scale^2 for pure budgets",
                "G": "0 over R^d, else the slope of the objective",
            },
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*d/(n^2*epsilon^2)",
            "claimed",
            "Table 3.1 (Zhang et al. 2017)",
            conditions="strongly convex, log(1/delta) left out",
            needs=("strongly-convex",),
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*(sqrt(d)/(n*epsilon))^(2/3)",
            "claimed",
            "Table 3.2 (Zhang et al. 2017)",
            conditions="convex, log(1/delta) left out",
            needs=("convex",),
        ),
    ),
    faults=(
        Fault(
            "000 section 3.1.5: the comparator DP-GD",
            "the cited paper is output perturbation; noisy gradient descent is dp-gd, and both are here",
            "docs/faults.md#comparator-of-output-perturbation",
            "text",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "1", "memory_bytes": "8*n*(features + 1)"},
    reads="passes",
    spec="specs/convex_erm/output-perturbation.dps",
    margins="several",
)


#: Rounding of steps, over what a record moves them by, beyond which no plan is made.
_ROUNDING = 0.25


def sensitivity(p: Problem, t: Tunables) -> float:
    """eta*(moved*L/n + the rounding of two steps)*sum_{t<T} (1 - eta*lam)^t, rounded up."""
    assert p.loss is not None
    lam = p.loss.l2
    length = -math.expm1(t.T * math.log1p(-min(t.eta * lam, 1 - 2.0**-53))) / lam if lam > 0 else t.eta * t.T
    return float((mean_sensitivity(p) + 2 * rounding(p, t)) * length * (1 + 1e-9))


def rounding(p: Problem, t: Tunables) -> float:
    """How far one step, over eta, is from that of exact arithmetic: slopes and margins (``_solve``; that of the sum over records is in the
    mean's sensitivity), the point and its prox."""
    assert p.loss is not None
    over, d = constraint_set(p.task.over, p.facts), p.d
    start = norm(over.start(d))
    far = start + min(over.distance_bound(d), t.eta * t.T * (p.loss.lipschitz + p.loss.l2 * start))
    pull = t.eta * (p.loss.lipschitz + p.loss.l2 * far)
    data = OPERATIONS * p.loss.lipschitz + (d + 4) * p.loss.smooth * far
    step = (step_rounding(over, d, p.loss.smooth_penalty) + d) * (2 * far + pull)
    return float(p.loss.gradient_error() + U * (data + step / t.eta))


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p, smooth=True, exact_projections=True)
    if reason is None and not 0 < t.eta <= 2 / (p.loss.smooth + 2 * p.loss.l2):  # type: ignore[union-attr]
        return "the step is longer than 2/(B + 2 lam), where gradient steps need not contract"
    if reason is None and not rounding(p, t) <= _ROUNDING * p.loss.lipschitz / p.n:  # type: ignore[union-attr]
        return (
            f"its steps in doubles may be off by {rounding(p, t):.2g} times eta, which is not small against what a record moves them by "
            f"({p.loss.lipschitz / p.n:.2g}): the proof is for exact steps, and steps on noisy gradients need none (dp-gd)"  # type: ignore[union-attr]
        )
    if reason is None and p.neighbours == "add-remove":
        return (
            "how many records there are is private: (1/n) times the sum of more than n losses is steeper than B, and then its steps need "
            "not contract (neighbours replace-one or zero-out, or approximate-minima-perturbation, which rests on the ridge alone)"
        )
    return reason


def schedule(p: Problem, t: Tunables) -> Tree:
    s = sensitivity(p, t)
    return Draw("output", NormLaplace(s, p.d) if is_pure(p) else Gaussian(s, p.d))


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f = p.objective
    w = f.over.start(p.d)
    for _ in range(t.T):
        w = f.prox(w - t.eta * f.gradient(w, records, p.n), t.eta)
    noisy = release.draw("output", w, sensitivity=sensitivity(p, t))
    return Estimate(f.over.project(np.asarray(noisy)))


def noise_energy(p: Problem, calibrated: Any) -> float:
    """E|noise|^2 of the one draw."""
    scale, d = calibrated.scale("output"), p.d
    return float(scale**2 * d * (d + 1 if is_pure(p) else 1))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    D, N = distance(p), noise_energy(p, calibrated)
    short = t.eta * (p.loss.smooth + p.loss.l2) <= 1 + 1e-12
    if not (math.isfinite(D) and short and p.loss.smooth_penalty and p.task.over.kind in ("reals", "ball")):
        return {}
    slope = 0.0 if p.task.over.kind == "reals" else p.loss.lipschitz + p.loss.l2 * max(D, 1.0)
    value = D**2 / (2 * t.eta * t.T) + (p.loss.smooth + p.loss.l2) / 2 * N + slope * math.sqrt(N)
    return {"descent and smoothness": value} if value <= (p.loss.lipschitz + p.loss.l2 * D) * 2 * D else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    D = distance(p)
    G = 0.0 if p.task.over.kind == "reals" else p.loss.lipschitz + p.loss.l2 * max(D, 1.0)
    names = {"D": D, "B": p.loss.smooth, "lam": p.loss.l2, "N": noise_energy(p, calibrated), "G": G}
    return {"descent and smoothness": names}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The bound on R^d at distance ``reach``, with the mean curvature B/d of records that spread evenly in place of B."""
    assert p.loss is not None
    shrunk = math.expm1(min(p.loss.l2 * t.eta * t.T, 700.0)) / p.loss.l2 if p.loss.l2 > 0 else t.eta * t.T
    curvature = p.loss.smooth / math.sqrt(p.d) + p.loss.l2
    return float(t.reach**2 / (2 * shrunk) + curvature / 2 * noise_energy(p, calibrated))
