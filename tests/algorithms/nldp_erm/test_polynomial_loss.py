"""hinge-loss-ldp and general-linear-ldp: reports in exact arithmetic, unbiased gradients by quadrature, the bound, the faults."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from dpspec.algorithms.nldp_erm import _polynomial_loss as shared
from dpspec.algorithms.nldp_erm import general_linear_ldp as general
from dpspec.algorithms.nldp_erm import hinge_loss_ldp as hinge
from dpspec.algorithms.nldp_erm import interactive_ldp_sgd as interactive
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.privacy.calibrate import Budget, calibrate
from dpspec.privacy.schedule import draws
from dpspec.tasks.protocol import Binding
from dpspec.tasks.registry import of
from tests import leak
from tests.algorithms.support import study

SPEC = """analysis "a"
data
  n = {n}, d = 2
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {y}
privacy nldp
  epsilon = {epsilon}, delta = 1e-5
release w
  minimise {loss} over ball(l2, {radius})
  by {by}
"""
SIGNS, NUMBERS = "{-1, 1} by map(-1 -> -1, 1 -> 1)", "[-1, 1] by clip"


def release_of(loss: str, by: str, *, n: int = 1000, y: str = SIGNS, epsilon: float = 1.0, radius: float = 1.0) -> Any:
    text = SPEC.format(n=n, y=y, epsilon=epsilon, loss=loss, radius=radius, by=by)
    draft = compile_draft(parse_text(text, path="a.dps", surface="dps"))
    return draft, draft.releases[0]


@pytest.fixture(scope="module")
def margin() -> Any:
    return release_of("smooth-hinge(0.25, 0.5)", "hinge-loss-ldp", n=20_000, epsilon=8.0)


@pytest.fixture(scope="module")
def residual() -> Any:
    return release_of("huber(0.2)", "general-linear-ldp", n=20_000, y=NUMBERS, epsilon=8.0)


def exact_epsilon(mu: float, delta: float = 1e-5) -> float:
    def gap(e: float) -> float:
        return float(norm.cdf(mu / 2 - e / mu) - math.exp(e + norm.logcdf(-mu / 2 - e / mu)) - delta)

    return float(brentq(gap, 0.0, mu * mu + 20 * mu + 20))


class NoNoise:
    def add_gaussian(self, x, scale, *, sensitivity, dim):
        return x


NASTY = [0.0, 5e-324, 0.6, -2.0, 1e154, -1.7e308, math.inf, math.nan, 1.0]


@pytest.mark.parametrize("which", ["margin", "residual"])
def test_no_record_moves_a_report_by_more_than_its_sensitivity(which, request):
    _, r = request.getfixturevalue(which)
    channel = draws(r.tree)["record"].draw.mechanism
    sent = set()
    for a, b, y in itertools.product(NASTY, NASTY, [0.0, 1.0, -1.0, 1e308, math.nan]):
        (v,) = shared.held(Records(np.array([[a, b]]), np.array([y])), r.tunables, which)
        sent.add(tuple(Fraction(float(x)) for x in channel.encode(v, 1.0, NoNoise())[0]))
    largest = max(sum((p - q) ** 2 for p, q in zip(u, v, strict=True)) for u in sent for v in sent)
    assert largest <= Fraction(channel.sensitivity) ** 2
    assert largest >= (Fraction(99, 100) * Fraction(channel.sensitivity)) ** 2
    far = np.array([6.0, 8.0])  # as printed nothing is clipped: a record of length 10 against its opposite, noise for the unit ball
    leak.moved(float(np.linalg.norm(far + far)), 2.0)


def test_the_printed_copies_spend_more_than_they_say():
    """Gaussian composition of 2(N + 1) copies of sensitivity 2 at the printed variances, by scipy, delta 1e-5."""
    for epsilon, p, spent in ((3.0, 1, 3.19), (20.0, 2, 22.5), (1.0, 2, 0.68)):
        many, log = p * (p + 1), math.log(1.25e5)
        variances = [32 * log / epsilon**2] * 2 + [8 * log * many**2 / epsilon**2] * (2 * many)
        found = exact_epsilon(math.sqrt(sum(4 / v for v in variances)))
        assert found == pytest.approx(spent, rel=5e-3)
        assert shared.copies_spend(epsilon, 1e-5, p) == pytest.approx(found, rel=1e-6)
        if found > epsilon:
            leak.epsilon(found, epsilon, 1e-5)


def test_printed_nodes_diverge_on_the_negative_half():
    """f_b'(u) for b = 1/4 by Bernstein nodes j/p on [0, 1], at u in [-1, 1], and by nodes over [-1, 1]."""

    def slope(x: np.ndarray) -> np.ndarray:
        return (-1 + (x - 0.5) / np.sqrt((x - 0.5) ** 2 + 0.0625)) / 2

    u = np.linspace(-1, 1, 401)
    for p, printed, repaired in ((16, 48, 0.12), (32, 5e4, 0.07)):
        j = np.arange(p + 1)
        choose = np.array([math.comb(p, i) for i in j], dtype=float)
        wild = (slope(j / p) * choose * u[:, None] ** j * (1 - u[:, None]) ** (p - j)).sum(axis=1)
        tame = binom.pmf(j, p, (1 + u[:, None]) / 2) @ slope(2 * j / p - 1)
        assert np.abs(wild - slope(u)).max() == pytest.approx(printed, rel=0.1)
        assert np.abs(tame - slope(u)).max() < repaired


