"""One-round sparse regression: the estimator by hand, sensitivities by search, printed noise against exact accounting, both data paths."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.stats import beta, norm

from dpspec.algorithms.card import Problem
from dpspec.algorithms.sparse import nldp_sparse_linear_regression as nldp
from dpspec.algorithms.sparse import nldp_sparse_linear_regression_public as public
from dpspec.data.records import Records
from dpspec.models.features import ScaledPair
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.channels.gaussian_ball_product import GaussianBallProduct
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import StudyNoise
from dpspec.spec.model import EstimateTheta
from tests.algorithms.support import Silent, plan, sparse_regression, study, tunables

BUDGET = Budget(epsilon="1", delta="0.00001")


def exact_delta(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def law(n: int, d: int, seed: int = 0, noise: float = 0.3, m: int = 0) -> tuple[Records, np.ndarray]:
    g = np.random.default_rng(seed)
    theta = np.zeros(d)
    theta[:2] = (0.8, -0.6)
    x = g.normal(size=(n, d))
    return Records(x, x @ theta + noise * g.normal(size=n), g.normal(size=(m, d)) if m else None), theta


# ----------------------------------------------------------------------------------------------------- estimator by hand


def test_two_users_by_hand():
    """x = (1, 0), (0, 2), y = 1, 3, clips r = 1, tau2 = 2: (0, 2), 3 becomes (0, 1), 3/2, so S = diag(1, 1)/2, b = (1, 3/2)/2,
    S^{-1} b = (1, 3/2) as from the records themselves. No threshold at d = k = 2."""
    records = Records(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, 3.0]))
    p = sparse_regression(2, 2)
    t = tunables(nldp, p, r=1, tau2=2, spectrum="none")
    assert np.allclose(nldp.run(records, p, t, Silent(nldp.schedule(p, t))).theta, [1.0, 1.5])
    t = tunables(nldp, p, r=2, tau1=1, tau2=2, spectrum="none", product="cube")  # S = diag(1, 4)/2, b = (1, 2)/2
    assert np.allclose(nldp.run(records, p, t, Silent(nldp.schedule(p, t))).theta, [1.0, 0.5])


def test_the_public_variant_by_hand():
    records = Records(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 1.0]), np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
    p = sparse_regression(2, 2, modifiers=("public",), m=3)
    t = tunables(public, p, r=1, tau2=2)
    got = public.run(records, p, t, Silent(public.schedule(p, t))).theta  # S = diag(1, 1)/3 of rows in the ball, b = (1, 1)/2
    assert np.allclose(got, [1.5, 1.5])
    sparse = Records(records.x, records.y, csr_array(records.public_x))
    assert np.allclose(public.run(sparse, p, t, Silent(public.schedule(p, t))).theta, [1.5, 1.5])
    t = tunables(public, p, r=1, tau1=1, tau2=2, product="cube")  # S = diag(1, 4)/3
    assert np.allclose(public.run(records, p, t, Silent(public.schedule(p, t))).theta, [1.5, 0.375])


def test_the_threshold_is_the_quantile_of_the_noise():
    """sd_j = |row j of S^{-1}| sqrt(s_S^2 + s_b^2) is the deviation of (S^{-1}(b + e - E theta))_j at a unit theta: by simulation."""
    g = np.random.default_rng(0)
    inverse = np.linalg.inv(np.array([[2.0, 0.5], [0.5, 1.0]]))
    b = np.array([3.0, 0.1])
    estimate = nldp.solve(inverse, b, (0.3, 0.4), 1.0)
    theta = np.array([0.6, 0.8])
    draws = (0.4 * g.normal(size=(200_000, 2)) + 0.3 * g.normal(size=(200_000, 2, 2)) @ theta) @ inverse
    lam = estimate.extras["threshold"]
    assert np.allclose(lam / math.sqrt(2 * math.log(4)), draws.std(axis=0), rtol=0.01)
    ols = inverse @ b
    assert np.allclose(estimate.theta, [math.copysign(max(abs(o) - a, 0), o) for o, a in zip(ols, lam, strict=True)])


def test_the_error_is_at_most_2_sqrt_k_lam():
    """Lemma 29 (its constant halved): for lam >= |ols - theta|_inf and a k-sparse theta."""
    from dpspec.algorithms.sets import soft_threshold

    g = np.random.default_rng(1)
    for _ in range(200):
        theta = np.zeros(12)
        theta[:3] = g.normal(size=3)
        ols = theta + g.uniform(-1, 1, 12) * 0.5
        lam = np.abs(ols - theta).max()
        assert np.linalg.norm(soft_threshold(ols, lam) - theta) <= 2 * math.sqrt(3) * lam


@pytest.mark.parametrize("spectrum", ["floor", "psd", "none"])
def test_the_spectrum_repairs(spectrum):
    s = np.array([[2.0, 0.0], [0.0, -1.0]])
    expected = {"floor": [0.5, 4.0], "psd": [0.5, 0.0], "none": [0.5, -1.0]}[spectrum]
    assert np.allclose(nldp.repaired_inverse(s, spectrum, 0.25), np.diag(expected))


def test_noise_is_shrunk_as_the_least_squares_estimate_of_its_prior():
    """The posterior mean of v ~ N(0, w^2 I) given b = S v + N(0, s^2 I), w^2 = 1/(share^2 tr S) at s = 1, solved as a linear system."""
    g = np.random.default_rng(3)
    q = np.linalg.qr(g.normal(size=(4, 4)))[0]
    s, b, share = q @ np.diag([3.0, 1.0, 0.1, 1e-5]) @ q.T, g.normal(size=4), 0.2
    posterior = np.linalg.solve(s @ s + share**2 * np.trace(s) * np.eye(4), s @ b)
    assert np.allclose(nldp.repaired_inverse(s, "floor", 0.0, share) @ b, posterior, rtol=1e-6)


@pytest.mark.parametrize("epsilon", ["0.3", "8"])
def test_a_flat_direction_of_the_public_records_costs_no_more_than_zero(epsilon):
    """One coordinate with a hundredth of the variance: S^{-1} alone multiplies its noise by a hundred. Its share of theta is lost, and no
    more. The plan says so where noise is longer than theta."""
    g = np.random.default_rng(0)
    d, n, theta = 5, 20_000, np.array([0.8, 0.0, 0.6, 0.0, 0.0])
    x = g.normal(size=(n + 3000, d)) * np.array([1.0, 1.0, 1.0, 1.0, 0.1])
    records = Records(x[:n], x[:n] @ theta + 0.3 * g.normal(size=n), x[n:])
    facts = {"n": n, "d": d, "m": 3000, "k": 2, "epsilon": float(epsilon), "delta": 1e-6, "sigma_x": 1.0, "sigma_y": 1.0, "y_abs": 3.0}
    p = Problem("nldp", "replace-one", EstimateTheta(form="linear"), facts, modifiers=frozenset({"public"}))
    t = tunables(public, p, r=5, tau2=3)
    c = plan(public, p, t, Budget(epsilon=epsilon, delta="0.000001"))
    errors = [np.linalg.norm(study(public, records, p, t, c, seed).theta - theta) for seed in range(20)]
    assert np.mean(errors) < 1.15
    assert bool(public.warnings(p, t, c)) == (epsilon == "0.3")


# ------------------------------------------------------------------------------------------------ privacy, printed and ours


def test_the_upper_triangle_has_sensitivity_sqrt2_r2():
    """No pair of records of the ball is further apart (random search), r e_1 against r e_2 is exactly that far; the text has 2 r^2."""
    g = np.random.default_rng(2)
    p = sparse_regression(100, 3)
    t = tunables(nldp, p, r=1.7)
    mechanism = nldp.schedule(p, t).parts[0].mechanism
    i, j = np.triu_indices(3)

    def far(a, b):
        return np.linalg.norm((np.outer(a, a) - np.outer(b, b))[i, j])

    worst = 0.0
    for _ in range(4000):
        a, b = (v / np.linalg.norm(v) * 1.7 for v in g.normal(size=(2, 3)))
        worst = max(worst, far(a, b))
    e = 1.7 * np.eye(3)
    assert worst <= mechanism.sensitivity
    assert far(e[0], e[1]) == pytest.approx(mechanism.sensitivity)
    assert mechanism.sensitivity == pytest.approx(math.sqrt(2) * 1.7**2)


@pytest.mark.parametrize(("product", "expected"), [("ball", 2 * 1.5 * 0.7), ("cube", 2 * math.sqrt(3) * 1.1 * 0.7)])
def test_the_product_has_the_diameter_of_what_clients_send(product, expected):
    p = sparse_regression(100, 3)
    t = tunables(nldp, p, r=1.5, tau1=1.1, tau2=0.7, product=product)
    channel = nldp.product_channel(p, t)
    assert channel.sensitivity == pytest.approx(expected)
    g = np.random.default_rng(3)
    x, y = 5 * g.normal(size=(500, 3)), 5 * g.normal(size=500)
    clean_x, clean_y, _ = channel.clip((x, y))
    sent = clean_x * clean_y[:, None]
    assert 2 * np.linalg.norm(sent, axis=1).max() <= channel.sensitivity * (1 + 1e-12)
    assert 2 * np.linalg.norm(sent, axis=1).max() >= 0.9 * channel.sensitivity or product == "cube"


def test_the_two_draws_spend_the_budget_together_and_by_weight():
    p = sparse_regression(1000, 4)
    t = tunables(nldp, p, weight=0.8)
    c = plan(nldp, p, t, BUDGET)
    a, b = nldp.schedule(p, t).parts
    parts = [(a.mechanism.sensitivity / c.scale("covariance")) ** 2, (b.mechanism.sensitivity / c.scale("xy")) ** 2]
    assert parts[0] / sum(parts) == pytest.approx(0.8, rel=1e-9)
    assert exact_delta(1.0, math.sqrt(sum(parts))) == pytest.approx(1e-5, rel=1e-6)


def test_the_default_weight_has_the_least_variance():
    """of b - S theta at |theta| = 1: 2 r^4/w + 4 r^2 tau2^2/(1 - w), on a grid."""
    p = sparse_regression(1000, 4)
    t = tunables(nldp, p, r=3, tau2=0.7)
    w = np.linspace(0.001, 0.999, 9999)
    assert t.weight == pytest.approx(w[np.argmin(2 * 3**4 / w + 4 * 9 * 0.49 / (1 - w))], abs=2e-4)


def test_the_printed_noise_spends_less_than_half():
    """Exact epsilon of the printed pair at epsilon 1, delta 1e-5: mu^2 = 2 r^4/(32 L r^4) + 4 d tau^4/(32 L d tau^4), L = log(2.5/delta).
    0.43; with 2 r^2 in the place of the tight sqrt(2) r^2 it would be 0.50."""
    L = math.log(2.5e5)

    def spent(first):
        mu = math.sqrt(first / (32 * L) + 4 / (32 * L))
        return brentq(lambda e: exact_delta(e, mu) - 1e-5, 1e-6, 5)

    p = sparse_regression(1000, 4)
    rows = nldp.published(p, tunables(nldp, p, r=2, tau1=1, tau2=3), BUDGET)
    assert rows[0].scale == pytest.approx(math.sqrt(32 * L) * 4)
    assert rows[1].scale == pytest.approx(math.sqrt(32 * 4 * L) * 3)
    assert rows[0].epsilon == pytest.approx(spent(2), rel=1e-6)
    assert rows[0].epsilon == pytest.approx(0.426, abs=0.001)
    assert spent(4) == pytest.approx(0.499, abs=0.001)
    assert nldp.published(p, tunables(nldp, p), Budget(rho="0.1")) == ()


def test_the_classical_scale_of_algorithm_3():
    """8 d tau1^2 tau2^2 log(1.25/delta)/epsilon^2 on sensitivity 2 sqrt(d) tau1 tau2 is (1, 1e-5)-DP."""
    p = sparse_regression(1000, 4, modifiers=("public",), m=100)
    (row,) = public.published(p, tunables(public, p, tau1=1, tau2=3), BUDGET)
    mu = 2 * math.sqrt(4) * 3 / row.scale
    assert exact_delta(1.0, mu) <= 1e-5
    assert row.epsilon == pytest.approx(brentq(lambda e: exact_delta(e, mu) - 1e-5, 1e-6, 5), rel=1e-6)


def test_an_attacker_on_one_user_stays_within_the_budget_and_wins_at_a_quarter_of_the_noise():
    """Records (r e_1, tau2) and (r e_1, -tau2) differ in the vector draw by its whole sensitivity. Clopper-Pearson from scipy."""
    p = sparse_regression(1, 2)
    t = tunables(nldp, p, r=1, tau2=1, weight=0.05)
    c = plan(nldp, p, t, Budget(epsilon="1", delta="0.001"))
    users, delta = 40_000, 1e-3

    def epsilon_lower(calibrated):
        sums = []
        for y in (1.0, -1.0):
            source = StudyNoise(5, int(y > 0))
            mechanism, level = nldp.schedule(p, t).parts[1].mechanism, calibrated.levels["xy"]
            sums.append(mechanism.encode((np.tile([1.0, 0.0], (users, 1)), np.full(users, y)), level, source)[:, 0])
        found = []
        for threshold in (0.0, 0.5 * calibrated.scale("xy"), calibrated.scale("xy")):
            hits, false = int((sums[0] > threshold).sum()), int((sums[1] > threshold).sum())
            low = beta.ppf(0.001, hits, users - hits + 1)
            high = beta.ppf(0.999, false + 1, users - false)
            found.append(math.log(max(low - delta, 1e-9) / high))
        return max(found)

    assert 0.3 < epsilon_lower(c) <= 1.0
    assert epsilon_lower(replace(c, levels={k: v / 4 for k, v in c.levels.items()})) > 1.0


# ------------------------------------------------------------------------------------------------------------- behaviour


def test_the_law_of_the_aggregate_is_that_of_the_reports():
    """Per-user reports and the sampled aggregate: same mean and spread of S^{-1} b over repetitions."""
    records, _ = law(400, 2)
    p = sparse_regression(400, 2)
    t = tunables(nldp, p, r=2, tau2=1, spectrum="none", threshold=0)
    c = plan(nldp, p, t, Budget(epsilon="400", delta="0.001"))
    fast = np.array([study(nldp, records, p, t, c, seed).theta for seed in range(300)])
    slow = np.array([study(nldp, records, p, t, c, seed, per_user=True).theta for seed in range(300)])
    assert np.allclose(fast.mean(axis=0), slow.mean(axis=0), atol=4 * slow.std(axis=0).max() / math.sqrt(150))
    assert np.allclose(fast.std(axis=0), slow.std(axis=0), rtol=0.2)


@pytest.mark.parametrize("product", ["ball", "cube"])
def test_one_pass_gives_the_same_draws_as_two(product):
    records, _ = law(5000, 3)
    p = sparse_regression(5000, 3)
    t = tunables(nldp, p, r=1.5, product=product)
    c = plan(nldp, p, t, BUDGET)
    r = t.r if product == "ball" else None
    blocks = list(nldp.dense_blocks(records, r, 700))
    one = Release(c, StudyNoise(3), mode="study")
    s, b = one.mean_blocks_many(("covariance", "xy"), blocks)
    one.close()
    two = Release(c, StudyNoise(3), mode="study")
    assert np.allclose(s, two.mean_blocks("covariance", blocks), atol=1e-12)
    assert np.allclose(b, two.mean_blocks("xy", blocks), atol=1e-12)
    sparse = list(nldp.dense_blocks(Records(csr_array(records.x), records.y), r, 700))
    assert all(np.array_equal(a[0], c[0]) for a, c in zip(blocks, sparse, strict=True))


def test_it_recovers_the_support_with_enough_users():
    """And its error is within Lemma 29's 2 sqrt(k) lam for the threshold that it used."""
    records, theta = law(200_000, 4)
    p = sparse_regression(200_000, 4, epsilon=20)
    t = tunables(nldp, p, threshold=1)
    got = study(nldp, records, p, t, plan(nldp, p, t, Budget(epsilon="20", delta="0.00001")))
    assert set(np.flatnonzero(got.theta)) == {0, 1}
    assert np.linalg.norm(got.theta - theta) <= 2 * math.sqrt(2) * got.extras["threshold"].max() < 0.7


