"""The three local Bernstein mechanisms: messages by enumeration, the polynomial by exact formulas, bounds over drawn laws, the faults."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import expit
from scipy.stats import binom

from dpspec.algorithms.nldp_erm import _bernstein as shared
from dpspec.algorithms.nldp_erm import local_bernstein as laplace
from dpspec.algorithms.nldp_erm import local_bernstein_1bit as bit
from dpspec.algorithms.nldp_erm import local_bernstein_genprot as genprot
from dpspec.algorithms.sets import ConstraintSet
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.channels.genprot import GenProt
from dpspec.privacy.noise import StudyNoise
from dpspec.privacy.schedule import draws
from dpspec.spec.expr import evaluate, num
from dpspec.spec.model import Ball, Reals
from tests import leak
from tests.algorithms.support import logistic, minimise, plan, study, tunables

MODULES = [laplace, bit, genprot]
PURE = Budget(epsilon="2")


def problem(n: int, d: int = 1, epsilon: float = 2.0, radius: float = 1.0, *, over: Any = None, l2: float = 0.0, **facts: float) -> Any:
    ball = ConstraintSet("linf", radius=radius)
    known = {"w_linf": radius, "w_radius": radius * math.sqrt(d), "epsilon": epsilon, **facts}
    p = minimise(n, d, logistic(l2, over=ball), over=over or Ball(norm="linf", radius=num(radius)), facts=known)
    return replace(p, model="nldp", facts={k: v for k, v in p.facts.items() if k != "delta" or "delta" in facts})


def law(n: int, d: int = 1, seed: int = 0) -> Records:
    g = np.random.default_rng(seed)
    x = g.uniform(-1, 1, size=(n, d)) / math.sqrt(d)
    return Records(x, np.where(g.random(n) < expit(2 * x[:, 0]), 1.0, -1.0))


def go(module: ModuleType, records: Records, p: Any, t: Any, c: Any, seed: int) -> np.ndarray:
    return study(module, records, p, t, c, seed).theta


def excess(records: Records, w: np.ndarray, radius: float = 1.0) -> float:
    """Over the interval, by a scalar search."""

    def f(v: float) -> float:
        return float(np.mean(np.logaddexp(0, -records.y * records.x[:, 0] * v)))

    return f(float(w[0])) - minimize_scalar(f, bounds=(-radius, radius), method="bounded", options={"xatol": 1e-9}).fun


# ------------------------------------------------------------------------------------------------------------------ messages

WILD = [0.0, 5e-324, -1e-170, 0.6, -2.0, 1e154, -1.7e308, math.inf, math.nan]
HOSTILE = Records(np.repeat(WILD, 5)[:, None], np.tile([1.0, -1.0, 0.0, 1e308, math.nan], len(WILD)))


class Recorder:
    """Notes what a channel asks its noise for."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []

    def bernoulli(self, p: Any, size: Any) -> np.ndarray:
        self.seen.append(np.array(p))
        return np.zeros(size, dtype=bool)

    def keep(self, level: float, size: Any) -> np.ndarray:
        return np.ones(size, dtype=bool)

    def integers(self, high: int, size: Any) -> np.ndarray:
        return np.zeros(size, dtype=np.int64)

    def add_laplace(self, x: np.ndarray, scale: float, *, sensitivity: float, dim: int) -> np.ndarray:
        self.seen.append(np.array(x))
        return x


def heard(module: ModuleType, t: Any, p: Any) -> tuple[np.ndarray, Any, float]:
    """What the channel asks for over hostile records at both ends of the interval, the channel, and its level."""
    c = plan(module, p, t, PURE)
    (leaf,) = draws(c.tree).values()
    noise = Recorder()
    nodes = np.array([[-1.0], [1.0]])
    (block,) = shared.values(HOSTILE, nodes, np.zeros(1), np.ones(2), p.objective)
    for column in block.T if leaf.draw.mechanism.size == 1 else [block]:
        leaf.draw.mechanism.encode(column.reshape(len(column), -1), c.levels["value"], noise)
    return np.concatenate(noise.seen), leaf.draw.mechanism, c.levels["value"]


