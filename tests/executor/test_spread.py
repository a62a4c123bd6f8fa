"""Releases whose sums Dask workers compute: the bits of a run in this process under one (test) noise, a worker killed, what is refused."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dpspec as dp
from dpspec.executor import bind, clusters
from dpspec.executor.bind import bound_problem
from dpspec.executor.workers import one_thread
from dpspec.privacy import entropy
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.spec.diagnostics import SpecError
from tests.cli.call import call
from tests.conformance.cases import ALGORITHMS, case, measured, neighbours
from tests.conformance.test_reads import variants
from tests.executor.test_out_of_core import Bytes, N, bits, partitioned, spec

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
cloudpickle = pytest.importorskip("cloudpickle")

NAMES = ("one pass over sums", "one pass over columns", "passes over gradients", "two releases")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes behind a scheduler that is addressed by its URL."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 5}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made,
    ):
        yield made


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> Any:
    def fresh() -> None:
        monkeypatch.setattr(entropy._streams, "stream", Bytes())
        monkeypatch.setattr(entropy._streams, "ahead", {})

    return fresh


@pytest.mark.parametrize("neighbours_", ["replace-one", "add-remove"])
def test_a_release_by_workers_is_that_of_this_process_bit_for_bit(
    tmp_path: Path, cluster: Any, noise: Any, neighbours_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpspec.executor import spread

    monkeypatch.setattr(spread, "LEAST", 1_024)
    partitioned(tmp_path)
    for name in NAMES:
        plan = dp.plan(spec(tmp_path, name, neighbours=neighbours_))
        noise()
        with one_thread():
            here = bits(plan.run().outputs)
        noise()
        assert bits(plan.run(engine="dask", scheduler=cluster.scheduler_address).outputs) == here, name


def test_a_killed_worker_changes_nothing(tmp_path: Path, noise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpspec.executor import spread

    monkeypatch.setattr(spread, "LEAST", 1_024)
    partitioned(tmp_path)
    plan = dp.plan(spec(tmp_path, "passes over gradients"))
    noise()
    with one_thread():
        here = bits(plan.run().outputs)
    noise()
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 5}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = min(client.run(os.getpid).values())
        killed: list[str] = []

        def progress(draw: str, done: int, total: int) -> None:
            if not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(draw)

        there = bits(plan.run(engine="dask", scheduler=cluster.scheduler_address, progress=progress).outputs)
    assert killed
    assert there == here


@pytest.mark.parametrize(("rows", "spoil", "code"), [(N - 1, None, "DP507"), (N, N - 3, "DP504")])
def test_data_that_contradict_the_plan_end_a_run_before_a_draw(
    tmp_path: Path, cluster: Any, rows: int, spoil: int | None, code: str
) -> None:
    partitioned(tmp_path, rows, spoil=spoil)
    drawn: list[str] = []
    with pytest.raises(SpecError) as refused:
        dp.plan(spec(tmp_path, "passes over gradients")).run(
            engine="dask", scheduler=cluster.scheduler_address, progress=lambda draw, done, total: drawn.append(draw)
        )
    assert [d.code for d in refused.value.diagnostics] == [code]
    assert not drawn


def test_what_cannot_be_spread_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partitioned(tmp_path)
    for name, path, said in (
        ("batches of rows", "parts", "dp-sgd does not"),
        ("reports of users", "parts", "ldp-mean does not"),
        ("one pass over sums", "t.csv", "workers reach rows of Parquet and Arrow files"),
    ):
        (tmp_path / "t.csv").write_text("c0,c1,c2,colour,label\n1,2,3,red,no\n")
        with pytest.raises(SpecError, match=said):
            dp.plan(spec(tmp_path, name, path=path)).run(engine="dask")
    file = spec(tmp_path, "one pass over sums")
    monkeypatch.setattr(clusters, "ANSWERS", "1s")
    with pytest.raises(SpecError, match="does not answer") as refused:
        dp.plan(file).run(engine="dask", scheduler="tcp://127.0.0.1:9")
    assert refused.value.diagnostics[0].code == "DP415"
    with pytest.raises(SpecError, match="handed over in memory"):
        dp.plan(file).run(np.zeros((3, 4)), engine="dask")
    for words in (("--engine", "spark"), ("--scheduler", "tcp://h:1"), ("--workers", "2")):
        assert call("run", str(file), *words).code == 2
    assert call("study", str(file), "--scheduler", "tcp://h:1").code == 2


class Each:
    """Records that have nothing but ``each``, whose functions travel as workers get them."""

    def __init__(self, records: Any) -> None:
        self._records = records

    def __getattr__(self, name: str) -> Any:
        if name not in ("n", "d", "has_y", "public_x", "sparse", "mapped"):
            raise TypeError(f"{name} of records that are with the workers")
        return getattr(self._records, name)

    def each(self, rows: int, part: Any) -> Iterator[Any]:
        body = cloudpickle.dumps(part)
        for x, y in self._records.blocks(2):
            yield cloudpickle.loads(body)(x, y)


@measured([m for m in ALGORITHMS if m.CARD.spread])
def test_an_algorithm_that_is_spread_asks_for_nothing_else(module: ModuleType) -> None:
    assert module.CARD.reads in ("sums", "passes")
    for parsed in variants(module):
        try:
            c = case(parsed)
        except AssertionError:  # an option that this spec's budget or domain does not allow
            continue
        r = c.release
        records, _ = bind.enforced(c.draft, neighbours(c)[0])
        meter = Release(r.calibrated, StudyNoise(5), mode="study", public=PublicRandomness(0), per_user=True)
        r.module.run(Each(records), bound_problem(c.draft, r), r.tunables, meter)
        meter.close()
