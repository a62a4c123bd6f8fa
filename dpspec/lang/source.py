"""Reading a spec: text or file to an analysis with its positions.

``parse_text`` and ``parse_file`` raise :class:`SpecError` with every diagnostic found; they raise nothing else for any input.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any, Literal, TypeAlias

from dpspec.lang.dps import Comment, read_dps
from dpspec.lang.draft import Draft, Path
from dpspec.lang.engine import Unparsable, parse_piece
from dpspec.lang.spans import SourceMap
from dpspec.lang.text import Lines
from dpspec.spec.diagnostics import Diagnostic, Span, SpecError, has_errors
from dpspec.spec.expr import Expr
from dpspec.spec.model import Analysis, Node

Surface: TypeAlias = Literal["dps", "yaml"]

MAX_BYTES = 256 * 1024
MAX_DIAGNOSTICS = 100


@dataclass(frozen=True, slots=True)
class Parsed:
    analysis: Analysis
    spans: SourceMap
    text: str
    path: str
    surface: Surface
    comments: tuple[Comment, ...] = ()


def surface_of(path: str) -> Surface | None:
    """By the ending: ``.dps`` or ``.yaml``/``.yml``; None for anything else."""
    lower = path.lower()
    if lower.endswith(".dps"):
        return "dps"
    if lower.endswith((".yaml", ".yml")):
        return "yaml"
    return None


def _refuse(code: str, message: str, help: str, path: str, text: str = "", span: Span | None = None) -> SpecError:
    return SpecError([Diagnostic(code, "error", message, help, span)], path=path, text=text)


def parse_text(text: str, path: str = "<text>", surface: str | None = None) -> Parsed:
    """Parse a whole spec. ``surface`` defaults to the ending of ``path``, else to what the text looks like."""
    if len(text) > MAX_BYTES:
        raise _refuse("DP101", f"a spec of more than {MAX_BYTES // 1024} KiB", "Keep data in files of their own.", path)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for i, c in enumerate(text):
        if (c < " " and c not in "\n\t") or c == "\x7f" or "\ud800" <= c <= "\udfff" or c in "\x85\u2028\u2029\ufeff":
            span = Lines(text).span(i, i + 1)
            raise _refuse("DP102", f"the control character U+{ord(c):04X}", "Remove it.", path, text, span)
    if surface not in (None, "dps", "yaml"):
        raise ValueError(f"surface is dps or yaml, not {surface!r}")
    kind: Surface
    if surface is not None:
        kind = "dps" if surface == "dps" else "yaml"
    else:
        kind = surface_of(path) or ("yaml" if text.lstrip().startswith(("dpspec:", "---", "{")) else "dps")
    draft = Draft()
    comments: list[Comment]
    if not text.strip():
        start = 'Begin with `analysis "name"`.' if kind == "dps" else "Begin with `dpspec: 1`."
        raise _refuse("DP103", "the file is empty", start, path, text, Span(1, 1, 1, 1))
    try:
        if kind == "dps":
            comments = read_dps(text, draft)
        else:
            from dpspec.lang.yaml_comments import yaml_comments
            from dpspec.lang.yaml_front import Front

            front = Front(text, draft)
            front.read()
            comments = yaml_comments(text, front)
    except SpecError as error:
        raise SpecError([_brief(d) for d in error.diagnostics], path=path, text=text) from None
    from dpspec.lang.validate import validate

    analysis, whole = draft.finish()
    found = dict(draft.spans)
    _collect(analysis, (), draft, found)
    spans = SourceMap(found)
    draft.diagnostics.extend(validate(analysis, spans, frozenset(draft.broken)))
    if has_errors(draft.diagnostics):
        raise SpecError(_sorted(draft.diagnostics), path=path, text=text)
    if not whole:
        raise AssertionError("an incomplete analysis without a diagnostic")
    return Parsed(analysis, spans, text, path, kind, tuple(comments))


def _brief(d: Diagnostic) -> Diagnostic:
    """A hostile word must not come back at full length."""
    if len(d.message) <= 300 and len(d.help) <= 600:
        return d
    cut = [text if len(text) <= limit else text[:limit] + "..." for text, limit in ((d.message, 300), (d.help, 600))]
    return Diagnostic(d.code, d.severity, cut[0], cut[1], d.span)


def _sorted(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    unique = list(dict.fromkeys(_brief(d) for d in diagnostics))
    unique.sort(key=lambda d: (d.span.line, d.span.column) if d.span else (0, 0))
    if len(unique) > MAX_DIAGNOSTICS:
        rest = len(unique) - MAX_DIAGNOSTICS
        unique = unique[:MAX_DIAGNOSTICS]
        unique.append(Diagnostic("DP149", "error", f"{rest} more errors", "Correct the ones above first.", unique[-1].span))
    return unique


_NAMED = ("name", "variable", "column")


def _collect(value: Any, path: Path, draft: Draft, found: dict[Path, Span]) -> None:
    """Add the spans of every node and expression below ``value``."""
    marks = draft.marks
    if isinstance(value, Node):
        whole = marks.whole.get(id(value))
        if whole is not None:
            found.setdefault(path, whole)
        for name in type(value).model_fields:
            inner = getattr(value, name)
            where = marks.fields.get((id(value), name))
            if where is not None:
                found.setdefault((*path, name), where)
            _collect(inner, (*path, name), draft, found)
    elif isinstance(value, tuple):
        for i, inner in enumerate(value):
            if isinstance(inner, tuple) and len(inner) == 2 and isinstance(inner[0], str):
                span = getattr(inner[1], "span", None)
                if span is not None:
                    found.setdefault((*path, i), span)
                    found.setdefault((*path, inner[0]), span)
                continue
            _collect(inner, (*path, i), draft, found)
            for key in _NAMED:
                label = getattr(inner, key, None) if isinstance(inner, Node) else None
                if isinstance(label, str):
                    for known in [k for k in found if k[: len(path) + 1] == (*path, i)]:
                        found.setdefault((*path, label, *known[len(path) + 1 :]), found[known])
                    break
    else:
        span = getattr(value, "span", None)
        if isinstance(span, Span):
            found.setdefault(path, span)


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a spec file. Raises :class:`SpecError` for a missing file, a folder, one too large, or one that is not UTF-8."""
    name = os.fspath(path)
    try:
        info = os.stat(name)
        if stat.S_ISDIR(info.st_mode):
            raise _refuse("DP100", f"{name} is a folder", "Name a file.", name)
        if not stat.S_ISREG(info.st_mode):
            raise _refuse("DP100", f"{name} is not a regular file", "Name a file.", name)
        if info.st_size > MAX_BYTES:
            kib = MAX_BYTES // 1024
            raise _refuse(
                "DP101", f"{name} has {info.st_size:,} bytes; a spec has at most {kib} KiB", "Keep data in files of their own.", name
            )
        with open(name, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _refuse("DP100", f"{name} cannot be read: {reason}", "Check the path and its permissions.", name) from None
    if len(raw) > MAX_BYTES:
        raise _refuse("DP101", f"{name} has more than {MAX_BYTES // 1024} KiB", "Keep data in files of their own.", name)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        raise _refuse(
            "DP102",
            f"byte 0x{raw[error.start]:02x} is not UTF-8",
            "Save the file as UTF-8.",
            name,
            "",
            Span(line, column, line, column + 1),
        ) from None


def parse_file(path: str | os.PathLike[str]) -> Parsed:
    """Parse a file by its ending: ``*.dps``, ``*.yaml``, ``*.yml``."""
    name = os.fspath(path)
    text = read_text(name)
    kind = surface_of(name)
    if kind is None:
        raise _refuse("DP100", f"{name} has neither the ending .dps nor .dpspec.yaml", "Rename the file.", name)
    return parse_text(text, name, kind)


@lru_cache(maxsize=4096)
def parse_expr(text: str) -> Expr:
    """One expression of the language. ``**`` is read as ``^``. Raises :class:`SpecError`; spans are positions in ``text``."""
    try:
        value, context = parse_piece("start_expr", text, Lines(text).shifted(0))
    except Unparsable as error:
        raise SpecError([_brief(error.diagnostic)], path="<expression>", text=text) from None
    if context.diagnostics:
        raise SpecError(context.diagnostics, path="<expression>", text=text)
    result: Expr = value
    return result


def spec_files(folder: str | os.PathLike[str]) -> Iterator[FilePath]:
    """Every spec file below a folder, in a stable order."""
    for found in sorted(FilePath(folder).rglob("*")):
        if found.is_file() and (found.suffix == ".dps" or found.name.endswith((".dpspec.yaml", ".dpspec.yml"))):
            yield found