@pytest.mark.parametrize("report", ["one", "all"])
def test_no_record_leaves_the_channel(report):
    """Laplace reports: the clipped values, in exact fractions, are at most 2 half apart at every point, and the scale is
    that over epsilon."""
    p = problem(1000)
    t = tunables(laplace, p, report=report, k=1)
    seen, channel, level = heard(laplace, t, p)
    rows = [[Fraction(float(v)) for v in np.atleast_1d(row)] for row in seen.reshape(-1, channel.size)]
    apart = max(sum(abs(a - b) for a, b in zip(u, v, strict=True)) for u in rows for v in rows)
    points = 2 if report == "all" else 1
    assert apart <= 2 * Fraction(float(t.half)) * points
    assert apart >= 2 * Fraction(float(t.half)) * points * Fraction(1, 2)
    assert Fraction(channel.scale(level)) >= 2 * Fraction(float(t.half)) * points / 2  # epsilon = 2


def test_a_bit_spends_epsilon_exactly():
    """Both messages by enumeration over the coin of the value and that of the answer, for every hostile record: the ratio is at most e^eps,
    and e^eps at the ends."""
    p = problem(1000)
    seen, _, level = heard(bit, tunables(bit, p), p)
    assert level == 2.0
    kept = Fraction(math.exp(2.0)) / (1 + Fraction(math.exp(2.0)))
    up = [Fraction(float(q)) * kept + (1 - Fraction(float(q))) * (1 - kept) for q in {*np.ravel(seen), 0.0, 1.0}]
    assert min(up) > 0
    assert max(max(up) / min(up), (1 - min(up)) / (1 - max(up))) == Fraction(math.exp(2.0))


def index_law(p: tuple[float, ...]) -> list[float]:
    """P(g = t): every set of accepted samples."""
    chance = [0.0] * len(p)
    for heads in itertools.product((0, 1), repeat=len(p)):
        weight = math.prod(q if h else 1 - q for q, h in zip(p, heads, strict=True))
        chosen = [i for i, h in enumerate(heads) if h] or list(range(len(p)))
        for i in chosen:
            chance[i] += weight / len(chosen)
    return chance


def test_an_index_spends_epsilon_exactly():
    """Five samples: every corner of the window that hostile records are kept in, by enumeration of the accepted
    sets: the largest ratio is e^eps. The document's window at the same base has about four times the loss."""
    p = problem(1000)
    t = tunables(genprot, p, length=5)
    seen, channel, _ = heard(genprot, t, p)
    base = 2 * channel.radius / channel.scale(2.0)
    low, high = math.exp(-base / 2) / 2, math.exp(base / 2) / 2
    assert seen.min() >= low * (1 - 1e-9)
    assert seen.max() <= high * (1 + 1e-9)
    laws = np.array([index_law(corner) for corner in itertools.product((low, high), repeat=5)])
    loss = float(np.log(laws.max(axis=0) / laws.min(axis=0)).max())
    assert loss == pytest.approx(2.0 if base < 1.38 else loss, rel=1e-6)
    assert loss <= 2.0 + 1e-9
    assert loss < 2.2 * base


def test_the_printed_bit_is_not_private():
    """b = 1 with probability (1/2) p(y; v)/p(y; 0), v in [0, 1], over a grid of y and v: the loss of b = 0 is -log(2 - e^eps),
    more than epsilon; at log 2 it is infinite; at eps0 = log(2 - e^-eps) the larger of both losses is epsilon."""

    def losses(e: float) -> tuple[float, float]:
        y, v = np.meshgrid(np.linspace(-3, 3, 121), np.linspace(0, 1, 41), indexing="ij")
        one = 0.5 * np.exp(e * (np.abs(y) - np.abs(y - v)))
        with np.errstate(divide="ignore"):
            return tuple(float(np.log(q.max(axis=1) / q.min(axis=1)).max()) for q in (one, np.clip(1 - one, 0, 1)))  # type: ignore[return-value]

    for e in (0.1, 0.25, 0.5, 0.6):
        assert losses(e)[0] == pytest.approx(e)
        assert losses(e)[1] == pytest.approx(-math.log(2 - math.exp(e)))
        assert losses(e)[1] > e
    assert losses(0.5)[1] == pytest.approx(1.046, abs=1e-3)
    assert losses(math.log(2))[1] > 30
    for e in (0.5, 1.0, 3.0):
        assert max(losses(math.log(2 - math.exp(-e)))) == pytest.approx(e, rel=1e-9)
    p = problem(1000)
    (one,) = bit.published(p, tunables(bit, p), Nominal())
    assert one.epsilon == pytest.approx(1.046, abs=1e-3)
    leak.epsilon(losses(0.5)[1], 0.5)


