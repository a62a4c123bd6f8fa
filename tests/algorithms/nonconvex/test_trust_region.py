"""trust-region: what it reaches, in how many steps, and the hard case."""

from __future__ import annotations

import numpy as np
import pytest

from dpspec.algorithms import second_order
from dpspec.algorithms.nonconvex_erm import trust_region as module
from dpspec.measures.second_order import second_order_stationarity
from tests.algorithms.nonconvex.saddles import ROBUST, mixed, planned, trial
from tests.algorithms.support import tunables


def test_it_leaves_a_saddle_point_and_reaches_its_bound():
    from dpspec.algorithms.nonconvex_erm import dp_tr

    p, _, _ = planned(dp_tr, loss=ROBUST, n=400)
    r = mixed(400)
    zero = np.zeros(2)
    assert np.linalg.norm(p.oracle.gradient(zero, r)) < 1e-12
    assert second_order_stationarity(zero, trial(p, r)) > 0.002
    for alpha in (0.005, 0.001):
        t = tunables(module, p, alpha=alpha)
        assert module.accepts(p, t) is None
        w = module.run(r, p, t, None).w
        assert module.explicit_bounds(p, t, None) == ({"trust-region steps": 4 * alpha} if alpha == 0.005 else {})  # 2,000 steps
        assert second_order_stationarity(w, trial(p, r)) <= 4 * alpha
        assert abs(w[0]) > 0.3


def test_the_hard_case_needs_a_lowest_eigenvector():
    """g = 0 at a saddle point: (H + lam I) h = 0 has no other solution than an eigenvector of lam = -lambda_min."""
    H = np.diag([-2.0, 1.0, 3.0])
    h, lam = second_order.trust_region(np.zeros(3), H, 0.5)
    assert lam == pytest.approx(2)
    assert np.abs(h) == pytest.approx([0.5, 0, 0])
    h, lam = second_order.trust_region(np.array([0.0, 0.3, 0.0]), H, 0.5)
    assert lam == pytest.approx(2)
    assert h[1] == pytest.approx(-0.1)
    assert np.linalg.norm(h) == pytest.approx(0.5)


def test_it_draws_no_noise():
    with pytest.raises(ValueError, match="no noise"):
        module.schedule(None, None)
