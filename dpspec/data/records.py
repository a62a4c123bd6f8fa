"""Records: the data of one analysis as the algorithms see it.

Two classes with one interface. :class:`Records` holds arrays (dense or CSR); :class:`GeneratedRecords` draws a synthetic data set
block by block from a deterministic stream (study mode only) and keeps what it drew while that fits its memory limit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpspec.data.problems import fail

Vector: TypeAlias = NDArray[np.float64]
#: A float64 array of shape (n, d), or a scipy CSR array of that shape.
Matrix: TypeAlias = Any
Block: TypeAlias = tuple[Matrix, Vector | None]
#: Of a column that is no feature: the code of each record, -1 for none, and the word behind each code.
Words: TypeAlias = tuple[NDArray[np.int64], tuple[str, ...]]

BLOCK: Final = 65_536
#: A generated data set is kept in memory up to this many bytes; a larger one is drawn again at every pass.
CACHE_BYTES: Final = 512 * 2**20


def is_sparse(x: object) -> bool:
    """Whether ``x`` is a scipy sparse container (checked without importing scipy)."""
    return hasattr(x, "tocsr") and not isinstance(x, np.ndarray)


def _read_only(a: Vector) -> Vector:
    view = a.view()
    view.flags.writeable = False
    return view


def _matrix(x: Any) -> Matrix:
    if getattr(getattr(x, "dtype", None), "kind", "") == "c":
        raise ValueError("complex numbers are no records")
    if is_sparse(x):
        from scipy.sparse import csr_array

        m = csr_array(x, dtype=np.float64)
        if not m.has_canonical_format:
            m = m.copy()
            m.sum_duplicates()
        m.data = _read_only(m.data)
        return m
    a = np.asarray(x, dtype=np.float64)
    if a.ndim == 1:
        a = a[:, None]
    if a.ndim != 2:
        raise ValueError(f"x must have one or two dimensions, it has {a.ndim}")
    return _read_only(np.ascontiguousarray(a))


def round_bounds(n: int, T: int) -> tuple[tuple[int, int], ...]:
    """Half-open row ranges of T disjoint consecutive batches of n records.

    Batch t (counted from 1) is {(t-1)*floor(n/T)+1, ..., t*floor(n/T)} in the 1-based numbering of document 004; the last batch also
    takes the remainder, so that every record is in exactly one batch. Raises SpecError (DP540) when T > n: a batch would be empty.
    """
    if T < 1:
        raise ValueError(f"the number of rounds must be at least 1, it is {T}")
    if n < T:
        fail("DP540", f"{T} rounds on disjoint records need at least {T} records, there are n = {n}", "lower T or raise n")
    m = n // T
    return tuple(((t - 1) * m, t * m if t < T else n) for t in range(1, T + 1))


def _none_beside(name: str) -> NoReturn:
    fail(
        "DP523",
        f"the records have no column {name!r} beside x: a data law draws x and y",
        "group by a column of x, or study on public data",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Records in memory.

    ``x``: (n, d) float64, C order, or CSR; a vector becomes one column. ``y``: (n,) float64 or None. ``public_x``: (m, d) public
    records of the same shape, or None. ``mapped``: variables whose ``map`` rule has already been applied (so that it is applied
    once). ``words``: columns beside x by name, which no domain and no algorithm for x sees. The arrays are read-only views. Raises
    ValueError for shapes that do not fit together.
    """

    x: Matrix
    y: Vector | None = None
    public_x: Matrix | None = None
    mapped: frozenset[str] = frozenset()
    words: Mapping[str, Words] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        if any(codes.shape != (self.x.shape[0],) for codes, _ in self.words.values()):
            raise ValueError("a column beside x has another length")
        set_(self, "x", _matrix(self.x))
        if self.y is not None:
            y = np.asarray(self.y, dtype=np.float64)
            if y.ndim == 2 and y.shape[1] == 1:
                y = y[:, 0]
            if y.shape != (self.n,):
                raise ValueError(f"y has shape {y.shape}, the {self.n} records of x need ({self.n},)")
            set_(self, "y", _read_only(np.ascontiguousarray(y)))
        if self.public_x is not None:
            public = _matrix(self.public_x)
            if public.shape[1] != self.d:
                raise ValueError(f"public x has {public.shape[1]} columns, x has {self.d}")
            set_(self, "public_x", public)

    @property
    def n(self) -> int:
        return int(self.x.shape[0])

    @property
    def d(self) -> int:
        return int(self.x.shape[1])

    @property
    def has_y(self) -> bool:
        return self.y is not None

    @property
    def sparse(self) -> bool:
        return is_sparse(self.x)

    def _rows(self, start: int, stop: int) -> Block:
        if (start, stop) == (0, self.n):
            return self.x, self.y
        return _slice(self.x, start, stop), None if self.y is None else self.y[start:stop]

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """Consecutive blocks ``(x, y)`` of at most ``size`` records, in order; views where ``x`` is dense."""
        for start in range(0, self.n, size):
            yield self._rows(start, min(start + size, self.n))

    def rounds(self, T: int) -> Iterator[Block]:
        """The T disjoint consecutive batches of :func:`round_bounds`, as ``(x, y)``."""
        for start, stop in round_bounds(self.n, T):
            yield self._rows(start, stop)

    def slice(self, start: int, stop: int) -> Records:
        """Records start, ..., stop-1."""
        x, y = self._rows(start, stop)
        words = {name: (codes[start:stop], said) for name, (codes, said) in self.words.items()}
        return Records(x, y, self.public_x, self.mapped, words)

    def take(self, index: ArrayLike) -> Records:
        """The records at ``index`` (integers or a boolean mask), in that order."""
        i = np.asarray(index)
        words = {name: (codes[i], said) for name, (codes, said) in self.words.items()}
        return Records(self.x[i], None if self.y is None else self.y[i], self.public_x, self.mapped, words)

    def beside(self, name: str) -> Words:
        """The words of a column beside x. Raises SpecError DP523 where there is none of this name."""
        return self.words[name] if name in self.words else _none_beside(name)

    def in_memory(self) -> Records:
        return self