def test_the_noisy_covariance_is_indefinite_at_small_n():
    """d = 5, epsilon = 1, delta = 1e-5, n = 1e5 with the printed clips and scales: the least eigenvalue is far below 0."""
    n, d = 100_000, 5
    r = math.sqrt(2 * d * math.log(n))
    sd = math.sqrt(32 * math.log(2.5e5)) * r**2 / math.sqrt(n)
    g = np.random.default_rng(0)
    upper = np.triu(sd * g.normal(size=(d, d)))
    assert np.linalg.eigvalsh(np.eye(d) + upper + np.triu(upper, 1).T)[0] < -1
    p = sparse_regression(n, d)
    t = tunables(nldp, p)
    c = plan(nldp, p, t, BUDGET)
    assert c.scale("covariance") < sd * math.sqrt(n) / 5  # exact calibration and the smaller r
    assert any("inverting" in w for w in nldp.warnings(p, t, c))
    big = sparse_regression(10**9, d)
    assert nldp.warnings(big, tunables(nldp, big), plan(nldp, big, tunables(nldp, big), BUDGET)) == []


def test_public_records_need_far_fewer_users():
    """Least squares without threshold at n = 1e5, epsilon = 8: the private covariance is noisier than its eigenvalues."""
    budget = Budget(epsilon="8", delta="0.00001")
    records, theta = law(100_000, 6, m=20_000)

    def error(module, p):
        t = tunables(module, p, threshold=0)
        c = plan(module, p, t, budget)
        found = [np.linalg.norm(study(module, records, p, t, c, seed).theta - theta) for seed in range(10)]
        return float(np.mean(found)), module.predicted(p, t, c)

    ours, ours_predicted = error(public, sparse_regression(100_000, 6, modifiers=("public",), m=20_000, epsilon=8))
    private, private_predicted = error(nldp, sparse_regression(100_000, 6, epsilon=8))
    assert ours < 0.7 * private
    assert ours_predicted < private_predicted


