"""docs/how-to.md from its first block to its last, in an empty folder, with the numbers that it promises."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from dpspec.executor.record import Record
from tests.cli.call import call

TEXT = (Path(__file__).parents[2] / "docs" / "how-to.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)


def test_the_page_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = {}
    for language, block in BLOCKS:
        if language == "python":
            exec(compile(block, "docs/how-to.md", "exec"), {})
        elif language == "dpspec":
            (tmp_path / "visits.dps").write_text(block, encoding="utf-8")
        else:
            assert language == "sh"
            for line in block.strip().splitlines():
                words = line.split()
                assert words[0] == "dpspec"
                got = call(*words[1:])
                assert got.code == 0, got
                said[words[1]] = got.stdout
    with open("numbers.csv", newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    with open("visits.csv", newline="", encoding="utf-8") as file:
        visits = list(csv.DictReader(file))
    kept = sum(min(c, 4) for c in Counter(v["patient"] for v in visits).values())
    counts = {row["what"]: float(row["value"]) for row in table if row["release"] == "visits"}
    assert list(counts) == ["children", "day", "night"]
    assert abs(sum(counts.values()) - kept) < 400  # three numbers of scale 12
    for row in table:
        if row["release"] == "minutes":
            assert abs(float(row["value"]) - 32.5) < 6
            assert float(row["low"]) <= float(row["value"]) <= float(row["high"])
        if row["release"] == "quartiles":
            assert 0 < float(row["rank_error"]) < 0.5
    assert {row["release"] for row in table} == {"visits", "minutes", "quartiles"}
    assert all(f"`{word}`" in TEXT for word in table[0])
    assert "epsilon 1" in said["plan"]
    assert Record.read("released").frame().shape[0] == len(table)
