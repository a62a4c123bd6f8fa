"""Sparse linear regression from one round of noisy sufficient statistics (non-interactive local model).

    1. user i: x_i into the l2 ball of radius r, report triu(x_i x_i^T) + Gaussian noise;
    2. user i: y_i clipped at tau2, report x_i*y_i + Gaussian noise;
    3. server: S = mean of the matrices, b = mean of the vectors, theta = soft threshold of S^{-1} b.

Source: 004, section 3.2, Algorithm 1, Theorems 2 (privacy), 3 (utility), 5 (heavy-tailed responses). Users clip their own record, so
the guarantee holds for any data. Differences from the printed version:

* The two draws of a user are calibrated together, as Gaussians that compose exactly; the paper halves (epsilon, delta) and uses the
  classical scale, which spends 0.43 of a stated epsilon of 1. ``weight`` is the share of mu^2 that the matrix gets: for |theta| <= 1
  the error is that of b - S theta, whose variance w -> 2 r^4/w + 4 r^2 tau2^2/(1 - w) is least at r/(r + sqrt(2) tau2).
* The sensitivity of the matrix draw is sqrt(2) r^2 (upper triangle), printed 2 r^2.
* ``product = ball`` (default): x is clipped in the l2 ball for the vector too, sensitivity 2 r tau2; ``product = cube``: coordinates
  at tau1 as printed, 2 sqrt(d) tau1 tau2, larger whenever r < sqrt(d) tau1.
* ``product = ball`` scales x and y *together*, by min(1, r/|x|): the scaled pair obeys y = <theta, x> + noise like the record itself, so a
  short r has no bias, whatever the law of x is. The error is that of r^2 over the least eigenvalue of the scaled x, which hardly depends
  on r up to sigma sqrt(d) and grows beyond; that is the default. Printed: O(sigma sqrt(d log n)), which nothing exceeds, and up to a factor
  of log n above. tau2 then cuts the responses, a bias of about P(|y| > tau2): the default makes that a small part of the noise.
* S is symmetric but can be indefinite (at d = 20 up to n = 1e9 with the printed constants). ``spectrum`` repairs it: ``floor`` raises
  its eigenvalues to the declared eig_min or to the operator norm of the noise, whichever is larger; ``psd`` inverts its positive
  part only; ``none`` solves as printed. All are post-processing.
* The threshold is computed from the planned noise: lam_j = threshold * sqrt(2 log(2 d)) * sd_j, sd_j the standard deviation that
  the two noises give to (S^{-1} b)_j when |theta| <= 1. The paper leaves its constant open; the default makes lam_j/sd_j the
  sqrt(2 log(d/k)) of least risk for k of d entries, 0 for k = d. With ``threshold = 1`` no entry outside the support stays.
* Heavy-tailed responses (only E|y|^q <= M declared, q = 2p): tau2 makes the clipping bias, about M tau2^{1-q} for x of unit scale, equal
  to the noise 2 r tau2/(mu sqrt(n)). Theorem 5 takes (n epsilon^2/log d)^{1/q}, with which the noise dominates: rate n^{-1/2 + 1/q} in
  place of n^{-1/2 + 1/(2q)}.
* Theorem 3's condition d^4/(epsilon^2 kappa_inf) needs kappa_inf^2.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.sets import Vector, soft_threshold, unkept
from dpspec.models.door import Door
from dpspec.models.features import Feature, Pair, Record, ScaledPair
from dpspec.models.rows import Rows
from dpspec.privacy.channels.gaussian_ball_product import GaussianBallProduct
from dpspec.privacy.channels.gaussian_outer import GaussianOuter
from dpspec.privacy.channels.gaussian_product import GaussianProduct
from dpspec.privacy.schedule import Draw, Sequence, Tree

_EVIDENCE = "tests/algorithms/test_nldp_sparse_linear_regression.py::"
_CLIPS = "each client clips its own record"

TAU1: Final = "min(x_linf, sigma_x*sqrt(2*log(n*d))) else x_linf else sigma_x*sqrt(2*log(n*d)) else sigma*sqrt(2*log(n*d))"
TAU2: Final = (
    "min(y_abs, sigma_y*sqrt(2*log(n))) else y_abs else sigma_y*sqrt(2*log(n))"
    " else (moment_bound_y*sqrt(n)*strength/(2*r))^(1/moment_order_y) else sigma*sqrt(2*log(n))"
)
TAU2_SOURCE: Final = (
    "004 Theorem 3: O(sigma sqrt(log n)); where only E|y|^q <= M is declared, equal bias and noise, tau2^q = M sqrt(n) mu/(2 r)"
)
RADIUS: Final = (
    "min(x_l2, sigma_x*(sqrt(d) + sqrt(2*log(n)))) else x_l2 else sigma_x*(sqrt(d) + sqrt(2*log(n))) else sigma*(sqrt(d) + sqrt(2*log(n)))"
)
PAIR_TAU2: Final = TAU2.replace("sigma_y*sqrt(2*log(n))", "sigma_y*sqrt(2*log(2 + epsilon*sqrt(n)/d))")
PAIR_TAU2_SOURCE: Final = "a share of about d/(epsilon sqrt(n)) of the responses is cut, below the noise; " + TAU2_SOURCE
PAIR_RADIUS: Final = "min(x_l2, sigma_x*sqrt(d)) else x_l2 else sigma_x*sqrt(d) else sigma*sqrt(d)"
PAIR_RADIUS_SOURCE: Final = "the root of E|x|^2, at most: x and y are scaled together, without bias; 004 Theorem 3: O(sigma sqrt(d log n))"
THRESHOLD: Final = "sqrt(log(max(d/k, 1))/log(2*d)) else 1"
THRESHOLD_SOURCE: Final = "multiple of sqrt(2 log(2 d)) sd: least risk of soft thresholds for k of d entries (constant open in 004)"
SPECTRUM: Final = ("floor", "psd", "none")
PRODUCT: Final = ("ball", "cube")

CARD = Card(
    id="nldp-sparse-linear-regression",
    title="Sparse linear regression from noisy sufficient statistics, soft-thresholded",
    family="sparse",
    task="estimate-theta",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("004", "3.2", "Algorithm 1", ("Theorem 2", "Theorem 3", "Theorem 5", "Lemma 29")),),
    summary="One message a user: noisy x x^T and x y; the server inverts and soft-thresholds.",
    needs=(
        Need("x", "privacy", "|x|_2 <= r", enforced_by=_CLIPS),
        Need("y", "privacy", "|y| <= tau2", enforced_by=_CLIPS),
        Need("sub-gaussian", "utility", "x is sub-Gaussian; y too, or E|y|^q is bounded for a known q > 2"),
        Need("sparse", "utility", "theta has at most k non-zeros and |theta|_1 <= 1"),
        Need("eigenvalues", "utility", "the covariance of x is well conditioned (kappa_inf, lambda_min > 0)"),
    ),
    options={"product": PRODUCT, "spectrum": SPECTRUM},
    tunables={
        "tau1": Tunable(TAU1, "004 Theorem 3: O(sigma sqrt(log n)); used by product = cube", minimum=1e-12),
        "r": Tunable(PAIR_RADIUS, PAIR_RADIUS_SOURCE, minimum=1e-12),
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "tau2": Tunable(PAIR_TAU2, PAIR_TAU2_SOURCE, minimum=1e-12),
        "weight": Tunable(
            "r/(r + sqrt(2)*tau2)", "share of the matrix draw: least variance of b - S theta at |theta| = 1", minimum=1e-6, maximum=1 - 1e-6
        ),
        "threshold": Tunable(THRESHOLD, THRESHOLD_SOURCE, minimum=0.0),
    },
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*d*log(n)*sqrt(k*log(d)*log(1/delta))/(sqrt(n)*epsilon)",
            "proved",
            "004 Theorem 3",
            probability="1 - C*d^(-1) - exp(-d)",
            conditions="threshold = 1; n >= C*max(d^4/(epsilon^2*kappa_inf^2), d^3/(epsilon^2*lambda_min^2)), logs left out",
            regime="C*max(d^4/(epsilon^2*kappa_inf^2), d^3/(epsilon^2*eig_min^2)) else C*d^3/(epsilon^2*eig_min^2)"
            " else C*d^3/(epsilon^2*sigma_x^4) else C*d^3/(epsilon^2*sigma^4)",  # eig_min <= sigma^2: less n is certainly too little
            needs=("sub-gaussian of y",),
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*d*log(n)*sqrt(k*log(1/delta))*(log(d)/(n*epsilon^2))^(1/2 - 1/moment_order_y)",
            "proved",
            "004 Theorem 5",
            conditions="only E|y|^q <= M for a known q = moment_order_y > 2; n as in Theorem 3",
            regime="C*max(d^4/(epsilon^2*kappa_inf^2), d^3/(epsilon^2*eig_min^2)) else C*d^3/(epsilon^2*eig_min^2)"
            " else C*d^3/(epsilon^2*sigma_x^4) else C*d^3/(epsilon^2*sigma^4)",  # eig_min <= sigma^2: less n is certainly too little
            needs=("moment of y",),
            when=("moment_order_y > 2",),
        ),
        Bound(
            "l2-error",
            "order",
            "lower",
            "C*sqrt(d*k*log(d/k)/(n*epsilon^2))",
            "proved",
            "004 Theorem 1",
            conditions="epsilon-NLDP, epsilon < 1, k >= 4 log d, error below c/sqrt(k)",
            guarantees=("pure",),
            when=("epsilon < 1", "k >= 4*log(d)"),
        ),
    ),
    faults=(
        Fault(
            "004 Algorithm 1: x x^T has l2 sensitivity 2 r^2",
            "the released upper triangle has sqrt(2) r^2 (tight)",
            _EVIDENCE + "test_the_upper_triangle_has_sensitivity_sqrt2_r2",
            "utility",
        ),
        Fault(
            "004 Theorem 2: halves of (epsilon, delta) and the classical scale",
            "the pair spends epsilon 0.43 of a stated 1 at delta 1e-5",
            _EVIDENCE + "test_the_printed_noise_spends_less_than_half",
            "utility",
        ),
        Fault(
            "004 Algorithm 1: theta = S_lam(S^{-1} b)",
            "S is indefinite unless n is of order d^3 to d^4 over epsilon^2 and more",
            _EVIDENCE + "test_the_noisy_covariance_is_indefinite_at_small_n",
            "utility",
        ),
        Fault(
            "004 Theorem 5: tau2 = (n epsilon^2/log d)^(1/(2p))",
            "valid, but the noise then dominates the bias: equal ones give the rate n^(-1/2 + 1/(4p)) in place of n^(-1/2 + 1/(2p))",
            _EVIDENCE + "test_the_printed_tau2_is_far_from_the_best",
            "utility",
        ),
        Fault(
            "004 Theorem 3: n >= d^4/(epsilon^2 kappa_inf)",
            "the proof needs kappa_inf^2",
            "docs/faults.md#condition-number-squared",
            "utility",
        ),
        Fault(
            "004 equation (2): S_lam minimises |u - theta|^2 + lam |theta|_1",
            "with 1/2 before the square; without it the threshold is lam/2",
            "tests/algorithms/test_sets.py::test_soft_threshold_minimises_the_half_square",
            "text",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "64*(d*(d + 1)/2 + d)", "memory_bytes": "8*(d*d + d)"},
    reads="sums",
    spec="specs/sparse/nldp-sparse-linear-regression.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.form != "linear":
        return "the model is not linear"
    if p.d > 20_000:
        return f"the server inverts a matrix of {p.d} x {p.d} numbers"
    if "moment_order_y" in p.facts and p.facts["moment_order_y"] <= 2:
        return "the declared moment of y must have an order above 2 (E|y|^(2p) with p > 1)"
    return unkept(p)


def product_channel(p: Problem, t: Tunables) -> GaussianBallProduct | GaussianProduct:
    return GaussianBallProduct(p.d, t.r, t.tau2) if t.product == "ball" else GaussianProduct(p.d, t.tau1, t.tau2)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Sequence(
        (
            Draw("covariance", GaussianOuter(p.d, t.r), per="user", weight=t.weight),
            Draw("xy", product_channel(p, t), per="user", weight=1 - t.weight),
        )
    )


def client(p: Problem, t: Tunables) -> dict[str, Feature]:
    return {"covariance": Record(), "xy": ScaledPair(float(t.r)) if t.product == "ball" else Pair()}


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    s, b = release.mean_blocks_many(("covariance", "xy"), dense_blocks(records, t.r if t.product == "ball" else None))
    noise = (release.scale("covariance") / math.sqrt(p.n), release.scale("xy") / math.sqrt(p.n))
    inverse = repaired_inverse(s, t.spectrum, max(least_eigenvalue(p, t, 0.0), operator_norm(noise[0], p.d)))
    return solve(inverse, b, noise, t.threshold)


# ------------------------------------------------------------------------------------------------ pieces, post-processing


def dense_blocks(records: Any, r: float | None = None, rows: int = 8192) -> Any:
    """Blocks (x, y) with dense x, small enough for the processor's cache: what each client hands to its channels. With ``r`` y is
    multiplied by the factor min(1, r/|x|) by which the channels scale x."""
    for x, y in records.blocks(rows):
        dense = x if isinstance(x, np.ndarray) else x.toarray()
        yield dense, (y if r is None else ScaledPair(r).scaled(dense, y))


def least_eigenvalue(p: Problem, t: Tunables, otherwise: float) -> float:
    """About the least eigenvalue of the second moment of the scaled x: eig_min (where it is not declared ``otherwise``) times the share
    r^2/(r^2 + E|x|^2) that is left of a record of that length at least; all of it where no record is longer than r."""
    low, size = float(p.facts.get("eig_min", otherwise)), p.facts.get("sigma_x", p.facts.get("sigma", math.inf)) * math.sqrt(p.d)
    if t.product != "ball" or t.r >= p.facts.get("x_l2", math.inf) * (1 - 1e-12) or not math.isfinite(size):
        return low
    return float(low * t.r**2 / (t.r**2 + size**2))


def operator_norm(sd: float, d: int) -> float:
    """About the largest eigenvalue of a symmetric d x d matrix with independent N(0, sd^2) entries: 2 sd sqrt(d)."""
    return 2 * sd * math.sqrt(d)


def repaired_inverse(s: Vector, spectrum: str, floor: float, share: float = 0.0) -> Vector:
    """The inverse of a noisy second-moment matrix, (d, d). ``floor``: eigenvalues below it are raised to it; ``psd``: the inverse on the
    space of the eigenvalues above it, zero elsewhere; ``none``: as it is. With ``share`` an eigenvalue l of ``floor`` is inverted as
    l/(l^2 + share^2 tr S): the estimate of least expected square from b = S v plus noise of deviation s, for v of variance w^2 a
    coordinate, share^2 tr S = (s/w)^2."""
    if spectrum == "none":
        return np.asarray(np.linalg.inv(s), dtype=np.float64)
    values, vectors = np.linalg.eigh(s)
    tiny = 1e-12 * max(float(np.abs(values).max()), 1e-300)
    if spectrum == "floor":
        raised = np.maximum(values, max(floor, tiny))
        kept = 1 / (raised * (1.0 + share * share * float(raised.sum()) / raised / raised))
    else:
        kept = np.where(values > max(floor, tiny), 1 / np.maximum(values, tiny), 0.0)
    return np.asarray((vectors * kept) @ vectors.T)


def solve(inverse: Vector, b: Vector, noise: tuple[float, float], threshold: float) -> Estimate:
    """Soft-thresholded S^{-1} b. ``noise``: standard deviations of the entries of S and of b. Also releases S^{-1} b itself (``ols``)."""
    ols = inverse @ b
    sd = math.hypot(*noise) * np.linalg.norm(inverse, axis=1)
    lam = threshold * math.sqrt(2 * math.log(2 * b.size)) * sd
    return Estimate(soft_threshold(ols, lam), {"ols": ols, "threshold": lam})


# --------------------------------------------------------------------------------------------------- what is known beforehand


def soft_risk(k: float, d: int, tau: float) -> float:
    """The largest mean squared error of soft thresholding d normal numbers at tau deviations, k of their means not 0, in variances."""
    outside = 2 * ((1 + tau**2) * math.erfc(tau / math.sqrt(2)) / 2 - tau * math.exp(-(tau**2) / 2) / math.sqrt(2 * math.pi))
    return float(k * (1 + tau**2) + (d - k) * max(outside, 0.0))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error of soft thresholding at the noise that ``run`` would see for a covariance eig_min I (or I)."""
    sd = math.hypot(calibrated.scale("covariance"), calibrated.scale("xy")) / math.sqrt(p.n)
    low = max(least_eigenvalue(p, t, 1.0), operator_norm(calibrated.scale("covariance") / math.sqrt(p.n), p.d))
    return math.sqrt(soft_risk(p.facts.get("k", p.d), p.d, t.threshold * math.sqrt(2 * math.log(2 * p.d)))) * sd / low


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    most = p.facts.get("x_l2", math.inf) ** 2 / p.d  # the trace over d
    low = least_eigenvalue(p, t, min(1.0, most))
    noise = operator_norm(calibrated.scale("covariance") / math.sqrt(p.n), p.d)
    if noise <= low / 2:
        return []
    how = "is about" if "eig_min" in p.facts else "is at most" if most <= 1 else "is not declared, and taken as"
    said = f"{how} {low:.3g}"
    needed = p.n * (2 * noise / low) ** 2
    return [
        f"the noise of the covariance has operator norm about {noise:.3g}, its least eigenvalue {said}: "
        f"inverting it needs about n = {needed:.2g} records; with public unlabelled records far fewer are needed"
    ]


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """004, Algorithm 1, with its own clips and noise: two draws at halves of the budget by the classical formula."""
    if budget.kind != "approx":
        return ()
    from dpspec.privacy.gaussian import epsilon_of

    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    c = math.sqrt(32 * math.log(2.5 / delta)) / e
    mu = math.hypot(math.sqrt(2.0) / c, 2.0 / c)  # sensitivity sqrt(2) r^2 at c r^2, and 2 sqrt(d) tau1 tau2 at c sqrt(d) tau1 tau2
    spent = epsilon_of(mu, delta)
    remark = "both draws together" + ("" if e <= 1 else "; the formula is proved for epsilon <= 1 only")
    return (
        Published("004 Algorithm 1 step 1", "covariance", "sqrt(32*log(2.5/delta))*r^2/epsilon", c * t.r**2, spent, remark),
        Published(
            "004 Algorithm 1 step 2",
            "xy",
            "sqrt(32*d*log(2.5/delta))*tau1*tau2/epsilon",
            c * math.sqrt(p.d) * t.tau1 * t.tau2,
            spent,
            remark,
        ),
    )
