"""Sparse regression with a known non-linear link, one private gradient a user (sequentially interactive local model).

Users come in T disjoint batches; user i of batch t clips its record (coordinates of x at tau1, y to f(0) +- y_clip) and reports

    x_i*(f(<x_i, theta_{t-1}>) - y_i)*f'(<x_i, theta_{t-1}>)     through the hemisphere channel of radius R;

the server averages, steps, keeps ``kept`` entries and projects on the l2 ball of radius ``ball``. Source: 000, section 5.3.5, Algorithm
5.3.44, Theorem 5.3.9. Its radius b C sqrt(d) bounds <x, theta> by 1 and y by C; with |f(u) - y| <= b|u| + |y - f(0)| it is

    R = sqrt(d)*tau1*b*(b*ball*sqrt(kept)*tau1 + y_clip).

The radius is no privacy parameter: the client scales whatever gradient it holds into the ball, so the report is epsilon-LDP for any record,
any theta and any link. ``clip = residual`` (default, not from the documents; argument in ldp-iht) scales x into the ball of radius r and
clips f(<x, theta>) - y at tau_res: R = min(r, sqrt(d)*tau1)*b*tau_res, a usual record's and not the largest of n, with shorter steps and
a fixed point that stays. ``clip = gradient`` with T = log n is the printed algorithm with its radius corrected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.sets import Vector, hard_threshold, project_l2, shrink, unkept
from dpspec.algorithms.sparse import _link as links
from dpspec.algorithms.sparse.ldp_iht import LENGTH, LENGTH_SOURCE, ROUNDS, ROUNDS_SOURCE
from dpspec.algorithms.sparse.nldp_sparse_linear_regression import TAU1
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.numeric.norms import clip_rows
from dpspec.privacy.channels.hemisphere import Hemisphere
from dpspec.privacy.schedule import Disjoint, Draw, Tree

_CLIPS = "each client clips its own record and scales its gradient into the ball of the channel"
_EVIDENCE = "tests/algorithms/sparse/test_nonlinear.py::"

CARD = Card(
    id="ldp-iht-nonlinear",
    title="Iterative hard thresholding with a known link, one private gradient a user",
    family="sparse",
    task="estimate-theta",
    models=("sldp",),
    guarantees=("pure", "approx"),
    sources=(Source("000", "5.3.5", "Algorithm 5.3.44", ("Theorem 5.3.9",)),),
    summary="Disjoint batches, hemisphere channel on clipped gradients of the squared loss through the link.",
    needs=(
        Need("x", "privacy", "the gradient has l2 norm at most R", enforced_by=_CLIPS),
        Need("y", "privacy", "the gradient has l2 norm at most R", enforced_by=_CLIPS),
        links.MONOTONE,
        Need("rip", "utility", "each batch has RIP of order kept + k with D <= (9 a^2 - 5 b^2)/(9 a^2 + 5 b^2)"),
        Need("sparse", "utility", "theta has at most k non-zeros and l2 norm at most ball"),
    ),
    options={"clip": ("residual", "gradient")},
    tunables={
        **links.SLOPES,
        "T": Tunable(ROUNDS, ROUNDS_SOURCE.replace("004 Theorem 7", "000 Theorem 5.3.9"), integer=True, minimum=1),
        "tau1": Tunable(TAU1, "x of the thesis lies in the cube (1); else the maximum of n d coordinates", minimum=1e-12),
        "ball": Tunable("w_radius else 1", "000: |theta| <= 1", minimum=1e-12),
        "y_clip": Tunable(
            "slope_max*tau1*ball*sqrt(k) + noise_bound else slope_max*tau1*ball*sqrt(k) + sigma_y*sqrt(2*log(n))"
            " else slope_max*tau1*ball*sqrt(k) + sigma*sqrt(2*log(n))",
            "half-width of the responses around f(0)",
            minimum=1e-12,
        ),
        "r": Tunable(LENGTH, LENGTH_SOURCE, minimum=1e-12),
        "tau_res": Tunable(
            "slope_max*ball*sigma_x/2 + noise_bound else slope_max*ball*sigma_x/2 else slope_max*ball*sigma/2 else slope_max*ball",
            "ours, for clip = residual: half of the size of f(<x, theta>) - y at theta_t = 0; first steps are shorter, last ones not",
            minimum=1e-12,
        ),
        "kept": Tunable("k", "the sparsity; 000 Theorem 5.3.9: 8 k, for worst-case designs", integer=True, minimum=1),
        "eta": links.ETA,
    },
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*sqrt(k)*(sqrt(k) + noise_bound/slope_max)*sqrt(d*log(n)*log(d))/(sqrt(n)*epsilon)",
            "proved",
            "000 Theorem 5.3.9, with the radius corrected",
            probability="1 - C*log(n)/d",
            conditions="eta of order 1/slope_max^2, RIP as above, epsilon = O(1), n/log(n) >= C*d*k*log(d)/epsilon^2",
            regime="C*d*k*log(d)*log(n)/epsilon^2",
            when=("epsilon <= C",),
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*sqrt(d*log(d)*log(n)*k)/(sqrt(n)*epsilon)",
            "refuted",
            "000 Theorem 5.3.9",
            conditions="its radius bounds <x, theta> by 1",
        ),
        Bound(
            "l2-error",
            "order",
            "lower",
            "C*sqrt(d*k/(n*epsilon^2))",
            "claimed",
            "004 Theorem 6 for the identity link",
            conditions="epsilon-SLDP, epsilon < 1, k >= 8 log d; slopes of order one",
            guarantees=("pure",),
            when=("epsilon < 1", "k >= 8*log(d)"),
        ),
    ),
    faults=(
        *links.FAULTS,
        Fault(
            "000 Algorithm 5.3.44: radius O(b C sqrt(d))",
            "|f(<x, theta>) - y| reaches b sqrt(kept) + b sqrt(k) + C: the channel is biased below b sqrt(d) times that",
            _EVIDENCE + "test_no_gradient_leaves_the_radius_and_one_attains_it",
            "utility",
        ),
        Fault(
            "000 Algorithm 5.3.44: the Bernoulli parameter 1/2 + |g|/(2r) is defined for every gradient",
            "it exceeds 1 for |g| > r; the client clips, never raises or abstains, and then every report is epsilon-LDP",
            "tests/algorithms/test_printed_leaks.py::test_a_bernoulli_parameter_above_one_stops_the_run",
            "privacy",
        ),
        Fault(
            "000: |f(1) - y| = O(C)",
            "f(0) is free: the responses are clipped around f(0)",
            _EVIDENCE + "test_responses_are_clipped_around_f_0",
            "utility",
        ),
    ),
    cost={"gradients": "n", "rounds": "T", "bits_per_user": "64*d", "memory_bytes": "8*8192*d"},
    reads="parts",
    spec="specs/sparse/ldp-iht-nonlinear.dps",
)

#: The conformance suite audits one user: of two only the k kept coordinates are seen, and the other's direction hides them.
AUDIT_RECORDS = 1


#: Why the collector has no client for it.
NO_CLIENT = "a device has no expressions, and the link f is one of the spec's own; of linear models ldp-iht has clients"


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.form == "nonlinear" and p.n < t.T:
        return f"T = {t.T} batches need at least as many users"
    return unkept(p, "l2", radius=t.ball) or links.refusal(p, t, t.ball * t.tau1 * math.sqrt(t.kept))


def gradient_radius(p: Problem, t: Tunables) -> float:
    """R: the largest l2 norm of a clipped user's gradient."""
    if t.clip == "residual":
        return float(min(t.r, math.sqrt(p.d) * t.tau1) * t.slope_max * t.tau_res)
    return float(math.sqrt(p.d) * t.tau1 * t.slope_max * (t.slope_max * t.ball * math.sqrt(t.kept) * t.tau1 + t.y_clip))


