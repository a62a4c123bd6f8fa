"""The commands of ``dpspec ledger``: words, exit codes, documents."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dpspec.ledger.book import Ledger
from tests.cli.call import call
from tests.ledger import releases


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ledger")
    url = str(folder / "book.db")
    words = ("ledger", "init", "--ledger", url, "--data", "visits 2026", "--relation", "add-remove")
    assert call(*words, "--account", "all", "--profile", "1:1e-6", "--profile", "0.5:1e-3").code == 0
    assert call(*words, "--account", "month", "--rho", "1/16", "--per", "month", "--parent", "all").code == 0
    assert call(*words, "--account", "days", "--mu", "0.5", "--per", "30days").code == 0
    ledger = Ledger(url)
    ledger.commit(ledger.reserve("month", releases.gaussian(8.0), analysis="counts", plan="p" * 64))
    ledger.reserve("days", releases.gaussian(4.0), analysis="means", plan="q" * 64)
    ledger.dispose()
    return folder


@pytest.fixture
def url(kept: Path, tmp_path: Path) -> str:
    for file in kept.glob("book.db*"):
        shutil.copy(file, tmp_path)
    return str(tmp_path / "book.db")


def test_status_history_show(url: str):
    text = call("ledger", "status", "--ledger", url)
    assert text.code == 0
    for words in (
        "account all of 'visits 2026': epsilon 1, delta 1e-6 and epsilon 0.5, delta 1e-3",
        "per calendar month",
        "per 30 days",
        ", in all",
    ):
        assert words in text.stdout, words
    assert "DP711: days: entries 6 are reserved" in text.stderr
    rows = json.loads(call("ledger", "status", "days", "--ledger", url, "--format", "json").stdout)["accounts"]
    assert [(r["account"], r["used"], r["open"][0]["entry"]) for r in rows] == [("days", 0.25, 6)]
    history = json.loads(call("ledger", "history", "month", "--ledger", url, "--format", "json").stdout)["entries"]
    assert [(e["seq"], e["kind"]) for e in history] == [(2, "open"), (4, "reserve"), (5, "commit")]
    assert "counts (plan pppppppppppp)" in call("ledger", "history", "--ledger", url).stdout
    shown = json.loads(call("ledger", "show", "4", "--ledger", url).stdout)
    assert shown["body"]["schedule"]["tree"]["level"] == 8.0
    assert shown["hash"] == history[1]["hash"]


def test_resolve_and_close(url: str):
    words = ("--reason", "no draw", "--by", "owner", "--ledger", url)
    assert call("ledger", "resolve", "6", *words).code == 2  # neither spent nor released
    assert call("ledger", "resolve", "6", "--released", *words).code == 0
    assert call("ledger", "resolve", "6", "--released", *words).code == 2
    assert json.loads(call("ledger", "status", "days", "--ledger", url, "--format", "json").stdout)["accounts"][0]["used"] == 0
    assert call("ledger", "close", "all", *words).code == 0
    assert call("ledger", "close", "all", *words).code == 1
    ledger = Ledger(url)
    with pytest.raises(Exception, match="DP704: the account 'all' is closed"):
        ledger.reserve("month", releases.gaussian(8.0))  # what it belongs to is closed
    assert "by owner: no draw" in call("ledger", "history", "--ledger", url).stdout
    assert call("ledger", "verify", "--ledger", url).code == 0


def test_exports_are_new_files(url: str, tmp_path: Path):
    out = tmp_path / "out.jsonl"
    assert call("ledger", "export", "--ledger", url, "--out", str(out)).code == 0
    assert [json.loads(line)["seq"] for line in out.read_text().splitlines()] == [1, 2, 3, 4, 5, 6]
    assert call("ledger", "export", "--ledger", url, "--out", str(out)).code == 2
    assert call("ledger", "export", "--ledger", url, "--csv").stdout.startswith("entry,kind,account,")


@pytest.mark.parametrize(
    "words",
    [
        "--account x --rho 1",  # no data set
        "--account x --data d",  # no limit
        "--account x --data d --rho 1 --per fortnight",
        "--account x --data d --rho 1 --per 0days",
        "--account x --data d --profile 1",
        "--account x --data d --epsilon 1e99",
        "--rho 1",  # no account
        "--account all --data d --rho 1",  # there already
    ],
)
def test_accounts_that_cannot_be_opened(url: str, words: str):
    refused = call("ledger", "init", "--ledger", url, *words.split())
    assert (refused.code, "DP710" in refused.stderr) == (2, True)


def test_places_that_are_no_ledger(tmp_path: Path):
    (tmp_path / "notes").write_text("words")
    for place in (str(tmp_path / "none" / "a.db"), str(tmp_path / "notes"), "mysql://a/b", "postgresql://localhost:1/none", "a://"):
        found = call("ledger", "init", "--ledger", place)
        assert (found.code, "DP705" in found.stderr) == (2, True), (place, found)
    secret = call("ledger", "status", "--ledger", "postgresql://me:secret@localhost:1/none")
    assert secret.code == 2
    assert "secret" not in secret.stdout + secret.stderr
    assert call("ledger", "status").code == 2
