"""No budget is lost and none is spent twice: writers that are killed, many at once, full disks, files that cannot be written."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpspec.ledger.book import Ledger, Refused, create
from dpspec.ledger.limits import make_limit
from dpspec.ledger.verify import verify
from dpspec.spec.diagnostics import SpecError
from tests.ledger.killing import run
from tests.ledger.releases import COUNTS, gaussian

WHOLE, PART = Fraction(3, 4), Fraction(1, 16)  # of mu^2


def opened(url: str, whole: Fraction = WHOLE, part: Fraction = PART) -> None:
    """An account, and one in it with less; mu^2 is exact in the text of mu only where it is a square, so the limits are of rho."""
    ledger = create(url)
    ledger.open("whole", make_limit(rho=str(whole / 2)), data="d", **COUNTS)
    ledger.open("part", make_limit(rho=str(part / 2)), data="d", parent="whole", **COUNTS)
    ledger.dispose()


def killed(url: str, folder: Path, kills: int, writers: int, seed: int, pause: float = 0.5) -> int:
    folder.mkdir()
    count = run(url, folder, kills, writers, seed, pause)
    assert [p.read_text() for p in folder.glob("*.error")] == []
    return count


def journals(folder: Path) -> dict[str, dict[str, list[str]]]:
    """By tag, what its writer noted. A last line that was cut off by the kill counts for nothing."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in folder.glob("*.txt"):
        for line in path.read_text().split("\n")[:-1]:
            word, tag, *rest = line.split()
            found.setdefault(tag, {})[word] = rest
    return found


def recomputed(url: str, folder: Path, whole: Fraction = WHOLE, part: Fraction = PART) -> dict[str, int]:
    """The invariant, from the entries and the journals alone: nothing of the ledger's own sums is used."""
    ledger = Ledger(url)
    entries = list(ledger.entries())
    reserved = {e["body"]["analysis"]: e for e in entries if e["kind"] == "reserve"}
    assert len(reserved) == sum(e["kind"] == "reserve" for e in entries)  # each question was charged at most once
    ended = {e["ref"]: e for e in entries if e["kind"] in ("commit", "resolve")}
    assert len(ended) == sum(e["kind"] in ("commit", "resolve") for e in entries)
    notes = journals(folder)
    assert set(reserved) <= set(notes)  # nothing was charged that nobody asked for
    for tag, said in notes.items():
        if "reserved" in said:  # noise may have been drawn: the charge is there
            assert reserved[tag]["seq"] == int(said["reserved"][0])
            assert reserved[tag]["account"] == said["try"][0]
        if "committed" in said:
            assert ended[reserved[tag]["seq"]]["kind"] == "commit"
        if "released" in said:
            assert ended[reserved[tag]["seq"]]["body"]["spent"] is False
        if "refused" in said:
            assert tag not in reserved
    spent = {"whole": Fraction(0), "part": Fraction(0)}
    for entry in entries:
        if entry["kind"] == "reserve" or (entry["kind"] == "resolve" and not entry["body"]["spent"]):
            of = entry if entry["kind"] == "reserve" else next(e for e in entries if e["seq"] == entry["ref"])
            sign = 1 if entry["kind"] == "reserve" else -1
            cost = sign / Fraction(of["body"]["schedule"]["tree"]["level"]) ** 2
            for name in {"whole", of["account"]}:
                spent[name] += cost
            assert spent["whole"] <= whole
            assert spent["part"] <= part
    for name, value in spent.items():
        assert Fraction(ledger.status(name)["spent"]["rho"]) == value / 2
    found = verify(ledger)
    assert found["findings"] == []
    ledger.dispose()
    return {
        "entries": len(entries),
        "reserved": len(reserved),
        "ended": len(ended),
        "refused": sum("refused" in said for said in notes.values()),
        "unanswered": sum(tag in reserved and "reserved" not in said for tag, said in notes.items()),
    }


@pytest.mark.parametrize("writers", [pytest.param(2, marks=pytest.mark.slow), 16])
def test_writers_that_are_killed(tmp_path: Path, writers: int) -> None:
    url = str(tmp_path / "book.db")
    opened(url)
    assert killed(url, tmp_path / "notes", 12, writers, seed=writers) >= 12
    assert recomputed(url, tmp_path / "notes")["reserved"] > 0


