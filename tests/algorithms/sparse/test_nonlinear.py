"""Known links: the gradient by hand, the radius by enumeration, privacy of any gradient, declared slopes against the link."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.algorithms.card import Problem
from dpspec.algorithms.sparse import _link, label_ldp_iht_nonlinear, ldp_iht_nonlinear
from dpspec.data.records import Records
from dpspec.lang.source import parse_expr
from dpspec.privacy.channels.hemisphere import Hemisphere
from dpspec.privacy.noise import StudyNoise
from dpspec.spec.model import EstimateTheta
from tests.algorithms.sparse.exact import Exact
from tests.algorithms.support import tunables


def problem(n: int, d: int, link: str = "2*u + sin(u)/5", modifiers: tuple[str, ...] = (), **facts: float) -> Problem:
    known = {"n": n, "d": d, "k": 2, "sigma": 1.0, "sigma_x": 1.0, "slope_min": 1.8, "slope_max": 2.2, "noise_bound": 0.1, "epsilon": 1.0}
    task = EstimateTheta(form="nonlinear", link=parse_expr(link))
    return Problem("sldp", "replace-one", task, {**known, "delta": 1e-5, **facts}, modifiers=frozenset(modifiers))


def test_the_link_is_read_from_the_spec():
    u, y = np.array([-1.0, 0.3, 2.0]), np.array([0.5, -2.0, 1.0])
    f, slope = 2 * u + np.sin(u) / 5 + 1, 2 + np.cos(u) / 5
    p = problem(10, 2, "2*u + sin(u)/5 + 1")
    assert np.allclose(_link.slope(p)(u, y), (f - y) * slope)
    assert np.allclose(_link.derivative(p, u), slope)
    assert _link.at_zero(p) == pytest.approx(1.0)


def test_one_step_by_hand():
    """f(u) = 2u, theta = 0, x = e_1, e_2, y = 1, -3: gradient 1/2 sum (0 - y_i)*2*x_i = (-1, 3). eta = 1/10, one kept: (0, -3/10). The next
    one at theta: record 2 has f = -3/5, gradient (1/2)(-3/5 + 3)*2 = 12/5: (-1, 12/5), theta = (1/10, -54/100) cut to (0, -54/100)."""
    p = problem(2, 2, "2*u", ("labels-only",), slope_min=2.0, slope_max=2.0)
    records = Records(np.eye(2), np.array([1.0, -3.0]))
    for T, expected in ((1, [0.0, -0.3]), (2, [0.0, -0.54])):
        t = tunables(label_ldp_iht_nonlinear, p, T=T, kept=1, eta=0.1, y_clip=9)
        got = label_ldp_iht_nonlinear.run(records, p, t, Exact(label_ldp_iht_nonlinear.schedule(p, t)))
        assert np.allclose(got.theta, expected)


def test_one_local_round_by_hand():
    """The same first step through ldp-iht-nonlinear: the mean gradient is below the radius, nothing is clipped."""
    p = problem(2, 2, "2*u", slope_min=2.0, slope_max=2.0)
    t = tunables(ldp_iht_nonlinear, p, T=1, kept=1, eta=0.1, tau1=1, y_clip=9, clip="gradient")
    got = ldp_iht_nonlinear.run(Records(np.eye(2), np.array([1.0, -3.0])), p, t, Exact(ldp_iht_nonlinear.schedule(p, t)))
    assert np.allclose(got.theta, [0.0, -0.3])


def test_responses_are_clipped_around_f_0():
    p = problem(3, 2, "2*u + 5", ("labels-only",), slope_min=2.0, slope_max=2.0)
    t = tunables(ldp_iht_nonlinear, p, y_clip=1, tau1=1, T=1, clip="gradient")
    rows = np.concatenate(
        list(ldp_iht_nonlinear.gradients(np.ones((3, 2)), np.array([5.5, 99.0, -99.0]), np.zeros(2), t, _link.slope(p), _link.at_zero(p)))
    )
    assert np.allclose(rows[:, 0], [2 * (5 - 5.5), 2 * (5 - 6), 2 * (5 - 4)])


def test_no_gradient_leaves_the_radius_and_one_attains_it():
    """f(u) = 2u: slope 2 everywhere, so R = sqrt(d) tau1 2 (2 sqrt(kept) tau1 + y_clip) is attained; printed: 2 C sqrt(d)."""
    d, kept = 6, 3
    p = problem(100, d, "2*u", slope_min=2.0, slope_max=2.0)
    t = tunables(ldp_iht_nonlinear, p, kept=kept, tau1=1.2, y_clip=0.9, T=1, clip="gradient")
    radius = ldp_iht_nonlinear.gradient_radius(p, t)
    g = np.random.default_rng(0)
    slope = _link.slope(p)
    for _ in range(100):
        theta = np.zeros(d)
        theta[g.choice(d, kept, replace=False)] = g.normal(size=kept)
        theta /= np.linalg.norm(theta)
        (rows,) = ldp_iht_nonlinear.gradients(9 * g.normal(size=(50, d)), 9 * g.normal(size=50), theta, t, slope, 0.0)
        assert np.linalg.norm(rows, axis=1).max() <= radius * (1 + 1e-12)
    theta = np.zeros(d)
    theta[:kept] = 1 / math.sqrt(kept)
    (rows,) = ldp_iht_nonlinear.gradients(np.full((1, d), 9.0), np.array([-9.0]), theta, t, slope, 0.0)
    assert np.linalg.norm(rows) == pytest.approx(radius)
    assert np.linalg.norm(rows) > 2 * 0.1 * math.sqrt(d)
    t = tunables(ldp_iht_nonlinear, p, kept=kept, tau1=1.2, y_clip=0.9, T=1, tau_res=0.5, r=99)
    (rows,) = ldp_iht_nonlinear.gradients(np.full((1, d), 9.0), np.array([-9.0]), theta, t, slope, 0.0)
    assert np.linalg.norm(rows) == pytest.approx(math.sqrt(d) * 1.2 * 2 * 0.5)
    assert ldp_iht_nonlinear.gradient_radius(p, t) == pytest.approx(np.linalg.norm(rows))


@pytest.mark.parametrize("g", [[1e6, 0.0], [1e300, 1e300], [math.nan, 1.0], [math.inf, 0.0], [0.0, 0.0]])
def test_any_gradient_stays_private(g):
    """Whatever the gradient, the two ends of a direction have probabilities within e^1 of one another: at most e/(1 + e) = 0.731."""
    n = 40_000
    reports = Hemisphere(2, 3.0).encode(np.tile(np.array(g), (n, 1)), 1.0, StudyNoise(0))
    assert np.allclose(np.linalg.norm(reports, axis=1), Hemisphere(2, 3.0).scale(1.0))
    share = float((reports[:, 0] > 0).mean())
    limit = math.e / (1 + math.e)
    spread = 5 * math.sqrt(0.25 / n)
    assert 1 - limit - spread <= share <= limit + spread


def test_the_rip_condition_that_leaves_room_for_a_step():
    """5/(7 a^2 (1 - D)) <= 9/(7 b^2 (1 + D)) holds exactly up to (9 a^2 - 5 b^2)/(9 a^2 + 5 b^2); the printed bound allows D = 2.57."""
    a, b = 7.0, 9.0
    limit = (9 * a * a - 5 * b * b) / (9 * a * a + 5 * b * b)
    assert limit == pytest.approx(0.0426, abs=5e-5)
    for D, room in ((limit - 1e-6, True), (limit + 1e-6, False)):
        assert (5 / (7 * a * a * (1 - D)) <= 9 / (7 * b * b * (1 + D))) is room
    assert (9 * a * a - 5 * b * b) / 14 == pytest.approx(2.57, abs=0.01)


def test_declared_slopes_must_hold():
    p = problem(100, 4, "u^3", ("labels-only",))
    t = tunables(label_ldp_iht_nonlinear, p)
    assert "outside the declared" in (label_ldp_iht_nonlinear.accepts(p, t) or "")
    good = problem(100, 4, modifiers=("labels-only",))
    assert label_ldp_iht_nonlinear.accepts(good, tunables(label_ldp_iht_nonlinear, good)) is None
    private = problem(100, 4)
    assert "responses only" in (label_ldp_iht_nonlinear.accepts(private, tunables(label_ldp_iht_nonlinear, private)) or "")
