"""Label-private algorithms: what the thesis' noise spends, the estimators by hand and against scikit-learn, refusals, rates, memory."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpspec.algorithms.sparse import _labels as shared
from dpspec.algorithms.sparse import label_ldp_iht, label_ldp_lasso, nldp_sparse_linear_regression
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from tests import leak
from tests.algorithms.sparse.exact import Exact, gaussian_delta, gaussian_epsilon, wide
from tests.algorithms.support import plan, sparse_regression, study, tunables

LABELS = ("labels-only",)
BUDGET = Budget(epsilon="1", delta="0.001")


def problem(n: int, d: int, **facts: float):
    return sparse_regression(n, d, modifiers=LABELS, **facts)


# ------------------------------------------------------------------------------------------------------------ privacy


@pytest.mark.parametrize(("k", "stated", "spent"), [(1, 1.0, 11.8), (5, 1.0, 36.0), (20, 1.0, 108.0), (1, 0.5, 4.7), (10, 0.5, 21.0)])
def test_the_thesis_noise_spends_far_more_than_stated(k, stated, spent):
    """000, Algorithm 5.3.42 at C = 0.05, delta = 1e-3. Witness: two records with the same public x = (1, ..., 1) and responses
    sqrt(k) + C and -(sqrt(k) + C), both of which the model allows (theta = +-(1, ..., 1)/sqrt(k))."""
    c, delta = 0.05, 1e-3
    scale = math.sqrt(32 * math.log(1.25 / delta)) * c / stated
    true = gaussian_epsilon(2 * (math.sqrt(k) + c) / scale, delta)
    assert true == pytest.approx(spent, abs=0.5)  # known to two or three digits
    p = problem(10_000, 30, k=k, noise_bound=c, x_linf=1.0, w_radius=1.0)
    t = tunables(label_ldp_iht, p)
    assert t.y_clip == pytest.approx(math.sqrt(k) + c)
    budget = Budget(epsilon=str(stated), delta="0.001")
    (printed,) = label_ldp_iht.published(p, t, budget)
    assert printed.scale == pytest.approx(scale)
    assert printed.epsilon == pytest.approx(true, rel=1e-4)
    ours = plan(label_ldp_iht, p, t, budget)
    assert gaussian_delta(2 * t.y_clip / ours.scale("label"), stated) <= delta * (1 + 1e-9)
    assert gaussian_delta(2 * t.y_clip / ours.scale("label"), stated) >= 0.99 * delta
    leak.epsilon(true, stated, delta)


def test_the_classical_label_noise_fails_at_large_epsilon():
    """8 y_clip^2 ln(1.25/delta)/epsilon^2 means mu = epsilon/sqrt(2 ln(1.25/delta))."""
    delta = 1e-5
    for epsilon, holds in ((1.0, True), (6.0, True), (10.0, False), (20.0, False)):
        mu = epsilon / math.sqrt(2 * math.log(1.25 / delta))
        assert (gaussian_delta(mu, epsilon) <= delta) is holds
        p = problem(1000, 5)
        t = tunables(label_ldp_iht, p, y_clip=3)
        ours = plan(label_ldp_iht, p, t, Budget(epsilon=str(epsilon), delta="0.00001"))
        assert gaussian_delta(6 / ours.scale("label"), epsilon) <= delta * (1 + 1e-9)
        if not holds:
            leak.delta(gaussian_delta(mu, epsilon), delta, epsilon)


def test_ten_runs_on_the_same_labels_spend_more():
    """Ten Gaussian copies at (1, 1e-3) are sqrt(10) mu-GDP. One run draws each label once, and an eleventh draw is refused."""
    delta = 1e-3
    from dpspec.privacy.meter import PrivacyError, Release
    from dpspec.privacy.noise import StudyNoise

    p = problem(50, 3)
    t = tunables(label_ldp_iht, p)
    c = plan(label_ldp_iht, p, t, BUDGET)
    mu = 2 * t.y_clip / c.scale("label")
    assert gaussian_epsilon(mu, delta) == pytest.approx(1.0, rel=1e-4)
    assert gaussian_epsilon(math.sqrt(10) * mu, delta) > 3
    release = Release(c, StudyNoise(0), mode="study")
    release.reports("label", np.zeros((50, 1)))
    with pytest.raises(PrivacyError, match="DP321"):
        release.reports("label", np.zeros((50, 1)))
    leak.epsilon(gaussian_epsilon(math.sqrt(10) * mu, delta), 1.0, delta)


def test_laplace_reports_have_bounded_density_ratios():
    """Density ratio exp(|y - y'|/b) at the ends of the clip is e^epsilon: b = 2 y_clip/epsilon."""
    p = problem(100, 3)
    t = tunables(label_ldp_iht, p, noise="laplace", y_clip=2)
    c = plan(label_ldp_iht, p, t, Budget(epsilon="0.7"))
    assert math.exp(4 / c.scale("label")) == pytest.approx(math.exp(0.7))
    assert c.guarantee.kind == "pure"


def test_clients_clip_whatever_comes():
    x, y = np.ones((4, 2)), np.array([1e300, -1e300, 0.25, -9.0])
    p = problem(4, 2)
    t = tunables(label_ldp_iht, p, y_clip=2)
    assert shared.noisy_labels(Records(x, y), Exact(label_ldp_iht.schedule(p, t))).tolist() == [2.0, -2.0, 0.25, -2.0]
    assert shared.noisy_labels(Records(x, y), Exact(label_ldp_iht.schedule(p, t)), centre=1.0).tolist() == [3.0, -1.0, 0.25, -1.0]


@pytest.mark.parametrize("module", [label_ldp_iht, label_ldp_lasso])
def test_features_that_are_private_are_refused(module):
    p = sparse_regression(100, 3)
    assert "responses only" in module.accepts(p, tunables(module, p))


def test_whole_record_privacy_may_serve_where_labels_are_enough():
    p = problem(10**6, 3)
    assert nldp_sparse_linear_regression.accepts(p, tunables(nldp_sparse_linear_regression, p)) is None


# ---------------------------------------------------------------------------------------------------------- estimators


def test_two_steps_by_hand():
    """x = e_1, e_2, y = 1, 1/2, eta = 1: gradient of 0 is -(1/2, 1/4), theta_1 = (1/2, 0) with one kept entry. Then the gradient is
    ((1/2 - 1)/2, -1/4) = (-1/4, -1/4): theta_2 = (3/4, 1/4) cut to (3/4, 0)."""
    records = Records(np.eye(2), np.array([1.0, 0.5]))
    p = problem(2, 2)
    for T, expected in ((1, [0.5, 0.0]), (2, [0.75, 0.0])):
        t = tunables(label_ldp_iht, p, T=T, kept=1, eta=1, y_clip=5)
        got = label_ldp_iht.run(records, p, t, Exact(label_ldp_iht.schedule(p, t)))
        assert np.allclose(got.theta, expected)
        assert np.allclose(got.extras["cross"], [0.5, 0.25])


def clean(n: int, d: int, k: int, seed: int = 0):
    g = np.random.default_rng(seed)
    theta = np.zeros(d)
    theta[:k] = 1 / math.sqrt(k)
    x = g.choice([-1.0, 1.0], size=(n, d))
    return Records(x, x @ theta + g.uniform(-0.05, 0.05, n)), theta


def test_the_printed_sign_climbs():
    records, theta = clean(4000, 20, 2)
    t = tunables(label_ldp_iht, problem(4000, 20), T=8, eta=0.9)
    right = shared.threshold_steps(records, records.y, t, 0.9, lambda u, y: u - y)
    wrong = shared.threshold_steps(records, records.y, t, 0.9, lambda u, y: y - u)
    assert np.linalg.norm(right - theta) < 0.02
    assert np.linalg.norm(wrong - theta) == pytest.approx(2.0, abs=0.05)  # the unit vector opposite to theta


def test_the_lasso_against_scikit_learn():
    from sklearn.linear_model import Lasso

    g = np.random.default_rng(3)
    x = g.normal(size=(300, 12)) * np.linspace(0.5, 2, 12)
    y = x[:, 2] - 0.5 * x[:, 7] + g.normal(size=300)
    p = problem(300, 12)
    t = tunables(label_ldp_lasso, p, T=5000, threshold=1)
    weight = 0.8 * math.sqrt((x**2).mean()) * math.sqrt(2 * math.log(24) / 300)
    theirs = Lasso(alpha=weight, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(x, y).coef_
    for kind in (x, csr_array(x)):
        assert np.allclose(label_ldp_lasso.lasso(Records(kind, y), y, t, 0.8), theirs, atol=2e-5)


def test_the_lasso_weight_follows_the_noise():
    """Labels that are nothing but the planned noise give 0 almost always at the default weight, and not at a tenth of it; twice the
    y_clip doubles the noise and the weight, so the answer stays."""
    n, d = 2000, 30
    x = np.random.default_rng(0).normal(size=(n, d))
    p = problem(n, d, sigma_y=1e-6)
    for y_clip in (1, 2):
        for threshold, zero in ((1.0, True), (0.1, False)):
            t = tunables(label_ldp_lasso, p, threshold=threshold, y_clip=y_clip)
            c = plan(label_ldp_lasso, p, t, BUDGET)
            found = [not study(label_ldp_lasso, Records(x, np.zeros(n)), p, t, c, seed).theta.any() for seed in range(20)]
            assert (sum(found) >= 15) if zero else (sum(found) == 0)


@pytest.mark.parametrize("module", [label_ldp_iht, label_ldp_lasso])
def test_wide_sparse_features_are_never_densified(module):
    """n = 2,000, d = 20,000, ten non-zeros a row: the dense matrix alone is 320 MB."""
    n, d = 2000, 20_000
    x = wide(n, d)
    y = np.asarray(x @ np.r_[np.ones(5), np.zeros(d - 5)])
    p = problem(n, d)
    t = tunables(module, p, T=10)
    c = plan(module, p, t, BUDGET)
    records = Records(x, y)
    tracemalloc.start()
    theta = study(module, records, p, t, c).theta
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert theta.shape == (d,)
    assert peak < 10e6


def test_sparse_and_dense_features_give_the_same():
    records, _ = clean(500, 8, 2)
    p = problem(500, 8)
    for module in (label_ldp_iht, label_ldp_lasso):
        t = tunables(module, p)
        c = plan(module, p, t, BUDGET)
        one = study(module, records, p, t, c, 5)
        other = study(module, Records(csr_array(records.x), records.y), p, t, c, 5)
        assert np.allclose(one.theta, other.theta, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "budget"), [("gaussian", BUDGET), ("laplace", Budget(epsilon="1"))])
def test_the_rate_in_n_is_one_half(noise, budget):
    d, errors, sizes = 30, [], (20_000, 80_000, 320_000)
    for n in sizes:
        p = problem(n, d, x_linf=1.0, w_radius=1.0, noise_bound=0.05)
        t = tunables(label_ldp_iht, p, noise=noise, kept=2, T=12)
        c = plan(label_ldp_iht, p, t, budget)
        trial = []
        for seed in range(12):
            records, theta = clean(n, d, 2, seed)
            trial.append(np.linalg.norm(study(label_ldp_iht, records, p, t, c, seed).theta - theta))
        errors.append(math.log(np.mean(trial)))
    slope = np.polyfit(np.log(sizes), errors, 1)[0]
    assert -0.75 < slope < -0.3  # -1/2; the standard error of a slope from 12 trials a point is about 0.07
