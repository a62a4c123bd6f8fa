"""Sparse linear regression in the non-interactive local model with public unlabelled records.

    1. user i: x_i*y_i + Gaussian noise, clipped;    2. server: S = (1/m) sum of public x x^T, b = mean of the reports;
    3. theta = soft threshold of S^{-1} b.

Source: 004, section 3.2 and Appendix E.2, Algorithm 3, Theorem 4. The whole budget goes to the one draw (analytic calibration; the
printed variance is illegible in the document and follows from the sensitivity). The public covariance is free of noise, so n of
order d is enough where the private one needs d^3 to d^4. ``product = ball`` scales x and y together, as in nldp-sparse-linear-regression
(argument there), and S is taken of public rows scaled in the same way; ``cube`` is as printed.

Theorem 4's proof bounds the error of the PUBLIC covariance by sqrt(log d/n); it is sqrt(log d/m), so a term C sqrt(k log d/m) belongs
to the bound and m must grow with n epsilon^2/(d log^2 n log(1/delta)) for the printed rate.

As printed, S^{-1} multiplies the noise of b by the inverse of small eigenvalues. In an eigendirection of eigenvalue l we take l/(l^2 +
s^2/w^2) in the place of 1/l, s the deviation of an entry of b and w^2 = tau2^2/(4 tr S), theta whose predictions are as long as half of
the clip: the estimate of least expected square for coordinates of that variance. Where l is well above s/w it is the printed one; on a
law with a flat direction (five columns of Adult, epsilon 1) the mean error falls from 1.84 to 0.64, beside 0.62 of the zero vector.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.sets import Vector
from dpspec.algorithms.sparse import nldp_sparse_linear_regression as private
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.numeric.norms import clip_rows
from dpspec.privacy.schedule import Draw, Tree

_CLIPS = "each client clips its own record"

CARD = Card(
    id="nldp-sparse-linear-regression-public",
    title="Sparse linear regression with public unlabelled records",
    family="sparse",
    task="estimate-theta",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("004", "3.2, E.2", "Algorithm 3", ("Theorem 4",)),),
    summary="One message a user: noisy x y; the covariance comes from public records.",
    needs=(
        Need("x", "privacy", "|x|_2 <= r", enforced_by=_CLIPS),
        Need("y", "privacy", "|y| <= tau2", enforced_by=_CLIPS),
        Need("sub-gaussian", "utility", "x (private and public, one law) and y are sub-Gaussian", of=("x", "y")),
        Need("sparse", "utility", "theta has at most k non-zeros and |theta|_1 <= 1"),
    ),
    options={"product": private.PRODUCT},
    tunables={
        "tau1": Tunable(private.TAU1, "004 Theorem 4: O(sigma sqrt(log n)); used by product = cube", minimum=1e-12),
        "r": Tunable(private.PAIR_RADIUS, private.PAIR_RADIUS_SOURCE, minimum=1e-12),
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "tau2": Tunable(private.PAIR_TAU2, private.PAIR_TAU2_SOURCE, minimum=1e-12),
        "threshold": Tunable(private.THRESHOLD, private.THRESHOLD_SOURCE, minimum=0.0),
    },
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*log(n)*sqrt(d*k*log(d)*log(1/delta))/(sqrt(n)*epsilon)",
            "proved",
            "004 Theorem 4",
            conditions="m >= C*max(d^2/kappa_inf^2, n*epsilon^2/(d*log(n)^2*log(1/delta)))",
            when=("m >= C*n*epsilon^2/(d*log(n)^2*log(1/delta))",),
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*(log(n)*sqrt(d*k*log(d)*log(1/delta))/(sqrt(n)*epsilon) + sqrt(k*log(d)/m))",
            "proved",
            "004 Theorem 4 with the public term repaired",
            conditions="m >= C*d^2/kappa_inf^2",
        ),
        Bound(
            "l2-error",
            "order",
            "lower",
            "C*sqrt(d*k*log(d/k)/(n*epsilon^2))",
            "proved",
            "004 Theorem 1",
            conditions="epsilon-NLDP without public records, epsilon < 1",
            guarantees=("pure",),
            when=("epsilon < 1", "k >= 4*log(d)"),
        ),
    ),
    faults=(
        Fault(
            "004 Theorem 4, term T3: the covariance error is sqrt(log d/n)",
            "it is that of the m public records, sqrt(log d/m); a term C sqrt(k log d/m) is missing",
            "tests/algorithms/test_nldp_sparse_linear_regression.py::test_the_public_term_depends_on_m",
            "utility",
        ),
        Fault(
            "004 Algorithm 3: variance of the noise",
            "illegible in the document; 8 d tau1^2 tau2^2 log(1.25/delta)/epsilon^2 follows from the sensitivity, for epsilon <= 1",
            "tests/algorithms/test_nldp_sparse_linear_regression.py::test_the_classical_scale_of_algorithm_3",
            "text",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "64*d", "memory_bytes": "8*(m*d + d*d)"},
    reads="sums",
    spec="specs/sparse/nldp-sparse-linear-regression-public.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if "public" not in p.modifiers:
        return "it needs public records of x (`with public x (m = 10_000)`)"
    if p.facts.get("m", math.inf) <= p.d:
        return f"m = {p.facts['m']:g} public records cannot give an invertible covariance in dimension d = {p.d}"
    return private.accepts(p, t)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("xy", private.product_channel(p, t), per="user")


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    public = records.public_x
    if public is None:
        raise ValueError("the records come without public_x")
    r = t.r if t.product == "ball" else None
    b = release.mean_blocks("xy", private.dense_blocks(records, r))
    noise = (0.0, release.scale("xy") / math.sqrt(p.n))
    share = 2 * noise[1] / t.tau2  # of v as long as predictions of half of the clip allow: w^2 = tau2^2/(4 tr S)
    inverse = private.repaired_inverse(moment(public, r), "floor", private.least_eigenvalue(p, t, 0.0), share)
    return private.solve(inverse, b, noise, t.threshold)


def moment(public: Any, r: float | None, rows: int = 8192) -> Vector:
    """The second moment of the public rows, (d, d), each scaled into the ball of radius r where there is one."""
    total = np.zeros((public.shape[1], public.shape[1]))
    for start in range(0, public.shape[0], rows):
        block = public[start : start + rows]
        dense = np.array(block if isinstance(block, np.ndarray) else block.toarray(), dtype=np.float64)
        if r is not None:
            dense = clip_rows(dense, r)
        total += dense.T @ dense
    return np.asarray(total / public.shape[0])


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error of theta of length 1: soft thresholding at the noise that ``run`` would see for a covariance eig_min I (or I), plus the
    public term sqrt(k log d/m)."""
    public = math.sqrt(p.facts.get("k", p.d) * math.log(2 * p.d) / p.facts["m"]) if "m" in p.facts else 0.0
    return float(noise_of(p, t, calibrated) + public)


def noise_of(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The expected length of what noise and the threshold make of theta, before anything is shrunk."""
    sd = calibrated.scale("xy") / math.sqrt(p.n) / private.least_eigenvalue(p, t, 1.0)
    return float(math.sqrt(private.soft_risk(p.facts.get("k", p.d), p.d, t.threshold * math.sqrt(2 * math.log(2 * p.d)))) * sd)


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    if (e := noise_of(p, t, calibrated)) <= 1.0:
        return []
    return [
        f"noise makes an error of about {e:.3g} of a theta of length 1: the estimate is drawn towards 0, and being better than the zero "
        f"vector needs about n = {p.n * e * e:.2g} records"
    ]


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    if budget.kind != "approx":
        return ()
    from dpspec.privacy.gaussian import epsilon_of

    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    c = math.sqrt(8 * math.log(1.25 / delta)) / e
    return (
        Published(
            "004 Algorithm 3 (classical scale; printed value illegible)",
            "xy",
            "sqrt(8*d*log(1.25/delta))*tau1*tau2/epsilon",
            c * math.sqrt(p.d) * t.tau1 * t.tau2,
            epsilon_of(2 / c, delta),
            "" if e <= 1 else "the formula is proved for epsilon <= 1 only",
        ),
    )