def test_the_public_term_depends_on_m():
    """Without privacy noise and without response noise the error is that of the public covariance: sqrt(1/m), whatever n is (004 prints
    sqrt(log d/n)). Log-log slope in m over two decades."""
    p = sparse_regression(200_000, 5, modifiers=("public",), m=100)

    def error(m):
        found = []
        for seed in range(12):
            records, theta = law(200_000 if m == 0 else 40_000, 5, seed, noise=0.0, m=m)
            t = tunables(public, p, threshold=0, r=50, tau2=50)
            found.append(np.linalg.norm(public.run(records, p, t, Silent(public.schedule(p, t))).theta - theta))
        return float(np.mean(found))

    slope = math.log(error(100) / error(2500)) / math.log(2500 / 100)
    assert slope == pytest.approx(0.5, abs=0.15)


def test_the_error_falls_as_one_over_root_n():
    """Public variant, theta without threshold, n from 1e4 to 1e6: slope -1/2 in n (004 Theorem 4), where noise is shorter than theta."""
    budget = Budget(epsilon="8", delta="0.00001")

    def error(n):
        p = sparse_regression(n, 4, modifiers=("public",), m=200_000, epsilon=8)
        t = tunables(public, p, threshold=0, r=4, tau2=3)
        c = plan(public, p, t, budget)
        records, theta = law(n, 4, m=200_000)
        return np.mean([np.linalg.norm(study(public, records, p, t, c, seed).theta - theta) for seed in range(25)])

    assert math.log(error(10_000) / error(1_000_000)) / math.log(100) == pytest.approx(0.5, abs=0.08)


