"""Frank-Wolfe steps and curvature steps on noisy gradients and Hessians over an l2 ball (DP-GD-SO): a constrained second-order point.

At w_k, with a noisy gradient g_k and a noisy Hessian H_k, k = 0..T-1, D = 2 R the diameter and M = B + lam:

    v = -R g_k/|g_k|, c = <g_k, w_k - v>;   where c > alpha/2:   w_{k+1} = w_k + eta (v - w_k),   eta = min(1, c/(M |v - w_k|^2));
    else u = a minimiser of q = (u - w_k)^T H_k (u - w_k) over the ball and <g_k, u - w_k> <= alpha/(72 D^3):
        where q <= -sqrt(rho alpha)/2:   w_{k+1} = w_k + theta (u - w_k),   theta = min(1, -q/(rho |u - w_k|^3));
        else w_k passes, and the next step is one of the first kind again.

Of the points that pass that of the least noisy gap c is released (``output = first``: the first, and no further step is taken), and
``found`` = 1. Where none passes it is the point of the least noisy gap, and ``found`` = 0. The programme in u is not convex; over an
l2 ball with one half-space it has an exact solver (:func:`dpspec.algorithms.second_order.least_quadratic`), over other sets it is
NP-hard in general, and they are refused.

Privacy: T Gaussian draws of the mean gradient and T of the mean Hessian (sensitivities as in dp-tr), all charged whichever branch is taken;
they compose exactly. Steps of at most 1 from the centre of the ball stay in it, where L and B are certified.

Source: 000, section 4.3.1, Algorithm 4.3.27, Theorem 4.3.3. Differences: steps by the noisy slope and curvature, no longer than 1 and no
shorter than those of the proof (alpha/(2 D^2 M); sqrt(alpha/rho)/(2 D^3), printed without rho and with another power of alpha); the
sensitivity of Hessians (2 sqrt(d) L there); a result when no point passes; what follows after the first that
does; an exact solver, Phi = 1.

Descent, re-derived, gamma = sqrt(rho alpha)/2, noise e and E. At |e| D <= alpha/8 <= c/4 a first step lowers F by eta (c - c/4 - c/2), so
by alpha^2/(16 D^2 M). At |e| D <= gamma^2/(18 rho D^3) and |E| D^2 <= gamma/9, s = |u - w|, a second one lowers it by |q|^3/(rho^2 s^6)
times 1/2 - 1/6 (remainder) - 1/18 (half-space) - 1/18 (e) - 1/18 (E) = 1/6, so by gamma^3/(6 rho^2 D^6), while theta < 1. So a point that
passes is met in T >= DF max(16 D^2 M/alpha^2, 48 sqrt(rho) D^6/alpha^1.5) steps; what is said of it holds of every point that passes,
since no draw of the T exceeds its noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms import second_order
from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.gradients import mean_sensitivity, noisy_gradient, norm
from dpspec.algorithms.nonconvex_erm import _saddles as saddles
from dpspec.algorithms.nonconvex_erm._common import gap, refused
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Repeat, Sequence, Tree

_TESTS = "tests/algorithms/nonconvex/test_dp_gd_so.py::"

CARD = Card(
    id="dp-gd-so",
    title="Noisy Frank-Wolfe and curvature steps over a ball",
    family="nonconvex_erm",
    task="minimise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "4.3.1", "Algorithm 4.3.27", ("Theorem 4.3.3", "Remark 4.3.1", "Lemmas 4.3.8-4.3.10")),),
    summary="T noisy gradients and Hessians over an l2 ball: Frank-Wolfe steps, and steps of negative curvature where their gap is small.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("smooth", "privacy", "every record's Hessian has operator norm at most B"),
        saddles.HESSIAN_LIPSCHITZ,
    ),
    options={"output": ("least", "first")},
    tunables={
        "strength": saddles.STRENGTH_TUNABLE,
        "smoothness": Tunable("B + lam", "smoothness of F: that of the loss and the ridge weight"),
        "radius": Tunable("w_radius else 1", "radius of the ball (without one it is refused)", False, 1e-100, 1e100),
        "gap": Tunable("min(at_zero, L*radius) else L*radius", "a public bound of F(w_0) - F*; 000: B", minimum=1e-300),
        "bend": saddles.BEND,
        "zeta": saddles.ZETA,
        "alpha": Tunable(
            "min(L*radius/10, sqrt(4*radius^2*L*sqrt(32*smoothness*gap)*(sqrt(d) + 5)/(n*strength)))",
            "a quarter of the least gap that noise of alpha/(8*D) lets first steps reach by the bound, below any trivial one; 000: given",
            minimum=1e-12,
            maximum=1e12,
        ),
        "T": Tunable(
            "ceil(max(10, min(sqrt(sqrt(8)*smoothness*radius*n*strength/(L*d^1.5)), 500)))",
            "noise of a gradient grows with T, the gap falls faster than 1/T: see the page; 000: O(B*M*sqrt(rho)*D^6/alpha^2)",
            integer=True,
            minimum=1,
            maximum=1e5,
        ),
    },
    bounds=(
        Bound(
            "frank-wolfe-gap",
            "explicit",
            "upper",
            "alpha/2 + 2*R*e1",
            "proved",
            "descent in two kinds of steps",
            probability="1 - zeta",
            conditions="T >= DF*max(16*D^2*M/alpha^2, 48*sqrt(rho)*D^6/alpha^1.5), D = 2*R; noise as in the docstring at 1 - zeta/(2*T)",
            where={"R": "radius of the set", "e1": "length of the noise of a gradient at 1 - zeta/(2*T)"},
        ),
        Bound(
            "frank-wolfe-gap",
            "order",
            "upper",
            "C*sqrt(sqrt(d*log(1/delta))/(n*epsilon))",
            "claimed",
            "000 Theorem 4.3.3, its term in sqrt(d)",
            conditions="all other constants fixed; the least curvature in the set is at least -sqrt(rho*alpha) as well",
        ),
    ),
    faults=(
        Fault(
            "000 Theorem 4.3.3: nothing keeps eta and theta below 1, nor w_1 in the set",
            "outside it L and B bound no gradient and no Hessian; steps are cut at 1 and start at the centre",
            _TESTS + "test_no_iterate_leaves_the_ball",
            "privacy",
        ),
        Fault(
            "000 Algorithm 4.3.27: a Hessian is read in the second branch alone",
            "which branch was taken follows from the noisy gradient; a run that reads fewer Hessians than were charged "
            "spends no more, so T of each are charged",
            _TESTS + "test_the_same_draws_are_made_in_either_branch",
            "text",
        ),
        Fault(
            "000, proof of Theorem 4.3.3: the sensitivity of a Hessian is 2 L or 2 sqrt(d) L",
            "1/n is missing and L is no bound of a Hessian",
            "tests/algorithms/nonconvex/test_second_order.py::test_the_mean_hessian_moves_by_its_sensitivity_and_no_more",
            "privacy",
        ),
        Fault(
            "000 Theorem 4.3.3: theta = Phi alpha/(2 D^3)",
            "the proof has sqrt(alpha/rho): as printed the remainder outgrows the gain for small alpha",
            _TESTS + "test_the_curvature_step_gains_a_sixth",
            "utility",
        ),
        Fault(
            "000 Algorithm 4.3.27: a solver of ratio Phi <= 9/5",
            "a ratio is at most 1; over a ball the programme is solved exactly",
            _TESTS + "test_the_quadratic_programme_is_solved",
            "text",
        ),
    ),
    cost={"gradients": "2*n*T", "rounds": "T", "memory_bytes": "8*n*(features + 1) + 8*d^2"},
    reads="passes",
    spec="specs/nonconvex_erm/dp-gd-so.dps",
    margins="network",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p) or second_order.refused(p)
    if reason is None and not (p.task.over.kind == "ball" and p.task.over.norm == "l2"):
        return "its quadratic programme has an exact solver over an l2 ball alone (over R^d: dp-tr)"
    return (
        "its programme is solved by eigenvalues of a 2 d x 2 d matrix: at most 200 dimensions" if reason is None and p.d > 200 else reason
    )


def schedule(p: Problem, t: Tunables) -> Tree:
    return Repeat(Sequence((Draw("gradient", Gaussian(mean_sensitivity(p), p.d)), Draw("hessian", second_order.mechanism(p)))), t.T)


def first(p: Problem, slope: float, length: float) -> float:
    """eta: c/(M |v - w|^2), at most 1."""
    assert p.loss is not None
    return float(min(1.0, slope / max((p.loss.smooth + p.loss.l2) * length**2, 1e-300)))


def second(t: Tunables, q: float, length: float) -> float:
    """theta: -q/(rho |u - w|^3), at most 1."""
    return float(min(1.0, -q / max(t.bend * length**3, 1e-300)))


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, over = p.objective, constraint_set(p.task.over, p.facts)
    slack = t.alpha / (72 * (2 * over.radius) ** 3)
    enough = math.sqrt(t.bend * t.alpha) / 2
    w = chosen = over.start(p.d)
    least, found = math.inf, 0
    for _ in range(t.T):
        g = noisy_gradient(release, records, p, w) + float(f.l2) * w
        H = second_order.noisy_hessian(release, records, p, w)
        v = over.minimise_linear(g)
        slope = float(g @ (w - v))
        if not found and slope < least:
            chosen, least = w, slope
        if slope > t.alpha / 2:
            w = over.project(w + first(p, slope, norm(v - w)) * (v - w))
            continue
        u, q = second_order.least_quadratic(H, w, over.radius, g, slack)
        if q <= -enough:
            w = over.project(w + second(t, q, norm(u - w)) * (u - w))
            continue
        if not found or (t.output == "least" and slope < least):
            chosen, least = w, slope
        found = 1
        if t.output == "least":
            w = over.project(w + first(p, slope, norm(v - w)) * (v - w))
    return Estimate(np.asarray(chosen), {"found": found})


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    R, M, rho = constraint_set(p.task.over, p.facts).radius, p.loss.smooth + p.loss.l2, float(t.bend)
    D, curve, each = 2 * R, math.sqrt(rho * t.alpha) / 2, t.zeta / (2 * t.T)
    e1, e2 = saddles.vector_noise(calibrated.scale("gradient"), p.d, each), saddles.matrix_noise(calibrated.scale("hessian"), p.d, each)
    quiet = e1 * D <= min(t.alpha / 8, curve**2 / (18 * rho * D**3)) and e2 * D**2 <= curve / 9 and rho >= p.loss.hessian_lipschitz()
    long = gap(p) * max(16 * D**2 * M / t.alpha**2, 48 * math.sqrt(rho) * D**6 / t.alpha**1.5) <= t.T
    return {"descent in two kinds of steps": t.alpha / 2 + D * e1} if quiet and long and math.sqrt(t.alpha / rho) < 2 * D**3 else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    e1 = saddles.vector_noise(calibrated.scale("gradient"), p.d, t.zeta / (2 * t.T))
    return {"descent in two kinds of steps": {"R": constraint_set(p.task.over, p.facts).radius, "e1": e1}}