def _slice(x: Any, start: int, stop: int) -> Any:
    """Rows of a dense or a CSR array as a view: slicing a CSR array would copy its entries, and so would its constructor."""
    if not is_sparse(x):
        return x[start:stop]
    first, last = x.indptr[start], x.indptr[stop]
    part = type(x)((stop - start, x.shape[1]))
    part.data, part.indices, part.indptr = x.data[first:last], x.indices[first:last], x.indptr[start : stop + 1] - first
    part.has_canonical_format = True  # as the whole
    return part


#: Fills one drawing block in place: ``fill(block, x, y)`` with x of shape (rows, d) and y of shape (rows,). The outcome depends on
#: the block's number and its number of rows only.
Fill: TypeAlias = Callable[[int, Vector, Vector], None]


def drawing_rows(d: int) -> int:
    """Rows of a drawing block: a function of d alone, about 4 MB of doubles, so that streams do not depend on who reads them."""
    return max(256, min(BLOCK, 2**19 // max(d, 1)))


#: The array of the last kept data set, for the next trial of the same shape: fresh pages cost a third of the drawing.
_POOL: list[Vector] = []


def _pooled(n: int, d: int) -> Vector:
    """An (n, d) array to be filled: the last one again when nothing else refers to it any more, else a new one."""
    if _POOL and _POOL[0].shape == (n, d) and sys.getrefcount(_POOL[0]) == 2:  # the list, and the argument
        return _POOL[0]
    _POOL.clear()
    _POOL.append(np.empty((n, d)))
    return _POOL[0]


class _Store:
    """The drawn blocks of one generated data set: a grid of ``rows`` records a block."""

    __slots__ = ("_buffers", "_drawn", "_last", "_x", "_y", "d", "fill", "keep", "n", "rows")

    def __init__(self, n: int, d: int, fill: Fill, cache_bytes: int) -> None:
        self.n, self.d, self.fill = n, d, fill
        self.rows = drawing_rows(d)
        self.keep = 8 * n * (d + 1) <= cache_bytes
        self._drawn: NDArray[np.bool_] = np.zeros(-(-n // self.rows), dtype=bool)
        self._x: Vector | None = None
        self._y: Vector | None = None
        self._last: tuple[int, Vector, Vector] | None = None
        self._buffers: list[Vector] = []

    def _buffer(self, size: int) -> Vector:
        """A (size, d) array to draw into: one that was handed out before when no view of it is alive, else a new one. Fresh memory for
        every block costs as much in page faults as a fifth of the drawing."""
        for i in range(len(self._buffers)):
            if len(self._buffers[i]) == size and sys.getrefcount(self._buffers[i]) == 2:  # this list, and the argument
                return self._buffers[i]
        made = np.empty((size, self.d))
        self._buffers = [*self._buffers[-2:], made]
        return made

    def _draw(self, block: int) -> tuple[Vector, Vector]:
        """One block of a data set that is too large to keep; the last one drawn is remembered."""
        if self._last is not None and self._last[0] == block:
            return self._last[1], self._last[2]
        self._last = None
        size = min(self.rows, self.n - block * self.rows)
        x, y = self._buffer(size), np.empty(size)
        self.fill(block, x, y)
        self._last = (block, _read_only(x), _read_only(y))
        return self._last[1], self._last[2]

    def read(self, start: int, stop: int) -> tuple[Vector, Vector]:
        if stop <= start:
            return np.empty((0, self.d)), np.empty(0)
        first, last = start // self.rows, (stop - 1) // self.rows
        if self.keep:
            if self._x is None or self._y is None:
                self._x, self._y = _pooled(self.n, self.d), np.empty(self.n)
            for block in range(first, last + 1):
                if not self._drawn[block]:
                    rows = slice(block * self.rows, min((block + 1) * self.rows, self.n))
                    self.fill(block, self._x[rows], self._y[rows])
                    self._drawn[block] = True
            return _read_only(self._x[start:stop]), _read_only(self._y[start:stop])
        if first == last:
            x, y = self._draw(first)
            offset = first * self.rows
            return x[start - offset : stop - offset], y[start - offset : stop - offset]
        x_out, y_out = np.empty((stop - start, self.d)), np.empty(stop - start)
        for block in range(first, last + 1):
            x, y = self._draw(block)
            offset = block * self.rows
            a, b = max(start, offset), min(stop, offset + len(y))
            x_out[a - start : b - start] = x[a - offset : b - offset]
            y_out[a - start : b - start] = y[a - offset : b - offset]
        return _read_only(x_out), _read_only(y_out)


class GeneratedRecords:
    """A synthetic data set that is drawn when it is read (study mode).

    ``fill`` writes one drawing block (see :data:`Fill`); every consumer sees the same records whatever block sizes it asks for. The
    arrays handed out are read-only. While 8*n*(d+1) bytes fit in ``cache_bytes`` a block is drawn once; beyond that it is drawn
    again at every pass and memory stays at a few blocks (``rounds``, ``take`` and ``x`` then hold what they return).
    """

    __slots__ = ("_start", "_stop", "_store", "d", "has_y", "mapped", "n", "public_x")

    def __init__(
        self,
        n: int,
        d: int,
        fill: Fill,
        *,
        has_y: bool = True,
        public_x: Matrix | None = None,
        cache_bytes: int = CACHE_BYTES,
        mapped: frozenset[str] = frozenset(),
    ) -> None:
        self._bind(_Store(n, d, fill, cache_bytes), 0, n, has_y, public_x, mapped)

    def _bind(self, store: _Store, start: int, stop: int, has_y: bool, public_x: Matrix | None, mapped: frozenset[str]) -> None:
        self._store, self._start, self._stop = store, start, stop
        self.n, self.d, self.has_y, self.mapped = stop - start, store.d, has_y, mapped
        self.public_x = None if public_x is None else _matrix(public_x)

    @property
    def sparse(self) -> bool:
        return False

    @property
    def x(self) -> Vector:
        return self._rows(0, self.n)[0]

    @property
    def y(self) -> Vector | None:
        return self._rows(0, self.n)[1]

    def _rows(self, start: int, stop: int) -> tuple[Vector, Vector | None]:
        x, y = self._store.read(self._start + start, self._start + stop)
        return x, y if self.has_y else None

    def beside(self, name: str) -> Words:
        """There are none: raises SpecError DP523."""
        return _none_beside(name)

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """Consecutive blocks ``(x, y)`` of at most ``size`` records, in order; they end where drawing blocks end."""
        start = 0
        while start < self.n:
            row = self._start + start
            boundary = (row // self._store.rows + 1) * self._store.rows - self._start
            stop = min(start + size, boundary, self.n)
            yield self._rows(start, stop)
            start = stop

    def rounds(self, T: int) -> Iterator[Block]:
        """The T disjoint consecutive batches of :func:`round_bounds`, as ``(x, y)``."""
        for start, stop in round_bounds(self.n, T):
            yield self._rows(start, stop)

    def slice(self, start: int, stop: int) -> GeneratedRecords:
        """Records start, ..., stop-1; shares what has been drawn."""
        start, stop, _ = slice(start, stop).indices(self.n)
        part = GeneratedRecords.__new__(GeneratedRecords)
        part._bind(self._store, self._start + start, self._start + max(start, stop), self.has_y, self.public_x, self.mapped)
        return part

    def take(self, index: ArrayLike) -> Records:
        """The records at ``index`` (integers or a boolean mask), in that order."""
        i = np.asarray(index)
        if i.dtype == bool:
            if i.shape != (self.n,):
                raise IndexError(f"a mask of {i.shape} for {self.n} records")
            i = np.flatnonzero(i)
        i = i.astype(np.int64)
        if i.size and (i.min() < -self.n or i.max() >= self.n):
            raise IndexError(f"index out of range for {self.n} records")
        i = np.where(i < 0, i + self.n, i) + self._start
        x, y = np.empty((i.size, self.d)), np.empty(i.size)
        rows = self._store.rows
        for block in np.unique(i // rows):
            at = i // rows == block
            bx, by = self._store.read(int(block) * rows, min((int(block) + 1) * rows, self._store.n))
            x[at], y[at] = bx[i[at] - block * rows], by[i[at] - block * rows]
        return Records(x, y if self.has_y else None, self.public_x, self.mapped)

    def in_memory(self) -> Records:
        x, y = self._rows(0, self.n)
        return Records(x, y, self.public_x, self.mapped)

    def transformed(self, transform: Callable[[int, Vector, Vector], None], *, mapped: frozenset[str]) -> GeneratedRecords:
        """The same records after ``transform(block, x, y)``, which works in place on each drawing block as it is drawn."""
        if (self._start, self._stop) != (0, self._store.n):
            raise ValueError("transform the whole data set, then slice it")
        store, inner = self._store, self._store.fill

        def fill(block: int, x: Vector, y: Vector) -> None:
            inner(block, x, y)
            transform(block, x, y)

        limit = 2**63 - 1 if store.keep else 0
        return GeneratedRecords(self.n, self.d, fill, has_y=self.has_y, public_x=self.public_x, cache_bytes=limit, mapped=mapped)


AnyRecords: TypeAlias = Records | GeneratedRecords
