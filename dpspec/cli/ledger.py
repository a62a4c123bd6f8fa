"""``dpspec ledger``: budgets that outlive a process."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dpspec.cli.common import (
    FINDINGS,
    Format,
    FormatOption,
    NoColorOption,
    QuietOption,
    VerboseOption,
    emit_json,
    guarded,
    note,
    read_json,
    refuse,
    say,
    stop,
)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Accounts with limits, what was released from them, and proofs that nothing is lost.\n\n"
    "Exit codes: 0 done; 1 findings (a broken chain, a total that does not follow, a closed account); 2 unusable input (no ledger, no such "
    "account, no open reservation).",
)

UrlOption = Annotated[
    str | None,
    typer.Option("--ledger", envvar="DPSPEC_LEDGER", help="a SQLite file, or postgresql://user@host/database", show_default=False),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="why; kept for good", show_default=False)]
ByOption = Annotated[str, typer.Option("--by", help="who says so; kept for good", show_default=False)]


def _url(url: str | None) -> str:
    if url is None:
        refuse("no ledger is named", "state --ledger FILE_OR_URL, or set DPSPEC_LEDGER", "DP705")
    return url


def _opened(url: str | None) -> Any:
    from dpspec.ledger.book import Ledger

    return Ledger(_url(url))


@app.command("init", short_help="make a ledger, and open accounts")
@guarded
def init(
    ledger: UrlOption = None,
    account: Annotated[str | None, typer.Option("--account", help="open an account of this name", show_default=False)] = None,
    data: Annotated[str | None, typer.Option("--data", help="the data set, as its owner calls it", show_default=False)] = None,
    epsilon: Annotated[str | None, typer.Option("--epsilon", help="limit: epsilon, pure without --delta", show_default=False)] = None,
    delta: Annotated[str | None, typer.Option("--delta", help="limit: delta beside --epsilon", show_default=False)] = None,
    rho: Annotated[str | None, typer.Option("--rho", help="limit: zCDP", show_default=False)] = None,
    mu: Annotated[str | None, typer.Option("--mu", help="limit: Gaussian DP", show_default=False)] = None,
    profile: Annotated[
        list[str] | None, typer.Option("--profile", help="limit: EPSILON:DELTA, once for each point", show_default=False)
    ] = None,
    filter: Annotated[str, typer.Option("--filter", help="of an (epsilon, delta) limit: any, basic, gdp, zcdp or renyi")] = "any",
    unit: Annotated[str, typer.Option("--unit", help="unit of privacy")] = "person",
    relation: Annotated[str, typer.Option("--relation", help="replace-one, add-remove or zero-out")] = "replace-one",
    model: Annotated[str, typer.Option("--model", help="trust model of the plans that it counts")] = "central",
    protects: Annotated[str, typer.Option("--protects", help="records, labels or attributes")] = "records",
    per: Annotated[
        str | None, typer.Option("--per", help="a window: 30days (rolling), day, week, month or year (calendar)", show_default=False)
    ] = None,
    parent: Annotated[str | None, typer.Option("--parent", help="charge this account too", show_default=False)] = None,
    fingerprint: Annotated[
        Path | None, typer.Option("--fingerprint", help="store the SHA-256 of this data file, and admit no other", show_default=False)
    ] = None,
    by: Annotated[str, typer.Option("--by", help="who opens it; kept for good", show_default=False)] = "",
    format: FormatOption = Format.text,
    no_color: NoColorOption = False,
) -> None:
    """Make a ledger (or bring one to this version), and open an account in it with a limit that nobody can raise.

    Examples:

      dpspec ledger init --ledger team.db --account survey --data "survey 2026" --epsilon 3 --delta 1e-6

      dpspec ledger init --ledger team.db --account ana --parent survey --data "survey 2026" --rho 0.1 --per month

      dpspec ledger init --ledger postgresql://office@db/privacy --account pure --data visits --epsilon 1 --relation add-remove
    """
    from dpspec.ledger.book import create, described
    from dpspec.ledger.limits import LimitError, make_limit

    limits = (epsilon, delta, rho, mu, profile)
    if account is None and (data or parent or per or fingerprint or any(limits)):
        refuse("a limit, a data set or a window belongs to an account", "name it (--account)", "DP710")
    try:
        pairs = [_pair(text) for text in profile or []]
        limit = None if account is None else make_limit(epsilon=epsilon, delta=delta, rho=rho, mu=mu, profile=pairs, filters=filter)
    except LimitError as problem:
        refuse(str(problem), "`dpspec ledger init --help` shows limits", "DP710")
    window = None if per is None else _window(per)
    book = create(_url(ledger))
    body: dict[str, Any] = {"ledger": book.name}
    if account is not None and limit is not None:
        counts = {"unit": unit, "relation": relation, "model": model, "protects": protects}
        sha = None if fingerprint is None else _content(fingerprint)
        made = book.open(account, limit, data=data or "", window=window, parent=parent, fingerprint=sha, by=by, **counts)
        body |= described(made)
    _done(format, body, f"ledger {book.name}" + (f"\n{_described(body)}" if account is not None else ""))


def _content(file: Path) -> str:
    from dpspec.data.files import digest

    return digest(file, fresh=True)[0]


def _pair(text: str) -> tuple[str, str]:
    epsilon, colon, delta = text.partition(":")
    if not colon:
        refuse(f"{text!r} is no point of a profile", "write EPSILON:DELTA, as 1:1e-6", "DP710")
    return epsilon, delta


def _window(per: str) -> dict[str, Any]:
    found = re.fullmatch(r"(\d+) ?(?:d|day|days)", per)
    return {"days": int(found[1])} if found else {"calendar": per}


def _described(row: dict[str, Any]) -> str:
    from dpspec.ledger.book import stated

    window = row["window"]
    per = "" if window is None else f" per {window['days']} days" if "days" in window else f" per calendar {window['calendar']}"
    limit = " and ".join(stated(p) for p in row["limit"])
    above = f", in {row['parent']}" if row["parent"] else ""
    closed = ", closed" if row["closed"] else ""
    return (
        f"account {row['account']} of {row['data']!r}: {limit}{per}; {row['unit']}, {row['relation']}, {row['model']}, "
        f"{row['protects']}{above}{closed}"
    )


@app.command("status", short_help="what is spent, left and open")
@guarded
def status(
    account: Annotated[str | None, typer.Argument(help="an account; all without", show_default=False)] = None,
    ledger: UrlOption = None,
    delta: Annotated[
        str | None,
        typer.Option("--delta", help="also the total at this delta, by both accountants, of plans fixed in advance", show_default=False),
    ] = None,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """What each account has spent by its filters, what is left, which reservations are open, who took most.

    Examples:

      dpspec ledger status --ledger team.db

      dpspec ledger status survey --ledger team.db --delta 1e-6 --format json
    """
    from dpspec.ledger.book import left_text

    book = _opened(ledger)
    names = [account] if account is not None else [one.name for one in book.accounts()]
    rows = [book.status(name) for name in names]
    if delta is not None:
        for row in rows:
            row["total"] = _total(book, row["account"], delta)
    if format is Format.json:
        emit_json({"ledger": book.name, "accounts": rows})
        return
    for row in rows:
        if row["open"]:
            listed = ", ".join(str(r["entry"]) for r in row["open"])
            note(f"DP711: {row['account']}: entries {listed} are reserved, not committed; they count in full until they are resolved")
        if quiet:
            continue
        say(_described(row))
        if verbose:
            say("  filters " + "; ".join(", ".join(f) for f in row["filters"]))
        say(f"  spent {row['used']:.2%}; left for one release: {left_text(row['left'])}")
        for taken in row["largest"]:
            say(f"    {taken['used']:8.2%}  {taken['releases']} x {taken['analysis'] or 'a release'} ({taken['account']})")
        if "total" in row:
            say(_total_text(row["total"]))
    if not rows:
        say("no account")


def _total(book: Any, account: str, delta: str) -> dict[str, Any]:
    from dpspec.ledger.totals import counted, total
    from dpspec.privacy.gaussian import exact

    try:
        at = exact(delta)
    except (ValueError, ZeroDivisionError):
        at = exact(2)
    if not 0 <= at < 1:
        refuse(f"delta = {delta} is outside [0, 1)", "as 1e-6")
    found = total(counted(_schedules(book, account)), at)
    return {"epsilon": found.epsilon, "delta": found.delta, "releases": found.releases, "second": found.second}


def _schedules(book: Any, account: str) -> list[Any]:
    """The schedules that were charged to an account and not taken back."""
    found, back = {}, set()
    for entry in book.entries(account):
        if entry["kind"] == "reserve":
            found[entry["seq"]] = entry["body"]["schedule"]
        elif entry["kind"] == "resolve" and not entry["body"]["spent"]:
            back.add(entry["ref"])
    return [schedule for seq, schedule in found.items() if seq not in back]


def _total_text(total: dict[str, Any]) -> str:
    second = "" if total["second"] is None else f", dp_accounting {total['second']:.6g}"
    return (
        f"  all {total['releases']} releases together, had their plans been fixed in advance: epsilon {total['epsilon']:.6g} at delta "
        f"{total['delta']:g}{second}"
    )


@app.command("history", short_help="the entries of an account, or all")
@guarded
def history(
    account: Annotated[str | None, typer.Argument(help="an account; all without", show_default=False)] = None,
    ledger: UrlOption = None,
    format: FormatOption = Format.text,
    no_color: NoColorOption = False,
) -> None:
    """Every entry in order: what was opened, reserved, committed, resolved and closed.

    Examples:

      dpspec ledger history survey --ledger team.db
    """
    book = _opened(ledger)
    if account is not None:
        book.account(account)
    rows = [{k: v for k, v in entry.items() if k != "previous"} for entry in book.entries(account)]
    if format is Format.json:
        emit_json({"ledger": book.name, "entries": rows})
        return
    for row in rows:
        say(f"{row['seq']:6} {row['at'] or '':20} {row['kind']:8} {row['account']}{_words(row)}")


def _words(row: dict[str, Any]) -> str:
    body = row["body"]
    match row["kind"]:
        case "reserve":
            return f"  {body['analysis']} (plan {body['plan'][:12]})"
        case "commit":
            return f"  entry {row['ref']}"
        case "resolve":
            return f"  entry {row['ref']} {'spent' if body['spent'] else 'released'} by {body['by']}: {body['reason']}"
        case "close":
            return f"  by {body['by']}: {body['reason']}"
    return ""


@app.command("show", short_help="one entry, whole")
@guarded
def show(
    entry: Annotated[int, typer.Argument(help="its number", show_default=False)],
    ledger: UrlOption = None,
    format: FormatOption = Format.json,
    no_color: NoColorOption = False,
) -> None:
    """One entry as JSON (the only form): its schedule with levels, its costs, its hash.

    Examples:

      dpspec ledger show 17 --ledger team.db
    """
    for row in _opened(ledger).entries():
        if row["seq"] == entry:
            emit_json(row)
            return
    refuse(f"the ledger has no entry {entry}", "`dpspec ledger history` lists them", "DP702")


@app.command("verify", short_help="chain, totals and limits, recomputed")
@guarded
def verify(
    records: Annotated[
        list[Path] | None, typer.Argument(help="record.json files whose entries must be in the ledger", show_default=False)
    ] = None,
    ledger: UrlOption = None,
    format: FormatOption = Format.text,
    no_color: NoColorOption = False,
) -> None:
    """Recompute the hash chain, the costs from the schedules by both accountants, the totals and the limits. Exit 1 on a finding.

    Examples:

      dpspec ledger verify --ledger team.db released/record.json
    """
    from dpspec.ledger.verify import verify as check

    book = _opened(ledger)
    bodies = []
    for path in records or []:
        body = read_json(path, "a record", "name the record.json of a run")
        if not isinstance(body, dict):
            refuse(f"{path} is not a record", "name the record.json of a run")
        bodies.append((str(path), body))
    found = check(book, bodies)
    findings = found.pop("findings")
    if format is Format.json:
        emit_json({**found, "diagnostics": [d.to_json() for d in findings]})
    else:
        for d in findings:
            note(f"error[{d.code}]: {d.message}")
        say(f"ledger {found['ledger']}: {found['entries']} entries, {found['accounts']} accounts, {len(found['open'])} open reservations")
        say(f"head {found['head']}" + ("" if findings else "; chain, costs, totals and limits hold"))
    if findings:
        stop(FINDINGS)


@app.command("export", short_help="every entry as JSON lines or CSV")
@guarded
def export(
    ledger: UrlOption = None,
    csv: Annotated[bool, typer.Option("--csv", help="one row a charge, in place of JSON lines, one an entry")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="a new file; stdout without", show_default=False)] = None,
    format: FormatOption = Format.text,
    no_color: NoColorOption = False,
) -> None:
    """All entries, with their hashes, for another program or an archive.

    Examples:

      dpspec ledger export --ledger team.db --out ledger.jsonl

      dpspec ledger export --ledger team.db --csv --out charges.csv
    """
    from dpspec.ledger.export import csv_lines, json_lines

    book = _opened(ledger)
    lines = (csv_lines if csv else json_lines)(book)
    if format is Format.json and out is None:
        emit_json({"ledger": book.name, **({"csv": list(lines)} if csv else {"entries": list(book.entries())})})
        return
    if out is None:
        for line in lines:
            sys.stdout.write(line + "\n")
        return
    try:
        stream = out.open("x", encoding="utf-8")
    except FileExistsError:
        refuse(f"{out} is there", "name a new file")
    with stream:
        for line in lines:
            stream.write(line + "\n")
    if format is Format.json:
        emit_json({"ledger": book.name, "written": str(out)})


@app.command("close", short_help="charge nothing more to an account")
@guarded
def close(
    account: Annotated[str, typer.Argument(help="the account", show_default=False)],
    reason: ReasonOption,
    by: ByOption,
    ledger: UrlOption = None,
    format: FormatOption = Format.text,
    no_color: NoColorOption = False,
) -> None:
    """Close an account for good, and with it those that belong to it.

    Examples:

      dpspec ledger close survey --reason "study ended" --by "A. Owner" --ledger team.db
    """
    _opened(ledger).close(account, reason=reason, by=by)
    _done(format, {"account": account, "closed": True}, f"account {account} is closed")


@app.command("resolve", short_help="say what became of an open reservation")
@guarded
def resolve(
    entry: Annotated[int, typer.Argument(help="the reservation", show_default=False)],
    reason: ReasonOption,
    by: ByOption,
    spent: Annotated[
        bool | None,
        typer.Option("--spent/--released", help="the release was made (or may have been seen), or no noise was drawn", show_default=False),
    ] = None,
    ledger: UrlOption = None,
    format: FormatOption = Format.text,
    no_color: NoColorOption = False,
) -> None:
    """End a reservation whose run did not: it stays spent, or its cost is given back. Nothing does that by itself.

    Examples:

      dpspec ledger resolve 17 --spent --reason "record found in backup" --by "A. Owner" --ledger team.db

      dpspec ledger resolve 18 --released --reason "host lost power while records were read" --by "A. Owner" --ledger team.db
    """
    if spent is None:
        refuse("say what became of it", "--spent (if in doubt) or --released", "DP712")
    _opened(ledger).resolve(entry, spent=spent, reason=reason, by=by)
    word = "spent" if spent else "released"
    _done(format, {"entry": entry, "resolved": word}, f"entry {entry} is {word}")


def _done(format: Format, body: dict[str, Any], words: str) -> None:
    if format is Format.json:
        emit_json(body)
    else:
        say(words)
