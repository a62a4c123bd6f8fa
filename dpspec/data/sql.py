"""Records that a query gives: from PostgreSQL through ADBC, from a DuckDB file through DuckDB, from an SQLite file through the standard
library, each as batches of Arrow of bounded size with the wanted columns alone.

The query stands in ``SELECT columns FROM (query)``, so it gives rows and nothing else, and the database reads no column that nobody wants.
The connection may only read: a transaction that is read only, a file that is opened so. DuckDB is told to stay out of other files, out of
the network and out of this program's variables. A query is asked once for its rows, since two passes may answer in another order.

As with files, a failure says nothing that a library said: its words may quote a cell, a user or an address.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from dpspec.data.batches import ROWS, Batches
from dpspec.data.files import local, regular
from dpspec.data.problems import fail
from dpspec.data.tables import Wanted, require
from dpspec.spec.databases import file_of, refusal, scheme, shown
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.model import SqlSource

T = TypeVar("T")

#: Bytes that PostgreSQL's driver gathers before it hands out a batch.
BATCH_BYTES: Final = 8 << 20
#: What DuckDB may hold of its file and of a query's intermediate results.
DUCKDB_MEMORY: Final = "256MB"

#: Column names with a word for those that arrive as text and are numbers; and the Arrow tables of one query.
Columns: TypeAlias = tuple[tuple[str, str], ...]
#: What a kind of database can do: the columns of a query, and its rows.
Reader: TypeAlias = tuple[Callable[[str], Columns], Callable[[str, Sequence[str], frozenset[str]], Iterator[Any]]]


def opened(source: SqlSource, base: str | Path, wanted: Wanted) -> Batches:
    """The rows of a query. Raises SpecError: DP527 (an address or a query that may not be), DP501 (no such file), DP528 (no driver, no
    answer, a query that is refused), DP503 and DP516 (names of columns)."""
    wrong = refusal(source.url, source.query)
    if wrong is not None:
        fail("DP527", *wrong)
    where = f"the query of {shown(source.url)}"
    connect = _CONNECT[scheme(source.url)]
    query = source.query.strip().rstrip(";").rstrip()

    def asking() -> AbstractContextManager[Reader]:
        return connect(source.url, Path(base))

    def described() -> Columns:
        with asking() as (columns_of, _):
            return columns_of(f"SELECT * FROM ({query}\n) AS records LIMIT 0")

    kinds = dict(found := _told(where, described))
    names = tuple(name for name, _ in found)
    require(wanted, names, where, True)

    def read(columns: Sequence[str]) -> Iterator[Any]:
        listed = ", ".join(_chosen(c, kinds[c], c in wanted.words) for c in columns)
        held = contextlib.ExitStack()

        def tables() -> Iterator[Any]:
            _, rows_of = held.enter_context(asking())
            return rows_of(f"SELECT {listed} FROM ({query}\n) AS records", columns, wanted.words)

        try:
            made = _told(where, tables)
            while (table := _told(where, lambda: next(made, None))) is not None:
                yield table
        finally:
            with contextlib.suppress(Exception):  # of a connection that is gone
                held.close()

    return Batches(names, where, read, once=True)


def fingerprint(source: SqlSource, base: str | Path) -> str:
    """SHA-256 of all rows of a query on public data, so that results kept for them are not taken for those of others."""
    batches = opened(source, base, Wanted(private=False))
    content = hashlib.sha256()
    for table in batches.read(batches.names):
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            content.update(repr(row).encode())
    return content.hexdigest()


def _chosen(name: str, kind: str, words: bool) -> str:
    """A column of the outer query. PostgreSQL's exact decimals travel as text, so they are made doubles where numbers are wanted."""
    quoted = '"' + name.replace('"', '""') + '"'
    return f"CAST({quoted} AS double precision) AS {quoted}" if kind == "numeric" and not words else quoted


def _told(where: str, work: Callable[[], T]) -> T:
    """What ``work`` gives. Whatever a driver raises is left before ours is raised, and never chained."""
    try:
        return work()
    except (MemoryError, SpecError):
        raise
    except Exception as error:
        reason = _kind(error)
    _failed(where, reason)


def _kind(error: Exception) -> str:
    word = type(error).__name__
    if word in ("OperationalError", "IOException", "ConnectionException") and not isinstance(error, sqlite3.OperationalError):
        return "no connection, or it was lost"
    return "it was refused, or broke off"


