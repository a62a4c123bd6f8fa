"""``dpspec plan``: the plan, its lock file, and the comparison with a reviewed one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from dpspec.cli.common import (
    FINDINGS,
    MALFORMED,
    Format,
    FormatOption,
    LedgerOption,
    NoColorOption,
    QuietOption,
    VerboseOption,
    emit_json,
    guarded,
    malformed,
    note,
    read_json,
    refuse,
    say,
    show_diagnostics,
    shown,
    stop,
    use_color,
)
from dpspec.cli.obeyed import Policies, PolicyOption, broken
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
    fit: Annotated[
        str | None, typer.Option("--fit", help="an account: the plan at the largest budget that fits into it", show_default=False)
    ] = None,
    delta: Annotated[
        str | None, typer.Option("--delta", help="also the epsilon at this delta, of a plan in rho or mu too", show_default=False)
    ] = None,
    ledger: LedgerOption = None,
    policy: PolicyOption = None,
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

      dpspec plan analysis.dps --fit survey --ledger team.db

      dpspec plan analysis.dps --delta 1e-6 --format json
    """
    from dpspec.compiler.plan import make_plan, write
    from dpspec.lang.source import parse_file

    parsed = parse_file(spec)
    fitted = None if fit is None else _fitted(parsed, fit, ledger)
    plan = make_plan(parsed) if fitted is None else fitted.plan
    ruled = broken(Policies(policy), spec, plan)
    body = plan.to_json()
    found = [*plan.diagnostics, *ruled]
    if ruled and format is Format.json:
        body = {**body, "policy": [d.to_json() for d in ruled]}
    if out is not None:
        write(plan, out)
    stored = None if against is None else _compared(against, plan.to_json(), quiet=quiet)
    theory = _theory(parsed, trade_off, vary or [], constant_from)
    at = None if delta is None else _at(body, delta)
    if format is Format.json:
        body = {**body, "budget": _written(plan), **({} if at is None else {"at": at})}
        fits = {} if fitted is None else {"fit": {"account": fit, fitted.word: fitted.value}}
        emit_json({**body, **fits, **theory, **({} if stored is None else {"against": stored})})
    elif not quiet:
        from dpspec.report.terminal import plan_text, theory_text

        if fitted is not None:
            say(f"the largest budget that fits into {fit}: {fitted.word} = {fitted.value}; the plan at that budget:\n")
        say(plan_text(body, color=use_color(no_color), verbose=verbose))
        if at is not None:
            say(f"\nat delta {at['delta']:g}: epsilon {at['epsilon']:.6g}")
        if theory:
            say("\n" + theory_text(theory, color=use_color(no_color)))
        shown = tuple(d for d in found if d.severity != "info" or verbose)
        if shown:
            error = SpecError(shown, path=plan.draft.parsed.path, text=plan.draft.parsed.text)
            show_diagnostics(error, color=use_color(no_color))
    if (stored is not None and not stored["matches"]) or any(d.severity == "error" for d in found):
        stop(FINDINGS)


def _written(plan: Any) -> dict[str, dict[str, Any]]:
    """The budget as the spec states it: ``number``, the nearest double, and ``exact``, the fraction. (The doubles of ``guarantee`` are
    rounded up, so that they are never less than what holds.)"""
    from dpspec.privacy.gaussian import exact

    asked = {word: getattr(plan.draft.budget, word) for word in _NUMBERS}
    return {word: {"number": float(exact(v)), "exact": str(exact(v))} for word, v in asked.items() if v is not None}


def _at(body: dict[str, Any], delta: str) -> dict[str, float]:
    """The epsilon that the schedule has at a delta, by its tighter accountant. Raises SpecError where the delta is none."""
    from dpspec.ledger.totals import counted, total
    from dpspec.privacy.gaussian import exact

    try:
        wanted = exact(delta)
    except (ValueError, ZeroDivisionError):
        wanted = exact(2)
    if not 0 <= wanted < 1:
        refuse(f"delta = {delta} is outside [0, 1)", "as --delta 1e-6")
    found = total(counted([body["schedule"]]), wanted, check=False)
    if not math.isfinite(found.epsilon):
        refuse(f"no finite epsilon holds at delta = {delta}", "state a delta above that of the draws that may fail, as --delta 1e-6")
    return {"delta": float(wanted), "epsilon": found.epsilon}


