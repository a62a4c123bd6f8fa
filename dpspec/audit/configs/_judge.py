"""The verdict on a configuration: by every reading of its open words, and the noise that a mere target needs."""

from __future__ import annotations

import math
from dataclasses import replace

from dpspec.audit.bounds import epsilon_at_most
from dpspec.audit.configs._tool import Configured
from dpspec.audit.static import audit_static, released
from dpspec.audit.verdict import AuditResult, Verdict
from dpspec.spec.diagnostics import Diagnostic

_GOOD = ("holds", "holds-if", "vacuous")


def judge(found: Configured) -> AuditResult:
    """The worst reading where all agree, the condition of the good ones where they do not."""
    if found.wanted is not None:
        return _needed(found)
    results = [(condition, replace(audit_static(deployment), subject=found.subject)) for condition, deployment in found.readings]
    if len(results) == 1 and not results[0][0]:
        return results[0][1]
    verdicts = {r.verdict for _, r in results}
    shown = max(results, key=lambda r: _high(r[1]))[1]
    alternatives = tuple((condition, _high(r)) for condition, r in results if condition)
    verdict: Verdict = shown.verdict
    conditions: tuple[str, ...] = shown.conditions
    drop: tuple[str, ...] = ()
    more: list[Diagnostic] = []
    open_word = len(results) == 1
    if verdicts == {"vacuous"} or (verdicts == {"holds"} and not open_word):
        verdict = shown.verdict
    elif verdicts & set(_GOOD):
        verdict = "holds-if"
        right = [(c, r) for c, r in results if r.verdict in _GOOD]
        shown = max((r for _, r in right), key=_high)
        ways = [c for c, _ in right if c]
        either = [" or ".join(ways)] if ways and (open_word or len(right) < len(results)) else []
        conditions = tuple(dict.fromkeys([*either, *(c for _, r in right for c in r.conditions)]))
        more = [Diagnostic("DP606", "warning", f"the guarantee holds only if {c}") for c in conditions if c in either]
    elif len(verdicts) > 1:
        verdict = "cannot-verify" if verdicts <= {"cannot-verify", "not-certified"} else "not-certified"
        drop = ("DP601",)
        more = [
            Diagnostic("DP602", "error", "the claim holds under no reading of the configuration for sure, and is refuted under some only")
        ]
    elif verdict == "violated":
        shown = min(results, key=lambda r: _low(r[1]))[1]
    static = shown.static
    if static is not None:
        static = replace(static, epsilon_lower=min(_low(r) for _, r in results), alternatives=(*alternatives, *static.alternatives))
    findings = tuple(dict.fromkeys([*(f for f in shown.findings if f.code not in drop), *more]))
    return replace(
        shown, verdict=verdict, conditions=conditions, static=static, findings=findings, loose=shown.loose if verdict == "holds" else None
    )


def _high(result: AuditResult) -> float:
    return result.static.epsilon if result.static is not None else math.inf


def _low(result: AuditResult) -> float:
    return result.static.epsilon_lower if result.static is not None else 0.0


def _needed(found: Configured) -> AuditResult:
    """What noise the target needs, by each reading: the least multiplier whose certified epsilon meets it, to four digits."""
    assert found.wanted is not None
    claim = found.claim
    base = audit_static(replace(found, events=(), wanted=None))
    findings = [f for f in base.findings if f.code not in ("DP602", "DP605", "DP677")]
    recomputed: dict[str, float] = {}
    if claim.epsilon is None or not claim.delta:
        help = "a Gaussian release has no finite epsilon at delta 0"
        findings.append(Diagnostic("DP649", "error", "no noise is stated, and a target needs a delta", help))
    else:
        for i, (condition, _) in enumerate(found.readings):
            least = least_multiplier(found, i, claim.epsilon, claim.delta)
            if least is None:
                findings.append(
                    Diagnostic("DP602", "error", "no noise is known to meet the target" + (f" if {condition}" if condition else ""))
                )
                continue
            name = "noise_multiplier" if not recomputed else f"noise_multiplier if {condition}"
            recomputed[name] = least
            told = f"no noise is stated: ({claim.epsilon:g}, {claim.delta:g}) needs a noise multiplier of at least {_upward(least):.4g}"
            findings.append(Diagnostic("DP649", "warning", told + (f" if {condition}" if condition else ""), "state what the tool chose"))
    return replace(
        base, verdict="cannot-verify", findings=tuple(dict.fromkeys(findings)), static=None, recomputed=recomputed, conditions=()
    )


def _upward(x: float) -> float:
    """Four digits, never fewer noise than is needed."""
    unit = 10.0 ** (math.floor(math.log10(x)) - 3)
    return math.ceil(x / unit) * unit


def least_multiplier(found: Configured, reading: int, epsilon: float, delta: float) -> float | None:
    assert found.wanted is not None
    make = found.wanted

    def gap(z: float) -> float:
        """ln(certified epsilon / target)"""
        return math.log(max(epsilon_at_most(released(make(z)[reading][1]), delta), 1e-300) / epsilon)

    low = high = 1.0
    at_low = at_high = gap(1.0)
    while at_high > 0:
        low, at_low, high = high, at_high, 2 * high
        if high > 1e6:
            return None
        at_high = gap(high)
    while at_low <= 0 and low > 1e-3:
        low, high, at_high = low / 2, low, at_low
        at_low = gap(low)
    if at_low <= 0:
        return low
    for turn in range(60):
        if high - low <= 1e-4 * high:
            break
        share = at_low / (at_low - at_high) if turn % 3 < 2 and math.isfinite(at_low) else 0.5
        # a little beyond the line through the ends, so that both of them move
        middle = low + (high - low) * min(max(share * 1.02, 0.02), 0.98)
        value = gap(middle)
        if value <= 0:
            high, at_high = middle, value
        else:
            low, at_low = middle, value
    return high
