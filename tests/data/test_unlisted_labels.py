"""A label that no image of ``map`` covers: of public data refused with row and cell; of private data never told, and every plan warns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpspec import api
from dpspec.spec.diagnostics import SpecError

SPEC = """analysis "labels"

data
  n = 4, d = 2
  from {source} target "y"
  {status}
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map({map})

privacy central
  epsilon = 1, delta = 1e-6

release a
  minimise logistic over ball(l2, 1)
  by dp-gd with T = 2
"""
PRIVATE = "private, unit person, neighbours replace-one"
WORDS = '"no" -> -1, "yes" -> 1'


def spec(tmp_path: Path, cells: list[str], status: str, mapping: str) -> Path:
    rows = "".join(f"0.1,0.2,{cell}\n" for cell in cells)
    (tmp_path / "a.csv").write_text("a,b,y\n" + rows)
    file = tmp_path / "a.dps"
    file.write_text(SPEC.format(source='"a.csv"', status=status, map=mapping))
    return file


@pytest.mark.parametrize(
    ("cells", "mapping", "row", "cell"),
    [
        (["yes", "no", "maybe", "yes"], WORDS, 3, "maybe"),
        (["yes", "no", "no", "Yes"], WORDS, 4, "Yes"),
        (["0", "1", "2", "1"], "0 -> -1, 1 -> 1", 3, "2"),
        (["0", "1", "0.5", "1"], "0 -> -1, 1 -> 1", 3, "0.5"),
        (["x", "1", "x", "0"], "0 -> -1, 1 -> 1", 1, "x"),
    ],
)
@pytest.mark.parametrize("job", ["run", "study"])
def test_public_labels_are_refused_with_row_and_cell(tmp_path: Path, cells: list[str], mapping: str, row: int, cell: str, job: str) -> None:
    file = spec(tmp_path, cells, "public", mapping)
    with pytest.raises(SpecError) as refused:
        (api.run if job == "run" else api.study)(file)
    found = [d for d in refused.value.diagnostics if d.code == ("DP505" if cell == "x" else "DP510")]  # x: where numbers stand
    assert found
    assert f"row {row}: {cell!r}" in found[0].message


@pytest.mark.parametrize("values", [[0, 1, 2, 1], [0.0, 1.0, 0.5, 1.0]])
def test_public_arrays_are_refused_too(values: list[float]) -> None:
    text = SPEC.format(source="memory", status="public", map="0 -> -1, 1 -> 1")
    with pytest.raises(SpecError, match="does not name"):
        api.run(api.loads(text), np.full((4, 2), 0.1), np.array(values))


def test_private_labels_end_alike(tmp_path: Path) -> None:
    """The word becomes the first image; the run ends as its neighbour's does, and says nothing of it."""
    for cells in (["yes", "no", "maybe", "yes"], ["yes", "no", "no", "yes"]):
        record = api.run(spec(tmp_path, cells, PRIVATE, WORDS))
        assert record.to_json()["outputs"]


@pytest.mark.parametrize(
    ("status", "mapping", "warned"),
    [(PRIVATE, WORDS, True), (PRIVATE, "0 -> -1, 1 -> 1", False), ("public", WORDS, False), (PRIVATE, '"a" -> 1, 2 -> -1', True)],
)
def test_every_plan_of_private_words_foretells_it(tmp_path: Path, status: str, mapping: str, warned: bool) -> None:
    codes = [d.code for d in api.check(spec(tmp_path, ["yes"] * 4, status, mapping))]
    assert ("DP525" in codes) == warned
