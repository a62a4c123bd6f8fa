"""The privacy faults of 000, section 3.1 (Algorithms 3.1.1 to 3.1.4), each with a witness built without the code under test."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpspec.algorithms.convex_erm import dp_accmd, dp_katyusha, dp_svrg, dp_svrg_pp
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.schedule import draws
from dpspec.spec.expr import Num
from dpspec.spec.model import Ball
from tests import leak
from tests.algorithms.support import logistic, minimise, plan, tunables


def ball(radius: int, kind: str = "l2") -> Ball:
    return Ball(norm=kind, radius=Num(radius))


def exact_delta(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def printed_svrg_1d(rng, runs, draw, n, T, m, sigma, special):
    """Algorithm 3.1.1 in one dimension with r = mu/2 x^2: every record has the loss x (G = 1) but the last one, whose gradient is
    ``special``. ``draw``: (runs, T*m) booleans, whether the last record is the one that is picked."""
    eta, mu = 0.1, 1e-4
    z = np.ones(runs)
    for s in range(T):
        whole = (n - 1) / n + special(z) / n
        x, total = z.copy(), np.zeros(runs)
        for t in range(m):
            picked = draw[:, s * m + t]
            v = np.where(picked, special(x) - special(z), 0.0) + whole + sigma * rng.standard_normal(runs)
            x = (x - eta * v) / (1 + eta * mu)
            total += x
        z = total / m
    return z


def test_dp_svrg_as_printed_is_not_private():
    """Simulation at the setting of section 3.1.5 (n = 1e5, T = 24, m = 100, epsilon 1, delta 1e-4; c = 1), convex 1-Lipschitz and 1-smooth
    losses: only runs that pick the record are simulated, their share 1 - (1 - 1/n)^K is exact. The neighbour's output is Gaussian."""
    n, T, m, delta = 100_000, 24, 100, 1e-4
    K = T * m
    sigma = math.sqrt(K * math.log(1 / delta)) / n
    assert sigma == pytest.approx(0.00149, abs=1e-5)
    rng = np.random.default_rng(5)
    quiet = printed_svrg_1d(rng, 2000, np.zeros((2000, K), bool), n, T, m, sigma, lambda x: np.ones_like(x))
    centre, spread = quiet.mean(), quiet.std()
    touched = 4000
    draw = np.zeros((touched, K), bool)
    draw[np.arange(touched), rng.integers(0, K, touched)] = True  # picked once, at a uniform step
    moved = printed_svrg_1d(rng, touched, draw, n, T, m, sigma, lambda x: np.clip(x, -1.0, 1.0))
    share = K / n * (1 - 1 / n) ** (K - 1)  # exactly once
    edge = centre + 6 * spread
    hits = int((np.abs(moved - centre) > 6 * spread).sum())
    low = max(hits - 4 * math.sqrt(hits), 0.0) / touched
    assert share * low > math.e * 2 * norm.sf(5.5) + 2 * delta, (hits, edge)  # P(event) > e^1 P'(event) + delta, twice over

    p = minimise(n, 5, logistic(l2=1e-4), facts={"epsilon": 1.0, "delta": delta})
    t = tunables(dp_svrg, p, T=T, m=m, b=1)
    (row,) = dp_svrg.published(p, t, Budget(epsilon="1", delta="0.0001"))
    assert row.scale == pytest.approx(sigma)
    assert row.epsilon > 1000
    leak.event(share * low, 2 * norm.sf(5.5), stated=1.0, delta=delta)


def test_remark_3_1_1_keeps_a_condition():
    """The step epsilon of the remark at the setting of the experiments: n epsilon/(4 sqrt(2 K log(2/delta))) = 114.7, against 1.256."""
    step = 1e5 / (4 * math.sqrt(2 * 2400 * math.log(2 / 1e-4)))
    assert step == pytest.approx(114.7, abs=0.1)
    limit = brentq(lambda e: math.expm1(e) - 2 * e, 0.5, 3)
    assert limit == pytest.approx(1.2564312, abs=1e-6)
    assert math.log1p(math.expm1(min(step, 700)) / 1e5) > 100 * 2 * step / 1e5  # true amplified epsilon against the lemma's
    # of a step that is randomised response at that epsilon
    leak.epsilon(math.log1p(math.expm1(step) / 1e5), 2 * step / 1e5)


