"""Mean of records with two moments: records scaled into a ball, their mean, and one draw of noise (central model).

    m = (1/n) sum_i x_i min(1, C/|x_i|_2);   release m + noise.

The comparator of the family. Sensitivity: a scaled record has norm at most C whatever it holds (what is not finite counts as 0), so m
moves by at most 2 C/n in l2 under replace-one, and by C/n where a record vanishes. One Gaussian draw, or at pure epsilon one of density
~ exp(-|z|_2/b).

Bound, in expectation: |x - x min(1, C/|x|)| = max(0, |x| - C) <= |x|^2/(4 C), so the bias is at most d tau/(4 C), E x_j^2 <= tau; the
mean's own spread has E|.|^2 <= d tau/n and the noise d sigma^2 (d (d + 1) b^2). The default C balances bias and noise.

Source: Barber and Duchi 2014 (truncated means of records with moments). The documents compare with no clipped mean; it is what a user would
do without them.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.gradients import is_pure
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.numeric.norms import clip_rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.mechanisms.norm_laplace import NormLaplace
from dpspec.privacy.schedule import Draw, Tree

LENGTH: Final = "bias of scaling into a ball, spread and noise"

CARD = Card(
    id="dp-clipped-mean",
    title="Mean of records scaled into a ball",
    family="heavy_tailed",
    task="mean",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("literature", "Barber and Duchi 2014", "truncated means"),),
    summary="Each record scaled into a ball of the best radius that a second moment gives, the mean, and one draw of noise.",
    needs=(
        Need("x", "privacy", "a record has bounded influence", enforced_by="each record is scaled into a ball, whatever it holds"),
        Need("moment", "utility", "E x_j^2 is at most tau for every coordinate"),
    ),
    tunables={
        "tau": Tunable(
            "moment_bound_x^(2/moment_order_x) else moment_bound^(2/moment_order) else x_linf^2",
            "the second moment of a coordinate, from the declared moment of order 2 or more (Jensen)",
            minimum=1e-300,
        ),
        "strength": Tunable(
            "mu else sqrt(2*rho) else sqrt(2)*(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta))) else epsilon/sqrt(d + 1)",
            "about the Gaussian-DP mu that the budget buys, or what it is for noise of the ball; tunes, the noise is exact",
            minimum=1e-12,
        ),
        "C": Tunable("sqrt(sqrt(d)*tau*n*strength/8)", "least d*tau/(4*C) + 2*C*sqrt(d)/(n*mu)", minimum=1e-100, maximum=1e100),
    },
    bounds=(
        Bound(
            "l2-error",
            "explicit",
            "upper",
            "d*tau/(4*C) + sqrt(d*tau/n + N)",
            "proved",
            LENGTH,
            conditions="in expectation",
            where={"N": "E|noise|^2: d*scale^2, or d*(d + 1)*scale^2 for pure budgets"},
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*sqrt(tau)*(sqrt(d/n) + d^(3/4)*log(1/delta)^(1/4)/sqrt(n*epsilon))",
            "proved",
            "the explicit bound at the best C",
            conditions="in expectation",
        ),
    ),
    cost={"gradients": "n", "rounds": "1", "memory_bytes": "8*(n*d + 4*262144)"},
    spec="specs/heavy_tailed/dp-clipped-mean.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.what != "mean":
        return f"it estimates mean(x), not {p.task.what}(x)"
    order = p.facts.get("moment_order_x", p.facts.get("moment_order", 2.0))
    if order < 2:
        return "its bound needs a second moment, and the declared one is of a lower order"
    declared = p.facts.get("moment_bound_x", p.facts.get("moment_bound", 0.0)) ** (2 / order)
    if t.tau < declared * (1 - 1e-12):
        return f"tau = {t.tau:g} contradicts the declared moment, by which E x_j^2 may be {declared:g}: its bound would be false"
    return None


def sensitivity(p: Problem, t: Tunables) -> float:
    """l2 distance of the mean between neighbours, with the public n as divisor."""
    moved = 2.0 if p.neighbours == "replace-one" else 1.0
    return sums.sensitivity(moved * t.C / p.n, p.n, moved, hidden=p.neighbours == "add-remove")


def schedule(p: Problem, t: Tunables) -> Tree:
    s = sensitivity(p, t)
    return Draw("mean", NormLaplace(s, p.d) if is_pure(p) else Gaussian(s, p.d))


def energy(p: Problem, calibrated: Any) -> float:
    """E|noise|^2."""
    return float(calibrated.scale("mean") ** 2 * p.d * (p.d + 1 if is_pure(p) else 1))


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    total = sums.Sum(p.d)
    for x, _ in records.blocks(sums.block_rows(1 << 18, p.d, 64)):
        total.add(clip_rows(np.array(x if isinstance(x, np.ndarray) else x.toarray(), dtype=np.float64), t.C).sum(axis=0))
    noisy = np.atleast_1d(release.draw("mean", total.value / p.n, sensitivity=sensitivity(p, t)))
    return Estimate(constraint_set(p.task.over, p.facts).project(noisy))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """A projection on a convex set that holds the mean makes no l2 error larger."""
    if not constraint_set(p.task.over, p.facts).convex:
        return {}
    return {LENGTH: p.d * t.tau / (4 * t.C) + math.sqrt(p.d * t.tau / p.n + energy(p, calibrated))}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {LENGTH: {"N": energy(p, calibrated)}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error: half the worst bias, the mean's own spread and noise."""
    return math.hypot(p.d * t.tau / (8 * t.C), math.sqrt(p.d * t.tau / p.n), math.sqrt(energy(p, calibrated)))
