"""What neighbours can do to the released objects, on adversarial records; mirror steps against feasible points; bounds against runs."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize

from dpspec.algorithms.card import Tunables
from dpspec.algorithms.convex_erm import (
    _reduced,
    approximate_minima_perturbation,
    dp_accmd,
    dp_mirror_descent,
    dp_sgd,
    dp_svrg_pp,
    output_perturbation,
)
from dpspec.algorithms.convex_erm._solve import stationary
from dpspec.algorithms.mirror import Geometry
from dpspec.algorithms.sets import ConstraintSet
from dpspec.data.records import Records
from dpspec.spec.expr import Num
from dpspec.spec.model import Ball
from tests.algorithms.support import logistic, minimise, plan, study, tunables


def neighbours(n=8, d=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1)[:, None]
    y = np.sign(rng.standard_normal(n))
    y[0] = 1.0
    other = y.copy()
    other[0] = -1.0
    return Records(x, y), Records(x, other)


@pytest.mark.parametrize("length", [0.0, 1e-9, 0.01, 1.0, 50.0])
def test_a_scaled_difference_moves_no_further_than_planned(length):
    """The vector that the meter is handed, with and without the record, for anchors near and far."""
    p = minimise(8, 3, logistic(l2=0.1))
    seen = []
    for records in neighbours():
        handed = {}

        def keep(name, value, *, sensitivity, handed=handed):
            handed[name] = (np.array(value), sensitivity)
            return np.asarray(value)

        release = SimpleNamespace(batch=lambda name: np.arange(4), draw=keep)
        z = np.full(3, 0.3)
        y = z + length * np.array([0.6, 0.8, 0.0])
        _reduced.estimate(release, records, p, 4, y, z, p.objective.data_gradient(z, records, 8))
        seen.append(handed)
    for name in ("difference", "anchor"):
        (a, planned), (b, _) = seen[0][name], seen[1][name]
        assert np.linalg.norm(a - b) <= planned
    assert seen[0]["difference"][1] == pytest.approx(4 * 1.0 / 4)
    assert seen[0]["anchor"][1] == pytest.approx(2 * 1.0 / 8)


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("steps", [1, 7, 200])
def test_descent_on_neighbours_stays_within_the_sensitivity(l2, steps):
    p = minimise(8, 3, logistic(l2=l2))
    t = tunables(output_perturbation, p, T=steps)
    ends = []
    for records in neighbours():
        w = np.zeros(3)
        for _ in range(steps):
            w = w - t.eta * p.objective.gradient(w, records)
        ends.append(w)
    assert 0 < np.linalg.norm(ends[0] - ends[1]) <= output_perturbation.sensitivity(p, t)
    assert "2/(B + 2 lam)" in (output_perturbation.accepts(p, Tunables({**t, "eta": 9.0})) or "")


def test_minimisers_of_neighbours_stay_within_the_sensitivity():
    p = minimise(8, 3, logistic(l2=0.3))
    t = tunables(approximate_minima_perturbation, p, ridge=0)
    f = p.objective
    ends = [minimize(lambda w, r=r: f.value(w, r), np.zeros(3), jac=lambda w, r=r: f.gradient(w, r), tol=1e-14).x for r in neighbours()]
    assert 0.1 * approximate_minima_perturbation.sensitivity(p, t) < np.linalg.norm(ends[0] - ends[1])
    assert np.linalg.norm(ends[0] - ends[1]) <= approximate_minima_perturbation.sensitivity(p, t)


@pytest.mark.parametrize("over", [ConstraintSet("l2", radius=0.3), ConstraintSet("l1", radius=0.5), ConstraintSet("reals")])
@pytest.mark.parametrize("l1", [0.0, 0.02])
def test_the_certified_solver_is_no_worse_than_scipy(over, l1):
    records, _ = neighbours(40, 3)
    f = logistic(l2=0.1, l1=l1, over=over)
    linear = np.array([0.05, -0.02, 0.01])
    w = stationary(f, records, 40, 0.25, 1.0, linear, 0.05, 1e-10)

    def value(u):
        return f.value(u, records) + 0.025 * float(u @ u) + float(linear @ u)

    rng = np.random.default_rng(1)
    for scale in (1e-3, 0.1, 1.0):
        for _ in range(200):
            assert value(over.project(w + scale * rng.standard_normal(3))) >= value(w) - 1e-12


@pytest.mark.parametrize("kind", ["l1", "l2", "linf", "simplex"])
def test_a_mirror_step_minimises_over_the_unit_set(kind):
    shape = Geometry(kind, 1.0, 6)
    rng = np.random.default_rng(2)
    u = shape.step(shape.start, 0.3 * rng.standard_normal(6))  # an inner point
    g = 2.0 * rng.standard_normal(6)
    a = 1 + 1 / math.log(6)

    def potential(v):
        if kind == "simplex":
            return float(np.sum(v * np.log(np.maximum(v, 1e-300))))
        return math.e**2 / (2 * (a - 1)) * float((np.abs(v) ** a).sum()) ** (2 / a) if kind == "l1" else float(v @ v) / 2

    def slope(v):
        h = 1e-6
        return np.array([(potential(v + h * e) - potential(v - h * e)) / (2 * h) for e in np.eye(6)])

    best, at = shape.step(u, g), slope(u)
    over = ConstraintSet(kind, radius=1.0)
    assert np.linalg.norm(over.project(best) - best) <= 1e-8

    def value(v):
        return float(g @ v) + potential(v) - float(at @ v)

    for scale in (0.01, 0.1, 1.0):
        for _ in range(200):
            assert value(over.project(best + scale * rng.standard_normal(6))) >= value(best) - 1e-6


@pytest.mark.parametrize("module", [dp_accmd, dp_mirror_descent, dp_sgd, dp_svrg_pp, output_perturbation], ids=lambda m: m.CARD.id)
def test_an_explicit_bound_holds(module):
    """The mean over runs against the bound in expectation, the optimum by a long projected descent in this test."""
    n, d, radius = 4000, 4, 2
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, d))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    records = Records(x, np.sign(x[:, 0] + 0.3 * rng.standard_normal(n)))
    over = ConstraintSet("l2", radius=float(radius))
    facts = {"w_radius": float(radius), "w_l1": radius * math.sqrt(d), "epsilon": 4.0}
    p = minimise(n, d, logistic(over=over), over=Ball(norm="l2", radius=Num(radius)), facts=facts)
    f = p.objective
    w = np.zeros(d)
    for _ in range(2000):
        w = over.project(w - 4.0 * f.gradient(w, records))
    from dpspec.privacy.calibrate import Budget

    t = tunables(module, p, **({"steps": "fixed"} if module is dp_mirror_descent else {}))
    c = plan(module, p, t, Budget(epsilon="4", delta="0.00001"))
    (bound,) = module.explicit_bounds(p, t, c).values()
    errors = [f.value(study(module, records, p, t, c, seed).theta, records) - f.value(w, records) for seed in range(5)]
    assert -1e-9 < np.mean(errors) <= bound
