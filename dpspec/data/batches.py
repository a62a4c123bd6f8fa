"""Tables that are read in batches: files, folders of files, and what offers the Arrow C stream.

A source is opened once (its names, and how many rows it has where its files say so) and read as often as needed, in batches of bounded
size with the wanted columns alone. The order of the rows is that of the files by path, and in each file its own, so that a second pass,
another process and the reader of the whole see the same records in the same order.

As in :mod:`dpspec.data.frames`, libraries get open files and never names, and a failure says nothing that a library said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from dpspec.data.files import members, regular
from dpspec.data.problems import fail
from dpspec.data.tables import Wanted, header_row, not_a_number, require, text_options, unreadable

#: Rows of a batch that a reader is asked for; text is read in pieces of so many bytes.
ROWS: Final = 1 << 16
PIECE: Final = 4 << 20

#: What an ending says. Endings of compressed text stand behind: ``x.csv.gz``.
KINDS: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
    ".orc": "orc",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "tsv",
}
PACKED: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
#: Kinds whose rows can be counted and reached without reading what stands before them.
PLACED: Final = ("parquet", "arrow")


@dataclass(frozen=True, slots=True)
class Piece:
    """One file: ``kind`` and ``packed`` by its ending, ``constants`` the columns that its folders state (``year=2024``)."""

    path: Path
    kind: str
    packed: str = ""
    constants: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Batches:
    """An opened source. ``names``: its columns; ``read(columns)``: a fresh pass over Arrow tables with these columns, in this order;
    ``header``: the names may be shown. ``counts``: rows of each piece, where the files say so. ``once``: there is one pass only."""

    names: tuple[str, ...]
    where: str
    read: Callable[[Sequence[str]], Iterator[Any]]
    header: bool = True
    pieces: tuple[Piece, ...] = ()
    counts: tuple[int, ...] | None = None
    once: bool = False


def kind_of(path: Path) -> tuple[str, str]:
    """The kind of a file and its compression by its endings; empty words for others."""
    suffixes = [s.lower() for s in path.suffixes]
    packed = PACKED.get(suffixes[-1], "") if suffixes else ""
    ending = suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1] if suffixes and not packed else ""
    return KINDS.get(ending, ""), packed


def pieces_of(path: Path) -> tuple[Piece, ...]:
    """The files behind a name, in order; none where it is not made of tables (one file of another kind).

    Raises SpecError: DP501 (nothing there), DP502 (files of several kinds, or of none).
    """
    found = members(path)
    if found == (path,) and not kind_of(path)[0]:
        return ()
    made = []
    for file in found:
        kind, packed = kind_of(file)
        if not kind:
            fail("DP502", f"{path} holds {file.name}, which is no table", f"known endings: {', '.join(KINDS)}", path=str(path))
        folders = file.relative_to(path).parts[:-1] if path.is_dir() else file.parts[:-1]
        constants = tuple((k, unquote(v)) for k, sign, v in (part.partition("=") for part in folders) if sign and k)
        made.append(Piece(file, kind, packed, constants))
    kinds = {p.kind for p in made}
    if len(kinds) > 1:
        fail("DP502", f"{path} holds files of several kinds ({', '.join(sorted(kinds))})", "name the files of one kind", path=str(path))
    return tuple(made)


def opened(path: Path, wanted: Wanted) -> Batches | None:
    """The source behind a name; None where it is no table, or one file that only its own reader knows (Feather of version 1).

    Raises SpecError: DP501, DP502, DP503, DP509, DP511, DP516, as reading the whole does.
    """
    pieces = pieces_of(path)
    if not pieces:
        return None
    where = path.name
    for piece in pieces:
        if not regular(piece.path).st_size:
            fail("DP509", f"{piece.path.name} is empty", "", path=str(piece.path))
    first = pieces[0]
    if first.kind in ("csv", "tsv"):
        names, header = _header(first, wanted)
    elif first.kind == "json":
        names, header = wanted.named(), True
        if not wanted.columns:
            fail("DP503", f"{where}: JSON lines have no row of names", "list the columns: columns [...]", path=str(path))
    else:
        found = _described(first, wanted)
        if found is None:
            return None
        names, header = found[0], True
    named = tuple(k for k, _ in first.constants)
    every = (*names, *(k for k in named if k not in names))
    require(wanted, every, where, header)
    counts: list[int] | None = [] if first.kind in PLACED else None
    for piece in pieces:
        if tuple(k for k, _ in piece.constants) != named:
            fail("DP502", f"{where}: its folders state different columns", "one layout of folders", path=str(path))
        if piece.kind in ("csv", "tsv"):
            other: tuple[str, ...] = _header(piece, wanted)[0] if piece is not first else names
        elif piece.kind == "json":
            other = names
        else:
            described = _described(piece, wanted)
            if described is None:
                return None
            other = described[0]
            if counts is not None:
                counts.append(described[1])
        if set(other) != set(names):
            fail("DP503", f"{where}: {piece.path.name} has other columns than {first.path.name}", "files of one table", path=str(path))

    def read(columns: Sequence[str]) -> Iterator[Any]:
        for piece in pieces:
            yield from rows_of(piece, columns, wanted)

    return Batches(every, where, read, header, pieces, None if counts is None else tuple(counts))


def rows_of(piece: Piece, columns: Sequence[str], wanted: Wanted, start: int = 0, stop: int | None = None) -> Iterator[Any]:
    """Tables of one file. ``start``, ``stop``: rows of it; those of a kind that is PLACED are reached without reading the others."""
    import pyarrow as pa

    constants = dict(piece.constants)
    own = [c for c in columns if c not in constants]
    made = _READERS[piece.kind](piece, own, wanted, start, stop)
    while True:
        table, wrong = None, ""
        try:
            table = next(made, None)
        except MemoryError:  # the library's own is an ArrowException as well; it says nothing about the file
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, EOFError) as error:
            wrong = str(error) or "unreadable"
        if wrong:
            _broken(piece, wrong, own, wanted)
        if table is None:
            return
        for name in constants:
            if name in columns:
                table = table.append_column(name, _constant(constants[name], table.num_rows, name in wanted.words))
        yield table.select(list(columns))


def _constant(word: str, rows: int, text: bool) -> Any:
    """A column that a folder states: a number where it spells one and no word is wanted."""
    import pyarrow as pa

    if not text:
        with suppress(ValueError):
            return pa.array([float(word)], pa.float64()).take(pa.array([0] * rows, pa.int64()))
    return pa.array([None if word == "__HIVE_DEFAULT_PARTITION__" else word], pa.string()).take(pa.array([0] * rows, pa.int64()))


def _broken(piece: Piece, reason: str, columns: Sequence[str], wanted: Wanted) -> None:
    import re

    column = re.search(r"In CSV column #(\d+): (?:.*)conversion error", reason)
    if column and piece.kind in ("csv", "tsv"):
        names = _header(piece, wanted)[0]
        not_a_number(piece.path, "\t" if piece.kind == "tsv" else ",", names[int(column[1])], names, wanted, packed=bool(piece.packed))
    unreadable(piece.path, _SPOKEN[piece.kind], reason, wanted)


_SPOKEN: Final = {
    "parquet": "Parquet",
    "arrow": "Arrow",
    "orc": "ORC",
    "json": "JSON lines",
    "csv": "comma-separated text",
    "tsv": "tab-separated text",
}


def _stream(piece: Piece) -> Any:
    """The file's bytes, decompressed."""
    import pyarrow as pa

    source = pa.OSFile(str(piece.path))
    return pa.CompressedInputStream(source, piece.packed) if piece.packed else source


