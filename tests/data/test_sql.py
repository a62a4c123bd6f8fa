"""Records that a query gives, from every kind of database that is read: the same release as from a file, and no credential anywhere."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspec as dp
from dpspec.data import sql
from dpspec.data.sources import load
from dpspec.data.tables import Wanted
from dpspec.lang.printer import to_dps, to_yaml
from dpspec.lang.source import parse_text
from dpspec.spec import databases
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.model import SqlSource
from tests.cli.call import call
from tests.ledger.conftest import postgresql, server  # noqa: F401

N = 500
ROWS = [(i, (i * 37 % 101) / 101, round((i * 53 % 97) / 97, 3), "ab"[i % 2], None if i % 7 == 0 else 1.0) for i in range(N)]
TABLE = "CREATE TABLE people (id INTEGER, age {real}, income {decimal}, sex {text}, gap {real})"
SPEC = """analysis "people"

data
  n = {n}, d = 3
  from "{url}" query "{query}" columns [age, income, sex]
  private, unit person, neighbours replace-one
  encode sex as levels("a", "b")
  intercept
  x in ball(l2, 2) by scale

privacy central
  epsilon = 1, delta = 1e-6

release m
  estimate mean(x)
  by dp-mean
""".replace("d = 3", "d = 5")


def _sqlite(folder: Path, request: Any) -> str:
    with sqlite3.connect(folder / "p.db") as c:
        c.execute(TABLE.format(real="REAL", decimal="NUMERIC", text="TEXT"))
        c.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", ROWS)
    return "sqlite:///p.db"


def _duckdb(folder: Path, request: Any) -> str:
    duckdb = pytest.importorskip("duckdb", reason="pip install 'dpspec[sql]'")
    with duckdb.connect(str(folder / "p.duckdb")) as c:
        c.execute(TABLE.format(real="DOUBLE", decimal="DECIMAL(9, 3)", text="VARCHAR"))
        cells = [", ".join("NULL" if cell is None else repr(cell) for cell in row) for row in ROWS]
        c.execute(f"INSERT INTO people VALUES ({'), ('.join(cells)})")
    return "duckdb:///p.duckdb"


def _postgresql(folder: Path, request: Any) -> str:
    pytest.importorskip("adbc_driver_postgresql", reason="pip install 'dpspec[sql]'")
    url: str = request.getfixturevalue("postgresql")
    import psycopg

    with psycopg.connect(url) as c:
        c.execute(TABLE.format(real="double precision", decimal="numeric(9, 3)", text="text"))  # type: ignore[call-overload]
        c.cursor().executemany("INSERT INTO people VALUES (%s, %s, %s, %s, %s)", ROWS)
    return url.replace("dpspec@", "")


KINDS: dict[str, Callable[[Path, Any], str]] = {"sqlite": _sqlite, "duckdb": _duckdb, "postgresql": _postgresql}


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PGUSER", "dpspec")  # where credentials come from
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    return KINDS[request.param](tmp_path, request)


def plan_of(text: str, folder: Path) -> Any:
    return dp.plan(parse_text(text, path=str(folder / "s.dps"), surface="dps"))


def test_a_query_gives_the_records_of_a_file(url: str, tmp_path: Path) -> None:
    lines = ["age,income,sex", *(f"{age!r},{income!r},{sex}" for _, age, income, sex, _ in ROWS)]
    (tmp_path / "p.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    query = "select income, sex, id, age, gap from people order by id;"
    asked = parse_text(SPEC.format(n=N, url=url, query=query), path=str(tmp_path / "s.dps"), surface="dps").analysis.data
    filed = parse_text(SPEC.format(n=N, url="p.csv", query=query).replace(f'query "{query}" ', ""), surface="dps").analysis.data
    one, other = load(asked, base_dir=tmp_path), load(filed, base_dir=tmp_path)
    assert one.columns == other.columns
    assert np.max(np.abs(one.records.x - other.records.x)) <= 2**-52  # the last bit of a decimal


def test_a_release_reads_the_wanted_columns_alone(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    chosen = sql._chosen
    monkeypatch.setattr(sql, "_chosen", lambda name, kind, words: asked.append(name) or chosen(name, kind, words))
    found = plan_of(SPEC.format(n=N, url=url, query="select * from people"), tmp_path)
    found.run()
    assert asked == ["age", "income", "sex"]  # not id, not gap, which has missing cells; asked once


def test_plan_and_record_name_the_source_and_no_credential(url: str, tmp_path: Path) -> None:
    query = "select * from people"
    found = plan_of(SPEC.format(n=N, url=url, query=query), tmp_path)
    told = json.dumps([found.to_json(), found.run().to_json()], default=str)
    assert "hunter2" not in told
    files = found.to_json()["files"]
    assert files == [{"role": "private data", "path": databases.shown(url), "query_sha256": hashlib.sha256(query.encode()).hexdigest()}]
    assert [d.code for d in found.diagnostics] == ["DP529"]
    assert found.sha256 != plan_of(SPEC.format(n=N, url=url, query="select * from people where id > 0"), tmp_path).sha256


def test_batches_are_bounded(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "ROWS", 2048)
    monkeypatch.setattr(sql, "BATCH_BYTES", 1 << 12)
    query = "select p.age from people p, people q limit 20000"
    source = sql.opened(SqlSource(url=url, query=query), tmp_path, Wanted(private=False))
    sizes = [table.num_rows for table in source.read(("age",))]
    assert sum(sizes) == 20000
    assert max(sizes) <= 2048


@pytest.mark.parametrize(
    "query",
    [
        "delete from people",
        "drop table people",
        "select age, income, sex from people; delete from people",
        "select nothing from people",
        "select age from nowhere",
        "select 1) as a; delete from people; select (1",
    ],
)
def test_a_query_reads_and_does_nothing_else(query: str, url: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        plan_of(SPEC.format(n=N, url=url, query=query), tmp_path).run()
    assert [d.code for d in refused.value.diagnostics] == ["DP528"]
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None
    again = plan_of(SPEC.format(n=N, url=url, query="select * from people"), tmp_path)
    again.run()  # every row is still there


def test_a_missing_column_and_another_n_are_refused_as_from_files(url: str, tmp_path: Path) -> None:
    for text, code in (
        (SPEC.format(n=N, url=url, query="select age, sex from people"), "DP503"),
        (SPEC.format(n=N + 1, url=url, query="select * from people"), "DP507"),
        (SPEC.format(n=N, url=url, query="select gap as age, income, sex from people"), "DP504"),
        (SPEC.format(n=N, url=url, query="select sex as age, income, sex from people"), "DP505"),
    ):
        with pytest.raises(SpecError) as refused:
            plan_of(text, tmp_path).run()
        assert {d.code for d in refused.value.diagnostics} == {code}


def test_duckdb_stays_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("age,income,sex\n1,1,a\n", encoding="utf-8")
    url = _duckdb(tmp_path, None)
    people = np.ones(3)  # a variable of this program
    for query in (f"select * from read_csv('{tmp_path / 'other.csv'}')", "select * from people_frame"):
        with pytest.raises(SpecError):
            sql.opened(SqlSource(url=url, query=query), tmp_path, Wanted(private=False))
    assert people.sum() == 3


def test_sqlite_attaches_nothing(tmp_path: Path) -> None:
    url = _sqlite(tmp_path, None)
    with sql._sqlite(url, tmp_path), pytest.raises(sqlite3.DatabaseError), sql._sqlite(url, tmp_path) as (columns_of, _):
        columns_of("ATTACH 'other.db' AS o")
    assert not (tmp_path / "other.db").exists()


SECRET = "hunter2"
WRONG = {
    f"postgresql://ada:{SECRET}@db.example/clinic": "user or a password",
    "postgresql://ada@db.example/clinic": "user or a password",
    f"postgresql://ada%3A{SECRET}%40db.example/clinic": "user or a password",
    f"postgresql://db.example/clinic?password={SECRET}": "credential",
    f"postgresql://db.example/clinic?p%61ssword={SECRET}": "credential",
    f"postgresql://db.example/clinic?tag={SECRET}": "parameter that is not known",
    f"mysql://ada:{SECRET}@db.example/clinic": "no reader of mysql databases",
    f"mssql+pyodbc://db.example/{SECRET}": "no reader of mssql databases",
    "https://db.example/clinic": "no reader of https databases",
    "people.db": "no address",
    "sqlite://p.db": "sqlite:///FILE",
    f"duckdb:///p.db?motherduck_token={SECRET}": "parameter that is not known",
}


@pytest.mark.parametrize("url", WRONG)
@pytest.mark.parametrize("surface", ["dps", "yaml"])
def test_an_address_that_says_too_much_is_refused_and_not_repeated(url: str, surface: str, tmp_path: Path) -> None:
    text = SPEC.format(n=N, url="sqlite:///p.db", query="select * from people")
    if surface == "yaml":
        text = to_yaml(parse_text(text, surface="dps").analysis)
    file = tmp_path / f"s.{surface}"
    file.write_text(text.replace("sqlite:///p.db", url), encoding="utf-8")
    found = call("check", str(file))
    said = found.stdout + found.stderr
    assert found.code == 2
    assert "DP527" in said
    assert WRONG[url] in said
    assert SECRET not in said


def test_a_password_is_in_no_message_about_something_else(tmp_path: Path) -> None:
    address = f'from "postgresql://ada:{SECRET}@db.example/clinic"'
    text = SPEC.format(n=N, url="sqlite:///p.db", query="q")
    line = next(line for line in text.splitlines() if "sqlite" in line)
    odd = f'from "postgresql://ada:a, b{SECRET}@db.example/clinic"'
    for wrong in (
        f"{address} targt y",
        f'{address} query "select" colums [a]',
        address,
        f'{odd} query "q" targt y',
        f"{odd[:-1]} targt y",
        odd[:-1],
    ):
        file = tmp_path / "s.dps"
        file.write_text(text.replace(line, f"  {wrong}"), encoding="utf-8")
        for command in ("check", "plan", "run"):
            found = call(command, str(file))
            assert found.code
            assert SECRET not in found.stdout + found.stderr
    with pytest.raises(SpecError) as refused:
        sql.opened(SqlSource(url="sqlite:///p.db", query=f"select '{'pass' + 'word'}={SECRET}'"), tmp_path, Wanted())
    assert SECRET not in str(refused.value)


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("adbc_driver_postgresql", reason="pip install 'dpspec[sql]'")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    monkeypatch.setenv("PGUSER", "ada-of-the-clinic")
    source = SqlSource(url="postgresql://127.0.0.1:9/clinic", query="select 1 as a")
    with pytest.raises(SpecError, match=r"postgresql://127\.0\.0\.1:9/clinic cannot be read") as refused:
        sql.opened(source, tmp_path, Wanted())
    assert "ada-of-the-clinic" not in str(refused.value)
    assert SECRET not in str(refused.value)


def test_without_the_driver_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "p.duckdb").write_bytes(b"1")
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(SpecError, match="duckdb is not installed") as refused:
        sql.opened(SqlSource(url="duckdb:///p.duckdb", query="select 1 as a"), tmp_path, Wanted())
    assert "dpspec[sql]" in str(refused.value.diagnostics[0].help)


def test_both_surfaces_say_the_same() -> None:
    text = SPEC.format(n=N, url="sqlite:///p.db", query='select * from people where sex <> \\"c\\"')
    analysis = parse_text(text, surface="dps").analysis
    assert analysis.data.source == SqlSource(
        url="sqlite:///p.db", query='select * from people where sex <> "c"', columns=("age", "income", "sex")
    )
    assert parse_text(to_yaml(analysis), surface="yaml").analysis == analysis
    assert parse_text(to_dps(analysis), surface="dps").analysis == analysis


@pytest.mark.parametrize("source", ["{memory: true, query: select 1}", "{path: a.csv, query: select 1}", "{url: 'sqlite:///p.db'}"])
def test_a_query_goes_with_an_address(source: str) -> None:
    yaml = to_yaml(parse_text(SPEC.format(n=N, url="sqlite:///p.db", query="q"), surface="dps").analysis)
    line = next(line for line in yaml.splitlines() if "sqlite:///p.db" in line)
    with pytest.raises(SpecError, match="`url` and `query` go together"):
        parse_text(yaml.replace(line, f"  from: {source}"), surface="yaml")


def test_the_words_that_look_at_several_rows() -> None:
    assert databases.several("SELECT rank() OVER (order by x) FROM a JOIN b using (i) GROUP  BY i") == ("over", "join", "group by")
    assert databases.several("select age, grouping from overs where joined") == ()


def test_a_study_on_public_records_notices_other_records(tmp_path: Path) -> None:
    _sqlite(tmp_path, None)
    source = SqlSource(url="sqlite:///p.db", query="select * from people order by id")
    before = sql.fingerprint(source, tmp_path)
    assert before == sql.fingerprint(source, tmp_path)
    with sqlite3.connect(tmp_path / "p.db") as c:
        c.execute("UPDATE people SET age = 0.5 WHERE id = 3")
    assert sql.fingerprint(source, tmp_path) != before
