"""Random and mutated texts: nothing but SpecError leaves the parsers, and what parses survives printing and formatting."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "lang"))

from forms import specs  # type: ignore[import-not-found]
from strategies import examples  # type: ignore[import-not-found]

from dpspec.lang import tables
from dpspec.lang.format import format_text
from dpspec.lang.printer import to_dps, to_yaml
from dpspec.lang.render import render
from dpspec.lang.source import parse_expr, parse_file, parse_text
from dpspec.spec.diagnostics import SpecError

DPS = sorted(specs().values())
YAML = [to_yaml(parse_text(text, "a.dps").analysis) for text in DPS]
SURFACES = {"a.dps": DPS, "a.dpspec.yaml": YAML}
TOKENS = [
    *tables.LITERALS,
    "student-t",
    "1e5",
    "0",
    "-1",
    '"t"',
    "\n",
    "\n  ",
    " ",
    "#",
    "||",
    "|_1",
    "‖",
    "ε",
    "n",
    "x",
    "y",
    "w",
    ":",
    "- ",
    "&a",
    "*a",
]
MANY = examples(150)


def survives(text: str, path: str) -> None:
    refusal: SpecError | None = None
    try:
        parsed = parse_text(text, path)
    except SpecError as error:
        refusal = error
    if refusal is not None:
        assert refusal.diagnostics
        for d in refusal.diagnostics:
            assert render(d, refusal.text, refusal.path)
        return
    assert parse_text(to_dps(parsed.analysis), "a.dps").analysis == parsed.analysis
    assert parse_text(to_yaml(parsed.analysis), "a.yaml").analysis == parsed.analysis
    once = format_text(text, path)
    assert format_text(once, path) == once


@st.composite
def mutated(draw: st.DrawFn, texts: list[str]) -> str:
    """A good text with a few pieces removed, doubled, swapped or replaced by tokens of the language."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        a = draw(st.integers(0, len(text)))
        b = min(len(text), a + draw(st.integers(0, 12)))
        kind = draw(st.integers(0, 3))
        middle = draw(st.sampled_from(TOKENS)) if kind == 0 else "" if kind == 1 else text[a:b] * 2 if kind == 2 else text[a:b][::-1]
        text = text[:a] + middle + text[b:]
    return text


@pytest.mark.parametrize("levels", [55, 58])
def test_deep_expressions_survive(levels: int) -> None:
    """Found by fuzzing: each minus sign is printed with a pair of parentheses, so a tree that is read must not print too deep."""
    for minus in ("-" * levels + "n", "^".join(["n"] * levels), "/(".join(["n"] * levels) + ")" * (levels - 1)):
        survives(f'analysis "a"\ndata\n  n = 5, k = {minus}\nprivacy central\n  epsilon = 1\nrelease r\n  estimate mean(x)\n', "a.dps")
        parse_expr(minus)


@pytest.mark.parametrize("path", sorted(SURFACES))
@given(data=st.data())
@MANY
def test_mutated(path: str, data: st.DataObject) -> None:
    survives(data.draw(mutated(SURFACES[path])), path)


@pytest.mark.parametrize("path", sorted(SURFACES))
@given(text=st.text(max_size=200))
@MANY
def test_random_text(path: str, text: str) -> None:
    survives(text, path)


@pytest.mark.parametrize("path", sorted(SURFACES))
@given(words=st.lists(st.sampled_from(TOKENS), max_size=40))
@MANY
def test_random_tokens(path: str, words: list[str]) -> None:
    survives(" ".join(words), path)


@given(words=st.lists(st.sampled_from(TOKENS), max_size=20))
@example(words=["||", "x", "||", "|_1"])
@MANY
def test_random_expressions(words: list[str]) -> None:
    with contextlib.suppress(SpecError):
        parse_expr(" ".join(words))


@given(raw=st.binary(max_size=200), ending=st.sampled_from([".dps", ".dpspec.yaml"]))
@examples(100)
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, raw: bytes, ending: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzz{ending}"
    path.write_bytes(raw)
    with contextlib.suppress(SpecError):
        parse_file(path)
