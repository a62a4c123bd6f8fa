"""Every fault of a card names a test, or a derivation of docs/faults.md, that exists."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dpspec.algorithms.card import Fault
from dpspec.algorithms.registry import all_modules
from tests import leak

ROOT = Path(__file__).parents[2]
FAULTS = [pytest.param(fault, id=f"{module.CARD.id}-{i}") for module in all_modules() for i, fault in enumerate(module.CARD.faults)]


@cache
def functions_of(file: str) -> dict[str, ast.FunctionDef]:
    """The functions in a file by name, those in classes included."""
    path = ROOT / file
    if not path.is_file():
        return {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@cache
def derivations() -> dict[str, str]:
    text = (ROOT / "docs/faults.md").read_text(encoding="utf-8")
    return {name: body.strip() for name, body in re.findall(r"^### (\S+)\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_names_what_shows_it(fault: Fault) -> None:
    file, _, name = fault.evidence.partition("::")
    if file.startswith("docs/"):
        page, _, section = file.partition("#")
        assert page == "docs/faults.md"
        assert fault.severity != "privacy", "a fault of privacy names a test"
        assert len(derivations()[section]) > 60, "a derivation says why"
    else:
        assert name.partition("[")[0] in functions_of(file), fault.evidence


def test_every_derivation_is_named_by_a_fault() -> None:
    named = {p.values[0].evidence.partition("#")[2] for p in FAULTS}  # type: ignore[attr-defined]
    assert set(derivations()) <= named


PRIVACY = sorted({p.values[0].evidence for p in FAULTS if p.values[0].severity == "privacy"})  # type: ignore[attr-defined]


@pytest.mark.parametrize("evidence", PRIVACY)
def test_a_fault_of_privacy_has_a_witness(evidence: str) -> None:
    """Its test calls one of `tests/leak.py`, which demands a lower bound above what is stated; the table holds what it said."""
    file, _, name = evidence.partition("::")
    called = {
        node.func.attr
        for node in ast.walk(functions_of(file)[name])
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "leak"
    }
    assert called & {"epsilon", "delta", "event", "certain", "disjoint", "moved", "chosen"}


def test_the_table_of_witnesses_is_current() -> None:
    found = importlib.util.spec_from_file_location("gen_faults", ROOT / "docs" / "gen_faults.py")
    assert found is not None
    assert found.loader is not None
    generator = importlib.util.module_from_spec(found)
    found.loader.exec_module(generator)
    assert (ROOT / "docs" / "faults.md").read_text(encoding="utf-8") == generator.document()
    assert set(json.loads(generator.FOUND.read_text(encoding="utf-8"))) == set(PRIVACY)


def test_a_witness_that_shows_nothing_fails() -> None:
    """The helpers themselves: a bound at or below what is stated, equal outputs and shared outputs are no leak."""
    for nothing in (
        lambda: leak.epsilon(1.0, 1.0),
        lambda: leak.delta(1e-5, 1e-5, 1.0),
        lambda: leak.certain(np.ones(2), np.ones(2)),
        lambda: leak.disjoint({1, 2}, {2, 3}),
        lambda: leak.event(0.6, 0.3, stated=1.0),
        lambda: leak.moved(1.0, 1.0),
        lambda: leak.chosen([0.0, 1.0], [1.0, 0.0], sensitivity=1.0),
    ):
        with pytest.raises(AssertionError):
            nothing()
    assert leak.gaussian_epsilon(1.0, 1e-5) == pytest.approx(4.377, abs=1e-3)  # Balle and Wang's curve, by dp_accounting
