"""The static audit: the guarantee recomputed from the events, bounds from both sides, and a verdict on what is stated.

Nothing is executed and no data are read. An upper bound certifies, a lower bound (a real pair of neighbours) proves a violation, and
when the claim lies between them the answer is ``not-certified``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dpspec.audit.audit_channels import audit_channel_of
from dpspec.audit.audit_tools import audit_tool
from dpspec.audit.bookkeeping import bookkeeping
from dpspec.audit.bounds import Range, delta_range, epsilon_range, rho_range
from dpspec.audit.component import Component, Context
from dpspec.audit.consistency import disagreements
from dpspec.audit.deployment import Deployment, Setting
from dpspec.audit.events import components, depends_on_relation, in_arithmetic
from dpspec.audit.facts import from_facts, machine_sums
from dpspec.audit.findings import alternatives_of, breach_findings, form_findings, verdict_findings, withheld
from dpspec.audit.laws import laws_are_open, under_each_law
from dpspec.audit.mistakes import explain
from dpspec.audit.questions import threshold_needed
from dpspec.audit.readings import (
    contradictions_of,
    decide,
    delta_left_open,
    from_numbers,
    looseness,
    per_pass,
    readings_of,
    say,
    stated_json,
    unbounded_passes,
    with_records,
)
from dpspec.audit.tools import rule_findings
from dpspec.audit.verdict import AuditResult, StaticResult, Verdict
from dpspec.spec.diagnostics import Diagnostic


def released(deployment: Deployment) -> list[Component]:
    """The components of everything that the description releases, facts and repetitions included."""
    context = Context(deployment.setting.neighbouring, worst_case=deployment.setting.model == "tool")
    events = deployment.events
    if deployment.facts.get("arithmetic") in ("float64", "float32"):
        events = in_arithmetic(events, str(deployment.facts["arithmetic"]))
    parts = [c for e in events for c in components(e, context)]
    parts = machine_sums(parts, deployment)
    parts += from_facts(deployment)
    repeats = deployment.setting.repeats
    if repeats is not None and math.isfinite(repeats):
        parts = [replace(c, count=c.count * math.ceil(repeats)) for c in parts]
    return parts


def audit_static(deployment: Deployment) -> AuditResult:
    """Recompute the guarantee of a description and judge its claim."""
    if laws_are_open(deployment):
        return under_each_law(deployment, audit_static)
    if deployment.setting.model == "tool" or deployment.tool:
        return audit_tool(deployment, released(deployment))
    if deployment.claim.unit and not deployment.setting.unit:
        deployment = replace(deployment, setting=replace(deployment.setting, unit=deployment.claim.unit))
    if deployment.channel is not None:
        return audit_channel_of(deployment)
    if not deployment.setting.relation and depends_on_relation(deployment.events):
        return _under_each_relation(deployment)
    return judge(deployment, released(deployment))


_ASKED = ("add_remove", "replace_one", "zero_out")


def _under_each_relation(deployment: Deployment) -> AuditResult:
    """No relation is stated and it matters: what holds under each of them holds, what is false under each is violated."""
    results = {}
    for relation in _ASKED:
        one = replace(deployment, setting=replace(deployment.setting, neighbouring=relation))
        results[relation] = judge(one, released(one))
    found = {r.verdict for r in results.values()}

    def high(result: AuditResult) -> float:
        return result.static.epsilon if result.static else math.inf

    def low(result: AuditResult) -> float:
        return result.static.epsilon_lower if result.static else 0.0

    worst = max(results.values(), key=high)
    alternatives = tuple((f"neighbours are {relation}", high(r)) for relation, r in results.items())
    if found == {"violated"}:
        worst = min(results.values(), key=low)
    verdict, findings, conditions = _joined(results, worst)
    told = deployment.setting.neighbouring
    why = (
        "the neighbouring relation is not stated"
        if not told
        else f"neighbouring is stated as {told!r}, which is none of the relations known"
    )
    findings.insert(0, say("DP631", "warning", why + ", and the guarantee depends on it", ", ".join(_ASKED) + " or local_replace"))
    static = None if worst.static is None else replace(worst.static, alternatives=(*alternatives, *worst.static.alternatives))
    if static is not None:
        static = replace(static, epsilon_lower=min(low(r) for r in results.values()), neighbours=told)
    return replace(
        worst,
        verdict=verdict,
        findings=tuple(dict.fromkeys(findings)),
        static=static,
        conditions=conditions,
        loose=worst.loose if verdict == "holds" else None,
        stated={**worst.stated, "neighbours": told or None},
    )


def _joined(results: Mapping[str, AuditResult], worst: AuditResult) -> tuple[Verdict, list[Diagnostic], tuple[str, ...]]:
    """Verdict, findings and conditions of the results under each relation; ``worst``: the one whose numbers are shown."""
    found = {r.verdict for r in results.values()}
    if len(found) == 1:
        return worst.verdict, list(worst.findings), worst.conditions
    findings = [f for f in worst.findings if f.code not in ("DP602", "DP609")]
    if found & {"inconsistent", "cannot-verify"}:
        return "inconsistent" if "inconsistent" in found else "cannot-verify", findings, ()
    findings = [f for f in findings if f.code != "DP601"]
    right = [relation for relation, r in results.items() if r.verdict in ("holds", "holds-if", "vacuous")]
    if not right:
        why = "the claim holds under no relation for sure, and is refuted under some only"
        return "not-certified", [*findings, say("DP602", "error", why)], ()
    conditions = tuple(dict.fromkeys([f"neighbours are {' or '.join(right)}", *(c for r in right for c in results[r].conditions)]))
    return "holds-if", findings + [say("DP606", "warning", f"the guarantee holds only if {c}") for c in conditions], conditions


def judge(deployment: Deployment, parts: Sequence[Component]) -> AuditResult:
    """The verdict on a description whose components are ``parts``."""
    claim, setting = deployment.claim, deployment.setting
    delta, unbounded = claim.delta or 0.0, unbounded_passes(setting)
    conditions = _conditions(parts)
    single, ranged, rho = _ranges(setting, parts, delta)
    readings = readings_of(claim, parts, ranged, rho, delta)
    twice = disagreements(deployment)
    contradictions = [*contradictions_of(claim, setting), *bookkeeping(claim, parts), *twice]
    if not parts:
        readings, ranged = from_numbers(claim, readings, ranged)
    findings: list[Diagnostic] = [*deployment.notes, *form_findings(deployment), *breach_findings(parts, delta)]
    verdict = decide(claim, with_records(deployment), readings, contradictions, bool(parts), conditions)
    verdict, told = delta_left_open(claim, verdict, parts, setting)
    findings += told
    if twice:  # which of the numbers the bounds rest on is anybody's guess
        verdict = "inconsistent"
    crossed = withheld(readings)
    if crossed or (verdict == "not-certified" and not unbounded and _nothing_but_missing(parts)):
        verdict = "cannot-verify"
    findings += [*crossed, *contradictions]
    findings += verdict_findings(verdict, deployment, readings, ranged, conditions, unbounded, single)
    findings += explain(deployment, parts, ranged)
    findings += threshold_needed(deployment, released)
    findings += [
        replace(f, severity="warning") for f in rule_findings(claim, parts) if f.message not in {c.message for c in contradictions}
    ]
    loose = looseness(verdict, readings)
    if loose is not None:
        findings.append(say("DP607", "info", f"the stated value is {loose:.3g} times the certified one"))
    alternatives = alternatives_of(deployment, parts, single, delta, unbounded)
    frozen = tuple(parts)
    return AuditResult(
        deployment.subject,
        verdict,
        stated_json(claim, setting),
        tuple(dict.fromkeys(findings)),
        _numbers(deployment, verdict, parts, ranged, rho, alternatives),
        conditions=conditions if verdict == "holds-if" else (),
        loose=loose,
        profile=(lambda d: epsilon_range(frozen, d)) if parts else None,
    )


def _conditions(parts: Sequence[Component]) -> tuple[str, ...]:
    """What the upper bounds rest on and the description leaves open."""
    return tuple(dict.fromkeys(c.assumes for c in parts if c.assumes))


def _ranges(setting: Setting, parts: Sequence[Component], delta: float) -> tuple[Range, Range, Range]:
    """epsilon of one pass of the events, and epsilon and rho of all passes that one unit meets."""
    if not parts:
        nothing = Range(0.0, math.inf, "no event is described")
        return nothing, nothing, Range(0.0, math.inf, "")
    single, rho = epsilon_range(parts, delta), rho_range(parts)
    if not unbounded_passes(setting):
        return single, single, rho
    how = f"{single.how}; per {per_pass(setting)}, and how many of them one {setting.unit} meets is not bounded"
    return single, Range(single.low, math.inf, how), Range(rho.low, math.inf, rho.how)


def _nothing_but_missing(parts: Sequence[Component]) -> bool:
    """Whether all that stands between the claim and a bound is what the description leaves out, or words that are not known."""
    unknown = [c.how for c in parts if c.unknown]
    return bool(unknown) and all(how in ("DP605", "DP673") for how in unknown)


def _numbers(
    deployment: Deployment,
    verdict: Verdict,
    parts: Sequence[Component],
    ranged: Range,
    rho: Range,
    alternatives: tuple[tuple[str, float], ...],
) -> StaticResult | None:
    claim = deployment.claim
    if not parts and not math.isfinite(ranged.high):
        return None
    at_claim = None
    if claim.epsilon is not None and claim.epsilon >= 0 and verdict == "violated" and parts:
        enclosed = delta_range(parts, claim.epsilon)
        at_claim = None if enclosed is None else enclosed[0]
    return StaticResult(
        ranged.high,
        ranged.low,
        claim.delta or 0.0,
        deployment.setting.neighbouring,
        ranged.how,
        rho.high if math.isfinite(rho.high) else None,
        rho.low,
        at_claim,
        alternatives,
    )
