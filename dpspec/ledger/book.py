"""Accounts, reservations and what becomes of them. Everything is an entry that is appended; nothing is changed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

import sqlalchemy as sa

from dpspec.ledger import chain, clock, store
from dpspec.ledger.costs import UNIT, Cost, added, cost_of, finite
from dpspec.ledger.limits import Limit, fits, left, used
from dpspec.privacy.gaussian import float_up
from dpspec.spec.diagnostics import Diagnostic, SpecError
from dpspec.spec.model import Model, Neighbours

#: What the plan's schedule says, and an account counts.
SAME = ("unit", "relation", "model", "protects")
_KNOWN = {"relation": get_args(Neighbours), "model": get_args(Model), "protects": ("records", "labels", "attributes")}


class Refused(SpecError):
    """A release that an account does not admit (DP701, DP709). ``detail``: the account, its use, what is left, who took most."""

    def __init__(self, diagnostic: Diagnostic, detail: Mapping[str, Any]) -> None:
        super().__init__([diagnostic])
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    data: str
    counts: Mapping[str, str]
    limit: Limit
    window: Mapping[str, Any] | None
    parent: str | None
    fingerprint: str | None
    seq: int
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Reservation:
    """An entry that is spent until it is resolved. ``hash`` names it and all before it."""

    ledger: str
    account: str
    seq: int
    hash: str

    def to_json(self) -> dict[str, Any]:
        return {"ledger": self.ledger, "account": self.account, "entry": self.seq, "hash": self.hash}


def refuse(code: str, message: str, help: str) -> Any:
    raise SpecError([Diagnostic(code, "error", message, help)])


def create(url: str) -> Ledger:
    """A new ledger, or an old one at the newest version. Raises :class:`~dpspec.spec.diagnostics.SpecError` (DP705)."""
    where = store.address(url)
    with store.reaching(where):
        store.create(where)
        database = store.engine(where)

        def name(connection: sa.Connection) -> None:
            if connection.execute(sa.select(store.about.c.ledger)).first() is None:
                connection.execute(sa.insert(store.about).values(ledger=str(uuid.uuid4()), version=1))

        store.writing(database, name)
        database.dispose()
    return Ledger(url)


class Ledger:
    """An open ledger. ``time``: what its entries are dated by."""

    def __init__(self, url: str, time: clock.Clock | None = None) -> None:
        self.url = store.address(url)
        self.time = time or clock.Clock()
        self.database = store.connect(self.url)
        with store.reaching(self.url), self.database.connect() as connection:
            self.name = str(connection.execute(sa.select(store.about.c.ledger)).scalar_one())

    def dispose(self) -> None:
        self.database.dispose()

    # ------------------------------------------------------------------------------------------------------------ reading

    def entries(self, account: str | None = None) -> Iterator[dict[str, Any]]:
        """Every entry in order, ``body`` as data; of one account: those that name it, charge it or end one of its reservations."""
        with store.reaching(self.url), self.database.connect() as connection:
            query = sa.select(store.entries).order_by(store.entries.c.seq)
            if account is not None:
                charged = sa.select(store.charges.c.seq).where(store.charges.c.account == account)
                query = query.where(
                    sa.or_(store.entries.c.account == account, store.entries.c.seq.in_(charged), store.entries.c.ref.in_(charged))
                )
            for row in connection.execute(query).mappings():
                yield {**row, "body": json.loads(row["body"])}

    def accounts(self) -> list[Account]:
        with store.reaching(self.url), self.database.connect() as connection:
            opened = sa.select(store.entries.c.account).where(store.entries.c.kind == "open").order_by(store.entries.c.seq)
            return [_account(connection, name) for name in connection.execute(opened).scalars().all()]

    def account(self, name: str) -> Account:
        with store.reaching(self.url), self.database.connect() as connection:
            return _account(connection, name)

    def status(self, name: str) -> dict[str, Any]:
        """What is spent and left, how many releases, which reservations are open, who took most."""
        with store.reaching(self.url), self.database.connect() as connection:
            account = _account(connection, name)
            now, _ = self._stamp(connection)
            total = _total(connection, account, now)
            pending = _open(connection, name)
            return {
                **described(account),
                "spent": {m: _text(c) for m, c in total.items()},
                "used": used(account.limit, total),
                "left": left(account.limit, total),
                "open": pending,
                "largest": _largest(connection, account, now),
            }

    def _stamp(self, connection: sa.Connection) -> tuple[Any, dict[str, Any]]:
        last = connection.execute(sa.select(sa.func.max(store.entries.c.at))).scalar()
        found = connection.execute(
            sa.select(store.entries.c.body).where(store.entries.c.kind == "reserve").order_by(store.entries.c.seq.desc()).limit(1)
        ).scalar()
        return clock.stamp(self.time, last, {} if found is None else json.loads(found)["clock"])

    # ------------------------------------------------------------------------------------------------------------ writing

    def _append(self, connection: sa.Connection, kind: str, account: str | None, ref: int | None, at: str | None, body: Any) -> Reservation:
        last = connection.execute(
            sa.select(store.entries.c.seq, store.entries.c.hash).order_by(store.entries.c.seq.desc()).limit(1)
        ).first()
        seq, previous = (last.seq + 1, last.hash) if last is not None else (1, chain.origin(self.name))
        entry = {"seq": seq, "kind": kind, "account": account, "ref": ref, "at": at, "body": chain.canonical(body)}
        entry |= {"hash": chain.link(previous, entry), "previous": previous}
        connection.execute(sa.insert(store.entries).values(**entry))
        return Reservation(self.name, account or "", seq, str(entry["hash"]))

    def _write(self, work: Any) -> Any:
        with store.reaching(self.url):
            return store.writing(self.database, work)

    def open(
        self,
        name: str,
        limit: Limit,
        *,
        data: str,
        unit: str = "person",
        relation: str = "replace-one",
        model: str = "central",
        protects: str = "records",
        window: Mapping[str, Any] | None = None,
        parent: str | None = None,
        fingerprint: str | None = None,
        by: str = "",
    ) -> Account:
        """Opens an account. Raises :class:`~dpspec.spec.diagnostics.SpecError` (DP702: no such parent, DP710)."""
        if not name or len(name) > 200 or name != name.strip() or "\n" in name:
            refuse("DP710", f"{name!r} is no name of an account", "a line of 1 to 200 characters")
        if not data.strip():
            refuse("DP710", "an account belongs to a data set, and none is named", "name it as its owner calls it (--data)")
        try:
            clock.check_window(window)
        except ValueError as problem:
            refuse("DP710", str(problem), "state --per 30days, or --per month")
        counts = {"unit": unit, "relation": relation, "model": model, "protects": protects}
        for word, known in _KNOWN.items():
            if counts[word] not in known:
                refuse("DP710", f"{counts[word]!r} is no {word} of a plan", f"one of {', '.join(known)}")
        body = {
            "data": data,
            **counts,
            "limit": limit.to_json(),
            "window": None if window is None else dict(window),
            "parent": parent,
            "fingerprint": fingerprint,
            "by": by,
        }

        def work(connection: sa.Connection) -> Account:
            there = sa.select(store.entries.c.seq).where(store.entries.c.kind == "open", store.entries.c.account == name)
            if connection.execute(there).first() is not None:
                refuse(
                    "DP710", f"there is an account {name!r} already", "an account is opened once and keeps its limit; choose another name"
                )
            if parent is not None:
                above = _account(connection, parent)
                for word, value in counts.items():
                    if above.counts[word] != value:
                        message = f"{name!r} counts {word} {value}, and {parent!r}, which it belongs to, {above.counts[word]}"
                        refuse("DP710", message, "only guarantees of one kind add up: open one account for each")
            now, _ = self._stamp(connection)
            self._append(connection, "open", name, None, clock.text(now), body)
            return _account(connection, name)

        made: Account = self._write(work)
        return made

    def check(self, account: str, schedule: Mapping[str, Any]) -> None:
        """Raises what :meth:`reserve` would raise now, and writes nothing."""
        with store.reaching(self.url), self.database.connect() as connection:
            now, _ = self._stamp(connection)
            self._admitted(connection, _line(connection, account), schedule, now)

    def room(self, account: str) -> list[tuple[Account, Cost]]:
        """The account and all that it belongs to, each with what counts now."""
        with store.reaching(self.url), self.database.connect() as connection:
            now, _ = self._stamp(connection)
            return [(one, _total(connection, one, now)) for one in _line(connection, account)]

    def reserve(self, account: str, schedule: Mapping[str, Any], *, analysis: str = "", plan: str = "") -> Reservation:
        """Charges ``schedule`` (of a plan: the calibrated tree and what it counts) to the account and all that it belongs to.

        On the disk when this returns; one transaction. Raises :class:`Refused` (DP701, DP709) when it does not fit, or
        :class:`~dpspec.spec.diagnostics.SpecError` (DP702 to DP705), and then nothing is charged.
        """
        with store.reaching(self.url), self.database.connect() as connection:
            line = _line(connection, account)
        for one in line:  # outside of the transaction: an account's limit never changes, and costs are remembered
            _matches(one, schedule)
            cost_of(schedule, one.limit.measures())

        def work(connection: sa.Connection) -> Reservation:
            now, mark = self._stamp(connection)
            charged = self._admitted(connection, _line(connection, account), schedule, now)
            body = {
                "analysis": analysis,
                "plan": plan,
                "schedule": dict(schedule),
                "clock": mark,
                "charges": {name: {"cost": _dump(cost), "total": _dump(total)} for name, (cost, total) in charged.items()},
            }
            made = self._append(connection, "reserve", account, None, clock.text(now), body)
            _charge(connection, made.seq, clock.text(now), 1, charged)
            return made

        made: Reservation = self._write(work)
        return made

    def _admitted(
        self, connection: sa.Connection, line: list[Account], schedule: Mapping[str, Any], now: Any
    ) -> dict[str, tuple[Cost, Cost]]:
        """Cost and running total for each account of the line; raises when one does not admit the schedule."""
        charged = {}
        for one in line:
            _matches(one, schedule)
            if one.closed:
                refuse("DP704", f"the account {one.name!r} is closed", "charge another one, or ask its owner")
            cost = cost_of(schedule, one.limit.measures())
            counted = _total(connection, one, now)
            if not fits(one.limit, added(counted, cost)):
                raise _refusal(connection, one, cost, counted, now)
            charged[one.name] = (cost, added(_running(connection, one), cost))
        return charged

    def commit(self, reservation: Reservation | int) -> None:
        """The release was made. The entry has no time: how long a run on private data took may tell about them."""
        seq = reservation if isinstance(reservation, int) else reservation.seq

        def work(connection: sa.Connection) -> None:
            found = _pending(connection, seq)
            self._append(connection, "commit", found["account"], seq, None, {})

        self._write(work)

    def resolve(self, seq: int, *, spent: bool, reason: str, by: str) -> None:
        """A person says what became of an open reservation: ``spent``, or released because no noise was drawn and seen."""
        if not reason.strip() or not by.strip():
            refuse("DP712", "a resolution has a reason and the name of who resolves", "state --reason and --by")

        def work(connection: sa.Connection) -> None:
            found = _pending(connection, seq)
            body: dict[str, Any] = {"spent": spent, "reason": reason, "by": by, "charges": {}}
            now, _ = self._stamp(connection)
            if not spent:
                taken = json.loads(found["body"])["charges"]
                charged = {}
                for name, charge in taken.items():
                    cost = _load(charge["cost"])
                    charged[name] = (cost, added(_running(connection, _account(connection, name)), cost, -1))
                body["charges"] = {name: {"cost": _dump(cost), "total": _dump(total)} for name, (cost, total) in charged.items()}
                made = self._append(connection, "resolve", found["account"], seq, clock.text(now), body)
                _charge(connection, made.seq, found["at"], -1, charged)
                return
            self._append(connection, "resolve", found["account"], seq, clock.text(now), body)

        self._write(work)

    def close(self, name: str, *, reason: str, by: str) -> None:
        """Nothing more is charged to the account, nor to those that belong to it."""

        def work(connection: sa.Connection) -> None:
            if _account(connection, name).closed:
                refuse("DP704", f"the account {name!r} is closed already", "nothing is left to do")
            now, _ = self._stamp(connection)
            self._append(connection, "close", name, None, clock.text(now), {"reason": reason, "by": by})

        self._write(work)


# ------------------------------------------------------------------------------------------------------------- in a transaction


def _account(connection: sa.Connection, name: str) -> Account:
    query = sa.select(store.entries.c.seq, store.entries.c.body).where(store.entries.c.kind == "open", store.entries.c.account == name)
    found = connection.execute(query).first()
    if found is None:
        refuse("DP702", f"the ledger has no account {name!r}", "`dpspec ledger status` lists them; `dpspec ledger init` opens one")
    assert found is not None
    closed = sa.select(store.entries.c.seq).where(store.entries.c.kind == "close", store.entries.c.account == name)
    return account_of(name, found.seq, json.loads(found.body), connection.execute(closed).first() is not None)


def account_of(name: str, seq: int, body: Mapping[str, Any], closed: bool = False) -> Account:
    return Account(
        name=name,
        data=body["data"],
        counts={word: body[word] for word in SAME},
        limit=Limit.of_json(body["limit"]),
        window=body["window"],
        parent=body["parent"],
        fingerprint=body["fingerprint"],
        seq=seq,
        closed=closed,
    )


def _line(connection: sa.Connection, name: str) -> list[Account]:
    """The account and those that it belongs to. Parents are older, so there is no circle."""
    line = [_account(connection, name)]
    while line[-1].parent is not None:
        line.append(_account(connection, line[-1].parent))
    return line


def described(account: Account) -> dict[str, Any]:
    return {
        "account": account.name,
        "data": account.data,
        **account.counts,
        "limit": [dict(p.stated) for p in account.limit.points],
        "filters": [[f.measure for f in p.filters] for p in account.limit.points],
        "window": account.window,
        "parent": account.parent,
        "closed": account.closed,
    }


def _matches(account: Account, schedule: Mapping[str, Any]) -> None:
    for word in SAME:
        if account.counts[word] != schedule[word]:
            refuse(
                "DP703",
                f"the account {account.name!r} counts {word} {account.counts[word]}, and the plan states {word} {schedule[word]}",
                "charge an account that counts what the plan promises: guarantees of different kinds do not add up",
            )


def _running(connection: sa.Connection, account: Account) -> Cost:
    last = connection.execute(
        sa.select(store.charges.c.total).where(store.charges.c.account == account.name).order_by(store.charges.c.seq.desc()).limit(1)
    ).scalar()
    return account.limit.empty() if last is None else _load(json.loads(last))


def _total(connection: sa.Connection, account: Account, now: Any) -> Cost:
    """What counts now: everything, or what lies in the window."""
    if account.window is None:
        return _running(connection, account)
    first, table = clock.start(account.window, now), store.charges
    mine = table.c.account == account.name
    # times of reservations never go back, so all up to the last one before the window are out of it; what was taken back since may be of
    # them
    before = connection.execute(
        sa.select(table.c.seq, table.c.total)
        .where(mine, table.c.at < first, table.c.sign == 1)
        .order_by(table.c.at.desc(), table.c.seq.desc())
        .limit(1)
    ).first()
    total = _running(connection, account)
    if before is None:
        return total
    total = added(total, _load(json.loads(before.total)), -1)
    late = sa.select(table.c.cost).where(mine, table.c.at < first, table.c.sign == -1, table.c.seq > before.seq)
    for cost in connection.execute(late).scalars():
        total = added(total, _load(json.loads(cost)))
    return total


def _charge(connection: sa.Connection, seq: int, at: str, sign: int, charged: Mapping[str, tuple[Cost, Cost]]) -> None:
    rows = [
        {"account": n, "seq": seq, "at": at, "sign": sign, "cost": chain.canonical(_dump(c)), "total": chain.canonical(_dump(t))}
        for n, (c, t) in charged.items()
    ]
    connection.execute(sa.insert(store.charges), rows)


def _pending(connection: sa.Connection, seq: int) -> Mapping[str, Any]:
    found = (
        connection.execute(sa.select(store.entries).where(store.entries.c.seq == seq, store.entries.c.kind == "reserve")).mappings().first()
    )
    ended = connection.execute(sa.select(store.entries.c.kind).where(store.entries.c.ref == seq)).scalar()
    if found is None or ended is not None:
        what = "is no reservation" if found is None else f"is ended already ({ended})"
        refuse("DP712", f"entry {seq} {what}", "`dpspec ledger status` lists the open reservations")
    assert found is not None
    return dict(found)


def _open(connection: sa.Connection, name: str) -> list[dict[str, Any]]:
    """The open reservations that charge an account."""
    ended = sa.select(store.entries.c.ref).where(store.entries.c.ref.is_not(None))
    query = (
        sa.select(store.entries.c.seq, store.entries.c.account, store.entries.c.at, store.entries.c.body)
        .join(store.charges, store.charges.c.seq == store.entries.c.seq)
        .where(store.charges.c.account == name, store.entries.c.kind == "reserve", store.entries.c.seq.not_in(ended))
        .order_by(store.entries.c.seq)
    )
    found = connection.execute(query).all()
    return [{"entry": r.seq, "account": r.account, "at": r.at, "analysis": json.loads(r.body)["analysis"]} for r in found]


def _largest(connection: sa.Connection, account: Account, now: Any, count: int = 5) -> list[dict[str, Any]]:
    """Who took how much: the releases by analysis, largest share of the limit first."""
    query = (
        sa.select(
            store.entries.c.seq,
            store.entries.c.account,
            store.entries.c.kind,
            store.entries.c.ref,
            store.charges.c.cost,
            store.entries.c.body,
        )
        .join(store.charges, store.charges.c.seq == store.entries.c.seq)
        .where(store.charges.c.account == account.name)
    )
    if account.window is not None:
        query = query.where(store.charges.c.at >= clock.start(account.window, now))
    taken: dict[int, tuple[str, str, Cost]] = {}
    back = set()
    for row in connection.execute(query):
        if row.kind == "resolve":
            back.add(row.ref)
        else:
            taken[row.seq] = (json.loads(row.body)["analysis"], row.account, _load(json.loads(row.cost)))
    groups: dict[tuple[str, str], tuple[int, Cost]] = {}
    for seq, (analysis, by, cost) in taken.items():
        if seq not in back:
            times, so_far = groups.get((analysis, by), (0, account.limit.empty()))
            groups[analysis, by] = (times + 1, added(so_far, cost))
    rows: list[dict[str, Any]] = [
        {"analysis": analysis, "account": by, "releases": times, "used": used(account.limit, cost)}
        for (analysis, by), (times, cost) in groups.items()
    ]
    return sorted(rows, key=lambda r: (-r["used"], r["analysis"], r["account"]))[:count]


def _refusal(connection: sa.Connection, account: Account, cost: Cost, counted: Cost, now: Any) -> Refused:
    detail = {
        **described(account),
        "used": used(account.limit, counted),
        "needs": used(account.limit, cost),
        "left": left(account.limit, counted),
        "largest": _largest(connection, account, now),
        "open": _open(connection, account.name),
    }
    limit = " and ".join(stated(p.stated) for p in account.limit.points)
    if not any(finite(cost[f.measure]) for p in account.limit.points for f in p.filters):
        message = f"the account {account.name!r} ({limit}) cannot count this release: no number of its kind follows from the schedule"
        return Refused(Diagnostic("DP709", "error", message, "charge an account whose limit has a delta, or use another mechanism"), detail)
    took = "; ".join(f"{r['analysis'] or 'a release'} ({r['account']}) {r['used']:.1%} in {r['releases']}" for r in detail["largest"])
    message = (
        f"the account {account.name!r} ({limit}) has spent {detail['used']:.1%}, and this release takes {detail['needs']:.1%} more; "
        f"left for one release: {left_text(detail['left'])}" + (f"; taken by: {took}" if took else "")
    )
    if detail["open"]:
        message += f"; {len(detail['open'])} of the reservations are open"
    help = "release at a smaller budget (`dpspec plan SPEC --fit ACCOUNT` shows the largest that fits), or ask the owner for more"
    return Refused(Diagnostic("DP701", "error", message, help), detail)


def stated(point: Mapping[str, str]) -> str:
    return ", ".join(f"{word} {point[word]}" for word in ("epsilon", "delta", "rho", "mu") if word in point)


def left_text(rows: list[dict[str, Any]]) -> str:
    """What is left, for a person: each statement of the limit with the ways to spend it."""
    shown = []
    for row in rows:
        ways = [f"{word.replace('renyi:', 'Renyi divergence of order ')} {value:.6g}" for word, value in row.items() if word != "of"]
        shown.append(" or ".join(w for w in ways if not w.startswith("Renyi")) or " or ".join(ways) or "nothing")
    return "; ".join(shown)


def _dump(cost: Mapping[str, int]) -> dict[str, str]:
    return {m: str(c) for m, c in cost.items()}


def _load(data: Mapping[str, Any]) -> Cost:
    return {str(m): int(c) for m, c in data.items()}


def _text(cost: int) -> float | None:
    return float_up(Fraction(cost, UNIT)) if finite(cost) else None