def test_a_place_for_every_factor_is_biased():
    """h'((u - s)/2) at width 0.1: the mean over s = +-0.8 against the value at the mean of s, which independent places estimate."""

    def slope(z: float) -> float:
        return (1 + z / math.hypot(z, 0.1)) / 2

    assert np.mean([slope((0.6 - s) / 2) for s in (-0.8, 0.8)]) == pytest.approx(0.571, abs=1e-3)
    assert slope(0.3) == pytest.approx(0.974, abs=1e-3)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_gradients_are_unbiased_and_no_more_varied_than_stated(degree):
    """g over Gaussian noise in two dimensions, by quadrature of order 12, which is exact: its mean is p(<o, v>) v, and E|g|^2 <= V."""
    p, s = np.array([0.3, -0.7, 0.4, 0.2])[: degree + 1], 0.8
    o, v = np.array([0.6, -0.3]), np.array([0.5, 0.7])
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    weights = weights / weights.sum()
    mean, square = np.zeros(2), 0.0
    for (a, wa), (b, wb) in itertools.product(zip(nodes, weights, strict=True), repeat=2):
        g = shared.gradient(p, (v + s * np.array([a, b]))[None, :], o, s)
        mean += wa * wb * g
        square += wa * wb * float(g @ g)
    assert mean == pytest.approx(np.polynomial.polynomial.polyval(o @ v, p) * v, rel=1e-9)
    u = np.linspace(-1, 1, 2001)
    sizes = [np.abs(np.polynomial.polynomial.polyval(u, np.polynomial.polynomial.polyder(p, m))).max() for m in range(degree + 1)]
    z = shared.Sizes(2, 1.0, 1.0, 0.0, 1.0)
    assert square <= shared.variance(shared.Surrogate(p, 0.0, np.array(sizes)), z, s)


@pytest.mark.parametrize("approximation", ["uniform", "bernstein"])
def test_the_polynomial_is_convex_and_as_near_as_stated(approximation):
    for f, u in ((np.abs, 1.0), (lambda v: np.maximum(0, 0.5 - v), 1.0), (lambda v: np.logaddexp(0, -v), 3.0)):
        errors = []
        for degree in (1, 3, 5):
            fit = shared.surrogate(f, u, degree, approximation)
            at = np.linspace(-u, u, 3001)
            slope = np.polynomial.polynomial.polyval(at, fit.p)
            assert np.diff(slope).min() > -1e-7
            value = np.polynomial.polynomial.polyval(at, np.polynomial.polynomial.polyint(fit.p)) - f(at)
            assert (value.max() - value.min()) / 2 <= fit.error  # up to a constant, which moves no minimiser
            assert np.abs(slope).max() == pytest.approx(fit.sizes[0], rel=1e-4)
            errors.append(fit.error)
        assert errors[-1] < errors[0]
    assert shared.surrogate(np.abs, 1.0, 1, "uniform").error == pytest.approx(1 / 8, abs=1e-3)  # u^2 + 1/8