class Nominal:
    kind, epsilon_exact = "pure", Fraction(1, 2)


def test_the_printed_server_is_off_by_the_number_of_users():
    """E y b = v/2 by integration, so 2/|I| and not n/|I| makes the average unbiased."""
    e, v = 0.5, 0.7

    def kept(y: float) -> float:
        return y * 0.5 * math.exp(e * (abs(y) - abs(y - v))) * e / 2 * math.exp(-e * abs(y))

    total = sum(quad(kept, a, b)[0] for a, b in ((-80, 0), (0, v), (v, 80)))
    assert total == pytest.approx(v / 2, rel=1e-9)


def test_the_printed_server_averages_indices():
    """An index says nothing by itself: over 40,000 users its mean is (T - 1)/2 at both ends, where the decoded samples differ."""
    channel = GenProt(1.0, 8)
    means = []
    for v in (-1.0, 1.0):
        reports = channel.encode(np.full((40_000, 1), v), 1.0, StudyNoise(1))
        means.append((reports[:, 1].mean(), channel.decode(reports, 1.0).mean()))
    assert abs(means[0][0] - means[1][0]) < 0.1
    assert means[0][0] == pytest.approx(3.5, abs=0.1)
    assert means[1][1] - means[0][1] == pytest.approx(2 * (1 - 2.0**-7), abs=0.2)


# ---------------------------------------------------------------------------------------------------------------- polynomial


