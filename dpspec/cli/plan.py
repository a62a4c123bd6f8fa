"""``dpspec plan``: the plan, its lock file, and the comparison with a reviewed one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

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
    trade_off: Annotated[bool, typer.Option("--trade-off", help="the promised error over a grid of n and the budget")] = False,
    vary: Annotated[
        list[str] | None, typer.Option("--vary", help="NAME=VALUE,VALUE,...: the grid of --trade-off", show_default=False)
    ] = None,
    constant_from: Annotated[
        Path | None,
        typer.Option("--constant-from", help="study.json: predict by its fitted constant of the order bound", show_default=False),
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

      dpspec plan analysis.dps --trade-off --vary n=1e4,1e5 --vary epsilon=0.5,1,2

      dpspec plan analysis.dps --constant-from out/study.json
    """
    from dpspec.compiler.plan import make_plan, write
    from dpspec.lang.source import parse_file

    parsed = parse_file(spec)
    plan = make_plan(parsed)
    body = plan.to_json()
    if out is not None:
        write(plan, out)
    stale = _stale(against, body, quiet=quiet) if against is not None else False
    theory = _theory(parsed, trade_off, vary or [], constant_from)
    if format is Format.json:
        emit_json({**body, **theory})
    elif not quiet:
        from dpspec.report.terminal import plan_text, theory_text

        say(plan_text(body, color=use_color(no_color), verbose=verbose))
        if theory:
            say("\n" + theory_text(theory, color=use_color(no_color)))
        shown = tuple(d for d in plan.diagnostics if d.severity != "info" or verbose)
        if shown:
            error = SpecError(shown, path=plan.draft.parsed.path, text=plan.draft.parsed.text)
            show_diagnostics(error, color=use_color(no_color))
    if stale or any(d.severity == "error" for d in plan.diagnostics):
        stop(FINDINGS)


def _theory(parsed: Any, trade_off: bool, vary: list[str], constant_from: Path | None) -> dict[str, Any]:
    """What the bounds promise and a fitted constant predicts, when asked for."""
    if not trade_off and constant_from is None:
        if vary:
            note("error: --vary belongs to --trade-off")
            stop(UNUSABLE)
        return {}
    from dpspec.cli.study import parse_vary
    from dpspec.executor import planning

    found: dict[str, Any] = {}
    constants: dict[tuple[str, str], float] = {}
    if constant_from is not None:
        study = _read_study(constant_from)
        constants = {k: float(c["value"]) for k, c in planning.fitted(study).items()}
        found["predictions"] = planning.predictions(parsed, study, str(constant_from))
    if trade_off:
        found["trade_off"] = planning.trade_off(parsed, parse_vary(vary), constants)
    return found


def _read_study(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        note(f"error: {path} is not a study: {error}")
        stop(UNUSABLE)
    if not isinstance(body, dict) or body.get("mode") != "study":
        note(f"error: {path} is not a study")
        note("help: write one with `dpspec study SPEC --out DIR`")
        stop(UNUSABLE)
    return body


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
