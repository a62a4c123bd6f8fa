"""Plans are written as their analysis: reading one plans again, and what does not come out the same is refused."""

from __future__ import annotations

import copy
import inspect
import pickle
from pathlib import Path

import pytest

import dpspec as dp
from dpspec.api import Plan
from dpspec.executor.run import run
from dpspec.executor.study import study
from dpspec.executor.workers import cores
from dpspec.spec.diagnostics import SpecError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("spec", ["matrix/dp-covariance-gaussian.dps", "nldp_erm/ldp-mean.dps"])
def test_a_plan_that_was_written_is_the_plan(spec: str) -> None:
    plan = dp.plan(ROOT / "specs" / spec)
    again = pickle.loads(pickle.dumps(plan))
    assert type(again) is type(plan)
    assert again.to_json() == plan.to_json()
    assert copy.deepcopy(plan).sha256 == plan.sha256


def test_a_plan_is_read_with_no_number_of_the_file(tmp_path: Path) -> None:
    """Whoever writes another hash, or another analysis under it, gets no plan."""
    plan = dp.plan(ROOT / "specs/matrix/dp-covariance-gaussian.dps")
    body = pickle.dumps(plan)
    assert plan.sha256.encode() in body
    with pytest.raises(SpecError) as refused:
        pickle.loads(body.replace(plan.sha256.encode(), b"0" * 64))
    assert refused.value.diagnostics[0].code == "DP524"


def test_the_interface_takes_what_the_executor_takes_and_nothing_else() -> None:
    """By name, in both its forms: a misspelt argument is an error of the call."""
    for function, method, of in ((dp.run, Plan.run, run), (dp.study, Plan.study, study)):
        wanted = [p for p in inspect.signature(of).parameters if p not in ("plan", "parsed")]
        for shown in (function, method):
            found = inspect.signature(shown).parameters
            assert [p for p in found if p not in ("self", "spec")] == wanted
            assert all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in found.values())
            assert {p: found[p].default for p in wanted} == {p: inspect.signature(of).parameters[p].default for p in wanted}
    with pytest.raises(TypeError):
        dp.plan(ROOT / "specs/matrix/dp-covariance-gaussian.dps").run(datafile="x.csv")  # type: ignore[call-arg]


def test_the_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3}, raising=False)
    assert cores() == 1
