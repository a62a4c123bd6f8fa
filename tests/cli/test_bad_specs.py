"""`dpspec check` on every file of tests/bad_specs: the stated codes at the stated lines and columns, exit 1 or 2, no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.cli.call import call

FOLDER = Path(__file__).parent.parent / "bad_specs"
INDEX = YAML(typ="safe").load((FOLDER / "expected.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(INDEX))
def test_check_finds_the_mistake(name: str) -> None:
    result = call("check", str(FOLDER / name), "--format", "json")
    (file,) = json.loads(result.stdout)["files"]
    found = [
        (d["code"], d["span"]["line"] if d["span"] else 0, d["span"]["column"] if d["span"] else 0)
        for d in file["diagnostics"]
        if d["severity"] != "info"
    ]
    assert sorted(found) == sorted(tuple(e) for e in INDEX[name])
    errors = [d for d in file["diagnostics"] if d["severity"] == "error"]
    assert all(d["help"] for d in errors)
    parsed = not any(d["code"].startswith("DP1") for d in errors)
    assert result.code == (2 if not parsed else 1 if errors else 0)


def test_there_are_at_least_sixty_distinct_mistakes() -> None:
    assert len({tuple(map(tuple, entries)) for entries in INDEX.values()}) >= 60
    assert sum(n.endswith(".yaml") for n in INDEX) >= 15


def test_text_output_underlines_the_place() -> None:
    result = call("check", str(FOLDER / "algorithm-misspelt.dps"))
    assert "algorithm-misspelt.dps:14:3" in result.stdout
    assert "^^^" in result.stdout
    assert "did you mean dp-gd" in result.stdout
    assert result.code == 1
