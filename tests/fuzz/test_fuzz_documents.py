"""Mutated descriptions, plans, records and studies: every command that reads one ends with exit 0, 1 or 2 and never an internal error."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "lang"))

from strategies import examples  # type: ignore[import-not-found]

from dpspec.compiler.plan import make_plan
from dpspec.executor.run import run
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from tests.cli.call import call

SPEC = """analysis "to be mutated"

data
  n = 40, d = 2
  from memory
  public
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(-1 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-4

release a
  minimise logistic over ball(l2, 1)
  by dp-gd with T = 2

simulate
  theta = dense unit l2
  x ~ sphere(1)
  y ~ bernoulli-logistic(2*<theta, x>)

study
  trials 2, seed 1
"""

#: Values that meet every reader: of another kind, out of range, not a number, nested, long.
HOSTILE: list[Any] = [
    None, True, False, 0, 1, -1, 0.5, 1e-300, 1e308, -1e308, 10**400, 2**63, "", "foo", "1e-6", "inf", ".nan", "\x00", "a" * 300,
    [], {}, [None], [[]], {"type": None}, {"epsilon": {}}, [1, "a", None], {"": ""}, float("inf"), float("nan"),
]  # fmt: skip

DESCRIPTIONS: list[dict[str, Any]] = [
    {
        "audit": 1,
        "subject": "a sum",
        "setting": {"model": "central", "unit": "u", "neighbouring": "add_remove", "n": 100, "repeats": 3},
        "claim": {"epsilon": 1, "delta": 1e-6},
        "events": [
            {"type": "gaussian", "l2_sensitivity": 1, "sigma": 5, "count": 3},
            {"type": "laplace", "l1_sensitivity": 1, "scale": 5},
            {"type": "pure", "epsilon": 0.1},
        ],
    },
    {
        "audit": 1,
        "subject": "training",
        "setting": {"model": "central", "unit": "record", "neighbouring": "add_remove", "n": 1000},
        "claim": {"epsilon": 2, "delta": 1e-5},
        "events": [{"type": "sampled_gaussian", "noise_multiplier": 1.1, "sampling_rate": 0.01, "steps": 50}],
    },
    {
        "audit": 1,
        "subject": "a report",
        "setting": {"model": "local", "unit": "report", "neighbouring": "local_replace"},
        "claim": {"epsilon": 1, "delta": 0},
        "channel": {"type": "matrix", "rows": [[0.7, 0.3], [0.3, 0.7]], "inputs": ["a", "b"]},
    },
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A plan, a record and a study of our own, and the spec."""
    import numpy as np

    folder = tmp_path_factory.mktemp("documents")
    spec = folder / "a.dps"
    spec.write_text(SPEC)
    plan = make_plan(parse_text(SPEC, "a.dps"))
    rng = np.random.default_rng(0)
    record = run(plan, rng.normal(size=(40, 2)), rng.choice([-1, 1], 40))
    result = study(parse_text(SPEC, "a.dps"))
    return {"spec": spec, "plan": plan.to_json(), "record": record.to_json(), "study": result.to_json()}


def places(body: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    return [p for key, value in inner for p in ((*at, key), *places(value, (*at, key)))]


@st.composite
def mutated(draw: st.DrawFn, body: Any) -> Any:
    """A document with one to three of its values replaced, removed or doubled."""
    out = copy.deepcopy(body)
    for _ in range(draw(st.integers(1, 3))):
        where = places(out)
        if not where:
            break
        *path, last = draw(st.sampled_from(where))
        parent = out
        for key in path:
            parent = parent[key]
        match draw(st.integers(0, 3)):
            case 0:
                del parent[last]
            case 1 if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[last]))
            case _:
                parent[last] = copy.deepcopy(draw(st.sampled_from(HOSTILE)))
    return out


def ends_well(*words: str) -> None:
    result = call(*words)
    assert result.code in (0, 1, 2), words
    assert "internal error" not in result.stderr, (words, result.stderr)
    assert "Traceback" not in result.stderr


def yaml_of(body: Any) -> str:
    """JSON is YAML but for infinite numbers."""
    return json.dumps(body).replace("-Infinity", "-.inf").replace("Infinity", ".inf").replace("NaN", ".nan")


