"""The database: three tables, one transaction at a time for writers, and every failure as DP705."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from dpspec.spec.diagnostics import Diagnostic, SpecError

T = TypeVar("T")

metadata = sa.MetaData()

about = sa.Table("about", metadata, sa.Column("ledger", sa.String(36), primary_key=True), sa.Column("version", sa.Integer, nullable=False))

entries = sa.Table(
    "entries",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("account", sa.String(200)),
    sa.Column("ref", sa.Integer, unique=True),  # what a commit or a resolution ends: once
    sa.Column("at", sa.String(20), index=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.Index("entries_account", "account", "kind"),
)

#: An index over the charges in the bodies of entries, one row an account that is charged; ``sign`` -1 takes a charge back.
charges = sa.Table(
    "charges",
    metadata,
    sa.Column("account", sa.String(200), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.String(20), nullable=False),
    sa.Column("sign", sa.Integer, nullable=False),
    sa.Column("cost", sa.Text, nullable=False),
    sa.Column("total", sa.Text, nullable=False),
    sa.Index("charges_at", "account", "at", "seq"),
)

HEAD = "0001"
_WAIT = 60.0
_AGAIN = ("40001", "40P01")  # PostgreSQL: rolled back, and may be tried again
_TURNS = 50


def address(url: str) -> sa.URL:
    """A URL, or the path of a SQLite file. PostgreSQL is reached by psycopg."""
    if "://" not in url:
        return sa.URL.create("sqlite", database=str(Path(url)))
    try:
        made = sa.make_url(url)
    except sa.exc.ArgumentError:
        unreachable(url.split("://", 1)[0] + "://...", "it is no URL of a database")
    if made.drivername in ("postgresql", "postgres"):
        made = made.set(drivername="postgresql+psycopg")
    if made.get_backend_name() not in ("sqlite", "postgresql"):
        unreachable(shown(made), "a ledger is a SQLite file or a PostgreSQL database")
    return made


def shown(url: sa.URL) -> str:
    """Without the password."""
    return url.render_as_string(hide_password=True)


def unreachable(where: str, reason: str, help: str = "see docs/ledger.md: what a ledger needs") -> Any:
    raise SpecError([Diagnostic("DP705", "error", f"the ledger {where}: {reason}", help)])


@contextmanager
def reaching(url: sa.URL) -> Iterator[None]:
    """What a database or its driver cannot do is a finding, in its first line of words."""
    try:
        yield
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        unreachable(shown(url), f"{reason}; nothing was changed by this call, or it counts as spent (`dpspec ledger history` tells)")


def engine(url: sa.URL) -> sa.Engine:
    """Connections are kept open (the last one that a SQLite file loses writes it anew), and never used by a forked child."""
    if url.get_backend_name() == "sqlite":
        words = {"timeout": _WAIT, "isolation_level": None, "check_same_thread": False}
        made = sa.create_engine(url, poolclass=sa.pool.QueuePool, pool_size=1, max_overflow=32, connect_args=words)
    else:
        made = sa.create_engine(url, isolation_level="SERIALIZABLE", pool_pre_ping=True, pool_size=1, max_overflow=32)

    @sa.event.listens_for(made, "connect")
    def prepare(connection: Any, record: Any) -> None:
        record.info["process"] = os.getpid()
        if url.get_backend_name() == "sqlite":
            connection.execute("PRAGMA synchronous=FULL")  # a reservation is on the disk before noise is drawn

    @sa.event.listens_for(made, "checkout")
    def own(_: Any, record: Any, proxy: Any) -> None:
        if record.info["process"] != os.getpid():
            record.dbapi_connection = proxy.dbapi_connection = None
            raise sa.exc.DisconnectionError("the connection of another process")

    if url.get_backend_name() == "sqlite":

        @sa.event.listens_for(made, "begin")
        def begin(connection: Any) -> None:
            writing = connection.get_execution_options().get("writing", False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return made


def writing(database: sa.Engine, work: Callable[[sa.Connection], T]) -> T:
    """``work`` in one serialisable transaction that no other writer overlaps; it is committed when this returns."""
    for turn in range(_TURNS):
        try:
            with database.connect().execution_options(writing=True) as connection, connection.begin():
                if database.dialect.name == "postgresql":  # before the first read, so that the snapshot is of after the lock
                    connection.exec_driver_sql("LOCK TABLE entries IN EXCLUSIVE MODE")
                return work(connection)
        except sa.exc.DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in _AGAIN or turn == _TURNS - 1:
                raise
    raise AssertionError("unreachable")


def create(url: sa.URL) -> None:
    """The tables, at the newest version (Alembic)."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    if url.get_backend_name() == "sqlite" and url.database:
        parent = Path(url.database).parent
        if not parent.is_dir():
            unreachable(shown(url), "its folder is not there", "make the folder first")
    database = engine(url)
    try:
        if url.get_backend_name() == "sqlite":
            with database.connect() as connection:
                raw: Any = connection.connection.driver_connection
                raw.execute("PRAGMA journal_mode=WAL")
        with database.connect().execution_options(writing=True) as connection, connection.begin():
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    finally:
        database.dispose()


def connect(url: sa.URL) -> sa.Engine:
    """An engine on a ledger that is there and of this version."""
    if url.get_backend_name() == "sqlite" and url.database and not os.path.exists(url.database):
        unreachable(shown(url), "it is not there", "make one with `dpspec ledger init`, or name the right file")
    database = engine(url)
    with reaching(url), database.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            unreachable(shown(url), "this database holds no ledger", "make one with `dpspec ledger init`")
        found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    if found != HEAD:
        unreachable(shown(url), f"its tables are of version {found}, this program knows {HEAD}", "`dpspec ledger init` upgrades older ones")
    return database
