"""Where the parts of an analysis stand in its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpspec.lang.draft import Path
from dpspec.spec.diagnostics import Span


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Where the parts of an analysis stand, by model path: ``("releases", 0, "expect", "at_most")``, ``("data", "n")``.

    Named parts answer to their index and to their name: ``("data", "domains", 0)`` and ``("data", "domains", "x")``.
    """

    spans: Mapping[Path, Span] = field(default_factory=dict)

    def get(self, *path: str | int) -> Span | None:
        """The span of the longest known prefix of ``path``; None when nothing is known (an analysis made in Python)."""
        for length in range(len(path), 0, -1):
            span = self.spans.get(path[:length])
            if span is not None:
                return span
        return None

    def lookup(self, path: Path) -> Span | None:
        """:meth:`get` for a path in one piece."""
        return self.get(*path)

    def exact(self, *path: str | int) -> Span | None:
        return self.spans.get(path)