def _header(piece: Piece, wanted: Wanted) -> tuple[tuple[str, ...], bool]:
    with _text(piece) as lines:
        names, header, _ = header_row(piece.path, "\t" if piece.kind == "tsv" else ",", wanted, lines)
    return tuple(names), header


def _text(piece: Piece) -> Any:
    import io

    if not piece.packed:
        return piece.path.open(encoding="utf-8-sig", newline="")
    return io.TextIOWrapper(_stream(piece), encoding="utf-8-sig", newline="")


def _described(piece: Piece, wanted: Wanted) -> tuple[tuple[str, ...], int] | None:
    """Names and rows of a file that states them; None for one that only its own reader knows."""
    import pyarrow as pa

    if piece.packed:
        fail(
            "DP502",
            f"{piece.path.name}: {_SPOKEN[piece.kind]} is compressed inside",
            "take the outer compression off",
            path=str(piece.path),
        )
    found: tuple[tuple[str, ...], int] | None = None
    reason = ""
    try:
        with pa.OSFile(str(piece.path)) as source:
            if piece.kind == "parquet":
                from pyarrow.parquet import ParquetFile

                made = ParquetFile(source)
                found = tuple(str(n) for n in made.schema_arrow.names), int(made.metadata.num_rows)
            elif piece.kind == "orc":
                from pyarrow.orc import ORCFile

                orc = ORCFile(source)
                found = tuple(str(n) for n in orc.schema.names), int(orc.nrows)
            elif source.read(6) == b"ARROW1":
                source.seek(0)
                file = pa.ipc.open_file(source)
                if hasattr(file, "count_rows"):  # from the footer alone
                    return tuple(str(n) for n in file.schema.names), int(file.count_rows())
                rows = sum(int(file.get_batch(i).num_rows) for i in range(file.num_record_batches))
                found = tuple(str(n) for n in file.schema.names), rows
            else:
                source.seek(0)
                if source.read(4) == b"FEA1":
                    return None
                source.seek(0)
                stream = pa.ipc.open_stream(source)
                found = tuple(str(n) for n in stream.schema.names), sum(int(b.num_rows) for b in stream)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error) or "unreadable"
    if found is None:
        unreadable(piece.path, _SPOKEN[piece.kind], reason, wanted)
    assert found is not None
    return found


