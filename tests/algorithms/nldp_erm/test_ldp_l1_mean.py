"""ldp-l1-mean: the inequality of the projection, both methods against drawn laws, and why the printed one is not private."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpspec.algorithms.card import Problem
from dpspec.algorithms.nldp_erm import ldp_l1_mean as module
from dpspec.algorithms.nldp_erm import ldp_mean as full
from dpspec.algorithms.sets import project_l1
from dpspec.data.records import Records
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, Estimate
from tests import leak
from tests.algorithms.nldp_erm.test_ldp_mean import APPROX, NASTY, Silent, budget
from tests.algorithms.nldp_erm.test_ldp_mean import problem as unrestricted
from tests.algorithms.support import plan, study, tunables


def problem(n: int, d: int, epsilon: float = 1.0, radius: float = 1.0, **facts: float) -> Problem:
    p = unrestricted(n, d, epsilon, w_l1=radius, **facts)
    return replace(p, task=Estimate(what="mean", over=Ball(norm="l1", radius=num(radius))))


def exact_epsilon(mu: float, delta: float) -> float:
    def gap(e: float) -> float:
        return float(norm.cdf(mu / 2 - e / mu) - math.exp(e + norm.logcdf(-mu / 2 - e / mu)) - delta)

    return float(brentq(gap, 0.0, mu * mu + 20 * mu + 20))


# ------------------------------------------------------------------------------------------------------------------ the mean


def test_the_projection_keeps_to_its_inequality():
    """|z - m|^2 <= 2 Lambda |N|_inf and |z - m| <= |N| over 2,000 means and noises; the first is attained within a factor of two."""
    g = np.random.default_rng(0)
    shares = []
    for _ in range(2000):
        d = int(g.integers(2, 40))
        m = project_l1(g.normal(size=d) * g.random(), 1.0)
        noise = g.normal(size=d) * 10 ** g.uniform(-3, 1)
        z = project_l1(m + noise, 1.0)
        shares.append(np.sum((z - m) ** 2) / (2 * np.abs(noise).max()))
        assert np.linalg.norm(z - m) <= np.linalg.norm(noise) * (1 + 1e-12)
    assert max(shares) <= 1
    assert max(shares) > 0.5


def runs(p: Problem, t, m: np.ndarray, count: int) -> list[float]:
    x = m + 0.02 * np.random.default_rng(1).normal(size=(p.n, m.size))
    c, errors = plan(module, p, t, budget(p)), []
    for seed in range(count):
        release = Release(c, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
        errors.append(float(np.linalg.norm(module.run(Records(x), p, t, release).theta - m)))
        release.close()
    return errors


SPARSE = np.zeros(100)
SPARSE[[3, 50]] = 0.3, -0.4


def test_a_sparse_mean_is_found_in_a_hundred_dimensions():
    """n = 4,000, epsilon 1, |m|_2 = 0.5: the average of the reports is about as far off as the zero vector, its projection half as far."""
    p = problem(4000, 100)
    t = tunables(module, p)
    c = plan(module, p, t, budget(p))
    errors = runs(p, t, SPARSE, 4)
    free = full.predicted(p, t, c)
    assert max(errors) < 0.75 * free
    assert np.mean(errors) < 0.75 * np.linalg.norm(SPARSE)
    (bound,) = module.explicit_bounds(p, t, c).values()
    tails = full.tails(p, t, c)
    assert max(errors) < bound == pytest.approx(min(math.sqrt(2 * tails[full.COORDINATES]), tails[full.LONG]))


def test_a_ball_that_is_not_the_one_of_the_question():
    """A larger one is refused, for the estimate may lie outside of the set; of a smaller one no bound is given, for the mean may."""
    p = problem(1000, 20, **APPROX)
    assert "Lambda = 2" in str(module.accepts(p, tunables(module, p, Lambda=2)))
    t = tunables(module, p, Lambda=Fraction(1, 1000))
    assert module.accepts(p, t) is None
    assert module.explicit_bounds(p, t, plan(module, p, t, budget(p))) == {}


def test_the_public_projection_finds_it_too():
    """40 rows in the place of 100, n = 40,000, epsilon 4, one group and seven."""
    p = problem(40_000, 100, 4.0, **APPROX)
    for groups in (1, 7):
        t = tunables(module, p, method="projection", width=40, groups=groups)
        assert np.mean(runs(p, t, SPARSE, 2)) < 0.6 * np.linalg.norm(SPARSE)
        assert module.explicit_bounds(p, t, plan(module, p, t, budget(p))) == {}


def test_what_the_question_lacks_is_said():
    p = unrestricted(100, 5)
    assert "over ball(l1, 1)" in str(module.accepts(p, tunables(module, problem(100, 5))))
    p = problem(100, 5)
    assert "Gaussian noise" in str(module.accepts(p, tunables(module, p, method="projection")))
    with pytest.raises(ValueError, match="w_l1"):
        tunables(module, unrestricted(100, 5))


def test_ldp_mean_keeps_to_the_set_too():
    p = problem(2000, 5)
    t = tunables(full, p)
    c = plan(full, p, t, budget(p))
    got = study(full, Records(np.tile(np.eye(5)[0], (2000, 1))), p, t, c)
    assert np.abs(got.theta).sum() <= 1 + 1e-12
    assert full.COORDINATES not in full.explicit_bounds(p, t, c)
    assert full.LONG in full.explicit_bounds(p, t, c)


# ------------------------------------------------------------------------------------------------------------------- privacy


def test_no_record_moves_a_projected_message_by_more_than_its_sensitivity():
    """In exact fractions, hostile records and the aligned pair +-v of the public G, v its top right singular vector: 2 B, and attained."""
    p = problem(10, 4, **APPROX)
    t = tunables(module, p, method="projection", width=2, groups=1)
    channel = module.schedule(p, t).body.mechanism
    g = np.random.default_rng(5).normal(size=(2, 4)) / math.sqrt(2)
    top = np.linalg.svd(g)[2][0]
    rows = [[a, b, 0.0, b] for a, b in itertools.product(NASTY, repeat=2)] + [list(1e3 * top), list(-1e3 * top)]
    sent = []
    for block in module.projected(np.array(rows), g):
        sent = [tuple(Fraction(float(v)) for v in row) for row in channel.encode(block, 1.0, Silent())]
    largest = max(sum((a - b) ** 2 for a, b in zip(u, v, strict=True)) for u in set(sent) for v in set(sent))
    assert largest <= Fraction(channel.sensitivity) ** 2 == Fraction(2 * t.B) ** 2
    assert largest >= (Fraction(999, 1000) * Fraction(channel.sensitivity)) ** 2


def test_an_unclipped_projection_is_not_private():
    """p = 50, d = 1000, unit records, the printed noise at nominal (1, 1e-5): 2 |G|_op over it, exact epsilon by SciPy above 8, five G."""
    scale = math.sqrt(2 * math.log(1.25e5))
    for seed in range(5):
        g = np.random.default_rng(seed).normal(size=(50, 1000)) / math.sqrt(50)
        v = np.linalg.svd(g, full_matrices=False)[2][0]
        distance = np.linalg.norm(g @ v - g @ -v)  # two unit records
        assert distance == pytest.approx(2 * (1 + math.sqrt(1000 / 50)), rel=0.1)
        assert exact_epsilon(distance / scale, 1e-5) > 8
        leak.epsilon(exact_epsilon(distance / scale, 1e-5), 1.0, 1e-5)


def test_the_printed_noise_is_half_of_what_is_needed():
    p = problem(1000, 10, **APPROX)
    t = tunables(module, p, method="projection", groups=1)
    (printed,) = module.published(p, t, budget(p))
    assert printed.scale == pytest.approx(math.sqrt(2 * math.log(1.25e6)))
    assert printed.epsilon == pytest.approx(exact_epsilon(2 * t.B / printed.scale, 1e-6), rel=1e-3)
    assert exact_epsilon(2 / printed.scale, 1e-6) > 1.5  # even for points of the unit ball
    leak.epsilon(exact_epsilon(2 / printed.scale, 1e-6), 1.0, 1e-6)


def test_a_clip_at_the_radius_hits_half_of_the_users():
    g = np.random.default_rng(6)
    p, d, n = 50, 200, 1000
    x = g.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1)[:, None]
    lengths = [np.linalg.norm(x @ (g.normal(size=(p, d)) / math.sqrt(p)).T, axis=1) for _ in range(20)]
    assert 0.4 < np.mean(np.array(lengths) > 1) < 0.55
    assert np.mean(np.array(lengths) > 1 + math.sqrt(2 * math.log(n / 0.05) / p)) < 1e-3


def test_the_printed_radius_is_vacuous():
    """n = 1e8, d = 1e4, epsilon 1, delta 1e-5, Lambda 1: p = d, |G m|_1 is about sqrt(2 p/pi) |m|_2 <= 80; the radius is 500 times that."""
    n, d, delta = 1e8, 1e4, 1e-5
    p, groups = min(math.ceil(math.sqrt(n)), d), math.ceil(18 * math.log(1 / delta))
    radius = 100 * p * math.log(n * d / delta) * math.sqrt(groups / n)
    assert radius > 500 * math.sqrt(2 * p / math.pi)
