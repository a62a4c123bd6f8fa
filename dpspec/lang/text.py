"""Positions: from offsets in a piece of text to lines and columns of the file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeAlias

from dpspec.spec.diagnostics import Span

#: From offsets (start, end) in the parsed piece to a span of the file.
Locate: TypeAlias = Callable[[int, int], Span]


class Lines:
    """Line starts of a text whose line breaks are ``\\n``."""

    __slots__ = ("length", "starts")

    def __init__(self, text: str) -> None:
        starts = [0]
        at = text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = text.find("\n", at + 1)
        self.starts = starts
        self.length = len(text)

    def position(self, offset: int) -> tuple[int, int]:
        offset = max(0, min(offset, self.length))
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        line, column = self.position(start)
        end_line, end_column = self.position(max(start, end))
        return Span(line, column, end_line, end_column)

    def shifted(self, base: int) -> Locate:
        return lambda start, end: self.span(base + start, base + end)

    def mapped(self, offsets: Sequence[int]) -> Locate:
        """For text that was unescaped: ``offsets[i]`` is where character i stood; one more entry for the end."""

        def locate(start: int, end: int) -> Span:
            last = len(offsets) - 1
            a = offsets[min(start, last)]
            b = offsets[min(end - 1, last)] + 1 if end > start else a
            return self.span(a, b)

        return locate
