"""The central matrix algorithms and their Wishart calibration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from dpspec.algorithms.matrix import dp_covariance_gaussian, dp_precision_covariance, dp_precision_output, dp_thresholding
from dpspec.algorithms.matrix._lasso import graphical_lasso
from dpspec.algorithms.matrix._moment import second_moment
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget, calibrate
from dpspec.privacy.mechanisms.symmetric import second_moment_l1_sensitivity
from dpspec.privacy.mechanisms.wishart_one_sided import Wishart, least_noise, tail_delta
from dpspec.privacy.noise import StudyNoise
from dpspec.privacy.samplers import CalibrationError
from dpspec.privacy.schedule import Draw, Repeat, Sequence
from dpspec.privacy.second import recheck
from tests.algorithms import support
from tests.algorithms.matrix.helpers import ball, one_run, problem

CASES = [(0.3, 0.05), (0.5, 0.01), (1.0, 0.01), (2.0, 0.02)]


def pair_delta(
    q: int, c: float, epsilon: float, v: np.ndarray, u: np.ndarray, rng: np.random.Generator, count: int = 40_000
) -> tuple[float, float]:
    """delta of W + v v' against W + u u', W ~ W_2(q + 1, c I), by its density: Monte Carlo mean and standard error. Two dimensions
    are all there are: the rest of the matrix is the same on both sides (q degrees above the dimension less one)."""
    g = rng.standard_normal((count, 2, q + 1))
    x = c * g @ g.transpose(0, 2, 1) + np.outer(v, v)
    det = np.linalg.det(x - np.outer(v, v))
    det_u = np.linalg.det(x - np.outer(u, u))
    possible = (det_u > 0) & (np.trace(x, axis1=1, axis2=2) - u @ u > 0)
    log = np.full(count, np.inf)
    log[possible] = (q - 2) / 2 * (np.log(det[possible]) - np.log(det_u[possible])) + (v @ v - u @ u) / (2 * c)
    kept = np.maximum(0.0, -np.expm1(np.minimum(epsilon - log, 700.0)))
    return float(kept.mean()), float(kept.std() / math.sqrt(count))


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_the_wishart_calibration_is_valid_and_below_the_printed_one(epsilon: float, delta: float) -> None:
    """Every pair of records in the ball, by the density in two dimensions: no delta above the target. The printed degrees are far more."""
    q, c = least_noise(2, epsilon, delta)
    assert tail_delta(q, c, epsilon) <= delta
    rng = np.random.default_rng(int(epsilon * 10))
    e1, e2 = np.eye(2)
    pairs = [(e1, e2), (e1, 0 * e1), (0 * e1, e1), (e1, -0.5 * e1), (0.7 * e1, e2), (e1, (e1 + e2) / math.sqrt(2)), (0.3 * e2, e1)]
    pairs += [(ball(rng, 1, 2)[0], ball(rng, 1, 2)[0]) for _ in range(4)]
    worst = 0.0
    for v, u in pairs:
        found, error = pair_delta(q, c, epsilon, v, u, rng)
        assert found <= delta + 5 * error, (v, u)
        worst = max(worst, found)
    assert worst > delta / 20  # the noise is not absurdly large
    if epsilon < 1:
        assert c * (1 + q) < 2 + 14 / epsilon**2 * math.log(4 / delta)


def test_the_tail_bound_by_simulation_of_its_own_loss() -> None:
    """E(1 - e^(eps - loss))_+ with loss = max(1/(2c), -(q-2)/2 log(1 - 1/(cQ))), Q simulated: the closed form and the quadrature agree."""
    q, c, epsilon = 12, 1.1, 1.0
    big = chi2(q).rvs(2_000_000, random_state=np.random.default_rng(0))
    with np.errstate(all="ignore"):
        loss = np.where(big > 1 / c, -(q - 2) / 2 * np.log1p(-1 / (c * big)), np.inf)
    simulated = np.maximum(0.0, -np.expm1(epsilon - np.maximum(loss, 1 / (2 * c))))
    assert tail_delta(q, c, epsilon) == pytest.approx(simulated.mean(), abs=5 * simulated.std() / math.sqrt(2e6))
    m = Wishart(1.0, 3, 0.01)
    assert m.delta_by_quadrature(1.0, 1.0) == pytest.approx(0.01, rel=1e-5)
    assert tail_delta(12, 0.4, 1.0) == 1.0  # below 1/(2 epsilon) the bound says nothing
    assert tail_delta(12, 1.1, 1.0, "add-remove") < tail_delta(12, 1.1, 1.0)


def test_the_wishart_draw_is_alone_and_is_rechecked() -> None:
    m = Wishart(0.1, 3, 1e-6)
    c = calibrate(Draw("m", m), Budget(epsilon="1", delta="0.000001"))
    assert (c.guarantee.epsilon, c.guarantee.delta) == (1.0, pytest.approx(1e-6))
    again = recheck(c)
    assert again.epsilon == pytest.approx(1.0, rel=1e-3)
    assert again.accountant != c.accountant
    for tree in (Sequence((Draw("a", m), Draw("b", m))), Repeat(Draw("m", m), 2)):
        with pytest.raises(CalibrationError) as caught:
            calibrate(tree, Budget(epsilon="1", delta="0.000001"))
        assert caught.value.code == "DP308"
    for budget in (Budget(epsilon="1"), Budget(rho="1"), Budget(mu="1")):
        with pytest.raises(CalibrationError) as caught:
            calibrate(Draw("m", m), budget)
        assert caught.value.code == "DP301"
    with pytest.raises(CalibrationError):
        calibrate(Draw("m", m), Budget(epsilon="1", delta="0.0000001"))
    out = np.mean([m.apply(np.zeros((3, 3)), 1.0, StudyNoise(0, s)) for s in range(400)], axis=0)
    np.testing.assert_allclose(out, m.degrees(1.0) * m.scale(1.0) * np.eye(3), rtol=0.1, atol=0.05 * m.degrees(1.0) * m.scale(1.0))


def test_the_l1_sensitivity_is_below_the_printed_one() -> None:
    """sqrt(d(d+3)/2)/n against (d+1)/n and the printed 2d/n; a search over pairs does not exceed it."""
    rng = np.random.default_rng(0)
    for d in (2, 3, 5, 10):
        ours = second_moment_l1_sensitivity(1.0, 1, d)
        assert ours <= d + 1 <= 2 * d + 1e-12 or d == 1
        i, j = np.triu_indices(d)
        best = 0.0
        for _ in range(3000):
            a, b = rng.standard_normal((2, d))
            a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
            best = max(best, float(np.abs(a[i] * a[j] - b[i] * b[j]).sum()))
        assert best <= ours


# ----------------------------------------------------------------------------------------------------------------- covariance


def test_the_printed_covariance_bound_misses_the_sampling_error() -> None:
    """n = 2000, d = 5, epsilon = 20: the error is the sampling error, ten times the printed noise term; the bound with both holds."""
    n, d = 2000, 5
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    p = problem("covariance", n, d)
    got, c = one_run(dp_covariance_gaussian, x, p, Budget(epsilon="20", delta="0.001"))
    error = np.linalg.norm(got.theta - np.eye(d) / d, 2)
    assert error > 3 * c.scale("moment") * math.sqrt(2 * d)
    t = support.tunables(dp_covariance_gaussian, p)
    values = dp_covariance_gaussian.explicit_bounds(p, t, c)
    assert error <= values["000 (6.17) with both terms and constants"] <= 6 * error
    assert np.abs(got.theta - np.eye(d) / d).max() <= values["000 (6.18) with constants"]


def test_isotropic_noise_has_half_the_variance_off_the_diagonal() -> None:
    x = np.zeros((100, 4))
    p = problem("covariance", 100, 4)
    spread = {}
    for noise in ("isotropic", "upper", "sulq"):
        got = [one_run(dp_covariance_gaussian, x, p, seed=s, noise=noise)[0].theta for s in range(400)]
        spread[noise] = (np.std([g[0, 0] for g in got]), np.std([g[0, 1] for g in got]))
        assert all((g == g.T).all() for g in got)
    assert spread["isotropic"][0] == pytest.approx(spread["upper"][0], rel=0.15)
    assert spread["isotropic"][1] == pytest.approx(spread["upper"][1] / math.sqrt(2), rel=0.15)
    assert spread["sulq"][0] == pytest.approx(spread["isotropic"][0] * 4 / math.sqrt(2), rel=0.15)
    psd, _ = one_run(dp_covariance_gaussian, x, p, psd="on")
    assert np.linalg.eigvalsh(psd.theta)[0] >= -1e-12


def test_the_noise_of_central_thresholding_falls_like_one_over_n() -> None:
    """tau minus its sampling part scales by 1/10 when n grows tenfold; the printed rate 1/sqrt(n) would give 1/3.2."""
    noise = {}
    for n in (10_000, 100_000):
        p = problem("covariance", n, 6)
        t = support.tunables(dp_thresholding, p, gamma=0)
        c = support.plan(dp_thresholding, p, t)
        noise[n] = dp_thresholding.tau(p, t, c.scale("moment"))
    # the rounding of the sum comes on top: twice blocks of 1024 rows and some more roundings, in units of sqrt(2)/n
    assert noise[10_000] / 10 <= noise[100_000] <= noise[10_000] / 10 * (1 + 2 * 2048 * 2.0**-53 * 100_000 / math.sqrt(2))


def test_thresholding_by_hand() -> None:
    moment = np.array([[0.5, 0.2, -0.05], [0.2, 0.5, 0.0], [-0.05, 0.0, 0.02]])
    got = dp_thresholding.thresholded(moment, 0.1, True)
    np.testing.assert_allclose(got.theta, [[0.5, 0.2, 0], [0.2, 0.5, 0], [0, 0, 0]], atol=1e-12)
    indefinite = np.array([[0.1, 0.5], [0.5, 0.1]])
    assert np.linalg.eigvalsh(dp_thresholding.thresholded(indefinite, 0.05, True).theta)[0] >= -1e-12
    np.testing.assert_array_equal(dp_thresholding.thresholded(indefinite, 0.05, False).theta, indefinite)


# ------------------------------------------------------------------------------------------------------------------ precision


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "wishart", "symmetrised-wishart"])
def test_precision_bounds_hold_for_every_noise(noise: str) -> None:
    n, d, rho = 3000, 4, 0.5
    x = ball(np.random.default_rng(1), n, d)
    pure = noise in ("laplace", "symmetrised-wishart")
    p = problem("precision", n, d, **({"delta": math.nan} if pure else {}))
    budget = Budget(epsilon="1") if pure else Budget(epsilon="1", delta="0.000001")
    exact = graphical_lasso(second_moment(Records(x)), rho).theta
    t = support.tunables(dp_precision_covariance, p, noise=noise, penalty=rho)
    within = 0
    for seed in range(20):
        got, c = one_run(dp_precision_covariance, x, p, budget, seed=seed, noise=noise, penalty=rho)
        (bound,) = dp_precision_covariance.explicit_bounds(p, t, c).values()
        within += np.linalg.norm(got.theta - exact) <= bound
        # Theorem 6.3.3 itself: M times the norm of the perturbation
        plus = np.linalg.norm(got.extras["moment"] - second_moment(Records(x)))
        largest = max(np.linalg.norm(got.theta, 2), np.linalg.norm(exact, 2))
        assert np.linalg.norm(got.theta - exact) <= largest**2 * plus + 1e-4
        assert largest <= d / rho + 1e-9
    assert within >= 19


def test_one_sided_noise_shrinks_the_precision_to_nothing() -> None:
    """Few records, centre = off: the relative error is that of the zero matrix, about 1; centring and Gaussian noise do better."""
    n, d, rho = 400, 12, 0.01
    x = ball(np.random.default_rng(2), n, d)
    p = problem("precision", n, d)
    exact = graphical_lasso(second_moment(Records(x)), rho).theta

    def error(**options: Any) -> float:
        runs = [
            one_run(dp_precision_covariance, x, p, Budget(epsilon="0.9", delta="0.001"), seed=s, penalty=rho, **options)[0]
            for s in range(5)
        ]
        return float(np.median([np.linalg.norm(r.theta - exact) / np.linalg.norm(exact) for r in runs]))

    one_sided = error(noise="wishart", centre="off")
    assert 0.7 < one_sided < 1.0
    assert error(noise="gaussian") < one_sided
    printed = 1.5 / (n * 0.9) * (d + 1)  # the mean of the printed pure noise, on every diagonal entry
    assert printed > np.trace(second_moment(Records(x))) / d


def test_output_perturbation_is_within_its_bound_and_covariance_perturbation_is_better() -> None:
    n, d, rho = 5000, 4, 1.0
    x = ball(np.random.default_rng(3), n, d)
    p = problem("precision", n, d)
    budget = Budget(epsilon="1", delta="0.000001")
    exact = graphical_lasso(second_moment(Records(x)), rho).theta
    t = support.tunables(dp_precision_output, p, penalty=rho)
    errors, others = [], []
    for seed in range(10):
        got, c = one_run(dp_precision_output, x, p, budget, seed=seed, penalty=rho)
        (bound,) = dp_precision_output.explicit_bounds(p, t, c).values()
        errors.append(np.linalg.norm(got.theta - exact))
        assert errors[-1] <= bound
        assert np.linalg.eigvalsh(got.theta)[0] >= dp_precision_output.floor(p, t) * (1 - 1e-9)
        other, _ = one_run(dp_precision_covariance, x, p, budget, seed=seed, penalty=rho)
        others.append(np.linalg.norm(other.theta - exact))
    assert np.median(others) < np.median(errors)


def test_thresholds_of_the_spread_keep_what_hoeffding_would_not() -> None:
    """Entries of 0.01 and 0.002 in the unit ball, d = 50: the level of the ball's range is above all of them, that of the spread below."""
    n, d = 80_000, 50
    p = problem("covariance", n, d)
    sigma = (np.eye(d) + 0.4 * (np.eye(d, k=1) + np.eye(d, k=-1))) / 100
    x = np.random.default_rng(5).multivariate_normal(np.zeros(d), sigma, size=n)
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    error = {}
    for level in ("spread", "declared"):
        got, _ = one_run(dp_thresholding, x, p, level=level)
        error[level] = float(np.linalg.norm(got.theta - sigma, 2))
    assert error["declared"] == pytest.approx(float(np.linalg.norm(sigma, 2)), rel=1e-6)  # the zero matrix
    assert error["spread"] < error["declared"] / 5


def test_noise_of_a_query_an_entry_is_more_than_the_matrix_needs() -> None:
    """SULQ: d^2 queries of sensitivity r^2/n each, symmetrised; never below the sensitivity of the whole."""
    for d, length in ((50, 50 / 100), (2, 2 / 100), (1, 1 / 100)):
        p = problem("precision", 100, d)
        sulq, whole = (dp_precision_covariance.mechanism(p, noise) for noise in ("sulq", "gaussian"))
        assert sulq.sensitivity == pytest.approx(max(length, whole.sensitivity), rel=1e-9)
        assert sulq.sensitivity >= whole.sensitivity