def test_lemma_2_1_2_is_false_for_large_epsilon():
    """Randomised response at epsilon 5 on a random tenth of the records: two-point laws give the exact loss."""
    q, e = 0.1, 5.0
    keep = math.exp(e) / (1 + math.exp(e))
    with_record, without = q * keep + (1 - q) * (1 - keep), 1 - keep
    loss = math.log(with_record / without)
    assert loss == pytest.approx(math.log1p(q * math.expm1(e)), rel=1e-9)
    assert loss > 2 * q * e
    leak.epsilon(loss, 2 * q * e)


def test_barzilai_borwein_steps_leak():
    """SVRG-BB: the step |z1 - z0|^2/(m <z1 - z0, g1 - g0>) from exact gradients, z released. Whoever sees two iterates and the noisy v
    between them reads the step off; it differs between neighbours and no noise covers it."""
    x = np.linspace(-1, 1, 50)
    other = x.copy()
    other[0] = 1.0

    def step(a, y0=0.2, y1=0.5, m=10):
        def gradient(w):
            return np.mean(-a / (1 + np.exp(a * w)))

        return (y1 - y0) ** 2 / (m * (y1 - y0) * (gradient(y1) - gradient(y0)))

    first, second = step(x), step(np.where(np.arange(50) == 0, 0.0, x))
    v = 0.37 + 0.01 * np.random.default_rng(0).standard_normal()  # a released noisy direction
    assert abs((0.5 - (0.5 - first * v)) / v - first) < 1e-12 < abs(first - second)
    leak.certain(first, second, given="the iterates and the noisy direction")


def test_scaling_by_the_largest_norm_leaks():
    """Dividing by the data's own largest norm: one record moves all the others, by more than the sensitivity 2/n of a mean of unit
    vectors; scaling record by record does not."""
    x = np.full((100, 1), 1.0)
    y = x.copy()
    y[0] = 50.0

    def scaled(a):
        return (a / np.abs(a).max()).mean()

    assert abs(scaled(x) - scaled(y)) > 0.9 > 2 / 100
    assert abs((x / np.maximum(1, np.abs(x))).mean() - (y / np.maximum(1, np.abs(y))).mean()) <= 2 / 100
    leak.moved(abs(scaled(x) - scaled(y)), 2 / 100)


def test_the_step_of_theorem_3_1_2_violates_3_5():
    """eta = 1/(12 L): the second term of (3.5) is 8/12/(1 - 8/12) = 2 in the limit; our constants allow it."""
    assert pytest.approx(2.0) == 8 / 12 / (1 - 8 / 12)
    assert dp_svrg.contraction(1 / 3, 60 * 5, 0.25, 0.05) < 1  # kappa = 5
    assert dp_svrg.contraction(1 / 12, 10**9, 3.0, 1.0) == math.inf


def test_dp_katyusha_as_printed_adds_no_noise():
    """n = 2, one epoch of two steps, as printed: every index sequence of both neighbours enumerated; no output is shared, so delta = 1."""

    def outputs(labels):
        found = set()
        for picks in itertools.product(range(2), repeat=2):
            x = z = 0.0
            th, eta, mu = 0.5, 0.5, 0.1

            def slope(w, i):
                return -labels[i] / (1 + math.exp(labels[i] * w))

            full, total, weights = (slope(z, 0) + slope(z, 1)) / 2, 0.0, 0.0
            for j, i in enumerate(picks):
                y = th * x + (1 - th) * z
                x = (x - eta * (slope(y, i) - slope(z, i) + full)) / (1 + eta * mu)
                total, weights = total + (1 + eta * mu) ** j * x, weights + (1 + eta * mu) ** j
            found.add(round(th * total / weights + (1 - th) * z, 12))
        return found

    assert outputs((1.0, 1.0)) & outputs((1.0, 0.5)) == set()
    leak.disjoint(outputs((1.0, 1.0)), outputs((1.0, 0.5)))


