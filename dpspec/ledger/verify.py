"""The ledger against itself: chain, states, costs from the schedules by both accountants, totals from the costs, limits from the totals.

Everything is replayed from the entries in memory; the index of charges must say the same. Nothing here shares code with the second sums of
:func:`again`, which come from :mod:`dpspec.privacy.second` and from dp_accounting.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from dpspec.ledger import chain, clock, store
from dpspec.ledger.book import Account, Ledger, account_of
from dpspec.ledger.costs import UNIT, Cost, added, cost_of, number
from dpspec.ledger.limits import fits
from dpspec.privacy.forms import FormError, from_json
from dpspec.privacy.schedule import Draw, Sampled, Tree, worlds
from dpspec.spec.diagnostics import Diagnostic

_CLOSE = 1 + 1e-9


@dataclass
class Replay:
    """What the entries say, as they are read one after the other."""

    accounts: dict[str, Account] = field(default_factory=dict)
    totals: dict[str, Cost] = field(default_factory=dict)
    dated: dict[str, list[tuple[str, Cost, int]]] = field(default_factory=dict)
    open: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    rows: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    found: list[Diagnostic] = field(default_factory=list)

    def broken(self, message: str) -> None:
        self.found.append(Diagnostic("DP706", "error", message, "restore the newest copy, and compare with exports and records"))

    def wrong(self, message: str) -> None:
        self.found.append(Diagnostic("DP707", "error", message, "the entry's schedule is what counts: have it looked into"))


def verify(ledger: Ledger, records: Iterable[tuple[str, Mapping[str, Any]]] = ()) -> dict[str, Any]:
    """``{"entries", "head", "accounts", "open", "findings"}``; ``records``: (name, body) of records that name entries of this ledger."""
    replay, previous, count = Replay(), chain.origin(ledger.name), 0
    hashes: dict[int, str] = {}
    for entry in ledger.entries():
        count += 1
        previous = _linked(replay, entry, count, previous)
        hashes[entry["seq"]] = entry["hash"]
        try:
            _STEPS[entry["kind"]](replay, entry)
        except (KeyError, TypeError, ValueError, FormError) as problem:
            replay.wrong(f"entry {entry['seq']} ({entry['kind']}) cannot be read: {type(problem).__name__} {problem}")
    _index(replay, ledger)
    for name, body in records:
        _record(replay, ledger, hashes, name, body)
    return {
        "ledger": ledger.name,
        "entries": count,
        "head": previous,
        "accounts": len(replay.accounts),
        "open": sorted(replay.open),
        "findings": replay.found,
    }


def _linked(replay: Replay, entry: Mapping[str, Any], count: int, previous: str) -> str:
    seq = entry["seq"]
    if seq != count:
        replay.broken(f"entry {seq} stands where entry {count} belongs")
    if entry["previous"] != previous:
        replay.broken(f"entry {seq} does not follow the entry before it")
    body = chain.canonical(entry["body"])
    if chain.link(entry["previous"], {**entry, "body": body}) != entry["hash"]:
        replay.broken(f"entry {seq} is not what its hash says")
    return str(entry["hash"])


# ------------------------------------------------------------------------------------------------------------- each kind of entry


def _opened(replay: Replay, entry: Mapping[str, Any]) -> None:
    name = entry["account"]
    account = account_of(name, entry["seq"], entry["body"])
    if name in replay.accounts:
        replay.broken(f"entry {entry['seq']} opens {name!r} again")
        return
    if account.parent is not None and account.parent not in replay.accounts:
        replay.broken(f"entry {entry['seq']}: the account {account.parent!r}, which {name!r} belongs to, is not there")
        return
    replay.accounts[name], replay.totals[name], replay.dated[name] = account, account.limit.empty(), []


def _reserved(replay: Replay, entry: Mapping[str, Any]) -> None:
    seq, body, at = entry["seq"], entry["body"], entry["at"]
    line, name = [], entry["account"]
    while name is not None:
        line.append(replay.accounts[name])
        name = line[-1].parent
    if set(body["charges"]) != {one.name for one in line}:
        replay.wrong(f"entry {seq} charges {', '.join(sorted(body['charges']))}, not the account and all that it belongs to")
    for one in line:
        cost = cost_of(body["schedule"], one.limit.measures())
        stored = _read(body["charges"][one.name]["cost"])
        for measure, value in cost.items():
            if number(stored[measure]) * _CLOSE + 1 / UNIT < number(value):
                replay.wrong(f"entry {seq}: {measure} {number(stored[measure]):.9g} is charged, its schedule costs {number(value):.9g}")
        for measure, other in again(body["schedule"], one.limit.measures()).items():
            if number(stored[measure]) * _CLOSE + 1e-12 < other:
                replay.wrong(f"entry {seq}: {measure} {number(stored[measure]):.9g} is charged, the second accountant says {other:.9g}")
        _charged(replay, seq, one, at, stored, 1, body["charges"][one.name])
        if one.name in replay.closed:
            replay.wrong(f"entry {seq} charges {one.name!r}, which was closed")
        if not fits(one.limit, _counts(replay, one, at)):
            replay.wrong(f"entry {seq} passes the limit of {one.name!r}")
    replay.open[seq] = entry


def _charged(replay: Replay, seq: int, account: Account, at: str, cost: Cost, sign: int, stored: Mapping[str, Any]) -> None:
    name = account.name
    replay.totals[name] = added(replay.totals[name], cost, sign)
    replay.dated[name].append((at, cost, sign))
    if _read(stored["total"]) != replay.totals[name]:
        replay.wrong(f"entry {seq}: the total of {name!r} is not the sum of its charges")
    replay.rows[name, seq] = {"at": at, "sign": sign, "cost": cost, "total": replay.totals[name]}


def _counts(replay: Replay, account: Account, at: str) -> Cost:
    if account.window is None:
        return replay.totals[account.name]
    first = clock.start(account.window, clock.parse(at))
    total = account.limit.empty()
    for then, cost, sign in replay.dated[account.name]:
        if then >= first:
            total = added(total, cost, sign)
    return total


def _committed(replay: Replay, entry: Mapping[str, Any]) -> None:
    _ended(replay, entry)


def _resolved(replay: Replay, entry: Mapping[str, Any]) -> None:
    before = _ended(replay, entry)
    body = entry["body"]
    if not body["reason"] or not body["by"]:
        replay.wrong(f"entry {entry['seq']} resolves without a reason or a name")
    if body["spent"] or before is None:
        return
    for name, charge in before["body"]["charges"].items():
        if body["charges"][name]["cost"] != charge["cost"]:
            replay.wrong(f"entry {entry['seq']} takes back another cost than entry {before['seq']} charged")
        _charged(replay, entry["seq"], replay.accounts[name], before["at"], _read(charge["cost"]), -1, body["charges"][name])


def _ended(replay: Replay, entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    before = replay.open.pop(entry["ref"], None)
    if before is None:
        replay.broken(f"entry {entry['seq']} ends entry {entry['ref']}, which is no open reservation")
    return before


def _closed(replay: Replay, entry: Mapping[str, Any]) -> None:
    replay.closed.add(replay.accounts[entry["account"]].name)


_STEPS = {"open": _opened, "reserve": _reserved, "commit": _committed, "resolve": _resolved, "close": _closed}


# ----------------------------------------------------------------------------------------------------------------------- outside


def _index(replay: Replay, ledger: Ledger) -> None:
    """The index of charges, from which reservations read the running totals."""
    with store.reaching(ledger.url), ledger.database.connect() as connection:
        rows = connection.execute(sa.select(store.charges)).mappings().all()
    for row in rows:
        expected = replay.rows.pop((row["account"], row["seq"]), None)
        found = {"at": row["at"], "sign": row["sign"], "cost": _read(json.loads(row["cost"])), "total": _read(json.loads(row["total"]))}
        if expected != found:
            replay.wrong(f"the index of charges says something else than entry {row['seq']} on {row['account']!r}")
    for name, seq in replay.rows:
        replay.wrong(f"the index of charges lacks entry {seq} on {name!r}")


def _record(replay: Replay, ledger: Ledger, hashes: Mapping[int, str], name: str, body: Mapping[str, Any]) -> None:
    said = body.get("ledger")
    if not isinstance(said, Mapping):
        replay.broken(f"{name} names no entry of a ledger")
    elif said.get("ledger") != ledger.name:
        replay.broken(f"{name} names an entry of another ledger ({said.get('ledger')})")
    elif hashes.get(said.get("entry", 0)) != said.get("hash"):
        replay.broken(f"{name} names entry {said.get('entry')}, and the ledger holds none of that hash")


def _read(data: Mapping[str, Any]) -> Cost:
    return {str(m): int(c) for m, c in data.items()}


# -------------------------------------------------------------------------------------------------------- the second accountant


@functools.lru_cache(maxsize=512)
def _cached(tree_text: str, relation: str, measures: tuple[str, ...]) -> tuple[tuple[str, float], ...]:
    tree, levels, _ = from_json(json.loads(tree_text))
    found = []
    for measure in measures:
        each = [_again(measure, way, levels, relation) for way in worlds(tree)]
        if all(value is not None for value in each):
            found.append((measure, max(value for value in each if value is not None)))
    return tuple(found)


def again(schedule: Mapping[str, Any], measures: Iterable[str]) -> dict[str, float]:
    """The costs by the second accountant's own sums in doubles, where it has them: rho, mu2, epsilon without sampling, and Renyi
    divergences of Gaussian draws, sampled or not, by dp_accounting."""
    return dict(_cached(json.dumps(schedule["tree"], sort_keys=True), str(schedule["relation"]), tuple(measures)))


def _again(measure: str, tree: Tree, levels: Mapping[str, float], relation: str) -> float | None:
    from dpspec.privacy.second import _draws, _flat, _mu_of, _pure_epsilon, _rho_of

    draws = _draws(tree)
    if any(d.mechanism.family == "approx" for d, _ in draws) or measure == "delta":
        return None
    if measure == "rho":
        return sum(k * _rho_of(d, levels[d.name]) for d, k in draws)
    if measure == "mu2":
        return sum(k * _mu_of(d, levels[d.name]) ** 2 for d, k in draws)
    entries = _flat(tree)
    if measure == "epsilon":
        if any(isinstance(entry, Sampled) for entry, _ in entries) or any(d.mechanism.family == "gaussian" for d, _ in draws):
            return None
        return float(sum(k * _pure_epsilon(d, levels[d.name]) for d, k in draws))
    return _renyi(float(_order(measure)), entries, levels, relation)


def _order(measure: str) -> float:
    top, _, bottom = measure.removeprefix("renyi:").partition("/")
    return int(top) / int(bottom or 1)


def _renyi(order: float, entries: list[tuple[Draw | Sampled, int]], levels: Mapping[str, float], relation: str) -> float | None:
    import dp_accounting as da
    from dp_accounting.rdp import RdpAccountant

    from dpspec.privacy.second import _body

    accountant = RdpAccountant(orders=[order])
    for entry, times in entries:
        if isinstance(entry, Draw):
            if entry.mechanism.family != "gaussian":
                return None
            accountant.compose(da.GaussianDpEvent(levels[entry.name]), times)
            continue
        kind, mu = _body(entry.body, levels)
        if kind != "gaussian" or entry.method != "poisson" or relation == "replace-one":
            return None
        accountant.compose(da.PoissonSampledDpEvent(float(entry.rate), da.GaussianDpEvent(1 / mu)), times)
    value = float(accountant._rdp[0])
    return value if math.isfinite(value) else None
