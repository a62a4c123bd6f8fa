"""The Lasso on noisy responses and public features.

    1. user i sends its clipped response plus noise, once (as label-ldp-iht);
    2. theta = argmin 1/(2 n) sum (report_i - <x_i, theta>)^2 + weight |theta|_1.

Source: 000, section 5.3.4, remark after Theorem 5.3.6 (cited, not proved). Its weight O(sqrt(log d/(n epsilon^2))) lacks y_clip and
log(1/delta): the weight here is threshold*sd*x_scale*sqrt(2 log(2 d)/n), sd the standard deviation of a report around its mean (planned
noise and declared noise of the responses), x_scale the root mean square of the features. The minimiser is found by accelerated
proximal steps at the largest eigenvalue of the public second moments (power iteration); only reports and public features are read.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.sets import Vector, soft_threshold, unkept
from dpspec.algorithms.sparse import _labels as labels
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="label-ldp-lasso",
    title="Lasso on noisy responses, features public",
    family="sparse",
    task="estimate-theta",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp", "pure"),
    sources=(Source("000", "5.3.4", "remark after Algorithm 5.3.42"),),
    summary="One noisy response a user; the server solves the Lasso with a weight from the planned noise.",
    needs=(
        labels.NEED_Y,
        labels.NEED_X,
        Need("restricted-eigenvalue", "utility", "X has restricted eigenvalues bounded from below"),
        Need("sparse", "utility", "theta has at most k non-zeros"),
    ),
    options={"noise": labels.NOISE},
    tunables={
        "y_clip": labels.CLIP,
        "threshold": Tunable("1", "multiple of the noise quantile (constant open in 000)", minimum=0.0),
        "noise_sd": Tunable(
            "noise_bound else sigma_y else sigma else 0", "declared noise of the responses, added to the planned one", minimum=0.0
        ),
        "T": Tunable("200", "most proximal steps; stops at a relative change of 1e-6", integer=True, minimum=1),
    },
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*y_clip*sqrt(k*log(d)*log(1/delta))/(sqrt(n)*epsilon)",
            "claimed",
            "000 section 5.3.4 remark, with the constants it leaves out",
            conditions="restricted eigenvalues; noise = gaussian; weight as above",
            options={"noise": "gaussian"},
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
            "000 remark: weight O(sqrt(log d/(n epsilon^2)))",
            "y_clip and log(1/delta) are missing: the weight is a multiple of sd*sqrt(log d/n)",
            labels.EVIDENCE + "test_the_lasso_weight_follows_the_noise",
            "utility",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "1", "bits_per_user": "64", "memory_bytes": "8*(n + 4*d)"},
    reads="passes",
    spec="specs/sparse/label-ldp-lasso.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.form != "linear":
        return "the model is not linear"
    return unkept(p) or labels.refusal(p, t)


def schedule(p: Problem, t: Tunables) -> Tree:
    return labels.schedule(t)


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    reports = labels.noisy_labels(records, release)
    sd = release.scale("label") * (math.sqrt(2.0) if t.noise == "laplace" else 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # public features may be anything
        theta = lasso(records, reports, t, math.hypot(sd, t.noise_sd))
    return Estimate(labels.finite(theta), {"cross": labels.cross(records, reports)})


def lasso(records: Any, reports: Vector, t: Tunables, sd: float) -> Vector:
    """The minimiser, (d,), by accelerated proximal gradient from 0; every step is two products with x."""
    n, d = records.n, records.d
    squares, v = 0.0, np.ones(d) / math.sqrt(d)
    top = 0.0
    for _ in range(15):  # power iteration on the public second moments
        image = np.zeros(d)
        squares = 0.0
        for x, _y in labels.blocks(records, reports):
            image += x.T @ np.asarray(x @ v)
            squares += float((x**2).sum() if isinstance(x, np.ndarray) else x.multiply(x).sum())
        top = float(np.linalg.norm(image)) / n
        if not 0.0 < top < math.inf:
            return np.zeros(d)
        v = image / (n * top)
    weight = t.threshold * sd * math.sqrt(squares / (n * d)) * math.sqrt(2 * math.log(2 * d) / n)
    step, theta, ahead, m = 1 / (1.2 * top), np.zeros(d), np.zeros(d), 1.0
    for _ in range(t.T):
        gradient = np.zeros(d)
        for x, y in labels.blocks(records, reports):
            gradient += x.T @ (np.asarray(x @ ahead) - y)
        following = soft_threshold(ahead - step * gradient / n, step * weight)
        change = following - theta
        if float((ahead - following) @ change) > 0:  # restart (O'Donoghue and Candes 2015)
            m = 1.0
        larger = (1 + math.sqrt(1 + 4 * m * m)) / 2
        ahead, theta, m = following + (m - 1) / larger * change, following, larger
        if float(np.linalg.norm(change)) <= 1e-6 * float(np.linalg.norm(theta)):
            break
    return theta


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error: 1.5 sqrt(k) times the weight (the error of a Lasso is at most 3 sqrt(k) weight/lambda_min; half of that is typical)."""
    sd = math.hypot(labels.standard_deviation(t, calibrated), t.noise_sd)
    return float(1.5 * t.threshold * math.sqrt(p.facts.get("k", p.d) * 2 * math.log(2 * p.d) / p.n) * sd / p.facts.get("eig_min", 1.0))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    return labels.published(p, t, budget, "000 Algorithm 5.3.42 step 1")