@pytest.mark.slow
def test_a_thousand_kills_of_sixteen_writers_on_sqlite(tmp_path: Path) -> None:
    url = str(tmp_path / "book.db")
    whole = Fraction(16)
    opened(url, whole)
    assert killed(url, tmp_path / "notes", 1000, 16, seed=1, pause=2.0) >= 1000
    found = recomputed(url, tmp_path / "notes", whole)
    assert found["refused"] > 0
    print(found)


def test_writers_that_are_killed_on_postgresql(tmp_path: Path, postgresql: str) -> None:
    opened(postgresql)
    assert killed(postgresql, tmp_path / "notes", 12, 4, seed=3) >= 12
    assert recomputed(postgresql, tmp_path / "notes")["reserved"] > 0


@pytest.mark.slow
def test_a_thousand_kills_of_sixteen_writers_on_postgresql(tmp_path: Path, postgresql: str) -> None:
    whole = Fraction(16)
    opened(postgresql, whole)
    assert killed(postgresql, tmp_path / "notes", 1000, 16, seed=2, pause=2.0) >= 1000
    found = recomputed(postgresql, tmp_path / "notes", whole)
    assert found["refused"] > 0
    print(found)


# ---------------------------------------------------------------------------------------------------- what cannot be written


def child(url: str, hinder: Callable[[], None]) -> tuple[int, str]:
    """How many reservations a process makes that is hindered, and what it is told at last."""
    Ledger(url).account("whole")  # everything is imported
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        made, said = 0, "nothing"
        try:
            hinder()
            ledger = Ledger(url)
            for i in range(400):
                ledger.reserve("whole", gaussian(64.0), analysis=f"r{i}")
                made += 1
        except SpecError as error:
            said = f"{error.diagnostics[0].code} {error.diagnostics[0].message}"
        except BaseException as error:
            said = repr(error)
        finally:
            os.write(writer, json.dumps([made, said]).encode())
            os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with os.fdopen(reader) as answer:
        made, said = json.load(answer)
    return made, said


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))


def nobody() -> None:
    if os.geteuid() == 0:  # who may write everything
        os.setgid(65534)
        os.setuid(65534)


def test_a_disk_that_fills_up_charges_what_it_promised_and_no_more(tmp_path: Path) -> None:
    url = str(tmp_path / "book.db")
    opened(url)
    made, message = child(url, small_files)
    assert message.startswith("DP705")
    assert made > 0
    ledger = Ledger(url)
    kept = sum(e["kind"] == "reserve" for e in ledger.entries())
    assert kept == made
    assert verify(ledger)["findings"] == []
    ledger.reserve("whole", gaussian(64.0))  # there is room again


def test_a_file_that_is_read_only_refuses_before_any_draw(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and folder != Path("/tmp") and os.geteuid() == 0 and len(folder.parts) > 2:
            folder.chmod(folder.stat().st_mode | 0o055)
    url = str(tmp_path / "book.db")
    opened(url)
    before = json.dumps(list(Ledger(url).entries()))
    for path in tmp_path.glob("book.db*"):
        path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        made, message = child(url, nobody)
    finally:
        tmp_path.chmod(0o755)
    assert (made, message[:5]) == (0, "DP705")
    assert json.dumps(list(Ledger(url).entries())) == before


def test_sixteen_writers_spend_one_limit_once(tmp_path: Path) -> None:
    """All ask for the last releases at the same time."""
    url = str(tmp_path / "book.db")
    opened(url, Fraction(5, 64**2), Fraction(5, 64**2))
    Ledger(url).dispose()
    kids = []
    for i in range(16):
        pid = os.fork()
        if not pid:
            code = 1
            try:
                Ledger(url).reserve("part", gaussian(64.0), analysis=str(i))
                code = 0
            except Refused:
                code = 7
            finally:
                os._exit(code)
        kids.append(pid)
    assert sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in kids) == [0] * 5 + [7] * 11
    assert verify(Ledger(url))["findings"] == []


def test_a_lost_answer_counts_as_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit of the transaction was written, and the program never heard of it."""
    url = str(tmp_path / "book.db")
    opened(url)
    ledger = Ledger(url)
    real = ledger.database.dialect.do_commit

    def deaf(connection: Any) -> None:
        real(connection)
        raise sqlite3.OperationalError("connection lost")

    monkeypatch.setattr(ledger.database.dialect, "do_commit", deaf)
    with pytest.raises(SpecError, match=r"DP705.*connection lost"):
        ledger.reserve("whole", gaussian(64.0), analysis="lost")
    monkeypatch.undo()
    assert [r["analysis"] for r in ledger.status("whole")["open"]] == ["lost"]
