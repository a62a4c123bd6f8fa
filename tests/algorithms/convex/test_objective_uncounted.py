"""Objective perturbation under add-remove: one record more moves the linear term by L and the curvature by B, however many others there
are. Exact divergences in one dimension: the noise is enough, and half of it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.privacy.mechanisms.objective import ObjectivePerturbation
from dpspec.privacy.mechanisms.objective_gaussian import GaussianObjective
from tests.algorithms.convex.test_objective_perturbation_witnesses import cells, hockey_stick


def crowd(w: np.ndarray, others: int) -> tuple[np.ndarray, np.ndarray]:
    """Slope and curvature of ``others`` records clip(w, -1, 1), which both data sets have; n is 2 throughout."""
    return others * np.clip(w, -1.0, 1.0), others * (np.abs(w) < 1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("others", [0, 1, 60])
def test_pure_one_record_more_costs_epsilon_at_the_worst_point(epsilon: float, others: int) -> None:
    """The minimiser w has the density of b(w) = -(K w + g(w)), exp(-|b|/scale), times K + g'(w). At the left end of the record's kink b
    moves by 1 and the curvature is 1 against 0; both costs together are epsilon."""
    m = ObjectivePerturbation(2, 1, 1.0, 1.0, 0.05, moved=1.0)
    K, scale = 2 * (0.05 + m.extra(epsilon)), m.scale(epsilon)
    at = 3 + 20 / K
    w = np.concatenate([np.linspace(-2 * at, 2 * at, 8001), [at - 1 + 1e-9, at + 1 - 1e-9]])
    slope, curvature = crowd(w, others)

    def loss(b: float) -> float:
        without = -np.abs(K * w + slope) / b + np.log(K + curvature)
        with_it = -np.abs(K * w + slope + np.clip(w - at, -1, 1)) / b + np.log(K + curvature + (np.abs(w - at) < 1))
        return float(np.abs(with_it - without).max())

    assert epsilon * (1 - 1e-6) < loss(scale) <= epsilon * (1 + 1e-12)
    assert loss(scale / 2) > 1.4 * epsilon  # epsilon' is at least half of epsilon, and doubles


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.5, 1e-9), (3.0, 1e-3)])
@pytest.mark.parametrize("others", [0, 60])
def test_gaussian_one_record_more_stays_within_delta_at_every_place_of_its_kink(epsilon: float, delta: float, others: int) -> None:
    m = GaussianObjective(2, 1, 1.0, 1.0, 0.0, delta, 1e-9, moved=1.0)
    K = 2 * m.extra(epsilon)

    def spent(s: float) -> float:
        found = 0.0
        for at in np.arange(-8.0, 8.0, 0.25) * s / K:
            w = np.concatenate(
                [[-np.inf], np.unique(np.concatenate([np.linspace(at - 1, at + 1, 3001), np.linspace(-1, 1, 301)])), [np.inf]]
            )
            with np.errstate(invalid="ignore"):
                without = K * w + crowd(w, others)[0]
                with_it = without + np.clip(w - at, -1, 1)
            one, other = cells(with_it, s), cells(without, s)
            found = max(found, hockey_stick(one, other, epsilon), hockey_stick(other, one, epsilon))
        return found

    assert spent(m.scale(epsilon)) <= delta
    assert spent(m.scale(epsilon) / 2) > 2 * delta


def test_the_noise_is_half_of_that_for_a_replaced_record() -> None:
    """The linear term alone: 2L against L at the same share of the budget."""
    pure = [ObjectivePerturbation(50, 3, 1.0, 0.25, 0.1, moved=k).scale(1.0) for k in (2.0, 1.0)]
    gaussian = [GaussianObjective(50, 3, 1.0, 0.25, 0.1, 1e-6, 1e-9, moved=k).scale(1.0) for k in (2.0, 1.0)]
    assert pure[0] == pytest.approx(2 * pure[1], rel=1e-12)
    assert gaussian[0] == pytest.approx(2 * gaussian[1], rel=1e-12)
    assert math.isclose(ObjectivePerturbation(50, 3, 3.0, 0.25, 0.1, moved=1.0).sensitivity, 3.0)
