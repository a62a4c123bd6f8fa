"""Where a release is written: claimed before the first draw, never over another one, and silent about how long the run took."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspec as dp
from dpspec.executor.folder import CLAIM, claimed
from dpspec.executor.record import NotWritten, Record
from dpspec.privacy.meter import Release
from dpspec.spec.diagnostics import SpecError
from tests.cli.call import call

N = 30
SPEC = """analysis "where a release is written"

data
  n = 30, d = 2
  from "t.csv" target y
  private, unit person, neighbours RELATION
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-6

release a
  share 1/2
  minimise logistic over ball(l2, 1)
  by dp-gd with T = 3

release b
  share 1/2
  estimate covariance(x)
  by dp-covariance-gaussian
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = [f"{a},{b},{i % 2}" for i, (a, b) in enumerate(rng.normal(size=(N, 2)))]
    (tmp_path / "t.csv").write_text("\n".join(["u,v,y", *rows]) + "\n", encoding="utf-8")
    file = tmp_path / "spec.dps"
    file.write_text(SPEC.replace("RELATION", "replace-one"), encoding="utf-8")
    return file


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the draws that were made."""
    made: list[str] = []
    plain = Release.draw
    monkeypatch.setattr(Release, "draw", lambda self, name, *a, **k: (made.append(name), plain(self, name, *a, **k))[1])
    return made


def contents(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def taken(folder: Path) -> Path:
    folder.write_text("")
    return folder


def below_a_file(folder: Path) -> Path:
    folder.write_text("")
    return folder / "deeper" / "still"


def with_a_record(folder: Path) -> Path:
    folder.mkdir()
    (folder / "record.json").write_text("{}")
    return folder


def with_an_array(folder: Path) -> Path:
    folder.mkdir()
    (folder / "b.npz").write_text("")
    return folder


def with_a_dead_link(folder: Path) -> Path:
    folder.mkdir()
    (folder / "record.json").symlink_to(folder / "nowhere")
    return folder


def held(folder: Path) -> Path:
    folder.mkdir()
    (folder / CLAIM).write_text("")
    return folder


WRONG = [taken, below_a_file, with_a_record, with_an_array, with_a_dead_link, held]


@pytest.mark.parametrize("make", WRONG)
def test_a_folder_that_cannot_take_the_release_is_refused_before_the_first_draw(make: Any, spec: Path, draws: list[str]) -> None:
    out = make(spec.parent / "o")
    before = sorted(str(p) for p in spec.parent.rglob("*"))
    result = call("run", str(spec), "--out", str(out))
    assert (result.code, result.stdout) == (2, "")
    assert "DP416" in result.stderr
    assert "no noise was drawn" in result.stderr
    body = json.loads(call("run", str(spec), "--out", str(out), "--format", "json").stdout)
    assert [d["code"] for d in body["diagnostics"]] == ["DP416"]
    with pytest.raises(SpecError, match="DP416"):
        dp.plan(str(spec)).run(out=out)
    assert draws == []
    assert sorted(str(p) for p in spec.parent.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write_is_refused(spec: Path, draws: list[str]) -> None:
    out = spec.parent / "o"
    out.mkdir(mode=0o500)
    assert call("run", str(spec), "--out", str(out)).code == 2
    assert draws == []


def test_the_first_release_stays(spec: Path, draws: list[str]) -> None:
    out = spec.parent / "o"
    assert call("run", str(spec), "--out", str(out), "-q").code == 0
    first, count = contents(out), len(draws)
    assert sorted(first) == ["a.npz", "b.npz", "record.json"]
    assert call("run", str(spec), "--out", str(out), "-q").code == 2
    assert contents(out) == first
    assert len(draws) == count
    assert call("run", str(spec), "--out", str(spec.parent / "p" / "q"), "-q").code == 0


def test_other_files_of_the_folder_are_left_alone(spec: Path) -> None:
    out = spec.parent / "o"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    assert call("run", str(spec), "--out", str(out), "-q").code == 0
    assert sorted(p.name for p in out.iterdir()) == ["a.npz", "b.npz", "notes.txt", "record.json"]


def test_a_run_that_fails_leaves_no_claim_and_no_folder(spec: Path) -> None:
    def interrupted() -> None:
        with claimed(spec.parent / "o" / "p", ("a",)):
            assert (spec.parent / "o" / "p" / CLAIM).exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not (spec.parent / "o").exists()
    (spec.parent / "t.csv").write_text("u,v,y\n1,2,0\n", encoding="utf-8")
    assert call("run", str(spec), "--out", str(spec.parent / "o")).code == 2
    assert not (spec.parent / "o").exists()


def test_two_runs_do_not_share_a_folder(spec: Path) -> None:
    out = spec.parent / "o"
    with claimed(out, ("a", "b")):
        result = call("run", str(spec), "--out", str(out))
        assert result.code == 2
        assert "a run writes here" in result.stderr
        assert (out / CLAIM).exists()
        (out / CLAIM).unlink()


def test_a_release_that_the_disk_refuses_is_not_lost(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Record, folder: Path) -> Path:
        raise OSError(28, "No space left on device", str(folder / "a.npz"))

    monkeypatch.setattr(Record, "write", full)
    result = call("run", str(spec), "--out", str(spec.parent / "o"), "-q")
    assert result.code == 2
    assert "No space left on device" in result.stderr
    body = json.loads(result.stdout)
    assert np.shape(body["outputs"]["a"]["values"]["theta"]) == (2,)
    with pytest.raises(NotWritten) as caught:
        dp.plan(str(spec)).run(out=spec.parent / "o")
    assert np.shape(caught.value.record.outputs["b"]["theta"]) == (2, 2)


@pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-remove"])
def test_nothing_that_is_written_tells_when_the_run_ended(relation: str, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock goes on by an hour at every look: what is written shows the first one only, the times of the files included."""
    import dpspec.executor.run as module

    spec.write_text(SPEC.replace("RELATION", relation), encoding="utf-8")
    looks: list[dt.datetime] = []

    def now() -> str:
        looks.append(dt.datetime(2020, 1, 1, len(looks), tzinfo=dt.UTC))
        return looks[-1].isoformat(timespec="seconds")

    monkeypatch.setattr(module, "now", now)
    out = spec.parent / "o"
    record = dp.plan(str(spec)).run(out=out)
    body = json.loads((out / "record.json").read_text(encoding="utf-8"))
    assert body["finished"] is None
    assert body["started"] == record.body["started"] == "2020-01-01T00:00:00+00:00"
    assert {p.stat().st_mtime for p in (out, *out.iterdir())} == {dt.datetime(2020, 1, 1, tzinfo=dt.UTC).timestamp()}
    text = (out / "record.json").read_text(encoding="utf-8")
    assert text.count("2020-01-01T") == 1


def test_a_run_on_public_records_says_when_it_ended(spec: Path) -> None:
    spec.write_text(SPEC.replace("RELATION", "replace-one").replace("private, unit", "public, unit"), encoding="utf-8")
    body = dp.plan(str(spec)).run(out=spec.parent / "o").body
    assert body["finished"] >= body["started"]
    assert (spec.parent / "o" / "record.json").stat().st_mtime > dt.datetime.fromisoformat(body["started"]).timestamp() - 2
