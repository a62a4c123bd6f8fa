"""Sparse weights over an l1 ball in many dimensions: what mirror maps and vertices are for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.algorithms.convex_erm import dp_accmd, dp_frank_wolfe, dp_gd
from dpspec.algorithms.sets import ConstraintSet
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.spec.expr import Num
from dpspec.spec.model import Ball
from tests.algorithms.support import logistic, minimise, plan, study, tunables


@pytest.mark.slow
@pytest.mark.parametrize("module", [dp_accmd, dp_frank_wolfe], ids=lambda m: m.CARD.id)
def test_sparse_weights_are_found_with_less_error_than_by_full_gradients(module):
    n, d, radius = 5000, 200, 10
    rng = np.random.default_rng(77)
    x = rng.choice([-1.0, 1.0], (n, d)) / math.sqrt(d)
    u = 20 * x[:, :5] @ rng.choice([-1.0, 1.0], 5)
    records = Records(x, np.where(rng.random(n) < 1 / (1 + np.exp(-u)), 1.0, -1.0))
    facts = {"w_radius": 10.0, "w_l1": 10.0, "x_l2": 1.0, "x_linf": 1 / math.sqrt(d), "delta": 1e-4}
    over = ConstraintSet("l1", radius=float(radius))
    p = minimise(n, d, logistic(over=over), over=Ball(norm="l1", radius=Num(radius)), facts=facts)

    def risk(m):
        t = tunables(m, p)
        c = plan(m, p, t, Budget(epsilon="1", delta="0.0001"))
        return np.mean([p.objective.value(study(m, records, p, t, c, seed).theta, records) for seed in range(3)])

    assert risk(module) < risk(dp_gd) - 0.01
