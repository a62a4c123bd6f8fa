"""Non-smooth penalties reach every algorithm or are refused by it: no term of an objective is dropped in silence."""

from __future__ import annotations

import math
from dataclasses import replace
from types import ModuleType
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from dpspec.algorithms.convex_erm import svrg
from dpspec.algorithms.objective import Objective, optimum
from dpspec.algorithms.registry import all_modules
from dpspec.algorithms.sets import ConstraintSet, group_norm
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import Parsed, parse_text
from dpspec.privacy.forms import to_json
from dpspec.spec.expr import Bin, Call, Expr, Name, Norm, num
from dpspec.spec.model import Minimise
from dpspec.symbolic.groups import Groups, GroupTerm
from tests.algorithms.support import Silent, logistic, minimise, tunables
from tests.conformance.cases import Case, gallery, neighbours, resized

# the interior point method may stop a digit before the tolerance that it is asked for
pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate:UserWarning")

MODULES = [m for m in all_modules() if m.CARD.task == "minimise" and m.CARD.role == "algorithm"]
each = pytest.mark.parametrize("module", MODULES, ids=lambda m: m.CARD.id)

PENALTIES = {
    "l1": Norm(Name("w"), "1"),
    "group": Call("group", (Name("w"), num(2))),
    "group-lasso": Call("group-lasso", (num(1), num(1), num(2))),
}


def penalised(module: ModuleType, penalty: Expr, weight: str) -> Parsed:
    """The algorithm's gallery spec, small, with weight*penalty added to its loss."""
    small = {"n": 400, "d": 3} | ({"T": 4} if "T" in module.CARD.tunables else {}) | ({"m": 3} if "m" in module.CARD.tunables else {})
    parsed = resized(gallery(module), **small)
    release = parsed.analysis.releases[0]
    task = release.task
    assert isinstance(task, Minimise)
    loss = Bin("+", task.loss, Bin("*", num(weight), penalty))
    changed = release.model_copy(update={"task": task.model_copy(update={"loss": loss})})
    return replace(parsed, analysis=parsed.analysis.model_copy(update={"releases": (changed, *parsed.analysis.releases[1:])}))


