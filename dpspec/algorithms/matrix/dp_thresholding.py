"""Sparse covariance by thresholding a noisy second moment, central model.

    1. S~ = S + symmetric Gaussian noise (as dp-covariance-gaussian);
    2. entries of magnitude at most tau = gamma*sqrt(log d/n) + 4*sigma*sqrt(log d) become 0, sigma the planned noise;
    3. the positive part of the result (``psd = on``, default).

Source: 000, section 6.2.3, Algorithm 6.2.48, Theorems 6.2.1 and 6.2.2, Corollary 6.2.1. Differences from the printed version: sensitivity
and calibration as in dp-covariance-gaussian, records scaled into the ball, gamma = 2*r^2 from Hoeffding (the document leaves it open; the
Gaussian choice 4*sqrt(2)*max Sigma_jj would have to be public), and tau follows the noise that is really added. That is ``level
= declared``. Hoeffding's range is some d times the spread of an entry, and the released matrix shows the spread: ``level = spread``
(default, not from the document) has a threshold for each entry, 2 sqrt(S~_ii S~_jj log d/n) + (threshold/2) sigma sqrt(log d).

Explicit bound (level = declared). On the event |S~ - Sigma|_max <= tau an entry of Sigma that is 0 becomes 0 and any other is off by at
most 2 tau, so with at most s off-diagonal non-zeros a column |Sigma^ - Sigma|_1 <= 2 (s + 1) tau, which dominates every l_w operator norm
of a symmetric matrix. With gamma >= 2 r^2 the event has probability at least 1 - 4 d^-6. The positive part doubles the bound in the
spectral norm, and has no such bound for the other norms: use ``psd = off`` for them.

``estimate.theta``: (d, d); extras: ``thresholded`` (before step 3) and ``moment`` (S~).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.matrix._common import (
    CENTRAL_X,
    CLIP_CENTRAL,
    TESTS,
    central_radius,
    central_refusal,
    printed_gaussian,
    sensitivity_fault,
    wrong_task,
)
from dpspec.algorithms.matrix._moment import kept_above, positive_part
from dpspec.algorithms.matrix.dp_covariance_gaussian import mechanism, noisy_moment
from dpspec.algorithms.sets import Vector
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="dp-thresholding",
    title="Sparse covariance by thresholding a noisy second moment",
    family="matrix",
    task="covariance",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "6.2.3", "Algorithm 6.2.48", ("Theorem 6.2.1", "Theorem 6.2.2", "Corollary 6.2.1", "Lemma 6.2.3")),),
    summary="Symmetric Gaussian noise on the second moment, hard thresholding of its entries, positive part.",
    needs=(
        CENTRAL_X,
        Need("sparse", "utility", "each column of the covariance has at most s non-zero off-diagonal entries"),
        Need("sub-gaussian", "utility", "x has mean 0 and lies in the declared ball"),
    ),
    options={"noise": ("isotropic", "upper"), "psd": ("on", "off"), "level": ("spread", "declared")},
    tunables={
        "gamma": Tunable("2*x_l2^2", "level = declared: Hoeffding for |x_i x_j| (000 Lemma 6.2.2 leaves it open)", minimum=0.0),
        "threshold": Tunable("4", "000 Algorithm 6.2.48: multiple of sigma*sqrt(log d), half of it with level = spread", minimum=0.0),
    },
    bounds=(
        Bound(
            "operator-error",
            "explicit",
            "upper",
            "c*(k + 1)*(gamma*sqrt(log(d)/n) + threshold*scale*sqrt(log(d)))",
            "proved",
            "000 Lemma 6.2.3 on one event (half of it for psd = off)",
            probability="1 - 4*d^(-6)",
            conditions="level = declared; k = s off-diagonal non-zeros a column (sparse(s)); gamma >= 2*r^2 and threshold >= 4",
            options={"level": "declared"},
            where={"c": "4, or 2 where psd = off"},
        ),
        Bound(
            "operator-error",
            "order",
            "upper",
            "C*k*(sqrt(log(d)/n) + sqrt(log(d)*log(1/delta))/(n*epsilon))",
            "proved",
            "000 Theorem 6.2.2, its (6.57)",
        ),
        Bound(
            "operator-error",
            "order",
            "upper",
            "C*k*sqrt(log(d)*log(1/delta)/n)/epsilon",
            "proved",
            "000 Theorem 6.2.2 as stated",
            conditions="true and loose in the central model: the noise term falls like 1/n",
        ),
        Bound("operator-error", "order", "lower", "C*k*sqrt(log(d)/n)", "claimed", "000 section 6.2 [60], without privacy"),
    ),
    faults=(
        sensitivity_fault("000, Algorithm 6.2.48 step 1 and Theorem 6.2.1", "n*S"),
        CLIP_CENTRAL,
        Fault(
            "000, section 6.2.6: x ~ N(0, (U + 50 I)/200) has |x| < 1 with high probability",
            "E|x|^2 is about p/4: 12.5 to 125 at p = 50 to 500. Noise for |x| <= 1 then spends about p/4 times the stated sensitivity",
            TESTS + "test_the_printed_sparse_covariance_data_leave_the_unit_ball",
            "privacy",
        ),
        Fault(
            "000, Theorem 6.2.2 and after: 1/(n eps^2), 'effective sample size n eps^2'",
            "in the central model the noise term is 1/(n^2 eps^2), by its own (6.57)",
            "tests/algorithms/matrix/test_matrix_central.py::test_the_noise_of_central_thresholding_falls_like_one_over_n",
            "utility",
        ),
        Fault(
            "000, Theorem 6.2.2: a statement on the output Sigma+ bounds Sigma^",
            "taking the positive part costs a factor 2 in the spectral norm (4 squared)",
            "tests/algorithms/matrix/test_matrix_parts.py::test_the_positive_part_at_most_doubles_the_spectral_error",
            "utility",
        ),
        Fault(
            "000, Corollary 6.2.1: l_w operator norms of Sigma+",
            "the positive part is not bounded in the l1 or linf operator norm; use psd = off",
            "docs/faults.md#positive-part-in-other-norms",
            "utility",
        ),
        Fault(
            "gamma, unspecified: set from the data in experiments",
            "max_j Sigma_jj of private records is a release of its own; gamma is declared or 2*r^2",
            "tests/algorithms/test_printed_leaks.py::test_a_threshold_or_a_clip_from_the_data_differs",
            "privacy",
        ),
        Fault(
            "000, (6.19), (6.23): 1 <= i, j <= n; lambda+ without index",
            "1 <= i, j <= p; lambda_i+",
            "docs/faults.md#indices-of-a-matrix",
            "text",
        ),
        Fault(
            "000, proof of Theorem 6.2.2, case 3: '<=' twice", "the second is '>= tau'", "docs/faults.md#both-cases-of-a-threshold", "text"
        ),
        Fault("000, (6.59): E n_ij^8 = O(1/(n eps))", "sigma_1^8, far smaller; harmless", "docs/faults.md#eighth-moment", "text"),
        Fault(
            "000, section 6.2.6: 'with eps increases (more private) the error becomes larger'",
            "a smaller epsilon is more private",
            "docs/faults.md#direction-of-epsilon",
            "text",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "40*d*d"},
    reads="sums",
    spread=True,
    spec="specs/matrix/dp-thresholding.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return wrong_task(p, "covariance") or central_refusal(p)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("moment", mechanism(p, t.noise))


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    moment, sd = noisy_moment(records, p, t.noise, release), release.scale("moment")
    return thresholded(moment, tau(p, t, sd) if t.level == "declared" else spread(p, t, moment, sd), t.psd == "on")


def spread(p: Problem, t: Tunables, moment: Vector, sd: float) -> Vector:
    """Thresholds by the spread that the released matrix shows, shape (d, d): of x_i x_j - Sigma_ij the standard deviation is about
    sqrt(Sigma_ii Sigma_jj), and twice sqrt(log d) of them covers d^2 entries; of the noise likewise. The diagonal is read with the noise's
    own level added. Post-processing."""
    log = math.sqrt(math.log(max(p.d, 2)))
    noise = t.threshold / 2 * sd * log
    scale = np.sqrt(np.maximum(np.diagonal(moment), 0.0) + noise)
    levels: Vector = 2 * log / math.sqrt(p.n) * np.outer(scale, scale) + noise
    return levels


def tau(p: Problem, t: Tunables, sd: float) -> float:
    """gamma*sqrt(log d/n) + threshold*sd*sqrt(log d), sd the standard deviation of an entry of the released matrix."""
    log = math.log(max(p.d, 2))
    return float(t.gamma) * math.sqrt(log / p.n) + float(t.threshold) * sd * math.sqrt(log)


def thresholded(moment: Vector, threshold: float | Vector, psd: bool) -> Estimate:
    """Steps 2 and 3 of the algorithm on a released matrix."""
    sparse = kept_above(moment, threshold)
    return Estimate(positive_part(sparse) if psd else sparse, {"thresholded": sparse, "moment": moment, "tau": threshold})


def bound_value(p: Problem, t: Tunables, sd: float, radius: float) -> float | None:
    """4 (s + 1) tau (half without the positive part), None where the event is not known to be likely."""
    if "k" not in p.facts or t.gamma < 2 * radius**2 * (1 - 1e-12) or t.threshold < 4:
        return None
    return (4 if t.psd == "on" else 2) * (p.facts["k"] + 1) * tau(p, t, sd)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    value = bound_value(p, t, calibrated.scale("moment"), central_radius(p)) if t.level == "declared" else None
    return {} if value is None else {CARD.bounds[0].theorem: value}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {CARD.bounds[0].theorem: {"c": 4.0 if t.psd == "on" else 2.0}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float | None:
    """2 (s + 1) tau; nothing where no sparsity is declared. level = spread: tau of variances of r^2/d, and an error of half of it."""
    if "k" not in p.facts:
        return None
    sd, log = calibrated.scale("moment"), math.sqrt(math.log(max(p.d, 2)))
    if t.level == "declared":
        return 2 * (p.facts["k"] + 1) * tau(p, t, sd)
    return float((p.facts["k"] + 1) * (2 * log / math.sqrt(p.n) * central_radius(p) ** 2 / p.d + t.threshold / 2 * sd * log) / 2)


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    sd = calibrated.scale("moment")
    level = tau(p, t, sd) if t.level == "declared" else t.threshold / 2 * sd * math.sqrt(math.log(max(p.d, 2)))
    return threshold_warning(level, central_radius(p))


def threshold_warning(threshold: float, radius: float) -> list[str]:
    if threshold < radius**2 / 2:
        return []
    return [
        f"the threshold is {threshold:.3g}, and no off-diagonal entry can exceed {radius**2 / 2:.3g}: the estimate will be diagonal or zero"
    ]


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    return printed_gaussian(p, budget, "000 Algorithm 6.2.48 step 1", "moment", 1 / p.n, central_radius(p))
