"""Private accelerated SVRG with Katyusha momentum, for a strongly convex regulariser.

    y = th*x_{t-1} + (1 - th)*z;  x_t = prox(x_{t-1} - eta*v_t);  z_s = th*(sum w^{j-1} x_j)/(sum w^{j-1}) + (1 - th)*z_{s-1},

w = 1 + eta*lam, v_t the noisy estimate of :mod:`dpspec.algorithms.convex_erm._reduced` at y; x carries on over epochs, and the mean of
the last ``tail`` of the z_s is released. Source: 000, Algorithm 3.1.2, Theorem 3.1.3. The printed steps add no noise at all, although
the proof takes the mean over it; and the noise that the theorem names is that of Theorem 3.1.1, see dp-svrg. Here both the anchor
gradient and the differences are noised, on batches, with fresh noise on the anchor at every step (x carries on, so that one draw an
epoch would do as well, and the proof below wants independent ones). Defaults: those of case 2 of the theorem, n >= B/lam, th = 1/2, but
with m from the length tau that pays under noise instead of 3/4 B/lam; no useful tau asks for the smaller th of case 1.

Bounds for any eta, th and m with B*th + B*th/(1 - th) <= 1/eta (3.29), any noise of variance s^2 a coordinate (re-derived from the proof
of the theorem; case 2 gives its 3 (2/3)^T gap_0 + d s^2/B). With G = E F - F*, D_t = E |x_t - w*|^2, smoothness at y, Young's inequality
with (3.29), the variance bound of Lemma 3.1.1 and the prox inequality at u = w* give, y_t = th x_t + (1 - th) z,

    G(y_t) <= (1 - th) G(z) + th/(2 eta) (D_{t-1} - w D_t) + (1 - th) d s^2/(2B).

Weighted by w^{t-1} and summed over an epoch, W = (w^m - 1)/(w - 1), rho = max(1 - th, w^-m):  G_s + th w^m/(2 eta W) D_s contracts by
rho, so

    G_T <= rho^(T-1) ((1 - th) G_0 + th D_0/(2 eta W)) + (1 - th) d s^2/(2B) (1 - rho^T)/(1 - rho),   D_0 <= 2 G_0/lam.

Summed over all epochs instead, with w^m >= 1 and W >= m:  th sum G_s <= (1 - th) G_0 + th D_0/(2 eta m) + T (1 - th) d s^2/(2B).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.convex_erm._common import distance, exact_gradient, prox, refused, start_gap
from dpspec.algorithms.convex_erm._reduced import BATCH, REACH, TAIL, TAU, bad_batch, estimate, noise, tree
from dpspec.algorithms.convex_erm.dp_svrg import printed
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

_EVIDENCE = "tests/algorithms/convex/test_variance_reduction_faults.py::"

CARD = Card(
    id="dp-katyusha",
    title="Private Katyusha (corrected)",
    family="convex_erm",
    task="minimise",
    models=("central",),
    guarantees=("approx",),
    sources=(Source("000", "3.1.3, 3.1.6", "Algorithm 3.1.2", ("Theorem 3.1.3", "Remark 3.1.2")),),
    summary="Accelerated SVRG; every anchor gradient and every minibatch difference is noised, batches and noise fit one accountant.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("smooth", "privacy", "every record's gradient is B-Lipschitz: it bounds the differences"),
        Need("convex", "utility", "the loss is convex in w"),
        Need("strongly-convex", "utility", "the objective has a ridge term"),
    ),
    tunables={
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "reach": REACH,
        "T": Tunable(
            "ceil(max(8, min(25, sqrt(2*B/(3*L*sqrt(d)/(reach*n*strength) + lam/4)))))",
            "epochs: n gradients each, against differences that are 1/sqrt(2T) as long; at most 25 for cost",
            integer=True,
            minimum=1,
            maximum=1000,
        ),
        "share": Tunable(
            "B*reach/(L*sqrt(2*T))",
            "differences' mu^2 over the anchors': half of the way between x and the anchor two epochs behind",
            minimum=1e-9,
        ),
        "tau": TAU,
        "th": Tunable("1/2", "momentum of case 2; less saves steps and lets the anchors lag 1/th epochs behind", minimum=1e-9, maximum=0.5),
        "m": Tunable(
            "ceil(min(B*th*(1 + 1/(1 - th))*tau, 20000)/T)", "steps an epoch: the fewest that cover tau within (3.29)", True, 1, 1e6
        ),
        "eta": Tunable(
            "min(1/(B*th*(1 + 1/(1 - th))), tau/(T*m))", "step that covers tau; at most 2/(3B) in case 2, by (3.29)", minimum=0.0
        ),
        "tail": TAIL,
        "K": Tunable("T*m", "steps in all", integer=True, minimum=1),
        "b": BATCH,
    },
    bounds=(
        Bound(
            "excess-empirical-risk",
            "explicit",
            "upper",
            "P*((1 - th)*gap + th*D^2/(2*eta*W)) + (1 - th)*d*s^2/(2*B)*(1 - rho*P)/(1 - rho)",
            "proved",
            "000 eq 3.44, any step",
            conditions="(3.29), rho = max(1-th, (1+eta*lam)^-m), W = ((1+eta*lam)^m - 1)/(eta*lam); s the noise of one estimate, "
            "gap >= F(0) - F*, D^2 <= 2*gap/lam; the mean over the epochs that are averaged",
            where={
                "rho": "max(1 - th, (1 + eta*lam)^-m)",
                "P": "mean of rho^j over the averaged epochs, j = T-N..T-1",
                "W": "((1 + eta*lam)^m - 1)/(eta*lam)",
                "gap": "F(0) - F*, at most",
                "D": "distance to the minimiser, at most, D^2 <= 2*gap/lam",
                "s": "noise of one estimate",
                "B": "smoothness without the ridge",
            },
        ),
        Bound(
            "excess-empirical-risk",
            "explicit",
            "upper",
            "((1-th)*gap/th + D^2/(2*eta*m) + T*(1-th)*d*s^2/(2*B*th))/N",
            "proved",
            "eq 3.37 summed, convex",
            conditions="(3.29); N = ceil(tail*T) epochs are averaged",
            where={
                "gap": "F(0) - F*, at most",
                "D": "distance to the minimiser, at most, D^2 <= 2*gap/lam",
                "s": "noise of one estimate",
                "B": "smoothness without the ridge",
                "N": "averaged epochs, ceil(tail*T)",
            },
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*d*log(n)^2*L^2*log(1/delta)/(n^2*epsilon^2*lam)",
            "refuted",
            "3.1.3",
            conditions="printed, at batch 1: its noise is not private at any epsilon of practical size; see the faults",
        ),
        Bound(
            "excess-empirical-risk", "order", "lower", "C*min(1, d/(n^2*epsilon^2))", "claimed", "Table 3.1 (Bassily, Smith, Thakurta 2014)"
        ),
    ),
    faults=(
        Fault(
            "000 Algorithm 3.1.2, step 7: v is used as it is",
            "no noise is added anywhere, so the output of two neighbours never coincides: delta = 1 at every epsilon",
            _EVIDENCE + "test_dp_katyusha_as_printed_adds_no_noise",
            "privacy",
        ),
        Fault(
            "000 Theorem 3.1.3: private with the noise of Theorem 3.1.1 at T*m steps of one record",
            "at n = 1e5, T = 12, m = 75000, epsilon 1 the noise is 0.029 G; a release of one record needs more than 1.7 G",
            _EVIDENCE + "test_dp_katyusha_noise_is_too_small",
            "privacy",
        ),
        Fault(
            "000 section 3.1.5: Barzilai-Borwein steps, said not to affect the privacy",
            "a step computed from exact gradients is a function of the records that no noise covers",
            _EVIDENCE + "test_barzilai_borwein_steps_leak",
            "privacy",
        ),
        Fault(
            "000 section 3.1.5: m = 3n/4 with n above the condition number",
            "theta = sqrt(m lam/(3L)) then exceeds 1/2 and (3.29) fails",
            _EVIDENCE + "test_the_experiments_of_katyusha_break_3_29",
            "utility",
        ),
    ),
    cost={"gradients": "T*(n + 2*m*b)", "rounds": "T*m", "memory_bytes": "8*n*(features + 1)"},
    reads="rows",
    spec="specs/convex_erm/dp-katyusha.dps",
    margins="several",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p, smooth=True, strongly=True, fixed_batches=True) or bad_batch(p, t)
    if reason is None and not p.loss.smooth * t.th * (1 + 1 / (1 - t.th)) <= (1 + 1e-9) / t.eta:  # type: ignore[union-attr]
        return "B*th + B*th/(1 - th) exceeds 1/eta, against (3.29)"
    return reason


def schedule(p: Problem, t: Tunables) -> Tree:
    return tree(p, t, t.T * t.m, 1)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    assert p.loss is not None
    f, growth, kept = p.objective, 1 + t.eta * p.loss.l2, math.ceil(t.tail * t.T)
    x = z = f.over.start(p.d)
    averaged = np.zeros(p.d)
    for epoch in range(t.T):
        anchor = exact_gradient(records, p, z)
        total, weight, weights = np.zeros(p.d), 1.0, 0.0
        for _ in range(t.m):
            y = t.th * x + (1 - t.th) * z
            x = prox(f, x - t.eta * estimate(release, records, p, t.b, y, z, anchor), t.eta)
            total, weights, weight = total + weight * x, weights + weight, weight * growth
        z = t.th / weights * total + (1 - t.th) * z
        if epoch >= t.T - kept:
            averaged += z
    return Estimate(averaged / kept)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    gap, far, B, w, m = start_gap(p), distance(p), p.loss.smooth, 1 + t.eta * p.loss.l2, t.m
    if not (math.isfinite(gap) and math.isfinite(far)):
        return {}
    kept = math.ceil(t.tail * t.T)
    step = (1 - t.th) * p.d * sum(noise(calibrated)) / (2 * B)
    square = min(far**2, 2 * gap / p.loss.l2)
    rho, W = max(1 - t.th, w**-m), (w**m - 1) / (w - 1)
    first = (1 - t.th) * gap + t.th * square / (2 * t.eta * W)
    powers = [rho**s for s in range(t.T - kept, t.T)]
    found = {
        "000 eq 3.44, any step": sum(q * first + step * (1 - q * rho) / (1 - rho) for q in powers) / kept,
        "eq 3.37 summed, convex": (((1 - t.th) * gap / t.th + square / (2 * t.eta * m)) + t.T * step / t.th) / kept,
    }
    return {name: value for name, value in found.items() if value <= gap}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    gap, B, w, N = start_gap(p), p.loss.smooth, 1 + t.eta * p.loss.l2, math.ceil(t.tail * t.T)
    rho = max(1 - t.th, w**-t.m)
    P = sum(rho**j for j in range(t.T - N, t.T)) / N
    names = {"gap": gap, "B": B, "D": math.sqrt(min(distance(p) ** 2, 2 * gap / p.loss.l2)), "s": math.sqrt(sum(noise(calibrated))), "N": N}
    return {
        "000 eq 3.44, any step": {**names, "rho": rho, "P": P, "W": (w**t.m - 1) / (w - 1)},
        "eq 3.37 summed, convex": names,
    }


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    formula = "L*sqrt(T*m*log(1/delta))/(n*epsilon)"
    return printed(p, t.T * t.m, budget, "000 Theorem 3.1.3 (c = 1; the printed steps add no noise at all)", formula)
