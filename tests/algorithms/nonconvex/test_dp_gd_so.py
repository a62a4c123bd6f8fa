"""dp-gd-so: the quadratic programme, both branches, the ball, the gain of a curvature step."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.algorithms import second_order
from dpspec.algorithms.nonconvex_erm import dp_gd_so as module
from dpspec.privacy.schedule import draws
from tests import leak
from tests.algorithms.nonconvex.saddles import answered, mixed, planned, still
from tests.algorithms.nonconvex.test_dp_gld import metered
from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import sample

BALL = "ball(l2, 1/2)"


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_quadratic_programme_is_solved(d: int):
    """Against a fine sample of the feasible set, random and special matrices, points in the ball and on its boundary."""
    rng = np.random.default_rng(d)
    for case in range(60):
        H = rng.normal(size=(d, d))
        H = (H + H.T) / 2 if case % 5 else -np.eye(d)
        w = rng.normal(size=d)
        w *= rng.choice([0.0, 0.5, 1.0]) / np.linalg.norm(w)
        g = rng.normal(size=d) * rng.choice([0.0, 1.0, 5.0])
        slack = rng.choice([0.0, 0.05, 1.0])
        u, q = second_order.least_quadratic(H, w, 1.0, g, slack)
        assert np.linalg.norm(u) <= 1 + 1e-9
        assert g @ (u - w) <= slack + 1e-6
        assert q == pytest.approx((u - w) @ H @ (u - w), abs=1e-6)
        points = rng.normal(size=(4000, d))
        points *= rng.random((4000, 1)) ** rng.choice([0.0, 1 / d]) / np.linalg.norm(points, axis=1, keepdims=True)
        v = points - w
        allowed = v @ g <= slack
        if allowed.any():
            assert q <= np.einsum("ij,jk,ik->i", v, H, v)[allowed].min() + 1e-7


def test_all_gradients_and_hessians_are_in_the_plan():
    p, t, c = planned(module, over=BALL)
    found = draws(module.schedule(p, t))
    assert {name: leaf.total for name, leaf in found.items()} == {"gradient": t.T, "hessian": t.T}
    assert c.scale("hessian") / found["hessian"].draw.mechanism.sensitivity == pytest.approx(
        c.scale("gradient") / found["gradient"].draw.mechanism.sensitivity
    )


def test_the_same_draws_are_made_in_either_branch():
    """Long gradients (first branch always) and none (second one): T of each either way, and the same result for all data."""
    p, t, _ = planned(module, over=BALL, options="T = 5")
    for size in (9.0, 0.0):
        answers = [v for _ in range(5) for v in (np.array([size, 0.0]), np.diag([-0.8, 0.9]))]
        found = []
        for seed in (0, 1):
            asked = still()
            left = iter(answers)
            names = []

            def draw(name, value, *, sensitivity, left=left, names=names):
                names.append(name)
                return next(left)

            asked.draw = draw
            found.append(module.run(sample(60, 2, seed), p, t, asked).w)
            assert names == ["gradient", "hessian"] * 5
        assert np.array_equal(found[0], found[1])


def test_of_the_points_that_pass_the_one_of_the_least_gap_is_released():
    """After one long gradient three points pass, on gradients of length 0.06, 0.01 and 0.03: the first, or the one of the least gap."""
    gradients = [np.array(g) for g in ((9.0, 0.0), (0.0, 0.06), (0.0, 0.01), (0.0, 0.03))]
    answers = [v for g in gradients for v in (g, np.eye(2))]

    def released(output: str) -> tuple[np.ndarray, float]:
        p, t, _ = planned(module, over=BALL, options=f"T = 4, alpha = 0.1, output = {output}")
        estimate = module.run(sample(60, 2), p, t, answered(answers))
        return np.asarray(estimate.w), float(estimate.extras["found"])

    p, t, _ = planned(module, over=BALL, options="T = 4, alpha = 0.1")
    assert t.output == "least"
    points, R = [np.zeros(2)], 0.5
    for g in gradients:
        v = -R * g / np.linalg.norm(g)
        gap = float(g @ (points[-1] - v))
        points.append(points[-1] + module.first(p, gap, float(np.linalg.norm(v - points[-1]))) * (v - points[-1]))
    gaps = [float(g @ w) + R * float(np.linalg.norm(g)) for g, w in zip(gradients, points, strict=False)]
    assert gaps[0] > 0.05  # alpha/2
    assert max(gaps[1:]) <= 0.05
    best = 1 + int(np.argmin(gaps[1:]))
    assert best > 1
    assert released("least") == (pytest.approx(points[best]), 1.0)
    assert released("first") == (pytest.approx(points[1]), 1.0)


def test_no_iterate_leaves_the_ball():
    """A small ball, where alpha/(2 D^2 M) and sqrt(alpha/rho)/(2 D^3) exceed 1; steps are cut, and every gradient is asked inside it."""
    p, t, _ = planned(module, over="ball(l2, 1/10)", options="T = 8, alpha = 1")
    assert 1 / (2 * 0.2**2) > 1
    assert math.sqrt(1 / t.bend) / (2 * 0.2**3) > 1
    assert module.first(p, 9.0, 0.1) == module.second(t, -9.0, 0.1) == 1.0
    rng = np.random.default_rng(0)
    answers = [v for _ in range(8) for v in (rng.normal(size=2) * rng.choice([0, 9]), -9 * np.eye(2))]
    release = answered(answers)
    points = []
    from dataclasses import replace
    from types import SimpleNamespace

    f = p.oracle

    def gradient(w, *a, **k):
        points.append(w)
        return f.data_gradient(w, *a, **k)

    spy = SimpleNamespace(l2=0.0, over=f.over, curvature=f.curvature, data_gradient=gradient)
    module.run(sample(60, 2), replace(p, oracle=spy), t, release)
    assert len(points) == 8
    assert max(np.linalg.norm(w) for w in points) <= 0.1 * (1 + 1e-12)
    # as printed: a ball of radius 1/100, where the step for a vertex is alpha/(2 D^2 M) = 1250 of the way to it; (<w, x> - y)^2/2, d = 1
    w, lipschitz = 1 / (2 * 0.02**2) * 0.01, 1 + 0.01
    one, other = ((w * x - y) * x for x, y in ((1.0, -1.0), (1 / (2 * w), 1.0)))
    leak.moved(abs(one - other), 2 * lipschitz)


def test_the_curvature_step_gains_a_sixth():
    """The worst cubic of the descent lemma at theta = gamma/(rho D^3): -1/2 + 3/18 + 1/6 of gamma^3/(rho^2 D^6); with the printed step,
    alpha/(2 D^3), the remainder is larger than the gain for rho = 16 and small alpha."""
    alpha, rho, D = 1e-3, 16.0, 1.0
    gamma = math.sqrt(rho * alpha) / 2

    def change(theta: float) -> float:
        r = e = gamma**2 / (18 * rho * D**3)
        return theta * (r + e) + theta**2 / 2 * (-gamma + gamma / 9) + rho * theta**3 * D**3 / 6

    proof = math.sqrt(alpha / rho) / (2 * D**3)
    assert proof == pytest.approx(gamma / (rho * D**3))
    assert change(proof) == pytest.approx(-(gamma**3) / (6 * rho**2 * D**6))
    printed = alpha / (2 * D**3)
    assert change(printed) > change(proof) * 0.5


def test_it_leaves_a_saddle_point_in_the_ball():
    """0 is stationary for mixed regressions; the curvature branch moves off it."""
    n = 20_000
    p, t, c = planned(module, n=n, over=BALL, epsilon="4", options="alpha = 0.002, T = 500")
    r = mixed(n)
    ends = [metered(module, r, p, t, c, seed) for seed in range(2)]
    assert all(abs(w[0]) > 0.15 for w in ends)
    assert all(np.linalg.norm(w) <= 0.5 + 1e-12 for w in ends)


def test_what_it_refuses():
    from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import bound as pgd

    for over in ("R^d", "ball(l1, 1)"):
        p, _, _ = pgd(over=over)
        assert "l2 ball alone" in str(module.accepts(p, None))
    p, _, _ = pgd(over="ball(l2, 1)", d=300)
    assert "200" in str(module.accepts(p, None))
