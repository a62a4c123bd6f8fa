"""The plan that a file means: a spec, or a stored plan (``dpspec plan --out``), which must still be what its text plans."""

from __future__ import annotations

import json
from pathlib import Path

from dpspec.collector.store import refuse
from dpspec.compiler.plan import Plan, make_plan
from dpspec.lang.source import parse_file, parse_text
from dpspec.spec.diagnostics import Diagnostic, SpecError


def plan_of(file: Path) -> Plan:
    """Raises :class:`~dpspec.spec.diagnostics.SpecError`: the spec's findings, or DP420 where a stored plan is not what its text plans."""
    if file.suffix != ".json":
        return make_plan(parse_file(file))
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        text, sha256 = stored["spec"]["text"], stored["sha256"]
    except (ValueError, KeyError, TypeError):
        refuse(f"{file} is no stored plan", "a spec, or what `dpspec plan --out` wrote")
    plan = make_plan(parse_text(text))
    if plan.sha256 != sha256:
        message = f"{file} holds the plan {sha256}, and its text plans {plan.sha256} here"
        raise SpecError([Diagnostic("DP420", "error", message, "use the version of dpspec that made the plan, or plan again")])
    return plan
