"""What a person sees when a run leaves its plan, or is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dpspec.algorithms.convex_erm import dp_gd
from tests.cli.call import call
from tests.compiler.specs import CLASSIFY

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(10_000, 5)), rng.integers(0, 2, 10_000)])
    np.savetxt(tmp_path / "r.csv", rows, delimiter=",", header="a,b,c,d,e,y", comments="")
    file = tmp_path / "a.dps"
    file.write_text(CLASSIFY.replace("  private,", '  from "r.csv" target "y"\n  private,'))
    return file


def test_a_run_that_leaves_its_plan_ends_with_its_code_and_writes_nothing(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = dp_gd.run

    def greedy(records, p, t, release):
        plain(records, p, t, release)
        return release.draw("gradient", np.zeros(p.d), sensitivity=dp_gd.mean_sensitivity(p))

    monkeypatch.setattr(dp_gd, "run", greedy)
    out = spec.parent / "out"
    text = call("run", str(spec), "--out", str(out))
    assert (text.code, text.stdout) == (1, "")
    assert "DP321" in text.stderr
    assert "Traceback" not in text.stderr
    assert not out.exists()
    body = json.loads(call("run", str(spec), "--format", "json").stdout)
    assert [d["code"] for d in body["diagnostics"]] == ["DP321"]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_a_run_with_130_and_no_record(spec: Path) -> None:
    spec.write_text(spec.read_text().replace("T = 50", "T = 900000"))
    out = spec.parent / "out"
    run = subprocess.Popen(
        [sys.executable, "-m", "dpspec", "run", str(spec), "--out", str(out)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    time.sleep(8)
    assert run.poll() is None, run.stderr.read() if run.stderr else ""
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 130
    assert b"Traceback" not in error
    assert not (out / "record.json").exists()
