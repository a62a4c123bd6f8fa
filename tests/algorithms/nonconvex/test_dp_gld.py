"""dp-gld: the temperature of its noise, the budget that is a time for a temperature, and what the printed constants spend."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpspec.algorithms.nonconvex_erm import dp_gld as module
from dpspec.algorithms.objective import Objective
from dpspec.data.records import Records
from dpspec.measures.gradient import gradient_norm
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from tests import leak
from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import rho, sample, spent
from tests.algorithms.support import minimise, plan, tunables


def warm(scale: float, seed: int):
    """A release of Gaussian noise of one scale, which it tells."""
    rng = np.random.default_rng(seed)
    return SimpleNamespace(
        public=PublicRandomness(seed),
        scale=lambda name: scale,
        draw=lambda name, value, *, sensitivity: value + rng.normal(size=value.shape) * scale,
    )


def problem(n: int = 2000, d: int = 3, l2: float = 0.0, **more):
    """The sigmoid loss by hand: slope at most 1/4, curvature at most 1/(6 sqrt 3)."""
    f = Objective(
        lambda u, y: 1 / (1 + np.exp(y * u)),
        lambda u, y: -y / (2 + np.exp(u) + np.exp(-u)),
        lambda u, y: np.tanh(y * u / 2) / (2 + np.exp(u) + np.exp(-u)),
        l2=l2,
    )
    p = minimise(n, d, f, lipschitz=0.25, smooth=1 / (6 * math.sqrt(3)), convex=False, facts={"at_zero": 0.5, **more})
    return replace(p, loss=replace(p.loss, at_zero=0.5))


def metered(module, records, p, t, c, seed: int):
    """One run in which exactly the planned draws were made, with public coins."""
    release = Release(c, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
    found = module.run(records, p, t, release).w
    release.close()
    return found


def test_the_variance_of_the_last_point_is_that_of_the_temperature():
    """Records at 0 leave the ridge alone: a linear chain of stationary variance 2 eta/beta/(1 - (1 - eta lam)^2), near 1/(beta lam)."""
    p = problem(n=4, d=400, l2=1.0)
    t = tunables(module, p, beta=50, T=200, gap=1)
    eta = 1 / 16
    scale = math.sqrt(2 / (eta * 50))
    w = module.run(Records(np.zeros((4, 400)), np.ones(4)), p, t, warm(scale, 3)).w
    assert w.var() == pytest.approx(2 * eta / 50 / (1 - (1 - eta) ** 2), rel=0.25)
    assert w.var() == pytest.approx(1 / 50, rel=0.3)


def test_the_budget_is_a_time_for_a_temperature():
    """eta T beta = n^2 mu^2/(2 L^2) whatever T and beta are: mu = sensitivity sqrt(T)/scale, by hand."""
    p = problem()
    for T, beta in ((600, 400.0), (900, 4000.0), (900, 400.0)):
        t = tunables(module, p, T=T, beta=beta)
        c = plan(module, p, t)
        s = c.scale("gradient")
        mu = 2 * 0.25 / 2000 * math.sqrt(T) / s
        assert 2.0 / (beta * s * s) * T * beta == pytest.approx((2000 * mu / 0.25) ** 2 / 2, rel=1e-9)
        assert spent(s / (2 * 0.25 / 2000 * math.sqrt(T)), 1e-6) == pytest.approx(1, rel=1e-6)


def test_steps_are_no_longer_than_the_inverse_of_the_smoothness_and_a_warning_tells_how_cold_it_is():
    p = problem()
    t = tunables(module, p, T=10, beta=10)
    c = plan(module, p, t)
    S = 1 / (6 * math.sqrt(3))
    assert module.step(p, t, c.scale("gradient")) == pytest.approx(1 / S)
    (text,) = module.warnings(p, t, c)
    enough = int(text.split("(T = ")[1].split()[0])
    assert enough == pytest.approx(10 * 2 / (10 * c.scale("gradient") ** 2) * S, abs=1)
    t = tunables(module, p, T=int(1.01 * enough), beta=10)
    assert not module.warnings(p, t, plan(module, p, t))


@pytest.mark.parametrize("output", ["last", "random"])
def test_defaults_end_near_a_stationary_point_and_keep_the_bound(output: str):
    p = problem(n=5000, d=5)
    t = tunables(module, p, output=output)
    c = plan(module, p, t)
    assert not module.warnings(p, t, c)
    found = []
    for seed in range(3):
        r = sample(5000, 5, seed)
        w = metered(module, r, p, t, c, seed)
        found.append(gradient_norm(w, SimpleNamespace(problem=p, records=r)))
        start = gradient_norm(np.zeros(5), SimpleNamespace(problem=p, records=r))
        assert found[-1] < start / 5
    bounds = module.explicit_bounds(p, t, c)
    if output == "last":
        assert not bounds
    else:
        S, s, K = 1 / (6 * math.sqrt(3)), c.scale("gradient"), math.ceil(t.T / 2)
        eta = 2 / (t.beta * s * s)
        assert bounds["descent at a temperature"] == pytest.approx(math.sqrt(2 * 0.5 / (eta * K) + 2 * S * 5 / t.beta * t.T / K), rel=1e-6)
        assert math.sqrt(np.mean(np.square(found))) < bounds["descent at a temperature"]


def test_the_constant_of_the_step_decides_the_privacy():
    """step = c n^2 e^2/(L^2 beta T log(1/delta)): gradient noise s^2 = 2/(step beta), mu^2 = T (2L/n)^2/s^2 = 2 c e^2/log(1/delta)."""
    log, delta = math.log(1e4), 1e-4
    for c, e, real in ((1.0, 1.0, 1.57), (0.25, 1.0, 0.714), (0.25, 10.0, 10.8), (0.125, 1.0, 0.484)):
        assert spent(1 / math.sqrt(2 * c * e * e / log), delta) == pytest.approx(real, rel=5e-3)
    for e in (1.0, 5.0, 10.0, 50.0):
        c = rho(e, delta) * log / e**2
        assert spent(1 / math.sqrt(2 * c * e * e / log), delta) <= e
    assert rho(50.0, delta) * log / 2500 < 0.13 < rho(1.0, delta) * log  # it has to fall
    leak.epsilon(spent(1 / math.sqrt(2 / log), delta), 1.0, delta)


def test_a_wrong_well_is_not_left_at_the_temperature_of_4_20():
    """One coordinate, two wells: exp-shaped ditches of unequal depth and a ridge, from the shallow one, at beta = (n eps)^(2/3), for which
    (4.20) claims an excess risk of about (n eps)^(-2/3). Time T eta = (n mu)^2/(2 L^2 beta), by Euler steps with the exact drift."""

    def F(x):
        return -0.6 * np.exp(-((x - 2) ** 2)) - np.exp(-((x + 2) ** 2)) + 0.02 * x**2 / 2

    def drift(x):
        return 1.2 * (x - 2) * np.exp(-((x - 2) ** 2)) + 2 * (x + 2) * np.exp(-((x + 2) ** 2)) + 0.02 * x

    rng, n, mu, eta = np.random.default_rng(0), 1000, 0.27, 0.05
    beta = n ** (2 / 3)
    L = 0.9  # of a record: the slope of exp(-x^2) is at most sqrt(2/e) = 0.858, and the ditches are far apart
    steps = int((n * mu) ** 2 / (2 * L**2 * beta) / eta)
    x = np.full(100, 2.0)
    for _ in range(steps):
        x += -eta * drift(x) + math.sqrt(2 * eta / beta) * rng.normal(size=100)
    best = F(np.linspace(-4, 4, 8001)).min()
    assert (x > 0).all()
    assert np.mean(F(x)) - best > 0.3 > 20 * n ** (-2 / 3)


def test_the_ridge_is_in_the_drift():
    """From where the data say nothing the chain falls back to 0 by lam alone."""
    p = problem(n=4, d=2, l2=0.5)
    t = tunables(module, p, beta=1e6, T=60)
    r = Records(np.zeros((4, 2)), np.ones(4))
    over = SimpleNamespace(kind="reals", start=lambda d: np.full(d, 3.0))
    moved = SimpleNamespace(l2=0.5, over=over, prox=lambda v, step: v, data_gradient=p.oracle.data_gradient)
    w = module.run(r, replace(p, oracle=moved), t, warm(1e-3, 1)).w
    assert np.abs(w).max() < 0.1


def test_what_it_refuses():
    p = problem()
    assert module.accepts(p, tunables(module, p)) is None
    assert "smoothness" in str(module.accepts(minimise(10, 2, p.oracle, smooth=math.inf), tunables(module, p)))
