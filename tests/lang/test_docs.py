"""Every example of docs/language.md is read by the parser, and every code of the language is listed there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpspec.lang.source import parse_text
from dpspec.lang.vocabulary import SECTIONS
from dpspec.spec.codes_lang import CODES

DOC = (Path(__file__).parent.parent.parent / "docs" / "language.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(dps|yaml)\n(.*?)^```", DOC, re.MULTILINE | re.DOTALL)
REST = {
    "analysis": 'analysis "a"\n',
    "data": "data\n  n = 1000, d = 20\n",
    "privacy": "privacy central\n  epsilon = 1\n",
    "release": "release r\n  estimate mean(x)\n",
}


@pytest.mark.parametrize(("surface", "text"), BLOCKS, ids=[t.split("\n")[0] for _, t in BLOCKS])
def test_examples(surface: str, text: str) -> None:
    """A fragment is completed with the sections that it lacks."""
    if surface == "dps":
        present = {line.split()[0] for line in text.splitlines() if line and line.split()[0] in SECTIONS and not line.startswith(" ")}
        text = "".join(part for name, part in REST.items() if name not in present) + text
    parse_text(text, f"a.{surface}")


def test_there_are_examples_of_every_section() -> None:
    everything = "\n".join(text for _, text in BLOCKS)
    assert len(BLOCKS) >= 8
    assert all(re.search(rf"^{section}\b", everything, re.MULTILINE) for section in SECTIONS)


def test_the_first_two_examples_say_the_same() -> None:
    assert parse_text(BLOCKS[0][1], "a.dps").analysis == parse_text(BLOCKS[1][1], "a.yaml").analysis


def test_every_code_is_listed() -> None:
    assert set(re.findall(r"DP1\d\d", DOC)) >= set(CODES)


@pytest.mark.parametrize("code", sorted(CODES))
def test_codes_are_explained(code: str) -> None:
    entry = CODES[code]
    assert re.fullmatch(r"DP1[0-5]\d", code)
    assert entry.title[0].islower() or entry.title.startswith(("UTF", "YAML"))
    assert len(entry.explanation) > 90
