"""Every spec of the gallery, and every form of the language: read, validated, converted there and back, formatted."""

from __future__ import annotations

from pathlib import Path

import pytest
from forms import specs
from jsonschema import Draft7Validator
from ruamel.yaml import YAML

from dpspec.lang.format import convert, format_text
from dpspec.lang.source import parse_file, parse_text, spec_files
from dpspec.spec.schema import json_schema

ROOT = Path(__file__).parent.parent.parent
GALLERY = list(spec_files(ROOT / "specs")) if (ROOT / "specs").is_dir() else []
VALIDATOR = Draft7Validator(json_schema())


@pytest.mark.parametrize("path", GALLERY, ids=lambda p: str(p.relative_to(ROOT)))
def test_gallery(path: Path) -> None:
    parsed = parse_file(path)
    yaml, dps = convert(parsed, "yaml"), convert(parsed, "dps")
    assert parse_text(yaml, "a.dpspec.yaml").analysis == parsed.analysis
    assert parse_text(dps, "a.dps").analysis == parsed.analysis
    if parsed.surface == "yaml":
        loaded = YAML(typ="safe", pure=True).load(parsed.text)
        assert [e.message for e in VALIDATOR.iter_errors(loaded)] == []
    assert [e.message for e in VALIDATOR.iter_errors(YAML(typ="safe", pure=True).load(yaml))] == []
    once = format_text(parsed.text, str(path))
    assert format_text(once, str(path)) == once


@pytest.mark.parametrize("name", sorted(specs()))
def test_forms(name: str) -> None:
    parsed = parse_text(specs()[name], "a.dps")
    yaml = convert(parsed, "yaml")
    there = parse_text(yaml, "a.dpspec.yaml")
    assert there.analysis == parsed.analysis
    assert parse_text(convert(there, "dps"), "a.dps").analysis == parsed.analysis
    once = format_text(parsed.text, "a.dps")
    assert format_text(once, "a.dps") == once
