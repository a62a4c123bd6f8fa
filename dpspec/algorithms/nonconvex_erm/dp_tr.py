"""The trust-region method on noisy gradients and Hessians (DP-TR): a second-order point.

    g_k = grad F(w_k) + N(0, s^2 I),   H_k = Hessian F(w_k) + symmetric noise,   k = 0..T-1,
    h_k = argmin over |h| <= r of <g_k, h> + h^T H_k h/2 with multiplier lam_k,   w_{k+1} = w_k + h_k,   r = sqrt(alpha/rho);

released is the w_{k+1} of the least lam_k (``output = first``: of the first lam_k <= sqrt(alpha rho)), with ``found`` = 1 where that is at
most sqrt(alpha rho), else 0. The subproblem, the test and the choice see noisy quantities alone. As all T steps are paid whatever the test
says, all are taken: the bound holds at any multiplier that small, and later ones are smaller.

Privacy: T Gaussian draws of the mean gradient, each of sensitivity 2 L/n, and T of the mean Hessian, each of the Frobenius sensitivity of
:mod:`dpspec.algorithms.second_order`, free of d; all 2 T compose exactly, half of the budget each, and all are drawn and charged whenever
the test is passed. T comes from public numbers.

Source: 000, section 4.3.2, Algorithm 4.3.28, Theorems 4.3.4 and 4.3.5. Differences: the sensitivity of Hessians (2 M sqrt(d)/n there) and
isotropic noise; the Taylor remainder is counted, which halves the noise levels; DF is public; exact composition; the hard case; the run
has a result when no test is passed. Bound: :mod:`dpspec.algorithms.nonconvex_erm._saddles`, with explicit tails in the place of T/d^c.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms import second_order
from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.gradients import mean_sensitivity, noisy_gradient
from dpspec.algorithms.nonconvex_erm import _saddles as saddles
from dpspec.algorithms.nonconvex_erm._common import gap, refused
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Repeat, Sequence, Tree

_TESTS = "tests/algorithms/nonconvex/test_dp_tr.py::"
#: A trust-region step is as long as its radius whatever the gradient is: the audit of the suite sees directions alone.
AUDIT_FACTOR: Final = 12

CARD = Card(
    id="dp-tr",
    title="Trust-region steps on noisy gradients and Hessians",
    family="nonconvex_erm",
    task="minimise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "4.3.2", "Algorithm 4.3.28", ("Theorem 4.3.4", "Theorem 4.3.5", "Remark 4.3.2")),),
    summary="T noisy gradients and T noisy Hessians; exact trust-region steps on them; the point of the least multiplier.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("smooth", "privacy", "every record's Hessian has operator norm at most B"),
        saddles.HESSIAN_LIPSCHITZ,
    ),
    options={"output": ("least", "first")},
    tunables={
        "strength": saddles.STRENGTH_TUNABLE,
        "gap": saddles.GAP,
        "bend": saddles.BEND,
        "zeta": saddles.ZETA,
        "alpha": Tunable(
            saddles.WIDER,
            "1.15 times the least at which the bound holds: two thirds of the steps, on less noise; 000: given",
            minimum=1e-12,
            maximum=1e12,
        ),
        "T": Tunable(
            "ceil(max(1, min(4.8*sqrt(bend)*gap/alpha^1.5, 2000)))",
            "what the bound needs at that alpha and its noise (kappa = 0.212); at most 2,000 for cost; 000: 6 for 4.8",
            integer=True,
            minimum=1,
            maximum=1e5,
        ),
    },
    bounds=(
        Bound(
            "second-order-stationarity",
            "explicit",
            "upper",
            "max(1.5*alpha + e1 + e2*sqrt(alpha/bend), (2*sqrt(alpha*bend) + e2)^2/rho)",
            "proved",
            "trust-region steps with noise",
            probability="1 - zeta",
            conditions="R^d; e1, e2 the sizes of the noise at 1 - zeta/(2 T); T >= sqrt(rho)*DF/(kappa*alpha^1.5), kappa = 1/3 - "
            "e1/alpha - e2/(2*sqrt(alpha*rho)) > 0, DF the public gap",
            where={
                "e1": "length of the noise of a gradient, and its sampling error, at 1 - zeta/(2*T)",
                "e2": "spectral norm of that of a Hessian",
                "bend": "the rho of the steps",
                "rho": "Lipschitz constant of the Hessian, at most bend",
            },
        ),
        Bound(
            "second-order-stationarity",
            "order",
            "upper",
            "C*((sqrt(d*log(1/delta))/(n*epsilon))^(4/7) + (sqrt(d*log(1/delta))/(n*epsilon))^(4/5))",
            "proved",
            "the bound above at the least alpha",
            conditions="L, B, rho and DF constants, log(T/zeta) left out",
        ),
        Bound(
            "second-order-stationarity",
            "order",
            "upper",
            "C*(d*sqrt(log(1/delta))/(n*epsilon))^(4/7)",
            "claimed",
            "000 Theorem 4.3.5, equation (4.59)",
            conditions="from n >= C*d*log(1/zeta)*sqrt(log(1/delta))/(alpha^1.75*epsilon)",
        ),
    ),
    faults=(
        Fault(
            "000 section 4.3.2: T = 6 sqrt(rho) Delta/alpha^1.5 with Delta = F(w_0) - F*",
            "that is a number of the data, and T and the noise would tell it; DF is a public bound here",
            "tests/algorithms/test_printed_leaks.py::test_steps_balanced_by_the_distance_to_the_least_risk_differ",
            "privacy",
        ),
        Fault(
            "000 Algorithm 4.3.28 stops at the test and releases g and H before it",
            "every gradient and every Hessian that a test or a step may read is a release: 2 T are charged, not T gradients",
            _TESTS + "test_hessians_that_are_not_counted_double_what_is_spent",
            "privacy",
        ),
        Fault(
            "000 section 4.3: a test of the exact gradient and Hessian decides when to stop",
            "the round in which it stops then tells two neighbours apart; on noisy ones it is post-processing",
            _TESTS + "test_a_stop_by_exact_quantities_tells_neighbours_apart",
            "privacy",
        ),
        Fault(
            "000 Algorithm 4.3.28: Hessian noise for the sensitivity 2 M sqrt(d)/n",
            "max(sqrt(2) C, C - b) R^2/n in the Frobenius norm for losses of a margin, free of d: the printed one wastes sqrt(d)",
            "tests/algorithms/nonconvex/test_second_order.py::test_two_records_hessians_are_no_further_apart_than_the_spread",
            "utility",
        ),
        Fault(
            "000 Algorithm 4.3.28 line 7: stop at lam <= sqrt(alpha phi)",
            "phi is the budget there; the proofs and Algorithm 4.3.29 have sqrt(alpha rho)",
            _TESTS + "test_the_first_small_multiplier_is_released",
            "text",
        ),
        Fault(
            "000 (4.85): a decrease of alpha^1.5/(6 sqrt(rho)) at noise of alpha/6 and sqrt(alpha rho)/3",
            "the remainder rho r^3/6 is left out, and with it nothing is left; half of the noise makes it true",
            _TESTS + "test_the_printed_noise_levels_leave_no_decrease",
            "utility",
        ),
        Fault(
            "000 Theorem 4.3.5: with probability 1 - zeta - T/d^c",
            "says nothing at d = 22 or 54; the tails here are explicit",
            _TESTS + "test_the_noise_is_as_large_as_the_tails_say",
            "utility",
        ),
    ),
    cost={"gradients": "2*n*T", "rounds": "T", "memory_bytes": "8*n*(features + 1) + 8*d^2"},
    reads="passes",
    spec="specs/nonconvex_erm/dp-tr.dps",
    margins="network",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return refused(p) or second_order.refused(p) or saddles.unbounded(p)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Repeat(Sequence((Draw("gradient", Gaussian(mean_sensitivity(p), p.d)), Draw("hessian", second_order.mechanism(p)))), t.T)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, radius, enough = p.objective, math.sqrt(t.alpha / t.bend), math.sqrt(t.alpha * t.bend)
    w = chosen = f.over.start(p.d)
    least = math.inf
    for _ in range(t.T):
        g = noisy_gradient(release, records, p, w) + float(f.l2) * w
        h, multiplier = second_order.trust_region(g, second_order.noisy_hessian(release, records, p, w), radius)
        w = w + h
        if saddles.better(t.output, multiplier, least, enough):
            chosen, least = w, multiplier
    return Estimate(np.asarray(chosen), {"found": int(least <= enough)})


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    each = t.zeta / (2 * t.T)
    e1, e2 = saddles.vector_noise(calibrated.scale("gradient"), p.d, each), saddles.matrix_noise(calibrated.scale("hessian"), p.d, each)
    value = saddles.reached(t.alpha, t.bend, t.T, gap(p), e1, e2, p.loss.hessian_lipschitz())
    exact = t.bend >= p.loss.hessian_lipschitz() * (1 - 1e-12)
    return {"trust-region steps with noise": value} if exact and math.isfinite(value) else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    each = t.zeta / (2 * t.T)
    e1, e2 = saddles.vector_noise(calibrated.scale("gradient"), p.d, each), saddles.matrix_noise(calibrated.scale("hessian"), p.d, each)
    return {"trust-region steps with noise": {"e1": e1, "e2": e2, "bend": t.bend, "rho": min(t.bend, p.loss.hessian_lipschitz())}}


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The noise on Hessians that 000 prints, 4 d M^2 T/(n^2 phi) of variance on the upper triangle, in units of what moves here."""
    if budget.kind != "approx" or p.neighbours != "replace-one":
        return ()
    from dpspec.privacy.published import epsilon_spent

    assert p.loss is not None
    e, delta, S = float(budget.epsilon_exact), float(budget.delta_exact), second_order.sensitivity(p)
    phi = (math.sqrt(math.log(1 / delta) + e) - math.sqrt(math.log(1 / delta))) ** 2
    scale = 2 * p.loss.smooth * math.sqrt(p.d * t.T / phi) / p.n
    spends = epsilon_spent(scale, S, t.T, budget.delta_exact)
    remark = "safe; the sensitivity of a Hessian does not grow with d (spent: by the Hessians alone)"
    return (Published("000 Algorithm 4.3.28", "hessian", "2*B*sqrt(d*T/phi)/n", scale, spends, remark),)
