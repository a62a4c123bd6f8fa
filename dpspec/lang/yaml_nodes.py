"""YAML text to a small tree of nodes with positions: mappings, sequences and scalars as text. Nothing is constructed.

What a spec never needs is refused: tags, directives, merge keys, several documents, more than a handful of aliases, deep nesting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from dpspec.lang.text import Lines, Locate
from dpspec.spec.diagnostics import Diagnostic, Span, SpecError

MAX_ALIASES = 16
MAX_NESTING = 12
MAX_FLOW = 100
MAX_NODES = 20_000


@dataclass(slots=True)
class Scalar:
    value: str
    start: int
    end: int
    plain: bool


@dataclass(slots=True)
class Mapping:
    start: int
    end: int
    entries: list[tuple[Scalar, Node]] = field(default_factory=list)


@dataclass(slots=True)
class Sequence:
    start: int
    end: int
    items: list[Node] = field(default_factory=list)


Node: TypeAlias = Scalar | Mapping | Sequence


class Reader:
    """The one document of a YAML text. Raises :class:`SpecError` when there is none that can be used."""

    def __init__(self, text: str, lines: Lines) -> None:
        self.text = text
        self.lines = lines
        self.aliases = 0
        self.nodes = 0
        self.anchors: dict[str, Node | None] = {}
        self.scalar_ranges: list[tuple[int, int]] = []

    def read(self) -> Node | None:
        self._check_flow()
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        try:
            return self._document(iter(YAML(typ="safe", pure=True).parse(self.text)))
        except SpecError:
            raise
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = min(mark.index, len(self.text)) if mark is not None else 0
            problem = " ".join(str(error.problem or error.context or "not YAML").split())
            help = "Quote a text that holds `: `, ` #` or begins with one of { [ | > & * ! % @ `."
            if "tab" in problem or "'\\t'" in problem:
                self._fail("DP104", "a tab in the indentation", "Indent with two spaces.", at, at + 1)
            self._fail("DP120", f"not YAML: {problem}", help, at, at + 1)
        except YAMLError as error:
            position = getattr(error, "position", 0)
            at = position if isinstance(position, int) else 0
            reason = " ".join(str(error).split())[:160]
            self._fail("DP120", f"not YAML: {reason}", "Remove the character.", at, at + 1)
        except Exception as error:  # the loader is somebody else's code and the text may be hostile: whatever it raises is one finding
            self._fail("DP120", f"not YAML: {type(error).__name__}", "Check the escapes and the quotes.", 0, 1)

    def _fail(self, code: str, message: str, help: str, start: int, end: int) -> NoReturn:
        raise SpecError([Diagnostic(code, "error", message, help, self.lines.span(start, end))], text=self.text)

    def _check_flow(self) -> None:
        """The loader's cost grows with the square of the flow nesting, so that is bounded first."""
        level = 0
        for i, c in enumerate(self.text):
            if c in "[{":
                level += 1
                if level > MAX_FLOW:
                    self._fail("DP112", f"brackets nested more than {MAX_FLOW} deep", "Write it flatter.", i, i + 1)
            elif c in "]}" and level:
                level -= 1

    def _document(self, events: Iterator[Any]) -> Node | None:
        root: Node | None = None
        documents = 0
        for event in events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                at = event.start_mark.index
                if documents > 1:
                    self._fail("DP123", "a second document in the file", "Keep one analysis a file.", at, at + 3)
                if event.version or event.tags:
                    self._fail("DP122", "a YAML directive", "Remove the line that begins with %.", at, at + 1)
            elif kind in ("ScalarEvent", "MappingStartEvent", "SequenceStartEvent", "AliasEvent"):
                root = self._node(event, events, 0)
        return root

    def _node(self, event: Any, events: Iterator[Any], level: int) -> Node:
        start, end = event.start_mark.index, event.end_mark.index
        kind = type(event).__name__
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self._fail("DP112", f"more than {MAX_NODES} entries", "An analysis is smaller than that.", start, end)
        if kind == "AliasEvent":
            self.aliases += 1
            if self.aliases > MAX_ALIASES:
                self._fail("DP121", f"more than {MAX_ALIASES} aliases", "Write the values out.", start, end)
            target = self.anchors.get(event.anchor)
            if target is None:
                self._fail("DP121", f"the alias `*{event.anchor}` stands for nothing", "Write the value out.", start, end)
            return target
        if level > MAX_NESTING:
            self._fail("DP112", f"entries nested more than {MAX_NESTING} deep", "Write it flatter.", start, start + 1)
        tag = getattr(event, "ctag", None) or getattr(event, "tag", None)
        if tag is not None and str(tag) not in ("", "None"):
            self._fail("DP122", "a YAML tag", "Remove it: the language gives every value its type.", start, start + 1)
        node: Node
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        if kind == "ScalarEvent":
            node = Scalar(event.value, start, end, event.style in (None, ""))
            self.scalar_ranges.append((start, end))
        elif kind == "SequenceStartEvent":
            node = Sequence(start, end)
            for inner in events:
                if type(inner).__name__ == "SequenceEndEvent":
                    node.end = inner.end_mark.index
                    break
                node.items.append(self._node(inner, events, level + 1))
        else:
            node = Mapping(start, end)
            for inner in events:
                if type(inner).__name__ == "MappingEndEvent":
                    node.end = inner.end_mark.index
                    break
                key = self._node(inner, events, level + 1)
                value = self._node(next(events), events, level + 1)
                if not isinstance(key, Scalar):
                    self._fail("DP110", "a key is a word", "Write `key: value`.", key.start, key.start + 1)
                if key.value == "<<" and key.plain:
                    self._fail("DP121", "a merge key", "Write the entries out.", key.start, key.end)
                if isinstance(value, Scalar) and value.plain and not value.value and value.start == value.end:
                    colon = self.text.find(":", key.end)  # the loader puts a missing value where the next entry begins
                    value.start = value.end = (colon if colon >= 0 else key.end) + 1
                node.entries.append((key, value))
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    # ------------------------------------------------------------------------------------------------ positions

    def span(self, node: Node) -> Span:
        """Of a scalar: all of it. Of anything longer: its first line."""
        end = node.end
        if not isinstance(node, Scalar):
            line_end = self.text.find("\n", node.start)
            end = min(end, line_end if line_end >= 0 else len(self.text))
        return self.lines.span(node.start, max(end, node.start))

    def locate(self, node: Scalar) -> Locate:
        """From offsets in the scalar's value to places in the file, through quotes, escapes and folds."""
        raw = self.text[node.start : node.end]
        if raw == node.value:
            return self.lines.shifted(node.start)
        if raw[1:-1] == node.value and raw[:1] in "'\"":
            return self.lines.shifted(node.start + 1)
        offsets: list[int] = []
        at = node.start + (0 if node.plain else 1)
        for c in node.value:
            probe = at
            while probe < node.end and not (self.text[probe] == c or (c.isspace() and self.text[probe].isspace())):
                probe += 1
            if probe >= node.end or probe - at > 200:
                probe = min(at, max(node.end - 1, node.start))
            offsets.append(probe)
            at = min(probe + 1, node.end)
        offsets.append(at)
        return self.lines.mapped(offsets)
