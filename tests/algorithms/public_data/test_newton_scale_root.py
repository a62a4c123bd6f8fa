"""The scale root: closed forms, what replaces Newton's iteration, laws of x where Stein's form errs, and functions without a root."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit

from dpspec.algorithms.public_data import newton_scale_root as root


def bell(u):
    return expit(u) * expit(-u)


G = np.random.default_rng(0)
U = G.normal(size=20_000)


@pytest.mark.parametrize("factor", [1e-4, 0.03, 1.0, 40.0])
def test_the_cube_has_a_closed_form(factor):
    """f(u) = u^3/3: the score is c^3 mean(u^4)/3 = mean(u^2), Stein's form c^3 mean(u^2) = 1."""
    u = factor * U
    got = root.solve(root.stein(u, lambda v: v * v))
    assert got.found
    assert got.c == pytest.approx(np.mean(u**2) ** (-1 / 3), rel=1e-9)
    got = root.solve(root.score(u, lambda v: v**3 / 3))
    assert got.c == pytest.approx((3 * np.mean(u**2) / np.mean(u**4)) ** (1 / 3), rel=1e-9)


def test_the_identity_has_scale_one_and_a_constant_in_f_does_not_enter():
    for f in (lambda v: v, lambda v: v + 7.0):
        assert root.solve(root.score(0.3 * U + 0.01, f)).c == pytest.approx(1.0, rel=1e-12)
    assert root.solve(root.stein(U, np.ones_like)).c == pytest.approx(1.0, rel=1e-12)


def test_the_poisson_scale_of_gaussian_predictions():
    """E c exp(c u) = c exp(c^2 s^2/2) = 1 for u ~ N(0, s^2): Stein's identity makes both forms one; the sum over the rows decides."""
    s = 0.4
    exact = brentq(lambda c: c * math.exp(c * c * s * s / 2) - 1, 0.1, 2)
    for left in (root.stein(s * U, np.exp), root.score(s * U, np.exp)):
        got = root.solve(left)
        assert got.found
        assert got.c == pytest.approx(exact, rel=0.03)
        assert left(np.array([got.c])) == pytest.approx([1.0], abs=1e-9)


def test_newton_from_near_the_root_ends_where_the_search_does():
    """Newton's iteration as printed, from within: c - (c m(g) - 1)/m(g + c u g')."""
    u = 0.2 * U
    c = 4.0
    for _ in range(60):
        g = bell(c * u)
        slope = g + c * u * g * (1 - 2 * expit(c * u))
        c -= (c * g.mean() - 1) / slope.mean()
    assert root.solve(root.stein(u, bell)).c == pytest.approx(c, rel=1e-9)


def test_without_a_root_newton_diverges_and_the_search_returns_the_maximiser():
    """c g(c y) <= 0.2239/|y| for the logistic model: at |u| = 1 there is no root. The maximiser by the closed condition
    c = coth(c/2), the value by the formula."""
    u = np.array([-1.0, 1.0])
    got = root.solve(root.stein(u, bell))
    best = brentq(lambda c: 1 - c * math.tanh(c / 2), 0.5, 5)
    assert not got.found
    assert got.c == pytest.approx(best, rel=1e-4)
    assert got.value == pytest.approx(best * bell(best)) == pytest.approx(0.2239, abs=1e-4)
    c, seen = 4.0, []
    for _ in range(10):
        g = bell(c * u)
        c -= (c * g.mean() - 1) / (g + c * u * g * (1 - 2 * expit(c * u))).mean()
        seen.append(c)
        if abs(c) > 100:
            break
    assert not any(abs(point * bell(point) - 1) < 0.1 for point in seen)
    assert abs(seen[-1]) > 100


def test_the_least_root_is_taken_and_one_between_two_points_of_the_grid_is_found():
    def humps(c):
        return 1.1 * np.exp(-((c - 3) ** 2)) + 2 * np.exp(-((c - 9) ** 2))

    got = root.solve(humps)
    assert root.solve(humps, 16) == got
    assert got.found
    assert got.c == pytest.approx(3 - math.sqrt(math.log(1.1)), abs=1e-3)
    narrow = 2.0**1.25  # halfway between two points of the grid

    def spike(c):
        return 1.05 * np.exp(-(((c - narrow) / 0.3) ** 2))

    got = root.solve(spike)
    assert got.found
    assert got.c == pytest.approx(narrow - 0.3 * math.sqrt(math.log(1.05)), abs=1e-9)


def test_the_score_is_exact_on_a_sphere_where_stein_is_not():
    """x on the sphere of radius 3 in d = 8, theta = 1.5 e_1, logistic: <x, theta>/(R |theta|) has density (1 - s^2)^(5/2). v by
    quadrature of E x y/(R^2/d); both equations in the population. The score gives back |theta|, Stein's form is off by over 2 percent."""
    R, d, size = 3.0, 8, 1.5

    def mean(h):
        total = quad(lambda s: (1 - s * s) ** ((d - 3) / 2), -1, 1)[0]
        return quad(lambda s: h(R * s) * (1 - s * s) ** ((d - 3) / 2), -1, 1)[0] / total

    v = mean(lambda a: a * expit(size * a)) / (R * R / d)
    by_score = brentq(lambda c: mean(lambda a: a * v * expit(c * v * a)) / mean(lambda a: (a * v) ** 2) - 1, 0.1, 50)
    by_stein = brentq(lambda c: c * mean(lambda a: bell(c * v * a)) - 1, 0.1, 50)
    assert by_score * v == pytest.approx(size, rel=1e-8)
    assert abs(by_stein * v / size - 1) > 0.02
    x = G.normal(size=(40_000, d))
    u = R * v * (x / np.linalg.norm(x, axis=1)[:, None])[:, 0]
    assert root.solve(root.score(u, expit)).c == pytest.approx(by_score, rel=0.02)
    assert root.solve(root.stein(u, bell)).c == pytest.approx(by_stein, rel=0.02)


@pytest.mark.parametrize(
    "u", [np.zeros(5), np.full(5, 1e-300), np.array([1e300, -1e300]), np.array([np.nan, 1.0]), np.array([np.inf, 1.0])]
)
def test_every_prediction_gives_some_finite_scale(u):
    """What was released may be far off; the search neither raises nor leaves the grid."""
    for left in (root.score(u, np.exp), root.stein(u, np.exp), root.score(u, expit), root.stein(u, bell)):
        with np.errstate(all="ignore"):
            got = root.solve(left)
        assert root.LOWEST <= got.c <= root.HIGHEST


def test_the_search_reads_public_numbers_alone():
    """Its arguments are predictions on public records, functions and a number made of releases: no label, no record, no start to choose."""
    for f in (root.score, root.stein, root.solve):
        assert set(inspect.signature(f).parameters) <= {"u", "f", "slope", "left", "together", "energy"}
    u = 0.2 * U
    first, second = (root.solve(root.score(u, expit)) for _ in range(2))
    assert first == second
