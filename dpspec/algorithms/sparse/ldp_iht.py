"""Sparse linear regression by iterative hard thresholding, sequentially interactive local model.

Users come in T disjoint batches and answer once each; user i of batch t clips its record and reports its gradient

    x_i*(<theta_{t-1}, x_i> - y_i)      through the hemisphere channel of radius R,

the server averages, steps, keeps the ``kept`` largest entries and projects on an l2 ball.

Source: 004, section 4.2, Algorithm 2 (isotropic covariance, default) and Appendix F, Algorithm 4 (``covariance = general``). It
rectifies 000, Algorithm 5.3.41, whose radius rests on |<x, theta>| <= 1: Hoelder gives sqrt(kept)*tau1 for a kept-sparse unit theta,

    R = sqrt(d)*tau1*(sqrt(kept)*tau1 + tau2)             (2*sqrt(kept)*tau1 for the radius-2 ball of Algorithm 4).

The radius is no privacy parameter: the channel scales whatever it is given into its ball, so every report is epsilon-LDP for any
record and any theta that the server may send. Too small a radius costs unbiasedness: ``radius = thesis`` (C*sqrt(d), C the declared
noise bound) is kept to show that, with the clipping that the thesis lacks.

``clip = residual`` (default) is not from the documents: the client scales x into the l2 ball of radius r and clips its residual
<x, theta> - y at tau_res, so R = min(r, sqrt(d)*tau1)*tau_res, and the rate is sqrt(d k/n)/epsilon, that of the lower bound. Neither
clip moves the point where the mean gradient is 0, as long as the noise of y is symmetric given x: at theta it is E s(x) x clip(noise) = 0.
They only shorten steps. So r = sigma_x sqrt(d) and tau_res = sigma_y, the sizes of a usual record, are the defaults, and not the largest of
n records: for Gaussian ones a step then goes 0.65 (noise of the size of y) to 1 of the way, times eta = 1.1. What is left after
T rounds is 0.2^T or less, what the last round adds grows like sqrt(T): T is where the first falls below the second at 8^-T.
``clip = gradient`` with kept = 8*k, T = log n is the printed algorithm.

Theorem 34 (general covariance) also needs a start within sqrt(eig_min/(2 eig_max)) of theta; 0 is one only for a short theta.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.sets import Vector, hard_threshold, project_l2, unkept
from dpspec.algorithms.sparse.nldp_sparse_linear_regression import TAU1
from dpspec.models.door import Door, Told
from dpspec.models.features import Feature
from dpspec.models.round_features import LinearGradient
from dpspec.models.rows import Rows
from dpspec.privacy.channels.hemisphere import Hemisphere
from dpspec.privacy.schedule import Disjoint, Draw, Tree

_CLIPS = "each client clips its own record and scales its gradient into the ball of the channel"
_EVIDENCE = "tests/algorithms/test_ldp_iht.py::"

LENGTH: Final = "min(x_l2, sigma_x*sqrt(d)) else x_l2 else sigma_x*sqrt(d) else sigma*sqrt(d) else sqrt(d)*tau1"
LENGTH_SOURCE: Final = "ours, for clip = residual: the root of E|x|^2, at most"
_EQUAL: Final = "log(1 + n*min(epsilon, 1)^2/(d*k))/(2*log(8))"
ROUNDS: Final = " else ".join(f"max(2, min(ceil(log(n)), ceil({a}{_EQUAL})))" for a in ("(eig_max/eig_min)*", ""))
ROUNDS_SOURCE: Final = "what is left of the start is as small as the noise sqrt(d k/n)/epsilon; 004 Theorem 7: T = O(log n)"

CARD = Card(
    id="ldp-iht",
    title="Iterative hard thresholding with one private gradient a user",
    family="sparse",
    task="estimate-theta",
    models=("sldp",),
    guarantees=("pure", "approx"),
    sources=(
        Source("004", "4.2", "Algorithm 2", ("Theorem 7",)),
        Source("004", "F", "Algorithm 4", ("Theorem 34",)),
        Source("000", "5.3.3", "Algorithm 5.3.41", ("Theorem 5.3.5",)),
    ),
    summary="Disjoint batches, hemisphere channel on clipped gradients, hard thresholding and projection on the server.",
    needs=(
        Need("x", "privacy", "the gradient has l2 norm at most R", enforced_by=_CLIPS),
        Need("y", "privacy", "the gradient has l2 norm at most R", enforced_by=_CLIPS),
        Need("sub-gaussian", "utility", "x and y are sub-Gaussian", of=("x", "y")),
        Need("sparse", "utility", "theta has at most k non-zeros and l2 norm at most 1"),
        Need(
            "isotropic",
            "utility",
            "the covariance of x is the identity; for covariance = general, its eigenvalues are in [eig_min, eig_max]",
        ),
    ),
    options={"covariance": ("isotropic", "general"), "clip": ("residual", "gradient"), "radius": ("rectified", "thesis")},
    tunables={
        "T": Tunable(ROUNDS, ROUNDS_SOURCE, integer=True, minimum=1),
        "tau1": Tunable(TAU1, "004 Theorem 7: O(sigma sqrt(log n)) (constant ours: the maximum of n d coordinates)", minimum=1e-12),
        "tau2": Tunable(
            "min(y_abs, sigma_y*sqrt(2*log(max(n, 2)))) else y_abs else sigma_y*sqrt(2*log(max(n, 2))) else sigma*sqrt(2*log(max(n, 2)))",
            "004 Theorem 7: O(sigma sqrt(log n)) (constant ours: the maximum of n responses)",
            minimum=1e-12,
        ),
        "r": Tunable(LENGTH, LENGTH_SOURCE, minimum=1e-12),
        "tau_res": Tunable(
            "min(y_abs, sigma_y) else sigma_y else sigma else min(y_abs, 2*sigma_x) else y_abs else 2*sigma_x else 1",
            "ours, for clip = residual: the size of y, which residuals are below for |theta_t - theta| <= |theta|",
            minimum=1e-12,
        ),
        "kept": Tunable("k", "the sparsity; 004 Theorem 7: 8 k, for worst-case designs", integer=True, minimum=1),
        "kept_general": Tunable("min(d, 72*(eig_max/eig_min)^2*k) else min(d, 8*k)", "004 Theorem 34", integer=True, minimum=1),
        "eta": Tunable("1.1", "004 Theorem 7: between 0.794 and 1.169 for RIP 0.1; clipped steps are a little short", minimum=0.0),
        "eta_general": Tunable("2/(3*eig_max) else 1", "004 Theorem 34", minimum=0.0),
    },
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*k*log(n)^(3/2)*sqrt(d*log(d))/(sqrt(n)*epsilon)",
            "proved",
            "004 Theorem 7",
            probability="1 - C*log(n)/d",
            conditions="isotropic x, epsilon = O(1), n/T >= C*sigma^4*k*log(d/k)",
            regime="C*T*sigma^4*k*(1 + log(d/k))",
            needs=("isotropic",),
            options={"covariance": "isotropic"},
            when=("epsilon <= C",),
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*k*sqrt(d*log(d))*log(n)^2/(sqrt(n)*epsilon)",
            "claimed",
            "004 Theorem 34",
            conditions="eigenvalues in [eig_min, eig_max], a start within sqrt(eig_min/(2*eig_max)) of theta, n >= C*k^2*d/epsilon^2",
            regime="C*k^2*d/epsilon^2",
            options={"covariance": "general"},
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*sqrt(d*k*log(d)*log(n))/(sqrt(n)*epsilon)",
            "refuted",
            "000 Theorem 5.3.5",
            conditions="its radius bounds <x, theta> by 1; for k = 1 it agrees with the rectified bound",
        ),
        Bound(
            "l2-error",
            "order",
            "lower",
            "C*sqrt(d*k/(n*epsilon^2))",
            "proved",
            "004 Theorem 6",
            conditions="epsilon-SLDP, epsilon < 1, k >= 8 log d, error below c/sqrt(k)",
            guarantees=("pure",),
            when=("epsilon < 1", "k >= 8*log(d)"),
        ),
    ),
    faults=(
        Fault(
            "000 Algorithm 5.3.41, proof of 5.3.9: |<x, theta>| <= |x|_inf |theta|_2 <= 1, radius O(C sqrt(p))",
            "<= |x|_inf |theta|_1 <= sqrt(s); gradients reach sqrt(p)(sqrt(s) + sqrt(s*) + C), the channel is biased below that radius",
            _EVIDENCE + "test_the_thesis_radius_biases_the_gradient",
            "utility",
        ),
        Fault(
            "000 Algorithm 5.3.41: the Bernoulli parameter 1/2 + |g|/(2r) is defined for every gradient",
            "it exceeds 1 for |g| > r; the client must clip (never raise, abstain or retry), then the report is epsilon-LDP for any r",
            "tests/algorithms/test_printed_leaks.py::test_a_bernoulli_parameter_above_one_stops_the_run",
            "privacy",
        ),
        Fault(
            "000 eq. (5.75), 004 eq. (6): the report has length O(r sqrt(p))",
            "E R(x) = x needs r (e^eps + 1)/(e^eps - 1) sqrt(pi) Gamma((p + 1)/2)/Gamma(p/2)",
            _EVIDENCE + "test_the_printed_length_is_biased",
            "utility",
        ),
        Fault(
            "000 Theorem 5.3.5: error O(sqrt(s* p log p T/n)/epsilon)",
            "the radius grows like sqrt(s*), so sqrt(s*) is s* (004 Theorem 7)",
            "docs/faults.md#radius-grows-with-sparsity",
            "utility",
        ),
        Fault(
            "004 Algorithm 4 starts at 0",
            "Theorem 34 needs |theta_0 - theta|^2 <= mu/(2 gamma)",
            "docs/faults.md#start-at-zero",
            "utility",
        ),
        Fault(
            "004 Algorithms 2 and 4: privacy rests on theta_{t-1} being k'-sparse and in the ball",
            "a server may send anything; each client scales its own gradient to the radius, so nothing rests on the server",
            "tests/algorithms/test_printed_leaks.py::test_a_bernoulli_parameter_above_one_stops_the_run",
            "privacy",
        ),
        Fault(
            "004 Theorem 7: clips sigma sqrt(log n) may come from the data",
            "gamma, mu, sigma and the clips must be declared or come from public data",
            "tests/algorithms/test_printed_leaks.py::test_a_threshold_or_a_clip_from_the_data_differs",
            "privacy",
        ),
    ),
    cost={"gradients": "n", "rounds": "T", "bits_per_user": "64*d", "memory_bytes": "8*65536*d"},
    reads="parts",
    spec="specs/sparse/ldp-iht.dps",
)

#: The conformance suite audits one user: of two only the k kept coordinates are seen, and the other's direction hides them.
AUDIT_RECORDS = 1


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.form != "linear":
        return "the model is not linear"
    if p.n < t.T:
        return f"T = {t.T} batches need at least as many users"
    if t.covariance == "general" and not {"eig_min", "eig_max"} <= p.facts.keys():
        return "covariance = general needs the spectrum (`assume eigenvalues in [a, b]`)"
    if t.radius == "thesis" and "noise_bound" not in p.facts:
        return "radius = thesis needs the bound of the noise (`assume noise-bounded(C)`)"
    return unkept(p, "l2", radius=2.0 if t.covariance == "general" else 1.0)


def gradient_radius(p: Problem, t: Tunables) -> float:
    """R: the largest l2 norm of a clipped user's gradient (of the thesis' model: C sqrt(d), which its gradients exceed)."""
    if t.radius == "thesis":
        return math.sqrt(p.d) * p.facts["noise_bound"]
    if t.clip == "residual":
        return min(float(t.r), math.sqrt(p.d) * float(t.tau1)) * float(t.tau_res)
    kept, ball = (t.kept_general, 2.0) if t.covariance == "general" else (t.kept, 1.0)
    return math.sqrt(p.d) * float(t.tau1) * (ball * math.sqrt(kept) * float(t.tau1) + float(t.tau2))


def schedule(p: Problem, t: Tunables) -> Tree:
    return Disjoint(Draw("gradient", Hemisphere(p.d, gradient_radius(p, t)), per="user"), t.T)


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    kept, eta, ball = (t.kept_general, t.eta_general, 2.0) if t.covariance == "general" else (t.kept, t.eta, 1.0)
    theta = np.zeros(p.d)
    for x, y in records.rounds(t.T):  # disjoint users
        gradient = release.mean_blocks("gradient", Told(gradients(x, y, theta, t), {"theta": theta}))
        theta = project_l2(hard_threshold(theta - eta * gradient, kept), ball)
    return Estimate(theta)


def gradients(x: Any, y: Vector, theta: Vector, t: Tunables, rows: int = 65_536) -> Iterator[Vector]:
    """What the clients of one batch hold before the channel, in blocks (users, d). Each row looks at one record only."""
    held = client_of(t)
    for start in range(0, len(y), rows):
        block = x[start : start + rows]
        yield held.gradients(block if isinstance(block, np.ndarray) else block.toarray(), y[start : start + rows], theta)


def client_of(t: Tunables) -> LinearGradient:
    residual = t.clip == "residual"
    return LinearGradient(float(t.tau1), float(t.tau2), float(t.tau_res) if residual else 0.0, float(t.r) if residual else 0.0)


def client(p: Problem, t: Tunables) -> dict[str, Feature]:
    return {"gradient": client_of(t)}


# --------------------------------------------------------------------------------------------------- what is known beforehand


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error: what is left of the start, 5^-T (clip = residual) or 2^-T, plus the noise of kept entries. The last round's stays; where
    steps are of the printed kind and not of the whole way, it counts twice, and the largest of d entries are kept."""
    kept, eta = (t.kept_general, t.eta_general) if t.covariance == "general" else (t.kept, t.eta)
    per_entry = calibrated.scale("gradient") / math.sqrt(p.d * (p.n // t.T))
    if t.clip == "residual" and t.covariance == "isotropic":
        return float(0.2**t.T + eta * math.sqrt(kept) * per_entry)
    noise: float = 2 * eta * math.sqrt(kept) * per_entry * math.sqrt(2 * math.log(max(p.d / kept, 1.0) + 1))
    return float(0.5**t.T + noise)


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    found = []
    per_entry = calibrated.scale("gradient") / math.sqrt(p.d * (p.n // t.T))
    kept = t.kept_general if t.covariance == "general" else t.kept
    if per_entry * math.sqrt(kept) > 0.5:
        found.append(
            f"each round's noise has l2 norm about {per_entry * math.sqrt(kept):.2g} on the {kept} kept entries, and |theta| <= 1: "
            f"it needs about n = {4 * p.n * kept * per_entry**2:.2g} records"
        )
    if t.radius == "thesis":
        found.append("radius = thesis is too small for its gradients: the reports are private and biased (000, Algorithm 5.3.41)")
    return found


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The length of a report as the documents print it: as private, and biased."""
    if budget.kind not in ("pure", "approx"):
        return ()
    r = gradient_radius(p, t)
    return (
        Published(
            "000 eq. (5.75), 004 eq. (6)",
            "gradient",
            "r*sqrt(d)",
            r * math.sqrt(p.d),
            float(budget.epsilon_exact),
            "length of a report up to a constant; unbiased only with (e^epsilon + 1)/(e^epsilon - 1)*sqrt(pi)*Gamma((d+1)/2)/Gamma(d/2)",
        ),
    )
