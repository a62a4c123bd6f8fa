"""Every fault of a card names a test, or a derivation of docs/faults.md, that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from dpspec.algorithms.card import Fault
from dpspec.algorithms.registry import all_modules

ROOT = Path(__file__).parents[2]
FAULTS = [pytest.param(fault, id=f"{module.CARD.id}-{i}") for module in all_modules() for i, fault in enumerate(module.CARD.faults)]


@cache
def functions_of(file: str) -> frozenset[str]:
    """Names of the functions in a file, those in classes included."""
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    return frozenset(node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef))


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
