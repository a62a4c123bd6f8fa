"""l1-recovery: both programmes against SLSQP and closed forms, and what the radius of the ball adds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from dpspec.algorithms.nldp_erm import l1_recovery as module
from dpspec.algorithms.sets import project_l1


def test_least_squares_is_the_best_point_of_the_ball():
    """Against SLSQP on z = a - b, a, b >= 0, sum a + sum b <= Lambda."""
    g = np.random.default_rng(2)
    a = g.normal(size=(4, 6)) / 2
    u = g.normal(size=4)
    z = module.least_squares(a, u, 0.7)

    def loss(s: np.ndarray) -> float:
        return float(np.sum((a @ (s[:6] - s[6:]) - u) ** 2))

    found = minimize(
        loss, np.full(12, 0.01), bounds=[(0, None)] * 12, constraints={"type": "ineq", "fun": lambda s: 0.7 - s.sum()}, tol=1e-12
    )
    assert np.abs(z).sum() <= 0.7 * (1 + 1e-12)
    assert float(np.sum((a @ z - u) ** 2)) == pytest.approx(found.fun, rel=1e-6)


def test_the_gap_is_within_its_bound():
    """Few steps against many, in the worst of 10 problems."""
    g = np.random.default_rng(3)
    for _ in range(10):
        a, u = g.normal(size=(5, 12)), g.normal(size=5)
        steps = int(g.integers(1, 20))
        best = np.sum((a @ module.least_squares(a, u, 1.0, 1500) - u) ** 2) / 2
        gap = np.sum((a @ module.least_squares(a, u, 1.0, steps) - u) ** 2) / 2 - best
        assert gap <= 2 * np.linalg.norm(a, 2) ** 2 * 2**2 / (steps + 1) ** 2


def test_the_linear_programme_is_a_soft_answer_for_the_identity():
    """G = I: |z - u|_1 <= sigma costs sigma of |u|_1, so the least norm is |u|_1 - sigma, and 0 where sigma covers u."""
    u = np.array([3.0, -1.0, 0.5])
    for sigma in (0.0, 1.0, 4.4):
        z = module.least_norm(np.eye(3), u, sigma)
        assert np.abs(z).sum() == pytest.approx(4.5 - sigma)
        assert np.abs(z - u).sum() <= sigma + 1e-9
    assert module.least_norm(np.eye(3), u, 5.0) == pytest.approx(np.zeros(3))


def test_a_sparse_vector_comes_back_from_few_rows():
    """d = 120, 40 rows, two entries: exactly without error, and about sigma/sqrt(p) off with one, by both."""
    g = np.random.default_rng(4)
    a = g.normal(size=(40, 120)) / np.sqrt(40)
    x = np.zeros(120)
    x[[5, 70]] = 0.6, -0.4
    assert module.least_norm(a, a @ x, 1e-9) == pytest.approx(x, abs=1e-6)
    assert module.least_squares(a, a @ x, 1.0, 3000) == pytest.approx(x, abs=1e-3)
    nu = g.normal(size=40) * 0.01
    for z in (module.least_norm(a, a @ x + nu, float(np.abs(nu).sum())), module.least_squares(a, a @ x + nu, 1.0)):
        assert np.linalg.norm(z - x) < 0.15


def test_the_ball_never_hurts():
    """A programme with a small level goes out of the ball; its projection is nearer to x."""
    g = np.random.default_rng(5)
    a = g.normal(size=(10, 30)) / np.sqrt(10)
    x = project_l1(g.normal(size=30), 1.0)
    z = module.least_norm(a, a @ x + g.normal(size=10) * 0.5, 0.1)
    assert np.abs(z).sum() > 1.2
    assert np.linalg.norm(project_l1(z, 1.0) - x) < np.linalg.norm(z - x)


def test_what_has_no_answer_is_said():
    with pytest.raises(ValueError, match="no z has"):
        module.least_norm(np.array([[1.0], [1.0]]), np.array([1.0, -1.0]), 0.5)
    with pytest.raises(ValueError, match="20000 are the most"):
        module.least_norm(np.ones((1, 20_001)), np.ones(1), 0.5)
