"""median-of-means-metric: against its definition by brute force, the factor 3, and the condition that is printed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from dpspec.algorithms.nldp_erm import median_of_means_metric as module


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_it_is_the_point_of_the_smallest_ball_that_holds_half(norm):
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    g = np.random.default_rng(0)
    for m in (1, 2, 5, 8):
        points = g.normal(size=(m, 3))
        radius = [sorted(np.linalg.norm(points - p, order, axis=1))[math.ceil(m / 2) - 1] for p in points]
        assert np.array_equal(module.central(points, norm), points[int(np.argmin(radius))])


def test_any_majority_within_e_gives_a_point_within_three_e():
    """4 of 7 within 1 of 0, the others anywhere: 300 adversarial choices."""
    g = np.random.default_rng(1)
    for _ in range(300):
        good = g.uniform(-1, 1, size=(4, 2))
        good /= np.maximum(np.abs(good).sum(axis=1), 1)[:, None]
        bad = g.normal(size=(1, 2)) * 10 ** g.uniform(0, 3) + g.normal(size=(3, 2)) * 10 ** g.uniform(-3, 1)
        assert np.abs(module.central(np.vstack([bad, good]))).sum() <= 3


def test_the_number_of_groups_makes_the_majority_fail_with_probability_zeta():
    """Exactly, by the binomial law of failures with probability 1/3."""
    for zeta in (0.1, 0.01, 1e-4):
        m = module.groups(zeta)
        assert binom.sf(math.ceil(m / 2) - 1, m, 1 / 3) <= zeta


def test_a_majority_of_failures_is_what_it_returns():
    """Printed: failures with probability 2/3. Nine points of which six agree on a value that is far off."""
    points = np.array([[0.0], [0.1], [-0.1], *[[50.0]] * 6])
    assert module.central(points)[0] == 50.0
    assert binom.sf(4, 9, 2 / 3) > 0.8  # more than half of nine fail
