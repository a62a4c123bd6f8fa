"""The objective against finite differences, sparse against dense, prox against brute force, the reference against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from dpspec.algorithms.objective import Objective, optimum
from dpspec.algorithms.sets import ConstraintSet
from dpspec.data.records import Records
from tests.algorithms.support import logistic, squared


@pytest.fixture(scope="module")
def records() -> Records:
    g = np.random.default_rng(0)
    x = g.normal(size=(700, 4)) * (g.random((700, 4)) < 0.5)
    return Records(x, np.where(g.random(700) < 0.4, 1.0, -1.0))


def by_record(w, records, l2=0.0, l1=0.0):
    """F(w) one record at a time."""
    total = sum(np.log1p(np.exp(-b * float(a @ w))) for a, b in zip(records.x, records.y, strict=True))
    return total / records.n + l2 / 2 * sum(w**2) + l1 * sum(abs(w))


def test_value_gradient_and_hessian(records):
    f, w = logistic(l2=0.3, l1=0.2), np.array([0.5, -1.0, 0.2, 2.0])
    assert f.value(w, records) == pytest.approx(by_record(w, records, 0.3, 0.2), rel=1e-12)
    h = 1e-5
    for j, e in enumerate(np.eye(4)):
        smooth = (by_record(w + h * e, records, 0.3) - by_record(w - h * e, records, 0.3)) / (2 * h)
        assert f.gradient(w, records)[j] == pytest.approx(smooth, rel=1e-6)
        data = (by_record(w + h * e, records) - by_record(w - h * e, records)) / (2 * h)
        assert f.data_gradient(w, records)[j] == pytest.approx(data, rel=1e-6)
        column = (f.data_gradient(w + h * e, records) - f.data_gradient(w - h * e, records)) / (2 * h)
        assert np.allclose(f.data_hessian(w, records)[:, j], column, rtol=1e-5, atol=1e-9)


def test_sparse_records_give_the_same(records):
    f, w = logistic(), np.array([0.5, -1.0, 0.2, 2.0])
    thin = Records(csr_array(records.x), records.y)
    assert f.data_value(w, thin) == pytest.approx(f.data_value(w, records), rel=1e-13)
    assert np.allclose(f.data_gradient(w, thin), f.data_gradient(w, records), rtol=1e-12)
    assert np.allclose(f.data_hessian(w, thin), f.data_hessian(w, records), rtol=1e-12)
    assert np.allclose(f.gradients(w, thin.x, thin.y), f.gradients(w, records.x, records.y))


def test_single_gradients_average_to_the_data_gradient(records):
    f, w = squared(), np.array([0.5, -1.0, 0.2, 2.0])
    assert np.allclose(f.gradients(w, records.x, records.y).mean(axis=0), f.data_gradient(w, records))


def test_the_public_n_is_the_divisor(records):
    """Under add/remove the true count is private: sums are divided by the public n."""
    f, w = logistic(), np.ones(4)
    assert np.allclose(f.data_gradient(w, records, 1000) * 1000, f.data_gradient(w, records) * records.n)


@pytest.mark.parametrize(
    "over",
    [
        ConstraintSet("reals"),
        ConstraintSet("l2", radius=0.8),
        ConstraintSet("l1", radius=0.8),
        ConstraintSet("box", low=-0.4, high=0.9),
        ConstraintSet("simplex"),
    ],
    ids=lambda s: s.kind,
)
def test_prox_is_the_minimiser_over_a_grid(over):
    f = logistic(l1=0.5, over=over)
    a = np.linspace(-4, 4, 801)
    grid = np.stack(np.meshgrid(a, a), axis=-1).reshape(-1, 2)
    if over.kind == "l2":
        grid = grid[(grid**2).sum(axis=1) <= over.radius**2]
    elif over.kind == "l1":
        grid = grid[np.abs(grid).sum(axis=1) <= over.radius + 1e-12]
    elif over.kind == "box":
        grid = grid[(grid >= over.low - 1e-12).all(axis=1) & (grid <= over.high + 1e-12).all(axis=1)]
    elif over.kind == "simplex":
        b = np.linspace(0, 1, 2001)
        grid = np.stack([b, 1 - b], axis=1)
    g = np.random.default_rng(1)
    for _ in range(20):
        v = g.normal(size=2)

        def value(u, v=v):
            return ((u - v) ** 2).sum(axis=-1) / 2 + 0.7 * 0.5 * np.abs(u).sum(axis=-1)

        p = f.prox(v, 0.7)
        assert value(p) <= value(grid).min() + 1e-9
        assert np.abs(grid - p).max(axis=1).min() <= 0.011  # it lies in the set


def test_labels_are_needed(records):
    with pytest.raises(ValueError, match="labels"):
        logistic().data_value(np.ones(4), Records(records.x))


def test_the_reference_optimum_agrees_with_scikit_learn(records):
    from sklearn.linear_model import LogisticRegression

    w, value = optimum(logistic(l2=0.05), records)
    other = LogisticRegression(C=1 / (0.05 * records.n), fit_intercept=False, tol=1e-12, max_iter=5000).fit(records.x, records.y)
    assert np.allclose(w, other.coef_[0], atol=1e-5)
    assert value == pytest.approx(by_record(other.coef_[0], records, 0.05), rel=1e-9)


def test_the_reference_optimum_over_a_ball_with_l1(records):
    f = logistic(l2=0.01, l1=0.02, over=ConstraintSet("l2", radius=0.3))
    w, value = optimum(f, records)
    direct = minimize(
        lambda v: by_record(v[:4] - v[4:], records, 0.01) + 0.02 * v.sum(),
        np.full(8, 0.01),
        bounds=[(0, None)] * 8,
        constraints={"type": "ineq", "fun": lambda v: 0.09 - ((v[:4] - v[4:]) ** 2).sum()},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert value <= direct.fun + 1e-8
    assert np.linalg.norm(w) <= 0.3 + 1e-9


def test_an_objective_without_curvature_says_so(records):
    f = Objective(lambda u, y: np.abs(u - y), lambda u, y: np.sign(u - y))
    with pytest.raises(ValueError, match="second derivative"):
        f.data_hessian(np.ones(4), records)
