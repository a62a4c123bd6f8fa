"""k-dimensional principal subspace, one noisy second moment a user (non-interactive local model).

    1. user i scales x_i into the l2 ball of radius r and reports triu(x_i x_i^T) + N(0, s^2) on every entry;
    2. the server averages and takes the eigenvectors of the k algebraically largest eigenvalues.

Source: 000, section 6.1.3, Algorithm 6.1.46, Theorem 6.1.2. Differences from the printed version: the sensitivity is sqrt(2)*r^2 (printed
1), the calibration is exact (printed sqrt(2 ln(1.25/delta))/epsilon), records are scaled by their clients (printed: assumed bounded),
and no mean is subtracted (an empirical mean would be one more release). The bound (6.2) multiplies the noise by lambda_1, which the
proof does not: with |x| <= 1 that is smaller than what is proved by up to 1/lambda_1^2.

``estimate.theta``: (d, k) orthonormal; ``extras["moment"]``: the noisy second moment (d, d) that it is read from.
"""

from __future__ import annotations

import math
from typing import Any

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.matrix._common import CLIP_LOCAL, LOCAL_X, RADIUS, printed_gaussian, sensitivity_fault, wrong_task
from dpspec.algorithms.matrix._deviation import FAILURE, gaussian_operator, sampling_operator
from dpspec.algorithms.matrix._moment import blocks, leading
from dpspec.models.door import Door
from dpspec.models.features import Feature, Record
from dpspec.models.rows import Rows
from dpspec.privacy.channels.gaussian_outer import GaussianOuter
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="ldp-pca-gaussian",
    title="Principal subspace from one noisy second moment a user",
    family="matrix",
    task="subspace",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "6.1.3", "Algorithm 6.1.46", ("Theorem 6.1.1", "Theorem 6.1.2")),),
    summary="Each user reports x x^T with symmetric Gaussian noise; the server takes the leading eigenvectors of the mean.",
    needs=(
        LOCAL_X,
        Need("sub-gaussian", "utility", "x is sub-Gaussian with mean 0 and lies in the ball of radius r with high probability"),
        Need("eigengap", "utility", "gap = lambda_k - lambda_{k+1} > 0 of the covariance"),
    ),
    tunables={"r": RADIUS},
    bounds=(
        Bound(
            "subspace-distance",
            "explicit",
            "upper",
            "min(2*sqrt(rank)*E/gap, sqrt(min(rank, d - rank)))",
            "proved",
            "000 Theorem 6.1.2, its proof with constants (Davis-Kahan, Bernstein, Gordon)",
            probability="0.95",
            conditions="gap (a constant of the data section) is a lower bound of lambda_k - lambda_{k+1} of the scaled records",
            where={
                "E": "spectral norm of the error of the mean report with probability 0.95: 2*scale*(sqrt(d) + "
                "sqrt(log(80)))/sqrt(n) and the sampling error of Bernstein's inequality"
            },
        ),
        Bound(
            "subspace-distance",
            "order",
            "upper",
            "C*sqrt(rank*(d*log(1/delta)/epsilon^2 + eig_max)/n)/gap",
            "proved",
            "000 Theorem 6.1.2, corrected",
            probability="1 - exp(-C) - d^(-C)",
            conditions="r = 1, n >= d; tr Sigma <= 1, so lambda_1^2 times the effective rank is at most eig_max",
            regime="d",
            when=("r = 1",),
        ),
        Bound(
            "subspace-distance",
            "order",
            "upper",
            "C*eig_max*sqrt(rank*d*log(1/delta))/(gap*sqrt(n)*epsilon)",
            "refuted",
            "000 equation (6.2)",
            conditions="the factor lambda_1 on the noise is not in the proof; simulated errors exceed it by 1/lambda_1",
        ),
        Bound(
            "subspace-distance",
            "order",
            "lower",
            "C*sqrt(eig_max*(eig_max - gap)*rank*d/n)/(gap*epsilon)",
            "proved",
            "000 Theorem 6.1.1",
            conditions="pure epsilon-NLDP, epsilon <= 1/2, d/4 <= k <= 3d/4; eig_max - gap stands for lambda_{k+1} (k equal spikes)",
            guarantees=("pure",),
            when=("epsilon <= 1/2", "rank >= d/4", "rank <= 3*d/4"),
        ),
    ),
    faults=(
        sensitivity_fault("000, Algorithm 6.1.46 step 2 and Theorem 6.1.2"),
        CLIP_LOCAL,
        Fault(
            "000, equation (6.2): lambda_1^2 multiplies the privacy term",
            "the noise has |Z|_2 = O(sqrt(p) sigma) whatever lambda_1 is",
            "tests/algorithms/matrix/test_matrix_local.py::test_the_printed_pca_bound_is_too_small",
            "utility",
        ),
        Fault(
            "000, Theorem 6.1.2: probability 1 - exp(-C p) - p^(-C)",
            "the proof gives 1 - exp(-C) - p^(-C)",
            "docs/faults.md#probability-without-d",
            "utility",
        ),
        Fault(
            "000, section 6.1.5: n = 1e5, p = 40, epsilon = 0.5 shows trends",
            "the noise has spectral norm 0.35, the gap is 0.0025: every error is that of a random subspace",
            "tests/algorithms/matrix/test_matrix_local.py::test_the_printed_experiment_is_below_the_noise",
            "utility",
        ),
        Fault(
            "000, Algorithm 6.1.46: the message is X~X~^T",
            "the noisy message is not of rank one",
            "docs/faults.md#rank-of-a-message",
            "text",
        ),
        Fault(
            "000, section 6.1.5: real data, E X = 0 assumed",
            "subtracting the empirical mean, or dividing by empirical deviations, is one more release and is not "
            "non-interactive: nothing is "
            "subtracted here",
            "tests/algorithms/test_printed_leaks.py::test_subtracting_the_mean_of_all_spends_more_than_one_report",
            "privacy",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "64*d*(d + 1)/2", "memory_bytes": "24*d*d"},
    reads="sums",
    spec="specs/matrix/ldp-pca-gaussian.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return wrong_task(p, "subspace") or rank_refusal(p)


def rank_refusal(p: Problem) -> str | None:
    if "rank" not in p.facts:
        return "the dimension of the subspace has no public value"
    k = p.facts["rank"]
    if k != int(k) or not 1 <= k < p.d:
        return f"the dimension of the subspace is a whole number from 1 to d - 1 = {p.d - 1}, not {k:g}"
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("moment", GaussianOuter(p.d, t.r), per="user")


def client(p: Problem, t: Tunables) -> dict[str, Feature]:
    return {"moment": Record()}


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    moment = release.mean_blocks("moment", blocks(records))
    values, vectors = leading(moment, int(p.facts["rank"]))
    return Estimate(vectors, {"moment": moment, "eigenvalues": values})


def deviation(p: Problem, t: Tunables, calibrated: Any) -> float:
    """A bound of |S~ - E x x^T|_2 (x scaled) at probability 0.95."""
    noise = gaussian_operator(calibrated.scale("moment") / math.sqrt(p.n), p.d, FAILURE / 2, isotropic=False)
    return noise + sampling_operator(p.n, p.d, t.r, p.facts.get("eig_max", t.r**2), FAILURE / 2)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    if "gap" not in p.facts:
        return {}
    k = p.facts["rank"]
    return {CARD.bounds[0].theorem: min(2 * math.sqrt(k) * deviation(p, t, calibrated) / p.facts["gap"], math.sqrt(min(k, p.d - k)))}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {CARD.bounds[0].theorem: {"E": deviation(p, t, calibrated)}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """sin Theta: the noise over the gap (the largest possible eigenvalue 1/rank of unit records where no gap is declared)."""
    k = p.facts["rank"]
    gap = p.facts.get("gap", t.r**2 / k)
    noise = calibrated.scale("moment") * math.sqrt(p.d * k / p.n)
    return float(min(noise / gap, math.sqrt(min(k, p.d - k))))


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    k = p.facts["rank"]
    gap = p.facts.get("gap", t.r**2 / k)
    noise = 2 * calibrated.scale("moment") * math.sqrt(p.d / p.n)
    if noise <= gap:
        return []
    which = f"the declared gap is {gap:.3g}" if "gap" in p.facts else f"no gap can exceed {gap:.3g} (k eigenvalues, trace at most r^2)"
    return [f"the noise has spectral norm about {noise:.3g} and {which}: it needs about n = {p.n * (2 * noise / gap) ** 2:.2g} records"]


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    return printed_gaussian(p, budget, "000 Algorithm 6.1.46 step 2", "moment", 1.0, t.r)
