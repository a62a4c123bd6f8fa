"""The printed accounting of 000, chapter 2, against exact numbers. The yardstick is the closed form of the Gaussian mechanism in scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from dpspec.algorithms.convex_erm import dp_gd
from dpspec.privacy.calibrate import Budget
from tests import leak
from tests.algorithms.support import logistic, minimise, plan, tunables


def exact_delta(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def exact_epsilon(mu: float, delta: float) -> float:
    return float(brentq(lambda e: exact_delta(e, mu) - delta, 0, 200))


def exact_mu(epsilon: float, delta: float) -> float:
    return float(brentq(lambda m: exact_delta(epsilon, m) - delta, 1e-6, 100))


def rho_of(epsilon: float, delta: float) -> float:
    """The root of rho + 2 sqrt(rho log(1/delta)) = epsilon."""
    a = math.log(1 / delta)
    return float(brentq(lambda r: r + 2 * math.sqrt(r * a) - epsilon, 0, epsilon))


def published(epsilon: float, delta: float, lipschitz: float = 1.0, n: int = 1000):
    p = minimise(n, 5, logistic(), lipschitz=lipschitz, facts={"epsilon": epsilon, "delta": delta})
    t = tunables(dp_gd, p, T=100)
    budget = Budget(epsilon=str(epsilon), delta=str(delta))
    return dp_gd.published(p, t, budget), plan(dp_gd, p, t, budget).scale("gradient"), dp_gd.mean_sensitivity(p)


def test_lemma_2_1_9_lacks_the_square():
    """Renyi divergence of N(0, 25) and N(10, 25) at order 2 by quadrature: 4 = alpha*S^2/(2 s^2), printed alpha*S/(2 s^2) = 0.4."""
    integral, _ = quad(lambda x: norm.pdf(x, 10, 5) ** 2 / norm.pdf(x, 0, 5), -60, 100)
    assert math.log(integral) == pytest.approx(2 * 10**2 / (2 * 25), rel=1e-6)
    printed = math.sqrt(10 / (2 * rho_of(1, 1e-5)))
    assert printed == pytest.approx(15.5, abs=0.1)
    assert exact_epsilon(10 / printed, 1e-5) == pytest.approx(2.65, abs=0.01)
    rows, ours, s = published(1, 1e-5, lipschitz=5000.0)  # sensitivity 2 L/n = 10
    assert s == pytest.approx(10)
    assert rows[1].scale == pytest.approx(printed * 10)  # T = 100 steps
    assert rows[1].epsilon == pytest.approx(exact_epsilon(10 * 10 / rows[1].scale, 1e-5), rel=1e-6)
    assert rows[1].epsilon > 2.6
    assert exact_delta(1, math.sqrt(100) * s / ours) <= 1e-5 * (1 + 1e-9)
    leak.epsilon(exact_epsilon(10 / printed, 1e-5), 1.0, 1e-5)


def test_the_classical_gaussian_scale_fails_at_large_epsilon():
    def classical_mu(epsilon, delta):
        return epsilon / math.sqrt(2 * math.log(1.25 / delta))

    assert exact_delta(10, classical_mu(10, 1e-5)) == pytest.approx(2.27e-5, rel=0.01)
    assert exact_delta(1, classical_mu(1, 1e-5)) < 1e-7  # and it is loose where it holds
    crossing = brentq(lambda e: exact_delta(e, classical_mu(e, 1e-5)) - 1e-5, 2, 12)
    assert crossing == pytest.approx(8.42, abs=0.005)
    _, ours, s = published(10, 1e-5)
    assert exact_delta(10, math.sqrt(100) * s / ours) <= 1e-5 * (1 + 1e-9)
    leak.delta(exact_delta(10, classical_mu(10, 1e-5)), 1e-5, 10.0)


def test_lemma_2_1_5_spends_delta_twice():
    """Advanced composition certifies (epsilon, T delta' + slack) for a slack that must be positive: with delta' = delta/T the total exceeds
    delta for every slack, with delta' = delta/(2T) and slack delta/2 it is delta."""
    for T in (10, 100, 1000):
        for delta in (1e-4, 1e-6):
            share = 0.9 / (2 * math.sqrt(2 * T * math.log(2 / delta)))

            def total_epsilon(slack, T=T, share=share):
                return math.sqrt(2 * T * math.log(1 / slack)) * share + T * share * math.expm1(share)

            slack = brentq(lambda s: total_epsilon(s) - 0.9, 1e-300, 0.5)  # the least slack that certifies epsilon
            assert 0 < slack <= delta / 2
            assert T * (delta / T) + slack > delta
            assert total_epsilon(delta / 2) <= 0.9
            assert T * (delta / (2 * T)) + delta / 2 == pytest.approx(delta)


def test_lemma_2_1_6_is_false_for_generic_mechanisms():
    """A mechanism that reveals its input with probability delta is (0, delta)-DP. T of them reveal it with probability 1 - (1 - delta)^T,
    an event of probability 0 on the neighbour, so no epsilon helps."""
    T, delta = 1000, 1e-5
    revealed = 1 - (1 - delta) ** T
    assert revealed == pytest.approx(9.95e-3, rel=1e-3)
    simulated = np.random.default_rng(0).binomial(T, delta, 400_000) > 0
    assert simulated.mean() == pytest.approx(revealed, rel=0.05)
    assert revealed > 900 * delta
    leak.delta(revealed, delta, 1.0)  # and at every other epsilon


def test_lemma_2_1_7_has_the_wrong_scale():
    """n = 60000, batches of 600, sigma = 4: hockey-stick divergence of one step by quadrature, at both scales."""
    n, batch, sigma = 60_000, 600, 4.0
    q = batch / n

    def delta(epsilon, multiplier):
        shift = 1 / multiplier

        def excess(x):
            return max(0.0, (1 - q) * norm.pdf(x) + q * norm.pdf(x - shift) - math.exp(epsilon) * norm.pdf(x))

        points = sorted({0.0, shift / 2, shift})
        return quad(excess, -10, shift + 10, points=points, limit=400)[0]

    printed = sigma * batch / n  # noise (G/n) sigma on a mean whose one-record change is G/batch
    assert printed == pytest.approx(0.04)
    for epsilon in (1.0, 10.0, 50.0):
        assert delta(epsilon, printed) == pytest.approx(q, rel=0.01)
    assert delta(1.0, sigma) < 1e-9
    leak.delta(delta(1.0, printed), 1e-9, 1.0)


def test_the_noise_factors_of_the_catalogue():
    """c in s^2 = c G^2 T log(1/delta)/(n epsilon)^2 at epsilon 1, delta 1e-4, T = 100: zCDP 8.43, exact 4.41; the moments accountant's
    integer orders give 8.43 too, so zCDP is no better; advanced composition 1085, or 966 with the delta that Lemma 2.1.5 spends twice."""
    (zcdp, _, advanced), ours, s = published(1, 1e-4)
    unit = 0.5 * s * math.sqrt(100 * math.log(1e4))  # s = 2 G/n

    assert (zcdp.scale / unit) ** 2 == pytest.approx(8.43, abs=0.01)
    assert (ours / unit) ** 2 == pytest.approx(4.41, abs=0.01)
    orders = np.arange(1, 513)

    def moments(c):  # alpha(l) = l (l + 1) T S^2/(2 s^2)
        return float(np.min(orders * (orders + 1) * 4 / (2 * c * math.log(1e4)) - orders)) - math.log(1e-4)

    assert brentq(moments, 4, 40) == pytest.approx(8.43, abs=0.01)
    assert 64 * math.log(2.5 * 100 / 1e-4) * math.log(4 / 1e-4) / math.log(1e4) == pytest.approx(1085, abs=1)
    assert (advanced.scale / unit) ** 2 == pytest.approx(64 * math.log(1.25 * 100 / 1e-4) * math.log(2 / 1e-4) / math.log(1e4))
    for row in (zcdp, advanced):
        assert row.epsilon == pytest.approx(exact_epsilon(math.sqrt(100) * s / row.scale, 1e-4), rel=1e-6)
        assert row.epsilon < 1
    assert exact_epsilon(math.sqrt(100) * s / ours, 1e-4) == pytest.approx(1, rel=1e-6)


def test_nothing_is_compared_for_budgets_that_the_lemmas_do_not_serve():
    p = minimise(1000, 5, logistic(), facts={"rho": 0.1})
    assert dp_gd.published(p, tunables(dp_gd, p), Budget(rho="0.1")) == ()
