"""interactive-ldp-sgd: reports of any gradient, the steps by hand, the population bound over drawn laws, the variance by other formulas."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from dpspec.algorithms.nldp_erm import interactive_ldp_sgd as module
from dpspec.algorithms.sets import ConstraintSet
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.schedule import draws
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, Box
from tests import leak
from tests.algorithms.support import logistic, minimise, plan, study, tunables

PURE = Budget(epsilon="2")
R = 2.0


def problem(n: int, d: int, epsilon: float = 2.0, *, l2: float = 0.0, delta: float | None = None, **facts: float) -> Any:
    ball = ConstraintSet("l2", radius=R)
    p = minimise(
        n,
        d,
        logistic(l2, over=ball),
        over=Ball(norm="l2", radius=num(R)),
        facts={"w_radius": R, "epsilon": epsilon, "features": d, **facts},
    )
    kept = {k: v for k, v in p.facts.items() if k != "delta"} | ({} if delta is None else {"delta": delta})
    assert p.loss is not None
    return replace(p, model="sldp", facts=kept, loss=replace(p.loss, l2=l2))


def law(n: int, d: int, seed: int = 0) -> Records:
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1)[:, None]
    y = np.where(g.random(n) < expit(3 * x[:, 0]), 1.0, -1.0)
    return Records(x, y)


def risk(w: np.ndarray, d: int) -> float:
    """E log(1 + exp(-y <w, x>)) of the law above, by 200,000 records of its own."""
    records = law(200_000, d, 99)
    return float(np.mean(np.logaddexp(0, -records.y * (records.x @ w))))


def test_a_gradient_of_any_length_stays_within_the_channel():
    """Records that break the certificate: reports of the pure channels have one length, whatever the gradient; of the Gaussian one, before
    its noise, two are at most 2 L apart in exact fractions."""
    wild = np.array([[1e300, 0.0], [-1e300, 1e-300], [0.3, 0.4], [np.inf, 0.0], [0.0, 0.0], [3.0, -4.0]])
    labels = np.array([1.0, -1e9, 1.0, 1.0, -1.0, np.nan])
    for word, delta in (("priv-unit", None), ("hemisphere", None), ("gaussian", 1e-6)):
        p = problem(100, 2, delta=delta)
        t = tunables(module, p, channel=word)
        (block,) = module.gradients(wild, labels, np.array([0.7, -0.2]), p.objective)
        channel = draws(module.schedule(p, t))["gradient"].draw.mechanism
        if word == "gaussian":
            sent = [[Fraction(float(v)) for v in row] for row in channel.encode(block, 1.0, NoNoise())]
            largest = max(sum((a - b) ** 2 for a, b in zip(u, v, strict=True)) for u in sent for v in sent)
            assert largest <= Fraction(channel.sensitivity) ** 2
        else:
            from dpspec.privacy.noise import StudyNoise

            sent = channel.encode(block, 2.0, StudyNoise(0))
            assert np.allclose(np.linalg.norm(sent, axis=1), channel.scale(2.0))
    # as printed: noise for 1-Lipschitz losses, gradients of (<w, x> - y)^2/2 at w = 0 of the records (3, 4), y = 10 and y = -10, unclipped
    raw = [-y * np.array([3.0, 4.0]) for y in (10.0, -10.0)]
    leak.moved(float(np.linalg.norm(raw[0] - raw[1])), 2.0)


class NoNoise:
    def add_gaussian(self, x, scale, *, sensitivity, dim):
        return x


def test_the_gaussian_channel_has_the_exact_profile():
    p = problem(1000, 3, 1.0, delta=1e-6)
    t = tunables(module, p, channel="gaussian")
    mu = 2 * t.length / plan(module, p, t, Budget(epsilon="1", delta="0.000001")).scale("gradient")
    delta = norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu)
    assert 0.999e-6 < delta <= 1e-6 * (1 + 1e-9)


def test_the_steps_by_hand():
    """Two batches of two users without noise, all written out: the average of the ends of steps up to 1/(2 (B + lam)) = 1/0.7, of their
    starts for longer ones."""
    p = problem(4, 2, l2=0.1)
    t = tunables(module, p, T=2, eta=Fraction(1, 2))
    records = law(4, 2, 3)

    class Exact:
        def mean_blocks(self, name, blocks):
            return np.concatenate(list(blocks)).mean(axis=0)

    got = module.run(records, p, t, Exact()).theta
    w, total = np.zeros(2), np.zeros(2)
    for rows in (slice(0, 2), slice(2, 4)):
        x, y = records.x[rows], records.y[rows]
        g = (-(y * expit(-y * (x @ w)))[:, None] * x).mean(axis=0)
        w = w - 0.5 * (g + 0.1 * w)
        total += w
    assert np.allclose(got, total / 2)
    t = tunables(module, p, T=2, eta=Fraction(3, 2))
    assert not module.long_steps(p, t)
    x, y = records.x[:2], records.y[:2]
    first = -1.5 * (-(y / 2)[:, None] * x).mean(axis=0)
    assert np.allclose(module.run(records, p, t, Exact()).theta, first / 2)


def test_every_user_answers_once():
    p = problem(103, 2)
    t = tunables(module, p, T=10)
    c = plan(module, p, t, PURE)
    (leaf,) = draws(c.tree).values()
    assert (leaf.count, leaf.total) == (1, 10)
    study(module, law(103, 2), p, t, c)


@pytest.mark.parametrize("channel", ["priv-unit", "hemisphere", "gaussian"])
def test_the_population_bound_holds(channel):
    """Six runs at n = 20,000: the mean excess over the population's best point of the ball (w = 2 e_1 by symmetry, the truth is 3 e_1)
    is below the bound, and below half of that of the zero vector."""
    delta = 1e-6 if channel == "gaussian" else None
    p = problem(20_000, 3, 4.0, delta=delta)
    t = tunables(module, p, channel=channel, T=200)
    c = plan(module, p, t, Budget(epsilon="4", delta="0.000001") if delta else Budget(epsilon="4"))
    least = risk(R * np.eye(3)[0], 3)
    excess = [risk(study(module, law(20_000, 3, seed), p, t, c, seed).theta, 3) - least for seed in range(6)]
    (bound,) = module.explicit_bounds(p, t, c).values()
    assert np.mean(excess) < bound
    assert np.mean(excess) < (risk(np.zeros(3), 3) - least) / 2
    assert module.predicted(p, t, c) == pytest.approx(bound / 4)


def test_the_bound_is_the_formula_with_the_length_of_the_half_sphere():
    """V by integration over the sphere: B = L coth(eps/2)/E<u, v> of the half sphere; D^2/(2 eta T) + eta (G^2 + V T/n)/2."""
    p = problem(1000, 5, 1.0, l2=0.2)
    p = replace(p, loss=replace(p.loss, smooth=math.inf))
    t = tunables(module, p, channel="hemisphere", T=10, eta=Fraction(1, 4))
    c = plan(module, p, t, Budget(epsilon="1"))
    lean = quad(lambda a: math.cos(a) * math.sin(a) ** 3, 0, math.pi / 2)[0] / quad(lambda a: math.sin(a) ** 3, 0, math.pi / 2)[0]
    V = (1 / (math.tanh(0.5) * lean)) ** 2
    G = 1 + 0.2 * 2 * R
    (bound,) = module.explicit_bounds(p, t, c).values()
    assert t.reach == R
    assert bound == pytest.approx(R**2 / (2 * 0.25 * 10) + 0.25 * (G**2 + V / 100) / 2, rel=1e-9)
    smooth = replace(p, loss=replace(p.loss, smooth=0.25))
    (better,) = module.explicit_bounds(smooth, t, c).items()
    assert better == (module.SMOOTH, pytest.approx(R**2 / (2 * 0.25 * 10) + 0.25 * V / 100, rel=1e-9))


def test_the_step_of_a_smooth_loss():
    """D/sqrt(2 T V/b), at most 1/(2 (B + lam)), from names alone."""
    for n, l2 in ((2000, 0.0), (10**9, 0.1)):
        p = problem(n, 5, 1.0, l2=l2, L=1.0, B=0.25, lam=l2)
        t = tunables(module, p, T=100)
        noise = 5 * 1.6 * 9 * 100 / n
        assert t.eta == pytest.approx(min(1 / (2 * (0.25 + l2)), R / math.sqrt(2 * 100 * noise)))
        assert module.long_steps(p, t)


def test_the_bound_of_smooth_losses_on_a_quadratic_that_meets_the_recursion():
    """F(w) = B w^2/2, reports w B + xi: averages of exact second moments against the bound, over steps and horizons, without a set."""
    B, D = 0.5, 2.0
    for eta in (0.01, 0.2, 1.0):
        for T in (1, 3, 50):
            for noise in (0.0, 0.5, 20.0):
                keep, total = 1 - eta * B, np.zeros((T, T + 1))
                # w_(t+1) = keep^t w_1 - eta sum keep^(t-s) xi_s: coefficients of the average of the ends
                for t in range(1, T + 1):
                    total[t - 1, 0] = keep**t * D
                    total[t - 1, 1 : t + 1] = -eta * keep ** np.arange(t - 1, -1, -1) * math.sqrt(noise)
                mean = total.mean(axis=0)
                assert B * float(mean @ mean) / 2 <= D**2 / (2 * eta * T) + eta * noise


def test_the_slope_of_the_ridge_counts_the_whole_length_of_a_weight():
    """Over the box [10, 10.1]^3 every step of the ridge is lam |w| long, lam 10 sqrt(3) at the least; the diameter of the box is 0.17."""
    low, high, lam = Fraction(10), Fraction(101, 10), 0.2
    p = problem(1000, 3, l2=lam)
    p = replace(p, loss=replace(p.loss, smooth=math.inf))
    p.task.over = Box(low=num(low), high=num(high))
    t = tunables(module, p, channel="hemisphere", T=10, eta=Fraction(1, 4), reach=1)
    (bound,) = module.explicit_bounds(p, t, plan(module, p, t, PURE)).values()
    assert bound >= 0.25 * (1 + lam * 10.1 * math.sqrt(3)) ** 2 / 2


def test_what_takes_the_bound_away():
    p = problem(1000, 3)
    short = tunables(module, p, length=Fraction(1, 2))
    assert module.explicit_bounds(p, short, plan(module, p, short, PURE)) == {}
    near = tunables(module, p, reach=1)
    assert module.explicit_bounds(p, near, plan(module, p, near, PURE)) == {}


def test_what_it_cannot_serve_is_said():
    p = problem(1000, 3)
    assert "does not go with" in str(module.accepts(p, tunables(module, p, channel="gaussian")))
    assert "does not go with" in str(module.accepts(p, tunables(module, p, channel="one-bit")))
    assert "batches need" in str(module.accepts(problem(5, 3), tunables(module, problem(5, 3), T=6)))
    lasso = replace(p, loss=replace(p.loss, l1=0.1))
    assert "l1" in str(module.accepts(lasso, tunables(module, lasso)))
    one = problem(1000, 1)
    assert draws(module.schedule(one, tunables(module, one)))["gradient"].draw.mechanism.kind == "one-bit-mean"
