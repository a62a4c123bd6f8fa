"""Costs of releases by other routes: exact fractions, quadrature, dp_accounting."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dpspec.ledger.costs import INFINITE, UNIT, cost_of, number
from dpspec.ledger.renyi import of_use
from dpspec.privacy.pairs import Pair
from dpspec.privacy.pld import Use
from dpspec.privacy.samplers import CalibrationError
from tests.ledger import releases

ORDERS = (1.5, 2.0, 5.625, 12.0)


def test_exact_sums():
    found = cost_of(releases.gaussian(4.0, 3), ("delta", "epsilon", "mu2", "renyi:5/2", "rho"))
    assert found["rho"] == Fraction(3, 32) * UNIT
    assert found["mu2"] == Fraction(3, 16) * UNIT
    assert found["epsilon"] == INFINITE
    assert found["delta"] == 0
    assert Fraction(15, 64) <= Fraction(found["renyi:5/2"], UNIT) <= Fraction(15, 64) * (1 + Fraction(1, 10**8))
    laplace = cost_of(releases.laplace(8.0), ("epsilon", "rho"))
    assert laplace == {"epsilon": UNIT // 8, "rho": UNIT // 128}
    assert cost_of(releases.exponential(0.5), ("epsilon", "rho")) == {"epsilon": UNIT // 2, "rho": UNIT // 32}  # bounded range: epsilon^2/8


def test_a_thing_that_is_no_double_is_rounded_up():
    third = cost_of(releases.gaussian(3.0), ("rho",))["rho"]
    assert third - 1 < Fraction(1, 18) * UNIT <= third


def test_parts_cost_their_worst_way_and_equal_parts_once():
    both = cost_of(releases.parts(4.0, 8.0), ("epsilon", "mu2", "rho"))
    assert both["rho"] == UNIT // 32  # the Gaussian part; the Laplace part has 1/128
    assert both["epsilon"] == INFINITE
    assert cost_of(releases.equal_parts(4.0), ("rho",))["rho"] == 2 * UNIT // 32  # four parts once, and a draw on all records


def test_a_draw_that_may_fail_costs_its_delta_and_its_epsilon():
    found = cost_of(releases.approx(0.25), ("delta", "epsilon", "mu2", "rho"))
    assert number(found["delta"]) == pytest.approx(1e-6, rel=1e-12)
    assert found["epsilon"] == UNIT // 4
    assert found["rho"] == UNIT // 32
    mu = number(found["mu2"]) ** 0.5
    assert norm.cdf(-mu / 2) == pytest.approx(1 / (1 + math.exp(0.25)), rel=1e-9)  # the corner of the trade-off curve


def test_a_sampler_that_its_relation_does_not_go_with_is_no_cost():
    with pytest.raises(CalibrationError, match="DP306"):
        cost_of(releases.sampled(1.0, 0.01, 10, method="fixed", relation="add-remove"), ("rho",))


# --------------------------------------------------------------------------------------------------------------------- Renyi


def phi(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def moment(p, q, order: float, points: list[float]) -> float:
    """The Renyi divergence of two densities by quadrature."""
    value, _ = quad(lambda x: q(x) * (p(x) / q(x)) ** order if q(x) > 0 else 0.0, -40, 60, points=points, limit=800, epsabs=0, epsrel=1e-10)
    return math.log(value) / (order - 1)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rate", [0.01, 0.3])
def test_sampled_gaussian_in_both_directions(order: float, rate: float):
    mu = 0.8

    def without(x: float) -> float:
        return phi(x)

    def mixed(x: float) -> float:
        return (1 - rate) * without(x) + rate * phi(x - mu)

    use = Use(Pair("gaussian", mu), 1, "remove", rate)
    found, spots = of_use(use, order), [0.0, mu, order * mu]
    removed, added = moment(mixed, without, order, spots), moment(without, mixed, order, spots)
    assert added <= removed * (1 + 1e-9)  # the theorem that only one direction is computed by
    assert removed * (1 - 1e-9) <= found <= removed * 1.01 + 1e-9
    assert of_use(Use(Pair("gaussian", mu), 1, "add", rate), order) == found


@pytest.mark.parametrize("order", ORDERS)
def test_sampled_pure_and_opposite_pairs(order: float):
    rate, epsilon = 0.05, 0.7
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    likes = [((1 - rate) * q + rate * a, q) for a, q in ((p, 1 - p), (1 - p, p))]
    exact = math.log(sum(q * (a / q) ** order for a, q in likes)) / (order - 1)
    found = of_use(Use(Pair("pure", epsilon), 1, "remove", rate), order)
    assert exact * (1 - 1e-9) <= found <= exact * 1.02 + 1e-9
    mu, reach = 1.0, 0.5

    def side(sign: float):
        return lambda x: (1 - rate) * phi(x) + rate * phi(x - sign * mu * reach)

    exact = moment(side(1), side(-1), order, [-1.0, 0.0, 1.0, order])
    found = of_use(Use(Pair("gaussian", mu), 1, "opposite", rate, reach), order)
    assert exact * (1 - 1e-9) <= found <= exact * 1.02 + 1e-9


@pytest.mark.parametrize("order", ORDERS)
def test_exchanged_samples_are_no_better_than_either_direction(order: float):
    """The pair of a uniform subset has the profile of the mixture above zero and its mirror image below."""
    mu, rate = 0.8, 0.1
    once = of_use(Use(Pair("gaussian", mu), 1, "exchange", rate), order)
    removed = of_use(Use(Pair("gaussian", mu), 1, "remove", rate), order)
    assert removed * (1 - 1e-6) <= once <= 4 * removed  # replacing is removing and adding

    def ratio(x: float) -> float:
        return 1 - rate + rate * math.exp(mu * x - mu * mu / 2)

    up = quad(lambda x: phi(x) * (ratio(x) ** order - ratio(x) ** (1 - order)), mu / 2, 40, epsabs=0, epsrel=1e-10, limit=400)[0]
    p_above = quad(lambda x: phi(x) * ratio(x), mu / 2, 40, epsabs=0, epsrel=1e-10)[0]
    q_above = norm.sf(mu / 2)
    # above zero: P-mass p e^((a-1)l); below, mirrored: Q-mass with loss -l; the rest of the mass at zero
    exact = math.log(
        quad(lambda x: phi(x) * ratio(x) ** order, mu / 2, 40, epsabs=0, epsrel=1e-10, limit=400)[0]
        + quad(lambda x: phi(x) * ratio(x) ** (1 - order), mu / 2, 40, epsabs=0, epsrel=1e-10, limit=400)[0]
        + (1 - p_above - q_above)
    ) / (order - 1)
    assert up > 0
    assert exact * (1 - 1e-7) <= once <= exact * 1.02 + 1e-9


def test_dp_accounting_agrees_on_sampled_training():
    import dp_accounting as da
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=[6.0])
    accountant.compose(da.PoissonSampledDpEvent(0.01, da.GaussianDpEvent(1.1)), 200)
    found = number(cost_of(releases.sampled(1.1, 0.01, 200), ("renyi:6",))["renyi:6"])
    assert accountant._rdp[0] * (1 - 1e-9) <= found <= accountant._rdp[0] * 1.01


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0])
@pytest.mark.parametrize("order", ORDERS)
def test_laplace_and_bounded_range_in_closed_form(order: float, epsilon: float):
    x = np.linspace(-60 / epsilon, 60 / epsilon, 400_001)
    p, q = epsilon / 2 * np.exp(-epsilon * np.abs(x)), epsilon / 2 * np.exp(-epsilon * np.abs(x - 1))
    exact = math.log(float(np.trapezoid(p**order * q ** (1 - order), x))) / (order - 1)
    assert of_use(Use(Pair("laplace", epsilon), 1), order) == pytest.approx(exact, rel=1e-4)
    bounded = of_use(Use(Pair("bounded-range", epsilon), 1), order)
    for t in np.linspace(0, epsilon, 9)[1:-1]:  # a mechanism of two outputs whose losses are t and t - epsilon
        a = -math.expm1(t - epsilon) / -math.expm1(-epsilon)
        two = math.log(a * math.exp((order - 1) * t) + (1 - a) * math.exp((order - 1) * (t - epsilon))) / (order - 1)
        assert two <= bounded * (1 + 1e-9)