def same(a: Any, b: Any) -> bool:
    """One schedule, its numbers to twelve digits."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-12)
    return bool(a == b)


@each
@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
def test_the_released_point_depends_on_the_penalty_or_the_algorithm_refuses(module: ModuleType, penalty: Expr) -> None:
    """Same records, same noise, twice the penalty: the constants that the noise follows from are those of the data part."""
    light, heavy = (compile_draft(penalised(module, penalty, w)) for w in ("0.02", "0.04"))
    refused = [d for d in light.diagnostics if d.code == "DP407"]
    if refused:
        assert "l1 or group term" in refused[0].message
        return
    assert light.releases[0].module is module
    assert light.releases[0].calibrated.levels == heavy.releases[0].calibrated.levels
    assert same(to_json(light.releases[0].tree), to_json(heavy.releases[0].tree))  # but for the rounding of sums that hold the penalty
    records, _ = neighbours(Case(light))
    g = np.random.default_rng(0)
    x = g.normal(size=records.x.shape)
    records = Records(x, np.sign(x.sum(axis=1)) * np.abs(records.y).max())
    first, second = (Case(d).run(records, seed=3) for d in (light, heavy))
    assert np.array_equal(first, Case(light).run(records, seed=3))
    if np.array_equal(first, second):  # a choice among finitely many points needs a heavier penalty to change
        second = Case(compile_draft(penalised(module, penalty, "20"))).run(records, seed=3)
    assert np.linalg.norm(first - second) > 1e-9


def test_most_of_the_family_serves_penalties():
    """The test above would pass if everything refused."""
    drafts = {m.CARD.id: compile_draft(penalised(m, PENALTIES["group"], "0.02")) for m in MODULES}
    served = {name for name, draft in drafts.items() if not any(d.code == "DP407" for d in draft.diagnostics)}
    assert served >= {"dp-gd", "dp-sgd", "dp-svrg", "dp-svrg-pp", "dp-katyusha"}
    assert served >= {"objective-perturbation", "output-perturbation", "approximate-minima-perturbation"}
    assert not served & {"dp-frank-wolfe", "dp-mirror-descent", "dp-accmd", "dp-iht"}


# ------------------------------------------------------------------------------------------------------------ the minimisers


def records(n: int = 300, d: int = 6, seed: int = 0) -> Records:
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, d))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    return Records(x, np.where(g.random(n) < 1 / (1 + np.exp(-6 * x[:, 0] - 3 * x[:, 1])), 1.0, -1.0))


OBJECTIVES = {
    "group": {"group": (0.03, (2,), False)},
    "group-lasso, unequal": {"group": (0.02, (3, 2, 1), True)},
    "ridge and group": {"l2": 0.05, "group": (0.03, (2,), False)},
    "elastic net": {"l2": 0.05, "l1": 0.01},
    "sparse group": {"l1": 0.01, "group": (0.02, (3,), False)},
    "all three": {"l2": 0.02, "l1": 0.01, "group": (0.02, (4,), True)},
}
SETS = {
    "reals": ConstraintSet("reals"),
    "l2": ConstraintSet("l2", radius=1.0),
    "l1": ConstraintSet("l1", radius=0.7),
    "box": ConstraintSet("box", low=0.1, high=1.0),
    "simplex": ConstraintSet("simplex"),
    "polytope": ConstraintSet("polytope", vertices=np.random.default_rng(5).normal(size=(9, 6))),
}


def objective(terms: dict, over: ConstraintSet, d: int = 6) -> Objective:
    weight, sizes, rooted = terms.get("group", (0.0, (1,), False))
    group = group_norm(GroupTerm(weight, Groups(sizes, rooted)), d) if weight else None
    return replace(logistic(l2=terms.get("l2", 0.0), l1=terms.get("l1", 0.0), over=over), group=group)


def by_cvxpy(terms: dict, over: ConstraintSet, r: Records) -> tuple[np.ndarray, float]:
    """The minimiser by an interior point method, from the definition of every term."""
    d = r.x.shape[1]
    w = cp.Variable(d)
    value = cp.sum(cp.logistic(-cp.multiply(r.y, r.x @ w))) / r.n
    value += terms.get("l2", 0.0) / 2 * cp.sum_squares(w) + terms.get("l1", 0.0) * cp.norm1(w)
    if "group" in terms:
        weight, sizes, rooted = terms["group"]
        ends = list(np.cumsum(sizes)) if len(sizes) > 1 else [*range(sizes[0], d, sizes[0]), d]
        for a, b in zip([0, *ends[:-1]], ends, strict=True):
            value += weight * (np.sqrt(b - a) if rooted else 1.0) * cp.norm2(w[a:b])
    a = cp.Variable(9)
    constraints = {
        "reals": [],
        "l2": [cp.norm2(w) <= over.radius],
        "l1": [cp.norm1(w) <= over.radius],
        "box": [w >= over.low, w <= over.high],
        "simplex": [w >= 0, cp.sum(w) == 1],
        "polytope": [] if over.vertices is None else [a >= 0, cp.sum(a) == 1, w == over.vertices.T @ a],
    }[over.kind]
    problem = cp.Problem(cp.Minimize(value), constraints)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return w.value, float(problem.value)


@pytest.mark.parametrize("over", SETS.values(), ids=SETS.keys())
@pytest.mark.parametrize("terms", OBJECTIVES.values(), ids=OBJECTIVES.keys())
def test_the_reference_optimum_agrees_with_an_interior_point_method(terms, over):
    r = records()
    f = objective(terms, over)
    w, value = optimum(f, r)
    other, least = by_cvxpy(terms, over, r)
    assert value == pytest.approx(least, abs=1e-8)
    assert np.allclose(w, other, atol=2e-3)


def test_svrg_and_gradient_descent_reach_the_penalised_optimum():
    terms = OBJECTIVES["all three"]
    r, f = records(), objective(terms, SETS["reals"])
    p = minimise(r.n, 6, f)
    p = replace(p, loss=replace(p.loss, l1=f.l1, group=GroupTerm(0.02, Groups((4,), True))))
    least = by_cvxpy(terms, SETS["reals"], r)[1]

    class Public:
        class public:
            @staticmethod
            def generator(name):
                return np.random.default_rng(0)

    for method in ("svrg", "gradient"):
        w = svrg.run(r, p, tunables(svrg, p, method=method), Public).theta
        assert f.value(w, r) == pytest.approx(least, abs=1e-6)


def test_noisy_descent_without_its_noise_reaches_the_penalised_optimum():
    """dp-gd and its relatives use the prox in every step: what they tend to is the minimiser of the whole objective."""
    from dpspec.algorithms.convex_erm import dp_gd

    for name in ("group", "sparse group", "elastic net"):
        terms = OBJECTIVES[name]
        r, f = records(), objective(terms, SETS["l2"])
        weight, sizes, rooted = terms.get("group", (0.0, (1,), False))
        p = minimise(r.n, 6, f, facts={"w_radius": 1.0})
        p = replace(p, loss=replace(p.loss, l1=f.l1, group=GroupTerm(weight, Groups(sizes, rooted)) if weight else None))
        t = tunables(dp_gd, p, T=600, eta=2.0, momentum=0, tail=0.1)
        w = dp_gd.run(r, p, t, Silent(dp_gd.schedule(p, t))).theta
        assert f.value(w, r) == pytest.approx(by_cvxpy(terms, SETS["l2"], r)[1], abs=1e-7)


@pytest.mark.parametrize("over", [SETS["reals"], SETS["l2"], SETS["box"]], ids=lambda s: s.kind)
@pytest.mark.parametrize("name", ["group", "sparse group"])
def test_the_solver_with_a_certificate_solves_the_penalised_problem(name, over):
    """Objective perturbation and the perturbed minima rest on it: |w - w*| <= tolerance/ridge."""
    from dpspec.algorithms.convex_erm._solve import stationary

    terms = {**OBJECTIVES[name], "l2": 0.1}
    r, f = records(), objective(terms, over)
    w = stationary(f, r, r.n, 0.25, 1.0, np.zeros(6), 0.0, 1e-9)
    other, least = by_cvxpy(terms, over, r)
    assert np.allclose(w, other, atol=1e-4)
    assert f.value(w, r) <= least + 1e-8


def test_a_group_is_dropped_or_kept_as_a_whole():
    """The first two coordinates carry the labels: with a large enough weight the other groups vanish, exactly."""
    r = records()
    w, _ = optimum(objective({"group": (0.06, (2,), False)}, SETS["reals"]), r)
    assert np.all(w[:2] != 0.0)
    assert np.array_equal(w[2:], np.zeros(4))


# ---------------------------------------------------------------------------------------------------- constants and bounds

SPEC = """analysis "a"

