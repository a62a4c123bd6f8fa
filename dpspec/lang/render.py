"""A diagnostic as text for people: where, the line with the place underlined, why, and what to do."""

from __future__ import annotations

import re

from dpspec.spec.diagnostics import Diagnostic

_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "info": "\x1b[1;36m"}
_BOLD, _BLUE, _OFF = "\x1b[1m", "\x1b[1;34m", "\x1b[0m"
MAX_WIDTH = 160
#: What stands behind the scheme of an address, and a password behind its name, may be a credential: a line that is shown does not show it,
#: whatever is wrong with the line.
_CREDENTIAL = re.compile(r"(?<=://)(?:[^\"]*@)?[^\"\s]*|(?<=passwd=)[^\"&\s]*|(?<=password=)[^\"&\s]*", re.IGNORECASE)


def _visible(text: str) -> str:
    """Control characters must not reach a terminal; a tab takes the width of one space, so that columns stay true."""
    return "".join(" " if c in "\t\u00a0" else c if c.isprintable() else "\ufffd" for c in text)


def render(diagnostic: Diagnostic, text: str = "", path: str = "", *, color: bool = False) -> str:
    """Several lines without a final line break. ``text`` may be empty: then only the place and the words are shown.

    Wide characters count as one column.
    """

    def paint(style: str, words: str) -> str:
        return f"{style}{words}{_OFF}" if color else words

    severity = paint(_COLOURS[diagnostic.severity], f"{diagnostic.severity}[{diagnostic.code}]")
    out = [f"{severity}: {paint(_BOLD, _visible(diagnostic.message))}"]
    span = diagnostic.span
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n") if text else []
    if span is None:
        if path:
            out.append(f"{paint(_BLUE, ' -->')} {_visible(path)}")
    else:
        number = str(span.line)
        pad = " " * len(number)
        out.append(f"{pad}{paint(_BLUE, '-->')} {_visible(path) or '<text>'}:{span.line}:{span.column}")
        if 0 < span.line <= len(lines):
            source = _CREDENTIAL.sub(lambda found: "*" * len(found[0]), _visible(lines[span.line - 1]).rstrip())
            start = min(span.column - 1, len(source))
            end = span.end_column - 1 if span.end_line == span.line else len(source)
            shift = 0
            if len(source) > MAX_WIDTH:
                shift = max(0, min(start - 40, len(source) - MAX_WIDTH))
                source = ("..." if shift else "") + source[shift : shift + MAX_WIDTH] + ("..." if shift + MAX_WIDTH < len(source) else "")
            shown_start = start - shift + (3 if shift else 0)
            width = max(1, min(end - start, len(source) - shown_start))
            bar = paint(_BLUE, "|")
            out.append(f"{pad} {bar}")
            out.append(f"{paint(_BLUE, number)} {bar} {source}")
            out.append(f"{pad} {bar} {' ' * shown_start}{paint(_COLOURS[diagnostic.severity], '^' * width)}")
    if diagnostic.help:
        pad = " " * len(str(span.line)) if span else ""
        out.append(f"{pad} {paint(_BLUE, '=')} {paint(_BOLD, 'help')}: {_visible(diagnostic.help)}")
    return "\n".join(out)
