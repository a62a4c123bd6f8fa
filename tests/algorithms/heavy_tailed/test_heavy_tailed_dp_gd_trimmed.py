"""heavy-tailed-dp-gd-trimmed: its draws are those of dp-trimmed-mean on gradients, and the printed numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpspec.algorithms.heavy_tailed import _trimmed as trimmed
from dpspec.algorithms.heavy_tailed import heavy_tailed_dp_gd_trimmed as module
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.schedule import draws
from tests import leak
from tests.algorithms.heavy_tailed.risks import risk, student
from tests.algorithms.sparse.exact import gaussian_epsilon
from tests.algorithms.support import plan, study, tunables


class Given:
    """Keeps the pairs (f, S) and answers with f."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []

    def draw(self, name, value, *, sensitivity):
        self.seen.append(value)
        return value[0]


def test_each_draw_is_a_trimmed_mean_of_gradients():
    """Along one transcript of answers neighbours' pairs are within the bounds, whatever the record; the answers are projected descent."""
    p = risk(60, 2, epsilon=30.0, delta=None)
    t = tunables(module, p, T=3, m=5, smoothing=0.2, tail=0.01)
    x, y = student(60, np.array([0.5, 0.0]), 0)
    release = Given()
    w = module.run(Records(x, y), p, t, release).theta
    assert len(release.seen) == 6 == draws(module.schedule(p, t))["coordinate"].count
    v = np.zeros(2)
    for _ in range(3):
        g = np.sort(x * (x @ v - y)[:, None], axis=0)
        v = v - t.step * np.clip(g[5:-5].mean(axis=0), t.low, t.high)
        v /= max(1.0, float(np.linalg.norm(v)))
    np.testing.assert_allclose(w, v, atol=1e-12)
    for record in ([1e300, -1e300], [math.nan, 0.0], [0.0, 0.0]):
        other = x.copy()
        other[0] = record
        for j in range(2):
            (f, s), (h, r) = (
                trimmed.released(p.objective.gradients(np.array([0.2, 0.1]), rows, y)[:, j], 5, 0.2, -4.0, 4.0) for rows in (x, other)
            )
            assert abs(f - h) <= min(s, r)
            assert abs(math.log(s / r)) <= 0.2


def test_a_run_is_better_than_the_start():
    p = risk(4000, 2, epsilon=4.0, delta=None, moment_bound_gradient=15.0)
    t = tunables(module, p, T=4)
    c = plan(module, p, t, Budget(epsilon="4"))
    theta = np.array([0.8, -0.4])
    found = [study(module, Records(*student(4000, theta, seed)), p, t, c, seed).theta for seed in range(5)]
    assert np.median([np.linalg.norm(w - theta) for w in found]) < 0.5 * np.linalg.norm(theta)


# ------------------------------------------------------------------------------------------------ faults of the documents


def test_the_printed_budget_costs_eleven_times_as_much():
    """epsilon~^2/2 of zCDP with epsilon~ = 2 epsilon; what Gaussian draws of that zCDP really spend, too."""
    delta = 1e-5
    spent = 2**2 / 2 + 2 * math.sqrt(2 * math.log(1 / delta))
    assert spent == pytest.approx(11.6, abs=0.02)
    assert gaussian_epsilon(2.0, delta) > 9
    right = math.sqrt(2 * math.log(1 / delta) + 2) - math.sqrt(2 * math.log(1 / delta))
    assert right**2 / 2 + right * math.sqrt(2 * math.log(1 / delta)) == pytest.approx(1.0, rel=1e-12)
    # The law of the document itself, 4 S sinh(N(0, 1)) sqrt(d T)/epsilon~ with epsilon~ = 2: half of the records at 0 and half at 1, one
    # replaced, keep S and move the trimmed mean by S. d T = 1000 draws: losses of cells are rounded down, their sum by convolution.
    each, cell = 2 / (4 * math.sqrt(1000)), 1e-5
    edges = np.sinh(np.linspace(-7, 7, 14_001))

    def cells(shift: float) -> np.ndarray:
        z = np.arcsinh(edges - shift)
        return np.where(z[1:] > 0, norm.sf(z[:-1]) - norm.sf(z[1:]), norm.cdf(z[1:]) - norm.cdf(z[:-1]))

    p, q = cells(each), cells(0.0)
    at = np.floor(np.log(p / q) / cell).astype(int)
    mass = np.zeros(1 << 21)
    np.add.at(mass, at - at.min(), p)
    whole = np.fft.irfft(np.fft.rfft(mass) ** 1000, len(mass))
    losses = (np.arange(len(mass)) + 1000 * at.min()) * cell
    over = losses > 1
    leak.delta(float((whole[over] * -np.expm1(1 - losses[over])).sum()), delta, 1.0)


def test_the_noise_of_the_experiments_is_hundreds_of_ranges():
    """e^(-m t) of the range at t = epsilon_j^2/16, times 4/epsilon_j, times the standard deviation of sinh of a normal."""
    right = math.sqrt(2 * math.log(1e5) + 2) - math.sqrt(2 * math.log(1e5))
    each = right / math.sqrt(100)
    left = math.exp(-5000 * each**2 / 16)
    assert left == pytest.approx(0.878, abs=0.002)
    assert left * 4 / each * math.sqrt((math.e**2 - 1) / 2) == pytest.approx(308, rel=0.01)
    x = np.sort(np.random.default_rng(1).standard_normal(100_000))
    assert trimmed.smooth_bound(x, 5000, each**2 / 16, 1.0) >= left  # the exact bound is no smaller


def test_the_square_of_a_mean_is_less_than_the_mean_of_the_square():
    distance = np.abs(np.random.default_rng(2).standard_normal(10_000))
    assert distance.mean() ** 2 < 0.7 * (distance**2).mean()


def test_who_is_refused():
    p = risk(100, 2)
    assert "trimmed at either end" in str(module.accepts(p, tunables(module, p, m=60)))
    assert "public" in str(module.accepts(risk(100, 2, neighbours="add-remove"), tunables(module, p)))
    assert "lower order" in str(module.accepts(risk(100, 2, moment_order_gradient=1.5), tunables(module, p)))


def test_published_shows_what_both_printed_calibrations_spend():
    """With the printed bound no epsilon is finite; with the exact one the printed epsilon~ = 2 epsilon costs rho + 2 sqrt(rho
    log(1/delta)), rho = (2 epsilon)^2/2. At (1, 1e-5) that is 11.6."""
    p = risk(4000, 2, epsilon=1.0, delta=1e-5, moment_bound_gradient=15.0)
    t = tunables(module, p, T=4)
    first, second = module.published(p, t, Budget(epsilon="1", delta="1e-5"))
    assert first.epsilon == math.inf
    rho = 2.0
    assert second.epsilon == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e5)))
    assert second.epsilon == pytest.approx(11.6, abs=0.01)
    assert second.scale < first.scale  # a larger budget, less noise
    assert module.published(p, t, Budget(epsilon="1")) == ()
