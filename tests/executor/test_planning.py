"""Planning from theory: tables of promises, predictions from a fitted constant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpspec.compiler.plan import make_plan
from dpspec.executor.planning import trade_off
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from tests.cli.call import call
from tests.executor.specs import LOGISTIC, SPARSE

GOAL = SPARSE.replace("tau2 = 5", "tau2 = 5\n  expect l2-error <= 0.05")


def test_a_cell_is_the_bound_of_the_plan_at_that_point() -> None:
    parsed = parse_text(LOGISTIC, surface="dps")
    (table,) = trade_off(parsed, {"n": ("2000", "8000"), "epsilon": ("1", "2")})
    assert (table["rows"], table["columns"], table["kind"]) == ([1.0, 2.0], [2000.0, 8000.0], "explicit")
    for i, epsilon in enumerate(("1", "2")):
        for j, n in enumerate(("2000", "8000")):
            text = LOGISTIC.replace("n = 1_000", f"n = {n}").replace("epsilon = 2", f"epsilon = {epsilon}")
            bounds = make_plan(parse_text(text, surface="dps")).releases[0].bounds
            least = min(b.value for b in bounds if b.kind == "explicit" and b.status == "proved" and b.value is not None)
            assert table["values"][i][j] == pytest.approx(least)


def test_without_a_promise_the_table_says_so(tmp_path: Path) -> None:
    (tmp_path / "s.dps").write_text(SPARSE)
    result = call("plan", str(tmp_path / "s.dps"), "--trade-off")
    assert result.code == 0
    assert "no proved explicit bound of nldp-sparse-linear-regression applies" in result.stdout
    assert call("plan", str(tmp_path / "s.dps"), "--vary", "n=1,2").code == 2
    assert call("plan", str(tmp_path / "s.dps"), "--trade-off", "--vary", "d=1,2").code != 0


def test_a_prediction_names_its_study_and_meets_its_target(tmp_path: Path) -> None:
    body = study(parse_text(GOAL, path="s.dps", surface="dps"), vary={"n": ("40000", "80000"), "epsilon": ("8", "16")}, trials=4, workers=1)
    file = body.write(tmp_path)
    (tmp_path / "s.dps").write_text(GOAL)
    result = call("plan", str(tmp_path / "s.dps"), "--constant-from", str(file), "--trade-off", "--format", "json")
    printed = json.loads(result.stdout)
    (p,) = printed["predictions"]
    fitted = body.to_json()["constants"][0]
    assert p["study"] == str(file)
    assert p["study_plan_sha256"] == body.to_json()["plan_sha256"]
    assert p["constant"] == fitted["value"]
    assert p["extrapolates"] is True  # the spec's n = 20,000 is below the study's
    at_least = parse_text(GOAL.replace("n = 20_000", f"n = {p['least_n']:.0f}"), surface="dps")
    below = parse_text(GOAL.replace("n = 20_000", f"n = {p['least_n'] * 0.98:.0f}"), surface="dps")
    constants = {("theta", "nldp-sparse-linear-regression"): fitted["value"]}
    own = {"epsilon": ("4",)}
    (met,), (missed,) = (trade_off(q, {**own, "n": (str(make_plan(q).draft.facts["n"]),)}, constants) for q in (at_least, below))
    assert met["values"][0][0] <= 0.05 < missed["values"][0][0]
    assert p["least_n_safe"] > p["least_n"]
    assert all(all(row) for row in printed["trade_off"][0]["fitted"])
    text = call("plan", str(tmp_path / "s.dps"), "--constant-from", str(file)).stdout
    assert str(file) in text
    assert "predictions, not promises" in text
    assert "extrapolates" in text


def test_a_study_of_something_else_is_refused(tmp_path: Path) -> None:
    body = study(parse_text(LOGISTIC, path="l.dps", surface="dps"), vary={"n": ("2000",)}, trials=2, workers=1)
    file = body.write(tmp_path)
    (tmp_path / "s.dps").write_text(SPARSE)
    assert call("plan", str(tmp_path / "s.dps"), "--constant-from", str(file)).code == 2
    assert call("plan", str(tmp_path / "s.dps"), "--constant-from", str(tmp_path / "s.dps")).code == 2
