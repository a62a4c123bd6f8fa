"""Row-sparse principal subspace from one noisy second moment a user, by Fantope projection and selection.

    1. as in ldp-pca-gaussian: user i reports triu(x_i x_i^T) + Gaussian noise, x_i scaled into the ball; the server averages to S~;
    2. X^ = argmax over the Fantope of <S~, X> - lambda*|X|_{1,1}, by ADMM; output the k leading eigenvectors of X^;
    3. support recovery: J^ = {j : X^_jj > 0} of the sparse iterate.

Source: 000, section 6.1.4, Algorithm 6.1.47, Theorems 6.1.4 (error) and 6.1.5 (support). Differences from the printed version: sensitivity
sqrt(2)*r^2 and exact calibration; the ADMM has a stopping rule; lambda is bounded from below by the noise (printed: from above):

    lambda = (penalty/alpha)*(max-norm of the noise + max-norm of the sampling error), each at probability 0.975,

computed from the planned noise and r alone. For penalty = 1 and alpha = 1 that is an upper bound of |S~ - E x x^T|_max, so Lemma 6.1.15
holds with its constant: |sin Theta|_F <= 4 sqrt(2) s lambda/gap.

``estimate.theta``: (d, k) orthonormal; extras: ``moment`` (d, d), ``support`` (d,) of 0 and 1, and the residuals of the ADMM.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.matrix import _fantope
from dpspec.algorithms.matrix._common import CLIP_LOCAL, LOCAL_X, RADIUS, printed_gaussian, sensitivity_fault, wrong_task
from dpspec.algorithms.matrix._deviation import FAILURE, gaussian_max, sampling_max
from dpspec.algorithms.matrix._moment import blocks, leading
from dpspec.algorithms.matrix.ldp_pca_gaussian import rank_refusal
from dpspec.models.door import Door
from dpspec.models.features import Feature, Record
from dpspec.models.rows import Rows
from dpspec.privacy.channels.gaussian_outer import GaussianOuter
from dpspec.privacy.schedule import Draw, Tree

_LOCAL = "tests/algorithms/matrix/test_matrix_local.py::"

CARD = Card(
    id="ldp-sparse-pca-fantope",
    title="Row-sparse principal subspace and its support, one noisy second moment a user",
    family="matrix",
    task="subspace",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(
        Source("000", "6.1.4", "Algorithm 6.1.47", ("Theorem 6.1.3", "Theorem 6.1.4", "Theorem 6.1.5", "Lemma 6.1.15", "Lemma 6.1.17")),
    ),
    summary="Symmetric Gaussian noise a user; an l1-penalised semidefinite program on the server, solved by ADMM; "
    "support from its diagonal.",
    needs=(
        LOCAL_X,
        Need("sub-gaussian", "utility", "x is sub-Gaussian with mean 0 and lies in the ball of radius r with high probability"),
        Need("sparse", "utility", "the principal subspace has at most s non-zero rows (sparse(s) of x)"),
        Need("eigengap", "utility", "gap = lambda_k - lambda_{k+1} > 0 of the covariance"),
    ),
    tunables={
        "r": RADIUS,
        "penalty": Tunable("1", "Lemma 6.1.15 needs lambda >= |S~ - Sigma|_max; 1 is that bound at probability 0.95", minimum=1e-6),
        "alpha": Tunable(
            "1", "000 Theorem 6.1.5, limited correlation; 1 for the spiked model, where Sigma_{J^c J} = 0", minimum=1e-3, maximum=1.0
        ),
        "tolerance": Tunable("1/10^4", "stopping rule of Vu, Cho, Lei and Rohe 2013 (the document has none)", minimum=1e-12),
        "steps": Tunable("2000", "most ADMM steps, one d x d eigen-decomposition each", integer=True, minimum=1),
    },
    bounds=(
        Bound(
            "subspace-distance",
            "explicit",
            "upper",
            "min(4*sqrt(2)*k_x*penalty/alpha*(scale*sqrt(2*log(40*d*(d + 1))/n) + r^2*sqrt(log(40*d*(d + 1))/(2*n)))/gap, "
            "sqrt(min(rank, d - rank)))",
            "proved",
            "000 Lemma 6.1.15 and Theorem 6.1.4, corrected",
            probability="0.95",
            conditions="penalty = 1 or more; k_x = s rows (sparse(s) of x); gap declared in the data section",
            when=("penalty >= alpha",),
        ),
        Bound(
            "subspace-distance",
            "order",
            "upper",
            "C*k_x*sqrt(log(d)*(1 + log(1/delta)/epsilon^2)/n)/gap",
            "proved",
            "000 Theorem 6.1.4, corrected order",
            probability="1 - 2/d^2 - d^(-C)",
            conditions="r = 1, lambda of the order of the max-norm deviation",
            when=("r = 1",),
        ),
        Bound(
            "subspace-distance",
            "order",
            "upper",
            "C*eig_max*k_x*sqrt(log(d))/(gap*sqrt(n)*epsilon)",
            "refuted",
            "000 Theorem 6.1.4",
            conditions="as printed: lambda_1 on the noise and no log(1/delta)",
        ),
        Bound(
            "least-row-norm",
            "order",
            "upper",
            "C*k_x*sqrt(log(d)*(1 + log(1/delta)/epsilon^2)/n)/(alpha*gap)",
            "proved",
            "000 Theorem 6.1.5, Lemma 6.1.17",
            conditions="no row outside the support is found, and every row of norm at least 4*lambda*s/gap is, under "
            "limited correlation alpha, when "
            "gap >= 4*lambda*s*(1 + 8*lambda_1/gap): n >= C*s^2*(gap + 8*lambda_1)^2*(lambda_1^2 + log(1/delta)/epsilon^2)*log(d)"
            "/(alpha^2*gap^4), (6.6) with its powers corrected",
        ),
        Bound(
            "subspace-distance",
            "order",
            "lower",
            "C*sqrt(eig_max*(eig_max - gap)*k_x*(rank + log(d))/n)/(gap*epsilon)",
            "proved",
            "000 Theorem 6.1.3",
            conditions="pure epsilon-NLDP, epsilon <= 1/2, 2k <= s - k <= d - k and d/4 <= k <= 3d/4, which together "
            "force s >= 3k: not sparse; "
            "for sparse k only without the bound on |x|",
            guarantees=("pure",),
            when=("epsilon <= 1/2", "rank >= d/4", "rank <= 3*d/4", "2*rank <= k_x - rank", "k_x <= d"),
        ),
    ),
    faults=(
        sensitivity_fault("000, Algorithm 6.1.47 step 2 and Theorem 6.1.4"),
        CLIP_LOCAL,
        Fault(
            "000, Theorem 6.1.4: set lambda <= O(lambda_1 sqrt(log p/(n eps^2)))",
            "Lemma 6.1.15 needs lambda >= |S~ - Sigma|_max; a smaller one, 0 for example, voids the bound",
            _LOCAL + "test_the_penalty_dominates_the_deviation",
            "utility",
        ),
        Fault(
            "000, Theorem 6.1.4: the noise part of |S~ - Sigma|_max has a factor lambda_1 and no log(1/delta)",
            "its entries are N(0, s^2/n) whatever lambda_1 is",
            _LOCAL + "test_the_penalty_dominates_the_deviation",
            "utility",
        ),
        Fault(
            "000, proof of Theorem 6.1.4: P(|Z|_max > t) <= 2 p^2 exp(-t^2/sigma^2)",
            "exp(-t^2/(2 sigma^2))",
            "docs/faults.md#gaussian-tail",
            "utility",
        ),
        Fault(
            "000, Algorithm 6.1.47, lines 7 to 12: return inside the loop, no stopping rule, rho without a value, projection not given",
            "residuals as in the paper that the program comes from; rho balanced, then fixed; exact projection of the eigenvalues",
            "tests/algorithms/matrix/test_matrix_parts.py::test_fantope_projection_is_the_nearest_point",
            "text",
        ),
        Fault(
            "000, equation (6.6): (8 lambda_1 + gap)/gap^2 to the first power",
            "the second condition of Lemma 6.1.17 gives lambda <= gap^2/(4 s (gap + 8 lambda_1)), squared when solved for n",
            "docs/faults.md#second-condition",
            "utility",
        ),
        Fault(
            "000, Theorem 6.1.5: lambda has lambda_1 in the proof and not in the statement",
            "two terms as above",
            "docs/faults.md#second-condition",
            "text",
        ),
        Fault("000, Theorem 6.1.5: signal condition on Sigma_ij", "on |Sigma_ij|", "docs/faults.md#signs-of-a-covariance", "text"),
        Fault(
            "000, Table 6.2: Leukemia, k = 10, error 4.518",
            "|VV' - WW'|_F is at most sqrt(2 k) = 4.472",
            "tests/algorithms/matrix/test_matrix_parts.py::test_the_largest_projector_distance_is_sqrt_2k",
            "text",
        ),
        Fault(
            "000, Tables 6.1 and 6.2: Colon, s = 20: 3.058 at epsilon 2, 3.013 at epsilon 1",
            "run-to-run spread; no intervals given",
            "docs/faults.md#spread-of-runs",
            "text",
        ),
        Fault(
            "000, Tables 6.1 and 6.2: 7 of 10 coordinates found among 2000 from 60 users at epsilon 2",
            "entry noise is 0.28 and its norm 25 with lambda_10 <= 0.1: a faithful run gives about sqrt(2k) = 4.47",
            _LOCAL + "test_the_printed_tables_are_out_of_reach",
            "utility",
        ),
        Fault(
            "000, section 6.1: lower bound ks log p in the introduction",
            "s(k + log p) in Theorem 6.1.3",
            "docs/faults.md#two-lower-bounds",
            "text",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "64*d*(d + 1)/2", "memory_bytes": "64*d*d"},
    reads="sums",
    spec="specs/matrix/ldp-sparse-pca-fantope.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.d > 2000:
        return f"each ADMM step decomposes a {p.d} x {p.d} matrix; d is at most 2000"
    return wrong_task(p, "subspace") or rank_refusal(p)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("moment", GaussianOuter(p.d, t.r), per="user")


def penalty(p: Problem, t: Tunables, scale: float) -> float:
    """lambda, from public numbers: see the module's text."""
    noise = gaussian_max(scale / math.sqrt(p.n), p.d, FAILURE / 2)
    return float(t.penalty) / float(t.alpha) * (noise + sampling_max(p.n, p.d, t.r, FAILURE / 2))


