"""Objective perturbation: the proof's inequalities by simulation and quadrature, the solver's certificate, the bound."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import norm

from dpspec.algorithms.convex_erm import approximate_minima_perturbation, objective_perturbation
from dpspec.algorithms.convex_erm._solve import stationary
from dpspec.algorithms.sets import ConstraintSet
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.mechanisms.objective_gaussian import GaussianObjective, factor
from dpspec.privacy.noise import SecureNoise
from tests.algorithms.support import logistic, minimise, plan, tunables


def gaussian_delta(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-5), (4.0, 1e-3), (1.0, 0.1)])
def test_the_level_spends_no_more_than_delta(epsilon, delta):
    m = GaussianObjective(1000, 5, 1.0, 0.25, 0.01, delta, 1e-9)
    left = 0.99 * epsilon - math.log1p(0.25 / (1000 * (0.01 + m.extra(epsilon))))
    mu = 2.0 / m.scale(epsilon)
    twice = factor(left, mu)
    spent = twice * gaussian_delta(left, mu)
    assert spent <= 0.99 * delta * (1 + 1e-9)
    assert spent >= 0.98 * delta
    assert m.delta_by_quadrature(epsilon, epsilon) == pytest.approx(spent + 0.01 * delta, rel=1e-6)
    grid = m.scale(epsilon) * 2.0**-26 * math.sqrt(5) / 2 / 1000  # coordinates of b rounded to multiples of at most s/2^26
    gap = 2 * (1e-9 + grid) / (0.01 + m.extra(epsilon))
    assert gaussian_delta(0.01 * epsilon, gap / m.gap_scale(epsilon)) <= 0.01 * delta * (1 + 1e-9)


@pytest.mark.parametrize("correlation", [-1.0, -0.7, 0.0, 0.5, 0.95])
def test_the_tail_of_two_dependent_normals(correlation):
    """P((|Z1| + |Z2|)/2 > x) <= 2 Q(x) for x >= sqrt(3), by the bivariate normal law of (Z1 + Z2, Z1 - Z2), which are independent."""
    for x in (math.sqrt(3.0), 2.0, 3.0, 4.5):
        a, b = (norm.sf(2 * x / math.sqrt(v)) if v > 0 else 0.0 for v in (2 + 2 * correlation, 2 - 2 * correlation))
        exact = 2 * a + 2 * b - 4 * a * b
        assert exact <= 2 * norm.sf(x) * (1 + 1e-12)


def one_dimensional_density(labels, x, lam, scale):
    """The density of argmin sum log(1 + e^(-y x w)) + n lam/2 w^2 + b w on a grid: b(w) = -(sum' + n lam w), b ~ N(0, scale^2)."""
    n, w = len(x), np.linspace(-60, 60, 400_001)
    g = sum(-y * a / (1 + np.exp(y * a * w)) for y, a in zip(labels, x, strict=True)) + n * lam * w
    h = sum(a * a / (2 + np.exp(a * w) + np.exp(-a * w)) for a in x) + n * lam
    return w, norm.pdf(g, scale=scale) * h


def test_the_true_delta_in_one_dimension_is_below_the_budget():
    """The hockey-stick divergence of the exact minimisers' densities by quadrature, opposite records, and it is not far below."""
    delta, epsilon = 1e-3, 1.0
    m = GaussianObjective(4, 1, 1.0, 0.25, 1.0, delta, 1e-12)
    lam = 1.0 + m.extra(epsilon)
    w, p = one_dimensional_density([1, 1, 1, 1], [1, 1, 1, 1], lam, m.scale(epsilon))
    _, q = one_dimensional_density([1, 1, 1, -1], [1, 1, 1, 1], lam, m.scale(epsilon))
    step = w[1] - w[0]
    assert p.sum() * step == pytest.approx(1.0, abs=1e-6)
    spent = max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum() * step) for a, b in ((p, q), (q, p)))
    assert spent <= delta


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("x", [0.1, 0.5, 1.0, 1.5, 2.0, 4.0])
def test_twice_or_four_times_the_gaussian_delta_is_enough(x, mu):
    """delta of the loss mu^2/2 + mu (|Z1| + |Z2|)/2 at the epsilon where it starts at x: the integral of its tail times e^(epsilon - loss),
    for correlations of every kind. Twice the delta of the Gaussian mechanism is not enough at small x, and then four times is used."""
    epsilon = mu * mu / 2 + mu * x

    def spent(rho):
        def tail(z):
            a, b = (norm.sf(2 * z / math.sqrt(v)) if v > 0 else 0.0 for v in (2 + 2 * rho, 2 - 2 * rho))
            return 2 * a + 2 * b - 4 * a * b

        return quad(lambda z: tail(z) * mu * math.exp(-mu * (z - x)), x, x + 30, epsabs=0, limit=200)[0]

    worst = max(spent(rho) for rho in (-1.0, -0.9, -0.5, 0.0, 0.5, 0.9, 1.0))
    assert worst <= factor(epsilon, mu) * gaussian_delta(epsilon, mu) * (1 + 1e-6)
    if x <= 0.5:
        assert worst > 2 * gaussian_delta(epsilon, mu)