@pytest.mark.parametrize("which", range(len(DESCRIPTIONS)))
@given(data=st.data())
@examples(60)
def test_descriptions(which: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz-description.yaml"
    file.write_text(yaml_of(data.draw(mutated(DESCRIPTIONS[which]))))
    ends_well("audit", str(file))


@pytest.mark.parametrize("kind", ["plan", "record"])
@given(data=st.data())
@examples(40)
def test_audit_of_our_own_documents(
    kind: str, stored: dict[str, Any], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz-own.json"
    file.write_text(yaml_of(data.draw(mutated(stored[kind]))))
    ends_well("audit", str(file))


@pytest.mark.parametrize("kind", ["plan", "record", "study"])
@given(data=st.data())
@examples(40)
def test_reports(kind: str, stored: dict[str, Any], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz-report.json"
    file.write_text(json.dumps(data.draw(mutated(stored[kind]))))
    ends_well("report", str(file))
    ends_well("report", str(file), "--format", "json")


@given(data=st.data())
@examples(40)
def test_comparisons_with_a_stored_plan(stored: dict[str, Any], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz-plan.json"
    file.write_text(json.dumps(data.draw(mutated(stored["plan"]))))
    own = tmp_path_factory.getbasetemp() / "own-plan.json"
    own.write_text(json.dumps(stored["plan"]))
    ends_well("diff", str(file), str(own))
    ends_well("diff", str(own), str(file))


FILES = {
    "empty": b"",
    "nothing": b"null",
    "binary": bytes(range(256)) * 8,
    "utf-16": "{}".encode("utf-16"),
    "deep": b"[" * 100_000,
    "deep and closed": b'{"a":' * 3000 + b"1" + b"}" * 3000,
    "twice": b'{"format_version": 1, "format_version": 1, "guarantee": {}, "releases": []}',
    "nan": b'{"format_version": 1, "guarantee": {"epsilon": NaN}, "releases": []}',
    "huge": b'{"format_version": 1, "guarantee": {"epsilon": ' + b"9" * 5000 + b'}, "releases": []}',
    "beyond doubles": b'{"format_version": 1, "guarantee": {"mu": ' + b"9" * 400 + b'}, "releases": []}',
    "nulls": b'{"format_version": 1, "guarantee": null, "releases": null}',
    "no releases": b'{"format_version": 1, "guarantee": {}, "releases": null}',
    "release of null": b'{"format_version": 1, "guarantee": {}, "releases": [null]}',
    "a list": b"[1, 2, 3]",
    "study": b'{"mode": "study"}',
    "study of null": b'{"mode": "study", "points": null, "plan": null}',
    "record": b'{"mode": "release"}',
    "one long line": b'{"a": "' + b"x" * 2_000_000 + b'"}',
}


@pytest.mark.parametrize("name", [*FILES, "folder", "missing"])
def test_hostile_files(name: str, stored: dict[str, Any], tmp_path: Path) -> None:
    spec = str(stored["spec"])
    for ending in (".json", ".yaml", ".dps", ".csv"):
        file = tmp_path / f"hostile{ending}"
        if name == "folder":
            file.mkdir()
        elif name != "missing":
            file.write_bytes(FILES[name])
        path = str(file)
        for words in (
            ("audit", path),
            ("report", path),
            ("diff", spec, path),
            ("diff", path, spec),
            ("check", path),
            ("fmt", "--check", path),
        ):
            ends_well(*words)
        ends_well("plan", spec, "--against", path, "-q")
        ends_well("plan", spec, "--constant-from", path, "-q")
        ends_well("run", spec, "--data", path)


@pytest.mark.parametrize("text", ["1e999999999", "-1e-99999999", "1/0", "9" * 2000, "1e400", "1e9999/1e9999"])
def test_numbers_as_text_that_cannot_be_written_out(text: str, tmp_path: Path) -> None:
    """``Fraction("1e999999999")`` would not come back."""
    file = tmp_path / "a.yaml"
    body = copy.deepcopy(DESCRIPTIONS[0])
    body["events"][0]["sigma"] = text
    file.write_text(json.dumps(body))
    ends_well("audit", str(file))
    matrix = tmp_path / "m.csv"
    matrix.write_text(f"0.5,0.5\n{text},1\n")
    ends_well("audit", str(matrix))
