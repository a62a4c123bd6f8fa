"""The examples of docs/audit.md do what the page says, and the page names every mechanism."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpspec.audit import audit
from dpspec.audit.vocabulary import CHANNELS, EVENTS, FACTS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "audit.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("source", "shown"), EXAMPLES)
def test_example(tmp_path: Path, source: str, shown: str) -> None:
    file = tmp_path / "example.yaml"
    file.write_text(source)
    text = audit(file).text()
    for line in shown.splitlines():
        assert line in text


def test_examples_were_found() -> None:
    assert len(EXAMPLES) == PAGE.count("```yaml") == 4


def test_every_word_is_documented() -> None:
    for word in (*EVENTS, *CHANNELS, *FACTS):
        assert f"`{word}`" in PAGE, word
