"""The JSON Schema accepts what the parser accepts and refuses what a schema can see is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forms import specs
from hypothesis import given
from jsonschema import Draft7Validator
from ruamel.yaml import YAML
from strategies import analyses, examples

from dpspec.lang.printer import to_yaml
from dpspec.lang.source import parse_text
from dpspec.lang.yaml_front import DATA, FROM, PRIVACY, PUBLIC, RELEASE, STUDY, TOP
from dpspec.spec.model import Analysis
from dpspec.spec.schema import json_schema

SCHEMA = json_schema()
VALIDATOR = Draft7Validator(SCHEMA)
BAD = Path(__file__).parent.parent / "bad_specs"

BY_HAND = """\
# every key once, written by a person
dpspec: 1
analysis: income model
data:
  n: 48842
  d: 13
  constants:
    k: 5
    λ: 0.1
  from: {path: adult.csv, target: income>50K, columns: [age, hours]}
  encode:
    age: one-hot(9)
    hours: range(0, 84)
  intercept: true
  sensitivity: private
  unit: person
  neighbours: replace-one
  domain:
    x: ball(l2, 1) by scale
    y: '{-1, 1}'
privacy:
  model: central
  labels-only: false
  attribute: false
  online: false
  public: {variable: x, m: 1e4, path: pub.csv}
  epsilon: 1
  delta: 1/n^1.1
assume: [convex, lipschitz(1), "moment(order 2, bound 10) of gradient"]
releases:
  weights:
    minimise: log(1 + exp(-y*⟨w, x⟩)) + λ/2*‖w‖²
    over: ball(l2, 1)
    by: dp-svrg with epochs = 8
    expect: excess-empirical-risk <= 0.05 with probability 0.95
    share: 2
simulate:
  - x ~ normal(0, I)
study:
  vary:
    n: [1e4, 1e5]
    epsilon: log-grid(0.1, 10, 5)
  trials: 50
  seed: 7
  compare: [dp-gd, dp-svrg]
"""


def load(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def problems(text: str) -> list[str]:
    return [e.message for e in VALIDATOR.iter_errors(load(text))]


def nodes(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every schema that describes a value of the spec, with its place."""
    if isinstance(schema, dict):
        for key, value in schema.get("properties", {}).items():
            yield f"{path}.{key}", value
            yield from nodes(value, f"{path}.{key}")
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                yield f"{path}[]", schema[key]
                yield from nodes(schema[key], f"{path}[]")
        for branch in schema.get("oneOf", []):
            yield from nodes(branch, path)


def test_is_a_draft_7_schema() -> None:
    Draft7Validator.check_schema(SCHEMA)


def test_every_field_is_described() -> None:
    found = dict(nodes(SCHEMA))
    assert len(found) > 45
    assert [place for place, schema in found.items() if len(schema.get("description", "")) < 6] == []


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ((), TOP),
        (("data",), DATA),
        (("privacy",), PRIVACY),
        (("study",), STUDY),
    ],
)
def test_keys_are_the_parsers(place: tuple[str, ...], keys: tuple[str, ...]) -> None:
    schema = SCHEMA
    for key in place:
        schema = schema["properties"][key]
    assert sorted(schema["properties"]) == sorted(keys)


def test_inner_keys_are_the_parsers() -> None:
    p = SCHEMA["properties"]
    assert sorted(p["releases"]["additionalProperties"]["properties"]) == sorted(RELEASE)
    assert sorted(p["data"]["properties"]["from"]["oneOf"][0]["properties"]) == sorted(FROM)
    assert sorted(p["privacy"]["properties"]["public"]["oneOf"][0]["properties"]) == sorted(PUBLIC)


def test_spec_by_hand() -> None:
    assert problems(BY_HAND) == []
    parsed = parse_text(BY_HAND, "a.dpspec.yaml")
    assert problems(to_yaml(parsed.analysis)) == []


@pytest.mark.parametrize("name", sorted(specs()))
def test_every_form(name: str) -> None:
    assert problems(to_yaml(parse_text(specs()[name], "a.dps").analysis)) == []


@given(analyses())
@examples(15)
def test_whatever_is_printed_validates(a: Analysis) -> None:
    assert problems(to_yaml(a)) == []


@pytest.mark.parametrize(
    "name",
    [
        "version-missing",
        "version-2",
        "unknown-top-key",
        "unknown-data-key",
        "unknown-release-key",
        "unknown-word-neighbours",
        "unquoted-set",
        "value-missing",
        "list-where-mapping",
        "assume-not-a-list",
        "from-two-sources",
        "from-nothing",
        "intercept-not-a-flag",
        "releases-is-a-list",
        "task-missing",
        "release-name-with-space",
    ],
)
def test_refuses(name: str) -> None:
    assert problems((BAD / f"{name}.dpspec.yaml").read_text(encoding="utf-8"))
