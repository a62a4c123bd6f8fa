"""local-trigonometric-smooth-queries: the law of a client's bit, the interpolant against Jackson's bound, the battery, errors."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.polynomial import chebyshev

from dpspec.algorithms.card import Problem
from dpspec.algorithms.nldp_erm import _chebyshev as series
from dpspec.algorithms.nldp_erm import local_trigonometric_smooth_queries as module
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.spec.expr import num
from dpspec.spec.model import Answer
from dpspec.tasks import smooth_queries as task
from tests import leak
from tests.algorithms.nldp_erm.test_ldp_mean import Told, budget
from tests.algorithms.support import plan, tunables


def problem(n: int, d: int, h: int, epsilon: float = 1.0, low: float = -1.0, high: float = 1.0) -> Problem:
    known = {"n": n, "d": d, "epsilon": epsilon, "order": float(h), "queries": float(series.queries(d)), "x_low": low, "x_high": high}
    return Problem("nldp", "replace-one", Answer(queries="smooth-queries", args=(num(h),)), known)


def run(p: Problem, t, x: np.ndarray, seed: int) -> np.ndarray:
    release = Release(plan(module, p, t, budget(p)), StudyNoise(seed), mode="study", public=PublicRandomness(seed))
    moments = module.run(Records(x), p, t, release).theta
    release.close()
    return moments


# ------------------------------------------------------------------------------------------------------------------ privacy


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_message_has_ratio_e_to_the_epsilon_and_no_more(epsilon):
    """The exact law in fractions of the bit of a user, over hostile records of a box off the origin and every product of degree below 3."""
    p = problem(1, 2, 2, epsilon, 0.0, 4.0)
    channel = module.schedule(p, tunables(module, p)).mechanism
    for question in range(8):
        laws = []
        for record in itertools.product([0.0, 1.0, 2.0, 4.0, 1.7e308, -1e154, math.inf, math.nan], repeat=2):
            value = module.products(Records(np.array([record])), p, np.array([question]), 3)
            found: dict[float, Fraction] = {}
            for coins in itertools.product((True, False), repeat=2):
                noise = Told(list(coins))
                message = float(np.ravel(channel.encode(value, epsilon, noise))[0])
                found[message] = found.get(message, Fraction(0)) + noise.chance
            assert sum(found.values()) == 1
            assert len(found) == 2
            laws.append(found)
        ratio = max(one[m] / other[m] for one in laws for other in laws for m in one)
        assert math.exp(epsilon) * (1 - 1e-9) <= float(ratio) <= math.exp(epsilon) * (1 + 2.0**-52)


def test_products_without_noise_tell_the_record():
    """T_1(u) = u: the first products are the record itself."""
    x = np.random.default_rng(0).uniform(-1, 1, (5, 2))
    sent = np.stack([series.products(x, np.tile(v, (5, 1))) for v in ((0, 1), (1, 0))], axis=1)
    assert sent[:, ::-1] == pytest.approx(x)
    leak.certain(sent[0], sent[1])


def test_the_printed_noise_spends_a_multiple_of_epsilon():
    """Laplace noise of 1/epsilon on each of t products: the log-ratio of densities at one record's own products is the l1 distance times
    epsilon. d = 1, t = 8, u = 1 against -1: odd products move by 2, four of them: 8 epsilon. One entry alone: 2 epsilon."""
    one, other = (np.array([series.products(np.array([[u]]), np.array([[v]]))[0] for v in range(8)]) for u in (1.0, -1.0))
    spent = np.abs(one - other).sum()
    assert spent == pytest.approx(8.0)
    assert np.abs(one - other).max() == pytest.approx(2.0)
    leak.epsilon(float(spent), 1.0)


# --------------------------------------------------------------------------------------------------------------- polynomials


def test_products_are_chebyshev_polynomials():
    u = np.random.default_rng(1).uniform(-1, 1, (50, 2))
    v = np.array([[3, 2]] * 50)
    wanted = chebyshev.chebval(u[:, 0], [0, 0, 0, 1]) * chebyshev.chebval(u[:, 1], [0, 0, 1])
    assert series.products(u, v) == pytest.approx(wanted)


@pytest.mark.parametrize(("d", "t"), [(1, 6), (2, 5), (3, 4)])
def test_the_interpolant_meets_its_function_at_the_nodes_and_keeps_its_energy(d, t):
    points = series.grid(d, t)
    c = series.battery_coefficients(d, 2, t)
    values = np.stack([np.prod([np.cos(v[j] * np.arccos(points[:, j])) for j in range(d)], axis=0) for v in np.ndindex(*[t] * d)], axis=1)
    assert values @ c == pytest.approx(series.battery(points, 2))
    halves = np.array([0.5 ** np.count_nonzero(v) for v in np.ndindex(*[t] * d)])
    assert (halves[:, None] * c**2).sum(axis=0) == pytest.approx((series.battery(points, 2) ** 2).mean(axis=0))
    assert series.energy(d, 2, t) <= 2**d


@pytest.mark.parametrize(("d", "h", "t"), [(1, 1, 3), (1, 2, 6), (2, 2, 5), (2, 3, 6)])
def test_the_interpolant_is_within_jacksons_bound(d, h, t):
    """On 500 random points, the whole battery; in one variable |u|^h u/(h + 1)! as well, which is no smoother than it has to be."""
    u = np.random.default_rng(2).uniform(-1, 1, (500, d))
    values = np.stack([np.prod([np.cos(v[j] * np.arccos(u[:, j])) for j in range(d)], axis=0) for v in np.ndindex(*[t] * d)], axis=1)
    error = np.abs(values @ series.battery_coefficients(d, h, t) - series.battery(u, h)).max()
    assert error <= series.bias(d, h, t)

    def rough(x: np.ndarray) -> np.ndarray:
        return np.abs(x[:, :1]) ** h / math.factorial(h) * np.where(x[:, :1] > 0, 1.0, (-1.0) ** (h + 1))

    c = series.coefficients(rough, d, t)
    assert np.abs(values @ c - rough(u)).max() <= series.bias(d, h, t)


@pytest.mark.parametrize("h", [1, 2, 3, 4])
def test_the_battery_has_derivatives_of_at_most_one(h):
    """Every mixed derivative up to the order h in two variables, by mpmath, at random points."""
    mpmath = pytest.importorskip("mpmath", reason="numerical derivatives")
    g = np.random.default_rng(3)
    number = len(series.waves(2))
    for column in [*g.choice(number, 2, replace=False), number + 2, number + 5]:
        if column < number:
            w, phase = series.waves(2)[column]

            def f(a, b, w=w, phase=phase):
                return mpmath.cos(w[0] * a + w[1] * b + phase) / max(w) ** h

        else:
            c, width = series.bumps(2)[column - number]

            def f(a, b, c=c, s=width):
                return mpmath.exp(-((a - c[0]) ** 2 + (b - c[1]) ** 2) / (2 * s * s)) * s**h / mpmath.sqrt(mpmath.factorial(h))

        for point in g.uniform(-1, 1, (2, 2)):
            assert float(f(*point)) == pytest.approx(series.battery(point[None, :], h)[0, column])
            for order in ((h, 0), (0, h), (h - 1, 1)):
                assert abs(mpmath.diff(f, tuple(point), order)) <= 1 + 1e-6


# --------------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(("d", "h"), [(1, 2), (2, 3)])
def test_the_error_is_within_its_bound_and_about_as_predicted(d, h):
    p = problem(20_000, d, h, 1.0, -2.0, 2.0)
    t = tunables(module, p)
    c = plan(module, p, t, budget(p))
    x = np.random.default_rng(4).uniform(-1, 2, (p.n, d))
    trial = task.TASK.trial(Records(x), p, {}, None)
    (bound,) = module.explicit_bounds(p, t, c).values()
    errors = [task.TASK.measures[0].of(run(p, t, x, seed), trial) for seed in range(6)]
    assert max(errors) < bound
    assert max(errors) < 1.2 * module.predicted(p, t, c)
    assert np.mean(errors) > 0.1 * module.predicted(p, t, c)


def test_exact_moments_give_the_interpolants_means():
    """With every user's own products in the place of reports, a new query is read off the table: exp, against its mean, within Jackson."""
    x = np.random.default_rng(5).uniform(-1, 1, (400, 2))
    v = np.array(list(np.ndindex(8, 8)))
    moments = np.array([series.products(x, np.tile(row, (400, 1))).mean() for row in v])
    c = series.coefficients(lambda u: np.exp(u[:, :1] - u[:, 1:]) / math.e**2, 2, 8)
    assert float(moments @ c[:, 0]) == pytest.approx(float(np.exp(x[:, 0] - x[:, 1]).mean() / math.e**2), abs=series.bias(2, 4, 8))


