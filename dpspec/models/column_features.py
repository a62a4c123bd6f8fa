"""Features of columns (see :mod:`dpspec.models.features`): a centred number, conditions, a cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspec.models.columns import Cells, Column, Condition, Conditions
from dpspec.models.features import Coins, Told, Vector


@dataclass(frozen=True, slots=True)
class Centred:
    """A column's number on [-1, 1]."""

    column: Column
    kind: ClassVar[str] = "centred-column"
    asks: ClassVar[tuple[str, ...]] = ()

    @property
    def needs_y(self) -> bool:
        return self.column.in_y

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        return [centred(self.column, x, y)]


def centred(column: Column, x: Any, y: Any) -> Vector:
    """The column's entries on [-1, 1], (users, 1)."""
    middle, half = (column.low + column.high) / 2, (column.high - column.low) / 2
    return np.asarray(np.clip((column.entries(x, y) - middle) / half, -1.0, 1.0)[:, None])


@dataclass(frozen=True, slots=True)
class Satisfied:
    """1 where a record satisfies every condition, -1 elsewhere."""

    conditions: tuple[Condition, ...]
    kind: ClassVar[str] = "satisfied"
    asks: ClassVar[tuple[str, ...]] = ()

    @property
    def needs_y(self) -> bool:
        return any(c.column.in_y for c in self.conditions)

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        return [np.where(Conditions(self.conditions).hold(x, y), 1.0, -1.0)[:, None]]


@dataclass(frozen=True, slots=True)
class CellOf:
    """The number of a record's cell among the levels of a column or the intervals between ``edges``, one more for none."""

    column: Column
    cells: int
    edges: tuple[float, ...]
    kind: ClassVar[str] = "cell"
    asks: ClassVar[tuple[str, ...]] = ()

    @property
    def needs_y(self) -> bool:
        return self.column.in_y

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        at = self.column.cells(x, y, np.asarray(self.edges, dtype=np.float64)) if self.edges else self.column.codes(x, y)
        return [np.where(at < 0, self.cells, at)]


def cell_of(cells: Cells) -> CellOf:
    return CellOf(cells.column, len(cells.names), tuple(cells.edges))