def test_dp_katyusha_noise_is_too_small():
    """n = 1e5, T = 12, m = 75000: the formula gives 0.0288 G. One step alone: the record is picked with probability 1/n, and over K steps
    nine times; by the event 'some step exceeds 2G/sigma' the epsilon at delta = 1e-4 is in the thousands."""
    p = minimise(100_000, 50, logistic(l2=1e-4), facts={"epsilon": 1.0, "delta": 1e-4})
    t = tunables(dp_katyusha, p, T=12, m=1, b=1)
    from dpspec.algorithms.card import Tunables

    (row,) = dp_katyusha.published(p, Tunables({**t, "T": 12, "m": 75_000}), Budget(epsilon="1", delta="0.0001"))
    assert row.scale == pytest.approx(0.0288, abs=1e-4)
    drawn = 1 - (1 - 1e-5) ** 900_000
    necessary = math.log(drawn / 2 - 1e-4) - math.log(900_000) - norm.logsf(2 / row.scale)
    assert row.epsilon == pytest.approx(necessary, rel=1e-6)
    assert row.epsilon > 1000
    leak.epsilon(necessary, 1.0, 1e-4)


def test_the_experiments_of_katyusha_break_3_29():
    """m = 3n/4, lambda = 1e-4, L = 1/4, n = 1e5: theta = sqrt(m mu/(3 L)) = 3.2, not in (0, 1/2]."""
    assert math.sqrt(0.75e5 * 1e-4 / (3 * 0.25)) > 0.5
    p = minimise(1000, 3, logistic(l2=0.01), facts={"epsilon": 1.0, "delta": 1e-4})
    t = tunables(dp_katyusha, p)
    assert dp_katyusha.accepts(p, t) is None
    from dpspec.algorithms.card import Tunables

    assert "3.29" in (dp_katyusha.accepts(p, Tunables({**t, "eta": 4 * t.eta})) or "")


def test_dp_svrg_pp_range_is_empty():
    """2^T m = n eps L/(G sqrt(p log(1/delta))) inside eps <= c1 2^T m/n^2 needs n G sqrt(p log(1/delta)) <= c1 L: at c1 = 1, L = G, p = 22
    no n >= 1 qualifies. The printed noise then spends far more than epsilon."""
    for n in (10, 1000, 50_000):
        steps = n * 1.0 / math.sqrt(22 * math.log(1e4))
        assert steps / n**2 < 1.0
    p = minimise(50_000, 22, logistic(l1=1e-4), over=ball(5), facts={"epsilon": 1.0, "delta": 1e-4})
    t = tunables(dp_svrg_pp, p, T=10, m=4, b=1)
    (row,) = dp_svrg_pp.published(p, t, Budget(epsilon="1", delta="0.0001"))
    assert row.epsilon > 1000
    assert draws(dp_svrg_pp.schedule(p, t))["difference"].count == sum(4 * 2**s for s in range(1, 11)) == 8184
    leak.epsilon(row.epsilon, 1.0, 1e-4)  # of one event, as that of DP-Katyusha above


def test_dp_accmd_as_printed_releases_the_exact_step():
    """T = 1 in the Euclidean ball: y_1 = proj(x_0 - grad F(x_0)/(2 L)) whatever noise the mirror step had; neighbours always differ."""

    def printed(labels, sigma, seed):
        noise = sigma * np.random.default_rng(seed).standard_normal()
        gradient = np.mean([-y / 2 for y in labels])
        z = np.clip(0.0 - 2 / (4 * 0.25) * (gradient + noise), -1, 1)
        del z  # r_0 = 1 for the next x only: the output is y
        return float(np.clip(0.0 - gradient / (2 * 0.25), -1, 1))

    assert printed((1, 1, -1), 5.0, 1) == printed((1, 1, -1), 0.0, 2) != printed((1, 1, 1), 5.0, 3)
    p = minimise(3, 1, logistic(), over=ball(1), facts={"epsilon": 1.0, "delta": 1e-4, "w_radius": 1.0, "w_l1": 1.0})
    (row,) = dp_accmd.published(p, tunables(dp_accmd, p, T=1), Budget(epsilon="1", delta="0.0001"))
    assert row.epsilon == math.inf
    leak.certain(printed((1, 1, -1), 5.0, 1), printed((1, 1, 1), 5.0, 3))


def test_dp_accmd_spends_its_budget_exactly():
    """T Gaussian draws of sensitivity 2L/n are one of sqrt(T) times it: the closed form at the plan's noise gives delta."""
    p = minimise(500, 4, logistic(), over=ball(1), facts={"epsilon": 1.0, "delta": 1e-4, "w_radius": 1.0, "w_l1": 2.0})
    t = tunables(dp_accmd, p)
    c = plan(dp_accmd, p, t, Budget(epsilon="1", delta="0.0001"))
    assert exact_delta(1.0, math.sqrt(t.T) * (2 / 500) / c.scale("gradient")) == pytest.approx(1e-4, rel=1e-4)
