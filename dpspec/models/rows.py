"""The records as an algorithm sees them: rows of numbers, dense or CSR, read in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike

#: (x, y) of consecutive records: x dense or CSR of shape (k, d), y of shape (k,); None where the records have no responses.
Block: TypeAlias = tuple[Any, Any]


class Rows(Protocol):
    """Enforced records. :class:`dpspec.data.records.Records` holds them, ``GeneratedRecords`` draws them (study mode)."""

    @property
    def n(self) -> int: ...

    @property
    def d(self) -> int: ...

    @property
    def x(self) -> Any: ...

    @property
    def y(self) -> Any: ...

    @property
    def has_y(self) -> bool: ...

    @property
    def public_x(self) -> Any: ...

    def blocks(self, size: int = ...) -> Iterator[Block]: ...

    def beside(self, name: str) -> tuple[Any, tuple[str, ...]]:
        """A column of words beside x: the code of each record's word, (n,), -1 for none, and the words."""

    def rounds(self, T: int) -> Iterator[Block]: ...

    def slice(self, start: int, stop: int) -> Rows: ...

    def take(self, index: ArrayLike) -> Rows: ...


def each(records: Any, rows: int, part: Callable[[Any, Any], Any]) -> Iterator[Any]:
    """``part(x, y)`` of consecutive blocks of ``rows`` records, in order. Records whose blocks are spread over workers compute it there
    (they have a method ``each``): it must be a function of its block and of public or released numbers, and what it returns small."""
    spread = getattr(records, "each", None)
    if spread is not None:
        yield from spread(rows, part)
        return
    for x, y in records.blocks(rows):
        yield part(x, y)
