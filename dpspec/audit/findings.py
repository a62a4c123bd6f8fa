"""What a report says beside its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpspec.audit.bounds import Range, epsilon_at_most
from dpspec.audit.component import Component, Context, Missing
from dpspec.audit.conversions import zcdp_epsilon
from dpspec.audit.deployment import Claim, Deployment, Setting
from dpspec.audit.event import nodes
from dpspec.audit.events import components
from dpspec.audit.events._thresholds import key_tail
from dpspec.audit.readings import Reading, per_pass, say, with_records
from dpspec.audit.verdict import TOLERANCE, Verdict
from dpspec.audit.words import NEIGHBOURS
from dpspec.spec.diagnostics import Diagnostic

REPORT = "no verdict rests on these bounds; please report the description"
_LARGE_DELTA = 1e-3  # no data set worth protecting is smaller than its inverse


def code_of(how: str, default: str) -> str:
    return how if how.startswith("DP6") and len(how) == 5 else default


def form_findings(deployment: Deployment) -> list[Diagnostic]:
    setting = deployment.setting
    found = []
    if setting.unit.lower() in ("", "-", "not given", "unknown", "unclear"):
        found.append(
            say(
                "DP631",
                "warning",
                "the unit of protection is not stated",
                "say what one neighbouring step adds, removes or replaces: a record, a user, a user-day",
            )
        )
    if setting.neighbouring not in NEIGHBOURS:
        if not setting.neighbouring:
            found.append(
                say("DP631", "warning", "the neighbouring relation is not stated", "add_remove, replace_one, zero_out or local_replace")
            )
        else:
            relation = setting.neighbouring
            found.append(say("DP631", "info", f"neighbouring is stated as {relation!r}; sensitivities are taken as they are given"))
    told = {str(e.fields.get("arithmetic")) for e in nodes(deployment.events)} | {str(deployment.facts.get("arithmetic"))}
    floats = sorted(told & {"float64", "double", "float32", "single"})
    if floats:
        which = " and ".join(floats)
        found.append(say("DP646", "warning", f"the sampler works in {which}; the ideal mechanism's guarantee is not that of the program"))
    return found


def breach_findings(parts: Sequence[Component], delta: float) -> list[Diagnostic]:
    """What is impossible under a neighbour with more than ``delta``, and what has no bound."""
    breaches = [c.breach for c in parts if c.breach is not None and (c.breach.delta > delta or c.breach.delta == 0)]
    found = [say(b.code, "error", b.why) for b in breaches]
    return found + [say(code_of(c.how, "DP602"), "error", c.unknown) for c in parts if c.unknown and c.breach is None]


def withheld(readings: Sequence[Reading]) -> list[Diagnostic]:
    """An internal error where a lower bound lies above an upper one: one of the two is wrong, and no verdict rests on them."""
    crossed = [(r.found.low, r.found.high) for r in readings if r.found.crossed]
    return [
        say("DP647", "error", f"internal error: {low:.6g} is proved from below and {high:.6g} from above", REPORT)
        for low, high in ([max(crossed)] if crossed else [])
    ]


def verdict_findings(
    verdict: Verdict,
    deployment: Deployment,
    readings: Sequence[Reading],
    ranged: Range,
    conditions: Sequence[str],
    unbounded: bool,
    single: Range,
) -> list[Diagnostic]:
    """Why the verdict is what it is."""
    claim, setting = deployment.claim, with_records(deployment)
    found: list[Diagnostic] = []
    if claim.epsilon is not None and claim.epsilon < 0:
        help = f"the described parts need {ranged.high:.5g}" if math.isfinite(ranged.high) else ""
        found.append(say("DP632", "error", f"epsilon {claim.epsilon:g} is no guarantee", help))
    match verdict:
        case "violated":
            found += _violated(readings)
        case "not-certified":
            found += _open(readings)
        case "holds-if":
            found += _conditional(claim, conditions)
        case "cannot-verify":
            found.append(_missing(deployment, readings))
        case "vacuous":
            size = f" = {1 / setting.n:.3g}" if setting.n else ""
            found.append(say("DP604", "error", f"delta {claim.delta:g} is not below 1/n" + size))
        case "holds":
            found += _holds(claim, setting)
    found += _passes(deployment, unbounded, single)
    return found + _deltas(verdict, deployment, ranged)


def _violated(readings: Sequence[Reading]) -> list[Diagnostic]:
    found = []
    for r in readings:
        if r.state == "violated":
            value = "no finite value" if math.isinf(r.found.low) else f"at least {r.found.low:.6g}"
            found.append(say("DP601", "error", f"{r.name}: {r.stated:g} is stated, {value} is true ({r.found.how})"))
    return found


def _open(readings: Sequence[Reading]) -> list[Diagnostic]:
    found = []
    for r in readings:
        if r.state == "open":
            value = "no bound is proved" if math.isinf(r.found.high) else f"{r.found.high:.6g} is certified"
            found.append(say("DP602", "error", f"{r.name}: {r.stated:g} is stated, {value}"))
    return found


def _below_conversion(claim: Claim) -> float | None:
    """What the generic conversion of the stated rho gives, where the stated epsilon lies below it."""
    if claim.rho is None or not claim.delta or claim.epsilon is None:
        return None
    generic = zcdp_epsilon(claim.rho, claim.delta)
    return generic if claim.epsilon < generic * (1 - TOLERANCE) else None


def _conditional(claim: Claim, conditions: Sequence[str]) -> list[Diagnostic]:
    found = [say("DP606", "warning", f"the guarantee holds only if {c}") for c in conditions]
    if conditions:
        return found
    generic = _below_conversion(claim)
    if generic is not None:
        found.append(say("DP619", "warning", f"generic conversion gives {generic:.5g}; {claim.epsilon:g} needs Gaussian noise"))
    return [*found, say("DP606", "warning", "the stated rho or mu itself is not derived from any event")]


def _missing(deployment: Deployment, readings: Sequence[Reading]) -> Diagnostic:
    missing = "events with their sensitivities and noise scales, or a channel" if not deployment.events else "a claim"
    if deployment.claim.delta_open and deployment.claim.epsilon is not None:
        missing = "a delta"
    elif deployment.events and readings:
        missing = "what the mechanism models named above need"
    return say("DP605", "warning", f"missing: {missing}")


def _holds(claim: Claim, setting: Setting) -> list[Diagnostic]:
    found, delta = [], claim.delta or 0.0
    generic = _below_conversion(claim)
    if generic is not None:
        found.append(say("DP619", "info", f"generic conversion gives {generic:.5g}; the claim rests on the Gaussian form"))
    if setting.n is not None and delta * setting.n >= 0.1:
        found.append(say("DP604", "warning", f"delta {delta:g} is more than a tenth of 1/n"))
    if setting.n is None and delta >= _LARGE_DELTA:
        found.append(say("DP604", "warning", f"delta {delta:g} promises nothing to {1 / delta:.0f} units and more; n is not stated"))
    return found


def _passes(deployment: Deployment, unbounded: bool, single: Range) -> list[Diagnostic]:
    setting = deployment.setting
    if not deployment.events:
        return []
    if unbounded:
        why = f"the events protect one {per_pass(setting)} ({single.high:.6g}); how many a {setting.unit} meets is not bounded"
        return [say("DP630", "error", why)]
    if setting.repeats is not None and setting.repeats > 1:
        return [say("DP630", "warning", f"one {setting.unit or 'unit'} meets {setting.repeats:g} times a {per_pass(setting)}")]
    return []


def integer_tails(deployment: Deployment) -> list[tuple[str, float, str]]:
    """Thresholds that are whole numbers beside noise that is described as continuous: the event, the chance that a key of one unit appears
    if counts and noise are whole numbers, and the type that says so; where this chance is more than the stated delta allows."""
    slack, found = deployment.claim.delta or 0.0, []
    for event in nodes(deployment.events):
        if (
            event.kind in ("laplace_threshold", "gaussian_threshold")
            and event.fields.get("noise_on") is None
            and (event.number("threshold") or 0.5) % 1 == 0
        ):
            context = Context(deployment.setting.neighbouring)
            try:
                tail = key_tail(event, context, event.number("first_count") or 1.0, discrete=True)
            except Missing:
                continue
            if tail > slack:
                found.append((event.what, tail, f"discrete_{event.kind}"))
    return found


def _deltas(verdict: Verdict, deployment: Deployment, ranged: Range) -> list[Diagnostic]:
    slack, found = deployment.claim.delta or 0.0, []
    if verdict in ("holds", "holds-if"):
        for what, tail, kind in integer_tails(deployment):
            message = f"{what}: with noise on integers a key appears with {tail:.4g}"
            found.append(say("DP644", "warning", message, f"describe it as {kind} if so, or say noise_on: reals"))
    if verdict in ("violated", "not-certified") and math.isinf(ranged.high) and deployment.events:
        context = Context(deployment.setting.neighbouring)
        needed = math.fsum(c.slack * c.count for e in deployment.events for c in components(e, context))
        if needed > slack * (1 + 1e-9):
            found.append(say("DP645", "warning", f"the parts need delta {needed:.6g} together; {slack:g} is stated"))
    return found


def alternatives_of(
    deployment: Deployment, parts: Sequence[Component], single: Range, delta: float, unbounded: bool
) -> tuple[tuple[str, float], ...]:
    found: list[tuple[str, float]] = []
    setting = deployment.setting
    if unbounded and parts:
        found.append((f"the unit is {setting.events_unit or 'one pass of the events'}", single.high))
        for passes in (2, 30, 365):
            many = [replace(c, count=c.count * passes) for c in parts]
            found.append((f"a {setting.unit or 'unit'} meets {passes} of them", epsilon_at_most(many, delta)))
    if any(c.assumes and c.how == "DP629" for c in parts):  # how often a unit contributes is open
        many = [replace(c, count=c.count * 2) if c.assumes else c for c in parts]
        found.append(("a unit lies in 2 parts", epsilon_at_most(many, delta)))
    for event in deployment.events:
        rate = event.number("rate")
        if event.kind == "subset" and rate is not None:
            context = Context(setting.neighbouring)
            others = [c for e in deployment.events if e is not event for c in components(e, context)]
            inner = [c for e in event.inner for c in components(e, context)]
            whole, slack = math.fsum(c.pure * c.count for c in inner), math.fsum(c.slack * c.count for c in inner)
            if math.isfinite(whole) and not others:
                value = math.log1p(rate * math.expm1(whole)) if whole < 700 else whole + math.log(rate)
                found.append(
                    (f"each unit is included independently and secretly with probability {rate:g} (then delta {rate * slack:.4g})", value)
                )
    return tuple(found)
