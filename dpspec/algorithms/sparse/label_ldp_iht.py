"""Iterative hard thresholding on noisy responses and public features.

    1. user i sends y_i, clipped at y_clip, plus Gaussian (``noise = gaussian``) or Laplace noise (``laplace``: pure), once;
    2. theta <- P(Trunc(theta + eta*(1/n) sum (report_i - <x_i, theta>) x_i, kept)), T times from 0.

Source: 000, section 5.3.4, Algorithm 5.3.42, Theorems 5.3.6 and 5.3.7; the pure version is its remark, which refers to a generic
conversion: Laplace noise on a clipped number does it directly. Differences: the sensitivity is that of the declared range of y, 2*y_clip
(printed: 2 C, twice the noise bound, as if theta were known); the noise is exact at every epsilon; the step descends (the printed sign
climbs). With the printed sensitivity corrected, C in the bound becomes y_clip and log(1/delta) its square root; the records' own noise
adds sigma sqrt(k log d/n).

x is read as it comes, dense or CSR: T passes of one product each, linear in the non-zeros, and two vectors of d numbers.
"""

from __future__ import annotations

import math
from typing import Any

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.sets import unkept
from dpspec.algorithms.sparse import _labels as labels
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="label-ldp-iht",
    title="Iterative hard thresholding on noisy responses, features public",
    family="sparse",
    task="estimate-theta",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp", "pure"),
    sources=(Source("000", "5.3.4", "Algorithm 5.3.42", ("Theorem 5.3.6", "Theorem 5.3.7")),),
    summary="One noisy response a user; the server iterates over public features as often as it likes.",
    needs=(
        labels.NEED_Y,
        labels.NEED_X,
        Need("rip", "utility", "X has the restricted isometry property of order kept + k with constant at most 2/7"),
        Need("sparse", "utility", "theta has at most k non-zeros and l2 norm at most ball"),
    ),
    options={"noise": labels.NOISE},
    tunables={
        "y_clip": labels.CLIP,
        "ball": Tunable("w_radius else 1", "000: |theta| <= 1", minimum=1e-12),
        "kept": Tunable(
            "min(d, 2*k)", "000 Theorem 5.3.6 needs 8 k; its experiments keep k, and less noise is kept with less", integer=True, minimum=1
        ),
        "T": Tunable("max(5, ceil(log(n)))", "000 Theorem 5.3.6: O(log n)", integer=True, minimum=1),
        "eta": Tunable(
            "2/(eig_min + eig_max) else 1", "000: within [5/(7(1 - D)), 9/(7(1 + D))]; the best step of the declared spectrum", minimum=0.0
        ),
    },
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*(y_clip*sqrt(k*log(d)*log(1/delta))/(sqrt(n)*epsilon) + sqrt(k*log(d)/n))",
            "proved",
            "000 Theorem 5.3.6, corrected",
            probability="1 - 2/d",
            conditions="RIP, noise = gaussian, T = O(log n), epsilon <= 1",
            regime="C*(kept + k)*(1 + log(d/(kept + k)))",  # RIP of order kept + k of sub-Gaussian rows (004 Lemma 33)
            options={"noise": "gaussian"},
            when=("epsilon <= 1",),
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*y_clip*sqrt(k*log(d))/(sqrt(n)*epsilon)",
            "proved",
            "000 section 5.3.4, remark, for Laplace noise",
            conditions="RIP, noise = laplace, n >= log(d)",
            regime="C*max(log(d), (kept + k)*(1 + log(d/(kept + k))))",
            options={"noise": "laplace"},
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*noise_bound*log(1/delta)*sqrt(k*log(d))/(sqrt(n)*epsilon)",
            "refuted",
            "000 Theorem 5.3.6",
            conditions="its noise is not (epsilon, delta)-DP for the responses",
        ),
        Bound(
            "squared-l2-error",
            "order",
            "lower",
            "C*min(1, noise_bound^2*k*log(d/k)/(n*epsilon^2))",
            "claimed",
            "000 Theorem 5.3.7",
            conditions="pure epsilon-LDP of the responses, epsilon <= 1/2",
            guarantees=("pure",),
            when=("epsilon <= 1/2",),
        ),
    ),
    faults=(
        *labels.FAULTS,
        Fault(
            "000 Algorithm 5.3.42, step 5: theta - eta*(1/n) sum (report - <x, theta>) x",
            "that climbs; the sign is plus",
            labels.EVIDENCE + "test_the_printed_sign_climbs",
            "utility",
        ),
        Fault(
            "000 equation (5.78): log(1/delta)*C*sqrt(k log d)/(sqrt(n) epsilon)",
            "the noise is proportional to sqrt(log(1/delta)); the records' own noise adds C sqrt(k log d/n)",
            "docs/faults.md#noise-of-labels",
            "utility",
        ),
        Fault(
            "000: the pure version follows from a generic conversion",
            "not spelled out; Laplace noise 2*y_clip/epsilon does it",
            "docs/faults.md#pure-version",
            "text",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "1", "bits_per_user": "64", "memory_bytes": "8*(n + 2*d)"},
    reads="passes",
    spec="specs/sparse/label-ldp-iht.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.form != "linear":
        return "the model is not linear"
    return unkept(p, "l2", radius=t.ball) or labels.refusal(p, t)


def schedule(p: Problem, t: Tunables) -> Tree:
    return labels.schedule(t)


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    reports = labels.noisy_labels(records, release)
    theta = labels.threshold_steps(records, reports, t, t.eta, lambda u, y: u - y)
    return Estimate(theta, {"cross": labels.cross(records, reports)})


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error: kept entries, each the largest of about d/kept normals of standard deviation sd/sqrt(n); contraction 1/2 doubles it."""
    sd = math.hypot(labels.standard_deviation(t, calibrated), p.facts.get("noise_bound", p.facts.get("sigma_y", 1.0)))
    low = p.facts.get("eig_min", 1.0)
    return float(2 * t.eta * math.sqrt(t.kept * 2 * math.log(p.d / t.kept + 1) / (p.n * low)) * sd + 0.5**t.T * t.ball)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    return labels.published(p, t, budget, "000 Algorithm 5.3.42 step 1")
