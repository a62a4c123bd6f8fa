"""kill -9 of client and scheduler (with its workers), and Ctrl-C: what was finished is kept, and the study ends with the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.executor.test_dask import LOGISTIC

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ENV = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
CLUSTER = """
import time
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        time.sleep(600)
"""
WORDS = ("--trials", "120", "--vary", "n=500", "--seed", "3", "--quiet")  # twelve cells


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A scheduler in a process of its own, addressed by its URL, and its workers."""
    file = folder / "cluster.py"
    file.write_text(CLUSTER)
    process = subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, text=True, env=ENV)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def command(spec: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "dpspec", "study", str(spec), "--out", str(out), *WORDS, *more]


def begun(process: subprocess.Popen[str], out: Path, cells: int = 1) -> None:
    """Waits for the first cells."""
    end = time.monotonic() + 120
    while len(list((out / "cells").glob("*.json"))) < cells:
        assert process.poll() is None, "the study ended before it was killed"
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_study_goes_on_after_its_client_and_its_scheduler_were_killed(tmp_path: Path) -> None:
    spec = tmp_path / "a.dps"
    spec.write_text(LOGISTIC)
    whole = tmp_path / "whole"
    done = subprocess.run(command(spec, whole, "--workers", "1"), env=ENV, timeout=300)
    assert done.returncode in (0, 1)
    out = tmp_path / "out"
    with cluster(tmp_path) as (scheduler, address):
        there = ("--engine", "dask", "--scheduler", address)
        client = subprocess.Popen(command(spec, out, *there), text=True, env=ENV, stderr=subprocess.PIPE)
        begun(client, out)
        client.kill()
        client.wait()
        kept = {f.name: f.read_bytes() for f in (out / "cells").glob("*.json")}
        assert not (out / "study.json").exists()

        client = subprocess.Popen(command(spec, out, *there), text=True, env=ENV, stderr=subprocess.PIPE)
        begun(client, out, len(kept) + 1)
        client.send_signal(signal.SIGINT)
        _, said = client.communicate(timeout=120)
        assert client.returncode == 130, said
        assert "the same command resumes there" in said

        now = len(list((out / "cells").glob("*.json")))
        client = subprocess.Popen(command(spec, out, *there), text=True, env=ENV, stderr=subprocess.PIPE)
        begun(client, out, now + 1)
        scheduler.kill()
        _, said = client.communicate(timeout=120)
        assert client.returncode == 2, said
        assert "the Dask scheduler was lost" in said
    assert all((out / "cells" / name).read_bytes() == body for name, body in kept.items())
    done = subprocess.run(command(spec, out, "--workers", "1"), env=ENV, timeout=300)
    assert done.returncode in (0, 1)
    assert (out / "study.json").read_bytes() == (whole / "study.json").read_bytes()
