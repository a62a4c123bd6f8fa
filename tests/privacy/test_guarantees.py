"""Conversions against closed forms, quadrature and dp_accounting."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.privacy import guarantees as g


def test_zcdp_conversion_is_the_library_s_with_a_fine_set_of_orders() -> None:
    import dp_accounting as da
    from dp_accounting.rdp import RdpAccountant

    for rho, delta in ((0.01, 1e-5), (0.5, 1e-6), (3.0, 1e-9)):
        accountant = RdpAccountant(orders=list(1 + np.logspace(-2, 4, 4000)))
        accountant.compose(da.ZCDpEvent(rho))
        assert g.zcdp_epsilon(rho, delta) == pytest.approx(accountant.get_epsilon(delta), rel=1e-5)


def test_zcdp_conversion_beats_the_printed_one_and_covers_the_exact_gaussian() -> None:
    """Document 000, Lemma 2.1.10 from above; the Gaussian of that rho, which is exact, from below."""
    from dpspec.privacy.gaussian import epsilon_of

    for rho, delta in ((0.01, 1e-5), (0.5, 1e-6), (3.0, 1e-9)):
        ours = g.zcdp_epsilon(rho, delta)
        assert ours < rho + 2 * math.sqrt(rho * math.log(1 / delta))
        assert ours > epsilon_of(math.sqrt(2 * rho), delta)


def test_zcdp_round_trip_never_gains() -> None:
    for epsilon, delta in ((0.01, 1e-6), (1.0, 1e-5), (8.0, 1e-10)):
        rho = g.zcdp_rho(epsilon, delta)
        assert g.zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-9)
        assert g.zcdp_epsilon(rho * 1.001, delta) > epsilon


def test_pure_is_half_epsilon_squared_and_exponential_an_eighth() -> None:
    assert g.pure_to_zcdp(g.Pure(0.5)) == g.Zcdp(0.125)
    assert g.exponential_to_zcdp(0.5) == g.Zcdp(0.03125)


def test_the_eighth_is_not_for_every_pure_mechanism() -> None:
    """Randomised response breaks rho = epsilon^2/8: its divergence of order 1 (KL) is epsilon*tanh(epsilon/2) > epsilon^2/8."""
    epsilon = 0.5
    assert epsilon * math.tanh(epsilon / 2) > g.exponential_to_zcdp(epsilon).rho


def test_renyi_of_randomised_response_by_summation() -> None:
    epsilon = 1.3
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    for order in (1.5, 2, 7, 40):
        direct = math.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)) / (order - 1)
        assert g.pure_to_renyi(g.Pure(epsilon), order).epsilon == pytest.approx(direct, rel=1e-12)
        assert g.pure_to_renyi(g.Pure(epsilon), order).epsilon <= g.zcdp_to_renyi(g.pure_to_zcdp(g.Pure(epsilon)), order).epsilon


def test_renyi_to_approx_bounds_an_explicit_mechanism() -> None:
    """Two-point laws whose Renyi divergence and hockey-stick divergence are sums: the conversion is never below the truth."""
    p, q = np.array([0.7, 0.25, 0.05]), np.array([0.45, 0.35, 0.2])
    for order in (1.5, 3.0, 10.0, 60.0):
        tau = math.log(float(np.sum(p**order * q ** (1 - order)))) / (order - 1)
        for delta in (1e-6, 1e-3, 0.05):
            epsilon = g.renyi_to_approx(g.Renyi(order, tau), delta).epsilon
            assert float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) <= delta


def test_pure_to_gdp_is_tight_at_the_corner() -> None:
    for epsilon in (0.1, 1.0, 5.0):
        mu = g.pure_to_gdp(g.Pure(epsilon)).mu
        a = np.linspace(0, 1, 20_001)
        pure, normal = g.trade_off(g.Pure(epsilon))(a), g.trade_off(g.Gdp(mu))(a)
        assert np.all(normal <= pure + 1e-12)  # mu-GDP is implied
        tighter = g.trade_off(g.Gdp(mu * (1 - 1e-6)))
        corner = 1 / (1 + math.exp(epsilon))
        assert float(tighter(corner)) > float(g.trade_off(g.Pure(epsilon))(corner))  # and a smaller mu is not


def test_gdp_curve_is_the_test_between_two_normals() -> None:
    """Threshold tests between N(0, 1) and N(mu, 1), by simulation-free counting of their error rates."""
    from scipy.stats import norm

    mu = 0.8
    thresholds = np.linspace(-3, 4, 50)
    rates = norm.sf(thresholds)
    misses = norm.cdf(thresholds, loc=mu)
    assert np.allclose(g.trade_off(g.Gdp(mu))(rates), misses, atol=1e-12)


def test_gdp_curve_is_the_envelope_of_its_approx_guarantees() -> None:
    mu = 0.8
    from dpspec.privacy.gaussian import delta_upper

    a = np.linspace(0.001, 0.999, 199)
    best = np.max([g.trade_off(g.Approx(e, delta_upper(e, mu)))(a) for e in np.linspace(0, 6, 1200)], axis=0)
    assert np.allclose(best, g.trade_off(g.Gdp(mu))(a), atol=2e-6)
    assert np.all(best <= g.trade_off(g.Gdp(mu))(a) + 1e-12)


def test_zcdp_curve_lies_below_the_gaussian_s() -> None:
    rho = 0.05
    a = np.linspace(0, 1, 101)
    curve = g.trade_off(g.Zcdp(rho))(a)
    assert np.all(curve <= g.trade_off(g.Gdp(math.sqrt(2 * rho)))(a) + 1e-12)
    assert curve[50] > 0.2


def test_groups() -> None:
    assert g.group(g.Pure(0.5), 3) == g.Pure(1.5)
    assert g.group(g.Zcdp(0.5), 3) == g.Zcdp(4.5)
    assert g.replace_one_from_add_remove(g.Gdp(0.5)) == g.Gdp(1.0)
    both = g.group(g.Approx(0.5, 1e-6), 2)
    assert isinstance(both, g.Approx)
    assert both.delta == pytest.approx(1e-6 * (1 + math.exp(0.5)), rel=1e-12)  # one step costs delta, the second e^eps times it


def test_group_of_a_gaussian_is_what_twice_the_sensitivity_spends() -> None:
    from dpspec.privacy.gaussian import epsilon_of

    two = g.group(g.Gdp(0.7), 2)
    assert isinstance(two, g.Gdp)
    assert g.gdp_to_approx(two, 1e-5).epsilon == epsilon_of(1.4, 1e-5)


def test_user_level_sentence() -> None:
    assert g.user_level(g.Gdp(0.25), 4) == "for a user with up to 4 records: mu 1 (Gaussian DP)"


def test_refusals() -> None:
    with pytest.raises(ValueError):
        g.renyi_to_approx(g.Renyi(1.0, 0.1), 1e-5)
    with pytest.raises(ValueError):
        g.group(g.Pure(1.0), 0)
    with pytest.raises(ValueError):
        g.trade_off(g.Pure(1.0))(1.5)
