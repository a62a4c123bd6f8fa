"""Release mode under add-remove: how many records there are is private, so nothing that a run prints, writes, returns or refuses tells it.

Three attacks on that are written out at the end: the time that a run took, what it says on the way, and a solver that gives up.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspec as dp
from dpspec.cli.app import COMMANDS
from dpspec.report.html import page
from tests.cli.call import Result, call

N = 40
SIZES = (0, 1, N - 1, N, N + 1, 20 * N)
NUMBER = re.compile(r"-?\d+\.?\d*(e[-+]?\d+)?|nan|inf")

CLASSIFY = """analysis "classifier"

data
  n = 40, d = 4
  from "t.csv" target label
  private, unit person, neighbours add-remove
  encode colour as levels("red", "green")
  intercept
  x in ball(l2, 1) by scale
  y in {-1, 1} by map("no" -> -1, "yes" -> 1)

privacy central
  epsilon = 1, delta = 1e-6

release weights
  minimise LOSS over SET
  by ALGORITHM
"""
GAUSSIAN = CLASSIFY.replace("LOSS", "logistic").replace("SET", "ball(l2, 1)").replace("ALGORITHM", "dp-gd with T = 5")
RIDGE = CLASSIFY.replace("LOSS", "log(1 + exp(-y*<w, x>)) + 0.1/2*|w|^2").replace("SET", "R^d")
SPECS = {
    "dp-gd": GAUSSIAN,
    "approximate-minima-perturbation": RIDGE.replace("ALGORITHM", "approximate-minima-perturbation"),
    "objective-perturbation": RIDGE.replace("ALGORITHM", "objective-perturbation"),
    "pure": RIDGE.replace("ALGORITHM", "objective-perturbation").replace(", delta = 1e-6", ""),
    "two releases": GAUSSIAN.replace("  by dp-gd", "  share 1/2\n  by dp-gd")
    + "\nrelease moment\n  estimate covariance(x)\n  share 1/2\n  by dp-covariance-gaussian\n",
}


def rows(folder: Path, m: int) -> Path:
    """A file of m records."""
    lines = [f"{20 + i % 50},{('red', 'green')[i % 2]},{('no', 'yes', 'yes')[i % 3]}" for i in range(m)]
    file = folder / "t.csv"
    file.write_text("\n".join(["age,colour,label", *lines]) + "\n", encoding="utf-8")
    return file


def written(folder: Path, text: str) -> Path:
    file = folder / "spec.dps"
    file.write_text(text, encoding="utf-8")
    return file


def without_noise(text: str) -> str:
    """The text with the released numbers and the clock left out. How many numbers there are stays."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:+]+", "TIME", text)
    head, mark, tail = text.partition("outputs")
    return head + mark + NUMBER.sub("#", tail)


def shapes(record: dict[str, Any]) -> dict[str, Any]:
    return {name: {k: np.shape(v) for k, v in out["values"].items()} for name, out in record["outputs"].items()}


@pytest.mark.parametrize("name", SPECS)
def test_a_csv_file_of_any_number_of_rows_gives_the_same_exit_code_and_the_same_words(name: str, tmp_path: Path) -> None:
    spec = written(tmp_path, SPECS[name])
    text, records = [], []
    for m in SIZES:
        rows(tmp_path, m)
        text.append(call("run", str(spec), "--no-color"))
        found = call("run", str(spec), "--format", "json", "--quiet")
        records.append((found.code, found.stderr, json.loads(found.stdout)))
    assert {r.code for r in text} == {0}
    assert len({without_noise(r.stdout) for r in text}) == 1
    assert len({r.stderr for r in text}) == 1
    assert {(code, stderr) for code, stderr, _ in records} == {(0, "")}
    bodies = [{k: v for k, v in body.items() if k not in ("outputs", "started")} for _, _, body in records]
    assert all(body == bodies[0] for body in bodies)
    assert all(shapes(body) == shapes(records[0][2]) for _, _, body in records)
    values = [json.dumps(body["outputs"]) for _, _, body in records]
    assert len(set(values)) == len(SIZES), "the noise is missing"


