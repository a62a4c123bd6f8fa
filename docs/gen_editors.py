"""Writes the TextMate grammar of the VS Code extension from the language's own words: ``python docs/gen_editors.py``."""

from __future__ import annotations

import json
import re
from pathlib import Path

from dpspec.lang import tables
from dpspec.lang.vocabulary import SECTIONS
from dpspec.spec.words import LOSSES

TARGET = Path(__file__).parent.parent / "editors" / "vscode" / "dps.tmLanguage.json"


def grammar() -> dict[str, object]:
    """Sections, keywords, losses, numbers, texts and comments."""
    keywords = sorted((w for w in tables.LITERALS if len(w) > 1 and w[0].isalpha()), key=lambda w: (-len(w), w))
    losses = sorted(LOSSES, key=lambda w: (-len(w), w))

    def words(found: list[str]) -> str:
        return r"(?<![\w-])(?:" + "|".join(map(re.escape, found)) + r")(?![\w-])"

    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "dpspec",
        "scopeName": "source.dps",
        "patterns": [
            {"name": "comment.line.number-sign.dps", "match": "#.*$"},
            {"name": "string.quoted.double.dps", "match": r'"(?:[^"\\]|\\.)*"'},
            {"name": "keyword.control.section.dps", "match": "^(?:" + "|".join(SECTIONS) + r")\b"},
            {"name": "keyword.other.dps", "match": words(keywords)},
            {"name": "support.function.dps", "match": words(losses)},
            {"name": "constant.numeric.dps", "match": r"(?<![\w.])\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?%?"},
            {"name": "entity.name.function.dps", "match": r"(?<=\bby )[a-z][a-z0-9]*(?:-[a-z0-9]+)*"},
        ],
    }


def text() -> str:
    return json.dumps(grammar(), indent=2) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
