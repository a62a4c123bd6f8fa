"""on-pair-str-c: the spec's ridge sets the steps and is in no sensitivity; what the printed noise spends."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from dpspec.algorithms.pairwise import _printed, _stream
from dpspec.algorithms.pairwise import on_pair_str_c as module
from dpspec.privacy.calibrated import Budget
from tests.algorithms.pairwise.streams import RANKING, Fed, bound, movement
from tests.algorithms.pairwise.test_off_pair_c import drafted, sample

RIDGE = f"{RANKING} + 0.5/2*|w|^2"


def test_the_ridge_is_in_no_sensitivity():
    p, t, _ = bound(module, n=11, d=1, loss="-(y1 - y2)*<w, x1 - x2> + 3/2*|w|^2", options="every = 2, T_1 = 3, shift = 2")
    plan = _stream.blocks(p, t)
    most = movement(p.n, lambda u, y: Fraction(-y), [Fraction(0)] * plan.count, plan, None)
    stated = Fraction(module.sensitivity(p, t)) ** 2
    assert stated * Fraction(999, 1000) <= most <= stated


def test_a_loss_without_a_ridge_is_for_the_other():
    draft = drafted(algorithm="on-pair-str-c")
    assert any("strongly-convex" in d.message or "on-pair-c" in d.message for d in draft.diagnostics if d.severity == "error")


def test_the_noise_is_the_analytic_gaussian_of_that_sensitivity():
    p, t, calibrated = bound(module, n=500, d=2, loss=RIDGE)
    mu = module.sensitivity(p, t) / calibrated.scale("gradients")
    delta = norm.cdf(mu / 2 - 1 / mu) - math.exp(1) * norm.cdf(-mu / 2 - 1 / mu)
    assert delta == pytest.approx(1e-6, rel=1e-3)
    assert calibrated.tree.mechanism.size == 2 * _stream.blocks(p, t).count


def test_steps_shrink_as_the_ridge_says():
    p, t, _ = bound(module, n=30, d=2, loss=RIDGE, options="every = 5, T_1 = 5, shift = 3")
    zero = Fed(np.zeros((5, 2)))
    assert not module.run(sample(30, 2), p, t, zero).extras["transcript"].any()  # no noise, no gradient, the ridge about 0
    path = module.run(sample(30, 2), p, t, Fed(np.ones((5, 2)) / 10)).extras["transcript"]
    w = np.zeros(2)
    for q in range(1, 6):
        eta = 1 / (0.5 * (q + 2))
        w = (w - eta / 10) / (1 + 0.5 * eta)
        assert path[q] == pytest.approx(w)


# ------------------------------------------------------------------------------------------------------------ printed claims


def test_what_the_printed_noise_spends_with_the_point_fed_back():
    """The worst record's sum of squares as a share of rho, from the printed step and noise, T_1 = 16 and n = 10,016."""
    n, begin = 10_016, 16
    total = {}
    for own in (1, begin + 1, begin + 2, 100):
        shares = []
        for t in range(begin + 1, n + 1):
            c = 1.0 if t == own else 1 / (t - 1) if t > own else 0.0
            eta = (t - 1) / (t - 2) * 2  # times alpha t; sigma is sqrt(32 G^2 (n - T_1)/rho) over alpha t, and S = 2 G
            shares.append((2 * c * eta) ** 2 / (32 * (n - begin)) / 2)
        total[own] = math.fsum(shares)
    assert max(total.values()) == total[begin + 1]
    assert total[begin + 1] < 1e-4  # of rho
    p, t, _ = bound(module, n=5000, d=2, loss=f"{RANKING} + 4/2*|w|^2")
    (printed,) = module.published(p, t, Budget(epsilon=1.0, delta=1e-6))
    assert printed.epsilon < 0.05


def test_the_printed_experiment_takes_no_step():
    """lambda = 1e-3, L_s = G = 4, n = 90, epsilon = 2.5, delta = 1/n, as printed."""
    alpha, n = 1e-3, 90
    assert _printed.start_phase(4, alpha) > 1e6 * n
    rho = _printed.zcdp(2.5, 1 / n)
    assert float(_printed.noise(np.array([90.0]), 4, alpha, n - 7, rho)[0]) > 1000
