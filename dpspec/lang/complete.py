"""What may follow a place in a file of the DSL: the grammar's own answer, for editors."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpspec.lang.dps import logical_lines
from dpspec.lang.draft import Draft
from dpspec.lang.engine import accepted, keyword
from dpspec.lang.text import Lines
from dpspec.lang.vocabulary import SECTIONS

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*$")
_HERE = "\x1a"  # where the cursor is; no file holds it (DP102)


@dataclass(frozen=True, slots=True)
class Following:
    """``keywords`` that the grammar takes at the cursor, sections included; ``names``: whether it takes a name. ``section`` that the place
    stands in ("" before the first), ``before``: what stands on the logical line up to the word that is being written, ``word``: its letters
    so far."""

    keywords: tuple[str, ...]
    names: bool
    section: str
    before: str
    word: str


def following(text: str, line: int, column: int) -> Following:
    """What may stand at a place (from 1, in characters) of a DSL text. Nothing is raised: a file under work is broken most of the time."""
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    rows = rows[: max(1, line)]
    rows[-1] = rows[-1][: column - 1]
    found = _WORD.search(rows[-1])
    word = found.group() if found else ""
    rows[-1] = rows[-1].removesuffix(word) + _HERE
    cut = "\n".join(rows)
    blanked, lines, _ = logical_lines(cut, Draft(), Lines(cut))
    if not blanked.endswith(_HERE) or not lines:  # inside a comment
        return Following((), False, "", "", word)
    last = lines[-1]
    piece = blanked[last.start : last.end].rstrip(_HERE)
    if last.indent == 0:
        return _header(piece, word)
    head = next((blanked[item.start : item.end] for item in reversed(lines[:-1]) if item.indent == 0), "")
    section = re.split(r"[\s:]", head, maxsplit=1)[0]
    if section not in SECTIONS or section == "analysis":
        return Following((), False, section, piece, word)
    return _asked(f"start_{section}", section, piece, word)


def _header(piece: str, word: str) -> Following:
    """At the margin: sections, or what follows the word of one on its line."""
    if not piece.strip():
        return Following(SECTIONS, False, "", "", word)
    section, _, rest = piece.partition(" ")
    if section not in SECTIONS or section == "analysis":
        return Following((), False, section, rest, word)
    return _asked("start_release_head" if section == "release" else f"start_{section}", section, rest, word)


def _asked(start: str, section: str, piece: str, word: str) -> Following:
    terminals = accepted(start, piece)
    words = [text for text in map(keyword, terminals) if text is not None and text[0].isalpha()]
    return Following(tuple(sorted(words)), "NAME" in terminals or "WORD" in terminals, section, piece, word)
