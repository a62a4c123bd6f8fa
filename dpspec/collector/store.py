"""What a collector keeps: ids that have answered, exact sums, counts of what was refused, in one SQLite file.

Reports themselves are not kept: each is added to the sums and its id is remembered, in one transaction, so a collector that is killed at
any instant has counted every answered request once and no other, and goes on where it was. Memory does not grow with the number of reports.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import numpy as np
import sqlalchemy as sa

from dpspec.client.device import Device
from dpspec.client.frame import ID_BYTES
from dpspec.collector.intake import Reports, add, decode, empty
from dpspec.privacy.wire import Bytes, Tally
from dpspec.spec.diagnostics import Diagnostic, SpecError

T = TypeVar("T")
VERSION: Final = "1"
#: Parameters of one statement: SQLite takes 32,766.
_PARAMETERS: Final = 16_000

_META = sa.MetaData()
_FACTS = sa.Table("facts", _META, sa.Column("name", sa.String(40), primary_key=True), sa.Column("value", sa.Text, nullable=False))
_IDS = sa.Table("ids", _META, sa.Column("id", sa.LargeBinary(ID_BYTES), primary_key=True), sqlite_with_rowid=False)
_TOKENS = sa.Table("tokens", _META, sa.Column("id", sa.LargeBinary(ID_BYTES), primary_key=True), sqlite_with_rowid=False)
_SUMS = sa.Table(
    "sums",
    _META,
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("draw", sa.Integer, primary_key=True),
    sa.Column("report", sa.Integer, primary_key=True),
    sa.Column("users", sa.BigInteger, nullable=False),
    sa.Column("sums", sa.LargeBinary, nullable=False),
)
_REFUSED = sa.Table(
    "refused", _META, sa.Column("reason", sa.String(40), primary_key=True), sa.Column("count", sa.BigInteger, nullable=False)
)


def refuse(message: str, help: str = "") -> NoReturn:
    raise SpecError([Diagnostic("DP419", "error", message, help)])


class Store:
    """The reports of one plan. ``sizes``: how many users each round has."""

    def __init__(self, where: str | Path, device: Device, sizes: tuple[int, ...]) -> None:
        self.device, self.sizes = device, sizes
        text = str(where)
        if "://" in text and not text.startswith("sqlite:///"):
            refuse(f"a store is a SQLite file, and {text.partition('://')[0]} is another database", "--store reports.db")
        url = sa.make_url(text) if "://" in text else sa.URL.create("sqlite", database=text)
        self._engine = _engine(url)
        try:
            with self._engine.connect() as connection:
                raw: Any = connection.connection.driver_connection
                raw.execute("PRAGMA journal_mode=WAL")
            self._writing(lambda c: self._prepare(c))
        except sa.exc.SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            refuse(f"the store {url.render_as_string(hide_password=True)}: {reason}", "name a file that can be written")
        self._round = self._read(lambda c: int(_fact(c, "round")))

    def close(self) -> None:
        self._engine.dispose()

    # ------------------------------------------------------------------------------------------------------- transactions

    def _writing(self, work: Callable[[sa.Connection], T]) -> T:
        with self._engine.connect().execution_options(writing=True) as connection, connection.begin():
            return work(connection)

    def _read(self, work: Callable[[sa.Connection], T]) -> T:
        with self._engine.connect() as connection, connection.begin():
            return work(connection)

    def _prepare(self, connection: sa.Connection) -> None:
        _META.create_all(connection)
        plan = self.device.plan.hex()
        facts = {str(row[0]): str(row[1]) for row in connection.execute(sa.select(_FACTS.c.name, _FACTS.c.value))}
        if not facts:
            started = datetime.now(UTC).isoformat(timespec="seconds")
            fresh = {"version": VERSION, "plan": plan, "round": "1", "started": started}
            connection.execute(sa.insert(_FACTS), [{"name": k, "value": v} for k, v in fresh.items()])
            self._open(connection, 1)
        elif facts.get("version") != VERSION:
            refuse(f"the store is of version {facts.get('version')}, this is version {VERSION}")
        elif facts["plan"] != plan:
            refuse(f"the store holds reports of the plan {facts['plan']}, not of {plan}", "a store of its own for each plan")

    def _open(self, connection: sa.Connection, round: int) -> None:
        rows = [
            {"round": round, "draw": i, "report": k, "users": 0, "sums": tally.sums.astype("<i8").tobytes()}
            for (i, k), tally in empty(self.device).items()
        ]
        connection.execute(sa.insert(_SUMS), rows)

    # ------------------------------------------------------------------------------------------------------------- reading

    @property
    def started(self) -> str:
        return self._read(lambda c: _fact(c, "started"))

    @property
    def round(self) -> int:
        """The round that is open, from 1."""
        self._round = self._read(lambda c: int(_fact(c, "round")))
        return self._round

    def tallies(self) -> tuple[dict[tuple[int, int], Tally], ...]:
        """The tallies of every round up to the open one."""
        return self._read(lambda c: tuple(self._tallies(c, at) for at in range(1, int(_fact(c, "round")) + 1)))

    def _tallies(self, connection: sa.Connection, round: int) -> dict[tuple[int, int], Tally]:
        found: dict[tuple[int, int], Tally] = {}
        for row in connection.execute(sa.select(_SUMS).where(_SUMS.c.round == round)):
            sums = np.frombuffer(row.sums, dtype="<i8").astype(np.int64)
            found[row.draw, row.report] = Tally(self.device.draws[row.draw].codec, sums, row.users)
        return found

    def refused(self) -> dict[str, int]:
        """How many reports were refused, by reason."""
        rows = self._read(lambda c: c.execute(sa.select(_REFUSED.c.reason, _REFUSED.c.count).order_by(_REFUSED.c.reason)).all())
        return {str(row[0]): int(row[1]) for row in rows}

    def users(self, round: int) -> int:
        query = sa.select(_SUMS.c.users).where(_SUMS.c.round == round, _SUMS.c.draw == 0, _SUMS.c.report == 0)
        return self._read(lambda c: int(c.execute(query).scalar() or 0))

    # ------------------------------------------------------------------------------------------------------------- writing

    def give(self, tokens: Iterable[bytes]) -> int:
        """From here on only these ids answer (and those given before). How many were added."""

        def work(connection: sa.Connection) -> int:
            added = 0
            for part in _parts(sorted(set(tokens))):
                known = _known(connection, _TOKENS, part)
                fresh = [{"id": t} for t in part if t not in known]
                if fresh:
                    connection.execute(sa.insert(_TOKENS), fresh)
                added += len(fresh)
            return added

        return self._writing(work)

    def take(self, rows: Bytes, refused: Counter[str] | None = None) -> Counter[str]:
        """Adds the reports among ``rows``, (reports, length) bytes, in one transaction: ``accepted``, and what was refused by reason
        (with what ``refused`` already has)."""
        counted: Counter[str] = Counter() if refused is None else refused

        def work(connection: sa.Connection) -> int:
            at = int(_fact(connection, "round"))
            fresh = self._fresh(connection, decode(self.device, rows, at, counted), counted)
            if len(fresh):
                tallies = self._tallies(connection, at)
                add(self.device, tallies, fresh)
                for (i, k), tally in tallies.items():
                    where = (_SUMS.c.round == at) & (_SUMS.c.draw == i) & (_SUMS.c.report == k)
                    values = {"users": tally.users, "sums": tally.sums.astype("<i8").tobytes()}
                    connection.execute(sa.update(_SUMS).where(where).values(**values))
            _count(connection, counted)
            return len(fresh)

        accepted = self._writing(work)
        return Counter({"accepted": accepted}) + counted

    def _fresh(self, connection: sa.Connection, reports: Reports, counted: Counter[str]) -> Reports:
        """The first report of each id that may answer and has not, as many as the round has room for. Their ids are remembered."""
        ids = _words(reports.ids)
        wanted, at = set(ids), reports.round
        users = connection.execute(sa.select(_SUMS.c.users).where(_SUMS.c.round == at, _SUMS.c.draw == 0, _SUMS.c.report == 0)).scalar()
        room = self.sizes[at - 1] - int(users or 0)
        tokens = connection.execute(sa.select(_TOKENS.c.id).limit(1)).first() is not None
        if not tokens and len(wanted) == len(ids) <= room and _remembered(connection, ids):
            return reports
        given = set().union(*(_known(connection, _TOKENS, part) for part in _parts(sorted(wanted)))) if tokens else wanted
        answered = set().union(*(_known(connection, _IDS, part) for part in _parts(sorted(wanted))))
        kept = []
        for row, id in enumerate(ids):
            if id not in given:
                counted["no token of this plan"] += 1
            elif id in answered:
                counted["duplicate"] += 1
            elif room == 0:
                counted["the round is full"] += 1
            else:
                answered.add(id)
                kept.append(row)
                room -= 1
        _remember(connection, [ids[row] for row in kept])
        return reports.take(np.array(kept, dtype=np.int64))

    def count(self, refused: Counter[str]) -> None:
        """Counts what was refused before it was a row."""
        if +refused:
            self._writing(lambda c: _count(c, refused))

    def advance(self, round: int) -> None:
        """Opens ``round``, the one after the open one; nothing is added to rounds that are over. Repeating it changes nothing."""

        def work(connection: sa.Connection) -> None:
            at = int(_fact(connection, "round"))
            if at == round:
                return
            if round != at + 1 or round > len(self.sizes):
                refuse(f"round {at} is open, and round {round} does not follow it")
            self._open(connection, round)
            connection.execute(sa.update(_FACTS).where(_FACTS.c.name == "round").values(value=str(round)))

        self._writing(work)


def _fact(connection: sa.Connection, name: str) -> str:
    return str(connection.execute(sa.select(_FACTS.c.value).where(_FACTS.c.name == name)).scalar_one())


def _parts(ids: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(ids), _PARAMETERS):
        yield ids[start : start + _PARAMETERS]


def _known(connection: sa.Connection, table: sa.Table, ids: list[bytes]) -> set[bytes]:
    return {bytes(id) for id in connection.execute(sa.select(table.c.id).where(table.c.id.in_(ids))).scalars()}


def _words(ids: Bytes) -> list[bytes]:
    """Each row as bytes."""
    data = ids.tobytes()
    return [data[start : start + ID_BYTES] for start in range(0, len(data), ID_BYTES)]


def _remember(connection: sa.Connection, ids: list[bytes]) -> None:
    if not ids:
        return
    connection.exec_driver_sql("INSERT INTO ids (id) VALUES (?)", [(id,) for id in ids])  # a third of the time of an expression


def _remembered(connection: sa.Connection, ids: list[bytes]) -> bool:
    """Remembers the ids if none has answered; otherwise nothing is changed."""
    try:
        with connection.begin_nested():
            _remember(connection, ids)
    except sa.exc.IntegrityError:
        return False
    return True


def _count(connection: sa.Connection, refused: Counter[str]) -> None:
    for reason, count in (+refused).items():
        where = _REFUSED.c.reason == reason
        changed = connection.execute(sa.update(_REFUSED).where(where).values(count=_REFUSED.c.count + count))
        if changed.rowcount == 0:
            connection.execute(sa.insert(_REFUSED).values(reason=reason, count=count))


def _engine(url: sa.URL) -> sa.Engine:
    words = {"timeout": 60, "isolation_level": None, "check_same_thread": False}
    made = sa.create_engine(url, poolclass=sa.pool.QueuePool, pool_size=1, max_overflow=8, connect_args=words)

    @sa.event.listens_for(made, "connect")
    def prepare(connection: Any, record: Any) -> None:
        connection.execute("PRAGMA cache_size=-32768")
        connection.execute("PRAGMA synchronous=FULL")  # an answer of 200 means that the report is on the disk

    @sa.event.listens_for(made, "begin")
    def begin(connection: Any) -> None:
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return made


@contextmanager
def opened(where: str | Path, device: Device, sizes: tuple[int, ...]) -> Iterator[Store]:
    store = Store(where, device, sizes)
    try:
        yield store
    finally:
        store.close()


def read_tokens(file: Path) -> list[bytes]:
    """The tokens of a file: a line of 32 hexadecimal digits each, or a JSON list of such words."""
    text = file.read_text(encoding="ascii")
    words = json.loads(text) if text.lstrip().startswith("[") else text.split()
    try:
        tokens = [bytes.fromhex(word) for word in words]
    except (TypeError, ValueError):
        tokens = []
    if not tokens or any(len(t) != ID_BYTES for t in tokens):
        refuse(f"{file} is no list of tokens", f"{2 * ID_BYTES} hexadecimal digits a line")
    return tokens
