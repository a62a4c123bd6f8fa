"""Pairwise learning by one pass of projected gradient steps, averaged, with noise at the end (OffPairC, central model).

    w_t = prox_{eta_t}(w_{t-1} - eta_t (g_t + lam w_{t-1} + alpha (w_{t-1} - w_0))),   g_t = 1/(t-1) sum_{i<t} grad phi(w_{t-1}; z_t, z_i),
    eta_t = 2/(A (t + c)),  A = alpha + lam,   t = T_1 + 1, ..., n;     released: the projection of  sum_{t > n - K} p_t w_t + noise,

p_t proportional to t + c - 1, the records in a public random order, w_t = w_0 for t <= T_1, c = max(0, 1 + 2 B/A - T_1). B is the
smoothness of the loss of a pair, lam the spec's ridge, alpha an added one about the public start w_0.

The sensitivity and the bound are derived in :mod:`dpspec.algorithms.pairwise._chain`: e_t = 2 S/(A t) for c = 0, S the spread of two pairs
that share a record, and sum p_t e_t, about 16/7 S/(A n), for the average of the last quarter.

Source: 000, section 3.3.4, Algorithms 3.3.14 and 3.3.15, Lemma 3.3.1, Theorem 3.3.6. Differences: the exact Gaussian (or a pure budget) on
this sensitivity instead of 8 (G + alpha |C|) log(n)/(n alpha), which counts the ridge, 2 G a pair and a logarithm; a start phase that grows
with B/alpha and not with its square (T_1 = 16 B^2/alpha^2 is printed, beyond n whenever alpha < 4 B/sqrt(n)), and none where n is small; an
average of the last steps, without the T_1 random points; a public random order, so that sorted files do no harm.
"""

from __future__ import annotations

import math
from typing import Any

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Published
from dpspec.algorithms.formulas import STRENGTH_SOURCE
from dpspec.algorithms.gradients import STRENGTH_ANY
from dpspec.algorithms.pairwise._chain import (
    accepts,
    added,
    bound_terms,
    chain,
    explicit_bounds,
    noise_energy,
    rounding,
    run,
    schedule,
    sensitivity,
)
from dpspec.algorithms.sets import constraint_set

__all__ = [
    "CARD",
    "accepts",
    "bound_terms",
    "chain",
    "explicit_bounds",
    "noise_energy",
    "predicted",
    "published",
    "rounding",
    "run",
    "schedule",
    "sensitivity",
]

_TESTS = "tests/algorithms/pairwise/test_off_pair_c.py::"
_TARGET = "max((B*d/4*(16/7*pair_spread/(n*strength))^2/reach^2)^(1/3), 8*B/n, L/(reach*n))"

