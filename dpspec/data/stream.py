"""Records that are not held in memory: read, encoded and enforced chunk by chunk.

Two classes with the interface of :class:`~dpspec.data.records.Records`. :class:`Streamed` reads its source anew at every pass and serves
algorithms that make one; :class:`Stored` has written the enforced records to a file without a name, which is gone with the process, and
reads blocks, rounds and single rows from there.

Both hand out the very blocks that records in memory do: block k of ``blocks(size)`` is rows k*size to (k+1)*size, dense, in C order, with
the same doubles, since encodings and rules of enforcement look at one record at a time. So an algorithm that adds its blocks in order
(:mod:`dpspec.algorithms.sums`) hands the meter the same bits, whatever the chunks, files and row groups of the source are.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dpspec.data.batches import Batches, opened, rows_of, streamed
from dpspec.data.files import regular
from dpspec.data.problems import fail
from dpspec.data.records import BLOCK, Block, Matrix, Records, Vector, Words, round_bounds
from dpspec.data.sources import Reading, counted_as
from dpspec.data.tables import Frame
from dpspec.spec.diagnostics import Diagnostic, SpecError

#: Records with their domains made true; the flag says that nobody else holds x.
Enforce: TypeAlias = Callable[[Records, bool], Records]
#: Bytes of the doubles of a chunk, and its rows: a power of two, so that the usual sizes of blocks divide it.
CHUNK_BYTES: Final = 8 << 20


def chunk_rows(d: int) -> int:
    """Rows of a chunk of records of d numbers."""
    most = max(CHUNK_BYTES // (8 * max(d, 1)), 1)
    return max(1024, min(BLOCK, 1 << (most.bit_length() - 1)))


@dataclass(frozen=True, slots=True)
class Source:
    """A source that is read chunk by chunk. ``frames(rows)``: a pass over frames of exactly so many rows, the last one fewer;
    ``counts``: how many rows its files say that they have, piece by piece; ``once``: there is one pass. ``enforce``: the domains."""

    reading: Reading
    where: str
    frames: Callable[[int], Iterator[Frame]]
    features: tuple[str, ...]
    d: int
    has_y: bool
    mapped: frozenset[str]
    enforce: Enforce
    counts: tuple[int, ...] | None = None
    once: bool = False
    batches: Batches | None = None
    use: tuple[str, ...] = ()
    public_x: Matrix | None = None

    def rows(self) -> int | None:
        """How many records there are, where that is known before they are read: as files say, else as the spec declares what is checked."""
        if self.counts is not None:
            return sum(self.counts)
        return None if self.reading.uncounted else self.reading.size

    def part(self, start: int, stop: int, size: int) -> tuple[Iterator[Block], list[Diagnostic]]:
        """Blocks of ``size`` of the records start, ..., stop - 1 of a source whose files state their rows, without reading the others, and
        the list that takes what is wrong with them as they are read; what is handed out then is not to be used."""
        assert self.batches is not None
        assert self.counts is not None
        found: list[Diagnostic] = []
        use = self.use

        def tables() -> Iterator[Any]:
            at = 0
            for piece, rows in zip(self.batches.pieces, self.counts, strict=True):  # type: ignore[union-attr, arg-type]
                low, high = max(start - at, 0), min(stop - at, rows)
                if low < high:
                    yield from rows_of(piece, use, self.reading.wanted, low, high)
                at += rows

        def blocks() -> Iterator[Block]:
            for frame in _framed(tables(), chunk_rows(self.d), use, self.where):
                x, _, y, mapped = self.reading.encoded(frame, self.features, found)
                if not found:
                    records = self.enforce(Records(x, y, None, frozenset({"y"}) if mapped else frozenset()), frame.matrix is None)
                    yield records.x, records.y

        return regrouped(blocks(), size, self.d), found

    def chunks(self) -> Iterator[tuple[Vector, Vector | None]]:
        """Enforced records, in order. Raises SpecError at the end of the pass with what is wrong with the data, as reading the whole does
        before; what was handed out until then is not to be used."""
        found: dict[str, Diagnostic] = {}
        at = 0
        for frame in self.frames(chunk_rows(self.d)):
            wrong: list[Diagnostic] = []
            x, _, y, mapped = self.reading.encoded(frame, self.features, wrong)
            for problem in wrong:
                problem = replace(problem, message=_further(problem.message, at))
                found.setdefault(re.sub(r" \(row \d.*", "", problem.message), problem)
            at += frame.n
            if not found:
                records = self.enforce(Records(x, y, None, frozenset({"y"}) if mapped else frozenset()), frame.matrix is None)
                yield records.x, records.y
        if not self.reading.uncounted:
            counted_as(at, self.reading.size, self.where)
        if found:
            raise SpecError(list(found.values()), path=self.where)


def _further(message: str, rows: int) -> str:
    """A row that a message names is one of the chunk."""
    return re.sub(r"\(row (\d+)", lambda m: f"(row {int(m[1]) + rows}", message, count=1) if rows else message


# ------------------------------------------------------------------------------------------------------------------ opening


def of_file(path: Path, reading: Reading, enforce: Enforce) -> Source | None:
    """The source behind a name; None for kinds that are read whole (libsvm, npz, arrays in another order or of other things)."""
    if path.suffix.lower() == ".npy" and path.is_file():
        return _of_npy(path, reading, enforce)
    batches = opened(path, reading.wanted)
    return None if batches is None else _of_batches(batches, reading, enforce)


def of_batches(batches: Batches, reading: Reading, enforce: Enforce) -> Source:
    """What is opened already, a query for one."""
    return _of_batches(batches, reading, enforce)


def of_memory(memory: Any, reading: Reading, enforce: Enforce) -> Source | None:
    """What comes in batches (readers, data sets, relations) and memory maps; None for what is in memory already."""
    x, y = memory if isinstance(memory, tuple) and len(memory) == 2 else (memory, None)
    if isinstance(x, np.memmap):
        return _of_array(x, y, reading, enforce)
    if y is not None:
        return None
    batches = streamed(x, reading.wanted)
    return None if batches is None else _of_batches(batches, reading, enforce)


def _of_batches(batches: Batches, reading: Reading, enforce: Enforce) -> Source:
    import pyarrow as pa

    wanted = reading.wanted
    use = tuple(wanted.named()) if wanted.columns else batches.names
    none = pa.table({name: pa.nulls(0) for name in use})

    def frames(rows: int) -> Iterator[Frame]:
        return _framed(batches.read(use), rows, use, batches.where, batches.header)

    empty = Frame(use, 0, batches.where, table=none, header=batches.header)
    return _made(empty, frames, reading, enforce, batches.counts, batches.once, batches, use)


def _framed(tables: Iterator[Any], rows: int, use: tuple[str, ...], where: str, header: bool = True) -> Iterator[Frame]:
    """The rows of tables in frames of exactly ``rows`` of them, the last one fewer."""
    import pyarrow as pa

    held: list[Any] = []
    size = 0

    def frame() -> Frame:
        table = pa.concat_tables(held, promote_options="permissive")
        return Frame(use, int(table.num_rows), where, table=table, header=header)

    for table in tables:
        at = 0
        while at < table.num_rows:
            part = table.slice(at, rows - size)
            held.append(part)
            at, size = at + part.num_rows, size + part.num_rows
            if size == rows:
                yield frame()
                held, size = [], 0
    if held:
        yield frame()


def _made(
    empty: Frame,
    frames: Callable[[int], Iterator[Frame]],
    reading: Reading,
    enforce: Enforce,
    counts: tuple[int, ...] | None,
    once: bool = False,
    batches: Batches | None = None,
    use: tuple[str, ...] = (),
) -> Source:
    features = reading.features(empty)
    wrong: list[Diagnostic] = []
    _, names, y, mapped = reading.encoded(empty, features, wrong)
    if wrong:
        raise SpecError(wrong, path=empty.where)
    reading.as_wide(names, features, empty.where)
    known = frozenset({"y"}) if mapped else frozenset()
    return Source(reading, empty.where, frames, features, len(names), y is not None, known, enforce, counts, once, batches, use)


def _of_array(x: Any, y: Any, reading: Reading, enforce: Enforce) -> Source | None:
    """Rows of an array that is not in memory."""
    if x.ndim not in (1, 2) or x.dtype.kind not in "fiub" or (x.ndim == 2 and not x.flags.c_contiguous):
        return None
    columns = reading.columns
    width = 1 if x.ndim == 1 else int(x.shape[1])
    names = columns if len(columns) == width else tuple(str(j + 1) for j in range(width))
    if y is not None and (not isinstance(y, np.ndarray) or y.shape != (len(x),)):
        return None

    def frames(rows: int) -> Iterator[Frame]:
        for a in range(0, len(x), rows):
            part = np.asarray(x[a : a + rows]).reshape(-1, width)
            yield Frame(names, len(part), "the data in memory", matrix=part, y=None if y is None else np.asarray(y[a : a + rows]))

    none = None if y is None else np.asarray(y[:0])
    return _made(Frame(names, 0, "the data in memory", matrix=np.empty((0, width)), y=none), frames, reading, enforce, (len(x),))


def _of_npy(path: Path, reading: Reading, enforce: Enforce) -> Source | None:
    """Rows of an ``.npy`` file, read and not mapped: address space stays free."""
    regular(path)
    shape: tuple[int, ...] = ()
    try:
        with path.open("rb") as f:
            version = np.lib.format.read_magic(f)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(f)
            start = f.tell()
    except (ValueError, OSError):  # the reader of the whole says what is wrong
        return None
    if len(shape) not in (1, 2) or dtype.kind not in "fiub" or (fortran and len(shape) == 2) or dtype.hasobject:
        return None
    n, width = shape[0], 1 if len(shape) == 1 else shape[1]
    if path.stat().st_size < start + n * width * dtype.itemsize:
        return None
    names = tuple(str(j + 1) for j in range(width))

    def frames(rows: int) -> Iterator[Frame]:
        with path.open("rb") as f:
            f.seek(start)
            for a in range(0, n, rows):
                part = np.empty((min(rows, n - a), width), dtype)
                if f.readinto(part.data.cast("B")) != part.nbytes:
                    fail("DP502", f"{path.name} cannot be read to its end", "check that nobody writes to it", path=str(path))
                yield Frame(names, len(part), path.name, matrix=part)

    return _made(Frame(names, 0, path.name, matrix=np.empty((0, width))), frames, reading, enforce, (n,))


# ------------------------------------------------------------------------------------------------------------------ records


def regrouped(chunks: Iterator[Block], size: int, d: int) -> Iterator[Block]:
    """The rows of ``chunks`` in blocks of exactly ``size`` of them, the last one fewer: views of a chunk where it holds the whole block."""
    held: list[Block] = []
    have = 0
    for x, y in chunks:
        at = 0
        while at < len(x):
            stop = min(len(x), at + size - have)
            held.append((x[at:stop], None if y is None else y[at:stop]))
            have, at = have + stop - at, stop
            if have == size:
                yield _joined(held)
                held, have = [], 0
    if held:
        yield _joined(held)


def _joined(parts: list[Block]) -> Block:
    if len(parts) == 1:
        return parts[0]
    y = None if parts[0][1] is None else np.concatenate([part[1] for part in parts])
    return np.concatenate([part[0] for part in parts]), y


class OnePass(RuntimeError):
    """An algorithm whose card says that it makes one pass over blocks asks for something else."""


class Streamed:
    """The records of a :class:`Source`, read anew at every pass. ``read``: called once, when the first pass has come to its end and
    nothing was wrong with the records."""

    def __init__(self, source: Source, read: Callable[[], None] | None = None) -> None:
        self.source, self.d, self.has_y, self.public_x = source, source.d, source.has_y, source.public_x
        self.mapped, self.words = source.mapped, {}  # type: ignore[var-annotated]
        self._read, self.complete = read, False

    @property
    def sparse(self) -> bool:
        return False

    @property
    def n(self) -> int:
        """How many records there are, where that is public or the files say so."""
        rows = self.source.rows()
        if rows is None:
            raise OnePass("how many records there are is known after the pass")
        return rows

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """Consecutive blocks ``(x, y)`` of ``size`` records, in order. Raises SpecError at the end of a pass over data that contradict the
        spec."""
        yield from regrouped(self.source.chunks(), size, self.d)
        if not self.complete:
            self.complete = True
            if self._read is not None:
                self._read()

    @property
    def x(self) -> Matrix:
        raise OnePass("all of x")

    @property
    def y(self) -> Vector | None:
        raise OnePass("all of y")

    def rounds(self, T: int) -> Iterator[Block]:
        raise OnePass("rounds")

    def slice(self, start: int, stop: int) -> Records:
        raise OnePass("a slice")

    def take(self, index: ArrayLike) -> Records:
        raise OnePass("single records")

    def beside(self, name: str) -> Words:
        raise OnePass(f"the column {name!r} beside x")


class _File:
    """Doubles in a file without a name: (rows, width), appended, then read."""

    def __init__(self, width: int, folder: str | None) -> None:
        self.width, self.rows = width, 0
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  # it lives as long as this object
        self._buffers: list[Vector] = []

    def append(self, a: Vector) -> None:
        if not len(a):
            return
        left = np.ascontiguousarray(a).data.cast("B")
        while left:
            left = left[self._file.write(left) :]
        self.rows += len(a)

    def read(self, start: int, stop: int) -> Vector:
        """Rows ``start`` to ``stop``, (stop - start, width), read-only."""
        if stop <= start:
            return np.empty((0, self.width))
        out = self._buffer(stop - start)
        left, at = out.data.cast("B"), 8 * self.width * start
        while left:
            got = os.preadv(self._file.fileno(), [left], at)
            if not got:
                raise OSError("the file of the enforced records is cut short")
            left, at = left[got:], at + got
        view = out.view()
        view.flags.writeable = False
        return view

    def _buffer(self, rows: int) -> Vector:
        """An array that nothing refers to any more, or a new one: fresh pages cost as much as reading."""
        for i in range(len(self._buffers)):
            if len(self._buffers[i]) == rows and sys.getrefcount(self._buffers[i]) == 2:  # this list, and the argument
                return self._buffers[i]
        made = np.empty((rows, self.width))
        self._buffers = [*self._buffers[-1:], made]
        return made


class Stored:
    """Enforced records in a local file. ``blocks`` holds one block, ``rounds`` one round, ``take`` and ``x`` what they return."""

    def __init__(self, x: _File, y: _File | None, public_x: Matrix | None, mapped: frozenset[str], start: int, stop: int) -> None:
        self._x, self._y, self._start = x, y, start
        self.n, self.d, self.has_y, self.public_x, self.mapped = stop - start, x.width, y is not None, public_x, mapped
        self.words: dict[str, Words] = {}

    @property
    def sparse(self) -> bool:
        return False

    def _rows(self, start: int, stop: int) -> Block:
        a, b = self._start + start, self._start + stop
        return self._x.read(a, b), None if self._y is None else self._y.read(a, b)[:, 0]

    @property
    def x(self) -> Vector:
        """All of x, read into memory."""
        return np.asarray(self._rows(0, self.n)[0])

    @property
    def y(self) -> Vector | None:
        """All of y, read into memory."""
        return None if self._y is None else self._y.read(self._start, self._start + self.n)[:, 0]

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """Consecutive blocks ``(x, y)`` of at most ``size`` records, in order."""
        for start in range(0, self.n, size):
            yield self._rows(start, min(start + size, self.n))

    def rounds(self, T: int) -> Iterator[Block]:
        """The T disjoint consecutive batches of :func:`~dpspec.data.records.round_bounds`, as ``(x, y)``."""
        for start, stop in round_bounds(self.n, T):
            yield self._rows(start, stop)

    def slice(self, start: int, stop: int) -> Stored:
        """Records start, ..., stop-1, in the same file."""
        start, stop, _ = slice(start, stop).indices(self.n)
        first = self._start + start
        return Stored(self._x, self._y, self.public_x, self.mapped, first, first + max(stop - start, 0))

    def take(self, index: ArrayLike) -> Records:
        """The records at ``index`` (integers or a boolean mask), in that order, in memory."""
        i = np.asarray(index)
        if i.dtype == bool:
            if i.shape != (self.n,):
                raise IndexError(f"a mask of {i.shape} for {self.n} records")
            i = np.flatnonzero(i)
        i = i.astype(np.int64)
        if i.size and (i.min() < -self.n or i.max() >= self.n):
            raise IndexError(f"index out of range for {self.n} records")
        i = np.where(i < 0, i + self.n, i)
        order = np.argsort(i, kind="stable")
        x, y = np.empty((i.size, self.d)), np.empty(i.size)
        breaks = np.flatnonzero(np.diff(i[order]) != 1) + 1  # runs of neighbouring rows are one read each
        for run in np.split(order, breaks) if i.size else ():
            bx, by = self._rows(int(i[run[0]]), int(i[run[-1]]) + 1)
            x[run] = bx
            if by is not None:
                y[run] = by
        return Records(x, y if self.has_y else None, self.public_x, self.mapped)

    def beside(self, name: str) -> Words:
        """There are none: such columns are read whole. Raises SpecError DP523."""
        return Records(np.empty((0, self.d))).beside(name)


def stored(source: Source, folder: str | None = None) -> Stored:
    """The enforced records of a source, written once. ``folder``: where (of temporary files, when left out). Raises SpecError as
    :func:`dpspec.data.sources.load` does, OSError when the disk is full."""
    x, y = _File(source.d, folder), _File(1, folder) if source.has_y else None
    for bx, by in source.chunks():
        x.append(bx)
        if y is not None and by is not None:
            y.append(by)
    return Stored(x, y, source.public_x, source.mapped, 0, x.rows)
