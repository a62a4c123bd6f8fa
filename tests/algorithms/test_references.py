"""The non-private references: by hand, and against least squares on the true support."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpspec.algorithms.sparse import iht, soft_thresholded_ols
from dpspec.data.records import Records
from tests.algorithms.support import sparse_regression, tunables


def law(n: int, d: int, seed: int = 0):
    g = np.random.default_rng(seed)
    theta = np.zeros(d)
    theta[[1, 4]] = (1.0, -0.5)
    x = g.normal(size=(n, d))
    return Records(x, x @ theta + 0.2 * g.normal(size=n)), theta


def test_soft_thresholded_ols_without_response_noise_is_exact():
    records = Records(np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), np.array([3.0, -2.0, 2.0]))  # theta = (3, -1)
    p = sparse_regression(3, 2)
    assert np.allclose(soft_thresholded_ols.run(records, p, tunables(soft_thresholded_ols, p), None).theta, [3.0, -1.0])


def test_soft_thresholded_ols_finds_the_support_and_keeps_to_its_bound():
    records, theta = law(4000, 12)
    p = sparse_regression(4000, 12)
    got = soft_thresholded_ols.run(records, p, tunables(soft_thresholded_ols, p), None)
    assert set(np.flatnonzero(got.theta)) <= {1, 4}
    standard = 0.2 / math.sqrt(4000)
    assert np.linalg.norm(got.theta - theta) <= 2 * math.sqrt(2) * math.sqrt(2 * math.log(24)) * standard * 1.3
    direct = np.linalg.lstsq(records.x, records.y, rcond=None)[0]
    assert np.allclose(got.extras["ols"], direct)


def test_iht_is_least_squares_on_the_support():
    records, _ = law(500, 12)
    p = sparse_regression(500, 12)
    got = iht.run(records, p, tunables(iht, p, kept=2, tolerance=1e-10), None).theta
    assert set(np.flatnonzero(got)) == {1, 4}
    assert np.allclose(got[[1, 4]], np.linalg.lstsq(records.x[:, [1, 4]], records.y, rcond=None)[0], atol=1e-6)


def test_iht_without_the_matrix_takes_the_same_steps(monkeypatch):
    records, _ = law(300, 12)
    p = sparse_regression(300, 12)
    t = tunables(iht, p, kept=3, tolerance=1e-10)
    kept = iht.run(records, p, t, None).theta
    monkeypatch.setattr(iht, "DENSE", 1)
    for form in (records, Records(csr_array(records.x), records.y)):
        assert np.allclose(iht.run(form, p, t, None).theta, kept, atol=1e-8)


@pytest.mark.parametrize("module", [iht, soft_thresholded_ols])
def test_sparse_records_and_no_draws(module):
    records, _ = law(300, 6)
    p = sparse_regression(300, 6)
    t = tunables(module, p)
    thin = Records(csr_array(records.x), records.y)
    assert np.allclose(module.run(thin, p, t, None).theta, module.run(records, p, t, None).theta)
    assert module.CARD.role == "reference"
    with pytest.raises(ValueError, match="no noise"):
        module.schedule(p, t)


def test_too_few_records_are_refused():
    p = sparse_regression(5, 6)
    assert "invertible" in soft_thresholded_ols.accepts(p, tunables(soft_thresholded_ols, p))
