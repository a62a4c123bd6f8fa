"""One column of the records, as statistics read it: a number with its declared interval, or a level.

Everything here looks at one record at a time and is total: whatever a record holds, a number comes out in its interval and a level is one
of
the declared ones or none. So how far a record may move a statistic follows from this file alone.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpspec.models.rows import Rows, each

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]

#: Rows that are read at a time.
ROWS = 1 << 16
#: Rows whose numbers several passes find in the cache.
NEAR = 1 << 16
#: Edges of a histogram that each number is compared with one by one.
_FEW = 16
#: Bits of the lower half of a number that is added.
_HALF = 26


@dataclass(frozen=True, slots=True)
class Column:
    """``entries`` are what the records hold: column ``first`` of x, or y. The author's number is ``offset + factor*entry``, for entries in
    [``low``, ``high``]; with ``auto`` these are only as wide as anything goes, and no sensitivity may rest on them; of a column with
    ``levels``, ``width`` entries are its indicators (for ``values`` it is one entry that is one of them)."""

    name: str
    in_y: bool = False
    first: int = 0
    width: int = 1
    low: float = 0.0
    high: float = 1.0
    offset: float = 0.0
    factor: float = 1.0
    levels: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    auto: bool = False
    #: what no client needs: words for people, and automatic bounds, which are of the central model
    unsent: ClassVar[Mapping[str, Any]] = {"name": "", "levels": (), "auto": False}

    @property
    def value_low(self) -> float:
        return self.offset + self.factor * self.low

    @property
    def value_high(self) -> float:
        return self.offset + self.factor * self.high

    def raw(self, x: Any, y: Any) -> Numbers:
        """The entries of a block, (rows,) or (rows, width)."""
        if self.in_y:
            return np.asarray(y, dtype=np.float64)
        if self.width == 1:
            found = x[:, [self.first]] if hasattr(x, "toarray") else x[:, self.first]
        else:
            found = x[:, self.first : self.first + self.width]
        dense = found.toarray() if hasattr(found, "toarray") else found
        return np.asarray(dense, dtype=np.float64).reshape((-1,) if self.width == 1 else (-1, self.width))

    def entries(self, x: Any, y: Any) -> Numbers:
        """Entries inside the interval; what is no number becomes its lower end."""
        found = np.clip(self.raw(x, y), self.low, self.high)
        missing = np.isnan(found)
        return np.where(missing, self.low, found) if missing.any() else found

    def codes(self, x: Any, y: Any) -> Codes:
        """The level of each record, -1 for none."""
        raw = self.raw(x, y)
        if self.values:
            at = np.full(raw.shape, -1, dtype=np.int64)
            for k, value in enumerate(self.values):
                at[raw == value] = k
            return at
        best = np.argmax(raw, axis=1).astype(np.int64)
        return np.where(raw[np.arange(raw.shape[0]), best] > 0, best, -1)

    def entry(self, value: float) -> float:
        """The entry of an author's number, as the encoding computes it, so that comparisons of entries are those of numbers; infinite
        beyond
        the interval, which no entry leaves."""
        if value > self.value_high:
            return math.inf
        if value < self.value_low:
            return -math.inf
        return (value - self.offset) / self.factor

    def cells(self, x: Any, y: Any, edges: Numbers) -> Codes:
        """The interval of each record between rising ``edges`` (as entries): [e_0, e_1), ..., [e_{m-1}, e_m]; -1 outside."""
        v = self.entries(x, y)
        at = np.searchsorted(edges, v, side="right") - 1
        at = np.where(v == edges[-1], edges.size - 2, at)
        return np.where((v < edges[0]) | (v > edges[-1]), -1, at).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Condition:
    """``column order bound``: the bound is an entry, or the index of a level."""

    column: Column
    order: str
    bound: float

    def holds(self, x: Any, y: Any) -> NDArray[np.bool_]:
        c = self.column
        v = c.codes(x, y) if c.width > 1 or c.values else c.entries(x, y)
        match self.order:
            case "<":
                return np.asarray(v < self.bound)
            case "<=":
                return np.asarray(v <= self.bound)
            case ">":
                return np.asarray(v > self.bound)
            case ">=":
                return np.asarray(v >= self.bound)
            case _:
                return np.asarray(v == self.bound)


@dataclass(frozen=True, slots=True)
class Conditions:
    """All of them, for each record."""

    parts: tuple[Condition, ...] = ()

    def count(self, records: Rows) -> int:
        """How many records satisfy them."""
        return sum(each(records, ROWS, lambda x, y: int(np.count_nonzero(self.hold(x, y)))))

    def hold(self, x: Any, y: Any) -> NDArray[np.bool_]:
        """Of each record of a block, whether all of them do."""
        kept = np.ones(x.shape[0], dtype=bool)
        for part in self.parts:
            kept &= part.holds(x, y)
        return kept


@dataclass(frozen=True, slots=True)
class Cells:
    """What a histogram counts: the levels of a column, or the intervals between ``edges`` (entries). ``names``: one a cell."""

    column: Column
    names: tuple[str, ...]
    edges: tuple[float, ...] = ()

    def counts(self, records: Rows) -> Codes:
        """How many records lie in each cell."""
        total = np.zeros(len(self.names), dtype=np.int64)
        edges = np.asarray(self.edges, dtype=np.float64)

        def part(x: Any, y: Any) -> Codes:
            if 0 < edges.size <= _FEW:  # a comparison with each edge is quicker than a search
                v = self.column.entries(x, y)
                below = [np.count_nonzero(v < edge) for edge in edges[:-1]]
                return np.diff([*below, np.count_nonzero(v <= edges[-1])]).astype(np.int64)
            at = self.column.cells(x, y, edges) if self.edges else self.column.codes(x, y)
            return np.bincount(at[at >= 0], minlength=len(self.names))

        for one in each(records, ROWS, part):
            total += one
        return total


@dataclass(frozen=True, slots=True)
class Keys:
    """What `group by` groups: the records with one key, of those that satisfy the conditions. The key is the level or the number of
    ``column``, or where that is None the word of the column ``name`` beside x, of which a record may have none. ``of``: the column that is
    summed. ``unit``: the column beside x that tells units apart; empty where a record is one."""

    name: str
    column: Column | None
    conditions: Conditions = Conditions()
    of: Column | None = None
    unit: str = ""

    @property
    def levels(self) -> tuple[str, ...]:
        """The declared keys; empty where nobody declared them."""
        return () if self.column is None else self.column.levels

    def groups(self, records: Rows) -> Codes:
        """The place of each record's key among :meth:`listed`, -1 where it has none or does not satisfy the conditions."""
        return self._read(records)[0]

    def tally(self, records: Rows, each: int = 0) -> tuple[Numbers, Codes, Callable[[Numbers], list[str]]]:
        """The keys that are there (of declared ones, all), how many records have each, and how keys are written. ``each``: of one unit so
        many records at most count in one key, where it is not 0."""
        codes, keys, written = self._read(records)
        said = getattr(records, "words", {}).get(self.unit)
        if each and said is not None:
            there = (codes >= 0) & (said[0] >= 0)
            pairs, rows = np.unique(said[0][there] * keys.size + codes[there], return_counts=True)
            return self._there(np.bincount(np.repeat(pairs % keys.size, np.minimum(rows, each)), minlength=keys.size), keys, written)
        return self._there(np.bincount(codes[codes >= 0], minlength=keys.size), keys, written)

    def units(self, records: Rows) -> tuple[Numbers, Codes, Codes, Callable[[Numbers], list[str]]]:
        """The same keys, how many units have each, the place of each record's key, and how keys are written."""
        codes, keys, written = self._read(records)
        said = getattr(records, "words", {}).get(self.unit)
        there = codes >= 0
        if said is None:  # each record is a unit of its own
            return keys, np.bincount(codes[there], minlength=keys.size), codes, written
        there &= said[0] >= 0
        pairs = np.unique(said[0][there] * keys.size + codes[there])  # places in two lists: one number each
        return keys, np.bincount(pairs % keys.size, minlength=keys.size), codes, written

    def sums(self, records: Rows, codes: Codes, size: int, numbers: Callable[[Numbers], Codes]) -> Codes:
        """Sums over the records of each key, (width, size); ``numbers`` maps entries of ``of`` to whole numbers below 2^52, (width, rows).

        Exact below 2^59, and of the right sign and beyond 2^59 otherwise, for up to 2^33 records: nothing goes round the 64 bits, since
        numbers are added in two halves. Where n is private, how many records there are is bounded by nothing that a step was chosen by.
        """
        assert self.of is not None  # a count has none, and asks for no sums
        high, low, start = np.zeros((0, size), dtype=np.int64), np.zeros((0, size), dtype=np.int64), 0
        for x, y in records.blocks(ROWS):
            part = codes[start : start + x.shape[0]]
            start += x.shape[0]
            found = numbers(self.of.entries(x, y))
            if not high.shape[0]:
                high, low = (np.zeros((found.shape[0], size), dtype=np.int64) for _ in range(2))
            at = part >= 0
            for j, values in enumerate(found):
                np.add.at(high[j], part[at], values[at] >> _HALF)
                np.add.at(low[j], part[at], values[at] & (2**_HALF - 1))
        return np.asarray(np.clip(high, -(2**34), 2**34) * 2**_HALF + low, dtype=np.int64)

    def _read(self, records: Rows) -> tuple[Codes, Numbers, Callable[[Numbers], list[str]]]:
        words = None if self.column is not None else records.beside(self.name)
        found: list[Any] = [np.empty(0)]
        held: list[NDArray[np.bool_]] = [np.empty(0, dtype=bool)]
        for x, y in records.blocks(ROWS):
            held.append(self.conditions.hold(x, y))
            if self.column is not None:
                found.append(self._of(x, y))
        hold = np.concatenate(held)
        if words is not None:
            codes, said = words
            return (
                np.where(hold, codes, -1).astype(np.int64),
                np.arange(len(said), dtype=np.float64),
                lambda some: [said[int(v)] for v in some],
            )
        keys = np.concatenate(found)
        if self.levels:
            names = self.levels
            return (
                np.where(hold, keys, -1).astype(np.int64),
                np.arange(len(names), dtype=np.float64),
                lambda some: [names[int(v)] for v in some],
            )
        listed, at = np.unique(keys, return_inverse=True)
        return np.where(hold, at, -1).astype(np.int64), listed, lambda some: [f"{v:.15g}" for v in some]

    def _of(self, x: Any, y: Any) -> Any:
        c = self.column
        assert c is not None  # keys that are words are read as a whole
        if c.levels:
            return c.codes(x, y)
        return np.clip(c.offset + c.factor * c.entries(x, y), c.value_low, c.value_high)

    def _there(
        self, counts: Codes, keys: Numbers, written: Callable[[Numbers], list[str]]
    ) -> tuple[Numbers, Codes, Callable[[Numbers], list[str]]]:
        there = np.arange(keys.size) if self.levels else np.flatnonzero(counts)
        return keys[there], counts[there], written


