"""dp-trimmed-mean: the smooth sensitivity against its definition, over neighbours, and what the printed scale does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpspec.algorithms.card import Problem
from dpspec.algorithms.heavy_tailed import _trimmed as trimmed
from dpspec.algorithms.heavy_tailed import dp_trimmed_mean as module
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.spec.model import Estimate
from tests import leak
from tests.algorithms.support import plan, study, tunables

PURE = Budget(epsilon="1")


def problem(n: int, d: int = 1, neighbours: str = "replace-one", **facts: float) -> Problem:
    known = {"n": n, "d": d, "epsilon": 1.0, "moment_order_x": 2.0, "moment_bound_x": 4.0}
    return Problem("central", neighbours, Estimate(what="mean"), {**known, **facts})


def by_definition(x: np.ndarray, m: int, t: float, width: float) -> float:
    n = len(x)

    def at(i: int) -> float:
        return -math.inf if i < 1 else math.inf if i > n else float(x[i - 1])

    local = [max(at(n - m + 1 + k - i) - at(m + 1 - i) for i in range(k + 2)) / (n - 2 * m) for k in range(m + 1)]
    return max(math.exp(-k * t) * min(width, v) for k, v in enumerate(local))


def hostile(g: np.random.Generator, n: int) -> np.ndarray:
    x = g.standard_cauchy(n) * 10 ** g.uniform(-2, 2)
    return np.round(x) if g.random() < 0.3 else x


def test_the_fast_bound_is_the_definition():
    """Ties, wide and narrow ranges, every m, every t."""
    g = np.random.default_rng(0)
    for _ in range(1500):
        n = int(g.integers(3, 30))
        m = int(g.integers(0, (n - 1) // 2 + 1))
        t, width, x = 10 ** g.uniform(-2, 0.5), 10 ** g.uniform(-2, 2), np.sort(hostile(g, n))
        assert trimmed.smooth_bound(x, m, t, width) == pytest.approx(by_definition(x, m, t, width), rel=1e-13)


def test_neighbours_are_within_the_bound_and_the_bound_is_smooth():
    """2000 neighbours, records at any size: |f - f'| <= min(S, S') and |log S/S'| <= t, as the mechanism measures it; both are reached."""
    g = np.random.default_rng(1)
    moved, dilated = [], []
    for _ in range(2000):
        n = int(g.integers(3, 12))
        m, t = int(g.integers(0, (n - 1) // 2 + 1)), float(10 ** g.uniform(-2, 0))
        x = hostile(g, n)
        y = x.copy()
        y[g.integers(n)] = g.choice([math.inf, -math.inf, math.nan, 1e300, 0.0, float(g.standard_cauchy())])
        (f, s), (h, r) = (trimmed.released(v, m, t, -3.0, 2.0) for v in (x, y))
        assert abs(f - h) <= min(s, r)
        assert abs(math.log(s / r)) <= t
        moved.append(abs(f - h) / min(s, r))
        dilated.append(abs(math.log(s / r)) / t)
    assert max(moved) > 0.99
    assert max(dilated) > 0.99


def test_a_sum_of_huge_numbers_does_not_round_beyond_the_bound():
    """Kept numbers of 1e20 that cancel: their mean is 0.5 exactly, and the bound is the whole range."""
    x = np.array([1e20, -1e20, 2.0, 0.0])
    f, s = trimmed.released(x, 0, 0.5, 0.0, 1.0)
    assert f == 0.5
    assert s == pytest.approx(1.0, rel=1e-9)
    assert trimmed.released(np.full(5, math.inf), 1, 0.5, 0.0, 1.0)[0] == 1.0


def test_the_noise_is_student_s_at_half_of_the_budget():
    """epsilon = 2 s/sqrt(3) + 3 t of a coordinate (scipy's density is checked in the mechanism's own tests)."""
    p = problem(1000, 2)
    t = tunables(module, p)
    c = plan(module, p, t, PURE)
    assert t.smoothing == pytest.approx(0.5 / 6)
    assert 2 / (math.sqrt(3) * c.scale("coordinate")) + 3 * t.smoothing == pytest.approx(0.5, rel=1e-9)
    assert "at most a third" in str(module.uncertain(p, tunables(module, p, smoothing=0.2), c))


def test_the_mean_is_found_and_outliers_do_not_move_it():
    g = np.random.default_rng(2)
    p = problem(4000)
    t = tunables(module, p)
    c = plan(module, p, t, PURE)
    x = 0.7 + g.standard_t(3, (4000, 1))
    x[:20] = 1e6
    errors = [abs(float(study(module, Records(x), p, t, c, seed).theta[0]) - 0.7) for seed in range(20)]
    assert np.median(errors) < 0.15
    assert abs(x.mean() - 0.7) > 1000


# ------------------------------------------------------------------------------------------------ faults of the documents


def printed(x: np.ndarray, m: int, t: float, width: float) -> float:
    return max((x[-1] - x[0]) / (len(x) - 2 * m), math.exp(-m * t) * width)


def test_the_printed_scale_is_not_smooth():
    """n = 1000, m = 50, range [0, 1], epsilon = 1: by one record the scale is 25,000 times as large, and outputs beyond 50 show it."""
    x = np.linspace(0, 1, 1000)
    y = np.sort(np.append(x[:-1], 1e6))
    t, s = 1 / 16, 1 / 4
    small, large = printed(x, 50, t, 1.0), printed(y, 50, t, 1.0)
    assert math.log(large / small) > 100 * t
    beyond = [2 * norm.sf(math.asinh(49.5 * s / scale)) for scale in (small, large)]  # f is near 1/2 in both
    assert beyond[0] < 1e-9
    assert beyond[1] > 0.98
    exact = [trimmed.smooth_bound(v, 50, t, 1.0) for v in (x, y)]
    assert abs(math.log(exact[1] / exact[0])) <= t
    leak.event(beyond[1], beyond[0], stated=1.0)


def test_two_infinite_numbers_make_the_printed_output_nan():
    x = np.array([0.0, 0.1, 0.2, math.inf, math.inf])
    with np.errstate(invalid="ignore"):
        assert math.isnan(x[-1] - x[-2])
    f, s = trimmed.released(x, 1, 0.5, 0.0, 1.0)
    assert 0 <= f <= 1
    assert 0 < s < 1.001
    with np.errstate(invalid="ignore"):
        leak.certain(math.isnan(x[-1] - x[-2]), math.isnan(math.inf - 0.3))  # the neighbour has one infinity: no NaN


def test_a_constant_number_of_trimmed_records_keeps_the_noise():
    """m = 10 at t = 1/16: e^(-m t) = 0.54 of the range, at 10^3 records and at 10^5; by the default's formula it falls with n."""
    g = np.random.default_rng(3)
    constant, ours = [], []
    for n in (1000, 100_000):
        x = np.sort(g.standard_normal(n))
        constant.append(trimmed.smooth_bound(x, 10, 1 / 16, 2.0))
        ours.append(trimmed.smooth_bound(x, tunables(module, problem(n)).m, 1 / 6, 2.0))
    assert constant[1] > 0.99 * constant[0] > 1.0
    assert ours[1] < ours[0] / 30


def test_the_records_that_are_trimmed_grow_with_the_inverse_budget():
    counts = [tunables(module, problem(10**7, epsilon=e)).m for e in (0.02, 0.01)]
    assert counts[1] == pytest.approx(2 * counts[0], rel=0.01)


def test_who_is_refused():
    p = problem(100)
    t = tunables(module, p)
    assert "public" in str(module.accepts(problem(100, neighbours="add-remove"), t))
    assert "trimmed" in str(module.accepts(p, tunables(module, p, m=50)))
    assert "interval" in str(module.accepts(p, tunables(module, p, low=3, m=5)))
    assert "2^-16" in str(module.accepts(p, tunables(module, p, smoothing=1e-6)))
    assert "second moment" in str(module.accepts(problem(100, moment_order_x=1.5), t))


def test_published_shows_that_the_printed_noise_has_no_finite_epsilon():
    """The scale shown is that of equal records. With one record at 10^k outputs beyond 10^(k/2) have a probability that grows to 1, and
    without it those beyond 10^6 one below any delta."""
    p, delta = problem(n=4000, d=1, epsilon=1.0, delta=1e-6), 1e-6
    t = tunables(module, p, m=50)
    (line,) = module.published(p, t, Budget(epsilon="1", delta="1e-6"))
    assert line.epsilon == math.inf
    root = math.sqrt(2 * math.log(1e6) + 2) - math.sqrt(2 * math.log(1e6))
    sinh = np.sinh(np.random.default_rng(0).normal(size=400_000))
    noise = (t.high - t.low) * math.exp(-50 * root**2 / 16) * 4 / root * sinh
    assert line.scale == pytest.approx(noise.std(), rel=0.05)
    far = [2 * norm.sf(math.asinh(10 ** (k / 2) / (10.0**k / 3900 * 4 / root))) for k in (6, 9, 12)]
    near = 2 * norm.sf(math.asinh(1e6 / ((t.high - t.low) * 4 / root)))
    assert near < delta
    assert far[0] < far[1] < far[2]
    assert far[2] > 0.99
    assert module.published(p, t, Budget(epsilon="1")) == ()
