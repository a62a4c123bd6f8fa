"""The Dask engine on a cluster of two processes and on Dask's own processes: the bytes of the local engine."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpspec.executor import clusters
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from dpspec.spec.diagnostics import SpecError
from tests.executor.specs import LOGISTIC, SPARSE

dask = pytest.importorskip("dask", reason="the extra is not installed: pip install 'dpspec[dask]'")
distributed = pytest.importorskip("distributed", reason="the extra is not installed: pip install 'dpspec[dask]'")

FILE = (
    LOGISTIC[: LOGISTIC.index("simulate")]
    .replace("map(0 -> -1", "map(-1 -> -1")
    .replace("n = 1_000", "n = 200")
    .replace("private,", 'from "r.csv" target "y"\n  public,')
)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two processes of two threads each: cells of one process must not disturb each other."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as opened,
    ):
        yield opened


def body(text: str, path: str = "s.dps", **options: Any) -> str:
    """The study as it would be written, byte for byte."""
    return json.dumps(study(parse_text(text, path=path, surface="dps"), **options).to_json(), indent=2)


@pytest.mark.parametrize("text", [LOGISTIC, SPARSE])
def test_a_cluster_gives_the_bytes_of_the_local_engine(text: str, client: Any) -> None:
    options: dict[str, Any] = {"trials": 12, "vary": {"n": ("1000",), "epsilon": ("1", "4")}}
    assert body(text, engine="dask", **options) == body(text, workers=1, **options)


def test_on_a_cluster_the_study_file_and_its_cells_are_the_same(client: Any, tmp_path: Path) -> None:
    parsed = parse_text(LOGISTIC, path="l.dps", surface="dps")
    for engine in ("local", "dask"):
        study(parsed, trials=12, vary={"n": ("1000", "2000")}, engine=engine, workers=1, out=tmp_path / engine).write(tmp_path / engine)
    local, dask = ({f.relative_to(tmp_path / e): f.read_bytes() for f in (tmp_path / e).rglob("*.json")} for e in ("local", "dask"))
    assert len(local) == 5  # two points of two cells, and study.json
    assert local == dask


def test_small_cells_share_a_task(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task costs a scheduler ten milliseconds; cells of one trial take less. Each is computed once, and the result is the same."""
    monkeypatch.setattr("dpspec.executor.study.TRIALS_A_CELL", 1)
    tasks: list[int] = []
    submit = client.submit

    def counted(work: Any, cells: Any, *more: Any, **options: Any) -> Any:
        tasks.append(len(cells))
        return submit(work, cells, *more, **options)

    monkeypatch.setattr(client, "submit", counted)
    options: dict[str, Any] = {"trials": 60, "vary": {"n": ("100", "200")}}
    assert body(LOGISTIC, engine="dask", **options) == body(LOGISTIC, workers=1, **options)
    assert sum(tasks) == 120
    assert len(tasks) < 120
    assert max(tasks) <= 120 // (2 * 4)  # four threads: the last tasks are shared out


def test_arrays_in_memory(client: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.5, 0.5, (200, 3))
    memory = (x, np.where(x[:, 0] > 0, 1.0, -1.0))
    text = FILE.replace('from "r.csv" target "y"', "from memory")
    there, here = (json.loads(body(text, trials=12, memory=memory, **options)) for options in ({"engine": "dask"}, {}))
    assert same(there, here)


def same(a: Any, b: Any) -> bool:
    """Equal but for the last digits of numbers: arrays that travelled lie otherwise in memory, and vectorised sums may begin elsewhere."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) else bool(a == b)


def test_workers_that_live_on_read_a_changed_file_again(client: Any, tmp_path: Path) -> None:
    found = []
    for seed in (1, 2):
        x = np.random.default_rng(seed).uniform(-0.5, 0.5, (200, 3))
        table = np.column_stack([x, np.where(x[:, seed] > 0, 1, -1)])
        np.savetxt(tmp_path / "r.csv", table, delimiter=",", header="a,b,c,y", comments="")
        found.append(body(FILE, path=str(tmp_path / "s.dps"), engine="dask", trials=12))
        assert found[-1] == body(FILE, path=str(tmp_path / "s.dps"), trials=12, workers=1)
    assert found[0] != found[1]


@contextmanager
def no_client() -> Iterator[None]:
    yield None


def test_without_a_client_dask_starts_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "client_of", lambda address: no_client())
    options: dict[str, Any] = {"trials": 12, "vary": {"n": ("1000",)}}
    assert body(LOGISTIC, engine="dask", workers=2, **options) == body(LOGISTIC, workers=1, **options)


def test_finished_cells_come_before_the_last_ones_are_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt keeps them: a window of cells at a time, and no more."""
    monkeypatch.setattr(clusters, "AHEAD", 1)
    asked: list[int] = []

    class Pool:
        _max_workers = 2

    def compute(*tasks: Any, **_: Any) -> list[int]:
        asked.append(len(tasks))
        return [0] * len(tasks)

    monkeypatch.setattr("dask.compute", compute)
    found = clusters._on_processes([None] * 5, None, "s", Pool())  # type: ignore[list-item]
    assert next(found) == (0, 0)
    assert asked == [2]
    assert [i for i, _ in found] == [1, 2, 3, 4]
    assert asked == [2, 2, 1]


def test_a_scheduler_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "ANSWERS", "1s")
    with (
        dask.config.set({"scheduler-address": "tcp://127.0.0.1:9"}),
        pytest.raises(SpecError, match=r"127\.0\.0\.1:9 does not answer") as refused,
    ):
        body(LOGISTIC, engine="dask", trials=2)
    assert refused.value.diagnostics[0].code == "DP415"


def test_the_environment_names_the_scheduler(client: Any) -> None:
    """Another process, told of the cluster by the variable alone, computes there and not here."""
    code = (
        "from tests.executor.test_dask import LOGISTIC, body; from dpspec.executor import clusters\n"
        "clusters._on_processes = None\n"
        "print(body(LOGISTIC, engine='dask', trials=12, vary={'n': ('1000',)}))"
    )
    env = os.environ | {"DASK_SCHEDULER_ADDRESS": client.scheduler.address}
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=Path(__file__).parents[2], check=True)
    assert there.stdout.strip() == body(LOGISTIC, trials=12, vary={"n": ("1000",)}, workers=1)
