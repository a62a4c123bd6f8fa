"""What each file of tests/bad_specs must give: codes with their places.

Most files are listed in expected.yaml, as [code, line, column]: a comment in them would change the mistake. The others mark the mistake
in the text, by a comment line below it whose carets stand under the words at fault:

    by dp-gd with steps = 10
  #               ^^^^^ DP405

A ``#`` in column 1 directly before a caret counts as one, for words that begin there. Several marks may follow one line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, TypeAlias

from ruamel.yaml import YAML

FOLDER: Final = Path(__file__).parent / "bad_specs"
#: (code, line, column, end column or None where the index does not say)
Place: TypeAlias = tuple[str, int, int, int | None]
_MARK: Final = re.compile(r"^#( *)(\^+) (DP\d{3})$")


def marks(text: str) -> list[Place]:
    """The marks of a text."""
    found: list[Place] = []
    line = 0
    for number, words in enumerate(text.split("\n"), 1):
        mark = _MARK.match(words)
        if mark is None:
            line = number
            continue
        start = 1 if not mark[1] else 2 + len(mark[1])
        found.append((mark[3], line, start, mark.end(2) + 1))
    return found


def _index() -> dict[str, list[Place]]:
    listed = YAML(typ="safe").load((FOLDER / "expected.yaml").read_text(encoding="utf-8"))
    index: dict[str, list[Place]] = {name: [(code, line, column, None) for code, line, column in rows] for name, rows in listed.items()}
    for file in FOLDER.iterdir():
        marked = marks(file.read_bytes().decode("utf-8", "replace")) if file.name != "expected.yaml" else []
        if marked and file.name in index:
            raise ValueError(f"{file.name} is both listed and marked")
        if marked:
            index[file.name] = marked
    return index


INDEX: Final = _index()
