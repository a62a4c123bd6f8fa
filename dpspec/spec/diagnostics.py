"""Spans and diagnostics: what is wrong, where, why, and what to do.

Every layer reports through these two types. The registry of codes (one entry a code, with its long form) is
:mod:`dpspec.spec.codes`; a diagnostic with an unregistered code cannot be built.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text. Lines and columns count from 1; ``end_column`` is exclusive; columns count characters."""

    line: int
    column: int
    end_line: int
    end_column: int

    def to_json(self) -> dict[str, int]:
        return {
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
        }


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that a finding is about: of a broken rule, where the policy states it."""

    path: str
    message: str
    span: Span | None = None

    def to_json(self) -> dict[str, object]:
        return {"path": self.path, "message": self.message, "span": None if self.span is None else self.span.to_json()}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. ``help`` is the remedy, in the imperative; ``span`` is None only when no text is at fault (a missing file); ``related``:
    places in other files."""

    code: str
    severity: Severity
    message: str
    help: str = ""
    span: Span | None = None
    related: tuple[Related, ...] = ()

    @property
    def asks(self) -> bool:
        """Whether somebody has something to do or to know: all but remarks, such as what a printed formula would have spent."""
        return self.severity != "info" or (bool(self.help) and not self.help.startswith("nothing to do"))

    def __post_init__(self) -> None:
        from dpspec.spec.codes import CODES

        if self.code not in CODES:
            raise ValueError(f"unregistered diagnostic code {self.code}")

    def to_json(self) -> dict[str, object]:
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "help": self.help,
            "span": None if self.span is None else self.span.to_json(),
            **({"related": [r.to_json() for r in self.related]} if self.related else {}),
        }


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(d.severity == "error" for d in diagnostics)


class SpecError(Exception):
    """The input cannot be used. Carries every diagnostic found, never only the first.

    ``text`` and ``path`` let a renderer underline the place; both may be empty.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic], *, path: str = "", text: str = "") -> None:
        self.diagnostics = tuple(diagnostics)
        self.path = path
        self.text = text
        super().__init__("\n".join(f"{d.code}: {d.message}" for d in self.diagnostics))
