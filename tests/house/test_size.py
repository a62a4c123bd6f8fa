"""Functions that the reader must hold in mind at once stay small where they once were not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "dpspec"
KEPT = ("data/laws.py", "symbolic/certify.py", "lang/printer.py")
LINES, COMPLEXITY = 60, 20
_FORKS = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert, ast.match_case)


def functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def lines(f: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert f.end_lineno is not None
    return f.end_lineno - f.lineno + 1


def complexity(f: ast.AST) -> int:
    """One, and one for each fork: a branch, a loop, a handler, a case, a further operand of `and`/`or`, and the loop and the filters of a
    comprehension. Functions inside count too."""
    total = 1
    for node in ast.walk(f):
        total += isinstance(node, _FORKS)
        if isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
    return total


@pytest.mark.parametrize("name", KEPT)
def test_functions_are_short_and_simple(name):
    found = [(f.name, lines(f), complexity(f)) for f in functions((PACKAGE / name).read_text(encoding="utf-8"))]
    assert found
    assert [f for f in found if f[1] >= LINES or f[2] >= COMPLEXITY] == []


def test_the_count():
    source = """
def f(a, b):
    if a and b or a:
        return [x for x in a if x if b]
    for _ in a:
        try:
            a += 1 if b else 2
        except ValueError:
            pass
    match a:
        case 1:
            return 1
        case _:
            assert b
"""
    (f,) = functions(source)
    # 1, the if with `and` and `or`, the comprehension with two filters, the for, the conditional, the handler, two cases, the assertion
    assert complexity(f) == 1 + 3 + 3 + 1 + 1 + 1 + 2 + 1
    assert lines(f) == 13