def _fitted(parsed: Any, account: str, ledger: str | None) -> Any:
    """The plan at the largest budget that fits into an account."""
    from dpspec.executor.booking import largest
    from dpspec.ledger.book import Ledger, stated

    if ledger is None:
        refuse("--fit needs the ledger of the account", "state --ledger FILE_OR_URL, or set DPSPEC_LEDGER", "DP705")
    book = Ledger(ledger)
    room = book.room(account)
    found = largest(parsed, room)
    if found is None:
        limit = " and ".join(stated(p.stated) for p in room[0][0].limit.points)
        refuse(f"no budget of this analysis fits into {account} ({limit})", "`dpspec ledger status` says what is left", "DP701")
    return found


def _theory(parsed: Any, trade_off: bool, vary: list[str], constant_from: Path | None) -> dict[str, Any]:
    """What the bounds promise and a fitted constant predicts, when asked for."""
    if not trade_off and constant_from is None:
        if vary:
            refuse("--vary belongs to --trade-off", "add --trade-off, or drop --vary")
        return {}
    from dpspec.cli.study import parse_vary
    from dpspec.executor import planning

    found: dict[str, Any] = {}
    constants: dict[tuple[str, str], float] = {}
    if constant_from is not None:
        study = _read_study(constant_from)
        try:
            constants = {k: float(c["value"]) for k, c in planning.fitted(study).items()}
        except MALFORMED as error:
            malformed(constant_from, "study", error, "write one with `dpspec study SPEC --out DIR`")
        try:
            found["predictions"] = planning.predictions(parsed, study, str(constant_from))
        except MALFORMED as error:
            malformed(constant_from, "study", error, "write one with `dpspec study SPEC --out DIR`")
    if trade_off:
        found["trade_off"] = planning.trade_off(parsed, parse_vary(vary), constants)
    return found


def _read_study(path: Path) -> dict[str, Any]:
    body = read_json(path, "a study", "write one with `dpspec study SPEC --out DIR`")
    if not isinstance(body, dict) or body.get("mode") != "study":
        refuse(f"{path} is not a study", "write one with `dpspec study SPEC --out DIR`")
    return body


def _compared(against: Path, body: dict[str, object], *, quiet: bool) -> dict[str, Any]:
    """Whether the plan is the stored one, and what differs."""
    from dpspec.compiler.diff import compare, matches, verdict

    stored = read_plan(against)
    if matches(stored, body):  # all that the plan says: a stored hash alone would not notice an edited file
        return {"path": str(against), "matches": True, "changes": [], "privacy": "same"}
    note(f"DP420: the plan no longer matches {against}")
    try:
        changes = compare(stored, body)
    except MALFORMED as error:
        malformed(against, "plan", error, STORE)
    for change in changes:
        note(f"  {change.area:8} {change.direction:12} {change.what}: {shown(change.old)} -> {shown(change.new)}")
    note(f"  privacy: {verdict(changes)}")
    if not quiet:
        note("help: review the changes, then store the new plan with `dpspec plan SPEC --out FILE`")
    return {"path": str(against), "matches": False, "changes": [c.to_json() for c in changes], "privacy": verdict(changes)}


def read_plan(path: Path) -> dict[str, object]:
    """A stored plan. Anything else is unusable input."""
    body = read_json(path, "a plan", STORE)
    if not isinstance(body, dict) or body.get("format_version") != 1 or "guarantee" not in body or "releases" not in body:
        refuse(f"{path} is not a plan of this version (format_version 1)", STORE)
    wrong = misshapen(body)
    if wrong:
        refuse(f"{path} is not a whole plan: {wrong}", STORE)
    return body


STORE = "write one with `dpspec plan SPEC --out FILE`"
_NUMBERS = ("epsilon", "delta", "rho", "mu")


def misshapen(body: dict[str, Any]) -> str:
    """What a stored plan lacks of what a comparison reads; empty when nothing."""
    guarantee, releases = body["guarantee"], body["releases"]
    if not isinstance(guarantee, dict):
        return "`guarantee` is no mapping"
    for name in _NUMBERS:
        value = guarantee.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e308):
            return f"guarantee.{name} is no number of at least 0"
    if not isinstance(releases, list):
        return "`releases` is no list"
    for i, release in enumerate(releases):
        if not isinstance(release, dict) or not isinstance(release.get("name"), str):
            return f"releases[{i}] has no name"
        for field, kind in (("task", str), ("algorithm", str), ("tunables", dict), ("noise", list), ("bounds", list)):
            if not isinstance(release.get(field), kind):
                return f"`{field}` of release {release['name']!r} is no {kind.__name__}"
        if not all(isinstance(v, dict) for v in release["tunables"].values()):
            return f"a tunable of release {release['name']!r} is no mapping"
        for field in ("noise", "bounds"):
            if not all(isinstance(row, dict) for row in release[field]):
                return f"`{field}` of release {release['name']!r} holds something else than mappings"
    if len({r["name"] for r in releases}) != len(releases):
        return "two releases have one name"
    return ""
