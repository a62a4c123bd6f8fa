"""Pure objective perturbation and approximate minima, by their worst neighbours: what the guarantee needs is met, and with equality."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpspec.algorithms.convex_erm import approximate_minima_perturbation, objective_perturbation
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.mechanisms.objective import ObjectivePerturbation
from dpspec.privacy.schedule import draws
from tests.algorithms.support import logistic, minimise, plan, tunables


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("l2", [0.0, 0.05, 3.0])
def test_the_densities_of_minimisers_differ_by_epsilon_at_the_worst_point(epsilon, l2):
    """One dimension, two records, slopes in [-1, 1]: clip(w - a, -1, 1) against 1. The minimiser w has the density of b(w) = -(K w + g(w)),
    exp(-|b|/scale), times K + g'(w). At the left end of the kink b moves by 2 and the curvature is 1 against 0: both costs at once, and
    together they are epsilon."""
    m = ObjectivePerturbation(2, 1, 1.0, 1.0, l2)
    K, scale = 2 * (l2 + m.extra(epsilon)), m.scale(epsilon)
    assert K > 0
    at = 3 + 20 / K
    w = np.concatenate([np.linspace(-2 * at, 2 * at, 4001), [at - 1 + 1e-9, at + 1 - 1e-9]])
    inside = np.abs(w - at) < 1
    one = -np.abs(K * w + np.clip(w - at, -1, 1)) / scale + np.log(K + inside)
    other = -np.abs(K * w + 1) / scale + math.log(K)
    loss = float(np.abs(one - other).max())
    assert epsilon * (1 - 1e-6) < loss <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_gap_of_a_pure_plan_covers_two_approximate_points(ridge):
    """Two points with a subgradient of norm ``tolerance`` lie up to tolerance/Lambda to either side of one minimiser, Lambda with the
    weight that the plan's own level adds."""
    p = minimise(50, 2, logistic(l2=0.01), facts={"epsilon": 1.0})
    p = replace(p, facts={k: v for k, v in p.facts.items() if k != "delta"})
    t = tunables(objective_perturbation, p, ridge=ridge)
    c = plan(objective_perturbation, p, t, Budget(epsilon="1"))
    planned = draws(c.tree)
    weight = 0.01 + ridge + planned["objective"].draw.mechanism.extra(c.levels["objective"])
    apart = 2 * t.tolerance / weight
    assert apart <= planned["gap"].draw.mechanism.sensitivity <= 1.05 * apart
    assert c.levels["objective"] + c.levels["gap"] <= 1.0


@pytest.mark.parametrize(("neighbours", "change"), [("replace-one", 2.0), ("zero-out", 1.0), ("add-remove", 1.0)])
def test_approximate_minima_are_as_far_apart_as_their_tolerance_allows(neighbours, change):
    """mu/2 w^2 + g w with slopes g that differ by ``change``/n: points whose gradients are -tolerance and +tolerance."""
    n, tolerance = 10, 0.5
    p = minimise(n, 2, logistic(l2=0.2), neighbours=neighbours)
    t = tunables(approximate_minima_perturbation, p, ridge=0.3, tolerance=tolerance)
    mu, g = 0.5, change / n
    low, high = (-tolerance - g) / mu, tolerance / mu  # mu w + g = -tolerance and mu w = tolerance
    assert approximate_minima_perturbation.sensitivity(p, t) == pytest.approx(high - low, rel=1e-9)
    assert approximate_minima_perturbation.sensitivity(p, t) >= (high - low) * (1 - 1e-15)