CARD = Card(
    id="off-pair-c",
    title="Pairwise learning by averaged gradient steps with output noise",
    family="pairwise",
    task="minimise-pairwise",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("000", "3.3.4", "Algorithm 3.3.15 (with 3.3.14)", ("Theorem 3.3.6", "Lemma 3.3.1")),),
    summary="One pass over the records, each against all earlier ones, with an added ridge; one noisy average of the last steps.",
    needs=(
        Need("lipschitz", "privacy", "the gradient of every pair has l2 norm at most L on the set"),
        Need("smooth", "privacy", "the loss of a pair is B-smooth, so that gradient steps contract"),
        Need("convex", "privacy", "the loss of a pair is convex in w without the ridge, so that gradient steps contract"),
    ),
    tunables={
        "reach": Tunable(
            "min(w_radius, 2*L/max(B, L/10^6)) else 2*L/max(B, L/10^6)",
            "distance to cover: the radius of the set, at most twice the natural scale L/B of a weight",
        ),
        "strength": Tunable(STRENGTH_ANY, STRENGTH_SOURCE),
        "alpha": Tunable(
            f"max({_TARGET} - lam, 0)",
            "least alpha*reach^2/2 + B/16*d*(16/7*S/(alpha*n*mu))^2, a start phase of at most n/4; 000: O(1/sqrt(n))",
            minimum=0.0,
            maximum=1e100,
        ),
        "T_1": Tunable(
            "ceil(min(1 + 2*B/max(alpha + lam, L/10^100), n/8))",
            "from there on steps 2/(A*t) are at most 1/(B + A); 000: max(ceil(16*B^2/alpha^2), 7)",
            integer=True,
            minimum=1,
        ),
        "tail": Tunable("1/4", "share of the last steps that is averaged; 000: all iterates", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "excess-empirical-risk",
            "explicit",
            "upper",
            "ridge*D^2/2 + S/W + E",
            "proved",
            "telescoping, stability and noise",
            conditions="for every data set, over the public order and the noise; ridge only",
            where={
                "ridge": "what is added to the loss, alpha or 0",
                "S": "strong/4*(T_1 + c)*(T_1 + c - 1)*D^2 of the start and 4*L times the sum of (t + c - 1)*e_t, e_t the stability (text)",
                "W": "sum of (t + c - 1) over the averaged steps",
                "E": "cost of the noise: slope*sqrt(N), or (B + lam)/2*N over R^d; N = d*scale^2 (Gaussian) or d*(d + 1)*scale^2",
            },
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*L*D*sqrt(1/n + sqrt(d*log(1/delta))/(n*epsilon))",
            "proved",
            "the explicit bound at the best alpha",
            conditions="alpha^2 = (L^2 + L^2 sqrt(d log(1/delta))/epsilon)/(n D^2)",
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*sqrt(d)*L^2*D^2*log(n/zeta)*sqrt(log(1/delta))*log(n)/(sqrt(n)*epsilon)",
            "claimed",
            "000 Theorem 3.3.6, (3.141)",
            probability="1 - 2*zeta",
            conditions="beside Rademacher averages; printed without the terms of the T_1 random points, which do not vanish at its T_1",
        ),
    ),
    faults=(
        Fault(
            "000 section 3.3.5: six data sets of raw features, G of the bounded ones",
            "the sensitivity grows with the largest feature; records are enforced to lie in the declared set, each by itself",
            _TESTS + "test_raw_features_break_the_printed_sensitivity",
            "privacy",
        ),
        Fault(
            "000 Algorithm 3.3.14: sigma = 8 sqrt(2) G log(n) sqrt(log(1.25/delta))/(alpha n epsilon), used at epsilon 1.5 and 2.5",
            "the classical calibration needs epsilon <= 1: at a sensitivity that is attained it spends more at large epsilon",
            _TESTS + "test_the_classical_calibration_fails_at_large_epsilon",
            "privacy",
        ),
        Fault(
            "000 section 3.3.5: delta = 1/n for n between 40 and 350",
            "to publish a random record is (0, 1/n)-DP: what is stated holds and promises little",
            _TESTS + "test_delta_of_one_over_n_publishes_a_record",
            "text",
        ),
        Fault(
            "000 Lemma 3.3.1, first case: eta_t G for the step that reads the replaced record",
            "two gradients of length G are up to 2 G apart; what is concluded, 8 G/(alpha t), holds all the same, and so "
            "does the guarantee",
            _TESTS + "test_the_first_case_of_the_lemma_is_short_by_two",
            "text",
        ),
        Fault(
            "000 Algorithm 3.3.15: G + alpha*|C| for G",
            "the ridge has one gradient in all pairs and cancels, and iterates are 2 S/(A t) apart: the printed noise is several times "
            "log(n) too large",
            _TESTS + "test_the_printed_sensitivity_is_loose",
            "utility",
        ),
        Fault(
            "000 Theorem 3.3.6: T_1 = 16 B^2/alpha^2 with alpha = O(1/sqrt(n))",
            "that is beyond n for alpha < 4 B/sqrt(n), and no step is taken; 1 + 2 B/A is enough",
            _TESTS + "test_the_printed_start_phase_takes_no_step",
            "utility",
        ),
        Fault(
            "000 (3.118), (3.119): a bound without G |C| T_1/n",
            "the average holds T_1 random points; here it holds the last steps alone",
            _TESTS + "test_random_points_in_the_average_cost_what_the_bound_leaves_out",
            "utility",
        ),
    ),
    margins="several",
    cost={"gradients": "n^2/2", "rounds": "1", "memory_bytes": "8*n*(2*d + 6)"},
    spec="specs/pairwise/off-pair-c.dps",
)


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The added ridge at distance ``reach``, and the noise with the mean curvature of records that spread evenly in place of B."""
    assert p.loss is not None
    curvature = p.loss.smooth / math.sqrt(p.d) + p.loss.l2
    return float(added(t) * t.reach**2 / 2 + curvature / 2 * noise_energy(p, calibrated))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The printed noise on the same average, and what it really spends."""
    if budget.kind != "approx" or not p.loss:
        return ()
    from dpspec.privacy.gaussian import epsilon_of

    over = constraint_set(p.task.over, p.facts)
    across = over.diameter(p.d)
    if not (math.isfinite(across) and t.alpha > 0):
        return ()
    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    printed = 8 * (p.loss.lipschitz + t.alpha * across) * math.log(p.n) / (p.n * t.alpha)
    scale = printed * math.sqrt(2 * math.log(1.25 / delta)) / e
    return (
        Published(
            "000 Algorithm 3.3.15",
            "output",
            "8*(G + alpha*|C|)*log(n)/(n*alpha)*sqrt(2*log(1.25/delta))/epsilon",
            scale,
            epsilon_of(sensitivity(p, t) / scale, delta),
            "for the average of all iterates; safe here because its sensitivity is several times too large",
        ),
    )