def _failed(where: str, reason: str) -> NoReturn:
    fail(
        "DP528",
        f"{where} cannot be read: {reason}",
        "try the query with the database's own client, as the same user of this machine; what the database said is kept from messages",
    )


def _missing(package: str, extra: str) -> NoReturn:
    fail("DP528", f"the package {package} is not installed", f"pip install 'dpspec[{extra}]'")


# --------------------------------------------------------------------------------------------------------------- PostgreSQL


@contextmanager
def _postgresql(url: str, base: Path) -> Iterator[Reader]:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        dbapi = None
    if dbapi is None:
        _missing("adbc-driver-postgresql", "sql")
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)})

        def columns_of(query: str) -> Columns:
            cursor.execute(query)
            schema = cursor.fetch_record_batch().schema
            return tuple((f.name, (f.metadata or {}).get(b"ADBC:postgresql:typname", b"").decode()) for f in schema)

        def rows_of(query: str, columns: Sequence[str], words: frozenset[str]) -> Iterator[Any]:
            import pyarrow as pa

            cursor.execute(query)
            for batch in cursor.fetch_record_batch():
                yield pa.Table.from_batches([batch])

        yield columns_of, rows_of


# ------------------------------------------------------------------------------------------------------------------- DuckDB


@contextmanager
def _duckdb(url: str, base: Path) -> Iterator[Reader]:
    try:
        import duckdb
    except ImportError:
        duckdb = None
    if duckdb is None:
        _missing("duckdb", "sql")
    settings = {
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "threads": "1",
        "memory_limit": DUCKDB_MEMORY,
        "lock_configuration": "true",
    }
    place = str(_place(url, base))
    with (
        tempfile.TemporaryDirectory() as folder,  # for what does not fit; the one folder that a query may touch, so nothing else lies in it
        duckdb.connect(place, read_only=True, config={**settings, "temp_directory": folder}) as connection,
    ):

        def asked(query: str) -> Any:
            relation = connection.sql(query)
            read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            return read(ROWS)

        def columns_of(query: str) -> Columns:
            return tuple((str(name), "") for name in asked(query).schema.names)

        def rows_of(query: str, columns: Sequence[str], words: frozenset[str]) -> Iterator[Any]:
            import pyarrow as pa

            for batch in asked(query):
                yield pa.Table.from_batches([batch])

        yield columns_of, rows_of


# ------------------------------------------------------------------------------------------------------------------- SQLite


@contextmanager
def _sqlite(url: str, base: Path) -> Iterator[Reader]:
    place = _place(url, base).resolve()
    with contextlib.closing(sqlite3.connect(f"{place.as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("PRAGMA query_only = ON")
        connection.set_authorizer(_only_reading)

        def columns_of(query: str) -> Columns:
            return tuple((str(column[0]), "") for column in connection.execute(query).description)

        def rows_of(query: str, columns: Sequence[str], words: frozenset[str]) -> Iterator[Any]:
            import pyarrow as pa

            cursor = connection.execute(query)
            while rows := cursor.fetchmany(ROWS):
                yield pa.table({name: _column(cells, name in words) for name, cells in zip(columns, zip(*rows, strict=True), strict=True)})

        yield columns_of, rows_of


_READING: Final = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)


def _only_reading(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def _column(cells: Sequence[Any], words: bool) -> Any:
    """Cells of one column, each of which SQLite may have stored in its own way, as the spec wants them. A cell that is no number leaves
    the column text, which is refused where numbers are wanted."""
    import numpy as np
    import pyarrow as pa

    from dpspec.data.frames import doubles, spelled

    if words:
        found = spelled(list(cells))
        return pa.array(list(found), pa.string()) if isinstance(found, np.ndarray) else pa.array([str(c) for c in cells], pa.string())
    held = np.empty(len(cells), dtype=object)
    held[:] = cells
    numbers = doubles(held)
    if numbers is not None:
        return pa.Array.from_buffers(pa.float64(), len(numbers), [None, pa.py_buffer(numbers)])  # `pa.array` imports pandas
    return pa.array([None if c is None else str(c) for c in cells], pa.string())


def _place(url: str, base: Path) -> Path:
    name = file_of(url)
    assert name is not None  # the address was looked at
    place = local(name, base)
    if not regular(place).st_size:
        fail("DP509", f"{place.name} is empty", "", path=str(place))
    return place


_CONNECT: Final[dict[str, Callable[[str, Path], AbstractContextManager[Reader]]]] = {
    "postgresql": _postgresql,
    "postgres": _postgresql,
    "duckdb": _duckdb,
    "sqlite": _sqlite,
}
