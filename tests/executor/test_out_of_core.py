"""Releases of records that are not held in memory: the same bits as in memory under the same (test) noise, and the same refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspec as dp
from dpspec.data.stream import Stored, Streamed
from dpspec.executor import reading
from dpspec.ledger.book import create
from dpspec.ledger.limits import make_limit as limit
from dpspec.privacy import entropy
from dpspec.spec.diagnostics import SpecError

N, D = 5_000, 6

DATA = """analysis "large"

data
  n = {n}, d = {d}
  from "{path}" target label
  private, unit person, neighbours {neighbours}
  encode colour as levels("red", "green")
  intercept
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map("no" -> -1, "yes" -> 1)

privacy {model}
  epsilon = 1, delta = 1e-6

{releases}
"""
WEIGHTS = "release weights\n  minimise {loss} over ball(l2, 1)\n  by {by}\n"
LOGISTIC = "log(1 + exp(-y*<w, x>))"
SPECS: dict[str, tuple[str, str]] = {
    "one pass over sums": ("central", "release moment\n  estimate second-moment(x)\n  by dp-covariance-gaussian\n"),
    "one pass over columns": ("central", "release m\n  estimate mean(x)\n  by dp-mean\n"),
    "passes over gradients": ("central", WEIGHTS.format(loss=LOGISTIC, by="dp-gd with T = 4")),
    "batches of rows": ("central", WEIGHTS.format(loss=LOGISTIC, by="dp-sgd with T = 5, b = 100")),
    "reports of users": ("nldp", "release m\n  estimate mean(x)\n  by ldp-mean\n"),
    "two releases": (
        "central",
        "release moment\n  estimate second-moment(x)\n  share 1/2\n  by dp-covariance-gaussian\n\n"
        + WEIGHTS.format(loss=LOGISTIC, by="dp-gd with T = 2").replace("  by", "  share 1/2\n  by"),
    ),
}


def spec(folder: Path, name: str, *, path: str = "parts", n: int = N, neighbours: str = "replace-one") -> Path:
    model, releases = SPECS[name]
    file = folder / "spec.dps"
    file.write_text(DATA.format(n=n, d=D, path=path, model=model, releases=releases, neighbours=neighbours), encoding="utf-8")
    return file


def partitioned(folder: Path, n: int = N, *, spoil: int | None = None) -> Path:
    """n records in a folder of Parquet files of unlike sizes and row groups; ``colour`` is stated by the folders below it."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, D - 3)), rng.choice(["no", "yes"], n)
    if spoil is not None:
        x[spoil, 0] = np.nan
    root = folder / "parts"
    for i, (a, b) in enumerate(zip((0, n // 7, n // 2), (n // 7, n // 2, n), strict=True)):
        columns = {f"c{j}": x[a:b, j] for j in range(D - 3)} | {"label": y[a:b]}
        at = root / f"colour={('green', 'red')[i % 2]}"
        at.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), str(at / f"{i}.parquet"), row_group_size=313)
    return root


class Bytes:
    """The same bytes in every run, in the place of the secure stream."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)

    def take(self, n: int) -> bytes:
        return self.rng.bytes(n)


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> Any:
    def fresh() -> None:
        monkeypatch.setattr(entropy._streams, "stream", Bytes())
        monkeypatch.setattr(entropy._streams, "ahead", {})

    return fresh


def released(file: Path) -> dict[str, dict[str, Any]]:
    return dp.plan(file).run().outputs


def bits(outputs: dict[str, dict[str, Any]]) -> dict[str, bytes]:
    return {f"{r}.{name}": np.asarray(a).tobytes() for r, arrays in outputs.items() for name, a in arrays.items()}


def spying(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The records that runs are given."""
    seen: list[Any] = []
    real = reading.read

    def read(*args: Any, **more: Any) -> Any:
        found = real(*args, **more)
        seen.append(found.records)
        return found

    monkeypatch.setattr(reading, "read", read)
    return seen


@pytest.mark.parametrize("name", SPECS)
def test_a_release_is_that_of_the_records_in_memory_bit_for_bit(
    tmp_path: Path, name: str, noise: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitioned(tmp_path)
    file = spec(tmp_path, name)
    noise()
    inside = bits(released(file))
    seen = spying(monkeypatch)
    monkeypatch.setattr(reading, "SMALL", 0)
    noise()
    assert bits(released(file)) == inside
    assert type(seen[0]) is (Streamed if name.startswith("one pass") else Stored)


@pytest.mark.parametrize("name", ["one pass over sums", "passes over gradients"])
@pytest.mark.parametrize(("rows", "spoil", "code"), [(N - 1, None, "DP507"), (N, N - 3, "DP504"), (N, 5, "DP504")])
def test_data_that_contradict_the_plan_end_a_run_before_anything_is_charged(
    tmp_path: Path, name: str, rows: int, spoil: int | None, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stands, also where it shows while the algorithm reads."""
    monkeypatch.setattr(reading, "SMALL", 0)
    partitioned(tmp_path, rows, spoil=spoil)
    url = str(tmp_path / "ledger.db")
    ledger = create(url)
    try:
        ledger.open("team", limit(rho="100"), data="parts", unit="person", relation="replace-one")
        plan = dp.plan(spec(tmp_path, name))
        drawn: list[str] = []
        with pytest.raises(SpecError) as refused:
            plan.run(progress=lambda draw, done, total: drawn.append(draw), out=tmp_path / "out", ledger=url, account="team")
        assert [d.code for d in refused.value.diagnostics] == [code]
        assert not drawn
        assert not (tmp_path / "out").exists()
        assert [entry["kind"] for entry in ledger.entries()] == ["open"]
        partitioned(tmp_path)
        plan.run(ledger=url, account="team")
        assert [entry["kind"] for entry in ledger.entries()] == ["open", "reserve", "commit"]
    finally:
        ledger.dispose()


@pytest.mark.parametrize("name", ["one pass over sums", "passes over gradients"])
def test_under_add_remove_any_number_of_records_is_read(tmp_path: Path, name: str, noise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for rows in (14, N - 1, N + 1):
        folder = tmp_path / str(rows)
        folder.mkdir()
        partitioned(folder, rows)
        file = spec(folder, name, neighbours="add-remove")
        monkeypatch.setattr(reading, "SMALL", 64 << 20)
        noise()
        inside = bits(released(file))
        monkeypatch.setattr(reading, "SMALL", 0)
        noise()
        assert bits(released(file)) == inside


def test_records_that_do_not_fit_are_refused_before_one_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the public n and d: the file is not even there."""
    file = spec(tmp_path, "one pass over sums", path="records.svm", n=10**9)
    text = file.read_text(encoding="utf-8").replace('  encode colour as levels("red", "green")\n', "").replace(" target label", "")
    file.write_text("\n".join(line for line in text.splitlines() if not line.startswith("  y in")), encoding="utf-8")
    plan = dp.plan(file)
    monkeypatch.setattr(reading, "available", lambda: 10**9)
    monkeypatch.setattr(reading, "source_of", lambda *_: None)
    with pytest.raises(SpecError) as refused:
        plan.run()
    assert [d.code for d in refused.value.diagnostics] == ["DP526"]
    assert "224 GB" in refused.value.diagnostics[0].message


def test_a_plan_says_what_its_records_take(tmp_path: Path) -> None:
    partitioned(tmp_path)
    large = {name: dp.plan(spec(tmp_path, name, n=10**8)).to_json()["releases"][0] for name in SPECS}
    assert large["one pass over sums"]["reads"] == "sums"
    assert large["one pass over sums"]["cost"]["disk_bytes"] == 0
    assert large["passes over gradients"]["cost"]["disk_bytes"] == 8 * 10**8 * (D + 1)
    assert large["passes over gradients"]["cost"]["records_bytes"] == large["one pass over sums"]["cost"]["records_bytes"] < 2**28


def test_how_records_are_read_is_no_part_of_what_a_plan_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from dpspec.algorithms.registry import get

    partitioned(tmp_path)
    file = spec(tmp_path, "passes over gradients")
    before = dp.plan(file)
    module = get("dp-gd")
    monkeypatch.setattr(module, "CARD", replace(module.CARD, reads="whole"))
    after = dp.plan(file)
    assert before.to_json()["sha256"] == after.to_json()["sha256"]
    assert before.to_json()["releases"][0]["cost"] != after.to_json()["releases"][0]["cost"]


LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np
import dpspec as dp
from dpspec.executor import reading
from dpspec.privacy import entropy
from tests.executor.test_out_of_core import Bytes, bits, released
limit = int(sys.argv[2])
entropy._streams.stream = Bytes()
if limit:
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
else:
    reading.SMALL = 1 << 62
import hashlib
print({k: hashlib.sha256(v).hexdigest() for k, v in bits(released(Path(sys.argv[1]))).items()})
"""


def limited(file: Path, limit: int) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).resolve().parents[2]
    env = os.environ | {
        "PYTHONPATH": str(root),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "1",
    }
    return subprocess.run([sys.executable, "-c", LIMITED, str(file), str(limit)], capture_output=True, text=True, env=env, timeout=600)


LIMIT = 832 << 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is kept by Linux")
def test_a_folder_larger_than_the_memory_of_the_process_gives_the_release_of_memory(tmp_path: Path) -> None:
    d, files = 48, 12
    n = LIMIT * 9 // 8 // (8 * d) // files * files
    rng = np.random.default_rng(0)
    one = pa.table({f"c{j}": rng.normal(size=n // files) for j in range(d)} | {"unused": np.zeros(n // files)})
    for i in range(files):
        at = tmp_path / "parts" / f"part={i % 4}"
        at.mkdir(parents=True, exist_ok=True)
        pq.write_table(one.slice(i, n // files - i), str(at / f"{i}.parquet"), compression="none", use_dictionary=False)
    rows = n - sum(range(files))
    on_disk = sum(f.stat().st_size for f in (tmp_path / "parts").rglob("*.parquet"))
    assert on_disk > LIMIT
    columns = ", ".join(f'"c{j}"' for j in range(d))
    file = tmp_path / "spec.dps"
    file.write_text(
        f'analysis "large"\n\ndata\n  n = {rows}, d = {d}\n  from "parts" columns [{columns}]\n'
        "  private, unit person, neighbours replace-one\n  x in ball(l2, 1) by scale\n\n"
        f"privacy central\n  epsilon = 1, delta = 1e-9\n\nrelease m\n  estimate second-moment(x)\n  by dp-covariance-gaussian\n",
        encoding="utf-8",
    )
    inside, outside = limited(file, 0), limited(file, LIMIT)
    assert outside.returncode == 0, outside.stderr[-2000:]
    assert inside.stdout == outside.stdout != ""