def test_the_rate_is_better_than_the_printed_one():
    """The exponent of 1/(sqrt(n) epsilon): h/(d + h) against 2 h/(5 d + 2 h), by the error of the class, t^-h + t^d/sqrt(n)."""
    for d, h in ((1, 1), (2, 3), (3, 2)):
        errors = [min(t**-h + t**d / math.sqrt(n) for t in range(1, 5000)) for n in (1e8, 1e12)]
        slope = math.log(errors[0] / errors[1]) / math.log(1e2)  # a factor 100 in sqrt(n)
        assert slope == pytest.approx(h / (d + h), abs=0.06)
        assert slope > 2 * h / (5 * d + 2 * h)


def test_the_degree_grows_with_n_and_too_many_moments_are_refused():
    chosen = [module.degree(problem(n, 2, 2), tunables(module, problem(n, 2, 2))) for n in (1000, 10**6, 10**9)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[-1]
    p = problem(1000, 4, 8)
    assert module.accepts(p, tunables(module, p)) is None  # 6561
    p = problem(1000, 2, 2)
    assert "above the order 2" in str(module.accepts(p, tunables(module, p, degree=2)))
    few = problem(5, 2, 2)
    t = tunables(module, few)
    assert module.explicit_bounds(few, t, plan(module, few, t, budget(few))) == {}
    assert "8 statistics are asked of n = 5 users" in module.warnings(few, t, None)[0]


SPEC = """analysis "moments"
data
  n = 50_000, d = {d}
  from memory
  private, unit person, neighbours replace-one
  {domain}
privacy nldp
  epsilon = 1
release moments
  answer smooth-queries({h})
  by auto
"""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"domain": "x in R^d"}, "box"),
        ({"d": 5}, "d = 5 variables: 4 are the most, as at least (h + 1)^d moments are needed (243 here)"),
        ({"h": 9}, "an order of 8 is the most"),
        ({}, None),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_number(given, said):
    values = {"d": 2, "h": 2, "domain": "x in [-1, 1] by clip", **given}
    draft = compile_draft(parse_text(SPEC.format(**values), surface="dps"), least="missed")
    if said is None:
        assert draft.releases[0].module is module
    else:
        assert any(said in d.message for d in draft.diagnostics), [d.message for d in draft.diagnostics]
