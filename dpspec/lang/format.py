"""The one canonical layout, with the comments of the file where they belong."""

from __future__ import annotations

from typing import Any

from dpspec.lang.draft import Path
from dpspec.lang.printer import dps_lines, to_dps, to_yaml, yaml_lines
from dpspec.lang.source import Parsed, parse_text


def _home(anchor: Path, places: dict[Path, int]) -> int:
    """The printed line of an anchor: itself, else its longest prefix that is printed."""
    for length in range(len(anchor), 0, -1):
        at = places.get(anchor[:length])
        if at is not None:
            return at
    return 0


def formatted(parsed: Parsed) -> str:
    """The canonical text of what was parsed, in its own surface.

    A comment above an entry stays above it, one at the end of a line stays there; when several lines become one, the first trailing
    comment stays and the others move above.
    """
    lines = dps_lines(parsed.analysis) if parsed.surface == "dps" else yaml_lines(parsed.analysis)
    places: dict[Path, int] = {}
    for i, line in enumerate(lines):
        for path in line.paths:
            places.setdefault(path, i)
    above: dict[int, list[str]] = {}
    trailing: dict[int, str] = {}
    for comment in parsed.comments:
        at = _home(comment.anchor, places)
        if comment.trailing and lines[at].text and at not in trailing:
            trailing[at] = comment.text
        else:
            above.setdefault(at, []).append(comment.text)
    out: list[str] = []
    for i, line in enumerate(lines):
        if line.paths == (("end",),) and i in above and parsed.surface == "dps":
            out.append("")
        out.extend(" " * line.indent + text for text in above.get(i, []))
        if line.text:
            out.append(" " * line.indent + line.text + (f"  {trailing[i]}" if i in trailing else ""))
        elif not line.paths:
            out.append("")
    return "\n".join(out) + "\n"


def format_text(text: str, path: str) -> str:
    """Parse and print. Raises :class:`SpecError` when the text does not parse: a broken file is left alone."""
    return formatted(parse_text(text, path))


def convert(parsed: Parsed, to: str) -> str:
    """The text in the surface ``to`` ("dps" or "yaml"). Into its own surface: formatted, comments kept."""
    if to == parsed.surface:
        return formatted(parsed)
    writers: dict[str, Any] = {"dps": to_dps, "yaml": to_yaml}
    if to not in writers:
        raise ValueError(f"surface is dps or yaml, not {to!r}")
    text: str = writers[to](parsed.analysis)
    return text