def test_defaults_come_from_what_is_declared():
    n, d = 10_000, 9
    p = sparse_regression(n, d, sigma_x=2.0, sigma_y=3.0)
    t = tunables(nldp, p)
    assert t.tau1 == pytest.approx(2 * math.sqrt(2 * math.log(n * d)))
    assert t.tau2 == pytest.approx(3 * math.sqrt(2 * math.log(2 + p.facts["epsilon"] * math.sqrt(n) / d)))
    assert t.r == pytest.approx(2 * 3)
    assert t.threshold == pytest.approx(math.sqrt(math.log(9 / 2) / math.log(18)))
    bounded = tunables(nldp, sparse_regression(n, d, x_l2=1.0, x_linf=0.5, y_abs=2.0))
    assert (bounded.r, bounded.tau1, bounded.tau2) == (1.0, 0.5, 2.0)
    facts = {k: v for k, v in sparse_regression(n, d).facts.items() if k != "sigma_y"}
    heavy = replace(p, facts={**facts, "moment_order_y": 4.0, "moment_bound_y": 16.0, "epsilon": 0.5})
    t = tunables(nldp, heavy)
    assert 16 * t.tau2**-3 == pytest.approx(2 * t.r * t.tau2 / (t.strength * math.sqrt(n)))  # bias M tau2^(1-q) = noise
    with pytest.raises(ValueError, match="sigma"):
        tunables(nldp, replace(p, facts={"n": n, "d": d, "k": 2.0, "epsilon": 1.0}))