def test_what_is_written_has_the_same_files_of_the_same_sizes(tmp_path: Path) -> None:
    spec = written(tmp_path, SPECS["two releases"])
    found = []
    for m in SIZES:
        rows(tmp_path, m)
        out = tmp_path / f"out{m}"
        assert call("run", str(spec), "--out", str(out), "--quiet").code == 0
        body = json.loads((out / "record.json").read_text(encoding="utf-8"))
        del body["started"]
        found.append((sorted((p.name, p.stat().st_size) for p in out.iterdir() if p.suffix == ".npz"), sorted(os.listdir(out)), body))
    assert all(f == found[0] for f in found)
    assert found[0][1] == ["moment.npz", "record.json", "weights.npz"]


def memory(m: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(m, 3)), np.where(rng.random(m) < 0.5, -1.0, 1.0)


FROM_MEMORY = GAUSSIAN.replace('from "t.csv" target label', "from memory").replace('  encode colour as levels("red", "green")\n', "")
FROM_MEMORY = FROM_MEMORY.replace('"no" -> -1, "yes" -> 1', "-1 -> -1, 1 -> 1")


def sparse(x: np.ndarray) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(x)


def frame(x: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(x, columns=["a", "b", "c"])


@pytest.mark.parametrize("kind", [np.asarray, sparse, frame, np.ndarray.tolist])
def test_from_memory(kind: Any) -> None:
    plan = dp.plan(dp.loads(FROM_MEMORY))
    found = []
    for m in SIZES:
        x, y = memory(m)
        record = plan.run(kind(x), y)
        assert "finished" not in without_noise(repr(record))
        body = record.to_json()
        assert all(np.isfinite(v).all() for v in body["outputs"]["weights"]["values"].values())
        found.append((without_noise(repr(record)), shapes(body), body["events"], body["guarantee"]))
    assert all(f == found[0] for f in found)


def test_n_is_a_number_that_sums_are_divided_by() -> None:
    """The second moment of m records is (1/n) times their sum: with m = 2n like records it is twice one of them, up to the noise, whose
    size is that of the plan for n."""
    text = FROM_MEMORY[: FROM_MEMORY.index("release")].replace("  intercept\n", "").replace("d = 4", "d = 3") + (
        "release moment\n  estimate covariance(x)\n  by dp-covariance-gaussian\n"
    )
    plan = dp.plan(dp.loads(text.replace("epsilon = 1,", "epsilon = 100,")))
    x = np.tile([[1.0, 0.0, 0.0]], (2 * N, 1))
    record = plan.run(x, np.ones(2 * N))
    (event,) = record.body["events"]
    assert event["sensitivity"] == pytest.approx(1 / N, rel=1e-9)
    noisy = np.asarray(record.outputs["moment"]["theta"])
    assert np.abs(noisy - np.diag([2.0, 0.0, 0.0])).max() < 8 * event["scale"]
    assert 8 * event["scale"] < 0.5


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_under_the_other_relations_n_is_how_many_there_are(relation: str, tmp_path: Path) -> None:
    """Neighbours have equally many records there, so a refusal tells nothing that is protected."""
    spec = written(tmp_path, GAUSSIAN.replace("add-remove", relation))
    for m in (0, 1, N - 1, N + 1):
        rows(tmp_path, m)
        refused = call("run", str(spec))
        assert refused.code == 2
        assert ("DP507" if m > 1 else "DP509") in refused.stderr
    rows(tmp_path, N)
    assert call("run", str(spec), "--quiet").code == 0


def test_a_plan_says_that_its_bounds_are_for_n_records() -> None:
    spec = "  minimise logistic over ball(l2, 1)\n  by dp-gd with T = 5, momentum = 0\n"
    text = GAUSSIAN[: GAUSSIAN.index("  minimise")] + spec
    for relation, said in (("add-remove", True), ("replace-one", False)):
        plan = dp.plan(dp.loads(text.replace("add-remove", relation))).to_json()
        conditions = [c for b in plan["releases"][0]["bounds"] for c in b["holds_if"]]
        assert any("n records" in c for c in conditions) == said


@pytest.mark.parametrize("modifier", ["labels only", "attribute"])
@pytest.mark.parametrize("relation", ["add-remove", "zero-out", "replace-one"])
def test_where_a_part_of_a_record_is_protected_it_is_replaced(modifier: str, relation: str) -> None:
    """The sensitivity of an absent record, L/n, is not that of another label: two gradients are up to 2L apart."""
    text = FROM_MEMORY.replace("add-remove", relation).replace("privacy central", f"privacy central, {modifier}")
    found = [d.code for d in dp.check(dp.loads(text)) if d.severity == "error"]
    assert found == ([] if relation == "replace-one" else ["DP306"])


# ------------------------------------------------------------------------------------------------------------- three attacks


def test_attack_1_the_record_does_not_tell_how_long_the_run_took(tmp_path: Path) -> None:
    """Loading and summing a hundred times as many records takes longer, and the record used to say when the run finished. Under add-remove
    it says when it started, which is before the records are read, and nothing else in it is a time."""
    spec = written(tmp_path, GAUSSIAN)
    rows(tmp_path, N)
    body = json.loads(call("run", str(spec), "--format", "json").stdout)
    assert body["finished"] is None
    times = re.findall(r"\d{4}-\d\d-\d\dT[\d:]+", json.dumps(body))
    assert times == [body["started"][:19]]
    assert len(re.findall(r"\d{4}-\d\d-\d\dT[\d:]+", page(body))) == 1
    public = GAUSSIAN.replace("add-remove", "replace-one").replace("private, unit", "public, unit")
    other = json.loads(call("run", str(written(tmp_path, public)), "--format", "json").stdout)
    assert other["finished"] >= other["started"]
    assert len(re.findall(r"\d{4}-\d\d-\d\dT[\d:]+", page(other))) == 2


def test_attack_1_the_clock_is_read_before_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that is taken after loading tells, to whoever knows when the command was given, how long loading took."""
    import dpspec.data.sources as sources
    import dpspec.executor.run as module

    order: list[str] = []
    load, now = sources.load, module.now
    monkeypatch.setattr(sources, "load", lambda *a, **k: (order.append("load"), load(*a, **k))[1])
    monkeypatch.setattr(module, "now", lambda: (order.append("clock"), now())[1])
    dp.plan(dp.loads(FROM_MEMORY)).run(*memory(N))
    assert order == ["clock", "load"]


def test_attack_2_nothing_is_said_on_the_way(tmp_path: Path) -> None:
    """Warnings of the libraries (a mean of no records, a division by nought, a type that cannot be guessed), log lines and stray prints."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.DEBUG)
    heard = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for name, text in SPECS.items():
                spec = written(tmp_path, text)
                for m in SIZES:
                    rows(tmp_path, m)
                    result: Result = call("run", str(spec), "--quiet")
                    heard.append((name, m, result.stdout, result.stderr, stream.getvalue()))
    finally:
        logging.getLogger().removeHandler(handler)
        logging.getLogger().setLevel(level)
    assert [
        str(w.message) for w in caught if "dpspec" in str(w.filename) or "numpy" in str(w.filename) or "pyarrow" in str(w.filename)
    ] == []
    assert {h[2:] for h in heard} == {("", "", "")}


def test_attack_2_in_a_process_of_its_own(tmp_path: Path) -> None:
    """As a user runs it, every warning shown: both streams are the same for no record and for more than n, but for the noise."""
    spec = written(tmp_path, GAUSSIAN)
    assert "run" in COMMANDS
    said = set()
    for m in (0, N + 1):
        rows(tmp_path, m)
        command = [sys.executable, "-W", "always", "-m", "dpspec", "run", str(spec), "--no-color"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        said.add((done.returncode, without_noise(done.stdout), done.stderr))
    assert len(said) == 1
    assert next(iter(said))[0] == 0


@pytest.mark.parametrize("name", ["approximate-minima-perturbation", "objective-perturbation", "pure"])
def test_attack_3_no_solver_gives_up_on_many_times_n_records(name: str, tmp_path: Path) -> None:
    """A solver whose steps are set for n records diverges on many more, and its failure would be a statement about how many there are."""
    rng = np.random.default_rng(7)
    text = SPECS[name].replace('from "t.csv" target label', "from memory").replace('  encode colour as levels("red", "green")\n', "")
    text = text.replace('"no" -> -1, "yes" -> 1', "-1 -> -1, 1 -> 1")
    for over in ("R^d", "ball(l2, 1)"):
        plan = dp.plan(dp.loads(text.replace("over R^d", f"over {over}")))
        for m in (10 * N, 250 * N):
            x = rng.normal(size=(m, 3))
            y = np.where(x[:, 0] + 0.3 * rng.normal(size=m) > 0, 1.0, -1.0)
            assert np.isfinite(plan.run(x, y).outputs["weights"]["theta"]).all()
            assert np.isfinite(plan.run(np.ones((m, 3)) * 1e6, np.resize([1.0, -1.0], m)).outputs["weights"]["theta"]).all()