# ------------------------------------------------------------------------------------------------------------------ readers


def _cut(made: Iterator[Any], start: int, stop: int | None) -> Iterator[Any]:
    """Rows ``start`` to ``stop`` of tables or batches."""
    import pyarrow as pa

    at = 0
    for part in made:
        if stop is not None and at >= stop:
            return
        table = part if isinstance(part, pa.Table) else pa.Table.from_batches([part])
        low, high = max(start - at, 0), table.num_rows if stop is None else min(stop - at, table.num_rows)
        at += table.num_rows
        if low < high:
            yield table if (low, high) == (0, table.num_rows) else table.slice(low, high - low)


def _parquet(piece: Piece, columns: Sequence[str], wanted: Wanted, start: int, stop: int | None) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    with pa.OSFile(str(piece.path)) as source:
        file = ParquetFile(source, pre_buffer=False, buffer_size=1 << 20)
        groups: list[int] = []
        first = at = 0
        for i in range(file.num_row_groups):
            rows = file.metadata.row_group(i).num_rows
            if at + rows > start and (stop is None or at < stop):
                first = at if not groups else first
                groups.append(i)
            at += rows
        if not groups:
            return
        made = file.iter_batches(batch_size=ROWS, row_groups=groups, columns=list(columns), use_threads=False)
        yield from _cut(made, start - first, None if stop is None else stop - first)


def _arrow(piece: Piece, columns: Sequence[str], wanted: Wanted, start: int, stop: int | None) -> Iterator[Any]:
    import pyarrow as pa

    with pa.OSFile(str(piece.path)) as source:
        whole = source.read(6) == b"ARROW1"
        source.seek(0)
        if not whole:
            stream = pa.ipc.open_stream(source)
            yield from _cut((pa.Table.from_batches([b]).select(list(columns)) for b in stream), start, stop)
            return
        schema = pa.ipc.open_file(source).schema
        source.seek(0)
        options = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(c) for c in columns], use_threads=False)
        file = pa.ipc.open_file(source, options=options)
        yield from _cut((file.get_batch(i) for i in range(file.num_record_batches)), start, stop)


def _orc(piece: Piece, columns: Sequence[str], wanted: Wanted, start: int, stop: int | None) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow.orc import ORCFile

    with pa.OSFile(str(piece.path)) as source:
        file = ORCFile(source)
        yield from _cut((file.read_stripe(i, columns=list(columns)) for i in range(file.nstripes)), start, stop)