@dataclass(frozen=True, slots=True)
class Tables:
    """All tables of ``order`` of these columns of levels, in lexicographic order. A record without a level counts as the first one."""

    columns: tuple[Column, ...]
    order: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(c.levels) for c in self.columns)

    @property
    def names(self) -> Iterator[str]:
        """One a cell, table after table."""
        for chosen in itertools.combinations(self.columns, self.order):
            for words in itertools.product(*(c.levels for c in chosen)):
                yield ", ".join(f"{c.name}={word}" for c, word in zip(chosen, words, strict=True))

    def counts(self, records: Rows) -> Codes:
        """How many records lie in each cell, table after table."""
        sizes = self.sizes
        chosen = list(itertools.combinations(range(len(sizes)), self.order))
        total = [np.zeros(math.prod(sizes[j] for j in of), dtype=np.int64) for of in chosen]
        for x, y in records.blocks(ROWS):
            codes = [np.maximum(c.codes(x, y), 0) for c in self.columns]
            for table, of in zip(total, chosen, strict=True):
                at = codes[of[0]]
                for j in of[1:]:
                    at = at * sizes[j] + codes[j]
                table += np.bincount(at, minlength=table.size)
        return np.concatenate(total)


def entries(column: Column, records: Rows) -> Iterator[Numbers]:
    """The entries of all records, block after block."""
    for x, y in records.blocks(ROWS):
        yield column.entries(x, y)


