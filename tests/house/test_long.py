"""Every entry of ``tests/long.txt`` names a test that there is, so that a test that is renamed does not change its suite in silence."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import long

ROOT = Path(__file__).parents[2]


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


@pytest.mark.parametrize("path", sorted({name.partition("::")[0] for name in long()}) or [None])
def test_what_is_long_exists(path: str | None) -> None:
    assert path is not None, "tests/long.txt is empty"
    named = {name.partition("[")[0].partition("::")[2] for name in long() if name.startswith(f"{path}::")}
    assert named <= functions_of(path)
