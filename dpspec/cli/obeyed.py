"""Policies in commands: which one holds for a spec, and what its plan breaks of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from dpspec.cli.common import spec_files
from dpspec.spec.diagnostics import Diagnostic, SpecError

PolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--policy", envvar="DPSPEC_POLICY", help="the rules; without, policy.yaml beside the spec or above it", show_default=False
    ),
]


class Policies:
    """The policies of some specs: each is read once."""

    def __init__(self, named: Path | None) -> None:
        self.named, self.known = named, dict[Path, Any]()

    def of(self, spec: Path) -> Any:
        """The policy of a spec, or None. Raises SpecError where it cannot be read."""
        from dpspec.policy.read import find, read

        path = self.named or find(spec)
        if path is None:
            return None
        path = path if self.named else _short(path)
        if path not in self.known:
            self.known[path] = read(path)
        return self.known[path]


def _short(path: Path) -> Path:
    """Relative to the working folder where it is below it."""
    here = Path.cwd().resolve()
    return path.relative_to(here) if path.is_relative_to(here) else path


def planned(path: Path, plan: Any) -> Any:
    """A plan as rules read it."""
    from dpspec.policy.rules import Planned

    return Planned(path, plan.to_json(), plan.draft.parsed.spans)


def broken(policies: Policies, path: Path, plan: Any) -> tuple[Diagnostic, ...]:
    """Everything that a plan breaks of its policy: rules, totals with the other specs under the policy, expired waivers of this spec."""
    from dpspec.policy.rules import expired, findings, today, totals

    policy = policies.of(path)
    if policy is None:
        return ()
    mine = planned(path, plan)
    found = findings(policy, mine, today())
    found += [_elsewhere(policy, d, mine) for d in expired(policy, today(), policy.name_of(path))]
    if policy.totals:
        others = [p for p in (_other(f) for f in spec_files([policy.path.parent]) if f.resolve() != path.resolve()) if p is not None]
        here = totals(policy, [mine, *others])
        found += [_elsewhere(policy, d, mine) for d, paths in here if path in paths]
    return tuple(found)


def _elsewhere(policy: Any, d: Diagnostic, plan: Any) -> Diagnostic:
    """A finding of the policy at the budget of the spec."""
    at = "" if d.span is None or str(policy.path) in d.message else f" ({policy.path}:{d.span.line}:{d.span.column})"
    return Diagnostic(d.code, d.severity, d.message + at, d.help, plan.spans.get("privacy"))


def _other(path: Path) -> Any:
    """Another spec with its plan; None where it has none, for then nothing of it is released."""
    from dpspec.compiler.plan import make_plan
    from dpspec.lang.source import parse_file

    try:
        return planned(path, make_plan(parse_file(path), check=False))
    except SpecError:
        return None


def of_policies(policies: Policies, plans: Iterable[Any]) -> list[tuple[str, str, tuple[Diagnostic, ...]]]:
    """What the policies themselves have to say once all specs were read: (path, text, findings) of each."""
    from dpspec.policy.rules import expired, today, totals

    rows = []
    checked = {p.path.resolve(): p for p in plans}
    for policy in policies.known.values():
        found = expired(policy, today())
        if policy.totals:
            mine = {path: p for path, p in checked.items() if policies.of(p.path) is policy}
            rest = [f for f in spec_files([policy.path.parent]) if f.resolve() not in checked]
            others = [p for p in map(_other, rest) if p is not None]
            found += [d for d, _ in totals(policy, [*mine.values(), *others])]
        if found:
            rows.append((str(policy.path), policy.text, tuple(found)))
    return rows
