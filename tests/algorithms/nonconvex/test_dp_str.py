"""dp-str: two sampled releases a step, what the printed noise spends, batches, the bound with sampling errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpspec.algorithms.nonconvex_erm import _saddles as saddles
from dpspec.algorithms.nonconvex_erm import dp_str as module
from dpspec.measures.second_order import second_order_stationarity
from dpspec.privacy.schedule import draws
from tests import leak
from tests.algorithms.nonconvex.saddles import mixed, planned, trial
from tests.algorithms.nonconvex.test_dp_gld import metered
from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import spent


def stick(s: float, q: float, epsilon: float) -> float:
    """The hockey stick of one step: a record of gradient g is in a batch with probability q and moves the mean by 1 (in units of 2 G/b),
    noise s; the others stand where its replacement does."""
    z = np.linspace(-12 * s, 1 + 12 * s, 400_001)
    without = norm.pdf(z, scale=s)
    sampled = (1 - q) * without + q * norm.pdf(z, loc=1, scale=s)
    return float(np.maximum(sampled - math.exp(epsilon) * without, 0).sum() * (z[1] - z[0]))


def test_both_releases_of_a_step_are_charged():
    """The plan has 2 T sampled draws; one of them alone at the same noise would spend less than the budget (two independent steps of
    the same pair have a larger hockey stick than one)."""
    p, t, c = planned(module, options="T = 6, b = 2000")
    tree = module.schedule(p, t)
    found = draws(tree)
    assert {name: leaf.total for name, leaf in found.items()} == {"gradient": 6, "hessian": 6}
    assert all(part.method == "fixed" and part.rate == 0.1 for part in tree.body.parts)
    assert found["hessian"].draw.mechanism.sensitivity == pytest.approx(1.8 / 2000, rel=1e-6)
    from dpspec.privacy.calibrate import Budget, calibrate
    from dpspec.privacy.schedule import Repeat

    alone = calibrate(Repeat(tree.body.parts[0], 6), Budget(epsilon="1", delta="0.000001"))
    assert alone.scale("gradient") < 0.9 * c.scale("gradient")
    # batches that hold all records, noise for the gradients alone and Hessians of the same multiplier beside them: sqrt(2) times the mu
    mu = brentq(lambda m: leak.gaussian_delta(m, 1.0) - 1e-6, 0.01, 5.0)
    leak.epsilon(leak.gaussian_epsilon(math.sqrt(2) * mu, 1e-6), 1.0, 1e-6)


def test_the_printed_noise_lacks_the_number_of_steps():
    """Large batches, near the limit of Gaussian composition: mu = sqrt(T) q 2 G/(s b) as b = q n, 2 G sqrt(T)/(n s) for gradients, free of
    b, and as much for Hessians of the printed sigma_2 without T. At epsilon 1, delta = 1/581,012."""
    delta = 1 / 581_012
    real = {}
    for T in (1000, 2000, 5000, 20_000):
        s = 16 * math.sqrt(math.log(5 * T / delta) * math.log(2 / delta))  # in units of G/(n epsilon)
        real[T] = spent(s / (2 * math.sqrt(T)), delta)
    # gradients alone; with the Hessians of a noise that does have the factor T they are 0.93, 1.33, 2.14 and 4.5 of the catalogue
    assert real[2000] > 1.2
    assert real[20_000] == pytest.approx(4.5, rel=0.05)
    assert all(b > a * 1.3 for a, b in zip(list(real.values()), list(real.values())[1:], strict=False))
    leak.epsilon(real[20_000], 1.0, delta)


def test_a_small_batch_with_the_printed_noise_gives_a_record_away():
    """|S| = 10 of n = 581,012, T = 40: at 1024 T the noise multiplier of a batch is 10 s/(2 G) with s that of the mean; one step has
    delta(1) near q = 10/n, ten times 1/n."""
    n, T, delta, b = 581_012, 40, 1 / 581_012, 10
    s = math.sqrt(1024 * T * math.log(5 * T / delta) * math.log(2 / delta)) / n  # times G, at epsilon 1
    found = stick(s * b / 2, b / n, 1.0)
    assert found == pytest.approx(1.7e-5, rel=0.05)
    assert found > 9 * delta
    leak.delta(found, delta, 1.0)


def test_a_multiplier_below_its_least_is_refused():
    class Loud:
        def scale(self, name):
            return 0.29 * 2 * p.loss.lipschitz / t.b

    p, t, c = planned(module, options="T = 4, b = 1000")
    assert module.uncertain(p, t, c) is None
    assert "larger" in str(module.uncertain(p, t, Loud())) or "take larger" in str(module.uncertain(p, t, Loud()))


def test_sampling_errors_are_below_what_the_bound_counts():
    """Means of batches of unit vectors, without replacement."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    off = [np.linalg.norm(x[rng.choice(500, 50, replace=False)].mean(axis=0) - x.mean(axis=0)) for _ in range(2000)]
    limit = saddles.sampling(1.0, 50, 500, 0.05)
    assert np.mean(np.array(off) > limit) <= 0.05
    assert saddles.sampling(1.0, 500, 500, 0.05) == 0.0


@pytest.mark.slow
def test_full_batches_have_the_bound_of_dp_tr_and_the_saddle_point_is_left():
    n = 20_000
    p, t, c = planned(module, n=n, epsilon="2", options="b = 10_000, T = 60")
    r = mixed(n)
    for seed in range(2):
        w = metered(module, r, p, t, c, seed)
        assert abs(w[0]) > 0.3
        assert second_order_stationarity(w, trial(p, r)) < second_order_stationarity(np.zeros(2), trial(p, r))
    p, t, c = planned(module, loss="1/(1 + exp(y*<w, x>))", y="{-1, 1} by map(0 -> -1, 1 -> 1)", options="b = 20_000, T = 150")
    (bound,) = module.explicit_bounds(p, t, c).values()
    assert 1.5 * t.alpha < bound < 8 * t.alpha


def test_batches_where_a_record_vanishes_are_poisson():
    p, t, _ = planned(module, neighbours="zero-out", options="T = 3, b = 500")
    assert all(part.method == "poisson" for part in module.schedule(p, t).body.parts)
    assert "larger than n" in str(module.accepts(p, {**t, "b": 1} and type(t)({**t, "b": 30_000})))
