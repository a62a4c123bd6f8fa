"""The DSL front end: sections by indentation, one parse a logical line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dpspec.lang.draft import Draft, Path, ReleaseDraft
from dpspec.lang.engine import Unparsable, parse_piece
from dpspec.lang.text import Lines
from dpspec.lang.vocabulary import SECTIONS, nearest

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|#')
_INDENT = re.compile(r"[ \t]*")
_WORD = re.compile(r"[^\s:]+")
_ITEM_WORDS = (
    "minimise", "estimate", "regress", "fit", "answer", "infer", "over", "by", "expect", "share", "part", "from", "private",
    "public", "unit", "at", "neighbours", "encode", "intercept", "epsilon", "delta", "rho", "mu", "n", "d", "vary", "trials", "seed",
    "compare", "x", "y", "theta", "labels", "attribute", "online", "with",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comment:
    """``text`` with its ``#``. ``anchor``: the model path of the line it stands on (``trailing``) or above."""

    text: str
    line: int
    trailing: bool
    anchor: Path


@dataclass(slots=True)
class LogicalLine:
    indent: int
    start: int
    end: int
    comments: list[tuple[int, str, bool]] = field(default_factory=list)  # (offset, text, trailing)


def logical_lines(text: str, draft: Draft, lines: Lines) -> tuple[str, list[LogicalLine], list[tuple[int, str, int]]]:
    """The text with comments blanked out, its logical lines, and the comments after the last of them.

    A line indented deeper than the items of its section, or one that begins with a closing bracket, continues the line before.
    """
    blanked: list[str] = []
    found: list[LogicalLine] = []
    waiting: list[tuple[int, str, int]] = []  # comments above the next line: (offset, text, column)
    level = 0  # indentation of the items of the open section, 0 when it has none yet
    offset = 0
    tab_seen = False
    for raw in text.split("\n"):
        body, comment = raw, None
        for m in _COMMENT.finditer(raw):
            if m.group() == "#":
                body, comment = raw[: m.start()] + " " * (len(raw) - m.start()), (offset + m.start(), raw[m.start() :].rstrip())
                break
        blanked.append(body)
        stripped = body.strip()
        margin = _INDENT.match(body)
        width = len(margin.group()) if margin else 0
        if not stripped:
            if comment is not None:
                waiting.append((*comment, comment[0] - offset))
        else:
            if margin and "\t" in margin.group() and not tab_seen:
                tab_seen = True
                where = lines.span(offset + margin.group().index("\t"), offset + margin.group().index("\t") + 1)
                draft.error("DP104", "a tab in the indentation", "Indent with two spaces.", where)
            start, end = offset + width, offset + len(body.rstrip())
            continues = bool(found) and width > 0 and ((level > 0 and width > level) or (stripped[0] in ")]}" and level > 0))
            if continues:
                line = found[-1]
                line.end = end
                line.comments.extend((at, words, False) for at, words, _ in waiting)
            else:
                if width == 0:
                    level = 0
                elif level == 0:
                    level = width
                elif width < level:
                    where = lines.span(offset, offset + width)
                    if "\t" not in raw[:width]:
                        help = f"Indent it by {level}."
                        draft.error("DP105", "this line is indented less than the others of its section", help, where)
                line = LogicalLine(width, start, end)
                if width == 0 and found:  # indented comments before a new section belong to the end of the one before
                    keep = [w for w in waiting if w[2] == 0]
                    tail = [w for w in waiting if w[2] > 0]
                    if tail and not keep:
                        found[-1].comments.extend((at, "\0" + words, False) for at, words, _ in tail)
                        waiting = []
                line.comments.extend((at, words, False) for at, words, _ in waiting)
                found.append(line)
            waiting = []
            if comment is not None:
                line.comments.append((*comment, True))
        offset += len(raw) + 1
    return "\n".join(blanked), found, waiting


