"""dp-catoni-mean: sensitivity in exact arithmetic, the bound against laws with two moments, and what the printed scales cost."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dpspec.algorithms.card import Problem
from dpspec.algorithms.heavy_tailed import dp_catoni_mean as module
from dpspec.algorithms.sums import rounding
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, Estimate
from tests.algorithms.sparse.exact import Exact
from tests.algorithms.support import plan, study, tunables

NASTY = [0.0, 5e-324, -1e-170, 1.6e-162, 0.3, -2.0, 1e6, -1e154, 1e300, -1e300, math.inf, math.nan]


def problem(n: int, d: int, neighbours: str = "replace-one", **facts: float) -> Problem:
    known = {"n": n, "d": d, "epsilon": 1.0, "delta": 1e-6, "moment_order": 2.0, "moment_bound": 4.0}
    return Problem("central", neighbours, Estimate(what="mean"), {**known, **facts})


def handed_over(x: np.ndarray, p: Problem, t: object) -> np.ndarray:
    return module.run(Records(x), p, t, Exact(module.schedule(p, t))).theta  # type: ignore[arg-type]


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_no_pair_of_records_moves_the_mean_by_more_than_its_sensitivity(neighbours):
    """In exact arithmetic, over all pairs of hostile records; the largest movement comes close to it."""
    n, d = 3, 2
    p = problem(n, d, neighbours)
    t = tunables(module, p, s=2)
    rest = np.array([[0.4, -1.0], [3.0, 0.2]])
    records = list(itertools.product(NASTY, repeat=2))
    means = [handed_over(np.vstack([[r], rest]), p, t) for r in records]
    others = means if neighbours == "replace-one" else [handed_over(np.vstack([np.zeros((1, d)), rest]), p, t)]
    squares = [sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(u, v, strict=True)) for u in means for v in others]
    stated = Fraction(module.sensitivity(p, t))
    assert max(squares) <= stated**2
    assert max(squares) >= (Fraction(999, 1000) * stated) ** 2


def test_the_sensitivity_is_the_derived_one():
    """2 cap sqrt(d) s/n with cap = (2 sqrt(2)/3)(2 Phi(sqrt(beta)) - 1): the limit of E phi at infinity."""
    p = problem(1000, 7)
    t = tunables(module, p, beta=3, s=11)
    cap = 2 * math.sqrt(2) / 3 * (2 * norm.cdf(math.sqrt(3)) - 1)
    assert module.sensitivity(p, t) == pytest.approx(2 * cap * math.sqrt(7) * 11 / 1000, rel=1e-7)
    assert module.sensitivity(problem(1000, 7, "zero-out"), t) == pytest.approx(cap * math.sqrt(7) * 11 / 1000, rel=1e-7)


def test_the_allowance_for_rounding_covers_sums_of_a_million_terms():
    """Against exact sums: neighbours' rounded sums of 2^20 terms just below 1, added row by row, differ by less than allowed."""
    m = 2**20
    terms = 1.0 - np.random.default_rng(0).random((m, 1)) * 1e-3
    blocks = [terms[i : i + 2**15] for i in range(0, m, 2**15)]
    computed = sum((b.sum(axis=0) for b in blocks), np.zeros(1))[0]
    exact = sum(Fraction(float(v)) for v in terms[:, 0])
    assert abs(Fraction(float(computed)) - exact) * 2 <= Fraction(rounding(m, 2.0) - 1) * 2
    assert rounding(m, 2.0) < 1.001


def test_the_noise_is_that_of_the_analytic_gaussian():
    p = problem(5000, 3)
    t = tunables(module, p)
    c = plan(module, p, t)
    mu = module.sensitivity(p, t) / c.scale("mean")
    delta = norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu)
    assert delta == pytest.approx(1e-6, rel=1e-3)


