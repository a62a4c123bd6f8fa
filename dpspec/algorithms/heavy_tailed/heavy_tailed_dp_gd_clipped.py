"""Gradient descent on the risk of a law whose gradients have two moments: clipped gradients and noise (central model).

    g_t = (1/m) sum_i grad l(w_{t-1}; z_i) min(1, C/|grad l(w_{t-1}; z_i)|_2) + noise,
    w_t = prox(w_{t-1} - step (g_t + lam w_{t-1})),   t = 1..T,

from the public point of the set nearest to 0; released is the average of the last ``tail`` of w_1..w_T. The records are cut into ``parts``
batches in their order, and T/parts steps in a row read each (parts = 1: all records in every step; parts = T: fresh ones).

The comparator of the robust descents. Sensitivity: a clipped gradient has norm at most C whatever its record holds (one that is not finite
counts as 0), so a mean over m of them moves by at most 2 C/m in l2 under replace-one, and by C/m where a record vanishes. A record meets
T/parts draws: Gaussian ones, or at pure epsilon ones of density ~ exp(-|z|_2/b).

Bound (parts = T, in expectation; F the law's risk with its ridge, convex and B-smooth, step <= 1/B; E (grad_j)^2 <= tau on the set). On
fresh records |E clipped - grad| <= E max(0, |g| - C) <= E|g|^2/(4 C) <= d tau/(4 C), the spread of a mean of m has E|.|^2 <= d tau/m and
the noise N, so a step errs by E = d tau/(4 C) + sqrt(d tau/m + N) in expectation, and heavy-tailed-dp-gd-catoni's inequality for steps with
an error gives the rest. The default C is an eighth of what balances the bias and the noise of a step, as that of the robust descent is of
its scale.

Source: Abadi et al. 2016 (clipping); Barber and Duchi 2014 (the bias by a moment). The documents compare with no clipped gradients; it is
what a user would do without them.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.gradients import is_pure
from dpspec.algorithms.heavy_tailed import _gradients as heavy
from dpspec.algorithms.heavy_tailed.heavy_tailed_dp_gd_catoni import descent_bound, kept_steps, stepped
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import Vector
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.numeric.norms import clip_rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.mechanisms.norm_laplace import NormLaplace
from dpspec.privacy.schedule import Disjoint, Draw, Repeat, Tree

CLIPPED: Final = "each gradient is scaled into a ball, whatever its record holds"
FRESH: Final = "inexact projected descent on clipped fresh records"

CARD = Card(
    id="heavy-tailed-dp-gd-clipped",
    title="Noisy gradient descent with clipped gradients of heavy-tailed records",
    family="heavy_tailed",
    task="minimise",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(
        Source("literature", "Abadi et al. 2016", "clipped gradients"),
        Source("literature", "Barber and Duchi 2014", "truncated means"),
    ),
    summary="Each record's gradient is scaled into a ball of a radius that a second moment gives, and the means get noise.",
    needs=(
        Need("x", "privacy", "a record has bounded influence", enforced_by=CLIPPED),
        Need("y", "privacy", "a record has bounded influence", enforced_by=CLIPPED),
        *(n for n in heavy.NEEDS if n.role == "utility"),
        Need("convex", "utility", "the loss is convex in w"),
        Need("smooth", "utility", "the mean loss of the law is B-smooth"),
    ),
    tunables={
        "tau": heavy.TAU,
        "strength": Tunable(
            "mu else sqrt(2*rho) else sqrt(2)*(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta))) else epsilon/(4*sqrt(d + 1))",
            "about the Gaussian-DP mu that the budget buys, or what it is for 16 draws of noise of the ball; tunes, the noise is exact",
            minimum=1e-12,
        ),
        "smoothness": heavy.SMOOTHNESS,
        "reach": Tunable("w_radius else sqrt(d)", "distance to cover: the radius of the set; tunes", minimum=1e-12),
        "T": Tunable(
            "ceil(max(16, min(100, (smoothness*reach/(2*sqrt(2*tau*d^(3/2)/(n*strength))))^(4/5))))",
            "least smoothness*reach^2/(2 T) + reach*E, E of order T^(1/4) where a step reads all records",
            integer=True,
            minimum=1,
            maximum=1e5,
        ),
        "parts": Tunable("1", "disjoint batches: 1 reads all records in every step, T fresh ones", integer=True, minimum=1),
        "C": Tunable(
            "sqrt(sqrt(d)*tau*n/parts*strength/(8*sqrt(T/parts)))/8",
            "an eighth of the C with the least d*tau/(4*C) + 2*C*parts/n*sqrt(d*T/parts)/mu, bias and noise of a step: laws with more than "
            "two moments have less of the one (set on four laws; the bound is 4 to 5 times the least)",
            minimum=1e-100,
            maximum=1e100,
        ),
        "step": Tunable("1/smoothness", "one over the smoothness", minimum=1e-300),
        "tail": Tunable("1/2", "share of the last iterates that is averaged", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "excess-population-risk",
            "explicit",
            "upper",
            "min(Q^2/(2*step*K) + Q*E, D^2/(2*step*K) + T/K*Q*E)",
            "proved",
            FRESH,
            conditions="in expectation; parts = T, a convex loss and set, step*B <= 1, B bounds the law's smoothness; a declared largest "
            "eigenvalue is that of E x x^T",
            where={
                "Q": "diameter of the set",
                "D": "distance of the start to a minimiser, at most",
                "K": "averaged steps, ceil(tail*T)",
                "E": "error of a step: d*tau/(4*C) + sqrt(d*tau/m + N), m records a step, N = E|noise|^2",
            },
        ),
    ),
    cost={"gradients": "n*T/parts", "rounds": "T", "memory_bytes": "8*(n*(d + 1) + 12*262144)"},
    reads="rows",
    spec="specs/heavy_tailed/heavy-tailed-dp-gd-clipped.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = heavy.refused(p, t)
    if reason is not None:
        return reason
    if t.parts > 1 and p.neighbours == "add-remove":
        return "a record that is added or removed shifts every later batch (parts = 1, or neighbours replace-one or zero-out)"
    if t.T % t.parts != 0 or t.parts > p.n:
        return f"parts = {t.parts} has to divide T = {t.T}, and a batch needs a record (n = {p.n})"
    return None


def count(p: Problem, t: Tunables) -> int:
    """The least number of records of a step."""
    return p.n // int(t.parts)


def sensitivity(p: Problem, t: Tunables) -> float:
    """l2 distance of a step's mean between neighbours, the number of its records being the divisor."""
    least, moved = count(p, t), 2.0 if p.neighbours == "replace-one" else 1.0
    largest = p.n - (int(t.parts) - 1) * least
    return sums.sensitivity(moved * t.C / least, largest, moved, hidden=p.neighbours == "add-remove")


