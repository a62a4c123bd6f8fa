"""Text to plain data with the place of every key: safe, duplicate keys refused, no tags, aliases bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from dpspec.spec.diagnostics import Diagnostic, Span, SpecError

Path: TypeAlias = tuple[str | int, ...]
_MOST_NODES = 200_000
_TAGS = frozenset({"str", "int", "float", "bool", "null", "map", "seq", "timestamp"})


@dataclass(frozen=True, slots=True)
class Read:
    data: Any
    spans: Mapping[Path, Span]  # of the key (mappings) or of the item (lists)


def _span(node: Any) -> Span:
    a, b = node.start_mark, node.end_mark
    return Span(a.line + 1, a.column + 1, b.line + 1, b.column + 1)


def read_yaml_all(text: str, path: str = "") -> list[Any]:
    """The data of every document of a stream, parted by lines of ``---``. Raises as :func:`read_yaml` does."""
    parts, lines = list[str](), list[str]()
    for line in text.splitlines(keepends=True):
        if line.rstrip() == "---":
            parts.append("".join(lines))
            lines = []
        else:
            lines.append(line)
    parts.append("".join(lines))
    full = [p for p in parts if p.strip()]
    return [read_yaml(p, path).data for p in (full if len(full) > 1 else [text])]


def read_yaml(text: str, path: str = "") -> Read:
    """Mappings, lists and scalars of one document. Numbers keep their YAML 1.2 meaning, and ``1e-5`` without a point is a number too.

    Raises :class:`SpecError` with DP670 when the text is no YAML, repeats a key, carries a tag or expands too far.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    def refuse(message: str, span: Span | None) -> SpecError:
        return SpecError([Diagnostic("DP670", "error", message, span=span)], path=path, text=text)

    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        span = None if mark is None else Span(mark.line + 1, mark.column + 1, mark.line + 1, mark.column + 2)
        raise refuse(f"this is not YAML: {error.problem or error}", span) from None
    except YAMLError as error:
        raise refuse(f"this is not YAML: {error}", None) from None
    except RecursionError:
        raise refuse("the document is nested too deeply", None) from None
    spans: dict[Path, Span] = {}
    seen = 0

    def build(node: Any, at: Path) -> Any:
        nonlocal seen
        seen += 1
        if seen > _MOST_NODES or len(at) > 60:
            raise refuse("the document expands too far", _span(node))
        kind = type(node).__name__
        tag = str(node.tag)
        if tag.removeprefix("tag:yaml.org,2002:") not in _TAGS:
            raise refuse(f"tags are not accepted: {tag}", _span(node))
        if kind == "MappingNode":
            found: dict[str, Any] = {}
            for key_node, value_node in node.value:
                if type(key_node).__name__ != "ScalarNode":
                    raise refuse("a key must be a word", _span(key_node))
                key = str(key_node.value)
                if key in found:
                    raise refuse(f"the key {key!r} stands twice", _span(key_node))
                spans[(*at, key)] = _span(key_node)
                found[key] = build(value_node, (*at, key))
            return found
        if kind == "SequenceNode":
            items = []
            for i, child in enumerate(node.value):
                spans[(*at, i)] = _span(child)
                items.append(build(child, (*at, i)))
            return items
        return _scalar(str(node.value), tag.rsplit(":", 1)[1], quoted=node.style in ("'", '"', "|", ">"))

    if root is None:
        return Read(None, {})
    return Read(build(root, ()), spans)


def _scalar(value: str, tag: str, quoted: bool) -> Any:
    if quoted or tag == "str":
        if not quoted:
            number = _number(value)
            if number is not None:
                return number
        return value
    if tag == "null":
        return None
    if tag == "bool":
        return value.lower() in ("true", "yes", "on")
    if tag in ("int", "float"):
        number = _number(value)
        return value if number is None else number
    return value


def _number(value: str) -> int | float | None:
    text = value.strip().replace("_", "")
    special = {".inf": float("inf"), "+.inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan")}
    if text.lower() in special:
        return special[text.lower()]
    if not text or not (text[0].isdigit() or text[0] in "+-."):
        return None
    try:
        whole = int(text)
        return whole if abs(whole) < 10**300 else float(text)  # as 1e400 is: infinite
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None