LAWS = {
    "student-t(2.5)": (lambda g, size: g.standard_t(2.5, size), 0.0, 2.5 / 0.5),
    "pareto(2.2)": (lambda g, size: g.pareto(2.2, size), 1 / 1.2, 2 / (1.2 * 0.2)),  # Lomax: mean 1/(a-1), second moment 2/((a-1)(a-2))
    "two points": (lambda g, size: np.where(g.random(size) < 1e-3, 30.0, 0.0), 0.03, 0.9),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_explicit_bound_holds(name):
    """300 runs at n = 2000: no more failures than a bound of probability 0.95 may have (binomial, 1 - 1e-6)."""
    draw, centre, second = LAWS[name]
    p = problem(2000, 2, moment_bound=second)
    t = tunables(module, p)
    c = plan(module, p, t)
    bound = t.tau * (1 + 1 / t.beta) / (2 * t.s) + t.s * (t.beta / 2 + t.tail) / p.n + c.scale("mean") * math.sqrt(2 * t.tail)
    g = np.random.default_rng(3)
    errors = [np.abs(study(module, Records(draw(g, (2000, 2))), p, t, c, seed).theta - centre).max() for seed in range(300)]
    assert np.mean(np.array(errors) > bound) <= 0.12
    assert np.median(errors) > bound / 30  # the bound says something


def test_the_plan_prints_the_bound_of_its_own_noise():
    text = """
analysis "a"
data
  n = 4000, d = 3
  from memory
  private, unit person, neighbours replace-one
privacy central
  epsilon = 1, delta = 1e-6
assume
  moment(order 4, bound 81) of x
release m
  estimate mean(x)
  by dp-catoni-mean
"""
    draft = compile_draft(parse_text(text, surface="dps"))
    release = draft.releases[0]
    assert not [d for d in draft.diagnostics if d.severity == "error"]
    t, scale = release.tunables, release.calibrated.scale("mean")
    assert t.tau == pytest.approx(9.0)  # E x^2 <= sqrt(E x^4)
    values = {b.measure: b.value for b in release.bounds if b.kind == "explicit"}
    tail = math.log(4 * 3 / 0.05)
    expected = 9 * (1 + 1 / t.beta) / (2 * t.s) + t.s * (t.beta / 2 + tail) / 4000 + scale * math.sqrt(2 * tail)
    assert values["linf-error"] == pytest.approx(expected, rel=1e-9)
    assert values["l2-error"] == pytest.approx(math.sqrt(3) * expected, rel=1e-9)


def test_a_tunable_that_only_tunes_cannot_shrink_the_bound():
    """The noise of s = 20 at n = 4000, d = 3 is what it is: with tail = 0.001 the bound is that of log(4d/zeta) at the same scale."""
    text = """
analysis "a"
data
  n = 4000, d = 3
  from memory
  private, unit person, neighbours replace-one
privacy central
  epsilon = 1, delta = 1e-6
assume
  moment(order 2, bound 9) of x
release m
  estimate mean(x)
  by dp-catoni-mean with s = 20, beta = 5, tail = TAIL
"""
    found = {}
    for tail in ("log(240)", "0.001"):
        release = compile_draft(parse_text(text.replace("TAIL", tail), surface="dps")).releases[0]
        found[tail] = {b.theorem: b.value for b in release.bounds if b.kind == "explicit"}
    assert found["0.001"] == found["log(240)"]
    assert None not in found["0.001"].values()


def test_a_constraint_set_is_kept_to():
    """The records stand at (50, 50), the set is the unit ball: its point (1, 1)/sqrt(2). A coordinate's bound is none of a projection's."""
    p = problem(2000, 2)
    p = replace(p, task=Estimate(what="mean", over=Ball(norm="l2", radius=num(1))))
    t = tunables(module, p)
    c = plan(module, p, t)
    np.testing.assert_allclose(study(module, Records(np.full((2000, 2), 50.0)), p, t, c).theta, math.sqrt(0.5), atol=0.02)
    assert module.explicit_bounds(p, t, c).keys() == {module.LENGTH}


def test_a_moment_of_too_low_an_order_is_refused():
    p = problem(100, 1, moment_order=1.5)
    assert "second moment" in str(module.accepts(p, tunables(module, p)))


def test_the_printed_scale_pays_more_at_small_budgets():
    """000's scale is the best without noise. At epsilon 0.1 the balanced scale has less than half of its bound."""
    p = problem(50_000, 1, epsilon=0.1)
    ours, printed = tunables(module, p), tunables(module, p, s=math.sqrt(50_000 * 4 / (2 * math.log(20))))

    def bound(t):
        scale = plan(module, p, t, budget()).scale("mean")
        return t.tau * (1 + 1 / t.beta) / (2 * t.s) + t.s * (t.beta / 2 + t.tail) / p.n + scale * math.sqrt(2 * t.tail)

    assert bound(ours) < bound(printed) / 2


def budget():
    from dpspec.privacy.calibrate import Budget

    return Budget(epsilon="0.1", delta="0.000001")


def test_the_bias_does_not_fall_with_beta():
    """Two points, P(x = b) = tau/b^2: the worst bias is a fixed share of tau/s for every beta (002 says it falls like 1/beta)."""

    def smoothed(a: float, beta: float) -> float:
        b, r = a / math.sqrt(beta), math.sqrt(2)
        inner = quad(lambda v: (v - v**3 / 6) * norm.pdf(v, a, b), -r, r, points=[min(a, r)], limit=200)[0]
        return inner + 2 * r / 3 * (norm.sf(r, a, b) - norm.cdf(-r, a, b))

    for beta in (1.0, 5.0, 20.0, 100.0):
        worst = max((a - smoothed(a, beta)) / a**2 for a in np.geomspace(0.5, 8, 60))  # bias over tau/s, at s = 1 and b = a
        assert 0.25 < worst <= (1 + 1 / beta) / 2


def test_sparse_records_and_no_noise_give_the_mean_of_small_entries():
    """Entries far below s pass through: the kernel is the identity there to a^3."""
    from scipy.sparse import csr_array

    g = np.random.default_rng(1)
    x = np.where(g.random((400, 3)) < 0.3, g.standard_normal((400, 3)), 0.0)
    p = problem(400, 3)
    t = tunables(module, p, s=1000, beta=2)
    dense = module.run(Records(x), p, t, Exact(module.schedule(p, t))).theta
    sparse = module.run(Records(csr_array(x)), p, t, Exact(module.schedule(p, t))).theta
    np.testing.assert_allclose(dense, x.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(sparse, dense, atol=1e-12)
