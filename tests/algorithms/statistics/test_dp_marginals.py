"""Tables of k columns by a curator: the strategy against the singular value bound, sensitivities over all records, no bias, names."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

import dpspec
from dpspec.algorithms.statistics import dp_marginals as marginals
from dpspec.algorithms.statistics._residuals import Workload
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor import bind
from dpspec.lang.source import parse_text
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise

SPEC = """analysis "tables"
data
  n = {n}, d = 9
  from memory columns [sex, city, size]
  private, unit person, neighbours {relation}
  encode sex as levels("F", "M"), city as levels("a", "b", "c"), size as one-hot(4)
  {more}
privacy central
  {budget}
release r
  answer marginals({k})
  by dp-marginals{by}
"""
SIZES = (2, 3, 4)


def drafted(k: int = 2, relation: str = "add-remove", budget: str = "rho = 0.5", n: int = 300, by: str = "", more: str = ""):
    return compile_draft(parse_text(SPEC.format(k=k, relation=relation, budget=budget, n=n, by=by, more=more), surface="dps"))


def rows(codes: np.ndarray) -> np.ndarray:
    return np.hstack([np.eye(size)[codes[:, j]] for j, size in enumerate(SIZES)])


def table(n: int = 300, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.choice(s, n, p=np.arange(1, s + 1) / np.arange(1, s + 1).sum()) for s in SIZES])


def queries(k: int) -> np.ndarray:
    """Every cell of every table as a row over the product of the columns, by enumeration."""
    cells = list(itertools.product(*map(range, SIZES)))
    return np.array([
        [float(all(cell[j] == v for j, v in zip(chosen, said, strict=True))) for cell in cells]
        for chosen in itertools.combinations(range(3), k)
        for said in itertools.product(*(range(SIZES[j]) for j in chosen))
    ])  # fmt: skip


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_strategy_attains_the_singular_value_bound(k: int) -> None:
    """No Gaussian strategy of sensitivity 1 and variance 1 has less than (sum of singular values)^2/N in all cells (Li and Miklau 2013)."""
    w = Workload(SIZES, k)
    bound = np.linalg.svd(queries(k), compute_uv=False).sum() ** 2 / math.prod(SIZES)
    steps = 2**12
    found = marginals.of_strategy(w, steps, False, marginals.moved(w, steps, False))
    total = sum(math.prod(w.shape(b)) * e**2 for b, e in zip(w.tables, marginals.errors(w, found), strict=True))
    assert bound * (1 - 1e-9) <= total <= bound * 1.01


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("budget", ["rho = 0.5", "epsilon = 1"])
def test_every_pair_of_records_moves_the_draw_by_the_sensitivity_at_most(relation: str, budget: str) -> None:
    release = (draft := drafted(2, relation, budget, n=3)).releases[0]
    problem, mechanism = bind.bound_problem(draft, release), release.tree.mechanism
    base, cells = np.array([[0, 1, 2], [1, 2, 0]]), np.array(list(itertools.product(*map(range, SIZES))))
    seen: list[np.ndarray] = []

    def draw(name, value, *, sensitivity):
        assert mechanism.check(value) is None
        seen.append(np.array(value, dtype=float))
        return np.zeros_like(seen[-1])

    door = SimpleNamespace(draw=draw, level=lambda name: release.calibrated.levels[name])
    for extra in (cells[:0], *(cells[i : i + 1] for i in range(len(cells)))):
        release.module.run(Records(rows(np.vstack([base, extra]))), problem, release.tunables, door)
    pairs = itertools.combinations(seen[1:], 2) if relation == "replace-one" else ((seen[0], one) for one in seen[1:])
    worst = max(mechanism.distance(1.0, a, b) for a, b in pairs) / mechanism.sensitivity
    assert 0.995 <= worst <= 1.0


@pytest.mark.parametrize(("budget", "relation"), [("rho = 0.5", "add-remove"), ("rho = 0.5", "replace-one"), ("epsilon = 1", "add-remove")])
def test_cells_are_unbiased_consistent_and_as_far_off_as_stated(budget: str, relation: str) -> None:
    """100 runs; means within 5 standard errors of 26 cells."""
    release = (draft := drafted(2, relation, budget)).releases[0]
    problem, codes = bind.bound_problem(draft, release), table()
    records = Records(rows(codes))
    true = queries(2) @ np.bincount(np.ravel_multi_index(codes.T, SIZES), minlength=24)
    assert (problem.oracle.counts(records) == true).all()
    found = []
    for seed in range(100):
        meter = Release(release.calibrated, StudyNoise(seed), mode="study", public=PublicRandomness(0))
        found.append(release.module.run(records, problem, release.tunables, meter))
    errors, stated = np.array([e.theta for e in found]) - true, found[0].extras["standard_error"]
    assert (np.abs(errors.mean(axis=0)) < 5 * stated / math.sqrt(100)).all()
    assert errors.std(axis=0) == pytest.approx(stated, rel=0.4)
    split = Workload(SIZES, 2).split(found[0].theta)
    assert split[0, 1].sum(axis=1) == pytest.approx(split[0, 2].sum(axis=1), abs=1e-6)
    if relation == "replace-one":
        assert found[0].theta[:6].sum() == pytest.approx(300)


def test_tables_without_negative_cells_are_nearer_and_consistent() -> None:
    codes = np.minimum(table(120), [1, 0, 1])
    true = queries(2) @ np.bincount(np.ravel_multi_index(codes.T, SIZES), minlength=24)
    found = {}
    for post in ("none", "nonnegative"):
        release = (draft := drafted(2, budget="rho = 0.02", n=120, by=f" with post = {post}")).releases[0]
        problem = bind.bound_problem(draft, release)
        runs = [
            release.module.run(
                Records(rows(codes)), problem, release.tunables,
                Release(release.calibrated, StudyNoise(seed), mode="study", public=PublicRandomness(0)),
            )
            for seed in range(3)
        ]  # fmt: skip
        found[post] = np.array([r.theta for r in runs])
    assert found["none"].min() < 0 <= found["nonnegative"].min()
    assert np.mean((found["nonnegative"] - true) ** 2) < 0.9 * np.mean((found["none"] - true) ** 2)
    for one in found["nonnegative"]:
        split = Workload(SIZES, 2).split(one)
        assert split[0, 1].sum(axis=1) == pytest.approx(split[0, 2].sum(axis=1), abs=0.02 * one.sum() / 3)


def test_a_log_linear_fit_is_nearer_still_where_columns_are_independent() -> None:
    """And its tables are those of some records: they agree to rounding, and none is negative."""
    codes = table(3000)
    true = queries(2) @ np.bincount(np.ravel_multi_index(codes.T, SIZES), minlength=24)
    found = {}
    for post in ("none", "nonnegative", "log-linear"):
        release = (draft := drafted(2, budget="rho = 0.001", n=3000, by=f" with post = {post}")).releases[0]
        problem = bind.bound_problem(draft, release)
        runs = [
            release.module.run(
                Records(rows(codes)), problem, release.tunables,
                Release(release.calibrated, StudyNoise(seed), mode="study", public=PublicRandomness(0)),
            )
            for seed in range(6)
        ]  # fmt: skip
        found[post] = np.array([r.theta for r in runs])
    errors = {post: float(np.mean((values - true) ** 2)) for post, values in found.items()}
    assert errors["log-linear"] < errors["nonnegative"] <= errors["none"]
    assert found["log-linear"].min() >= 0


def test_the_slope_of_the_log_linear_model() -> None:
    """Against differences; its tables at theta are the moments that the slope holds."""
    from dpspec.algorithms.statistics._loglinear import Model

    model = Model(Workload(SIZES, 2), 50.0)
    rng = np.random.default_rng(1)
    theta = 0.3 * rng.normal(size=model.length)
    centred = model.joined({a: rng.normal(size=model.w.shape(a)) for a in model.parts})
    step = 1e-5
    tables, _ = model.tables(theta)
    ahead, behind = model.tables(theta + step * centred)[1], model.tables(theta - step * centred)[1]
    moments = {
        a: tables[b].sum(axis=tuple(i for i, j in enumerate(b) if j not in a))
        for b in model.w.tables
        for a in model.parts
        if set(a) <= set(b)
    }
    assert 50 * (ahead - behind) / (2 * step) == pytest.approx(model.joined(moments) @ centred, rel=1e-6)
    assert sum(float(t.sum()) for t in tables.values()) == pytest.approx(150)


def test_a_table_over_too_many_columns_is_refused() -> None:
    text = SPEC.format(k=2, relation="add-remove", budget="rho = 0.5", n=300, by=" with post = log-linear", more="")
    wide = (
        text.replace('city as levels("a", "b", "c")', "city as one-hot(400)")
        .replace("one-hot(4)", "one-hot(400)")
        .replace("d = 9", "d = 802")
    )
    draft = compile_draft(parse_text(wide, surface="dps"))
    assert any("post = log-linear builds the table over all columns" in d.message for d in draft.diagnostics)


def test_a_release_names_its_cells() -> None:
    codes = table()
    words = {"sex": np.array(["F", "M"])[codes[:, 0]], "city": np.array(["a", "b", "c"])[codes[:, 1]], "size": codes[:, 2]}
    out = dpspec.plan(
        parse_text(SPEC.format(k=2, relation="add-remove", budget="epsilon = 1, delta = 1e-6", n=300, by="", more=""), surface="dps")
    ).run(words)
    assert list(out.outputs["r"]["name"][:3]) == ["sex=F, city=a", "sex=F, city=b", "sex=F, city=c"]
    assert out.rows()[0]["what"] == "sex=F, city=a"


@pytest.mark.parametrize(
    ("k", "said", "words"),
    [
        (4, {}, "there are not that many"),
        (2, {"more": "intercept"}, "the intercept is no attribute"),
    ],
)
def test_what_is_no_table_is_refused(k: int, said: dict, words: str) -> None:
    found = drafted(k, **said)
    assert words in " ".join(d.message for d in found.diagnostics if d.severity == "error")


def test_a_column_of_numbers_is_refused_by_name() -> None:
    text = (
        SPEC.format(k=2, relation="add-remove", budget="rho = 1", n=300, by="", more="")
        .replace(", size as one-hot(4)", "")
        .replace("d = 9", "d = 6")
    )
    found = compile_draft(parse_text(text, surface="dps"))
    assert "size is a number, and a table counts levels" in " ".join(d.message for d in found.diagnostics)