data
  n = 4000, d = 6, k = 2
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-6

release weights
  minimise {loss} over {over}
  by dp-gd
"""


def draft(loss: str, over: str = "ball(l2, 1)"):
    return compile_draft(parse_text(SPEC.format(loss=loss, over=over), surface="dps"))


def test_a_group_norm_leaves_the_constants_of_the_data_part_alone():
    plain, grouped = (draft(loss).releases[0] for loss in ("logistic + 0.1/2*|w|^2", "logistic + 0.1/2*|w|^2 + 0.3*group(w, 4, 2)"))
    a, b = plain.problem.loss, grouped.problem.loss
    assert (a.lipschitz, a.smooth, a.strongly_convex, a.convex, a.l2) == (b.lipschitz, b.smooth, b.strongly_convex, b.convex, b.l2)
    assert b.group == GroupTerm(0.3, Groups((4,)))
    assert a.group is None
    assert plain.calibrated.levels == grouped.calibrated.levels
    assert b.penalty_slope(6) == pytest.approx(0.3 * np.sqrt(2))


def test_the_largest_subgradient_of_a_penalty():
    """|subgradient|_2 of l1 |w|_1 + weight sum_g sqrt(size) |w_g| by finite differences along random directions never exceeds the formula,
    and where no coordinate is 0 and each group is flat it is reached."""
    loss = replace(minimise(10, 5, logistic()).loss, l1=0.3, group=GroupTerm(0.2, Groups((3, 2), True)))
    f = objective({"l1": 0.3, "group": (0.2, (3, 2), True)}, SETS["reals"], d=5)
    w, g = np.ones(5), np.random.default_rng(0)
    slopes = np.array([(f.regulariser(w + 1e-6 * e) - f.regulariser(w - 1e-6 * e)) / 2e-6 for e in np.eye(5)])
    assert np.linalg.norm(slopes) == pytest.approx(loss.penalty_slope(5), rel=1e-6)
    for _ in range(200):
        a, b = g.normal(size=(2, 5))
        assert abs(f.regulariser(a) - f.regulariser(b)) <= loss.penalty_slope(5) * np.linalg.norm(a - b) + 1e-12


def test_start_gaps_bound_what_standing_still_costs(tmp_path):
    """On a polytope the point nearest to 0 need not have the least penalty: the bound of F(w_0) - F* counts it."""
    from dpspec.algorithms.convex_erm._common import start_gap
    from dpspec.spec.model import Polytope

    corners = np.array([[1.0, 1.0], [1.5, 0.0]])  # nearest to 0 in l2: about (1.2, 0.6); least l1 norm: (1.5, 0)
    path = tmp_path / "corners.csv"
    np.savetxt(path, corners, delimiter=",")
    f = logistic(l1=2.0, over=ConstraintSet("polytope", vertices=corners))
    r = records(d=2)
    p = minimise(r.n, 2, f, over=Polytope(vertices=str(path)))
    start = f.over.start(2)
    real = f.value(start, r) - optimum(f, r)[1]
    assert real > f.data_value(start, r) - f.data_value(optimum(f, r)[0], r)
    assert real <= start_gap(p)


def test_explicit_bounds_of_unproved_cases_are_not_claimed():
    """Output perturbation's bound uses smoothness of the whole objective."""
    from dpspec.algorithms.convex_erm import approximate_minima_perturbation, dp_sgd, output_perturbation

    for module in (output_perturbation, approximate_minima_perturbation, dp_sgd):
        spec = SPEC.replace("by dp-gd", f"by {module.CARD.id}")
        bounds = []
        for loss in ("logistic + 0.1/2*|w|^2", "logistic + 0.1/2*|w|^2 + 0.3*group(w, 3)"):
            release = compile_draft(parse_text(spec.format(loss=loss, over="ball(l2, 1)"), surface="dps")).releases[0]
            bounds.append(module.explicit_bounds(release.problem, release.tunables, release.calibrated))
        assert bounds[1] == {}


