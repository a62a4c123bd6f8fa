"""Projections, linear oracles and thresholds against general solvers and hand-computed cases."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from dpspec.algorithms import sets
from dpspec.algorithms.sets import ConstraintSet, constraint_set, project_l1, project_simplex
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, Box, Finite, Reals, Simplex, Sparse

VECTORS = st.lists(st.floats(-5, 5, allow_nan=False), min_size=1, max_size=5).map(np.array)
CONVEX = [
    ConstraintSet("l1", radius=1.5),
    ConstraintSet("l2", radius=1.5),
    ConstraintSet("linf", radius=0.7),
    ConstraintSet("simplex"),
    ConstraintSet("box", low=-0.5, high=2.0),
]


def inside(s: ConstraintSet, v: np.ndarray, slack: float = 1e-9) -> bool:
    match s.kind:
        case "l1":
            return bool(np.abs(v).sum() <= s.radius + slack)
        case "l2":
            return bool(np.sqrt((v**2).sum()) <= s.radius + slack)
        case "linf":
            return bool(np.abs(v).max() <= s.radius + slack)
        case "simplex":
            return bool(v.min() >= -slack and abs(v.sum() - 1) <= slack)
        case _:
            return bool(v.min() >= s.low - slack and v.max() <= s.high + slack)


def random_members(s: ConstraintSet, d: int, count: int, seed: int) -> np.ndarray:
    """Points of the set that the projection did not make."""
    g = np.random.default_rng(seed)
    e = g.exponential(size=(count, d + 1))
    signs = g.choice([-1.0, 1.0], size=(count, d))
    match s.kind:
        case "l1":
            return s.radius * signs * e[:, :d] / e.sum(axis=1, keepdims=True)
        case "l2":
            z = g.normal(size=(count, d))
            return s.radius * z / np.linalg.norm(z, axis=1, keepdims=True) * g.random((count, 1))
        case "linf":
            return g.uniform(-s.radius, s.radius, (count, d))
        case "simplex":
            return e[:, :d] / e[:, :d].sum(axis=1, keepdims=True)
        case _:
            return g.uniform(s.low, s.high, (count, d))


@pytest.mark.parametrize("s", CONVEX, ids=lambda s: s.kind)
@given(v=VECTORS, seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_a_projection_is_inside_and_makes_an_obtuse_angle_with_every_member(s, v, seed):
    """<v - Pv, u - Pv> <= 0 for all u in the set characterises the projection."""
    p = s.project(v)
    assert inside(s, p)
    members = random_members(s, v.size, 50, seed)
    assert float(((members - p) @ (v - p)).max()) <= 1e-8
    assert np.allclose(s.project(p), p, atol=1e-9)


@pytest.mark.parametrize(
    ("s", "v", "expected"),
    [
        (ConstraintSet("l1", radius=1.0), [3.0, 1.0], [1.0, 0.0]),
        (ConstraintSet("l1", radius=1.0), [0.8, -0.8], [0.5, -0.5]),
        (ConstraintSet("l2", radius=1.0), [3.0, 4.0], [0.6, 0.8]),
        (ConstraintSet("l2", radius=6.0), [3.0, 4.0], [3.0, 4.0]),
        (ConstraintSet("simplex"), [0.5, 0.9, -2.0], [0.3, 0.7, 0.0]),
        (ConstraintSet("box", low=0.0, high=1.0), [-1.0, 0.5, 9.0], [0.0, 0.5, 1.0]),
    ],
)
def test_projections_by_hand(s, v, expected):
    assert np.allclose(s.project(np.array(v)), expected)


@pytest.mark.parametrize("s", CONVEX, ids=lambda s: s.kind)
@given(g=VECTORS)
@settings(max_examples=60, deadline=None)
def test_the_linear_oracle_attains_the_support_function(s, g):
    v = s.minimise_linear(g)
    assert inside(s, v)
    least = {
        "l1": lambda: -s.radius * np.abs(g).max(),
        "l2": lambda: -s.radius * np.sqrt((g**2).sum()),
        "linf": lambda: -s.radius * np.abs(g).sum(),
        "simplex": lambda: g.min(),
        "box": lambda: np.minimum(g * s.low, g * s.high).sum(),
    }[s.kind]()
    assert float(g @ v) == pytest.approx(float(least), abs=1e-12)


def test_a_polytope_against_quadratic_and_linear_programming():
    g = np.random.default_rng(3)
    vertices = g.normal(size=(7, 4))
    s = ConstraintSet("polytope", vertices=vertices)
    for _ in range(5):
        v = 2 * g.normal(size=4)
        direct = minimize(
            lambda a, v=v: ((a @ vertices - v) ** 2).sum(),
            np.full(7, 1 / 7),
            bounds=[(0, 1)] * 7,
            constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert np.allclose(s.project(v), direct.x @ vertices, atol=1e-4)
        lp = linprog(vertices @ v, A_eq=np.ones((1, 7)), b_eq=[1.0])
        assert float(v @ s.minimise_linear(v)) == pytest.approx(lp.fun)


@pytest.mark.parametrize("kind", ["reals", "sparse"])
def test_no_oracle_where_there_is_no_minimum(kind):
    with pytest.raises(ValueError, match="no least value"):
        ConstraintSet(kind, k=1).minimise_linear(np.ones(2))


@given(v=VECTORS, k=st.integers(0, 6))
@settings(max_examples=80, deadline=None)
def test_hard_threshold_is_a_nearest_sparse_vector(v, k):
    out = sets.hard_threshold(v, k)
    assert np.count_nonzero(out) <= k
    subsets = itertools.combinations(range(v.size), min(k, v.size))
    best = min(float((np.delete(v, list(keep)) ** 2).sum()) for keep in subsets)
    assert float(((v - out) ** 2).sum()) == pytest.approx(best, abs=1e-12)


@given(v=st.floats(-4, 4), lam=st.floats(0, 3))
@settings(max_examples=80, deadline=None)
def test_soft_threshold_minimises_the_half_square(v, lam):
    """(u - v)^2/2 + lam |u|, on a fine grid; 004, equation (2), leaves out the 1/2, which would halve the threshold."""
    grid = np.concatenate([np.linspace(-5, 5, 20_001), [0.0]])
    best = float(((grid - v) ** 2 / 2 + lam * np.abs(grid)).min())
    u = float(sets.soft_threshold(np.array([v]), lam)[0])
    assert (u - v) ** 2 / 2 + lam * abs(u) <= best + 1e-12
    if abs(v) > lam > 0.01:
        assert abs(u) == pytest.approx(abs(v) - lam)


def test_shrink_keeps_signs():
    assert np.array_equal(sets.shrink(np.array([-3.0, 0.5, 2.0]), 1.0), [-1.0, 0.5, 1.0])


@pytest.mark.parametrize("s", CONVEX, ids=lambda s: s.kind)
def test_distances_are_upper_bounds(s):
    d = 4
    members = random_members(s, d, 4000, 1)
    start = s.start(d)
    assert inside(s, start)
    assert float(np.linalg.norm(members - start, axis=1).max()) <= s.distance_bound(d) + 1e-9
    assert float(np.linalg.norm(members[:2000] - members[2000:], axis=1).max()) <= s.diameter(d) + 1e-9


def test_sets_of_a_spec():
    assert constraint_set(None, {}).kind == "reals"
    assert constraint_set(Reals(), {}).kind == "reals"
    assert constraint_set(Simplex(), {}).kind == "simplex"
    ball = constraint_set(Ball(norm="l1", radius=num("1.5")), {})
    assert (ball.kind, ball.radius) == ("l1", 1.5)
    box = constraint_set(Box(low=num(-1), high=num(2)), {})
    assert (box.low, box.high) == (-1.0, 2.0)
    assert constraint_set(Sparse(k=num(3)), {}).k == 3
    with pytest.raises(ValueError, match="finite set"):
        constraint_set(Finite(values=(num(1),)), {})


@pytest.mark.parametrize("large", [1e15, 1e17, 1e150, 1e300])
def test_a_projection_of_a_huge_vector_is_a_corner(large: float) -> None:
    """The total is lost beside such entries, which used to leave no entry to keep."""
    v = np.array([3.0, large, 2.0, -large / 2])
    assert np.array_equal(project_simplex(v), [0.0, 1.0, 0.0, 0.0])
    assert np.array_equal(project_l1(-v, 2.0), [0.0, -2.0, 0.0, 0.0])
    tied = project_simplex(np.array([large, large, 0.0]), 3.0)
    assert np.array_equal(tied, [1.5, 1.5, 0.0])


def test_a_root_is_found_where_brents_method_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.optimize

    from dpspec.algorithms.sets import _root

    gave_up = SimpleNamespace(converged=False)
    monkeypatch.setattr(scipy.optimize, "brentq", lambda *a, **k: (0.0, gave_up))
    for root in (1e-200, 0.3, 12345.0):
        assert _root(lambda m, r=root: r - m, -1.0, 1e9) == pytest.approx(root, rel=1e-15)
    assert _root(lambda m: -1.0, 0.0, 1.0) == 0.0
    assert _root(lambda m: 1.0, 0.0, 1.0) == 1.0


@pytest.mark.parametrize("s", [*CONVEX, ConstraintSet("reals"), ConstraintSet("sparse", k=2)], ids=lambda s: s.kind)
def test_rows_are_projected_one_by_one(s: ConstraintSet) -> None:
    rng = np.random.default_rng(0)
    points = np.vstack(
        [rng.normal(size=(40, 3)) * 10.0 ** rng.uniform(-4, 4, (40, 1)), np.zeros((1, 3)), np.full((1, 3), 1e-170), np.full((1, 3), 1e200)]
    )
    one_by_one = np.array([s.project(v) for v in points])
    np.testing.assert_allclose(s.project_rows(points), one_by_one, rtol=4e-16, atol=0)
