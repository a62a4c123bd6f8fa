"""Runs and estimators that charge an account: when, how a refusal looks, and that neighbours see the same."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspec as dp
from dpspec.executor import booking as bookings
from dpspec.executor.booking import largest
from dpspec.ledger.book import Ledger, create
from dpspec.ledger.limits import fits, make_limit
from dpspec.ledger.verify import verify
from dpspec.privacy.meter import Release
from dpspec.spec.diagnostics import SpecError
from tests.cli.call import call

N = 40
SPEC = """analysis "income"

data
  n = 40, d = 2
  from "t.csv" target y
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-6

release w
  minimise logistic over ball(l2, 1)
  by dp-gd with T = 3
"""


def records(count: int = N, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(count, 2))
    return np.column_stack([x, x[:, 0] > 0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.dps").write_text(SPEC)
    np.savetxt(tmp_path / "t.csv", records(), delimiter=",", header="a,b,y", comments="")
    return tmp_path


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("plan") / "a.dps"
    file.write_text(SPEC)
    np.savetxt(file.parent / "t.csv", records(), delimiter=",", header="a,b,y", comments="")
    return dp.plan(file)


def opened(folder: Path, **limit: str) -> str:
    url = str(folder / "book.db")
    ledger = create(url)
    ledger.open("team", make_limit(**(limit or {"epsilon": "1.3", "delta": "1e-6", "filters": "gdp"})), data="survey")
    ledger.dispose()
    return url


def kinds(url: str) -> list[str]:
    return [e["kind"] for e in Ledger(url).entries()]


def test_a_run_reserves_commits_and_its_record_names_the_entry(folder: Path):
    url = opened(folder)
    words = ("run", str(folder / "a.dps"), "--ledger", url, "--account", "team", "-q")
    assert call(*words, "--out", str(folder / "o")).code == 0
    record = json.loads((folder / "o" / "record.json").read_text())
    assert record["ledger"] == {**record["ledger"], "account": "team", "entry": 2, "committed": True}
    assert verify(Ledger(url), [("record", record)])["findings"] == []
    assert [e["at"] for e in Ledger(url).entries()][2] is None  # when a run on private data ended tells about them
    refused = call(*words, "--out", str(folder / "o2"))
    detail = json.loads(call(*words, "--format", "json").stdout)["refused"]
    assert (detail["account"], detail["open"], detail["largest"][0]["releases"]) == ("team", [], 1)
    assert float(detail["fits"]["epsilon"]) < 1
    assert refused.code == 1
    assert not (folder / "o2").exists()
    assert "DP701" in refused.stderr
    fit = refused.stderr.split("this analysis fits at epsilon = ")[1].split()[0]
    assert 0.3 < float(fit) < 1
    (folder / "b.dps").write_text(SPEC.replace("epsilon = 1,", f"epsilon = {fit},"))
    assert call("run", str(folder / "b.dps"), "--ledger", url, "--account", "team", "-q").code == 0
    (folder / "b.dps").write_text(SPEC.replace("epsilon = 1,", "epsilon = 0.1,"))
    assert call("run", str(folder / "b.dps"), "--ledger", url, "--account", "team", "-q").code == 1
    assert kinds(url) == ["open", "reserve", "commit", "reserve", "commit"]
    assert call("audit", str(folder / "o" / "record.json")).code == 0


def test_plan_fit_proposes_the_largest_plan(folder: Path):
    url = opened(folder)
    call("run", str(folder / "a.dps"), "--ledger", url, "--account", "team", "-q")
    found = json.loads(call("plan", str(folder / "a.dps"), "--fit", "team", "--ledger", url, "--format", "json").stdout)
    value = float(found["fit"]["epsilon"])
    assert found["guarantee"]["epsilon"] == pytest.approx(value, rel=1e-9)
    ledger = Ledger(url)
    ledger.check("team", found["schedule"])
    more = dp.plan(dp.loads(SPEC.replace("epsilon = 1,", f"epsilon = {value * 1.01:.6f},"), path=str(folder / "a.dps")))
    with pytest.raises(SpecError, match="DP701"):
        ledger.check("team", more.to_json()["schedule"])
    ledger.dispose()


def test_a_fit_may_be_larger_than_the_spec_and_none_fits_in_a_full_account(plan: Any, tmp_path: Path):
    url = opened(tmp_path, epsilon="4", delta="1e-6", filters="gdp")
    ledger = Ledger(url)
    room = ledger.room("team")
    found = largest(plan.draft.parsed, room)
    assert found is not None
    assert 3.5 < float(found.value) < 4
    full = [(account, {**spent, "mu2": account.limit.points[0].filters[0].bound}) for account, spent in room]
    assert fits(full[0][0].limit, full[0][1])
    assert largest(plan.draft.parsed, full) is None


def test_nothing_is_charged_before_the_first_draw_and_everything_after(plan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    url = opened(tmp_path, epsilon="9", delta="1e-6")
    x = records()
    with pytest.raises(SpecError, match="DP5"):
        plan.run(x[:30, :2], x[:30, 2], ledger=url, account="team")  # another n
    assert kinds(url) == ["open"]
    seen: list[list[str]] = []
    real = Release.draw

    def watched(self: Any, *words: Any, **more: Any) -> Any:
        seen.append(kinds(url))
        return real(self, *words, **more)

    monkeypatch.setattr(Release, "draw", watched)
    plan.run(x[:, :2], x[:, 2], ledger=url, account="team")
    assert seen == [["open", "reserve"]] * 3
    monkeypatch.setattr(Release, "draw", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("a fault")))
    with pytest.raises(Exception, match="DP327") as error:
        plan.run(x[:, :2], x[:, 2], ledger=url, account="team")
    assert [words[:34] for words in error.value.__notes__] == ["DP711: entry 4 of account team is r"[:34]]
    assert kinds(url) == ["open", "reserve", "commit", "reserve"]
    assert [r["entry"] for r in Ledger(url).status("team")["open"]] == [4]


def test_neighbours_leave_the_same_entries_and_end_in_the_same_way(plan: Any, tmp_path: Path):
    """What a ledger shows of a run is a function of the plan: hostile records change nothing in it."""
    shown = []
    for i, scale in enumerate((1.0, 1e300, 0.0)):
        (tmp_path / str(i)).mkdir()
        url = opened(tmp_path / str(i))
        x = records() * [scale, scale, 1]
        record = plan.run(x[:, :2], x[:, 2], ledger=url, account="team")
        rows = [{k: v for k, v in e.items() if k in ("seq", "kind", "account", "ref")} for e in Ledger(url).entries()]
        body = list(Ledger(url).entries())[1]["body"]
        named = {k: record.body["ledger"][k] for k in ("account", "entry", "committed")}
        shown.append((rows, body["charges"], body["schedule"], named))
    assert shown[0] == shown[1] == shown[2]


def test_a_run_looks_at_the_clock_once_before_it_reads(plan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """How long records took to load would stand in the time of the reservation otherwise."""
    import datetime as dt

    from dpspec.ledger.clock import Clock, text

    url = opened(tmp_path)
    looked: list[dt.datetime] = []

    def hourly(_: Any) -> dt.datetime:
        looked.append(dt.datetime(2030, 1, 1, len(looked), tzinfo=dt.UTC))
        return looked[-1]

    monkeypatch.setattr(Clock, "now", hourly)
    monkeypatch.setattr(Clock, "boot", lambda _: "")
    x = records()
    plan.run(x[:, :2], x[:, 2], ledger=url, account="team")
    assert len(looked) == 1
    assert [e["at"] for e in Ledger(url).entries()][1:] == [text(looked[0]), None]


def test_a_commit_that_cannot_be_written_loses_no_release(plan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    url = opened(tmp_path)
    x = records()

    def full(*_: Any) -> None:
        raise SpecError([bookings.Diagnostic("DP705", "error", "the disk is full")])

    monkeypatch.setattr(Ledger, "commit", full)
    record = plan.run(x[:, :2], x[:, 2], ledger=url, account="team")
    assert record.body["ledger"]["committed"] is False
    assert record.outputs["w"]["theta"].shape == (2,)
    assert kinds(url) == ["open", "reserve"]


def test_a_fingerprint_admits_one_file(folder: Path):
    url = str(folder / "book.db")
    words = ("ledger", "init", "--ledger", url, "--account", "team", "--data", "survey", "--rho", "1")
    assert call(*words, "--fingerprint", str(folder / "t.csv")).code == 0
    run = ("run", str(folder / "a.dps"), "--ledger", url, "--account", "team", "-q")
    assert call(*run).code == 0
    other = folder / "u.csv"
    other.write_text((folder / "t.csv").read_text() + "\n")
    refused = call(*run, "--data", str(other))
    assert (refused.code, "DP708" in refused.stderr) == (1, True)
    x = records()
    with pytest.raises(SpecError, match="DP708"):
        dp.plan(folder / "a.dps").run(x[:, :2], x[:, 2], ledger=url, account="team")


def test_public_data_and_words_that_stand_alone(folder: Path):
    url = opened(folder)
    public = dp.plan(dp.loads(SPEC.replace("private, unit", "public, unit"), path=str(folder / "a.dps")))
    with pytest.raises(SpecError, match="DP703"):
        public.run(ledger=url, account="team")
    plan = dp.plan(folder / "a.dps")
    for more in ({"ledger": url}, {"account": "team"}, {"ledger": url, "account": "tean"}):
        with pytest.raises(SpecError, match="DP702"):
            plan.run(**more)
    assert kinds(url) == ["open"]


# ----------------------------------------------------------------------------------------------------------------- estimators


def test_cross_validation_charges_every_fit_and_stops_at_the_limit(tmp_path: Path):
    from sklearn.model_selection import GridSearchCV

    url = opened(tmp_path, epsilon="1", delta="0")
    x = records(60)
    model = dp.sklearn.PrivateLogisticRegression(
        epsilon=0.2, delta=None, classes=(0, 1), ledger=url, account="team", algorithm="output-perturbation", alpha=0.1
    )
    search = GridSearchCV(model, {"data_norm": [1.0, 2.0]}, cv=2, refit=True, error_score="raise")
    search.fit(x[:, :2], x[:, 2])
    assert kinds(url) == ["open"] + ["reserve", "commit"] * 5
    with pytest.raises(SpecError, match="DP701"):
        search.fit(x[:, :2], x[:, 2])
    assert kinds(url).count("reserve") == 5


def test_a_second_fit_without_a_ledger_warns_once_with_the_total(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dp.sklearn, "_fits", [])
    x = records(60)

    def fit() -> None:
        words = {"epsilon": 0.25, "delta": None, "classes": (0, 1), "algorithm": "output-perturbation", "alpha": 0.1}
        dp.sklearn.PrivateLogisticRegression(**words).fit(x[:, :2], x[:, 2])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit()
    with pytest.warns(dp.sklearn.BudgetWarning, match="epsilon 0.5 at delta 0 so far") as seen:
        fit()
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit()
    assert dp.sklearn.spent(0.0) == {"releases": 3, "epsilon": 0.75, "delta": 0.0}
