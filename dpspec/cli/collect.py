"""``dpspec collect``: reports of clients to the record of a release."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from dpspec.cli.common import Format, FormatOption, NoColorOption, QuietOption, VerboseOption, emit_json, guarded, refuse, say, use_color


@guarded
def command(
    plan: Annotated[Path, typer.Argument(help="a spec file, or a stored plan", show_default=False)],
    reports: Annotated[
        list[str] | None, typer.Argument(help="files of reports, folders of such files, or - for standard input", show_default=False)
    ] = None,
    store: Annotated[
        str | None, typer.Option("--store", help="a SQLite file; PLAN.reports.db where it is not named", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="folder for record.json and the released arrays", show_default=False)] = None,
    tokens: Annotated[
        Path | None, typer.Option("--tokens", help="the tokens that were given to users: nobody else answers", show_default=False)
    ] = None,
    rounds: Annotated[
        Path | None, typer.Option("--rounds", help="write what the users of the open round are told here", show_default=False)
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="end the open round with those who have answered")] = False,
    serve: Annotated[str | None, typer.Option("--serve", help="HOST:PORT: take reports over HTTP", show_default=False)] = None,
    malicious: Annotated[int, typer.Option("--malicious", help="how many users to state the influence of", min=0)] = 1,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Add reports to a store, and make the record when every user of the plan has answered: the one that `dpspec run` makes of the same
    reports, bit for bit. What is no report of the plan, or comes twice, is refused and counted. A call goes on where another was killed.

    Examples:

      dpspec collect survey.dps inbox/ --out released/

      dpspec collect survey.dps --serve 127.0.0.1:8000

      dpspec collect rounds.dps batch1.bin --rounds state.json
    """
    from dpspec.collector.closing import batch_sizes
    from dpspec.collector.export import device_of
    from dpspec.collector.plans import plan_of
    from dpspec.collector.store import opened, read_tokens

    planned = plan_of(plan)
    device = device_of(planned)
    if rounds is not None and device.rounds == 1:
        refuse("the plan has one round, and nothing to tell its users", "leave --rounds out")
    where = store if store is not None else str(plan.with_suffix(".reports.db"))
    with opened(where, device, batch_sizes(planned, device)) as kept:
        if tokens is not None:
            kept.give(read_tokens(tokens))
        added = _added(planned, kept, reports or [])
        if serve is not None:
            _serve(planned, kept, serve, quiet)
        body = _closed(planned, kept, rounds, partial, out)
    from dpspec.compiler.influence import influence

    shown = {**body, "added": dict(added), "influence": influence(planned.draft, malicious)}
    record = shown.pop("made")
    if format is Format.json:
        emit_json({**shown, "record": None if record is None else record.to_json()})
    elif not quiet:
        _show(shown, record, use_color(no_color))
        if out is not None and record is not None:
            say(f"\nwritten to {out}/record.json")


def _added(planned: Any, kept: Any, names: list[str]) -> Counter[str]:
    from dpspec.collector.intake import files
    from dpspec.collector.service import follow, take

    total: Counter[str] = Counter()
    for name in names:
        for stream in _streams(name, files):
            total += take(kept, stream)
            follow(planned, kept)
    return total


def _streams(name: str, files: Any) -> Iterator[Iterator[bytes]]:
    from dpspec.collector.intake import pieces

    if name == "-":
        yield pieces(sys.stdin.buffer)
        return
    path = Path(name)
    if not path.exists():
        refuse(f"{name} is not there", "files of reports, folders of such files, or -")
    for file in files([path]):
        with file.open("rb") as stream:
            yield pieces(stream)


def _serve(planned: Any, kept: Any, address: str, quiet: bool) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        refuse(f"{address!r} is no address", "--serve 127.0.0.1:8000")
    try:
        from dpspec.collector.service import serve

        serve(planned, kept, host, int(port), quiet=quiet)
    except ImportError:
        refuse("the HTTP collector needs starlette and uvicorn", "pip install dpspec[collector]", code="DP415")


def _closed(planned: Any, kept: Any, rounds: Path | None, partial: bool, out: Path | None) -> dict[str, Any]:
    """The state of the store after the call, with the record (``made``) where there is one."""
    from dpspec.collector.closing import record_of
    from dpspec.collector.service import collected, open_state, status
    from dpspec.executor.folder import claimed

    if partial and kept.round < len(kept.sizes) and kept.users(kept.round) > 0:
        kept.advance(kept.round + 1)
        partial = False
    now = status(kept)
    full = kept.round == len(kept.sizes) and now["users"][-1] >= kept.sizes[-1]
    record = None
    if full or out is not None or (partial and kept.round == len(kept.sizes)):
        with claimed(out, tuple(r.release.name for r in planned.draft.releases)):
            record = record_of(collected(planned, kept), kept.started, partial=partial)
            if out is not None:
                record.write(out)
    elif rounds is not None:
        temporary = rounds.with_suffix(rounds.suffix + ".partial")
        temporary.write_text(json.dumps(open_state(planned, kept), indent=2) + "\n", encoding="utf-8")
        temporary.replace(rounds)
    return {**now, "made": record}


def _show(shown: dict[str, Any], record: Any, color: bool) -> None:
    from dpspec.report.terminal import influence_line, record_text

    for reason, count in shown["added"].items():
        say(f"{count:>12,}  {reason}")
    at = shown["round"]
    which = f"round {at} of {shown['rounds']}" if shown["rounds"] > 1 else "the plan"
    say(f"{which} has {shown['users'][-1]:,} of {shown['needed'][at - 1]:,} reports")
    for row in shown["influence"]:
        say(influence_line(row))
    if record is not None:
        say("\n" + record_text(record.to_json(), color=color))
