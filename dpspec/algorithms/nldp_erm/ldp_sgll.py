"""Smooth generalised linear losses from one Gaussian report a user (non-interactive local model).

The slope of the loss in u = <w, x> is A(u) + y B(u): -y h1'(u) + h2'(u) in the document's words, and of any loss where y has two values.
A and B are replaced by polynomials P_A, P_B of a degree p, Chebyshev series on the range [-U, U] of u. A user sends once

    z = (x, (r/tau) y) + N(0, s^2 I),        x scaled into the ball of radius r, y clipped at tau: sensitivity 2 sqrt(2) r,

and everything else is the server's. With H_k(v) = t^k He_k(v/t), t = s|w|, v = <w, z_x>, and y^ = (tau/r) z_y, P~ = P with H_k for u^k,

    g = (P~_A(v) + y^ P~_B(v)) z_x - s^2 (P~_A'(v) + y^ P~_B'(v)) w    has the mean    (P_A(<w, x>) + y P_B(<w, x>)) x

(H_k(v) has the mean <w, x>^k; Stein's identity for the rest). The printed scheme sends 1 + p(p + 1)/2 noisy copies of x and p + 1 of y,
one for every factor, with the budget split among them. One pass over T batches of b = n/T users, projected, averaged.

Error, *derived*: orthogonal to w, z_x is independent of v, and along w the two terms of g are the polynomial u P(u) with H_k for u^k. With
E P~(u + t N)^2 = sum_m t^2m P^(m)(u)^2/m!, S_m = max |P^(m)| on [-U, U], Q = max |w|, T_s = s Q, Y^2 = tau^2 + (tau s/r)^2 >= E y^^2,

    E|g|^2 <= V = (r^2 + (d - 1) s^2) K^2 + M^2,    K = k(P_A) + Y k(P_B),    M = m(P_A) + Y m(P_B),
    k(P)^2 = sum_m T_s^2m S_m^2/m!,        m(P)^2 = sum_m (r T_s^m S_m + m s T_s^(m-1) S_(m-1))^2/m!.

A step's gradient is off by at most gamma = max |slope - polynomials| per user, which costs gamma |<x, w - w*>| <= gamma r diameter. So for
independent records of one law and a convex loss, D the distance to cover, G the slope of the surrogate,

    E F(average) - min F <= gamma r diameter + D^2/(2 eta T) + eta (G^2 + V/b)/2.

V grows like s^2p and gamma falls like a power: ``degree = 0`` takes the degree of the least bound, 1 (a noisy least squares fit) unless the
budget or n is large.

Sources: 001, section 4, Algorithms 5 and 6, Lemmas 8 to 10, 12, Theorems 4 to 6, Propositions 1, 2; 000, Table 5.1 (smooth GLM, cited).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.polynomial import chebyshev

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.nldp_erm._polynomial_loss import across
from dpspec.algorithms.sets import Vector, constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.numeric.norms import clip_rows
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.schedule import Draw, Tree
from dpspec.symbolic.margin import MarginLoss, margin_functions
from dpspec.symbolic.normal import NoNormalForm

_EVIDENCE = "tests/algorithms/nldp_erm/test_ldp_sgll.py::"
_CLIPS = "each client clips its own record"

POPULATION: Final = "one pass over fresh users with polynomial slopes"
#: Beyond it noise of (s Q)^(2 degree) is above every loss.
HIGHEST: Final = 12
#: Of the cosine sums of Chebyshev coefficients.
NODES: Final = 200
#: Numbers of reports that a server keeps (8 GB).
MOST: Final = 10**9

CARD = Card(
    id="ldp-sgll",
    title="Smooth generalised linear losses from one noisy record a user",
    family="nldp_erm",
    task="minimise",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(
        Source("001", "4", "Algorithms 5, 6", ("Lemma 8", "Lemma 9", "Lemma 10", "Lemma 12", "Theorem 4", "Theorem 5", "Theorem 6")),
        Source("000", "5.1", "smooth generalised linear losses of Table 5.1 (cited)"),
    ),
    summary="Each user sends its record with Gaussian noise; the server takes unbiased gradients of Chebyshev polynomials of the slope.",
    needs=(
        Need("x", "privacy", "|x|_2 <= r", enforced_by=_CLIPS),
        Need("y", "privacy", "|y| <= tau", enforced_by=_CLIPS),
        Need("convex", "utility", "the loss is convex in w"),
        Need("smooth", "utility", "the slope of the loss has a derivative"),
    ),
    tunables={
        "r": Tunable(
            "x_l2 else sigma_x*(sqrt(d) + sqrt(2*log(n))) else 1", "the l2 norm of a record; 001: 1", minimum=1e-100, maximum=1e70
        ),
        "tau": Tunable("y_abs else sigma_y*sqrt(2*log(n)) else 1", "the range of y; 001: 1", minimum=1e-100, maximum=1e70),
        "degree": Tunable("0", "p; 0: of the least bound. 001: c log(8 r/alpha) + 2 mu_2", integer=True, minimum=0, maximum=HIGHEST),
        "T": Tunable("max(1, min(2000, floor(n/10)))", "batches of one pass: G^2/T far below V/n", integer=True, minimum=1),
    },
    bounds=(
        Bound(
            "excess-population-risk",
            "explicit",
            "upper",
            "bias + reach*sqrt(E/T)",
            "proved",
            POPULATION,
            conditions="in expectation; independent records that no client changes; gamma, G and V of the degree",
            where={
                "bias": "gamma*r*diameter, gamma the error of the polynomial slopes",
                "reach": "distance of the start to a point of the set, at most",
                "E": "second moment of a step, G^2 + V/floor(n/T)",
            },
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*(gamma + r*sqrt(d)*(1/epsilon)^(degree + 1)/sqrt(n))",
            "proved",
            "the same at a fixed degree",
            conditions="times powers of log(1/delta); epsilon <= 1",
            when=("epsilon <= 1",),
            where={"gamma": "error of the polynomial slopes"},
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*(gamma + sigma_0/sqrt(n) + degree^(2*degree + 1)*(4*r)^(degree + 1)/(epsilon^(degree + 2)*sqrt(n)))",
            "claimed",
            "001 Lemmas 9, 10",
            conditions="lacks a factor sqrt(d); sigma_0 the deviation of a gradient",
            where={"gamma": "error of the polynomial slopes", "sigma_0": "deviation of a gradient"},
        ),
    ),
    faults=(
        Fault(
            "001 Algorithm 5: every copy by Algorithm 1, noise for sensitivity 1",
            "two records differ by 2: the first call spends 0.366 of its 0.25, and all at p = 1 spend more than epsilon = 5",
            _EVIDENCE + "test_the_printed_copies_spend_otherwise_than_they_say",
            "privacy",
        ),
        Fault(
            "001 section 4: |x| <= 1 and |y| <= 1 are promises about the data",
            "a record outside moves its report without limit; every client clips",
            _EVIDENCE + "test_no_record_moves_a_report_by_more_than_its_sensitivity",
            "privacy",
        ),
        Fault(
            "001 Algorithm 6, line 8: r^(k+1) beside coefficients of h'(r u)",
            "r is applied twice: at r = 2, p = 3 off by 0.27 in the slope of the logistic loss; r once is right",
            _EVIDENCE + "test_the_printed_scale_is_applied_twice",
            "utility",
        ),
        Fault(
            "001 Lemma 12: var(z_0) <= O(1/epsilon^2)",
            "a vector of d noises: d/epsilon^2, so a factor d in n of Theorems 5 and 6",
            _EVIDENCE + "test_the_variance_is_bounded_and_grows_with_d",
            "utility",
        ),
        Fault(
            "001 Algorithm 5: 1 + (p + 1) + p (p + 1)/2 copies",
            "one report serves all powers, with a variance that is smaller by orders of magnitude",
            _EVIDENCE + "test_one_report_is_better_than_copies",
            "utility",
        ),
        Fault(
            "001 line 314: a Chebyshev series begins with 1/2",
            "with a_0/2, which is 0 for the logistic loss",
            _EVIDENCE + "test_the_series_has_no_constant_one_half",
            "utility",
        ),
        Fault(
            "001 Lemmas 8, 9: degrees k + e mu_2 and k + 2 mu_2; Lemma 12: coefficients of T_m at most sqrt(m) 2^m",
            "both are far above what an error needs; the coefficients grow like (1 + sqrt 2)^m. Degrees are measured here",
            _EVIDENCE + "test_measured_degrees_are_small",
            "utility",
        ),
        Fault(
            "001 Lemma 9: |(g - g^)(v - w)| <= gamma/2; Lemma 10 without beta R^2/k and R; Theorem 5 drops constants of p^(4p)",
            "gamma for |v - w| <= 2; the full form of Lemma 10",
            "docs/faults.md#inexact-oracle-constants",
            "text",
        ),
        Fault(
            "001 Algorithms 5, 6: z_yj in a loop over i, a gradient at w_s, no query point, `algorithm 7`, the name SGLD; h for h'",
            "z_yi, the query point, Algorithm 6; no Langevin noise is meant",
            "docs/faults.md#indices-of-the-synopses",
            "text",
        ),
    ),
    cost={"gradients": "n", "rounds": "1", "bits_per_user": "64*(d + 1)", "memory_bytes": "16*n*(d + 1)"},
    spec="specs/nldp_erm/ldp-sgll.dps",
)


# ----------------------------------------------------------------------------------------------------------------- the slope


@dataclass(frozen=True, slots=True)
class Slopes:
    """The slope A(u) + y B(u): ``f`` gives it at the labels ``low`` and ``high``, which B is the quotient of differences at."""

    f: MarginLoss
    low: float
    high: float

    def parts(self, u: Vector) -> tuple[Vector, Vector]:
        at_low, at_high = self.f.derivative(u, self.low), self.f.derivative(u, self.high)
        b = (at_high - at_low) / (self.high - self.low)
        return np.asarray(at_low - self.low * b), np.asarray(b)


def slopes(p: Problem, t: Tunables) -> Slopes | None:
    """None where the slope is not known to be linear in y: two labels, or a loss that is linear in it wherever <w, x> and y may be."""
    loss, y = getattr(p.task, "loss", None), p.domains.get("y")
    if loss is None or p.loss is None or p.loss.several:
        return None
    try:
        f = margin_functions(loss, dict(p.facts))
    except NoNormalForm:
        return None
    values = () if y is None or y.enforced.values is None else tuple(sorted(float(v) for v in y.enforced.values))
    if len(values) == 2:
        return Slopes(f, *values)
    far = float(p.facts.get("w_radius", constraint_set(p.task.over, p.facts).distance_bound(p.d))) * float(t.r)
    return Slopes(f, 0.0, 1.0) if _linear(f, far, float(t.tau)) else None


@functools.lru_cache(maxsize=64)
def _linear(f: MarginLoss, far: float, tau: float) -> bool:
    u = across(far)
    with np.errstate(all="ignore"):
        zero, one = f.derivative(u, 0.0), f.derivative(u, 1.0)
        return all(
            np.allclose(f.derivative(u, v), zero + v * (one - zero), rtol=1e-9, atol=1e-9 * max(1.0, abs(v)), equal_nan=True)
            for v in (-1.0, 0.5, 2.0, *np.linspace(-tau, tau, 33).tolist())
        )


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """P_A and P_B as power series in u/span, (p + 1,) each, ``gamma``, and their sizes span^m S_m, m = 0, ..., p."""

    a: Vector
    b: Vector
    gamma: float
    size_a: Vector
    size_b: Vector
    span: float


@functools.lru_cache(maxsize=256)
def fitted(f: Slopes, span: float, degree: int, tau: float) -> Fit:
    """The Chebyshev series on [-span, span] up to the degree, from :data:`NODES` nodes. gamma is taken on 4,001 points, and the largest
    difference of neighbours stands for what lies between them."""
    nodes = chebyshev.chebpts1(NODES)
    table = chebyshev.chebvander(nodes, degree) * 2 / NODES
    table[:, 0] /= 2
    series = [_cleaned(values @ table) for values in f.parts(span * nodes)]
    at = np.cos(np.linspace(0, math.pi, 4001))
    errors = [np.abs(chebyshev.chebval(at, c) - values) for c, values in zip(series, f.parts(span * at), strict=True)]
    off = errors[0] + tau * errors[1]
    powers = [np.asarray(np.pad(chebyshev.cheb2poly(c), (0, degree + 1))[: degree + 1], dtype=np.float64) for c in series]
    sizes = [np.array([np.abs(chebyshev.chebder(c, m)).sum() for m in range(degree + 1)]) for c in series]
    return Fit(powers[0], powers[1], float(off.max() + np.abs(np.diff(off)).max()), sizes[0], sizes[1], span)


def _cleaned(c: Vector) -> Vector:
    """What is rounding beside the largest coefficient is 0."""
    return np.where(np.abs(c) > 1e-13 * max(float(np.abs(c).max()), 1e-300), c, 0.0)


# ------------------------------------------------------------------------------------------------------- variance and degree


def variance(fit: Fit, d: int, s: float, r: float, tau: float) -> float:
    """V of the head of this file, of sets whose points have <w, x> in the span: there T_s^m S_m is (s/r)^m span^m S_m."""
    label, noise = tau * math.hypot(1.0, s / r), np.float64(s / r)
    with np.errstate(over="ignore"):
        across = _across(fit.size_a, noise) + label * _across(fit.size_b, noise)
        along = _along(fit.size_a, noise) + label * _along(fit.size_b, noise)
        return float((r * r + (d - 1) * s * s) * across**2 + (r * along) ** 2)


def _across(sizes: Vector, noise: np.float64) -> np.float64:
    """k(P)."""
    return np.float64(np.sqrt(sum(noise ** (2 * m) * size**2 / math.factorial(m) for m, size in enumerate(sizes))))


def _along(sizes: Vector, noise: np.float64) -> np.float64:
    """m(P)/r."""
    own, below = np.append(sizes, 0.0), np.append(0.0, sizes)
    return np.float64(np.sqrt(sum(noise ** (2 * m) * (own[m] + m * below[m]) ** 2 / math.factorial(m) for m in range(len(own)))))


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    degree: int
    fit: Fit
    step: float
    bias: float
    noise: float


def choose(p: Problem, t: Tunables, s: float) -> Choice:
    """The degree of the option, or that of the least bound, with the step that is best for it."""
    f, over = slopes(p, t), constraint_set(p.task.over, p.facts)
    assert f is not None
    assert p.loss is not None
    far, reach, width = float(p.facts.get("w_radius", over.distance_bound(p.d))), over.distance_bound(p.d), over.diameter(p.d)
    found: list[Choice] = []
    for degree in [int(t.degree)] if t.degree else range(1, HIGHEST + 1):
        fit = fitted(f, far * t.r, degree, t.tau)
        g = t.r * float(fit.size_a[0] + t.tau * fit.size_b[0]) + p.loss.l2 * far
        second = g * g + variance(fit, p.d, s, t.r, t.tau) / (p.n // t.T)
        found.append(Choice(degree, fit, reach / math.sqrt(t.T * second), fit.gamma * t.r * width, reach * math.sqrt(second / t.T)))
        if found[-1].noise > min(c.bias + c.noise for c in found):
            break
    return min(found, key=lambda c: c.bias + c.noise)


# ----------------------------------------------------------------------------------------------------------------------- runs


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.loss is None:
        return "the loss has no certificate"
    if slopes(p, t) is None:
        return "the slope of the loss is not linear in y: it takes two labels (`y in {-1, 1} by map(-1 -> -1, 1 -> 1)`) or -y*h1(u) + h2(u)"
    if not p.loss.smooth_penalty:
        return "its steps know a ridge term, and no l1 or group term"
    over = constraint_set(p.task.over, p.facts)
    if not (over.convex and 0 < over.distance_bound(p.d) < math.inf):
        return "a polynomial is near the slope over a bounded range only: the set has to be bounded and convex (`over ball(l2, 1)`)"
    if p.n * (p.d + 1) > MOST:
        return f"the server keeps n*(d + 1) = {p.n * (p.d + 1):.3g} numbers of reports; the limit is {MOST:.0e}"
    if p.n < t.T:
        return f"T = {t.T} batches need at least as many users"
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    """One draw of (x, (r/tau) y), of norm at most sqrt(2) r up to the rounding of the client."""
    return Draw("record", GaussianVector(p.d + 1, math.sqrt(2.0) * t.r * (1 + 2.0**-40)), per="user")


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    assert p.loss is not None
    z = release.reports("record", np.concatenate(list(held(records, t))))
    s, over = release.scale("record"), constraint_set(p.task.over, p.facts)
    c = choose(p, t, s)
    w, total = over.start(p.d), np.zeros(p.d)
    cuts = np.arange(int(t.T) + 1) * (len(z) // int(t.T))
    for k in range(int(t.T)):  # the bound is about the average of the points at which gradients are taken
        total += w
        mine = z[cuts[k] : cuts[k + 1]]
        g = gradient(c.fit, mine[:, :-1], mine[:, -1] * (t.tau / t.r), w, s)
        w = over.project(w - c.step * (g + p.loss.l2 * w))
    return Estimate(over.project(total / t.T) if t.T > 1 else w, {"degree": c.degree})


def held(records: Rows, t: Tunables, rows: int = 8192) -> Iterator[Vector]:
    """(x, (r/tau) y) of each user with both parts clipped, (users, d + 1). A part that is not finite is 0."""
    for x, y in records.blocks(rows):
        dense = np.array(x if isinstance(x, np.ndarray) else x.toarray(), dtype=np.float64)
        dense[~np.isfinite(dense).all(axis=1)] = 0.0
        last = np.clip(np.where(np.isfinite(y), y, 0.0), -t.tau, t.tau) * (t.r / t.tau)
        yield np.column_stack([clip_rows(dense, t.r), last])


def hermite(c: Vector, v: Vector, t: float) -> tuple[Vector, Vector]:
    """P~ and its derivative at v: H_0 = 1, H_1 = v, H_(k+1) = v H_k - k t^2 H_(k-1), H_k' = k H_(k-1)."""
    value, slope = np.full_like(v, c[0]), np.zeros_like(v)
    before, now = np.ones_like(v), v.copy()
    for k in range(1, len(c)):
        value += c[k] * now
        slope += k * c[k] * before
        before, now = now, v * now - k * t * t * before
    return value, slope


