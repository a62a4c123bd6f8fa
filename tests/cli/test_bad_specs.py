"""`dpspec check` on every file of tests/bad_specs: the stated codes at the stated lines and columns, exit 1 or 2, no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bad_spec_index import FOLDER, INDEX
from tests.cli.call import call


@pytest.mark.parametrize("name", sorted(INDEX))
def test_check_finds_the_mistake(name: str) -> None:
    result = call("check", str(FOLDER / name), "--format", "json")
    (file,) = json.loads(result.stdout)["files"]
    marked = INDEX[name][0][3] is not None
    found = [
        (d["code"], d["span"]["line"], d["span"]["column"], d["span"]["end_column"] if marked else None)
        for d in file["diagnostics"]
        if d["severity"] != "info"
    ]
    assert sorted(found) == sorted(INDEX[name])
    errors = [d for d in file["diagnostics"] if d["severity"] == "error"]
    assert all(d["help"] for d in errors)
    parsed = not any(d["code"].startswith("DP1") for d in errors)
    assert result.code == (2 if not parsed else 1 if errors else 0)


def test_there_are_at_least_sixty_distinct_mistakes() -> None:
    assert len({tuple(map(tuple, entries)) for entries in INDEX.values()}) >= 60
    assert sum(n.endswith(".yaml") for n in INDEX) >= 15


def test_text_output_underlines_the_place() -> None:
    result = call("check", str(FOLDER / "algorithm-misspelt.dps"))
    assert "algorithm-misspelt.dps:14:6" in result.stdout
    assert "   |      ^^^^^^\n" in result.stdout
    assert "did you mean dp-gd" in result.stdout
    assert result.code == 1


YAML_SPEC = """\
dpspec: 1
analysis: a
data:
  n: 1000
  d: 5
  constants:
    x_l2: 3
  sensitivity: private
  unit: person
  neighbours: replace-one
  domain:
    x: ball(l2, 1) by scale
    y: "{-1, 1} by map(0 -> -1, 1 -> 1)"
privacy:
  model: central
  epsilon: 1
  delta: 1e-6
releases:
  weights:
    minimise: logistic
    over: ball(l2, 1)
    by: dp-gd with T = 10, steps = 10
"""


def test_a_name_that_is_the_mistake_is_underlined_in_yaml_too(tmp_path: Path) -> None:
    file = tmp_path / "a.dpspec.yaml"
    file.write_text(YAML_SPEC)
    (found,) = json.loads(call("check", str(file), "--format", "json").stdout)["files"]
    places = {d["code"]: (d["span"]["line"], d["span"]["column"], d["span"]["end_column"]) for d in found["diagnostics"]}
    lines = YAML_SPEC.split("\n")
    for code, line, word in (("DP107", 7, "x_l2"), ("DP405", 22, "steps")):
        column = lines[line - 1].index(word) + 1
        assert places[code] == (line, column, column + len(word))
