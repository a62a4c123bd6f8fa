"""``dpspec run``: release mode on private data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpspec.cli.common import (
    FINDINGS,
    UNUSABLE,
    AccountOption,
    Format,
    FormatOption,
    LedgerOption,
    NoColorOption,
    QuietOption,
    SchedulerOption,
    VerboseOption,
    emit_json,
    failure,
    guarded,
    note,
    refuse,
    say,
    stop,
    use_color,
)
from dpspec.cli.obeyed import Policies, PolicyOption, broken
from dpspec.cli.progress import progress_bar
from dpspec.spec.diagnostics import Diagnostic


@guarded
def command(
    spec: Annotated[Path, typer.Argument(help="a spec file", show_default=False)],
    data: Annotated[Path | None, typer.Option("--data", help="the records, instead of the spec's own source", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option("--out", help="folder for record.json and the released arrays", show_default=False)] = None,
    ledger: LedgerOption = None,
    account: AccountOption = None,
    policy: PolicyOption = None,
    engine: Annotated[str, typer.Option("--engine", help="local or dask: who computes sums over the records")] = "local",
    scheduler: SchedulerOption = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="of --engine dask without a scheduler (default: all cores)", show_default=False)
    ] = None,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Execute a plan on private data: cryptographic randomness, no seed, no error printed.

    Every call is a release of its own and spends the stated budget again: a folder that holds one is refused, and with a ledger it is
    charged to an account before the first draw.

    Examples:

      dpspec run analysis.dps --data records.csv --out released/

      dpspec run analysis.dps --out released/ --ledger team.db --account survey
    """
    from dpspec.compiler.plan import make_plan
    from dpspec.executor.record import NotWritten
    from dpspec.executor.run import run
    from dpspec.lang.source import parse_file

    if engine not in ("local", "dask"):
        refuse(f"there is no engine {engine!r}", "--engine local, or --engine dask")
    if engine == "local" and (scheduler is not None or workers is not None):
        refuse("--scheduler and --workers are for --engine dask", "add --engine dask, or leave them out")
    where: dict[str, Any] = {"engine": engine, "scheduler": scheduler, "workers": workers}
    plan = make_plan(parse_file(spec))
    if any(d.severity == "error" for d in plan.diagnostics):
        errors = tuple(d for d in plan.diagnostics if d.severity == "error")
        for d in errors:
            note(f"{d.code}: {d.message}")
        note("help: a plan with an error is not run; mend the spec, or drop the target that it cannot meet")
        failure(*errors, path=str(spec))
        stop(FINDINGS)
    obeys(broken(Policies(policy), spec, plan), spec)
    for d in plan.diagnostics:
        if (d.code == "DP519" or d.severity == "warning") and not quiet:  # of the spec alone: the same for every data set
            note(f"{d.code}: {d.message}")
    try:
        with progress_bar("drawing", quiet=quiet) as update:
            record = run(plan, data_file=data, out=out, progress=update, ledger=ledger, account=account, **where)
    except NotWritten as lost:
        note(f"error: {lost.filename or out}: {lost.strerror}; the release was made and is paid for: its record follows on stdout, keep it")
        emit_json(lost.record.to_json())
        stop(UNUSABLE)
    except BaseException as error:
        for words in getattr(error, "__notes__", ()):
            note(words)
        raise
    entry = record.body["ledger"]
    if entry is not None and not entry["committed"]:
        note(f"DP714: the release was made, and its entry {entry['entry']} could not be committed: it stays open and counts in full")
    if format is Format.json:
        emit_json(record.to_json())
    elif not quiet:
        from dpspec.report.terminal import record_text

        say(record_text(record.to_json(), color=use_color(no_color)))
        if out is not None:
            say(f"\nwritten to {out}/record.json")


def obeys(ruled: tuple[Diagnostic, ...], spec: Path) -> None:
    """Nothing is read and nothing is drawn for a plan that breaks the policy. Waived rules are said."""
    errors = tuple(d for d in ruled if d.severity == "error")
    for d in ruled:
        note(f"{d.code}: {d.message}")
    if errors:
        note(f"help: no record was read; {errors[0].help}, or have the rule waived in the policy")
        failure(*errors, path=str(spec))
        stop(FINDINGS)
