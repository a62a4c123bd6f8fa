"""ldp-l1-linear-regression: how far messages move, the nearest matrix, the bound by simulation, and what the proof leaves out."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from dpspec.algorithms.card import Problem
from dpspec.algorithms.nldp_erm import ldp_l1_linear_regression as module
from dpspec.data.records import Records
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.privacy.schedule import draws
from dpspec.spec.expr import num
from dpspec.spec.model import Ball
from tests import leak
from tests.algorithms.nldp_erm.test_ldp_l1_mean import exact_epsilon
from tests.algorithms.nldp_erm.test_ldp_mean import Silent, budget
from tests.algorithms.support import minimise, plan, squared, tunables

NASTY = [0.0, 1.0, -2.0, 1e6, 1.7e308, math.inf, math.nan]


def problem(n: int, d: int, epsilon: float = 1.0, radius: float = 1.0, **facts: float) -> Problem:
    known = {"w_l1": radius, "w_radius": radius, "x_l2": 1.0, "y_abs": 1.0, "epsilon": epsilon, "delta": 1e-6}
    p = minimise(n, d, squared(), over=Ball(norm="l1", radius=num(1)), facts={**known, **facts})
    assert p.loss is not None
    return replace(p, model="nldp", loss=replace(p.loss, name="squared", curve=1.0))


def run(p: Problem, t, x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    release = Release(plan(module, p, t, budget(p)), StudyNoise(seed), mode="study", public=PublicRandomness(seed))
    w = module.run(Records(x, y), p, t, release).theta
    release.close()
    return w


def excess(w: np.ndarray, x: np.ndarray, y: np.ndarray, radius: float = 1.0) -> float:
    """Above the least value over the l1 ball, by projected steps on the exact moments."""
    s, b = x.T @ x / len(x), x.T @ y / len(x)
    best = module.minimiser(s, b, radius)
    return float((w @ s @ w / 2 - b @ w) - (best @ s @ best / 2 - b @ best))


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(0)
    x = g.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1)[:, None]
    return x, np.clip(x[:, 0] * 0.6 - x[:, 1] * 0.4 + 0.1 * g.normal(size=n), -1, 1)


# ------------------------------------------------------------------------------------------------------------------ privacy


@pytest.mark.parametrize("way", ["direct", "projection"])
def test_a_projected_record_is_clipped_and_calibrated_to_the_clip(way):
    """Both parts of a message before the noise in exact fractions, hostile records; and the pair spends the budget."""
    p = problem(10, 2)
    t = tunables(module, p, method=way, width=2)
    g = np.random.default_rng(1).normal(size=(2, 2)) * 3 / math.sqrt(2)
    rows = [*itertools.product(NASTY, repeat=2), (1e3, 0.0), (0.0, 1e3)]
    x, y = np.array([r for r in rows for _ in range(3)]), np.array([v for _ in rows for v in (1e9, -1e9, math.nan)])
    (block,) = module.reported(Records(x, y), None if way == "direct" else g)
    c = plan(module, p, t, budget(p))
    spent = 0.0
    for name, leaf in draws(module.schedule(p, t)).items():
        channel = leaf.draw.mechanism
        sent = {tuple(Fraction(float(v)) for v in row) for row in np.atleast_2d(channel.encode(block, 1e-200, Silent()))}
        largest = max(sum((a - b) ** 2 for a, b in zip(u, v, strict=True)) for u in sent for v in sent)
        assert largest <= Fraction(channel.sensitivity) ** 2 * (1 + Fraction(1, 2**40))
        assert largest >= Fraction(1, 2) * Fraction(channel.sensitivity) ** 2
        spent += (channel.sensitivity / c.scale(name)) ** 2
    assert exact_epsilon(math.sqrt(spent), 1e-6) == pytest.approx(1.0, rel=1e-3)
    phi = np.random.default_rng(2).normal(size=(1000, 50)) / math.sqrt(50)
    assert np.linalg.norm(phi, 2) > 5  # unclipped, two unit records differ by up to twice that
    v = np.linalg.svd(phi, full_matrices=False)[0][:, 0]  # two unit records, v and -v, as printed
    leak.moved(float(np.linalg.norm(v @ phi + v @ phi)), 2.0)


def test_the_printed_noise_is_half_of_what_is_needed():
    """Each half of the budget at noise for sensitivity 1 and records that differ by 2; both together at nominal 1, delta 1e-5: 1.064."""
    epsilon, delta = 1.0, 1e-5
    scale = math.sqrt(2 * math.log(2.5 / delta)) / (epsilon / 2)
    assert exact_epsilon(2 / scale, delta / 2) > 1.3 * epsilon / 2
    assert exact_epsilon(math.hypot(2 / scale, 2 / scale), delta) == pytest.approx(1.064, abs=0.002)
    leak.epsilon(exact_epsilon(math.hypot(2 / scale, 2 / scale), delta), epsilon, delta)


def test_the_noise_of_copies_is_larger_than_printed():
    """E^T E/n - sigma^2 I of n = 20,000 rows and m = 100 columns: 2 sigma^2 sqrt(m/n), against sigma sqrt(log(m)/n) in the proof."""
    e = np.random.default_rng(3).normal(size=(20_000, 100))
    norm = float(np.linalg.norm(e.T @ e / 20_000 - np.eye(100), 2))
    assert norm == pytest.approx(2 * math.sqrt(100 / 20_000), rel=0.15)
    assert norm > 8 * math.sqrt(math.log(100) / 20_000)


# ------------------------------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize("d", [3, 12])
def test_the_nearest_matrix_is_positive_and_in_its_box(d):
    """Of a positive semidefinite M and noise within delta: |S^+ - S|_max <= delta + e, e <= delta, no negative eigenvalue."""
    g = np.random.default_rng(4)
    for delta in (0.01, 0.3, 3.0):
        a = g.normal(size=(d, 2))
        noise = g.uniform(-delta, delta, size=(d, d))
        s = a @ a.T + np.triu(noise) + np.triu(noise, 1).T
        near, e = module.nearest(s, delta)
        assert e <= delta
        assert np.abs(near - e * np.eye(d) - s).max() <= delta * (1 + 1e-12)
        assert np.linalg.eigvalsh(near)[0] >= -1e-12 * np.abs(s).max()


def test_a_box_without_a_positive_matrix_still_ends():
    """Off the event the noise is larger: the last shift is all that there is."""
    near, e = module.nearest(-np.eye(3), 0.1)
    assert np.linalg.eigvalsh(near)[0] >= -1e-12
    assert e >= 0.9 - 1e-12


def test_the_minimiser_is_the_best_point_of_the_ball():
    g = np.random.default_rng(5)
    a = g.normal(size=(5, 5))
    s, b = a @ a.T, g.normal(size=5)
    w = module.minimiser(s, b, 0.5)

    def risk(v: np.ndarray) -> float:
        u = v[:5] - v[5:]
        return float(u @ s @ u / 2 - b @ u)

    found = minimize(
        risk, np.full(10, 0.01), bounds=[(0, None)] * 10, constraints={"type": "ineq", "fun": lambda v: 0.5 - v.sum()}, tol=1e-12
    )
    assert np.abs(w).sum() <= 0.5 * (1 + 1e-12)
    assert float(w @ s @ w / 2 - b @ w) == pytest.approx(found.fun, abs=1e-6)


def test_the_error_is_within_its_bound_and_falls_with_n():
    means = []
    for n in (3000, 48_000):
        p, (x, y) = problem(n, 8, 2.0), data(n, 8)
        t = tunables(module, p)
        (bound,) = module.explicit_bounds(p, t, plan(module, p, t, budget(p))).values()
        errors = [excess(run(p, t, x, y, seed), x, y) for seed in range(8)]
        assert max(errors) < bound
        means.append(np.mean(errors))
    assert means[1] < means[0] / 2


def test_an_adversarial_noise_keeps_to_the_deterministic_part_of_the_bound():
    """Noise at the ends of its box in S and b, 60 sign patterns: F(w) - min F <= D Lambda^2 + 2 delta_b Lambda + gap."""
    g = np.random.default_rng(6)
    x, y = data(500, 4)
    s, b = x.T @ x / 500, x.T @ y / 500
    delta, cross = 0.05, 0.03
    worst = 0.0
    for _ in range(60):
        signs = np.sign(g.normal(size=(4, 4)))
        near, _ = module.nearest(s + delta * (np.triu(signs) + np.triu(signs, 1).T), delta)
        w = module.minimiser(near, b + cross * np.sign(g.normal(size=4)), 1.0)
        worst = max(worst, excess(w, x, y))
    assert worst <= 3 * delta + 2 * cross
    assert worst > (3 * delta + 2 * cross) / 40


def test_the_projection_finds_it_too():
    """d = 60 by 15 columns and a large budget: better than the zero vector."""
    n = 60_000
    p, (x, y) = problem(n, 60, 200.0), data(n, 60)
    t = tunables(module, p, method="projection", width=30)
    assert excess(run(p, t, x, y, 0), x, y) < 0.7 * excess(np.zeros(60), x, y)
    assert module.explicit_bounds(p, t, plan(module, p, t, budget(p))) == {}


def test_what_it_cannot_do_is_said_with_the_number():
    p = problem(100, 501)
    assert "d = 501 is above 500" in str(module.accepts(p, tunables(module, p, method="direct")))
    assert module.method(p, tunables(module, p)) == "projection"
    assert p.loss is not None
    q = replace(p, loss=replace(p.loss, name="logistic"))
    assert "(<w, x> - y)^2/2" in str(module.accepts(q, tunables(module, p)))
    q = replace(p, task=replace_over(p))
    assert "no l1 ball" in str(module.accepts(q, tunables(module, p)))


def replace_over(p: Problem):
    task = type(p.task)(**{**vars(p.task), "over": Ball(norm="l2", radius=num(1))})
    return task
