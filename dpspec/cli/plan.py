"""``dpspec plan``: the plan, its lock file, and the comparison with a reviewed one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dpspec.cli.common import (
    FINDINGS,
    UNUSABLE,
    Format,
    FormatOption,
    NoColorOption,
    QuietOption,
    VerboseOption,
    emit_json,
    guarded,
    note,
    say,
    show_diagnostics,
    stop,
    use_color,
)
from dpspec.spec.diagnostics import SpecError


@guarded
def command(
    spec: Annotated[Path, typer.Argument(help="a spec file", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help="write the plan (lock file) here", show_default=False)] = None,
    against: Annotated[
        Path | None, typer.Option("--against", help="a stored plan; exit 1 when the plan no longer matches it", show_default=False)
    ] = None,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Print the plan of a spec: algorithm, noise, guarantee by two accountants, bounds, cost.

    Examples:

      dpspec plan analysis.dps

      dpspec plan analysis.dps --out analysis.plan.json

      dpspec plan analysis.dps --against analysis.plan.json
    """
    from dpspec.compiler.plan import make_plan, write
    from dpspec.lang.source import parse_file

    plan = make_plan(parse_file(spec))
    body = plan.to_json()
    if out is not None:
        write(plan, out)
    stale = _stale(against, body, quiet=quiet) if against is not None else False
    if format is Format.json:
        emit_json(body)
    elif not quiet:
        from dpspec.report.terminal import plan_text

        say(plan_text(body, color=use_color(no_color), verbose=verbose))
        shown = tuple(d for d in plan.diagnostics if d.severity != "info" or verbose)
        if shown:
            error = SpecError(shown, path=plan.draft.parsed.path, text=plan.draft.parsed.text)
            show_diagnostics(error, color=use_color(no_color))
    if stale or any(d.severity == "error" for d in plan.diagnostics):
        stop(FINDINGS)


def _stale(against: Path, body: dict[str, object], *, quiet: bool) -> bool:
    from dpspec.compiler.diff import compare
    from dpspec.compiler.plan import digest

    stored = read_plan(against)
    parts = ("sha256", "status", "guarantee", "releases")  # a stored hash alone would not notice an edited file
    if digest([stored.get(part) for part in parts]) == digest([body[part] for part in parts]):
        return False
    note(f"DP420: the plan no longer matches {against}")
    for change in compare(stored, body):
        note(f"  {change.area:8} {change.direction:8} {change.what}: {change.old} -> {change.new}")
    if not quiet:
        note("help: review the changes, then store the new plan with `dpspec plan SPEC --out FILE`")
    return True


def read_plan(path: Path) -> dict[str, object]:
    """A stored plan. Anything else is unusable input."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        note(f"error: {path} is not a plan: {error}")
        stop(UNUSABLE)
    if not isinstance(body, dict) or body.get("format_version") != 1 or "guarantee" not in body or "releases" not in body:
        note(f"error: {path} is not a plan of this version (format_version 1)")
        note("help: write one with `dpspec plan SPEC --out FILE`")
        stop(UNUSABLE)
    return body
