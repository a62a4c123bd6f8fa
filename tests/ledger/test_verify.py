"""What `verify` finds: every change of a database that somebody can write to, short of another chain; and that against records."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dpspec.ledger import chain
from dpspec.ledger.book import Ledger, create
from dpspec.ledger.export import csv_lines, json_lines
from dpspec.ledger.limits import make_limit
from dpspec.ledger.verify import again, verify
from tests.ledger import releases
from tests.ledger.releases import COUNTS


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("ledger") / "book.db"
    ledger = create(str(file))
    ledger.open("a", make_limit(epsilon="3", delta="1e-5"), data="d", **COUNTS)
    ledger.open("b", make_limit(rho="1"), data="d", parent="a", **COUNTS)
    ledger.commit(ledger.reserve("b", releases.gaussian(4.0), analysis="one", plan="p1"))
    ledger.reserve("a", releases.sampled(1.2, 0.01, 20), analysis="two", plan="p2")
    made = ledger.reserve("b", releases.laplace(8.0), analysis="three", plan="p3")
    ledger.resolve(made.seq, spent=False, reason="no draw", by="owner")
    ledger.reserve("a", releases.approx(0.1), analysis="four", plan="p4")
    ledger.dispose()
    return file


@pytest.fixture
def book(kept: Path, tmp_path: Path) -> Path:
    file = tmp_path / "book.db"
    for path in kept.parent.glob("book.db*"):
        shutil.copy(path, tmp_path / path.name)
    return file


def edited(book: Path, *words: str) -> dict[str, Any]:
    """What verify says after SQL of somebody who may write, and who knows how to drop the triggers."""
    with sqlite3.connect(book) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for word in words:
            connection.execute(word)
    connection.close()
    return verify(Ledger(str(book)))


def codes(found: dict[str, Any]) -> set[str]:
    return {d.code for d in found["findings"]}


def test_a_whole_ledger_is_whole(book: Path):
    found = verify(Ledger(str(book)))
    assert (found["findings"], found["entries"], found["open"], found["accounts"]) == ([], 8, [5, 8], 2)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("DELETE FROM entries WHERE seq = 4", "DP706"),
        ("DELETE FROM entries WHERE seq = 3", "DP706"),
        ("UPDATE entries SET body = replace(body, '4.0', '40.0') WHERE seq = 3", "DP706"),
        ("UPDATE entries SET at = '2020-01-01T00:00:00Z' WHERE seq = 3", "DP706"),
        ("UPDATE entries SET account = 'a' WHERE seq = 3", "DP706"),
        ("UPDATE entries SET ref = 5 WHERE seq = 4", "DP706"),
        ("UPDATE entries SET previous = hash WHERE seq = 5", "DP706"),
        ("UPDATE charges SET total = replace(total, '1', '0') WHERE seq = 8", "DP707"),
        ("UPDATE charges SET at = '2020-01-01T00:00:00Z'", "DP707"),
        ("DELETE FROM charges WHERE seq = 8", "DP707"),
        ("INSERT INTO charges VALUES ('a', 99, '2026-01-01T00:00:00Z', -1, '{}', '{}')", "DP707"),
    ],
)
def test_an_edit_is_found(book: Path, words: str, code: str):
    assert code in codes(edited(book, words))


def test_a_chain_that_was_written_anew_lies_about_costs_or_about_records(book: Path):
    """Whoever links all entries again with a smaller cost is found by the schedule; with a smaller schedule, by the records that he gave
    out."""
    ledger = Ledger(str(book))
    entries = list(ledger.entries())
    record = {"ledger": {"ledger": ledger.name, "account": "b", "entry": 3, "hash": entries[2]["hash"], "committed": True}}
    assert verify(ledger, [("record.json", record)])["findings"] == []
    ledger.dispose()

    def rewritten(change: Any) -> dict[str, Any]:
        previous, words = chain.origin(ledger.name), []
        for entry in json.loads(json.dumps(entries)):
            change(entry)
            row = {**entry, "body": chain.canonical(entry["body"])}
            hash_ = chain.link(previous, row)
            words.append((row["body"], previous, hash_, entry["seq"]))
            previous = hash_
        with sqlite3.connect(book) as connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.executemany("UPDATE entries SET body = ?, previous = ?, hash = ? WHERE seq = ?", words)
        connection.close()
        return verify(Ledger(str(book)), [("record.json", record)])

    def cheaper(entry: dict[str, Any]) -> None:
        if entry["seq"] == 3:
            entry["body"]["charges"]["b"]["cost"]["rho"] = "1"

    found = rewritten(cheaper)
    assert codes(found) == {"DP706", "DP707"}
    assert any("its schedule costs" in d.message for d in found["findings"])
    assert any("second accountant" in d.message for d in found["findings"])

    def other(entry: dict[str, Any]) -> None:
        if entry["seq"] == 2:
            entry["body"]["by"] = "somebody else"

    found = rewritten(other)
    assert [d.message for d in found["findings"]] == ["record.json names entry 3, and the ledger holds none of that hash"]


def test_records_of_nothing_and_of_another_ledger(book: Path):
    ledger = Ledger(str(book))
    bodies = [("a", {"ledger": None}), ("b", {"ledger": {"ledger": "x", "entry": 3, "hash": "y"}})]
    assert [d.code for d in verify(ledger, bodies)["findings"]] == ["DP706", "DP706"]


def test_exports_hold_the_chain_and_the_charges(book: Path):
    import csv

    ledger = Ledger(str(book))
    previous = chain.origin(ledger.name)
    for line in json_lines(ledger):
        entry = json.loads(line)
        assert chain.link(previous, {**entry, "body": chain.canonical(entry["body"])}) == entry["hash"]
        previous = entry["hash"]
    assert previous == verify(ledger)["head"]
    rows = list(csv.DictReader(csv_lines(ledger)))
    rho = [float(r["cost"]) for r in rows if r["charged"] == "b" and r["measure"] == "rho"]
    assert rho == [1 / 32, 1 / 128, -1 / 128]
    assert sum(rho) == float([r for r in rows if r["charged"] == "b" and r["measure"] == "rho"][-1]["total"])


def test_the_second_accountant_has_sums_of_its_own():
    found = again(releases.sampled(1.2, 0.01, 20), ("rho", "mu2", "renyi:6", "epsilon"))
    assert set(found) == {"rho", "mu2", "renyi:6"}
    assert found["rho"] == pytest.approx(20 / (2 * 1.44))
    assert again(releases.laplace(8.0), ("epsilon",)) == {"epsilon": 0.125}
    assert again(releases.approx(0.1), ("rho", "delta")) == {}
