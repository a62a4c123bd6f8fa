"""The generated pages: one a diagnostic, one an algorithm, none empty."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import re
from pathlib import Path

import pytest

from dpspec.algorithms.registry import all_modules
from dpspec.spec.codes import CODES

ROOT = Path(__file__).resolve().parents[2]


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_page_a_diagnostic(tmp_path: Path) -> None:
    load("gen_diagnostics").main(tmp_path)
    pages = {p.stem for p in tmp_path.glob("DP*.md")}
    assert pages == set(CODES.all())
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    for code in pages:
        assert f"[{code}]({code}.md)" in index


def test_the_page_of_assumptions_is_current() -> None:
    assert (ROOT / "docs" / "assumptions.md").read_text(encoding="utf-8") == load("gen_assumptions").document()


def test_the_page_of_bounds_is_current() -> None:
    """From the cards and the file of measurements, which names no bound that the cards do not have."""
    generator = load("gen_bounds")
    assert (ROOT / "docs" / "bounds.md").read_text(encoding="utf-8") == generator.document()
    cards = {(m.CARD.id, b.theorem, b.expression) for m in all_modules() for b in m.CARD.bounds}
    rows = json.loads(generator.RESULTS.read_text(encoding="utf-8"))
    assert {(r["card"], r["theorem"], r["expression"]) for r in rows} <= cards


def test_the_page_of_the_python_interface_is_current() -> None:
    generator = load("gen_api")
    assert (ROOT / "docs" / "api.md").read_text(encoding="utf-8") == generator.document()


def test_the_python_interface_is_whole_and_explained() -> None:
    """What a package says it exports is on the page; each name and each public method has a docstring of its own and typed arguments."""
    generator = load("gen_api")
    shown = {(m, name) for _, _, places in generator.SECTIONS for m, names in places for name in names}
    for module in ("dpspec", "dpspec.client"):
        assert set(importlib.import_module(module).__all__) <= {name for _, name in shown}
    for module, name in sorted(shown):
        found = getattr(importlib.import_module(module), name)
        of = [(name, found), *(generator.members(found) if isinstance(found, type) else ())]
        for word, thing in of:
            assert thing.__doc__, (name, word)
            assert not thing.__doc__.startswith(f"{name}("), (name, word)  # what dataclasses write for want of one
            function = thing.fget if isinstance(thing, property) else thing
            if not isinstance(function, type):
                parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
                assert all(p.annotation is not inspect.Parameter.empty for p in parameters), (name, word)


def test_every_code_that_the_source_raises_is_registered() -> None:
    used = set()
    for file in (ROOT / "dpspec").rglob("*.py"):
        if not file.name.startswith("codes"):
            used |= set(re.findall(r'"(DP[1-7]\d\d)"', file.read_text(encoding="utf-8")))
    assert used - set(CODES.all()) == set()


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/index.md", "docs/architecture.md"])
def test_links_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        if target.startswith("diagnostics/"):
            continue
        assert ((ROOT / name).parent / target).exists(), target