def test_the_basis_is_the_binomial_law():
    at = np.array([0.0, 1e-9, 0.3, 0.5, 1.0])
    for k in (1, 2, 7, 60):
        assert np.allclose(shared.basis(at, k), binom.pmf(np.arange(k + 1), k, at[:, None]), rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("h", [1, 2, 3])
def test_a_square_is_found_up_to_its_known_error(h):
    """(I - B)^h t^2 = -t(1 - t)/k^h, by hand; in two coordinates the operators act one after the other. The gradient by differences."""
    k, at = 6, np.array([0.3, 0.8])
    nodes = np.arange(k + 1) / k
    grid = nodes[:, None] ** 2 * (1 + nodes[None, :])
    got, gradient = shared.polynomial(shared.iterated(grid, k, h), at)
    assert got == pytest.approx((0.09 + 0.21 / k**h) * 1.8, rel=1e-12)
    assert gradient == pytest.approx([(0.6 + 0.4 / k**h) * 1.8, 0.09 + 0.21 / k**h], rel=1e-10)


def test_the_norm_of_the_iterated_operator():
    """On a fine lattice: at most what is stated, close to it, and far below 2^h - 1."""
    at = np.linspace(0, 1, 2001)
    for k, h in itertools.product((1, 3, 10), (1, 2, 3, 4)):
        most = np.abs(shared.basis(at, k) @ table(k, h)).sum(axis=1).max()
        assert most <= shared.norm(k, h) * (1 + 1e-12) <= 1.02 * most
        assert shared.norm(k, h) <= 1.35


def table(k: int, h: int) -> np.ndarray:
    return np.column_stack([shared.iterated(e, k, h) for e in np.eye(k + 1)])


def test_the_bias_is_what_is_stated():
    """s^2 B/(8 k): attained by <w, x>^2/2 in the middle of the box, |x| = 1; the logistic loss stays below."""
    p = problem(10_000, 2, radius=1.5)
    t = tunables(laplace, p, k=5)
    x, k = np.array([0.6, 0.8]), 5
    nodes = shared.grid(ConstraintSet("linf", radius=1.5), 2, k)
    for f, curve in ((lambda u: u * u / 2, 1.0), (lambda u: np.logaddexp(0, u), 0.25)):
        c = f(nodes @ x).reshape(k + 1, k + 1)
        off = [
            shared.polynomial(c, np.array([a, b]))[0] - float(f(3 * (np.array([a, b]) - 0.5) @ x))
            for a, b in itertools.product((0.1, 0.5, 0.7), repeat=2)
        ]
        stated = shared.bias(replace(p, loss=replace(p.loss, smooth=curve)), t)
        assert stated == pytest.approx(9 * curve / (8 * k))
        assert max(map(abs, off)) <= stated * (1 + 1e-12)
        if curve == 1.0:
            assert max(off) == pytest.approx(stated)
        a = shared.norm(k, 3)
        higher = shared.iterated(c, k, 3)
        assert abs(shared.polynomial(higher, np.array([0.3, 0.6]))[0] - f(3 * np.array([-0.2, 0.1]) @ x)) <= 4 * a * stated


@pytest.mark.parametrize("h", [1, 4])
def test_the_degree_balances_bias_and_noise(h):
    """The least sum of bias s^2 B/(8 k^((h+1)/2)) and spread k^(d/4 + 1/2)/sqrt(n) over all real degrees, to an integer below."""
    for n, d in ((3000, 1), (300_000, 2)):
        p = problem(n, d, radius=3.0)
        t = tunables(bit, p, h=h)
        spread = float(t.half) * (1 + 2 / 2)

        def total(k: float, n: int = n, d: int = d, spread: float = spread) -> float:
            return 36 * 0.25 / (8 * k ** ((h + 1) / 2)) + spread * k ** (d / 4 + 0.5) / math.sqrt(n)

        found = minimize_scalar(total, bracket=(1, 5, 90))
        assert int(t.k) == math.floor(found.x)


# -------------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.CARD.id)
def test_the_bound_holds(module):
    """Six runs over six samples: all below the bound of probability 0.95, on the sample and for fresh records, and their mean
    about as predicted."""
    p = problem(8000, epsilon=2.0)
    t = tunables(module, p)
    c = plan(module, p, t, PURE)
    stated = module.explicit_bounds(p, t, c)
    fresh = law(20_000, 1, 77)
    found, popular = [], []
    for seed in range(6):
        records = law(p.n, 1, seed)
        w = go(module, records, p, t, c, seed)
        found.append(excess(records, w))
        popular.append(excess(fresh, w))
    assert max(found) <= stated[shared.BIAS]
    assert max(popular) <= stated[shared.POPULATION]
    assert np.mean(found) < 3 * module.predicted(p, t, c)


def test_more_users_find_a_better_point():
    """The best weight, about 2, lies within [-4, 4]."""
    errors = []
    for n in (500, 200_000):
        p = problem(n, epsilon=8.0, radius=4.0)
        t = tunables(bit, p)
        c = plan(bit, p, t, Budget(epsilon="8"))
        errors.append(np.mean([excess(r, go(bit, r, p, t, c, seed), 4.0) for seed in range(4) for r in [law(n, 1, seed)]]))
    assert errors[1] < errors[0] / 3


def test_one_point_a_user_has_less_noise_than_all():
    """Averages of K = 16 grid values from n reports: scale sqrt(K/n) against K/n^(1/2) times that of one number."""
    p = problem(10_000)
    spread = []
    for report in ("one", "all"):
        t = tunables(laplace, p, report=report, k=15)
        c = plan(laplace, p, t, PURE)
        users = p.n / 16 if report == "one" else p.n
        spread.append(c.scale("value") / math.sqrt(users))
    assert spread[1] / spread[0] == pytest.approx(math.sqrt(16))


def test_values_are_stretched_to_one_range_and_back():
    """Half a weight from the middle twice, a corner once; values of a linear loss are one number everywhere, and come back."""
    nodes, middle = np.array([[-1.0], [-0.5], [0.0], [1.0]]), np.zeros(1)
    far = shared.stretch(nodes, middle)
    assert far.tolist() == [1, 2, 0, 1]
    assert shared.shrunk(far * nodes[:, 0], far).tolist() == [-1, -0.5, 0, 1]


def test_sorted_users_are_dealt_evenly():
    """All positive labels first: a point's group still has the share of everybody. Each number comes once."""
    for n in (1, 2, 6, 97, 1000):
        assert sorted(shared.dealt(n)) == list(range(n))

    records = law(20_000, 1, 5)
    order = np.argsort(-records.y, kind="stable")
    p = problem(20_000, epsilon=8.0)
    t = tunables(bit, p)
    c = plan(bit, p, t, Budget(epsilon="8"))
    tidy = Records(records.x[order], records.y[order])
    assert excess(tidy, go(bit, tidy, p, t, c, 0)) < 0.02


def test_all_points_and_gaussian_reports_run():
    p = problem(20_000, delta=1e-6, epsilon=4.0)
    for report in ("one", "all"):
        t = tunables(laplace, p, report=report)
        c = plan(laplace, p, t, Budget(epsilon="4", delta="0.000001"))
        assert next(iter(draws(c.tree).values())).draw.mechanism.kind == "gaussian-vector"
        records = law(20_000, 1, 3)
        assert excess(records, go(laplace, records, p, t, c, 0)) <= laplace.explicit_bounds(p, t, c)[shared.BIAS]


@pytest.mark.parametrize("server", ["search", "descent"])
def test_both_servers_find_the_minimum_of_a_convex_polynomial(server):
    """x^2 + (y - 1/2)^2/2 on [-1, 1]^2 by its Bernstein polynomial, exact up to a constant a coordinate: the minimum of the polynomial of
    (t^2 + t(1-t)/k) moves by hand; with a ridge of 1 once more."""
    over, k = ConstraintSet("linf", radius=1.0), 4
    nodes = shared.grid(over, 2, k)
    c = (nodes[:, 0] ** 2 + (nodes[:, 1] - 0.5) ** 2 / 2).reshape(k + 1, k + 1)
    # B_k w^2 = w^2 (1 - 1/k) + 1/k on [-1, 1]: the second coordinate has (1 - 1/k) w^2/2 - w/2
    assert shared.minimum(c, over, 0.0, server) == pytest.approx([0, 0.5 / (1 - 1 / k)], abs=1e-4)
    assert shared.minimum(c, over, 1.0, server) == pytest.approx([0, 0.5 / (2 - 1 / k)], abs=1e-4)


# ------------------------------------------------------------------------------------------------------------------ refusals


def test_what_it_cannot_serve_is_said_with_the_number():
    p = problem(10**6, 9)
    assert "(k + 1)^d = 512 coefficients" in str(bit.accepts(p, tunables(bit, p, k=1)))
    p = problem(10**6, 4)
    assert "(k + 1)^d = 1.94e+05 coefficients" in str(bit.accepts(p, tunables(bit, p, k=20)))
    assert "exponential in d" in str(bit.accepts(p, tunables(bit, p, k=20)))
    p = problem(100, 2)
    assert "bounded convex set" in str(bit.accepts(replace(p, task=minimise(10, 2, logistic(), over=Reals()).task), tunables(bit, p, k=1)))
    lasso = replace(p, loss=replace(p.loss, l1=0.1))
    assert "l1" in str(bit.accepts(lasso, tunables(bit, lasso, k=1)))
    assert "no certificate" in str(bit.accepts(replace(p, loss=None), tunables(bit, p, k=1)))


def test_too_few_users_are_told_how_many_would_do():
    """16 points, 4 users each, reports of length coth(1) half: off by 0.66 half, and a quarter of the range is asked for."""
    p = problem(64)
    t = tunables(bit, p, k=15)
    (line,) = bit.warnings(p, t, plan(bit, p, t, PURE))
    assert f"n of about {64 * (4 * 0.5 / math.tanh(1)) ** 2:.2g}" in line
    assert bit.warnings(problem(6400), t, plan(bit, problem(6400), t, PURE)) == []


def test_fewer_users_than_points_give_an_answer_and_no_bound():
    p = problem(7, 2)
    t = tunables(bit, p, k=4)
    c = plan(bit, p, t, PURE)
    assert c.tree.count == 7
    assert np.abs(go(bit, law(7, 2), p, t, c, 0)).max() <= 1
    assert bit.explicit_bounds(p, t, c) == {}
    assert "n of about" in bit.warnings(p, t, c)[0]


def test_a_clip_below_the_range_takes_the_bound_away():
    p = problem(1000)
    for given in ({"half": Fraction(1, 2)}, {"mu": Fraction(1, 10)}, {"server": "descent"}):
        t = tunables(bit, p, **given)
        assert bit.explicit_bounds(p, t, plan(bit, p, t, PURE)) == {}


def test_an_id_with_digits_after_a_hyphen_is_a_word_and_differences_stay_differences():
    text = """analysis "a"
data
  n = 100, d = 1
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(-1 -> -1, 1 -> 1)
privacy nldp
  epsilon = 1
release w
  minimise logistic over ball(linf, n-1e2+1)
  by local-bernstein-1bit with k = 2
"""
    analysis = parse_text(text, path="a.dps", surface="dps").analysis
    assert analysis.releases[0].by.algorithm == "local-bernstein-1bit"
    assert evaluate(analysis.releases[0].task.over.radius, {"n": 100}) == 1
