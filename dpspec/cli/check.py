"""``dpspec check``: parse, resolve, certify, and see that a plan exists."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dpspec.cli.common import (
    FINDINGS,
    UNUSABLE,
    NoColorOption,
    QuietOption,
    VerboseOption,
    emit_json,
    guarded,
    none_found,
    say,
    spec_files,
    stop,
    use_color,
)
from dpspec.cli.obeyed import Policies, PolicyOption, of_policies
from dpspec.spec.diagnostics import Diagnostic, SpecError


class CheckFormat(StrEnum):
    text = "text"
    json = "json"
    sarif = "sarif"
    github = "github"
    junit = "junit"


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings of one file, with its text for underlining. ``parsed``: whether it parsed at all. ``plan``: for totals of a policy."""

    path: str
    text: str
    diagnostics: tuple[Diagnostic, ...]
    parsed: bool
    plan: Any = None

    @property
    def failed(self) -> bool:
        return any(d.severity == "error" for d in self.diagnostics)


def check_file(path: Path, policies: Policies | None = None) -> Checked:
    from dpspec.compiler.passes import compile_draft
    from dpspec.lang.source import parse_file

    try:
        parsed = parse_file(path)
    except SpecError as error:
        return Checked(str(path), error.text, error.diagnostics, False)
    draft = compile_draft(parsed, least="missed")
    policy = None if policies is None else policies.of(path)
    if policy is None:
        return Checked(str(path), parsed.text, draft.diagnostics, True)
    from dpspec.cli.obeyed import planned
    from dpspec.compiler.plan import of_draft
    from dpspec.policy.rules import findings, today

    made = of_draft(draft)
    if made is None:
        return Checked(str(path), parsed.text, draft.diagnostics, True)
    plan = planned(path, made)
    return Checked(str(path), parsed.text, (*draft.diagnostics, *findings(policy, plan, today())), True, plan)


@guarded
def command(
    paths: Annotated[list[Path], typer.Argument(help="spec files or folders", show_default=False)],
    format: Annotated[CheckFormat, typer.Option("--format", help="text, json, sarif, github (annotations) or junit")] = CheckFormat.text,
    policy: PolicyOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Check specs: language, assumptions, privacy, that a plan exists, and that it obeys the policy.

    Examples:

      dpspec check analysis.dps

      dpspec check specs/ --format sarif > findings.sarif
    """
    files = spec_files(paths)
    if not files:
        none_found(paths)
    policies = Policies(policy)
    checked = [check_file(f, policies) for f in files]
    specs = len(checked)
    checked += [Checked(*row, True) for row in of_policies(policies, [c.plan for c in checked if c.plan is not None])]
    errors = sum(d.severity == "error" for c in checked for d in c.diagnostics)
    warnings = sum(d.severity == "warning" for c in checked for d in c.diagnostics)
    if format is CheckFormat.json:
        emit_json(
            {
                "files": [{"path": c.path, "diagnostics": [d.to_json() for d in c.diagnostics]} for c in checked],
                "summary": {"errors": errors, "warnings": warnings},
            }
        )
    elif format is CheckFormat.text:
        _text(checked, specs, errors, warnings, quiet=quiet, verbose=verbose, color=use_color(no_color))
    else:
        from dpspec.report.findings import as_github, as_junit, as_sarif

        rows = [(c.path, [d for d in c.diagnostics if verbose or d.asks]) for c in checked]
        writer = {CheckFormat.sarif: as_sarif, CheckFormat.github: as_github, CheckFormat.junit: as_junit}[format]
        say(writer(rows))
    if any(not c.parsed for c in checked):
        stop(UNUSABLE)
    if errors:
        stop(FINDINGS)


def _text(checked: list[Checked], specs: int, errors: int, warnings: int, *, quiet: bool, verbose: bool, color: bool) -> None:
    from dpspec.lang.render import render

    for c in checked:
        for d in c.diagnostics:
            if d.severity == "info" and not verbose:
                continue
            say(render(d, c.text, c.path, color=color) + "\n")
        if verbose and not c.diagnostics:
            say(f"{c.path}: clean")
    if not quiet:
        files = f"{specs} spec{'s' if specs != 1 else ''}"
        say(f"{files}: {errors} error{'s' if errors != 1 else ''}, {warnings} warning{'s' if warnings != 1 else ''}")
