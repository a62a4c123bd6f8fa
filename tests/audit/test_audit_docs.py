"""The examples of docs/audit.md do what the page says, and the page names every mechanism."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpspec.audit import audit, audit_all, load
from dpspec.audit.configs import tools
from dpspec.audit.registry import Row, table_text
from dpspec.audit.vocabulary import CHANNELS, EVENTS, FACTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "audit.md").read_text()
FILES = ROOT / "docs" / "examples" / "audit"
EXAMPLES = re.findall(r"`docs/examples/audit/([a-z]+\.yaml)`:\n\n```yaml\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)
_LONG = ("opacus.yaml", "trainer.yaml", "target.yaml", "clt.yaml", "flower.yaml")  # hundreds of sampled steps


@pytest.mark.parametrize(
    ("name", "source", "shown"), [pytest.param(*e, marks=[pytest.mark.slow] if e[0] in _LONG else [], id=e[0]) for e in EXAMPLES]
)
def test_example(name: str, source: str, shown: str) -> None:
    text = audit(FILES / name).text()
    for line in shown.splitlines():
        assert line in text


@pytest.mark.parametrize(("name", "source", "shown"), EXAMPLES, ids=[e[0] for e in EXAMPLES])
def test_an_example_is_a_file_of_the_repository_and_is_understood(name: str, source: str, shown: str) -> None:
    assert (FILES / name).read_text() == source
    assert load(FILES / name).events or load(FILES / name).channel


def test_the_table_of_the_registry_is_as_shown() -> None:
    block = re.search(r"registry.yaml` gives\n\n```\n(.*?)```", PAGE, re.DOTALL)
    rows = audit_all(FILES / "registry.yaml")
    assert block is not None
    assert rows is not None
    told = table_text([r for r in rows if isinstance(r, Row)])
    for line in block[1].splitlines():
        assert line in told


def test_examples_were_found() -> None:
    assert len(EXAMPLES) == PAGE.count("```yaml") == 9
    assert {e[0] for e in EXAMPLES} | {"registry.yaml"} == {f.name for f in FILES.iterdir()}


def test_every_word_is_documented() -> None:
    for word in (*EVENTS, *CHANNELS, *FACTS):
        assert f"`{word}`" in PAGE, word


def test_every_tool_is_documented() -> None:
    for name in tools():
        assert f"`{name}`" in PAGE, name