def test_the_change_of_gradients_is_that_of_a_replaced_record():
    assert GaussianObjective(100, 2, 3.0, 0.25, 0.1, 1e-5, 1e-9).sensitivity == 6.0


def test_a_solver_that_gives_up_releases_nothing():
    records = Records(np.ones((2, 1)), np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="tolerance"):
        stationary(logistic(l1=0.1), records, 2, 0.25, 1.0, np.array([3.0]), 0.1, 1e-14, limit=1)


@pytest.mark.parametrize("tolerance", [1e-14, 1e-7])
def test_the_grid_of_the_secure_source_does_not_show_in_the_minimiser(tolerance):
    """Whoever knows the records computes b from the minimiser, b = -n (grad F(w) + Lambda w), and sees whether it lies on the grid that
    the secure source draws from; with other records it would not. However small the tolerance, the distance to the grid has to be as
    good as uniform on [0, 1/2]: mean 1/4, here of 400 releases, whose standard error is 0.0072."""
    m = GaussianObjective(2, 1, 1.0, 0.25, 1.0, 1e-3, tolerance)
    x, lam, s = np.array([1.0, 0.7]), 1.0 + m.extra(1.0), m.scale(1.0)
    step = 2.0 ** (math.frexp(s)[1] - 1 - 26)

    def gradient(w):
        return float(np.mean(-x / (1 + np.exp(x * w)))) + lam * w

    def solve(linear, extra):
        w = 0.0
        for _ in range(50):  # Newton: the Hessian is between lam and lam + 1/4, so each step halves the error at least
            w -= (gradient(w) + float(linear[0])) / (lam + float(np.mean(x**2 / (2 + np.exp(x * w) + np.exp(-x * w)))))
        return np.array([w])

    released = [float(m.apply(solve, 1.0, SecureNoise())[0]) for _ in range(400)]
    exact = [-2 * gradient(float(solve(np.array([b]), 0.0)[0])) / step for b in SecureNoise().gaussian(s, 50) / 2]
    assert max(abs(v - round(v)) for v in exact) < 0.01  # without the gap's noise the grid is seen
    found = np.array([-2 * gradient(w) / step for w in released])
    assert abs(np.mean(np.abs(found - np.rint(found))) - 0.25) < 5 * 0.0072


def test_a_certificate_counts_the_rounding_of_gradients():
    """Opposite records: the computed gradient at 0 is 0 to the last bit, and still no tolerance below its rounding errors is certified.
    A plan says so before a run does."""
    records = Records(np.ones((2, 1)), np.array([1.0, -1.0]))
    for over in (None, ConstraintSet("l2", radius=1.0)):
        with pytest.raises(ValueError, match="tolerance"):
            stationary(logistic(over=over), records, 2, 0.25, 1.0, np.zeros(1), 0.1, 1e-17, limit=10)
        assert stationary(logistic(over=over), records, 2, 0.25, 1.0, np.zeros(1), 0.1, 1e-12)[0] == 0.0
    for module in (objective_perturbation, approximate_minima_perturbation):
        p = minimise(10**8, 2, logistic(l2=0.1))
        t = tunables(module, p)
        assert module.accepts(p, t) is None
        assert "rounding" in (module.accepts(p, tunables(module, p, tolerance=1e-15)) or "")


def test_the_solver_meets_its_certificate():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((60, 4))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    records = Records(x, np.sign(rng.standard_normal(60)))
    linear = 0.05 * rng.standard_normal(4)
    f = logistic(l2=0.1)
    w = stationary(f, records, 60, 0.25, 1.0, linear, 0.2, 1e-11)
    margins = records.y * (x @ w)
    g = -(records.y / (1 + np.exp(margins))) @ x / 60 + 0.3 * w + linear
    assert np.linalg.norm(g) <= 2e-11


@pytest.mark.parametrize("pure", [False, True])
def test_the_bound_holds(pure):
    rng = np.random.default_rng(4)
    n, d = 400, 3
    x = rng.standard_normal((n, d))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    records = Records(x, np.sign(x[:, 0] + 0.3 * rng.standard_normal(n)))
    p = minimise(n, d, logistic(l2=0.1))
    if pure:
        facts = {k: v for k, v in p.facts.items() if k != "delta"}
        p = replace(p, facts=facts)
    t = tunables(objective_perturbation, p)
    c = plan(objective_perturbation, p, t, Budget(epsilon="1") if pure else None)
    from tests.algorithms.support import study

    f = p.objective

    best = minimize(lambda w: f.value(w, records), np.zeros(d), tol=1e-12).fun
    errors = [f.value(study(objective_perturbation, records, p, t, c, seed).theta, records) - best for seed in range(40)]
    (bound,) = objective_perturbation.explicit_bounds(p, t, c).values()
    assert 0 < np.mean(errors) <= bound
