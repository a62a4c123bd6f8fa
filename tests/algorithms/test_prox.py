"""Proximal maps of penalties over sets, projections and linear oracles against interior point methods and linear programming."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from dpspec.algorithms.sets import ConstraintSet, GroupNorm, group_norm, project_polytope, prox, soft_threshold
from dpspec.symbolic.groups import Groups, GroupTerm

# the interior point method may stop a digit before the tolerance that it is asked for
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate:UserWarning")

KINDS = ["reals", "l2", "l1", "linf", "box", "simplex", "polytope"]
EXACT = [k for k in KINDS if k != "polytope"]
PENALTIES = ["l1", "group", "both"]


def a_set(kind: str, g: np.random.Generator, d: int) -> ConstraintSet:
    """Balls, boxes that need not hold 0, polytopes of as many corners as come."""
    r, low = g.uniform(0.2, 2), g.uniform(-1.5, 1)
    match kind:
        case "box":
            return ConstraintSet("box", low=low, high=low + r)
        case "polytope":
            return ConstraintSet("polytope", vertices=g.normal(size=(g.integers(1, 13), d)))
        case _:
            return ConstraintSet(kind, radius=r)  # type: ignore[arg-type]


def a_penalty(name: str, g: np.random.Generator, d: int) -> tuple[float, GroupNorm | None]:
    l1 = g.exponential() if name in ("l1", "both") else 0.0
    if name == "l1":
        return l1, None
    cuts = np.sort(g.choice(np.arange(1, d), size=min(d - 1, g.integers(0, 4)), replace=False))
    sizes = np.diff([0, *cuts, d])
    return l1, group_norm(GroupTerm(g.exponential(), Groups(tuple(int(s) for s in sizes), bool(g.integers(2)))), d)


def penalty_value(u: np.ndarray, l1: float, group: GroupNorm | None) -> float:
    """From the definition, a group at a time."""
    value = l1 * np.abs(u).sum()
    if group is not None:
        value += sum(c * np.sqrt((u[a : a + s] ** 2).sum()) for a, s, c in zip(group.starts, group.sizes, group.weights, strict=True))
    return float(value)


def feasible(s: ConstraintSet, u: np.ndarray, slack: float = 1e-9) -> bool:
    match s.kind:
        case "reals":
            return True
        case "l1" | "l2" | "linf":
            return bool(np.linalg.norm(u, {"l1": 1, "l2": 2, "linf": np.inf}[s.kind]) <= s.radius + slack)
        case "simplex":
            return bool(u.min() >= -slack and abs(u.sum() - 1) <= slack)
        case "box":
            return bool(u.min() >= s.low - slack and u.max() <= s.high + slack)
        case _:
            m = len(s.vertices)
            lp = linprog(np.zeros(m), A_eq=np.vstack([s.vertices.T, np.ones(m)]), b_eq=np.append(u, 1.0), method="highs")
            return bool(lp.status == 0)


def by_cvxpy(v: np.ndarray, s: ConstraintSet, step: float, l1: float, group: GroupNorm | None) -> tuple[np.ndarray, float]:
    u = cp.Variable(v.size)
    value = cp.sum_squares(u - v) / 2 + step * l1 * cp.norm1(u)
    if group is not None:
        value += step * sum(c * cp.norm2(u[a : a + k]) for a, k, c in zip(group.starts, group.sizes, group.weights, strict=True))
    match s.kind:
        case "reals":
            constraints = []
        case "l1" | "l2" | "linf":
            constraints = [{"l1": cp.norm1, "l2": cp.norm2, "linf": cp.norm_inf}[s.kind](u) <= s.radius]
        case "simplex":
            constraints = [u >= 0, cp.sum(u) == 1]
        case "box":
            constraints = [u >= s.low, u <= s.high]
        case _:
            a = cp.Variable(len(s.vertices))
            constraints = [a >= 0, cp.sum(a) == 1, u == s.vertices.T @ a]
    cp.Problem(cp.Minimize(value), constraints).solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return u.value, float(value.value)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_prox_of_every_penalty_over_every_set(kind, penalty):
    """In the set, and no worse than an interior point method: by strong convexity, within sqrt(2*1e-8) of the exact point."""
    g = np.random.default_rng([KINDS.index(kind), PENALTIES.index(penalty)])
    for _ in range(8):
        d = int(g.integers(1, 12))
        s, (l1, group) = a_set(kind, g, d), a_penalty(penalty, g, d)
        v, step = g.choice([0.3, 1.0, 4.0]) * g.normal(size=d), g.exponential()
        u = prox(v, s, step, l1, group)
        other, least = by_cvxpy(v, s, step, l1, group)
        assert feasible(s, u, 1e-7 if kind == "polytope" else 1e-12)
        value = ((u - v) ** 2).sum() / 2 + step * penalty_value(u, l1, group)
        assert value <= least + 1e-8 * max(1.0, least)
        assert np.allclose(u, other, atol=2e-4 * max(1.0, np.abs(v).max()))


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("penalty", ["group", "both"])
def test_an_exact_prox_meets_the_optimality_condition_to_rounding(kind, penalty):
    """<v - u - step*s, z - u> <= 0 for the members z of the set, s a subgradient at u, where no group and no coordinate of u is zero
    (there s is a gradient): a condition that needs no other solver. Interior point methods are good to about 1e-6 only."""
    g = np.random.default_rng([3, EXACT.index(kind), PENALTIES.index(penalty)])
    checked = 0
    for _ in range(150):
        d = 6
        s, (l1, group) = a_set(kind, g, d), a_penalty(penalty, g, d)
        v = 1 + 0.1 * g.normal(size=d)  # about equal, so that little vanishes
        v, l1, step = v if kind in ("box", "simplex") else v * g.choice([-1, 1], size=d), 0.2 * l1, 0.2 * g.exponential()
        u = prox(v, s, step, l1, group)
        if np.abs(u).min() < 1e-6:
            continue
        checked += 1
        slope = l1 * np.sign(u) + group.spread(group.weights / group.norms(u)) * u
        r = v - u - step * slope
        best = 0.0 if kind == "reals" else float(r @ (s.minimise_linear(-r) - u))
        assert best <= 1e-10
        if kind == "reals":
            assert np.abs(r).max() <= 1e-12
    assert checked >= 20


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_prox_is_firmly_non_expansive(kind, penalty):
    """|Pa - Pb|^2 <= <Pa - Pb, a - b>: what output perturbation's sensitivity rests on."""
    g = np.random.default_rng([7, KINDS.index(kind), PENALTIES.index(penalty)])
    slack = 1e-6 if kind == "polytope" else 1e-12
    for _ in range(20):
        d = int(g.integers(1, 9))
        s, (l1, group) = a_set(kind, g, d), a_penalty(penalty, g, d)
        step = g.exponential()
        a = 2 * g.normal(size=d)
        b = a + g.choice([1e-6, 1e-2, 1.0]) * g.normal(size=d)
        gap = prox(a, s, step, l1, group) - prox(b, s, step, l1, group)
        assert gap @ gap <= gap @ (a - b) + slack


