"""The audit of a local randomizer: exact where one report stands alone, a composition of pairs beside other things."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from dpspec.audit.bounds import Range, attained, epsilon_range, gaussian_only, rho_range
from dpspec.audit.component import Breach, Component
from dpspec.audit.consistency import disagreements
from dpspec.audit.deployment import Claim, Deployment, Setting
from dpspec.audit.exact import audit_exact
from dpspec.audit.facts import from_facts
from dpspec.audit.findings import breach_findings, form_findings, verdict_findings, withheld
from dpspec.audit.matrices import ExactResult
from dpspec.audit.pairs import GaussianPair, LaplacePair
from dpspec.audit.readings import Reading, contradictions_of, delta_left_open, is_vacuous, looseness, say, stated_json, unbounded_passes
from dpspec.audit.verdict import TOLERANCE, AuditResult, Verdict
from dpspec.spec.diagnostics import Diagnostic


def audit_channel_of(deployment: Deployment) -> AuditResult:
    """Judge what is claimed about a channel, its repetitions and what the facts add."""
    channel, claim, setting = deployment.channel, deployment.claim, deployment.setting
    assert channel is not None
    findings = [*deployment.notes, *form_findings(deployment)]
    if channel.kind == "unknown":
        findings.append(say("DP673", "warning", f"no model for the channel {channel.fields.get('type')!r}"))
        return AuditResult(deployment.subject, "cannot-verify", stated_json(claim, setting), tuple(findings))
    exact = audit_exact(channel)
    unbounded = unbounded_passes(setting)
    beside = _beside_channel(deployment, exact)
    one = channel_component(exact)
    parts = [*([] if unbounded else [replace(one, count=math.ceil(setting.repeats or 1.0))]), *beside]
    bounds_at = _profile(exact, one, beside, setting)
    ranged = bounds_at(claim.delta or 0.0)
    readings = _readings(claim, setting, exact, ranged, [one, *beside], parts)
    twice = disagreements(deployment)
    contradictions = contradictions_of(claim, setting)
    findings += [*contradictions, *twice, *breach_findings(beside, -1.0)]
    verdict, conditions = _verdict(deployment, exact, readings, beside)
    if contradictions and verdict != "violated":
        verdict = "inconsistent" if any(c.code != "DP613" for c in contradictions) else "cannot-verify"
    verdict, told = delta_left_open(claim, verdict, parts or [one], setting)
    findings += told
    if twice:
        verdict = "inconsistent"
    crossed = withheld(readings)
    if crossed:
        verdict = "cannot-verify"
    findings += [*crossed, *verdict_findings(verdict, replace(deployment, events=()), readings, ranged, conditions, False, ranged)]
    findings += _exact_findings(deployment, verdict, exact, bool(beside))
    loose = looseness(verdict, readings)
    if loose is not None:
        findings.append(say("DP607", "info", f"the stated value is {loose:.3g} times the exact one"))
    found, stated = tuple(dict.fromkeys(findings)), stated_json(claim, setting)
    return AuditResult(deployment.subject, verdict, stated, found, None, exact, conditions=conditions, loose=loose, profile=bounds_at)


def _profile(exact: ExactResult, one: Component, beside: Sequence[Component], setting: Setting) -> Callable[[float], Range]:
    """Bounds at a delta: the exact profile of one report with nothing beside it, else the composition of pairs."""
    unbounded, times = unbounded_passes(setting), setting.repeats or 1.0

    def bounds_at(d: float) -> Range:
        if not beside and (unbounded or times == 1):
            low, high = exact.range_at(d)
            return Range(low, math.inf if unbounded else high, exact.how)
        found = epsilon_range([one if unbounded else replace(one, count=math.ceil(times)), *beside], d)
        return Range(found.low, math.inf if unbounded else found.high, f"{exact.how}; {found.how}")

    return bounds_at


def _readings(
    claim: Claim, setting: Setting, exact: ExactResult, ranged: Range, single: Sequence[Component], parts: Sequence[Component]
) -> list[Reading]:
    """``single``: one report and what is beside it; ``parts``: all reports."""
    unbounded, times = unbounded_passes(setting), setting.repeats or 1.0
    readings = [Reading("epsilon", claim.epsilon, ranged)] if claim.epsilon is not None else []
    if claim.one_report is not None:
        value = exact.epsilon if exact.one_report is None else exact.one_report
        readings.append(Reading("epsilon of one report", claim.one_report, Range(value, value, exact.how)))
    if claim.rho is not None:
        rho = rho_range([replace(single[0], count=math.ceil(times if math.isfinite(times) else 1)), *single[1:]])
        readings.append(Reading("rho", claim.rho, Range(rho.low, math.inf if unbounded else rho.high, rho.how)))
    if claim.mu is not None:
        mu = gaussian_only(parts) if parts and not unbounded else None
        told = Range(0.0, math.inf, "not Gaussian") if mu is None else Range(mu if attained(parts) else 0.0, mu, "Gaussian DP")
        readings.append(Reading("mu", claim.mu, told))
    return readings


def _verdict(
    deployment: Deployment, exact: ExactResult, readings: Sequence[Reading], beside: Sequence[Component]
) -> tuple[Verdict, tuple[str, ...]]:
    claim, setting = deployment.claim, deployment.setting
    conditions = tuple(dict.fromkeys(c.assumes for c in beside if c.assumes))
    if setting.relation == "add_remove":
        conditions = (*conditions, "neighbours differ in what one unit reports, not in whether it does, which a report shows")
    states = [r.state for r in readings]
    if not readings:
        return "cannot-verify", conditions
    if "violated" in states:
        return "violated", conditions
    if "open" in states:
        return "not-certified", conditions
    if claim.epsilon is None and exact.one_report is not None and exact.epsilon > exact.one_report * (1 + TOLERANCE):
        every = "no finite epsilon" if math.isinf(exact.epsilon) else f"epsilon {exact.epsilon:.5g}"
        return "holds-if", (*conditions, f"every value is reported once: all reports together have {every}")
    if conditions:
        return "holds-if", conditions
    return ("vacuous" if is_vacuous(claim, setting) else "holds"), conditions


def _exact_findings(deployment: Deployment, verdict: Verdict, exact: ExactResult, beside: bool) -> list[Diagnostic]:
    setting, found = deployment.setting, []
    value = exact.epsilon_at(deployment.claim.delta or 0.0)
    if verdict == "violated" and not beside:
        where = f" for inputs {exact.pair[0]} and {exact.pair[1]}, output {exact.output}" if exact.pair else ""
        found.append(say("DP642", "error", f"exact epsilon {value:.6g}{where}"))
    if unbounded_passes(setting):
        why = f"{value:.6g} is for one {setting.events_unit or 'report'}; how many there are is not bounded"
        found.append(say("DP630", "error", why))
    elif (setting.repeats or 1.0) > 1:
        why = f"one {setting.unit or 'unit'} reports {setting.repeats:g} times, each for {exact.epsilon:.6g}"
        found.append(say("DP630", "warning", why))
    return found


def channel_component(exact: ExactResult) -> Component:
    """One report of a channel as a part of a composition."""
    if isinstance(exact.over, GaussianPair):
        mu = exact.over.mu
        return Component(
            "report", pure_at_least=math.inf, rho=mu * mu / 2, rho_at_least=mu * mu / 2, mu=mu, over=exact.over, under=exact.under
        )
    eps, why = exact.epsilon, "an output of the channel is possible for one input only"
    return Component(
        "report",
        pure=eps,
        pure_at_least=eps,
        rho=eps * eps / 2,
        over=exact.over,
        under=exact.under,
        breach=Breach("DP642", exact.delta_needed, why) if exact.delta_needed > 0 else None,
    )


def _beside_channel(deployment: Deployment, exact: ExactResult) -> list[Component]:
    """What the facts add to a channel: releases of their own, and conditions."""
    found = from_facts(deployment)
    arithmetic = deployment.facts.get("arithmetic")
    if arithmetic in ("float64", "float32") and isinstance(exact.over, (GaussianPair, LaplacePair)):
        why = f"the noise has its ideal law and not that of {arithmetic} numbers"
        found.append(Component("arithmetic", pure=0.0, rho=0.0, assumes=why))
    if deployment.facts.get("summation") is not None:
        found.append(Component("summation", unknown="a machine's sums beside a channel: describe the sum as events", how="DP626"))
    return found


def audit_channel(exact: ExactResult, subject: str, claim: Claim | None = None) -> AuditResult:
    """An audit of a bare channel: the exact number, and a verdict when something is claimed."""
    found = Claim() if claim is None else claim
    return AuditResult(
        subject,
        "cannot-verify",
        stated_json(found, Setting(model="local", neighbouring="local_replace")),
        (say("DP605", "info", "missing: a claim"),),
        None,
        exact,
    )
