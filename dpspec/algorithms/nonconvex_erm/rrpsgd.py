"""Noisy stochastic gradient steps on secret batches, stopped at a random round (RRPSGD): a point whose gradient is short.

    w_{k+1} = prox_eta(w_k - eta (g_k + lam w_k + e_k)),   g_k the mean gradient of a batch of b records, e_k ~ N(0, s^2 I), k = 0..T-1;

released is one of the last K = ceil(tail T) iterates, that public randomness picks before a record is read.

Privacy: under replace-one each batch is a uniform subset of exactly b records, and the accountant is that of this sampler and relation;
the mean moves by 2 L/b. Where a record vanishes (add-remove, zero-out) each record joins with probability b/n, and the sum over b moves by
L/b. All T steps are drawn and charged, whatever the round is. Batches are secret.

Source: 000, section 4.1, Table 4.1, which cites the method (single records, T = n^2) and states its rate; its steps are in no document.
Differences: batches just large enough for a noise multiplier of about 1.5, so that T is hundreds and not n^2; numerical accounting in the
place of advanced composition, which is where the log(n) of the printed rate comes from.

Bound, re-derived. R^d, no l1 or group term, eta <= 1/S, S = B + lam: E g_k = grad F, its variance at most L^2 V, V = (n - b)/(b (n - 1))
for subsets and 1/b for Poisson batches, so F falls by eta/2 E|grad F|^2 - S/2 eta^2 (L^2 V + d s^2) a step, and over the last K

    E |grad F(w_R)|^2 <= 2 DF/(eta K) + S eta (L^2 V + d s^2) T/K.

With s as of full batches the second term is that of dp-pgd-nonconvex and L^2 V: at b = n mu/sqrt(T) that is L^2 sqrt(T)/(n mu), as large
as d s^2 for T near (n mu/d)^(2/3).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.gradients import exact_gradient, mean_sensitivity, steepness
from dpspec.algorithms.nonconvex_erm._common import gap, kept, refused
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Repeat, Sampled, Tree

_TESTS = "tests/algorithms/nonconvex/test_rrpsgd.py::"

CARD = Card(
    id="rrpsgd",
    title="Noisy stochastic gradient steps stopped at a random round",
    family="nonconvex_erm",
    task="minimise",
    models=("central",),
    guarantees=("approx",),
    sources=(Source("000", "4.1", "RRPSGD of Zhang et al. 2017 (cited)", ("Table 4.1",)),),
    summary="Gaussian noise on gradients of secret batches (fixed size, or Poisson), numerical accounting, a random late iterate.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("smooth", "utility", "the objective is S-smooth in l2, S = B + lam"),
    ),
    tunables={
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "smoothness": Tunable("B + lam", "smoothness of F: that of the loss and the ridge weight"),
        "gap": Tunable(
            "min(at_zero, 2*L*w_radius) else at_zero else 2*L*w_radius else L^2/smoothness",
            "a public bound of F(w_0) - F*, for tuning",
            minimum=1e-300,
        ),
        "tau": Tunable(
            "n*strength*sqrt(gap/(2*smoothness*d))/L",
            "total step length, as of full batches (dp-pgd-nonconvex)",
            minimum=1e-300,
        ),
        "T": Tunable(
            "ceil(max(50, min(2*smoothness*tau, 2000)))",
            "steps of half of 1/S, at most 2000; the cited method has n^2",
            integer=True,
            minimum=1,
            maximum=1e6,
        ),
        "eta": Tunable("min(1/smoothness, tau/T)", "step", minimum=0.0, maximum=1e100),
        "b": Tunable(
            "ceil(min(n, max(1.5*n*strength/sqrt(T), (n*strength)^2/(4*d*T))))",
            "least batch with a noise multiplier of about 1.5, or with a sampling error below the noise; the cited method has 1",
            integer=True,
            minimum=1,
        ),
        "tail": Tunable("1/2", "share of the last iterates that the released one is from; Table 4.1: all", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "gradient-norm",
            "explicit",
            "upper",
            "sqrt(2*DF/(eta*K) + S*eta*(L^2*V + d*scale^2)*T/K)",
            "proved",
            "descent on batches",
            conditions="R^d, no l1 or group term, eta <= 1/S; K = ceil(tail*T), DF public, V = (n - b)/(b*(n - 1)), or 1/b (Poisson)",
            where={
                "DF": "F(w_0) - F*, at most (public)",
                "S": "smoothness",
                "V": "(n - b)/(b*(n - 1)), or 1/b for Poisson batches",
                "K": "averaged steps, ceil(tail*T)",
            },
        ),
        Bound(
            "gradient-norm",
            "order",
            "upper",
            "C*(d*log(1/delta))^(1/4)*log(n/delta)/sqrt(n*epsilon)",
            "claimed",
            "000 Table 4.1",
            conditions="batches of one record, T = n^2, advanced composition; L, S and DF constants",
            when=("b = 1",),
        ),
    ),
    faults=(
        Fault(
            "000 Table 4.1 and Lemma 2.1.7: an accountant of Poisson batches for batches of a fixed size",
            "its pair belongs to add-remove; under replace-one it arises in both orders, and neither order dominates the other",
            _TESTS + "test_the_pair_of_poisson_batches_does_not_dominate_fixed_ones",
            "privacy",
        ),
        Fault(
            "000 Lemma 2.1.7: the noise multiplier is relative to G",
            "a batch that holds another record moves by 2 G: at the multiplier of one G a step spends more than twice as much",
            _TESTS + "test_a_multiplier_of_one_lipschitz_constant_overspends",
            "privacy",
        ),
    ),
    cost={"gradients": "T*b", "rounds": "T", "memory_bytes": "8*n*(features + 1)"},
    reads="rows",
    spec="specs/nonconvex_erm/rrpsgd.dps",
    margins="several",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.loss is not None and (p.loss.l1 < 0 or (p.loss.group is not None and p.loss.group.weight < 0)):
        return "prox maps of a penalty with a negative weight are not non-expansive"
    if t.b > p.n:
        return f"a batch of {t.b} records is larger than n = {p.n}"
    return refused(p) or (None if t.eta > 0 else "the step size must be positive")


def schedule(p: Problem, t: Tunables) -> Tree:
    method: Literal["fixed", "poisson"] = "fixed" if p.neighbours == "replace-one" else "poisson"
    return Repeat(Sampled(Draw("gradient", Gaussian(mean_sensitivity(p, t.b), p.d)), method, t.b / p.n, p.n), t.T)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, s, last = p.objective, mean_sensitivity(p, t.b), kept(t)
    chosen = t.T - last + int(release.public.generator("iterate").integers(last))
    w = found = f.over.start(p.d)
    for k in range(t.T):
        if k == chosen:
            found = w
        batch = records.take(release.batch("gradient", records.n))
        share = steepness(p, w)  # the noise shrinks with it, as in noisy_gradient
        g = release.draw("gradient", exact_gradient(batch, p, w, t.b) / share, sensitivity=s) * share
        w = f.prox(w - t.eta * (g + float(f.l2) * w), t.eta)
    return Estimate(np.asarray(found))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    S, DF, K = p.loss.smooth + p.loss.l2, gap(p), kept(t)
    if p.task.over.kind != "reals" or not p.loss.smooth_penalty or not math.isfinite(DF) or t.eta * S > 1 + 1e-12:
        return {}
    V = (p.n - t.b) / (t.b * max(p.n - 1, 1)) if p.neighbours == "replace-one" else 1 / t.b
    noise = p.loss.lipschitz**2 * V + p.d * calibrated.scale("gradient") ** 2
    value = math.sqrt(2 * DF / (t.eta * K) + S * t.eta * noise * t.T / K)
    return {"descent on batches": value} if p.loss.l2 > 0 or value <= p.loss.lipschitz else {}  # a larger one says nothing


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    V = (p.n - t.b) / (t.b * max(p.n - 1, 1)) if p.neighbours == "replace-one" else 1 / t.b
    return {"descent on batches": {"DF": gap(p), "K": kept(t), "S": p.loss.smooth + p.loss.l2, "V": V, "L": p.loss.lipschitz}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float | None:
    """Norm of the gradient: the bound at the tuning gap, as dp-pgd-nonconvex predicts it, and none where that predicts none."""
    if p.loss is None or p.loss.convex or (p.goal is not None and p.goal.measure == "frank-wolfe-gap"):
        return None
    noise = p.loss.lipschitz**2 / t.b + p.d * calibrated.scale("gradient") ** 2
    return math.sqrt(2 * t.gap / (t.eta * t.T) + t.smoothness * t.eta * noise)