@pytest.mark.parametrize("kind", KINDS)
def test_projections_are_idempotent_and_firmly_non_expansive(kind):
    g = np.random.default_rng([11, KINDS.index(kind)])
    for _ in range(60):
        d = int(g.integers(1, 9))
        s = a_set(kind, g, d)
        a, b = 3 * g.normal(size=(2, d))
        p, q = s.project(a), s.project(b)
        assert np.allclose(s.project(p), p, rtol=0, atol=1e-12)
        assert (p - q) @ (p - q) <= (p - q) @ (a - b) + 1e-12
        assert feasible(s, p)


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.01, 1.0, 50.0]))
@settings(max_examples=60, deadline=None)
def test_the_projection_onto_a_polytope_is_exact(seed, scale):
    """<v - p, corner - p> <= 0 for every corner, to rounding; a member is its own projection."""
    g = np.random.default_rng(seed)
    corners = g.normal(size=(g.integers(1, 20), g.integers(1, 9)))
    v = scale * g.normal(size=corners.shape[1])
    p = project_polytope(v, corners)
    assert float(((corners - p) @ (v - p)).max()) <= 1e-12 * max(1.0, scale)
    member = g.dirichlet(np.ones(len(corners))) @ corners
    assert np.allclose(project_polytope(member, corners), member, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["l1", "linf", "simplex", "box", "polytope"])
def test_linear_oracles_against_linear_programming(kind):
    g = np.random.default_rng([13, KINDS.index(kind)])
    for _ in range(20):
        d = int(g.integers(1, 9))
        s, c = a_set(kind, g, d), g.normal(size=d)
        match kind:
            case "l1":  # w = p - q
                lp = linprog(np.append(c, -c), A_ub=np.ones((1, 2 * d)), b_ub=[s.radius])
            case "linf":
                lp = linprog(c, bounds=[(-s.radius, s.radius)] * d)
            case "simplex":
                lp = linprog(c, A_eq=np.ones((1, d)), b_eq=[1.0])
            case "box":
                lp = linprog(c, bounds=[(s.low, s.high)] * d)
            case _:
                lp = linprog(s.vertices @ c, A_eq=np.ones((1, len(s.vertices))), b_eq=[1.0])
        u = s.minimise_linear(c)
        assert feasible(s, u)
        assert float(c @ u) == pytest.approx(lp.fun, abs=1e-9)


