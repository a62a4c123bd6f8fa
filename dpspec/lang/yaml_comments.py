"""The comments of a YAML spec, each with the entry it belongs to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dpspec.lang.dps import Comment
from dpspec.lang.draft import Path

if TYPE_CHECKING:
    from dpspec.lang.yaml_front import Front

_HASH = re.compile(r"(?:^|(?<=[ \t]))#[^\n]*", re.MULTILINE)


def yaml_comments(text: str, front: Front) -> list[Comment]:
    """A ``#`` at the margin or after a space, outside every scalar. Trailing ones belong to the entry of their line (or the last
    one before), the others to the next entry below."""
    if "#" not in text or not front.places:
        return []
    scalars = sorted(front.reader.scalar_ranges)
    places = sorted(front.places, key=lambda p: p[0])
    comments: list[Comment] = []
    for m in _HASH.finditer(text):
        if any(a < m.start() < b for a, b in scalars):
            continue
        line, column = front.lines.position(m.start())
        line_start = m.start() - (column - 1)
        trailing = bool(text[line_start : m.start()].strip())
        anchor: Path
        if trailing:
            before = [p for at, p in places if at <= line]
            same = [p for at, p in places if at == line]
            anchor = same[0] if same else before[-1] if before else places[0][1]
        else:
            after = [p for at, p in places if at > line]
            if after:
                anchor = after[0]
            elif column > 1:
                last = places[-1][1]
                anchor = (*(last[:2] if last[:1] == ("releases",) else last[:1]), "end")
            else:
                anchor = ("end",)
        comments.append(Comment(m.group().rstrip(), line, trailing, anchor))
    return comments
