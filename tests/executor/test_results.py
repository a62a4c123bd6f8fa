"""What a record hands over: tables with names, and predictions that go the way of the run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dpspec
from dpspec.data.sources import load
from dpspec.executor.record import Record
from dpspec.executor.results import columns
from tests.cli.call import call

SPEC = """analysis "hours"

data
  n = 400, d = 4
  from memory target "rich" columns [age, sex]
  private, unit person, neighbours replace-one
  encode age as range(20, 70), sex as levels("Female", "Male")
  intercept
  x in ball(l2, 1.5) by scale
  y in {-1, 1} by map(no -> -1, yes -> 1)

privacy central
  epsilon = 50, delta = 1e-3

release model
  minimise logistic over ball(l2, 5)
  by dp-gd with T = 20

release middle
  estimate mean(x)
"""


@pytest.fixture(scope="module")
def people() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    age = rng.integers(20, 70, 400).astype(float)
    return {"age": age, "sex": rng.choice(["Female", "Male"], 400), "rich": np.where(age > 45, "yes", "no")}


@pytest.fixture(scope="module")
def folder(people: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    (place / "spec.dps").write_text(SPEC)
    dpspec.plan(place / "spec.dps").run(people, out=place / "released")
    return place


@pytest.fixture(scope="module")
def record(folder: Path) -> Record:
    return Record.read(folder / "released")


def test_a_record_is_read_back_as_it_was(record: Record, folder: Path) -> None:
    with np.load(folder / "released" / "model.npz") as arrays:
        assert np.array_equal(arrays["theta"], record.outputs["model"]["theta"])
    assert Record.read(folder / "released" / "record.json").body == record.body
    (folder / "other.json").write_text("[]")
    with pytest.raises(ValueError, match="no record"):
        Record.read(folder / "other.json")


def test_coefficients_have_the_names_of_columns_and_levels(record: Record) -> None:
    table = record.frame()
    assert list(table[table.release == "model"]["what"])[:4] == ["age", "sex=Female", "sex=Male", "intercept"]
    assert np.array_equal(table[table.release == "model"]["value"][:4], record.outputs["model"]["theta"])
    assert list(table[table.release == "middle"]["what"])[:4] == ["age", "sex=Female", "sex=Male", "intercept"]


def test_names_of_columns_from_the_spec_are_those_that_the_loader_gives(people: dict[str, np.ndarray], folder: Path) -> None:
    data = dpspec.load(folder / "spec.dps").analysis.data
    assert columns(data) == load(data, memory=people).columns


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_tables_in_files(record: Record, tmp_path: Path, ending: str) -> None:
    import pandas as pd

    file = record.export(tmp_path / f"t.{ending}")
    read = {"csv": pd.read_csv, "json": pd.read_json, "parquet": pd.read_parquet}[ending](file)
    assert list(read["what"]) == list(record.frame()["what"])
    assert np.allclose(read["value"].astype(float), record.frame()["value"], rtol=1e-9)


def test_another_ending_is_refused(record: Record, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ending"):
        record.export(tmp_path / "t.xls")
    assert not list(tmp_path.iterdir())


def test_records_are_encoded_and_enforced_as_in_the_run(record: Record) -> None:
    found = record.encode({"age": np.array([45.0, 500.0]), "sex": np.array(["Male", "Female"])})
    by_hand = np.array([[0.5, 0, 1, 1], [1.0, 1, 0, 1]])
    by_hand *= np.minimum(1, 1.5 / np.linalg.norm(by_hand, axis=1))[:, None]
    assert np.allclose(found, by_hand, rtol=1e-12)


def test_predictions_are_labels_as_the_spec_writes_them(record: Record, people: dict[str, np.ndarray]) -> None:
    found = record.predict({k: v for k, v in people.items() if k != "rich"})
    margins = record.encode({"age": people["age"], "sex": people["sex"]}) @ record.outputs["model"]["theta"]
    assert np.array_equal(found, np.where(margins > 0, "yes", "no"))
    assert np.mean(found == people["rich"]) > 0.8  # the right way round
    assert len(record.predict({"age": np.array([60.0]), "sex": np.array(["Male"])})) == 1


def test_a_value_that_the_spec_does_not_know_is_named(record: Record) -> None:
    with pytest.raises(dpspec.SpecError, match="row 2: 'X'"):
        record.predict({"age": np.array([45.0, 50.0]), "sex": np.array(["Male", "X"])})


def test_what_predicts_nothing_says_so(record: Record, people: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="model do"):
        record.predict(people, release="middle")


def test_the_commands(folder: Path, tmp_path: Path, record: Record) -> None:
    (tmp_path / "new.csv").write_text("age,sex\n60,Male\n25,Female\n")
    found = call("predict", str(folder / "released" / "record.json"), str(tmp_path / "new.csv"), "--format", "json")
    assert found.code == 0, found.stderr
    assert json.loads(found.stdout) == record.predict(tmp_path / "new.csv").tolist()
    written = call("report", str(folder / "released" / "record.json"), "--table", str(tmp_path / "t.csv"))
    assert written.code == 0, written.stderr
    assert (tmp_path / "t.csv").read_text().startswith("release,what,value")
    assert call("report", str(folder / "spec.dps"), "--table", str(tmp_path / "t.csv")).code == 2


def test_statistics_keep_their_intervals(tmp_path: Path) -> None:
    (tmp_path / "s.dps").write_text(
        'analysis "s"\n\ndata\n  n = 100, d = 1\n  from memory columns [age]\n  private, unit person, neighbours add-remove\n'
        "  x in box(0, 100) by clip\n\nprivacy central\n  epsilon = 1\n\nrelease bands\n  estimate histogram(age, 0, 50, 100)\n"
    )
    table = dpspec.plan(tmp_path / "s.dps").run({"age": np.linspace(0, 100, 100)}).frame()
    assert list(table.columns) == ["release", "what", "value", "standard_error", "low", "high"]
    assert list(table["what"]) == ["[0, 50)", "[50, 100]"]
    assert ((table["low"] <= table["value"]) & (table["value"] <= table["high"])).all()