class Reader:
    """Reads the logical lines of a DSL file into a draft."""

    def __init__(self, text: str, draft: Draft, lines: Lines) -> None:
        self.draft = draft
        self.lines = lines
        self.comments: list[Comment] = []
        self.section = ""
        self.release: ReleaseDraft | None = None
        self.after = ""
        self.last_path: Path = ()
        self.text, self.found, rest = logical_lines(text, draft, lines)
        for line in self.found:
            anchors = self._read(line)
            anchor = anchors[0] if anchors else self.last_path
            self.last_path = anchor
            for at, words, trailing in line.comments:
                if words.startswith("\0"):
                    section: Path = anchor[:2] if anchor[:1] == ("releases",) else anchor[:1]
                    self.comments.append(Comment(words[1:], lines.position(at)[0], False, (*section, "end")))
                else:
                    self.comments.append(Comment(words, lines.position(at)[0], trailing, anchor))
        if not self.found and not draft.diagnostics:
            help = 'Begin with `analysis "name"`.'
            draft.error("DP103", "the file holds nothing but comments", help, lines.span(0, 1))
            draft.broken.update(("analysis", "data", "privacy", "release"))
        section = self.last_path[:2] if self.last_path[:1] == ("releases",) else self.last_path[:1]
        for at, words, column in rest:
            end: Path = (*section, "end") if column > 0 and section not in ((), ("name",)) else ("end",)
            self.comments.append(Comment(words, lines.position(at)[0], False, end))

    def _read(self, line: LogicalLine) -> list[Path]:
        if line.indent == 0:
            return self._header(line)
        if not self.section:
            if not self.draft.broken and not self.draft.sections:
                where = self.lines.span(line.start, line.end)
                self.draft.error("DP105", "an indented line before any section", "Begin with a section, such as `data`.", where)
                self.draft.broken.update(("analysis", "data", "privacy", "release"))
            return []
        return self._items(line.start, line.end)

    def _header(self, line: LogicalLine) -> list[Path]:
        draft = self.draft
        piece = self.text[line.start : line.end]
        m = _WORD.match(piece)
        word = m.group() if m else piece[:1]
        where = self.lines.span(line.start, line.start + len(word))
        rest = line.start + len(word)
        self.section, self.release, self.after = "", None, ""
        if word not in SECTIONS:
            near = nearest(word, SECTIONS)
            if word in _ITEM_WORDS or (near is None and nearest(word, _ITEM_WORDS)):
                draft.error("DP105", f"`{word}` stands outside its section", "Indent the lines of a section by two spaces.", where)
                draft.broken.update(("data", "privacy", "release"))
                return []
            shown = f"`{word}`" if len(word) <= 40 else "this text"
            help = f"Did you mean `{near}`?" if near else "A file has the sections " + ", ".join(SECTIONS) + "."
            draft.error("DP107", f"unknown section {shown}", help, where)
            draft.broken.update([near] if near else ["data", "privacy", "release"])
            self.section = "?"
            return []
        while rest < line.end and self.text[rest] in " \t:" and word != "release":
            rest += 1
        empty = not self.text[rest : line.end].strip()
        if word == "release":
            if empty:
                draft.error("DP108", "a release needs a name", "Write `release weights`, for example.", where)
                draft.broken.add("release")
                self.section = "?"
                return []
            head = self._piece("start_release_head", rest, line.end, "release")
            if head is None:
                self.section = "?"
                return []
            name, span, items = head
            self.section = "release"
            self.release = draft.open_release(name, span)
            draft.add_release(self.release, items)
            self.after = items[-1].key if items else ""
            return [("releases", len(draft.releases) - 1)]
        fresh = draft.open_section(word, where)
        self.section = word if fresh else "?"
        if word == "analysis":
            if empty:
                draft.error("DP108", "the analysis has no name", 'Write analysis "name".', where)
                draft.broken.add("analysis")
            elif fresh and '"' not in self.text[rest : line.end] and " " in self.text[rest : line.end]:
                help = f'Write analysis "{self.text[rest : line.end][:40]}".'
                draft.error("DP106", "a name of several words stands in quotes", help, self.lines.span(rest, line.end))
                draft.broken.add("analysis")
            elif fresh:
                name = self._piece("start_analysis", rest, line.end, "analysis")
                if name is not None:
                    draft.set_name(name, self.lines.span(rest, line.end))
            return [("name",)]
        if not empty and fresh:
            self._items(rest, line.end)
        return [(word,)]

    def _piece(self, rule: str, start: int, end: int, section: str) -> Any:
        try:
            value, context = parse_piece(rule, self.text[start:end], self.lines.shifted(start))
        except Unparsable as error:
            self.draft.diagnostics.append(error.diagnostic)
            self.draft.broken.add(section)
            return None
        if context.diagnostics:
            self.draft.diagnostics.extend(context.diagnostics)
            self.draft.broken.add(section)
        self.draft.marks.update(context.marks)
        return value

    def _items(self, start: int, end: int) -> list[Path]:
        section, draft = self.section, self.draft
        if section == "?":
            return []
        if section == "analysis":
            where = self.lines.span(start, end)
            draft.error("DP106", "`analysis` takes a name and nothing else", "Start a section, such as `data`, at the margin.", where)
            return []
        items = self._piece(f"start_{section}", start, end, section)
        if items is None:
            if self.release is not None:
                self.release.broken = True
            self.after = "encode" if self.after.startswith("encode") else "by" if section == "release" else self.after
            return []
        after, self.after = self.after, items[-1].key
        adders: dict[str, Callable[[], list[Path]]] = {
            "data": lambda: draft.add_data(items, after),
            "privacy": lambda: draft.add_privacy(items),
            "assume": lambda: draft.add_assume(items),
            "simulate": lambda: draft.add_simulate(items),
            "study": lambda: draft.add_study(items, after),
        }
        if section == "release":
            assert self.release is not None
            return draft.add_release(self.release, items, after)
        return adders[section]()


def read_dps(text: str, draft: Draft) -> list[Comment]:
    """Fill the draft from DSL text (line breaks are ``\\n``); returns its comments."""
    lines = Lines(text)
    reader = Reader(text, draft, lines)
    return reader.comments
