"""Pairwise learning of a loss with a ridge by one pass of projected gradient steps, averaged, with noise at the end (OffPairStrC).

    w_t = prox_{eta_t}(w_{t-1} - eta_t (g_t + lam w_{t-1})),   g_t = 1/(t-1) sum_{i<t} grad phi(w_{t-1}; z_t, z_i),   eta_t = 2/(lam (t +
    c)), t = T_1 + 1, ..., n;     released: the projection of  sum_{t > n - K} p_t w_t + noise,   p_t proportional to t + c - 1.

The sensitivity and the bound are derived in :mod:`dpspec.algorithms.pairwise._chain`, with alpha = 0: iterates of neighbours are 2 S/(lam
t) apart for c = 0, S the spread of two pairs that share a record. lam is the ridge that the spec states; a loss without one is for
off-pair-c, and so is one whose ridge is so small that an added one pays.

Source: 000, section 3.3.4, Algorithm 3.3.14, Lemma 3.3.1, Theorem 3.3.6. Differences: those of off-pair-c. The document counts the ridge
into G and the strong convexity alike; here the loss of a pair is certified without it.
"""

from __future__ import annotations

import math
from typing import Any

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Published
from dpspec.algorithms.formulas import STRENGTH_SOURCE
from dpspec.algorithms.gradients import STRENGTH_ANY, norm
from dpspec.algorithms.pairwise import _chain
from dpspec.algorithms.pairwise._chain import bound_terms, chain, explicit_bounds, noise_energy, run, schedule, sensitivity
from dpspec.algorithms.sets import constraint_set

__all__ = ["CARD", "accepts", "bound_terms", "chain", "explicit_bounds", "predicted", "published", "run", "schedule", "sensitivity"]

_TESTS = "tests/algorithms/pairwise/test_off_pair_str_c.py::"
_CONVEX = "tests/algorithms/pairwise/test_off_pair_c.py::"

CARD = Card(
    id="off-pair-str-c",
    title="Pairwise learning with a ridge by averaged gradient steps with output noise",
    family="pairwise",
    task="minimise-pairwise",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("000", "3.3.4", "Algorithm 3.3.14", ("Theorem 3.3.6", "Lemma 3.3.1")),),
    summary="One pass over the records, each against all earlier ones, on the spec's own ridge; one noisy average of the last steps.",
    needs=(
        Need("lipschitz", "privacy", "the gradient of every pair has l2 norm at most L on the set"),
        Need("smooth", "privacy", "the loss of a pair is B-smooth, so that gradient steps contract"),
        Need("convex", "privacy", "the loss of a pair is convex in w without the ridge, so that gradient steps contract"),
        Need("strongly-convex", "privacy", "the loss has a ridge lam/2*|w|^2, so that steps forget a record"),
    ),
    tunables={
        "strength": Tunable(STRENGTH_ANY, STRENGTH_SOURCE),
        "T_1": Tunable(
            "ceil(min(1 + 2*B/max(lam, L/10^100), n/8))",
            "from there on steps 2/(lam*t) are at most 1/(B + lam); 000: max(ceil(16*B^2/lam^2), 7)",
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
            "C*L^2/(lam*n)*(1 + sqrt(d*log(1/delta))/epsilon)",
            "proved",
            "the explicit bound",
            conditions="n > 8*B/lam",
            regime="8*B/lam",
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*(sqrt(d)*L^2*sqrt(log(1/zeta)*log(1/delta))*log(n)/(lam*n*epsilon) + L^2*log(n)/(lam*n) + L*D*sqrt(log(n/zeta)/n))",
            "claimed",
            "000 Theorem 3.3.6, the form that its proof gives",
            probability="1 - 2*zeta",
            conditions="beside Rademacher averages; printed as (3.118), without the last two terms and that of the T_1 random points",
        ),
    ),
    faults=(
        Fault(
            "000 section 3.3.5: raw features, and G, B of the loss without its ridge",
            "records are enforced to lie in the declared set, each by itself, and the ridge cancels between pairs",
            _CONVEX + "test_raw_features_break_the_printed_sensitivity",
            "privacy",
        ),
        Fault(
            "000 Algorithm 3.3.14: sigma = 8 sqrt(2) G log(n) sqrt(log(1.25/delta))/(alpha n epsilon), used at epsilon 1.5 and 2.5",
            "the classical calibration needs epsilon <= 1: at a sensitivity that is attained it spends more at large epsilon",
            _CONVEX + "test_the_classical_calibration_fails_at_large_epsilon",
            "privacy",
        ),
        Fault(
            "000 section 3.3.5: delta = 1/n for n between 40 and 90",
            "to publish a random record is (0, 1/n)-DP: what is stated holds and promises little",
            _CONVEX + "test_delta_of_one_over_n_publishes_a_record",
            "text",
        ),
        Fault(
            "000 section 3.3.5: alpha = 1e-3 with n <= 90, results close to those without privacy",
            "T_1 = 16 B^2/alpha^2 = 2.6e8 is beyond n, so no step is taken, and the printed noise is above 1000 a coordinate for |w| <= 1",
            _TESTS + "test_the_printed_experiment_releases_noise",
            "utility",
        ),
        Fault(
            "000 Theorem 3.3.6: sum over t of 8 G/(alpha t)",
            "iterates are 2 S/(alpha t) apart, S <= 2 G and G for ranking losses, and the last steps see no log(n)",
            _TESTS + "test_the_last_steps_need_no_logarithm",
            "utility",
        ),
        Fault(
            "000 (3.118): the terms G |C| sqrt(log(n/zeta)/n), G^2 log(n)/(alpha n) and G T_1 |C|/n are missing",
            "the proof derives the first two; the third is that of the random points in the average, which is not taken here",
            _CONVEX + "test_random_points_in_the_average_cost_what_the_bound_leaves_out",
            "utility",
        ),
    ),
    margins="several",
    cost={"gradients": "n^2/2", "rounds": "1", "memory_bytes": "8*n*(2*d + 6)"},
    spec="specs/pairwise/off-pair-str-c.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.loss is not None and not p.loss.l2 > 0:
        return "the loss has no ridge term lam/2*|w|^2, and its steps rest on strong convexity (off-pair-c adds one)"
    return _chain.accepts(p, t)


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The noise with the mean curvature of records that spread evenly in place of B."""
    assert p.loss is not None
    return float((p.loss.smooth / math.sqrt(p.d) + p.loss.l2) / 2 * noise_energy(p, calibrated))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The printed noise on the same average, and what it really spends."""
    assert p.loss is not None
    over = constraint_set(p.task.over, p.facts)
    longest = norm(over.start(p.d)) + over.distance_bound(p.d)
    if budget.kind != "approx" or not math.isfinite(longest):
        return ()
    from dpspec.privacy.gaussian import epsilon_of

    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    printed = 8 * (p.loss.lipschitz + p.loss.l2 * longest) * math.log(p.n) / (p.n * p.loss.l2)
    scale = printed * math.sqrt(2 * math.log(1.25 / delta)) / e
    return (
        Published(
            "000 Algorithm 3.3.14",
            "output",
            "8*G*log(n)/(n*alpha)*sqrt(2*log(1.25/delta))/epsilon, the ridge counted in G",
            scale,
            epsilon_of(sensitivity(p, t) / scale, delta),
            "for the average of all iterates; safe here because its sensitivity is several times too large",
        ),
    )
