"""Accountants at the ends of their range: a plan or a refusal after a bounded number of operations, never a wrong number."""

import math
from fractions import Fraction

import pytest
from flint import arb, ctx

from dpspec.privacy import gaussian, pld
from dpspec.privacy.calibrate import Budget, calibrate
from dpspec.privacy.guarantees import zcdp_epsilon, zcdp_rho
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.samplers import CalibrationError
from dpspec.privacy.schedule import Draw, Repeat, Sampled
from dpspec.privacy.second import recheck


def normal_tail(z):
    """P(N(0, 1) > z) as a ball."""
    return (arb(z) / arb(2).sqrt()).erfc() / 2


@pytest.mark.parametrize("mu", [1e4, 1e6, 155461688.6, 1e9, 1e15])
@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.4])
def test_epsilon_of_a_huge_mu(mu, delta):
    """P(L > epsilon) >= delta(epsilon) >= P(L > epsilon) - P(L > epsilon)/(mu*z) for L ~ N(mu^2/2, mu^2): so z = epsilon/mu - mu/2 is the
    normal quantile of delta up to 1/mu."""
    epsilon = gaussian.epsilon_of(mu, delta)
    before, ctx.prec = ctx.prec, 4096
    try:
        e, m = arb(epsilon), arb(mu)
        z = e / m - m / 2
        ulp = arb(math.ulp(epsilon)) / m
        assert normal_tail(z) * (1 - 1 / m) < arb(delta) * (1 + 60 * ulp + 60 / m)
        assert normal_tail(z - 4 * ulp - 60 / m) > arb(delta)
    finally:
        ctx.prec = before


def test_epsilon_of_a_mu_beyond_doubles():
    assert gaussian.epsilon_of(1e160, 1e-6) == math.inf


def test_the_tail_of_a_far_argument_agrees_with_erfc():
    before, ctx.prec = ctx.prec, 256
    try:
        import flint

        for x in ("1001", "1234.5", "5000"):
            ours, library = gaussian._scaled_erfc(flint, arb(x)), (arb(x) ** 2).exp() * arb(x).erfc()
            assert ours.overlaps(library)
            assert ours.rel_accuracy_bits() > 200
    finally:
        ctx.prec = before


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-6, 0.5])
def test_conversions_answer_everywhere(epsilon, delta):
    rho, mu = zcdp_rho(epsilon, delta), gaussian.mu_of(epsilon, delta)
    assert 0 < 2 * rho <= mu**2 * (1 + 1e-12)  # zCDP never allows more than the Gaussian curve that it bounds
    assert zcdp_epsilon(rho, delta) <= epsilon * (1 + 1e-9)
    assert gaussian.epsilon_of(mu, delta) <= epsilon


# T, batch, n, epsilon, delta, method, relation
CASES = [
    (1000, 10, 1000, "1e-9", "1e-6", "fixed", "replace-one"),
    (1000, 10, 1000, "1e-9", "1e-6", "poisson", "add-remove"),
    (10**6, 100, 10**12, "1", "1e-6", "fixed", "replace-one"),
    (10**6, 100, 10**12, "1", "1e-6", "poisson", "add-remove"),
    (1000, 10, 1000, "1e-12", "1e-6", "poisson", "add-remove"),
    (1000, 10, 1000, "1e-12", "0.5", "fixed", "replace-one"),
    (1, 10**12 - 1, 10**12, "1", "1e-6", "fixed", "replace-one"),
]


def sampled(T, batch, n, method):
    return Repeat(Sampled(Draw("g", Gaussian(1.0)), method, batch / n, n), T)


@pytest.mark.parametrize("case", CASES)
def test_sampled_steps_at_the_rim(case):
    T, batch, n, epsilon, delta, method, relation = case
    tree = sampled(T, batch, n, method)
    c = calibrate(tree, Budget(epsilon=epsilon, delta=delta), neighbours=relation)
    assert Fraction(c.guarantee.epsilon) <= Fraction(epsilon) * (1 + Fraction(1, 10**12))
    recheck(c)
    # never more noise than without sampling
    assert c.levels["g"] <= gaussian.multiplier_for_mu(gaussian.mu_of(epsilon, delta), T) * (1 + 1e-9)


def test_a_tiny_epsilon_costs_the_noise_of_delta_alone():
    """At epsilon 1e-9 and delta 1e-6 the sum of T sampled losses is nearly normal, of deviation s = q*sqrt(T*(e^(1/z^2) - 1)), and delta is
    its positive part, s/sqrt(2 pi)."""
    z = calibrate(sampled(1000, 10, 1000, "fixed"), Budget(epsilon="1e-9", delta="1e-6")).levels["g"]
    s = 0.01 * math.sqrt(1000 * math.expm1(1 / z**2))
    assert s / math.sqrt(2 * math.pi) == pytest.approx(1e-6, rel=2e-3)


def test_rare_batches_cost_what_a_union_bound_says():
    """A record meets one of 10^6 batches with probability 1e-4, two with 1e-8: delta is 1e-4 times that of one sampled step."""
    z = calibrate(sampled(10**6, 100, 10**12, "poisson"), Budget(epsilon=1, delta="1e-6"), neighbours="add-remove").levels["g"]
    once = gaussian.delta_upper(math.log1p(math.expm1(1) * 1e10), 1 / z)
    assert 0.97e-6 <= 1e-4 * once <= 1e-6


def test_a_search_ends_after_its_allowance(monkeypatch):
    """Counted in grid points, so the same everywhere: with an allowance of one evaluation the plan falls back on what needs none."""
    from dpspec.privacy import spent

    monkeypatch.setattr(spent, "_POINTS", 10_000)
    c = calibrate(sampled(1000, 10, 1000, "poisson"), Budget(epsilon=1, delta="1e-6"), neighbours="add-remove")
    assert c.accountant == "Gaussian DP"
    assert c.levels["g"] == pytest.approx(math.sqrt(1000) / gaussian.mu_of(1, "1e-6"))
    recheck(c)


def test_the_allowance_is_counted_and_given_back():
    work = pld.Work(100)
    work.take(60)
    with pytest.raises(pld.TooLong):
        work.take(60)
    assert pld.WORK.get() is None


@pytest.mark.parametrize(("epsilon", "delta"), [("1e-12", "1e-300"), ("1e-9", "1e-12")])
def test_noise_that_no_source_draws_is_a_refusal(epsilon, delta):
    with pytest.raises(CalibrationError) as error:
        calibrate(sampled(10**6, 10**6, 10**12, "poisson"), Budget(epsilon=epsilon, delta=delta), neighbours="add-remove")
    assert error.value.code == "DP308"