def gradient(fit: Fit, z: Vector, y: Vector, w: Vector, s: float) -> Vector:
    """The mean of g over reports z of x, (b, d), and y, (b,). Shape (d,)."""
    o = w / fit.span
    v, t = z @ o, s * float(np.linalg.norm(o))
    (a, da), (b, db) = hermite(fit.a, v, t), hermite(fit.b, v, t)
    return np.asarray((a + y * b) @ z / len(z) - s * s * float((da + y * db).mean()) * o)


# --------------------------------------------------------------------------------------------------- what is known beforehand


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """Where no client changes a record, for convex losses. The average of one batch is the start, and its step is returned unproved."""
    assert p.loss is not None
    f = p.facts
    if not (t.T > 1 and p.loss.convex and t.r >= f.get("x_l2", math.inf) * (1 - 1e-12) and t.tau >= f.get("y_abs", math.inf) * (1 - 1e-12)):
        return {}
    c = choose(p, t, calibrated.scale("record"))
    return {POPULATION: c.bias + c.noise} if math.isfinite(c.bias + c.noise) else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    c = choose(p, t, calibrated.scale("record"))
    reach = constraint_set(p.task.over, p.facts).distance_bound(p.d)
    return {POPULATION: {"bias": c.bias, "reach": reach, "E": t.T * (c.noise / reach) ** 2}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """A quarter of the bound, as for other single passes, and no more than a quarter of what any point of the set has at most."""
    assert p.loss is not None
    c = choose(p, t, calibrated.scale("record"))
    return float(min(c.bias + c.noise, p.loss.lipschitz * constraint_set(p.task.over, p.facts).diameter(p.d))) / 4


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    assert p.loss is not None
    c = choose(p, t, calibrated.scale("record"))
    half = p.loss.lipschitz * constraint_set(p.task.over, p.facts).diameter(p.d) / 8
    if c.noise <= half or not math.isfinite(half):
        return []
    needed = p.n * (c.noise / half) ** 2
    return [
        f"gradients of degree {c.degree} are so noisy that the bound has {c.noise:.3g} for them: about n = {needed:.2g} users would do;"
        f" every degree more multiplies that by about {calibrated.scale('record') ** 2:.2g}"
    ]


def synopsis(epsilon: float, delta: float, degree: int) -> float:
    """mu of all copies of 001, Algorithm 5, as printed: noise for sensitivity 1 at (epsilon/4, delta/4), p + 1 labels at
    (epsilon/4, delta/4)/(p + 1) and p(p + 1)/2 copies at (epsilon, delta)/(p(p + 1)); two records differ by 2 in each."""
    n, m = degree + 1, degree * (degree + 1)
    parts = ((1, 4.0), (n, 4.0 * n), (m // 2, float(m)))
    return math.sqrt(sum(count * (2 * epsilon / share) ** 2 / (2 * math.log(1.25 * share / delta)) for count, share in parts))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """001, Algorithm 5, at the degree of the option, or 1; in units of r."""
    if budget.kind != "approx":
        return ()
    from dpspec.privacy.gaussian import epsilon_of

    e, delta, degree = float(budget.epsilon_exact), float(budget.delta_exact), max(int(t.degree), 1)
    m = degree * (degree + 1)
    scale = m * math.sqrt(2 * math.log(1.25 * m / delta)) / e * t.r
    remark = f"{1 + degree + 1 + m // 2} copies at p = {degree}, composed exactly; each call spends more than it says"
    formula = "p*(p + 1)*sqrt(2*log(1.25*p*(p + 1)/delta))*r/epsilon"
    return (Published("001 Algorithm 5", "record", formula, scale, epsilon_of(synopsis(e, delta, degree), delta), remark),)
