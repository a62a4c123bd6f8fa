"""Thresholded counts whose noise may be on the reals or on the integers, with nothing in the description that decides it.

Where the threshold, the count of a key and the sensitivity are whole numbers, both laws fit; they reach the threshold with different
probabilities, and integers reach it with the value itself. What is certified holds under both, what is refuted is false under both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from dpspec.audit.bounds import Range
from dpspec.audit.deployment import Deployment
from dpspec.audit.event import Event, nodes
from dpspec.audit.readings import say
from dpspec.audit.verdict import AuditResult, Verdict
from dpspec.spec.diagnostics import Diagnostic

LAWS = ("reals", "integers")
_WHOLE = ("threshold", "first_count")  # both stated and whole
_SIZES = ("l1_sensitivity", "l2_sensitivity", "sensitivity", "clip_norm", "norm_bound")


def law_is_open(event: Event) -> bool:
    """Whether noise on reals and on integers both fit what the event says."""
    if event.kind not in ("laplace_threshold", "gaussian_threshold") or event.fields.get("noise_on") is not None:
        return False
    stated = [event.number(word) for word in _WHOLE]
    sizes = [size for size in (event.number(word) for word in _SIZES) if size is not None]
    # an l2 norm of a whole vector is the root of a whole number
    roots = [size if "gaussian" not in event.kind else round(size * size, 9) for size in sizes]
    return all(x is not None and x == int(x) for x in (*stated, *roots))


def laws_are_open(deployment: Deployment) -> bool:
    return any(law_is_open(event) for event in nodes(deployment.events))


def with_law(events: Sequence[Event], law: str) -> tuple[Event, ...]:
    """The same events, where those whose law is open have this one."""

    def one(event: Event) -> Event:
        inner = with_law(event.inner, law)
        return replace(event, inner=inner, fields={**event.fields, "noise_on": law} if law_is_open(event) else event.fields)

    return tuple(one(event) for event in events)


def under_each_law(deployment: Deployment, judge: Callable[[Deployment], AuditResult]) -> AuditResult:
    """The verdict on which both laws agree, else the weaker statement, with the word that settles it."""
    results = {law: judge(replace(deployment, events=with_law(deployment.events, law))) for law in LAWS}
    verdicts = {r.verdict for r in results.values()}
    worst = max(results.values(), key=_high)
    shown = min(results.values(), key=_low) if verdicts == {"violated"} else worst
    verdict = _joined(verdicts, worst.verdict)
    findings = [f for f in shown.findings if verdict == shown.verdict or f.code not in ("DP601", "DP602", "DP606", "DP607")]
    findings = [f for f in findings if f.code not in ("DP644", "DP645")]
    for law, result in results.items():
        findings += [replace(f, message=f"noise on {law}: {f.message}") for f in result.findings if f.code in ("DP644", "DP645")]
    if len(verdicts) > 1:
        findings.append(_why({law: r.verdict for law, r in results.items()}))
    static = worst.static
    if static is not None:
        alternatives = tuple((f"the noise is on {law}", _high(r)) for law, r in results.items())
        low = min(_low(r) for r in results.values())
        static = replace(static, epsilon_lower=low, alternatives=(*alternatives, *static.alternatives))
        static = static if verdict == "violated" else replace(static, delta_at_claim=None)
    profiles = [r.profile for r in results.values() if r.profile is not None]

    def profile(delta: float) -> Range:
        ranges = [of(delta) for of in profiles]
        top = max(ranges, key=lambda r: r.high)
        return Range(min(r.low for r in ranges), top.high, top.how)

    return replace(
        shown,
        verdict=verdict,
        findings=tuple(dict.fromkeys(findings)),
        static=static,
        conditions=worst.conditions if verdict == "holds-if" else (),
        loose=worst.loose if verdict == "holds" else None,
        tool_fault=all(r.tool_fault for r in results.values()),
        profile=profile if profiles else None,
    )


def _joined(verdicts: set[Verdict], worst: Verdict) -> Verdict:
    if len(verdicts) == 1:
        return worst
    for word in ("inconsistent", "cannot-verify"):
        if word in verdicts:
            return word
    certified: set[Verdict] = {"holds", "holds-if", "vacuous"}
    if verdicts <= certified:
        return "vacuous" if "vacuous" in verdicts else "holds-if"
    return "not-certified"


def _why(each: dict[str, Verdict]) -> Diagnostic:
    told = "; ".join(f"{each[law]} with noise on {law}" for law in LAWS)
    message = f"noise on reals and on integers both fit the description, and it matters: {told}"
    return say("DP602", "error", message, "say noise_on: integers, or noise_on: reals")


def _high(result: AuditResult) -> float:
    return result.static.epsilon if result.static is not None else math.inf


def _low(result: AuditResult) -> float:
    return result.static.epsilon_lower if result.static is not None else 0.0
