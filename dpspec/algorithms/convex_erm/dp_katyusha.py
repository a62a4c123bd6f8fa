"""Private accelerated SVRG with Katyusha momentum, for a strongly convex regulariser.

    y = th*x_{t-1} + (1 - th)*z;  x_t = prox(x_{t-1} - eta*v_t);  z_s = th*(sum w^{j-1} x_j)/(sum w^{j-1}) + (1 - th)*z_{s-1},

w = 1 + eta*lam, v_t the noisy estimate of :mod:`dpspec.algorithms.convex_erm._reduced` at y; x carries on over epochs. Source: 000,
Algorithm 3.1.2, Theorem 3.1.3. The printed steps add no noise at all, although the proof takes the mean over it; and the noise that
the theorem names is that of Theorem 3.1.1, see dp-svrg. Here both the anchor gradient and the differences are noised, on batches.

Parameters of the theorem. Case 2 (n >= B/lam): m = 3/4*B/lam, eta = 2/(3B), th = 1/2. Case 1: m = 3/4*n, eta = sqrt(1/(3 lam m B)),
th = sqrt(m lam/(3B)). Both need B*th + B*th/(1 - th) <= 1/eta (3.29). Bounds (catalogue: re-derived and simulated), any noise of variance
s^2 a coordinate: case 2: 3 (2/3)^T gap_0 + d s^2/B; case 1: w^(-Tm) (1 + 1/(1 - th)) gap_0 + min(T, 1/(w^m - 1)) d s^2/(2B).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.convex_erm._common import prox, refused, start_gap
from dpspec.algorithms.convex_erm._reduced import BATCH, bad_batch, estimate, tree, variance
from dpspec.algorithms.convex_erm.dp_svrg import printed
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.privacy.schedule import Tree

#: Momentum averages the noise of many draws: the audit needs the weakest noise that the conformance suite allows.
AUDIT_FACTOR = 16

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
        "T": Tunable("ceil(min(30, max(5, 2.5*log(n*strength/sqrt(d)))))", "epochs: each takes off a third of the gap", True, 1, 1000),
        "m": Tunable(
            "ceil(min(0.75*n, max(1, 0.75*B/max(lam, B/10^6) - 0.5), 200))",
            "steps an epoch, at most 3/4 of the condition number (case 2) or of n (case 1); at most 200 for cost",
            integer=True,
            minimum=1,
            maximum=1e6,
        ),
        "th": Tunable(
            "min(1/2, max(sqrt(m*max(lam, B/10^6)/(3*B)), n*lam/(2*B)))",
            "momentum: 1/2 in case 2, the formula of case 1",
            minimum=1e-9,
            maximum=0.5,
        ),
        "eta": Tunable("1/(B*th*(1 + 1/(1 - th)))", "largest step with (3.29): 2/(3B) in case 2", minimum=0.0),
        "K": Tunable("T*m", "steps in all", integer=True, minimum=1),
        "b": BATCH,
    },
    bounds=(
        Bound(
            "excess-empirical-risk",
            "explicit",
            "upper",
            "3*(2/3)^T*gap + d*s^2/B",
            "proved",
            "000 eq 3.44",
            conditions="m = 3/4*B/lam a whole number, B/lam <= n; s the noise of one estimate, gap >= F(0) - F*",
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
    cost={"gradients": "T*(n + 2*m*b)", "rounds": "T*m", "memory_bytes": "8*n*(d + 1)"},
    spec="specs/convex_erm/dp-katyusha.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p, smooth=True, strongly=True, fixed_batches=True) or bad_batch(p, t)
    if reason is None and not p.loss.smooth * t.th * (1 + 1 / (1 - t.th)) <= (1 + 1e-9) / t.eta:  # type: ignore[union-attr]
        return "B*th + B*th/(1 - th) exceeds 1/eta, against (3.29)"
    return reason


def schedule(p: Problem, t: Tunables) -> Tree:
    return tree(p, t.b, t.T * t.m)


def run(records: Any, p: Problem, t: Tunables, release: Any) -> Estimate:
    assert p.loss is not None
    f, growth = p.objective, 1 + t.eta * p.loss.l2
    x = z = f.over.start(p.d)
    for _ in range(t.T):
        anchor = f.data_gradient(z, records, p.n)
        total, weight, weights = np.zeros(p.d), 1.0, 0.0
        for _ in range(t.m):
            y = t.th * x + (1 - t.th) * z
            x = prox(f, x - t.eta * estimate(release, records, p, t.b, y, z, anchor), t.eta)
            total, weights, weight = total + weight * x, weights + weight, weight * growth
        z = t.th / weights * total + (1 - t.th) * z
    return Estimate(z)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    gap, kappa = start_gap(p), p.loss.smooth / p.loss.l2
    standard = t.th == 0.5 and abs(kappa * 0.75 - t.m) <= 1e-9 * t.m and t.eta * p.loss.smooth <= 2 / 3 * (1 + 1e-9)
    if not (standard and p.n >= kappa and math.isfinite(gap)):
        return {}
    value = 3 * (2 / 3) ** t.T * gap + p.d * variance(t, calibrated) / p.loss.smooth
    return {"000 eq 3.44": value} if value <= gap else {}


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    formula = "L*sqrt(T*m*log(1/delta))/(n*epsilon)"
    return printed(p, t.T * t.m, budget, "000 Theorem 3.1.3 (c = 1; the printed steps add no noise at all)", formula)
