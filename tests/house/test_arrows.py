"""Imports go one way: no circle among modules, imports inside functions and for types included, and none upwards."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

grimp = pytest.importorskip("grimp", reason="import-linter brings grimp")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def arrows() -> dict[str, set[str]]:
    graph = grimp.build_graph("dpspec", cache_dir=None)
    return {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}


def circles(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, and modules that import themselves. Modules that import nothing that is
    left, or that nothing left imports, lie on no circle and are taken away; the rest is told apart by who reaches whom."""
    left = {m: set(to) for m, to in arrows.items()}
    while True:
        imported = set().union(*left.values()) if left else set()
        ends = {m for m, to in left.items() if not to or m not in imported}
        if not ends:
            break
        left = {m: to - ends for m, to in left.items() if m not in ends}
    reached = {m: _reach(left, m) for m in left}
    groups = {frozenset(b for b in reached[a] if a in reached[b]) for a in left}
    return sorted(sorted(g) for g in groups if g)


def _reach(arrows: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    ahead = list(arrows[start])
    while ahead:
        module = ahead.pop()
        if module not in seen:
            seen.add(module)
            ahead += arrows[module]
    return seen


def layers() -> list[list[str]]:
    """The table in pyproject.toml, from the top, the packages of one line together."""
    read = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = [c["layers"] for c in read["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    assert len(found) == 1
    return [[name.strip() for name in line.split("|")] for line in found[0]]


def upward(arrows: Mapping[str, set[str]], table: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Imports of a package that stands above or beside."""
    level = {name: k for k, line in enumerate(table) for name in line}

    def package(module: str) -> str | None:
        return next((name for name in level if module == name or module.startswith(name + ".")), None)

    out = []
    for module, to in arrows.items():
        for other in to:
            a, b = package(module), package(other)
            if a is not None and b is not None and a != b and level[b] <= level[a]:
                out.append((module, other))
    return sorted(out)


def test_no_module_imports_itself_by_a_detour(arrows):
    assert circles(arrows) == []


def test_no_arrow_points_up(arrows):
    table = layers()
    packages = {f"dpspec.{path.name}" for path in (ROOT / "dpspec").iterdir() if (path / "__init__.py").is_file()}
    assert packages <= {name for line in table for name in line}  # a package that no line names would be free of the rule
    assert upward(arrows, table) == []


def test_the_rules_see_what_they_forbid():
    ring = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d", "f"}, "f": set(), "g": {"g"}, "h": {"a"}}
    assert circles(ring) == [["a", "b", "c"], ["d", "e"], ["g"]]
    table = [["p.top"], ["p.left", "p.right"], ["p.low"]]
    tree = {"p.top.x": {"p.low.y"}, "p.low.y": {"p.left.z"}, "p.left.z": {"p.right.z", "p.left.w"}, "p.right.z": {"p.low.y"}}
    assert upward(tree, table) == [("p.left.z", "p.right.z"), ("p.low.y", "p.left.z")]