def test_the_printed_tau2_is_far_from_the_best():
    """Student t with 3 degrees of freedom, E|y|^2.9 <= 25 (checked on the sample): ours against (n epsilon^2/log d)^(1/2.9)."""
    n, d = 200_000, 5
    g = np.random.default_rng(0)
    theta = np.array([0.8, -0.6, 0, 0, 0])
    x = g.normal(size=(n, d))
    records = Records(x, x @ theta + g.standard_t(3, n), g.normal(size=(20_000, d)))
    assert (np.abs(records.y) ** 2.9).mean() < 25
    facts = {k: v for k, v in sparse_regression(n, d).facts.items() if k != "sigma_y"}
    more = {"moment_order_y": 2.9, "moment_bound_y": 25.0, "epsilon": 4.0, "delta": 1e-5, "m": 20_000}
    p = replace(sparse_regression(n, d, modifiers=("public",)), facts={**facts, **more})

    def error(**given):
        t = tunables(public, p, threshold=0, **given)
        c = plan(public, p, t, Budget(epsilon="4", delta="0.00001"))
        return np.mean([np.linalg.norm(study(public, records, p, t, c, seed).theta - theta) for seed in range(10)])

    assert error() < 0.2 * error(tau2=(n * 16 / math.log(d)) ** (1 / 2.9))