@pytest.mark.parametrize("over", [s for s in SETS.values() if s.kind != "polytope"], ids=lambda s: s.kind)
@pytest.mark.parametrize("name", ["group", "sparse group", "all three"])
def test_penalised_descent_on_neighbours_stays_within_the_sensitivity(name, over):
    """Output perturbation adds noise for runs of prox-gradient steps that do not move apart: a prox that expanded would show."""
    from dpspec.algorithms.convex_erm import output_perturbation

    x = records(20).x
    ends, y = [], np.where(x.sum(axis=1) > 0, 1.0, -1.0)
    f = objective({**OBJECTIVES[name], "group": (0.004, (2, 4), False)}, over)
    p = minimise(20, 6, f)
    t = tunables(output_perturbation, p, T=60)
    for label in (1.0, -1.0):
        y[0] = label
        seen: list[np.ndarray] = []

        class Exact:
            @staticmethod
            def draw(name, value, *, sensitivity, seen=seen):
                assert sensitivity == output_perturbation.sensitivity(p, t)
                seen.append(np.array(value))
                return value

        output_perturbation.run(Records(x, y.copy()), p, t, Exact)
        ends.append(seen[0])
    assert 0 < np.linalg.norm(ends[0] - ends[1]) <= output_perturbation.sensitivity(p, t)


def test_the_gallery_s_group_lasso_keeps_its_bound_and_finds_the_groups():
    """Two of eight groups carry the labels: they stand out of the noisy estimate, and are all that is left of the exact one."""
    from dpspec.data.laws import Simulation
    from dpspec.executor.bind import bound_problem
    from dpspec.lang.source import parse_file
    from tests.conformance.cases import ROOT

    compiled = compile_draft(parse_file(ROOT / "specs" / "convex_erm" / "group-lasso.dps"))
    case = Case(compiled)
    r, truth = Simulation(compiled.analysis.simulate, compiled.facts).trial(5, 0)
    f = bound_problem(compiled, case.release).objective
    true = {int(j) // 5 for j in np.flatnonzero(truth["theta"])}
    assert len(true) == 2
    fitted, least = optimum(f, r)
    assert {int(j) // 5 for j in np.flatnonzero(fitted)} == true
    w = case.run(r, seed=0)
    bound = {b.theorem: b.value for b in case.release.bounds}["nesterov, 0.95"]
    assert 0 < f.value(w, r) - least <= bound
    assert {int(j) for j in np.argsort(np.linalg.norm(w.reshape(8, 5), axis=1))[-2:]} == true
