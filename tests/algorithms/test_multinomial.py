"""The multinomial objective against one record at a time, finite differences, the logistic loss and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpspec.algorithms.multinomial import multinomial, slope, softmax, value
from dpspec.algorithms.objective import optimum
from dpspec.algorithms.sets import REALS, ConstraintSet
from dpspec.data.records import Records
from tests.algorithms.support import logistic

K, D = 3, 4


@pytest.fixture(scope="module")
def records() -> Records:
    g = np.random.default_rng(0)
    x = g.normal(size=(700, D)) * (g.random((700, D)) < 0.5)
    return Records(x, g.integers(0, K, 700))


@pytest.fixture(scope="module")
def w():
    return np.random.default_rng(1).normal(size=K * D)


def by_record(w, records):
    """The mean loss one record at a time, with the matrix written out."""
    W = w.reshape(K, D)
    return np.mean([math.log(sum(math.exp(z) for z in W @ a)) - (W @ a)[int(b)] for a, b in zip(records.x, records.y, strict=True)])


def test_value_gradient_and_hessian(records, w):
    f = multinomial(K, REALS, factor=1.5, l2=0.3, l1=0.2)
    assert f.size(D) == K * D
    assert f.value(w, records) == pytest.approx(1.5 * by_record(w, records) + 0.15 * sum(w**2) + 0.2 * sum(abs(w)), rel=1e-12)
    h = 1e-5
    hessian = f.data_hessian(w, records)
    for j, e in enumerate(np.eye(K * D)):
        difference = 1.5 * (by_record(w + h * e, records) - by_record(w - h * e, records)) / (2 * h)
        assert f.data_gradient(w, records)[j] == pytest.approx(difference, rel=1e-6, abs=1e-9)
        column = (f.data_gradient(w + h * e, records) - f.data_gradient(w - h * e, records)) / (2 * h)
        assert np.allclose(hessian[:, j], column, rtol=1e-5, atol=1e-9)
    assert np.linalg.eigvalsh(hessian)[0] > -1e-12
    assert np.allclose(f.data_gradient(w, records, 1400), f.data_gradient(w, records) / 2)


def test_sparse_records_and_any_blocks_give_the_same(records, w):
    f = multinomial(K, REALS)
    thin = Records(csr_array(records.x), records.y)
    assert f.data_value(w, thin) == pytest.approx(f.data_value(w, records), rel=1e-13)
    assert np.allclose(f.data_gradient(w, thin), f.data_gradient(w, records), rtol=1e-12, atol=1e-15)
    assert np.allclose(f.data_hessian(w, thin), f.data_hessian(w, records), rtol=1e-12, atol=1e-15)
    assert np.allclose(f.gradients(w, thin.x, thin.y), f.gradients(w, records.x, records.y))
    many = Records(np.tile(records.x, (60, 1)), np.tile(records.y, 60))  # several blocks
    assert np.allclose(f.data_gradient(w, many), f.data_gradient(w, records), rtol=1e-11)


def test_single_gradients_average_and_keep_their_bound(records, w):
    f = multinomial(K, REALS, factor=2.0)
    single = f.gradients(w, records.x, records.y)
    assert single.shape == (700, K * D)
    assert np.allclose(single.mean(axis=0), f.data_gradient(w, records))
    assert (np.linalg.norm(single, axis=1) <= 2 * math.sqrt(2) * np.linalg.norm(records.x, axis=1) * (1 + 1e-12)).all()


def test_two_classes_are_the_logistic_loss(records):
    """log(exp(u_0) + exp(u_1)) - u_y = log(1 + exp(-s(u_1 - u_0))) with s = -1 for y = 0 and 1 for y = 1."""
    y = (records.y > 0).astype(float)
    two, w = Records(records.x, y), np.random.default_rng(3).normal(size=2 * D)
    signs = Records(records.x, 2 * y - 1)
    difference = w[D:] - w[:D]
    assert multinomial(2, REALS).data_value(w, two) == pytest.approx(logistic().data_value(difference, signs), rel=1e-13)
    g = logistic().data_gradient(difference, signs)
    assert np.allclose(multinomial(2, REALS).data_gradient(w, two), np.concatenate([-g, g]), rtol=1e-12, atol=1e-16)


def test_extreme_margins_neither_overflow_nor_lose_a_probability():
    z, y = np.array([[1e4, -1e4, 0.0], [-1e300, 1e300, 0.0], [0.0, 0.0, 0.0]]), np.array([1.0, 1.0, 2.0])
    with np.errstate(over="raise", invalid="raise"):
        assert value(z.T, y)[0] == 2e4
        assert value(z.T, y)[1:] == pytest.approx([0.0, math.log(3)])
        assert softmax(z.T).sum(axis=0) == pytest.approx(1.0, rel=1e-15)
        assert np.allclose(slope(z.T, y).T, [[1, -1, 0], [0, 0, 0], [1 / 3, 1 / 3, -2 / 3]])


def test_the_reference_is_scikit_learns(records):
    from sklearn.linear_model import LogisticRegression

    lam = 0.01
    w, least = optimum(multinomial(K, REALS, l2=lam), records)
    theirs = LogisticRegression(C=1 / (lam * records.n), fit_intercept=False, tol=1e-10, max_iter=10_000).fit(records.x, records.y)
    assert np.allclose(w.reshape(K, D), theirs.coef_, atol=1e-5)
    assert least <= multinomial(K, REALS, l2=lam).value(theirs.coef_.ravel(), records) + 1e-12


@pytest.mark.parametrize("kind", ["l2", "l1", "linf", "box"])
def test_the_reference_over_a_set_is_stationary(records, kind):
    """No point of the set near the reference is better: the projected gradient step does not move it."""
    over = ConstraintSet("box", low=-0.1, high=0.2) if kind == "box" else ConstraintSet(kind, radius=0.5)
    f = multinomial(K, over)
    w, _ = optimum(f, records)
    assert w.shape == (K * D,)
    assert np.linalg.norm(f.prox(w - f.gradient(w, records), 1.0) - w) < 1e-7


@pytest.mark.parametrize("method", ["svrg", "gradient"])
def test_the_references_of_the_family_serve_it(records, method):
    """SVRG and gradient descent against the optimum that studies measure from."""
    from types import SimpleNamespace

    from dpspec.algorithms.card import Loss, Tunables
    from dpspec.algorithms.convex_erm import svrg
    from dpspec.privacy.noise import PublicRandomness

    f = multinomial(K, REALS, l2=0.1)
    smooth = float(0.5 * (records.x**2).sum(axis=1).max())
    p = SimpleNamespace(objective=f, d=K * D, n=records.n, loss=Loss("multinomial", 1.0, smooth, 0.1, True, 0.1, 0.0, "by hand", classes=K))
    t = Tunables({"method": method, "T": 6, "m": 2 * records.n, "eta": 1 / (10 * smooth), "steps": 5000, "tolerance": 1e-9})
    w = svrg.run(records, p, t, SimpleNamespace(public=PublicRandomness(0))).theta
    best, least = optimum(f, records)
    assert w.shape == (K * D,)
    assert f.value(w, records) - least < 1e-5
    assert np.linalg.norm(w - best) < 1e-2


def test_labels_are_classes_and_not_numbers(records, w):
    """Renaming the classes permutes the rows: nothing treats label 2 as twice label 1."""
    f, turned = multinomial(K, REALS), Records(records.x, (records.y + 1) % K)
    rolled = np.roll(w.reshape(K, D), 1, axis=0).ravel()
    assert np.allclose(np.roll(f.data_gradient(w, records).reshape(K, D), 1, axis=0).ravel(), f.data_gradient(rolled, turned), atol=1e-15)


def test_labels_are_needed(records, w):
    with pytest.raises(ValueError, match="labels"):
        multinomial(K, REALS).data_gradient(w, Records(records.x))
