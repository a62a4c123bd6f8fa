"""A reservation in an account of 10,000 entries, beside a bare SQLite transaction that writes the same bytes to the same disk."""

from __future__ import annotations

import json
import sqlite3
import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from dpspec.ledger import clock, store
from dpspec.ledger.book import Ledger, _charge, _dump, create
from dpspec.ledger.costs import added, cost_of
from dpspec.ledger.limits import make_limit
from tests.ledger.releases import COUNTS, gaussian, laplace, sampled

ROWS = 10_000
PLANS = [gaussian(4000.0), laplace(40_000.0), sampled(20.0, 0.001, 10)]


def filled(file: Path, window: dict[str, Any] | None) -> Ledger:
    """10,000 reservations by the ledger's own steps, in one transaction, since ten thousand of them would wait for the disk."""
    ledger = create(str(file))
    ledger.open("a", make_limit(epsilon="8", delta="1e-5"), data="d", window=window, **COUNTS)

    account = ledger.account("a")
    costs = [cost_of(one, account.limit.measures()) for one in PLANS]

    def work(connection: Any) -> None:
        total = account.limit.empty()
        for i in range(ROWS):
            now, anchors = ledger._stamp(connection)
            k = i % len(PLANS)
            total = added(total, costs[k])
            dumped = {"a": {"cost": _dump(costs[k]), "total": _dump(total)}}
            body = {"analysis": f"r{i % 50}", "plan": "p" * 64, "schedule": PLANS[k], "clock": anchors, "charges": dumped}
            made = ledger._append(connection, "reserve", "a", None, clock.text(now), body)
            _charge(connection, made.seq, clock.text(now), 1, {"a": (costs[k], total)})

    store.writing(ledger.database, work)
    return ledger


def bare(file: Path, size: int) -> list[float]:
    """Seconds of transactions that insert ``size`` bytes, flushed to the disk."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE t (seq INTEGER PRIMARY KEY, body TEXT)")
    times = []
    for _ in range(200):
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t (body) VALUES (?)", ("x" * size,))
        connection.execute("COMMIT")
        times.append(time.perf_counter() - start)
    connection.close()
    return times


@pytest.mark.benchmark(group="ledger")
@pytest.mark.parametrize("window", [None, {"days": 30}], ids=["all time", "rolling window"])
def test_a_reservation_in_an_account_of_ten_thousand(benchmark, tmp_path: Path, window: dict[str, Any] | None) -> None:
    """Under 50 ms on the reference machine. Running totals make it independent of how many there are, in a window too."""
    ledger = filled(tmp_path / "book.db", window)
    size = len(json.dumps(PLANS[2])) + 1000
    benchmark.pedantic(lambda: ledger.reserve("a", PLANS[2], analysis="one more"), rounds=60, warmup_rounds=3)
    median, floor = statistics.median(benchmark.stats.stats.data), statistics.median(bare(tmp_path / "bare.db", size))
    print(f"\na reservation with {ROWS} entries: {1e3 * median:.1f} ms, {median / floor:.1f} x a bare transaction ({1e3 * floor:.1f} ms)")
    assert median / floor < 20
