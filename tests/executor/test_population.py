"""The population risk of a law, against its closed form."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpspec.compiler.measures import choose
from dpspec.compiler.passes import compile_draft
from dpspec.executor.bind import bound_problem
from dpspec.executor.population import population
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from dpspec.spec.diagnostics import SpecError
from dpspec.tasks.registry import of
from tests.cli.call import call

SPEC = """analysis "a"

data
  n = 20_000, d = 3
  {source}
  {status}, unit person, neighbours replace-one
  x in box(-1, 1) by clip
  y in [-4, 4] by clip

privacy central
  epsilon = 1, delta = 1e-6

release w
  minimise 1/2*(y - <w, x>)^2 over ball(l2, 3)
  by dp-gd with T = 2
  expect excess-population-risk <= 0.1
"""
LAW = """
simulate
  x ~ uniform(-1, 1)
  y = 2*<theta, x> + uniform(-1/2, 1/2)
  theta = sparse(1) unit l2
"""


def test_the_excess_is_the_distance_in_the_covariance() -> None:
    """y = <2 theta, x> + noise, no record clipped: F(w) - min F = (w - 2 theta)^T E x x^T (w - 2 theta)/2, with E x x^T = I/3."""
    draft = compile_draft(parse_text(SPEC.format(source="from memory", status="private") + LAW, surface="dps"))
    assert not draft.failed, draft.diagnostics
    (release,) = draft.releases
    assert choose(release) == "excess-population-risk"
    problem, task = bound_problem(draft, release), of(release.release.task)
    fresh = population(draft, release, problem, 5, 0)
    assert fresh.records.n == 80_000
    assert population(draft, release, problem, 5, 0) is fresh
    assert population(draft, release, problem, 5, 1) is not fresh  # its theta is another one
    theta = 2 * np.linalg.lstsq(np.asarray(fresh.records.x), np.asarray(fresh.records.y), rcond=None)[0].round(2) / 2
    assert np.linalg.norm(theta) == pytest.approx(2.0, abs=0.02)
    t = task.trial(None, problem, {}, None)
    measure = task.measure("excess-population-risk").of
    for w in (np.zeros(3), np.array([0.5, -1.0, 2.0]), theta):
        want = float((w - theta) @ (w - theta)) / 6
        assert measure(w, type(t)(**{**vars(t), "population": fresh})) == pytest.approx(want, abs=0.02)


FORM = SPEC.replace("n = 20_000", "n = 1000").replace("over ball(l2, 3)", "{ridge}over ball(l2, {radius})")
SHIFTED = LAW.replace("x ~ uniform(-1, 1)", "x ~ uniform(0, 1)").replace("y = 2*<theta, x> +", "y = 1/2 - <theta, x>/2 +")


def closed(text: str, **more: str) -> tuple[Any, Any, Any]:
    """The population of trial 1, its task and its problem."""
    known = {"source": "from memory", "status": "private", "ridge": "", "radius": "3"} | more
    draft = compile_draft(parse_text(text.format(**known), surface="dps"))
    assert not draft.failed, draft.diagnostics
    (release,) = draft.releases
    problem = bound_problem(draft, release)
    return population(draft, release, problem, 5, 1), of(release.release.task), problem


@pytest.mark.parametrize("ridge", ["", "+ 1/8*|w|^2 "])
def test_of_squared_loss_it_is_in_closed_form(ridge: str) -> None:
    """x uniform in [0, 1]^3: E x x^T = I/12 + 1/4, and y = 1/2 - <theta, x>/2 + noise. The minimiser solves (E x x^T + I/4) w = E x y; the
    excess and the gradient agree with those of a million records within their errors."""
    fresh, task, problem = closed(FORM + SHIFTED, ridge=ridge)
    assert fresh.quadratic is not None
    best, curvature = fresh.quadratic
    moment = np.eye(3) / 12 + 0.25
    np.testing.assert_allclose(curvature, moment + (np.eye(3) / 4 if ridge else 0), rtol=1e-12)
    theta = np.linalg.solve(moment, 0.25 - curvature @ best) * 2  # E x y = 1/2 * 1/2 - E x x^T theta/2
    assert np.linalg.norm(theta) == pytest.approx(1.0)
    assert np.count_nonzero(np.abs(theta) > 1e-9) == 1
    g = np.random.default_rng(0)
    x = g.random((200_000, 3))
    y = 0.5 - x @ theta / 2 + g.uniform(-0.5, 0.5, 200_000)
    t = task.trial(None, problem, {}, None)
    t = type(t)(**{**vars(t), "population": fresh})
    for w in (np.zeros(3), np.array([0.5, -1.0, 2.0]), best):
        losses = (y - x @ w) ** 2 / 2 - (y - x @ best) ** 2 / 2
        penalty = (w @ w - best @ best) / 8 if ridge else 0.0
        error = 5 * float(losses.std()) / math.sqrt(len(y)) + 1e-12
        assert task.measure("excess-population-risk").of(w, t) == pytest.approx(float(losses.mean()) + penalty, abs=error)
    assert fresh.error(problem.oracle.value, np.zeros(3)) is None


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (FORM + LAW, {"radius": "1"}),  # the minimiser lies outside of the set
        (FORM.replace("[-4, 4]", "[-1, 1]") + LAW, {}),  # responses are clipped
        (FORM.replace("1/2*(y - <w, x>)^2", "log(1 + exp(-y*<w, x>))") + LAW, {}),
        (FORM + LAW.replace("2*<theta, x>", "2*exp(-<theta, x>^2)"), {}),
    ],
)
def test_elsewhere_it_is_measured(text: str, more: dict[str, str]) -> None:
    assert closed(text, **more)[0].quadratic is None


def test_a_study_says_which_of_the_two_it_is() -> None:
    said = []
    for text in (FORM, FORM.replace("[-4, 4]", "[-1, 1]")):
        spec = text.format(source="from memory", status="private", ridge="", radius="3") + SHIFTED
        said.append(study(parse_text(spec, surface="dps"), trials=1, seed=1, workers=1).body["notes"])
    assert any("excess-population-risk is in closed form" in note for note in said[0])
    assert any("measured on 16,384 fresh records" in note for note in said[1])


def test_the_chance_of_a_wrong_label_is_that_of_the_law() -> None:
    from dpspec.data.records import Records
    from dpspec.measures.measure import Population
    from dpspec.tasks.minimise import TASK

    x = np.array([[1.0], [2.0], [-1.0], [3.0]])
    fresh = Population(Records(x, np.array([1.0, -1.0, -1.0, 1.0])))
    _, _, problem = closed(FORM + LAW)
    t = TASK.trial(Records(x, np.ones(4)), problem, {}, None)
    measure = TASK.measure("population-label-error")
    assert measure.of(np.ones(1), type(t)(**{**vars(t), "population": fresh})) == 0.25
    assert measure.needs == "population"


def test_real_data_have_no_population(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,c,y\n" + "0.1,0.2,0.3,1\n" * 8)
    text = SPEC.format(source='from "a.csv" target "y"', status="public").replace("20_000", "8")
    (tmp_path / "a.dps").write_text(text)
    got = call("study", str(tmp_path / "a.dps"), "--trials", "2", "--workers", "1")
    assert got.code != 0
    assert "DP413" in got.stderr
    draft = compile_draft(parse_text(text, path=str(tmp_path / "a.dps"), surface="dps"))
    with pytest.raises(SpecError, match="DP413"):
        choose(draft.releases[0], simulated=False)


def test_where_the_bounded_measure_is_not_told_another_one_is_named(tmp_path: Path) -> None:
    """Real data have no population: what is measured in its place is said, not put there in silence."""
    rows = "".join(f"{0.1 * (i % 7)},{0.2 * (i % 3)},{i % 2}\n" for i in range(40))
    (tmp_path / "a.csv").write_text("a,b,y\n" + rows)
    (tmp_path / "a.dps").write_text("""analysis "a"