@pytest.mark.parametrize("law_of_x", ["gaussian", "skewed", "heavy"])
@pytest.mark.parametrize("r", [0.3, 1.5])
def test_a_pair_that_is_scaled_together_has_no_bias(law_of_x, r):
    """Without noise of either kind theta is found exactly, however short r is and whatever the law of x is; x scaled alone is off."""
    n, d = 4000, 3
    g = np.random.default_rng(0)
    x = {"gaussian": g.normal(size=(n, d)), "skewed": g.exponential(size=(n, d)), "heavy": g.standard_cauchy(size=(n, d))}[law_of_x]
    theta = np.array([0.8, -0.6, 0.1])
    records = Records(x, x @ theta, x)
    for module, p in ((nldp, sparse_regression(n, d)), (public, sparse_regression(n, d, modifiers=("public",), m=n))):
        options = {"spectrum": "none"} if module is nldp else {}
        t = tunables(module, p, r=r, tau2=99, threshold=0, **options)
        assert (np.linalg.norm(x, axis=1) > r).mean() > 0.4
        assert np.allclose(module.run(records, p, t, Silent(module.schedule(p, t))).theta, theta, atol=1e-9)
    alone = GaussianBallProduct(d, r, 99.0).clip((x, records.y))
    assert np.linalg.norm(np.linalg.solve(alone[0].T @ alone[0], alone[0].T @ alone[1]) - theta) > 0.2


def test_records_that_are_no_numbers_are_the_record_0_in_both_draws():
    x = np.array([[np.nan, 1.0], [np.inf, 0.0], [0.0, 0.0], [1e300, 1e300], [5e-324, 0.0]])
    y = np.array([1.0, 1.0, np.inf, 1e308, 1.0])
    found = ScaledPair(2.0).scaled(x, y)
    cleaned = GaussianBallProduct(2, 2.0, 1.0).clip((x.copy(), found))
    assert np.isfinite(cleaned[0]).all()
    assert np.isfinite(cleaned[1]).all()
    assert np.abs(cleaned[1]).max() <= 1.0


@pytest.mark.slow
def test_the_default_is_near_the_best_radius_and_threshold():
    """Least squares at n = 3e5, d = 5, epsilon = 4: the default against a grid that sees the truth and the largest of n records."""
    records, theta = law(300_000, 5, noise=0.1)
    p = sparse_regression(300_000, 5, epsilon=4)

    def error(**given):
        t = tunables(nldp, p, **given)
        c = plan(nldp, p, t, Budget(epsilon="4", delta="0.0000001"))
        return np.mean([np.linalg.norm(study(nldp, records, p, t, c, seed).theta - theta) for seed in range(8)])

    default, grid = error(), [error(r=r, tau2=tau2, threshold=h) for r in (1, 2.2, 4) for tau2 in (2, 3.5) for h in (0, 0.5, 1)]
    assert default < 2 * min(grid)
    assert error(r=7.3, tau2=5, threshold=1) > 3 * default


@pytest.mark.parametrize(
    ("module", "p", "words"),
    [
        (nldp, sparse_regression(100, 3, moment_order_y=2.0), "order above 2"),
        (public, sparse_regression(100, 3), "public records"),
        (public, sparse_regression(100, 30, modifiers=("public",), m=20), "invertible"),
    ],
)
def test_refusals(module, p, words):
    assert words in module.accepts(p, tunables(module, p))


def test_non_linear_models_are_refused():
    p = replace(sparse_regression(100, 3), task=EstimateTheta(form="glm"))
    assert "linear" in nldp.accepts(p, tunables(nldp, p))