def client(p: Problem, t: Tunables) -> dict[str, Feature]:
    return {"moment": Record()}


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    moment = release.mean_blocks("moment", blocks(records))
    k = int(p.facts["rank"])
    found = _fantope.select(moment, k, penalty(p, t, release.scale("moment")), tolerance=t.tolerance, steps=t.steps)
    support = np.diag(found.y) > 1e-12
    sparse = np.where(np.outer(support, support), (found.x + found.x.T) / 2, 0.0) if support.sum() >= k else found.x
    _, vectors = leading(sparse, k)
    return Estimate(
        vectors,
        {
            "moment": moment,
            "support": support.astype(float),
            "primal_residual": found.primal,
            "dual_residual": found.dual,
            "steps": found.steps,
        },
    )


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    if not {"gap", "k_x"} <= p.facts.keys() or t.penalty < t.alpha:
        return {}
    k = p.facts["rank"]
    value = 4 * math.sqrt(2.0) * p.facts["k_x"] * penalty(p, t, calibrated.scale("moment")) / p.facts["gap"]
    return {CARD.bounds[0].theorem: min(value, math.sqrt(min(k, p.d - k)))}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {CARD.bounds[0].theorem: {}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """sin Theta: s*lambda/gap, an order below the proved constant; nothing where the sparsity is not declared."""
    k = p.facts["rank"]
    s = p.facts.get("k_x", p.facts.get("k", p.d))
    gap = p.facts.get("gap", t.r**2 / k)
    return float(min(s * penalty(p, t, calibrated.scale("moment")) / gap, math.sqrt(min(k, p.d - k))))


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    k = p.facts["rank"]
    gap = p.facts.get("gap", t.r**2 / k)
    lam = penalty(p, t, calibrated.scale("moment"))
    if lam <= gap / 4:
        return []
    return [f"lambda = {lam:.3g} against an eigengap of at most {gap:.3g}: it needs about n = {p.n * (4 * lam / gap) ** 2:.2g} records"]


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    return printed_gaussian(p, budget, "000 Algorithm 6.1.47 step 2", "moment", 1.0, t.r)
