"""The records as an algorithm sees them: rows of numbers, dense or CSR, read in blocks."""

from __future__ import annotations

from collections.abc import Iterator
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

    def rounds(self, T: int) -> Iterator[Block]: ...

    def slice(self, start: int, stop: int) -> Rows: ...

    def take(self, index: ArrayLike) -> Rows: ...