_HELD = threading.local()


def room() -> Numbers:
    """A buffer of NEAR numbers, this thread's own: fresh memory for every block would cost more than a pass over it."""
    found: Numbers | None = getattr(_HELD, "room", None)
    if found is None:
        found = _HELD.room = np.empty(NEAR)
    return found


def pieces(column: Column, x: Any, y: Any) -> Iterator[Numbers]:
    """What a block holds in this column, unclipped, a few rows at a time: views of the records, not to be written to."""
    raw = column.raw(x, y)
    for start in range(0, raw.shape[0], NEAR):
        yield raw[start : start + NEAR]


def values(column: Column, records: Rows) -> Iterator[Numbers]:
    """The author's numbers of all records, block after block."""
    for x, y in records.blocks(ROWS):
        yield numbers(column, x, y)


def numbers(column: Column, x: Any, y: Any) -> Numbers:
    """The author's numbers of the records of a block."""
    return np.clip(column.offset + column.factor * column.entries(x, y), column.value_low, column.value_high)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A column and rising shares of its records."""

    column: Column
    shares: tuple[float, ...]

    def exact(self, records: Rows) -> Numbers:
        """The sample quantiles: the least number at or below which the share of the records lies."""
        found = [v for v in values(self.column, records) if v.size]
        if not found:
            return np.full(len(self.shares), self.column.value_low)
        return np.asarray(np.quantile(np.concatenate(found), self.shares, method="inverted_cdf"))

    def rank_errors(self, records: Rows, answers: Numbers, near: float = 0.0) -> Numbers:
        """How far each answer is from holding its share: p n outside [number below it, number at or below it], as a share of the records.
        Numbers within ``near`` of the answer count as equal to it."""
        below, at, total = np.zeros(len(self.shares)), np.zeros(len(self.shares)), 0
        for v in values(self.column, records):
            below += [np.count_nonzero(v < a - near) for a in answers]
            at += [np.count_nonzero(v <= a + near) for a in answers]
            total += v.size
        wanted = np.asarray(self.shares) * total
        return np.asarray(np.maximum(np.maximum(below - wanted, wanted - at), 0.0) / max(total, 1))
