"""The references of document 001 by other solvers."""

from __future__ import annotations

import numpy as np
import pytest

from dpspec.algorithms.nldp_erm import references_001 as module
from dpspec.data.records import Records
from dpspec.spec.expr import num
from dpspec.spec.model import Ball
from tests.algorithms.nldp_erm.test_ldp_direct_perturbation import problem
from tests.algorithms.support import tunables


def test_least_squares_over_an_l1_ball_has_the_gradient_of_a_minimiser():
    """Over ball(l1, r) the gradient has its largest entries on the support, with the opposite sign; without a set it is 0."""
    g = np.random.default_rng(0)
    x = g.normal(size=(50, 6))
    y = x @ np.array([2.0, -1.0, 0, 0, 0.5, 0]) + 0.1 * g.normal(size=50)
    for over in (None, Ball(norm="l1", radius=num(1))):
        p = problem(50, 6, over=over)
        w = module.run(Records(x, y), p, tunables(module, p), None).theta
        gradient = x.T @ (x @ w - y) / 50
        if over is None:
            assert np.abs(gradient).max() < 1e-10
        else:
            assert np.abs(w).sum() == pytest.approx(1)
            on = np.abs(w) > 1e-6
            assert np.allclose(gradient[on], -np.sign(w[on]) * np.abs(gradient).max(), rtol=1e-4)


def test_ridge_on_features_is_kernel_ridge_of_their_kernel():
    g = np.random.default_rng(1)
    phi, y, c = g.normal(size=(30, 5)), g.normal(size=30), 7.0
    assert np.allclose(phi.T @ module.kernel_ridge(phi @ phi.T, y, c), module.feature_ridge(phi, y, c))
    w = module.feature_ridge(phi, y, c)
    assert np.allclose(c * phi.T @ (phi @ w - y) / 30 + w, 0, atol=1e-12)  # the gradient of C/(2n)|Phi w - y|^2 + |w|^2/2