def test_a_linear_loss_is_its_own_polynomial():
    fit = shared.surrogate(lambda v: 0.3 * v, 1.0, 1, "uniform")
    assert fit.p == pytest.approx([0.3, 0.0], abs=1e-9)


def test_the_printed_degree_is_out_of_reach(margin):
    """32/alpha^3 = 256 at alpha = 1/2; at degree 11 the bound at n = 1e9 and epsilon 1 is above any loss already, and 12 is refused."""
    _, r = release_of("smooth-hinge(0.25, 0.5)", "hinge-loss-ldp with degree = 11", n=10**8)
    (bound,) = hinge.explicit_bounds(r.problem, r.tunables, Scale(2.0 / 0.27)).values()
    assert bound > 1e6
    assert 32 / 0.5**3 == 256
    draft, _ = release_of("smooth-hinge(0.25, 0.5)", "hinge-loss-ldp with degree = 12")
    assert any("degree" in d.message for d in draft.diagnostics if d.severity == "error")


class Scale:
    def __init__(self, value: float) -> None:
        self.value = value

    def scale(self, name: str) -> float:
        return self.value


def law(n: int, which: str, seed: int) -> Records:
    g = np.random.default_rng(seed)
    angle = g.uniform(0, 2 * math.pi, n)
    x = np.column_stack([np.cos(angle), np.sin(angle)])
    u = x @ np.array([0.6, -0.5])
    if which == "margin":
        return Records(x, np.where(g.random(n) < 1 / (1 + np.exp(-8 * u)), 1.0, -1.0))
    return Records(x, np.clip(u + 0.1 * g.normal(size=n), -1, 1))


@pytest.mark.parametrize("server", ["average", "sigm"])
@pytest.mark.parametrize("which", ["margin", "residual"])
def test_the_population_bound_holds(which, server, request):
    """The mean over four runs of the excess over the best point of a lattice of the disc, by fresh records; both servers, and half of what
    the zero vector has at most."""
    _, r = request.getfixturevalue(which)
    module = hinge if which == "margin" else general
    t = type(r.tunables)({**r.tunables, "server": server})
    c = calibrate(r.tree, Budget(epsilon="8", delta="0.00001"))
    fresh = law(4000, which, 99)

    def risk(w: np.ndarray) -> float:
        u = fresh.x @ w
        if which == "margin":
            z = fresh.y * u
            return float(np.mean((0.5 - z + np.sqrt((0.5 - z) ** 2 + 0.0625)) / 2))
        s = np.abs(u - fresh.y)
        return float(np.mean(np.where(s <= 0.2, s**2 / 2, 0.2 * (s - 0.1))))

    lattice = [np.array([a, b]) for a, b in itertools.product(np.linspace(-1, 1, 21), repeat=2) if a * a + b * b <= 1]
    least = min(risk(w) for w in lattice)
    excess = np.mean([risk(study(module, law(20_000, which, s), r.problem, t, c, s).theta) - least for s in range(4)])
    bounds = module.explicit_bounds(r.problem, r.tunables, c)
    assert excess <= bounds[shared.POPULATION]
    assert excess < (risk(np.zeros(2)) - least) / 2
    assert (module.explicit_bounds(r.problem, t, c) == {}) == (server == "sigm")


def test_what_they_cannot_serve_is_said():
    for loss, by, y, word in (
        ("logistic", "hinge-loss-ldp", SIGNS, "general-linear-ldp takes"),
        ("sigmoid", "general-linear-ldp", SIGNS, "not convex"),
        ("logistic + 0.1*|w|_1", "general-linear-ldp", SIGNS, "l1"),
    ):
        draft, _ = release_of(loss, by, y=y)
        assert any(word in d.message for d in draft.diagnostics), [d.message for d in draft.diagnostics]


