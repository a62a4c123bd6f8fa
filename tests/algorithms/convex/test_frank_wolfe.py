"""Private Frank-Wolfe: the sensitivity that the run enforces, the choice's law, and the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import laplace

from dpspec.algorithms.convex_erm import dp_frank_wolfe
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.vertices import clipped_gradient
from dpspec.data.records import Records
from dpspec.spec.expr import Num
from dpspec.spec.model import Ball, Polytope
from tests import leak
from tests.algorithms.support import logistic, minimise, plan, study, tunables


def problem(n, d, **facts):
    return minimise(n, d, logistic(), over=Ball(norm="l1", radius=Num(2)), facts={"w_radius": 2.0, **facts})


def test_one_large_record_moves_the_scores_no_further_than_planned():
    """A record with entries a thousand times the bound: without the clip the mean gradient moves by far more than 2c/n."""
    n, d, c = 50, 4, 0.1
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.1, 0.1, (n, d))
    wild = x.copy()
    wild[0] = 1000.0
    y = np.ones(n)
    p = problem(n, d)
    t = tunables(dp_frank_wolfe, p, clip=0.1)
    f, w = p.objective, np.zeros(d)
    one, two = (clipped_gradient(f, w, Records(a, y), n, c, 1.0) for a in (x, wild))
    planned = dp_frank_wolfe.sensitivity(p, t)
    assert np.abs(one - two).max() * 2.0 <= planned  # scores are 2*<+-e_j, g>
    assert math.isclose(planned, 2 * 0.1 * 2.0 / n, rel_tol=1e-9)
    assert np.abs(f.data_gradient(w, Records(x, y)) - f.data_gradient(w, Records(wild, y))).max() * 2.0 > 100 * planned
    # as printed, with Laplace noise for the stated sensitivity at epsilon = 1: of two vertices that were equal one is now far behind
    exact = [f.data_gradient(w, Records(a, y)) for a in (x, wild)]
    gap = float(np.abs(exact[0] - exact[1]).max()) * 2.0
    scale = 2 * planned
    # 1/2 over the chance that the difference of two Laplace draws exceeds the gap, e^(-gap/scale) (1 + gap/(2 scale))/2
    leak.epsilon(gap / scale - math.log1p(gap / (2 * scale)), 1.0)


def test_half_the_laplace_scale_is_not_enough():
    """Two candidates with scores (-3, 1) against (-4, 2), sensitivity 1, noise Lap(1/epsilon): P(first wins) by quadrature has a ratio
    above e^epsilon; with 2/epsilon it is within."""
    from scipy.integrate import quad

    def first_wins(gap, b):
        return quad(lambda z: laplace.pdf(z, scale=b) * laplace.cdf(z + gap, scale=b), -60, 60, limit=400)[0]

    for epsilon in (0.5, 1.0):
        half, whole = (math.log(first_wins(-4, b) / first_wins(-6, b)) for b in (1 / epsilon, 2 / epsilon))
        assert half > epsilon
        assert whole <= epsilon
        leak.epsilon(half, epsilon)


def test_the_bound_holds_on_a_random_problem():
    rng = np.random.default_rng(1)
    n, d = 2000, 6
    x = rng.uniform(-1, 1, (n, d)) / math.sqrt(d)
    records = Records(x, np.sign(x[:, 0] + 0.1 * rng.standard_normal(n)))
    p = problem(n, d)
    t = tunables(dp_frank_wolfe, p)
    c = plan(dp_frank_wolfe, p, t)
    (bound,) = dp_frank_wolfe.explicit_bounds(p, t, c).values()
    f = p.objective
    corners = [f.value(2.0 * s * e, records) for e in np.eye(d) for s in (1, -1)]
    from dpspec.algorithms.objective import optimum
    from dpspec.algorithms.sets import ConstraintSet

    bounded = logistic(over=ConstraintSet("l1", radius=2.0))
    _, best = optimum(bounded, records)
    assert best <= min(corners)
    found = [study(dp_frank_wolfe, records, p, t, c, seed).theta for seed in range(20)]
    assert all(np.abs(w).sum() <= 2 + 1e-9 for w in found)
    errors = [f.value(w, records) - best for w in found]
    assert -1e-9 < np.mean(errors) <= bound


def test_scores_of_a_polytope_move_by_the_l1_norm_of_its_corners(tmp_path):
    """Corners +-(1, 1), entries clipped to 0.1: a record with the gradient (0.7, 0.7) against its opposite moves a score by 2*0.1*2/n, more
    than the l2 norm of a corner would allow; without the clip binding, L times the l2 norm is the smaller bound and holds as well."""
    path = tmp_path / "corners.csv"
    corners = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    np.savetxt(path, corners, delimiter=",")
    n = 10
    p = minimise(n, 2, logistic(), over=Polytope(vertices=str(path)), facts={"w_radius": math.sqrt(2)})
    x = np.zeros((n, 2))
    x[0] = 1 / math.sqrt(2)
    f = Objective(lambda u, y: y * u, lambda u, y: y * np.ones_like(u))
    for clip, attained in ((0.1, 2 * 0.1 * 2 / n), (1.0, 2 * 1.0 * math.sqrt(2) / n)):
        scores = [corners @ clipped_gradient(f, np.zeros(2), Records(x, s * np.ones(n)), n, clip, 1.0) for s in (1.0, -1.0)]
        assert math.isclose(np.abs(scores[0] - scores[1]).max(), attained, rel_tol=1e-12)
        assert attained * (1 - 1e-12) <= dp_frank_wolfe.sensitivity(p, tunables(dp_frank_wolfe, p, clip=clip)) <= attained * (1 + 1e-9)


def test_over_an_l1_ball_the_curvature_is_that_of_bounded_entries():
    """phi'' <= 1/4, entries at most 1, an l1 ball of radius 2: C = (1/4) 4^2 = 4 by |x|_inf, where |x|_2^2 = d gives d times as much. No
    pair of points of the ball and direction exceeds it."""
    from dataclasses import replace

    from dpspec.algorithms import vertices

    n, d = 400, 6
    p = problem(n, d)
    wide = replace(p, facts={**p.facts, "x_linf": 1.0, "x_l2": math.sqrt(d)}, loss=replace(p.loss, smooth=0.25 * d, curve=0.25))
    C = vertices.curvature(wide)
    assert pytest.approx(0.25 * 4**2 + wide.loss.l2 * 4**2) == C
    rng = np.random.default_rng(2)
    x = rng.choice([-1.0, 1.0], (n, d))
    corners = np.concatenate([np.eye(d), -np.eye(d)]) * 2.0
    steepest = max(float(((x @ (v - w)) ** 2).mean()) / 4 for v in corners for w in corners)
    assert 0.9 * 0.25 * 4**2 <= steepest <= C
