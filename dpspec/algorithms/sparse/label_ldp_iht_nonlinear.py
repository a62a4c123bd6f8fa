"""Label-private iterative hard thresholding with a known non-linear link.

    1. user i clips y_i to f(0) +- y_clip and sends it with noise, once (as label-ldp-iht);
    2. theta <- P(Trunc(theta - eta*(1/n) sum (f(<x_i, theta>) - report_i) f'(<x_i, theta>) x_i, kept)), T times from 0.

Source: 000, section 5.3.5, Algorithm 5.3.45, Theorems 5.3.10 and 5.3.11. Differences: as in label-ldp-iht, with the range of y centred at
f(0), which the thesis takes as 0, and of half-width b sqrt(k) + C; the gradient is that of the squared loss through f (the line before
the algorithm prints the linear one).
"""

from __future__ import annotations

import math
from typing import Any

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.sets import unkept
from dpspec.algorithms.sparse import _labels as labels
from dpspec.algorithms.sparse import _link as links
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="label-ldp-iht-nonlinear",
    title="Iterative hard thresholding on noisy responses with a known link, features public",
    family="sparse",
    task="estimate-theta",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp", "pure"),
    sources=(Source("000", "5.3.5", "Algorithm 5.3.45", ("Theorem 5.3.10", "Theorem 5.3.11")),),
    summary="One noisy response a user; the server iterates through the link over public features.",
    needs=(
        labels.NEED_Y,
        labels.NEED_X,
        links.MONOTONE,
        Need("rip", "utility", "X has RIP of order kept + k with D <= (9 a^2 - 5 b^2)/(9 a^2 + 5 b^2), a and b the slopes"),
        Need("sparse", "utility", "theta has at most k non-zeros and l2 norm at most ball"),
    ),
    options={"noise": labels.NOISE},
    tunables={
        **links.SLOPES,
        "y_clip": Tunable(
            "slope_max*x_linf*sqrt(k) + noise_bound else slope_max*sigma_x*sqrt(2*log(n)) + noise_bound"
            " else slope_max*sigma_x*sqrt(2*log(n)) + sigma_y*sqrt(2*log(n)) else (slope_max + 1)*sigma*sqrt(2*log(n))",
            "half-width of the responses around f(0): b |<x, theta>| and the noise",
            minimum=1e-12,
        ),
        "ball": Tunable("w_radius else 1", "000: |theta| <= 1", minimum=1e-12),
        "kept": Tunable("min(d, 2*k)", "000 Theorem 5.3.11 needs 8 k; less noise is kept with less", integer=True, minimum=1),
        "T": Tunable("max(5, ceil(log(n)))", "000 Theorem 5.3.11: O(log n)", integer=True, minimum=1),
        "eta": links.ETA,
    },
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*y_clip*sqrt(k*log(d)*log(1/delta))/(slope_max*sqrt(n)*epsilon)",
            "proved",
            "000 Theorem 5.3.11, corrected",
            conditions="RIP as above, noise = gaussian, eta of order 1/slope_max^2",
            regime="C*(kept + k)*(1 + log(d/(kept + k)))",  # RIP of order kept + k of sub-Gaussian rows (004 Lemma 33)
            options={"noise": "gaussian"},
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*slope_max*noise_bound*log(1/delta)*sqrt(k*log(d))/(sqrt(n)*epsilon)",
            "refuted",
            "000 Theorem 5.3.11",
            conditions="its noise is not (epsilon, delta)-DP for the responses",
        ),
        Bound(
            "squared-l2-error",
            "order",
            "lower",
            "C*min(1, noise_bound^2*k*log(d/k)/(n*slope_max^2*epsilon^2))",
            "claimed",
            "000 Theorem 5.3.10",
            conditions="pure epsilon-LDP of the responses, epsilon <= 1/2",
            guarantees=("pure",),
            when=("epsilon <= 1/2",),
        ),
    ),
    faults=(
        *labels.FAULTS,
        *links.FAULTS,
        Fault(
            "000, line before Algorithm 5.3.45: L(theta) = 1/(2n) sum (report - <x, theta>)^2",
            "the linear loss; the proof and the algorithm use f(<x, theta>)",
            "tests/algorithms/sparse/test_nonlinear.py::test_one_step_by_hand",
            "utility",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "1", "bits_per_user": "64", "memory_bytes": "8*(n + 2*d)"},
    reads="passes",
    spec="specs/sparse/label-ldp-iht-nonlinear.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reach = t.ball * p.facts.get("x_linf", 3.0) * math.sqrt(t.kept)
    return links.refusal(p, t, reach) or unkept(p, "l2", radius=t.ball) or labels.refusal(p, t)


def schedule(p: Problem, t: Tunables) -> Tree:
    return labels.schedule(t)


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    reports = labels.noisy_labels(records, release, links.at_zero(p))
    theta = labels.threshold_steps(records, reports, t, t.eta, links.slope(p))
    return Estimate(theta, {"cross": labels.cross(records, reports)})


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """As label-ldp-iht, with steps of length eta*slope_max in the noise."""
    sd = math.hypot(labels.standard_deviation(t, calibrated), p.facts.get("noise_bound", p.facts.get("sigma_y", 1.0)))
    noise = 2 * t.eta * t.slope_max * math.sqrt(t.kept * 2 * math.log(p.d / t.kept + 1) / p.n) * sd
    return float(noise + 0.5**t.T * t.ball)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    return labels.published(p, t, budget, "000 Algorithm 5.3.45 step 1")