def schedule(p: Problem, t: Tunables) -> Tree:
    return Disjoint(Draw("gradient", Hemisphere(p.d, gradient_radius(p, t)), per="user"), t.T)


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    slope, centre = links.slope(p), links.at_zero(p)
    theta = np.zeros(p.d)
    for x, y in records.rounds(t.T):  # disjoint users
        gradient = release.mean_blocks("gradient", gradients(x, y, theta, t, slope, centre))
        theta = project_l2(hard_threshold(theta - t.eta * gradient, t.kept), t.ball)
    return Estimate(theta)


def gradients(x: Any, y: Vector, theta: Vector, t: Tunables, slope: links.Slope, centre: float, rows: int = 8192) -> Iterator[Vector]:
    """What the clients of one batch hold before the channel, in blocks (users, d). Each row looks at one record only."""
    for start in range(0, len(y), rows):
        block = x[start : start + rows]
        clipped = shrink(block if isinstance(block, np.ndarray) else block.toarray(), t.tau1)
        u, target = clipped @ theta, centre + shrink(y[start : start + rows] - centre, t.y_clip)
        factor = slope(u, target)
        if t.clip == "residual":
            f_prime = slope(u, np.zeros_like(u)) - slope(u, np.ones_like(u))
            factor = shrink(factor / f_prime, t.tau_res) * f_prime
            clipped = clip_rows(clipped, t.r)
        clipped *= factor[:, None]
        yield clipped


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error: what is left of the start, 5^-T (clip = residual) or 2^-T, plus the noise of kept entries, as in ldp-iht."""
    per_entry = calibrated.scale("gradient") / math.sqrt(p.d * (p.n // t.T))
    if t.clip == "residual":
        return float(0.2**t.T * t.ball + t.eta * math.sqrt(t.kept) * per_entry)
    return float(0.5**t.T * t.ball + 2 * t.eta * math.sqrt(t.kept * 2 * math.log(p.d / t.kept + 1)) * per_entry)
