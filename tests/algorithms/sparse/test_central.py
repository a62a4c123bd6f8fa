"""Central least squares by peeling: sensitivity by enumeration, printed versions that lack it, steps by hand, sparse data, rates."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpspec.algorithms.sparse import _central as central
from dpspec.algorithms.sparse import dp_iht_subgaussian, dp_iht_truncated
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from tests import leak
from tests.algorithms.sparse.exact import Exact, wide
from tests.algorithms.sparse.test_peeling import printed_scale
from tests.algorithms.support import plan, sparse_regression, study, tunables


def problem(n: int, d: int, neighbours: str = "replace-one", **facts: float):
    from dataclasses import replace

    return replace(sparse_regression(n, d, model="central", **facts), neighbours=neighbours)


def extreme(d: int, K_x: float, K_y: float):
    """All corner records."""
    for signs in itertools.product((-1.0, 1.0), repeat=d + 1):
        yield np.array(signs[:d]) * K_x, signs[d] * K_y


@pytest.mark.parametrize("kept", [1, 2, 3])
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_the_sensitivity_of_a_step_is_attained_and_never_exceeded(kept, neighbours):
    """Enumeration over corner records and the worst kept-sparse w of the ball: the largest l_inf move of v is lam."""
    d, m, K = 4, 5, 1.5
    p = problem(m, d, neighbours)
    t = tunables(dp_iht_truncated, p, T=1, kept=kept, K=K, eta=0.5)
    lam = dp_iht_truncated.sensitivity(p, t)
    w = np.zeros(d)
    w[:kept] = 1 / math.sqrt(kept)
    rest = [(np.ones(d), 0.3)] * (m - 1)

    def v(record) -> np.ndarray:
        x = np.array([record[0], *(r[0] for r in rest)])
        y = np.array([record[1], *(r[1] for r in rest)])
        return w - 0.5 * central.least_squares_gradient(x, y, w, K, K)

    images = [v((10 * x, 10 * y)) for x, y in extreme(d, K, K)]
    others = images if neighbours == "replace-one" else [v((np.zeros(d), 0.0))]
    worst = max(float(np.abs(a - b).max()) for a in images for b in others)
    assert worst == pytest.approx(lam, rel=1e-9)
    assert worst <= lam
    # as printed w_1 is any vector near theta: with 10,000 entries of 1/100 it has length 1 and |w|_1 = 100, where lam takes 1 (one is kept)
    w = np.full(10_000, 0.01)
    x = np.ones((2, 10_000))
    x[1, -1] = -1.0
    one, other = (central.least_squares_gradient(row[None], np.array([-1.0]), w, 1.0, 1.0) for row in x)
    leak.epsilon(float(np.abs(one - other).max()) / 4 / printed_scale(1, 1.0, 1e-5), 1.0)


def test_raw_batches_have_no_sensitivity():
    """003, step 5, passes the raw D_t: one heavy record moves the step by far more than lam; on the shrunk batch it does not."""
    p = problem(100, 4)
    t = tunables(dp_iht_truncated, p, T=1, K=2)
    lam = dp_iht_truncated.sensitivity(p, t)
    g = np.random.default_rng(0)
    x, y = g.normal(size=(100, 4)), g.normal(size=100)
    other = x.copy()
    other[0] = 1e4
    w = np.array([0.5, 0.5, 0.0, 0.0])
    raw = [w - t.eta / 100 * z.T @ (z @ w - y) for z in (x, other)]
    ours = [w - t.eta * central.least_squares_gradient(z, y, w, t.K, t.K) for z in (x, other)]
    assert np.abs(raw[0] - raw[1]).max() > 1000 * lam
    assert np.abs(ours[0] - ours[1]).max() <= lam
    leak.epsilon(float(np.abs(raw[0] - raw[1]).max()) / lam / printed_scale(2, 1.0, 1e-5), 1.0)  # of the Laplace noise of one value


def test_one_threshold_for_two_clips_is_too_small():
    """K_x = 3, K_y = 1, kept = 1: a record moves the step by 24 eta/N, the formula of one threshold allows 4 eta/N."""
    n = 10
    p = problem(n, 2)
    t = tunables(dp_iht_subgaussian, p, T=1, kept=1, K_x=3, K_y=1, eta=1, clip="record")
    w = np.array([1.0, 0.0])
    moved = 0.0
    for (x1, y1), (x2, y2) in itertools.product(extreme(2, 3, 1), repeat=2):
        a = central.least_squares_gradient(np.array([x1] + [[0.0, 0.0]] * (n - 1)), np.array([y1] + [0.0] * (n - 1)), w, 3, 1)
        b = central.least_squares_gradient(np.array([x2] + [[0.0, 0.0]] * (n - 1)), np.array([y2] + [0.0] * (n - 1)), w, 3, 1)
        moved = max(moved, float(np.abs(a - b).max()))
    assert moved == pytest.approx(24 / n)
    assert 2 * 1**2 * (math.sqrt(1) + 1) / n == pytest.approx(4 / n)
    assert moved <= dp_iht_subgaussian.sensitivity(p, t) <= moved * 1.001
    # K_x = 100: a record moves by 2 K_x (K_x + 1)/n what the formula for K = 1 allows 4 eta/n; a released value has Laplace noise for that
    a, b = (central.least_squares_gradient(np.array([[100.0, s * 100.0]]), np.array([-1.0]), w, 100, 1) for s in (1, -1))
    leak.epsilon(float(np.abs(a - b).max()) / 4 / printed_scale(1, 1.0, 1e-5), 1.0)


@pytest.mark.parametrize("data", ["full", "split"])
@pytest.mark.parametrize("clip", ["record", "residual"])
def test_any_pair_of_records_moves_the_step_by_at_most_lam(data, clip):
    g = np.random.default_rng(1)
    n, d = 24, 4
    p = problem(n, d)
    t = tunables(dp_iht_subgaussian, p, T=3, kept=2, data=data, clip=clip, K_x=1.2, K_y=0.7, tau_res=0.8)
    lam = dp_iht_subgaussian.sensitivity(p, t)
    residual = 0.8 if clip == "residual" else math.inf
    size = n if data == "full" else n // 3
    for _ in range(300):
        w = np.zeros(d)
        w[g.choice(d, 2, replace=False)] = g.normal(size=2)
        w /= max(1.0, float(np.linalg.norm(w)))
        x, y = 5 * g.standard_cauchy((size, d)), 5 * g.standard_cauchy(size)
        x2, y2 = x.copy(), y.copy()
        x2[0], y2[0] = 5 * g.standard_cauchy(d), 5 * g.standard_cauchy()
        a = t.eta * central.least_squares_gradient(x, y, w, 1.2, 0.7, residual)
        b = t.eta * central.least_squares_gradient(x2, y2, w, 1.2, 0.7, residual)
        assert np.abs(a - b).max() <= lam


def test_nan_and_infinity_are_harmless():
    x = np.array([[math.nan, 1.0], [math.inf, -math.inf], [0.5, 0.25]])
    y = np.array([1.0, math.nan, 1.0])
    w = np.array([0.5, 0.0])
    clean = np.array([[0.0, 1.0], [2.0, -2.0], [0.5, 0.25]])
    expected = clean.T @ (clean @ w - np.array([1.0, 0.0, 1.0])) / 3
    assert np.allclose(central.least_squares_gradient(x, y, w, 2.0, 2.0), expected)
    assert np.allclose(central.least_squares_gradient(csr_array(x), y, w, 2.0, 2.0), expected)
    printed = [np.sign(z) * np.minimum(np.abs(z), 2.0) for z in (x[2:], x)]  # neighbours of the zero-out kind
    leak.certain(*(bool(np.isnan(z).any()) for z in printed))


def test_batches_refuse_records_that_come_and_go():
    p = problem(100, 4, "add-remove")
    assert "shifts" in (dp_iht_truncated.accepts(p, tunables(dp_iht_truncated, p)) or "")
    assert "shifts" in (dp_iht_subgaussian.accepts(p, tunables(dp_iht_subgaussian, p, data="split")) or "")
    full = tunables(dp_iht_subgaussian, p)
    assert dp_iht_subgaussian.accepts(p, full) is None
    assert dp_iht_subgaussian.sensitivity(p, full) == pytest.approx(dp_iht_subgaussian.sensitivity(problem(100, 4), full) / 2)


def test_two_rounds_by_hand():
    """Batches {(e_1, 1/2)} and {((1, 1), 2)}; eta 1, one kept: v_1 = (1/2, 0); residual 1/2 - 2, v_2 = (2, 3/2), peeled to (2, 0),
    projected to (1, 0). Shrinking at K = 1 makes y_2 = 1: v_2 = (1, 1/2), the same after the projection."""
    records = Records(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0.5, 2.0]))
    p = problem(2, 2)
    for K, last in ((9, [2.0, 0.0]), (1, [1.0, 0.0])):
        t = tunables(dp_iht_truncated, p, T=2, kept=1, eta=1, K=K)
        got = dp_iht_truncated.run(records, p, t, Exact(dp_iht_truncated.schedule(p, t)))
        assert np.allclose(got.extras["step"], last)
        assert np.allclose(got.theta, [1.0, 0.0])


def test_full_and_split_read_their_records():
    """Full: the mean over all; split: one batch a round, the remainder in the last."""
    g = np.random.default_rng(2)
    x = g.normal(size=(7, 3))
    y = g.normal(size=7)
    p = problem(7, 3)
    t = tunables(dp_iht_subgaussian, p, T=1, kept=3, K_x=99, K_y=99, eta=0.1, data="full", clip="record")
    got = dp_iht_subgaussian.run(Records(x, y), p, t, Exact(dp_iht_subgaussian.schedule(p, t)))
    assert np.allclose(got.extras["step"], 0.1 * x.T @ y / 7)
    t = tunables(dp_iht_subgaussian, p, T=2, kept=3, K_x=99, K_y=99, eta=0.1, data="split", clip="record")
    got = dp_iht_subgaussian.run(Records(x, y), p, t, Exact(dp_iht_subgaussian.schedule(p, t)))
    w = 0.1 * x[:3].T @ y[:3] / 3
    assert np.allclose(got.extras["step"], w - 0.1 * x[3:].T @ (x[3:] @ w - y[3:]) / 4)


def test_without_noise_it_finds_theta():
    g = np.random.default_rng(3)
    theta = np.r_[0.6, -0.8, np.zeros(18)]
    x = g.normal(size=(20_000, 20))
    records = Records(x, x @ theta)
    p = problem(20_000, 20)
    for module, options in ((dp_iht_truncated, {"K": 6, "T": 12}), (dp_iht_subgaussian, {"T": 12})):
        t = tunables(module, p, **options)
        assert np.linalg.norm(module.run(records, p, t, Exact(module.schedule(p, t))).theta - theta) < 0.02


@pytest.mark.parametrize("module", [dp_iht_truncated, dp_iht_subgaussian])
def test_wide_sparse_records_are_never_densified(module):
    """n = 2,000, d = 20,000, ten non-zeros a row: the dense matrix alone is 320 MB."""
    n, d = 2000, 20_000
    x = wide(n, d)
    y = np.asarray(x @ np.r_[np.ones(5), np.zeros(d - 5)])
    p = problem(n, d)
    t = tunables(module, p, T=3)
    c = plan(module, p, t)
    records = Records(x, y)
    tracemalloc.start()
    theta = study(module, records, p, t, c).theta
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.count_nonzero(theta) == t.kept
    assert peak < 10e6


@pytest.mark.slow
def test_the_rate_in_n_of_the_squared_error():
    """Noise-dominated: the squared error falls like 1/n^2 for logarithmic clips (full data, residual clip)."""
    d, sizes, errors = 30, (10_000, 30_000, 90_000), []
    theta = np.r_[0.6, -0.8, np.zeros(d - 2)]
    for n in sizes:
        p = problem(n, d, eig_min=1.0, eig_max=1.0)
        t = tunables(dp_iht_subgaussian, p, T=5, kept=2, clip="residual", tau_res=1, K_x=4)
        c = plan(dp_iht_subgaussian, p, t, Budget(epsilon="1", delta="0.000001"))
        trial = []
        for seed in range(20):
            x = np.random.default_rng(seed).normal(size=(n, d))
            trial.append(float(np.linalg.norm(study(dp_iht_subgaussian, Records(x, x @ theta), p, t, c, seed).theta - theta)) ** 2)
        errors.append(math.log(np.median(trial)))
    slope = np.polyfit(np.log(sizes), errors, 1)[0]
    assert -2.8 < slope < -1.4
