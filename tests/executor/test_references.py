"""Non-private references against other solvers: NumPy's least squares, SciPy's Levenberg-Marquardt, scikit-learn's likelihoods."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares as levenberg
from scipy.sparse import csr_array

from dpspec.algorithms.card import Problem
from dpspec.data.records import GeneratedRecords, Records
from dpspec.executor.study import study
from dpspec.lang.source import parse_file, parse_text
from dpspec.spec.model import EstimateTheta
from dpspec.tasks import theta as references

SPEC = """\
analysis "a"

data
  n = 100, d = 3, a = 2
  private, unit person, neighbours replace-one

privacy sldp
  epsilon = 1

release theta
  estimate theta in {model}
"""


def problem(model: str, d: int = 4, **facts: float) -> Problem:
    task = parse_text(SPEC.format(model=model), surface="dps").analysis.releases[0].task
    assert isinstance(task, EstimateTheta)
    return Problem("sldp", "replace-one", task, {"n": 100, "d": d, **facts})


def gaussian(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal(d) / np.sqrt(d), rng


@pytest.mark.parametrize("n", [40, 7])  # 7 records and 9 coordinates: the solution of least norm
@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("dense", [2048, 1])
def test_least_squares_is_numpys(n, form, dense, monkeypatch):
    monkeypatch.setattr(references, "DENSE", dense)
    x, theta, rng = gaussian(n, 9)
    y = x @ theta + rng.standard_normal(n)
    found = references.least_squares(Records(form(x), y))
    assert found == pytest.approx(np.linalg.lstsq(x, y, rcond=None)[0], rel=1e-7, abs=1e-9)


def test_no_square_matrix_at_large_d():
    """8*d^2 bytes are 3.2 GB at d = 20,000; the records here take 3.2 MB."""
    x, theta, _ = gaussian(20, 20_000)
    records = Records(x, x @ theta)
    tracemalloc.start()
    found, _ = references.reference(records, problem("y = <theta, x> + noise", 20_000), {})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
    assert found == pytest.approx(x.T @ np.linalg.solve(x @ x.T, records.y), abs=1e-9)


def test_generated_records_are_read_block_by_block(monkeypatch):
    monkeypatch.setattr(references, "DENSE", 1)
    seed = np.arange(1, 4)

    def fill(block, x, y):
        rng = np.random.default_rng(block)
        x[:] = rng.standard_normal(x.shape)
        y[:] = x @ seed

    records = GeneratedRecords(150_000, 3, fill, cache_bytes=0)
    assert records.in_memory().n > 65_536  # more than one block
    assert references.least_squares(records) == pytest.approx(seed, abs=1e-9)


def test_through_a_known_link():
    """y = a u + sin(u)/5: least squares through f, not the linear fit, whose slope is that of f (2 and more) and not 1."""
    x, theta, rng = gaussian(3000, 4)
    u = x @ theta
    y = 2 * u + np.sin(u) / 5 + rng.uniform(-0.1, 0.1, len(u))
    found, optimum = references.reference(Records(x, y), problem("y = a*<theta, x> + sin(<theta, x>)/5 + noise", a=2.0), {})
    other = levenberg(lambda w: 2 * (x @ w) + np.sin(x @ w) / 5 - y, np.zeros(4), method="lm", xtol=1e-14, ftol=1e-14).x
    assert optimum is None
    assert found == pytest.approx(other, abs=1e-6)
    # the standard error of a coordinate is 0.1/sqrt(3)/|f'|/sqrt(3000), below 0.0006
    assert np.linalg.norm(found - theta) < 0.006 < 0.5 < np.linalg.norm(references.least_squares(Records(x, y)) - theta)


def test_a_link_that_is_flat_at_zero_does_not_hold_the_solver_at_zero():
    """f(u) = u^3 + u^2: f'(0) = 0, so that zero is a stationary point of the loss."""
    x, theta, _ = gaussian(500, 3)
    u = x @ theta
    found, _ = references.reference(Records(x, u**3 + u**2), problem("y = <theta, x>^3 + <theta, x>^2 + noise", 3), {})
    assert found == pytest.approx(theta, abs=1e-5)


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_logistic_likelihood(low):
    from sklearn.linear_model import LogisticRegression

    x, theta, rng = gaussian(800, 4)
    y = np.where(rng.random(800) < 1 / (1 + np.exp(-3 * x @ theta)), 1.0, low)
    found, _ = references.reference(Records(x, y), problem("y ~ glm(logistic)"), {})
    other = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-12, max_iter=1000).fit(x, y).coef_[0]
    assert found == pytest.approx(other, abs=1e-5)


@pytest.mark.parametrize("link", ["poisson", "log"])
def test_poisson_likelihood(link):
    from sklearn.linear_model import PoissonRegressor

    x, theta, rng = gaussian(800, 4)
    y = rng.poisson(np.exp(x @ theta)).astype(float)
    found, _ = references.reference(Records(x, y), problem(f"y ~ glm({link})"), {})
    other = PoissonRegressor(alpha=0, fit_intercept=False, tol=1e-12, max_iter=1000).fit(x, y).coef_
    assert found == pytest.approx(other, abs=1e-5)


def test_the_identity_link_is_least_squares_and_an_unknown_link_has_no_reference():
    x, theta, rng = gaussian(50, 4)
    records = Records(x, x @ theta + rng.standard_normal(50))
    assert references.reference(records, problem("y ~ glm(identity)"), {})[0] == pytest.approx(references.least_squares(records), abs=1e-6)
    assert references.reference(records, problem("y ~ glm(probit)"), {}) == (None, None)
    assert references.reference(Records(x), problem("y = <theta, x> + noise"), {}) == (None, None)


def test_over_a_ball_the_reference_stays_in_it():
    """By the optimality conditions: norm r, and the gradient points against w."""
    x, theta, _ = gaussian(300, 4)
    y = 5 * x @ theta
    w, _ = references.reference(Records(x, y), problem("y = <theta, x> + noise over ball(l2, 1)"), {})
    gradient = x.T @ (x @ w - y) / 300
    assert np.linalg.norm(w) == pytest.approx(1, abs=1e-9)
    assert gradient == pytest.approx(-np.linalg.norm(gradient) * w, abs=1e-6)


def test_over_sparse_vectors_the_reference_is_sparse():
    x, _, rng = gaussian(400, 10)
    y = x[:, 2] * 3 - x[:, 7] * 2 + 0.1 * rng.standard_normal(400)
    w, _ = references.reference(Records(x, y), problem("y = <theta, x> + noise over sparse(2)", 10), {})
    expected = np.zeros(10)
    expected[[2, 7]] = np.linalg.lstsq(x[:, [2, 7]], y, rcond=None)[0]
    assert w == pytest.approx(expected, abs=1e-6)


def test_a_study_through_a_link_shows_the_right_reference():
    """The standard error of a coordinate is below (0.1/sqrt(3))/1.8/sqrt(5000) = 0.00046; the linear fit is 1.1 away from theta."""
    root = Path(__file__).resolve().parents[2]
    found = study(parse_file(root / "specs/sparse/label-ldp-iht-nonlinear.dps"), trials=2, vary={"n": (5000,)}, workers=1)
    assert 0 < found.body["points"][0]["reference_error"]["mean"] < 0.00046 * math.sqrt(30) * 2