def schedule(p: Problem, t: Tunables) -> Tree:
    s = sensitivity(p, t)
    again = Repeat(Draw("gradient", NormLaplace(s, p.d) if is_pure(p) else Gaussian(s, p.d)), t.T // t.parts)
    return again if t.parts == 1 else Disjoint(again, t.parts)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, w, kept = p.objective, p.objective.over.start(p.d), kept_steps(t)
    total, k = np.zeros(p.d), 0
    for batch, m in [(records, p.n)] if t.parts == 1 else ((b, b[0].shape[0]) for b in records.rounds(t.parts)):
        for _ in range(t.T // t.parts):
            g = np.atleast_1d(release.draw("gradient", clipped_mean(f, batch, w, t.C, m), sensitivity=sensitivity(p, t)))
            w = stepped(f, w, g, t.step)
            if k >= t.T - kept:
                total += w
            k += 1
    return Estimate(total / kept)


def clipped_mean(f: Objective, records: Any, w: Vector, C: float, divisor: int) -> Vector:
    """(1/divisor) sum of the data part's gradients at ``w``, each scaled into the ball of radius C, shape (d,)."""
    total = sums.Sum(w.size)
    for x, y in heavy.blocks(records, sums.block_rows(1 << 18, w.size, 64)):
        total.add(clip_rows(f.gradients(w, x, y), C).sum(axis=0))
    return np.asarray(total.value / divisor)


# --------------------------------------------------------------------------------------------------- what is known beforehand


def step_error(p: Problem, t: Tunables, scale: float) -> float:
    """E of the text."""
    noise = scale**2 * p.d * (p.d + 1 if is_pure(p) else 1)
    return float(p.d * t.tau / (4 * t.C) + math.sqrt(p.d * t.tau / count(p, t) + noise))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    if t.parts != t.T:
        return {}
    value = descent_bound(p, t, step_error(p, t, calibrated.scale("gradient")))
    return {} if value is None else {FRESH: value}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    D, Q = heavy.spread(p)
    return {FRESH: {"D": D, "Q": Q, "K": kept_steps(t), "E": step_error(p, t, calibrated.scale("gradient"))}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Excess risk: what the steps leave of the start's, the noise and the spread of half the steps, and half the worst bias."""
    noise = calibrated.scale("gradient") ** 2 * p.d * (p.d + 1 if is_pure(p) else 1)
    moved = math.hypot(math.sqrt((noise + p.d * t.tau / count(p, t)) / max(1, kept_steps(t))), p.d * t.tau / (8 * t.C))
    return float(t.reach**2 / (2 * t.step * t.T) + t.reach * moved)