def _lines(piece: Piece, columns: Sequence[str], wanted: Wanted, start: int, stop: int | None) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow.json import ParseOptions, ReadOptions, read_json

    types = pa.schema([(c, pa.string() if c in wanted.words else pa.float64()) for c in columns])
    parse = ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore")

    def tables() -> Iterator[Any]:
        with _stream(piece) as source:
            held = b""
            while True:
                read = source.read(PIECE)
                held += read
                end = held.rfind(b"\n") + 1 if read else len(held)  # whole lines
                if held[:end].strip():
                    options = ReadOptions(use_threads=False, block_size=max(end, 1))
                    yield read_json(pa.BufferReader(held[:end]), read_options=options, parse_options=parse).select(list(columns))
                held = held[end:]
                if not read:
                    return

    yield from _cut(tables(), start, stop)


def _rows(piece: Piece, columns: Sequence[str], wanted: Wanted, start: int, stop: int | None) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow.csv import open_csv

    delimiter = "\t" if piece.kind == "tsv" else ","
    with _text(piece) as lines:
        names, _, alone = header_row(piece.path, delimiter, wanted, lines)
    if alone:
        return
    read, parse, convert = text_options(names, columns, delimiter, wanted, PIECE)
    with _stream(piece) as source:
        made = open_csv(source, read_options=read, parse_options=parse, convert_options=convert)
        yield from _cut((pa.Table.from_batches([b]) for b in made), start, stop)


_READERS: Final[dict[str, Callable[..., Iterator[Any]]]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "orc": _orc,
    "json": _lines,
    "csv": _rows,
    "tsv": _rows,
}


# ------------------------------------------------------------------------------------------------------------------- memory


def streamed(memory: Any, wanted: Wanted, where: str = "the data in memory") -> Batches | None:
    """What offers its rows in batches: a reader, a data set or a lazy frame. None for anything else, tables and frames included, which
    are in memory already."""
    import pyarrow as pa

    root, kind = type(memory).__module__.partition(".")[0], type(memory).__name__
    again: Callable[[], Any] | None = None
    once = False
    if root == "polars" and kind == "LazyFrame":
        return None  # collected by the reader of frames
    if root == "pyarrow" and hasattr(memory, "scanner"):

        def again() -> Any:
            return memory.scanner(use_threads=False, batch_size=ROWS, batch_readahead=1, fragment_readahead=1).to_reader()

        names = tuple(str(n) for n in memory.schema.names)
    elif isinstance(memory, pa.RecordBatchReader):
        once, names = True, tuple(str(n) for n in memory.schema.names)

        def again() -> Any:
            return memory

    elif hasattr(memory, "__arrow_c_stream__") and root not in ("pandas", "polars", "pyarrow"):
        reader: Any = None
        with suppress(pa.ArrowException, TypeError, ValueError):
            reader = pa.RecordBatchReader.from_stream(memory)
        if reader is None:
            fail("DP515", f"{where}: its Arrow stream cannot be read", "hand over an Arrow table")
        once, names = True, tuple(str(n) for n in reader.schema.names)

        def again() -> Any:
            return reader

    else:
        return None
    require(wanted, names, where, True)

    def read(columns: Sequence[str]) -> Iterator[Any]:
        assert again is not None
        made, wrong = again(), False
        while True:
            batch = None
            try:
                batch = next(made, None)
            except MemoryError:
                raise
            except Exception:  # a stream raises what its producer raised
                wrong = True
            if wrong:
                fail("DP515", f"{where}: its rows cannot be read to the end", "hand over an Arrow table")
            if batch is None:
                return
            yield pa.Table.from_batches([batch]).select(list(columns))

    return Batches(names, where, read, once=once)


def whole(source: Batches, columns: Sequence[str]) -> Any:
    """All rows as one table; with no row the columns have the type of nothing."""
    import pyarrow as pa

    parts = list(source.read(columns))
    if not parts:
        return pa.table({name: pa.nulls(0) for name in columns})
    return pa.concat_tables(parts, promote_options="permissive")
