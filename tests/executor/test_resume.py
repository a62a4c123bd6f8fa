"""A study is interrupted, killed, resumed, spread over processes: its bytes do not change."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

from dpspec.executor import workers
from dpspec.executor.study import Interrupted, study
from dpspec.lang.source import parse_text
from tests.executor.specs import SPARSE, start

CELLS = 6 * 3  # six points, 25 trials in cells of ten


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The study that nobody interrupted, by one process."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "a.dps").write_text(SPARSE)
    process = start("study", "a.dps", "--out", "out", "--workers", "1", cwd=folder)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return (folder / "out" / "study.json").read_bytes()


def finished(folder: Path) -> int:
    return len(list((folder / "out" / "cells").glob("*.json")))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("seed", [1, *(pytest.param(i, marks=pytest.mark.slow) for i in range(2, 4))])
def test_killed_at_a_random_point_and_resumed_the_study_is_the_same(tmp_path: Path, whole: bytes, count: int, seed: int) -> None:
    (tmp_path / "a.dps").write_text(SPARSE)
    command = ("study", "a.dps", "--out", "out", "--workers", str(count))
    dice = random.Random(100 * count + seed)
    process = start(*command, cwd=tmp_path)
    enough, deadline = dice.randint(1, CELLS - 4), time.monotonic() + 60
    while finished(tmp_path) < enough and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(dice.random() * 0.05)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out" / "study.json").exists()
    kept = {f.name: f.read_bytes() for f in (tmp_path / "out" / "cells").glob("*.json")}
    assert enough <= len(kept) < CELLS
    times = {f: (tmp_path / "out" / "cells" / f).stat().st_mtime_ns for f in kept}

    again = start(*command, cwd=tmp_path)
    _, errors = again.communicate(timeout=120)
    assert again.returncode == 0, errors
    assert (tmp_path / "out" / "study.json").read_bytes() == whole
    assert {f: (tmp_path / "out" / "cells" / f).stat().st_mtime_ns for f in kept} == times  # none was computed twice


def test_a_torn_or_foreign_cell_is_computed_again(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "a.dps").write_text(SPARSE)
    parsed = parse_text(SPARSE, path="a.dps", surface="dps")
    study(parsed, out=tmp_path, workers=1)
    files = sorted((tmp_path / "cells").glob("*.json"))
    assert len(files) == CELLS
    files[0].write_text(files[0].read_text()[:50])
    files[1].write_text("[]")
    files[2].write_text('{"errors": {"theta": [1.0]}, "reference": {}, "measures": {}, "touched": {}, "trivial": {}}')
    result = study(parsed, out=tmp_path, workers=1)
    assert json.dumps(result.to_json(), sort_keys=True) == json.dumps(json.loads(whole), sort_keys=True)


def test_processes_agree_with_one(monkeypatch: pytest.MonkeyPatch, whole: bytes) -> None:
    """Other processes do part of the work here, however short it is, and nothing changes."""
    started: list[int] = []
    real = workers.begin
    monkeypatch.setattr(workers, "begin", lambda count: started.append(count) or real(count))
    result = study(parse_text(SPARSE, path="a.dps", surface="dps"), workers=3)
    assert started == [2]
    assert json.dumps(result.to_json(), sort_keys=True) == json.dumps(json.loads(whole), sort_keys=True)


def test_ctrl_c_says_what_it_kept(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "a.dps").write_text(SPARSE)
    process = start("study", "a.dps", "--out", "out", cwd=tmp_path)
    deadline = time.monotonic() + 60
    while finished(tmp_path) < 4 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted after" in errors
    assert "of 150 trials" in errors
    assert "kept in out; the same command resumes there" in errors
    assert "Traceback" not in errors + out
    partial = json.loads((tmp_path / "out" / "study.json").read_text())
    assert 1 <= len(partial["points"]) < 6
    full = {json.dumps(p["at"]): p["error"] for p in json.loads(whole)["points"]}
    assert all(p["error"] == full[json.dumps(p["at"])] for p in partial["points"])
    again = start("study", "a.dps", "--out", "out", cwd=tmp_path)
    again.communicate(timeout=120)
    assert (tmp_path / "out" / "study.json").read_bytes() == whole


def test_an_interrupt_carries_the_finished_points() -> None:
    def progress(what: str, done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        study(parse_text(SPARSE, surface="dps"), workers=1, progress=progress)
    assert caught.value.done == 35  # 25 of the first point, ten of the second
    assert caught.value.total == 150
    assert len(caught.value.result.to_json()["points"]) == 1


@pytest.mark.parametrize("count", [1, 2])
def test_stopping_by_precision_depends_on_the_results_alone(tmp_path: Path, count: int) -> None:
    parsed = parse_text(SPARSE.replace("[20_000, 40_000]", "[40_000]").replace("[2, 4, 8]", "[8, 16]"), path="l.dps", surface="dps")
    result = study(parsed, until=0.25, trials=40, seed=1, workers=count, out=tmp_path).to_json()
    plain = study(parsed, trials=40, seed=1, workers=1).to_json()
    for stopped, full in zip(result["points"], plain["points"], strict=True):
        values = full["error"]["values"]
        assert stopped["error"]["values"] == values[: stopped["trials"]]  # the same trials, fewer of them
        assert 20 <= stopped["trials"] <= 40

        def width(k: int, values: list[float] = values) -> float:
            import numpy as np
            from scipy import stats

            e = np.array(values[:k])
            return float(stats.t.ppf(0.975, k - 1) * e.std(ddof=1) / np.sqrt(k) / e.mean())

        first = next((k for k in range(20, 40, 10) if width(k) <= 0.25), 40)
        assert stopped["trials"] == first
    again = study(parsed, until=0.25, trials=40, seed=1, workers=1, out=tmp_path).to_json()
    assert again == result


def test_no_process_outlives_a_killed_parent(tmp_path: Path) -> None:
    """kill -9 of the command must not leave its helpers behind."""
    (tmp_path / "a.dps").write_text(SPARSE)
    process = start("study", "a.dps", "--out", "out", "--workers", "2", "--trials", "2000", cwd=tmp_path)
    group = process.pid  # start_new_session: the processes it starts are of its group
    deadline = time.monotonic() + 60
    while len(members(group)) < 3 and time.monotonic() < deadline:  # the command, its resource tracker, its helper
        time.sleep(0.05)
    time.sleep(1.5)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while members(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert members(group) == []


def members(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_a_script_without_a_main_guard_goes_on_alone(tmp_path: Path, whole: bytes) -> None:
    """The helpers cannot start there (each would run the script again); the study is finished by one process."""
    (tmp_path / "a.dps").write_text(SPARSE)
    script = "import dpspec\nresult = dpspec.study('a.dps', workers=2, out='.')\nresult.write(__import__('pathlib').Path('.'))\n"
    (tmp_path / "s.py").write_text(script)
    import os
    import subprocess
    import sys

    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([sys.executable, "s.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "study.json").read_bytes() == whole