data
  n = 40, d = 2
  from "a.csv" target "y"
  public
  x in ball(linf, 1) by clip
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 2, delta = 1e-3

assume
  sparse(1)
  moment(order 2, bound 1) of gradient

release w
  minimise log(1 + exp(-y*<w, x>)) + 1/20*|w|^2 over sparse(1)
  by dp-sparse-optimization-heavy-tailed with T = 2, eta = 1
""")
    got = call("study", str(tmp_path / "a.dps"), "--trials", "2", "--workers", "1")
    assert got.code == 0, got
    assert "excess-population-risk" in got.stdout
    assert "measured is excess-empirical-risk" in " ".join(got.stdout.split())


def test_a_population_risk_comes_with_its_own_error() -> None:
    """Of (y - <w, x>)^2 at w against the least squares: the standard error of a mean of differences, 16 parts of the sample."""
    from dpspec.data.records import Records
    from dpspec.measures.measure import Population

    g = np.random.default_rng(4)
    x = g.standard_normal((16_000, 2))
    y = x @ np.array([1.0, -1.0]) + g.standard_normal(16_000)
    records = Records(x, y)

    def value(w: Any, rows: Any) -> float:
        return float(np.mean((rows.y - rows.x @ w) ** 2))

    best = np.linalg.lstsq(x, y, rcond=None)[0]
    sample, w = Population(records, lambda: (best, value(best, records))), np.array([1.5, -1.0])
    rows = (y - x @ w) ** 2 - (y - x @ best) ** 2
    assert sample.error(value, w) == pytest.approx(rows.std() / 16_000**0.5, rel=0.6)
    assert Population(records).error(value, w) is None

    clipped = SPEC.replace("[-4, 4]", "[-1, 1]").format(source="from memory", status="private")  # else it is known in closed form
    told = study(parse_text(clipped + LAW, surface="dps"), trials=2, workers=1).to_json()
    assert any("80,000 fresh records" in note and "its standard error is at most 0.00" in note for note in told["notes"])