def test_each_report_is_used_once(margin):
    """Batches cut the reports into T consecutive parts that cover every row once."""
    _, r = margin
    cuts = np.linspace(0, r.problem.n, int(r.tunables.T) + 1).astype(int)
    assert (cuts[0], cuts[-1]) == (0, 20_000)
    assert np.diff(cuts).min() >= 1


def test_rounds_beat_one_report(margin):
    """The same loss, law and budget with one gradient a user in rounds: over six samples the excess is lower by more than its 95 % interval
    (paired), since nothing stays of a polynomial and gradients carry less noise than records."""
    _, r = margin
    text = SPEC.replace("privacy nldp", "privacy sldp").format(
        n=20_000, y=SIGNS, epsilon=8.0, loss="smooth-hinge(0.25, 0.5)", radius=1.0, by="interactive-ldp-sgd"
    )
    draft = compile_draft(parse_text(text, path="a.dps", surface="dps"))
    other = draft.releases[0]
    p = replace(
        other.problem,
        oracle=of(other.problem.task).bind(
            Binding(other.problem.task, other.problem, other.certificate, other.problem.facts, draft.analysis, draft.domains)
        ),
    )
    gaps = []
    for seed in range(6):
        records, c = law(20_000, "margin", seed), calibrate(r.tree, Budget(epsilon="8", delta="0.00001"))
        once = study(hinge, records, r.problem, r.tunables, c, seed).theta
        rounds = study(interactive, records, p, other.tunables, calibrate(other.tree, Budget(epsilon="8", delta="0.00001")), seed).theta
        z = [records.y * (records.x @ w) for w in (once, rounds)]
        gaps.append(float(np.diff([np.mean((0.5 - v + np.sqrt((0.5 - v) ** 2 + 0.0625)) / 2) for v in z])[0]))
    assert np.mean(gaps) + 2.57 * np.std(gaps, ddof=1) / math.sqrt(6) < 0


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        ("log(1+exp(-y*<w, x>)) + max(0, <w, x> - 5)^2", SIGNS),
        ("max(0, 1 - y*<w, x>) + max(0, <w, x> - 5)", SIGNS),
        ("(y - <w, x>)^2/2 + max(0, <w, x> - 5)^2", NUMBERS),
    ],
)
def test_a_loss_is_read_on_its_whole_range(loss, y):
    """Inside [-3, 3] these are functions of y <w, x> or of <w, x> - y; over a ball of radius 10 they have a part that is neither, which
    the polynomial would put on the wrong side."""
    draft, _ = release_of(loss, "general-linear-ldp", y=y, radius=10.0)
    assert any("no function of" in d.message for d in draft.diagnostics)
    within, _ = release_of(loss, "general-linear-ldp", y=y, radius=3.0)
    assert not any("no function of" in d.message for d in within.diagnostics)


def test_batches_of_different_sizes_have_the_noise_of_the_smallest():
    """n = 1.5 T: batches of one and of two users, whose mean variance is 3/4 V and not V T/n = 2/3 V; the bound takes V."""
    _, r = release_of("smooth-hinge(0.25, 0.5)", "hinge-loss-ldp with T = 200", n=300, epsilon=8.0)
    p, t = r.problem, r.tunables
    c = shared.choose(p, t, shared.form_of(p, t), 1.0)
    cuts = np.linspace(0, 300, 201).astype(int)
    mean = float((c.variance / np.diff(cuts)).mean())
    assert mean > 1.1 * c.variance * 200 / 300
    assert c.bound >= 2 * c.fit.error + c.reach * math.sqrt((c.slope**2 + mean) / 200)


def test_the_range_may_be_a_whole_number():
    """50^12 leaves 64-bit integers."""
    whole, real = (shared.surrogate(np.abs, u, 11, "bernstein") for u in (50, 50.0))
    assert np.array_equal(whole.p, real.p)
    assert abs(np.polynomial.polynomial.polyval(50.0, real.p)) <= 1 + 1e-6  # slopes of Bernstein polynomials of |v| are at most 1
