"""The audit of an accountant, a calibrator or a ledger."""

from __future__ import annotations

from collections.abc import Sequence

from dpspec.audit.bounds import epsilon_range, rho_range
from dpspec.audit.component import Component
from dpspec.audit.consistency import disagreements
from dpspec.audit.deployment import Deployment
from dpspec.audit.findings import verdict_findings, withheld
from dpspec.audit.mistakes import explain
from dpspec.audit.readings import contradictions_of, decide, looseness, readings_of, say, stated_json
from dpspec.audit.tools import rule_findings, tool_findings
from dpspec.audit.verdict import AuditResult, StaticResult, Verdict
from dpspec.spec.diagnostics import Diagnostic


def audit_tool(deployment: Deployment, parts: Sequence[Component]) -> AuditResult:
    """Judge the answer of a tool for what it was asked (``parts``), and its account of itself."""
    claim, setting = deployment.claim, deployment.setting
    faults, right, checked = tool_findings(deployment)
    findings: list[Diagnostic] = [*deployment.notes, *faults]
    delta = claim.delta or 0.0
    static = loose = None
    verdict: Verdict = "cannot-verify"
    if parts:
        verdict, static, loose, told = _answer(deployment, parts)
        findings += told
    elif checked:
        verdict = "not-certified" if faults else "holds"
        epsilon = right.get("epsilon", right.get("epsilon_spent"))
        if epsilon is not None:
            static = StaticResult(epsilon, epsilon, right.get("delta", delta), setting.neighbouring, "the tool's rule, recomputed")
    else:
        findings.append(say("DP605", "warning", "missing: what the tool was asked, as events or under tool"))
    if right:
        words = ", ".join(f"{k} = {v:.8g}" for k, v in right.items())
        findings.append(say("DP608" if faults else "DP609", "info", f"recomputed: {words}"))
    frozen = tuple(parts)
    return AuditResult(
        deployment.subject,
        verdict,
        stated_json(claim, setting),
        tuple(dict.fromkeys(findings)),
        static,
        loose=loose,
        tool_fault=bool(faults) or (bool(parts) and verdict != "holds"),
        recomputed=right,
        profile=(lambda d: epsilon_range(frozen, d)) if parts else None,
    )


def _answer(deployment: Deployment, parts: Sequence[Component]) -> tuple[Verdict, StaticResult, float | None, list[Diagnostic]]:
    """The stated number against what was asked: verdict, numbers, how many times too large a right one is, findings."""
    claim, setting = deployment.claim, deployment.setting
    delta = claim.delta or 0.0
    ranged = epsilon_range(parts, delta)
    static = StaticResult(ranged.high, ranged.low, delta, setting.neighbouring, ranged.how)
    wrong, twice = rule_findings(claim, parts), disagreements(deployment)
    findings = [*wrong, *twice]
    if claim.empty:
        message = f"the tool returned no value; epsilon is {ranged.high:.6g} at delta {delta:g}"
        findings.append(say("DP608", "error", message, "fall back to another accountant, never to a default epsilon"))
        return "inconsistent" if twice else "not-certified", static, None, findings
    readings = readings_of(claim, parts, ranged, rho_range(parts), delta)
    contradictions = contradictions_of(claim, setting)
    verdict = decide(claim, setting, readings, contradictions, True, ())
    findings += contradictions + verdict_findings(verdict, deployment, readings, ranged, (), False, ranged)
    if verdict in ("violated", "not-certified"):
        findings.append(say("DP608", "error", "the tool's answer is no upper bound for the described class of mechanisms"))
    elif wrong and verdict == "holds":
        verdict = "not-certified"
    findings += explain(deployment, parts, ranged)
    crossed = withheld(readings)
    if crossed or twice:
        return "cannot-verify" if crossed else "inconsistent", static, None, [*findings, *crossed]
    return verdict, static, looseness(verdict, readings), findings