# ----------------------------------------------------------------------------------------------- threshold, then project


def threshold_then_project(v, s, step, l1, group):
    w = soft_threshold(v, step * l1)
    return s.project(w if group is None else group.shrink(w, step))


@pytest.mark.parametrize(
    ("kind", "penalty"),
    [("l2", "l1"), ("l2", "group"), ("l2", "both"), ("l1", "l1"), ("linf", "l1"), ("box", "l1"), ("reals", "both")],
)
def test_where_threshold_then_project_is_exact(kind, penalty):
    """The claims of the docstring, against the general solver."""
    g = np.random.default_rng([17, KINDS.index(kind), PENALTIES.index(penalty)])
    for _ in range(8):
        s, (l1, group) = a_set(kind, g, 5), a_penalty(penalty, g, 5)
        v, step = 2 * g.normal(size=5), g.exponential()
        u = threshold_then_project(v, s, step, l1, group)
        assert ((u - v) ** 2).sum() / 2 + step * penalty_value(u, l1, group) <= by_cvxpy(v, s, step, l1, group)[1] + 1e-8


@pytest.mark.parametrize(
    ("kind", "penalty"),
    [("l1", "group"), ("simplex", "group"), ("box", "group"), ("linf", "group"), ("polytope", "l1"), ("polytope", "group")],
)
def test_where_threshold_then_project_is_wrong(kind, penalty):
    """Otherwise the roots and the dual would be there for nothing. (An l1 term over a polytope used to be handled in that way.)"""
    g = np.random.default_rng([19, KINDS.index(kind), PENALTIES.index(penalty)])
    worst = 0.0
    for _ in range(30):
        s, (l1, group) = a_set(kind, g, 5), a_penalty(penalty, g, 5)
        v, step = 2 * g.normal(size=5), g.exponential()
        naive, u = threshold_then_project(v, s, step, l1, group), prox(v, s, step, l1, group)
        worst = max(worst, float(np.linalg.norm(naive - u)))
    assert worst > 0.05


def test_group_shrinkage_by_hand():
    group = group_norm(GroupTerm(1.0, Groups((2, 3))), 5)
    assert np.allclose(group.shrink(np.array([3.0, 4.0, 1.0, 0.0, 0.0]), 2.0), [1.8, 2.4, 0.0, 0.0, 0.0])  # 5 -> 3; 1 -> 0
    assert group.value(np.array([3.0, 4.0, 2.0, 2.0, 1.0])) == pytest.approx(8.0)
    rooted = group_norm(GroupTerm(0.5, Groups((4,), True)), 5)  # groups of 4 and of 1
    assert np.allclose(rooted.weights, [1.0, 0.5])
    assert np.array_equal(group.shrink(np.zeros(5), 1.0), np.zeros(5))


def test_sparse_group_shrinkage_by_hand():
    """Soft threshold 1: (4, 5, 0.5) -> (3, 4, 0), of norm 5; shrinkage 2.5: half of it."""
    group = group_norm(GroupTerm(1.0, Groups((3,))), 3)
    assert np.allclose(prox(np.array([4.0, -5.0, 0.5]), ConstraintSet("reals"), 2.5, 0.4, group), [1.5, -2.0, 0.0])


def test_a_box_without_zero_and_an_l1_term():
    """One coordinate: |u - v|^2/2 + |u| over [1, 3] is least at max(1, v - 1)."""
    s = ConstraintSet("box", low=1.0, high=3.0)
    assert np.allclose(prox(np.array([-2.0, 1.5, 2.5, 9.0]), s, 1.0, 1.0), [1.0, 1.0, 1.5, 3.0])


@pytest.mark.parametrize("kind", EXACT)
def test_far_away_points(kind):
    """Steps of a run that diverges: the map stays in the set, and over the simplex one number added to all entries changes nothing."""
    g = np.random.default_rng(23)
    s, group = a_set(kind, g, 5), group_norm(GroupTerm(0.3, Groups((2,))), 5)
    for size in (1e8, 1e17, 1e100):
        u = prox(size * g.normal(size=5), s, 0.5, 0.2, group)
        assert np.isfinite(u).all()
        assert feasible(s, u)
    if kind == "simplex":
        v = g.normal(size=5)
        assert np.allclose(prox(v + 1e6, s, 0.5, 0.2, group), prox(v, s, 0.5, 0.2, group), atol=1e-8)


def test_no_prox_over_a_set_that_is_not_convex():
    with pytest.raises(ValueError, match="k-sparse"):
        prox(np.ones(3), ConstraintSet("sparse", k=1), 1.0, 1.0)


def test_sizes_must_add_up():
    with pytest.raises(ValueError, match="add up to 4"):
        group_norm(GroupTerm(1.0, Groups((1, 3))), 5)
