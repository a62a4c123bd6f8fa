"""The static audit: the guarantee recomputed from the events, bounds from both sides, and a verdict on what is stated.

Nothing is executed and no data are read. An upper bound certifies, a lower bound (a real pair of neighbours) proves a violation, and
when the claim lies between them the answer is ``not-certified``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpspec.audit.bounds import Range, attained, delta_range, epsilon_range, gaussian_only, rho_range
from dpspec.audit.component import Breach, Component, Context
from dpspec.audit.consistency import disagreements
from dpspec.audit.conversions import zcdp_epsilon
from dpspec.audit.deployment import Claim, Deployment, Setting, numeric
from dpspec.audit.event import nodes
from dpspec.audit.events import components, depends_on_relation, in_arithmetic
from dpspec.audit.events._thresholds import key_tail
from dpspec.audit.exact import ExactResult, audit_exact
from dpspec.audit.mistakes import explain
from dpspec.audit.pairs import GaussianPair, LaplacePair, randomized_response
from dpspec.audit.tools import rule_findings, tool_findings
from dpspec.audit.verdict import LOOSE, TOLERANCE, AuditResult, StaticResult, Verdict
from dpspec.audit.words import NEIGHBOURS
from dpspec.spec.diagnostics import Diagnostic, Severity


@dataclass(frozen=True, slots=True)
class Reading:
    """One number of the claim against the bounds of what it is a claim about."""

    name: str
    stated: float
    found: Range

    @property
    def state(self) -> str:
        if self.found.low > self.stated * (1 + TOLERANCE) + 1e-12:
            return "violated"
        if self.found.high <= self.stated * (1 + TOLERANCE) + 1e-12:
            return "holds"
        return "open"


def _say(code: str, severity: Severity, message: str, help: str = "") -> Diagnostic:
    return Diagnostic(code, severity, message, help)


def stated_json(claim: Claim, setting: Setting) -> dict[str, object]:
    return {
        "epsilon": claim.epsilon,
        "delta": claim.delta,
        "rho": claim.rho,
        "mu": claim.mu,
        "variant": claim.variant or None,
        "unit": setting.unit or None,
        "neighbours": setting.neighbouring or None,
    }


# ------------------------------------------------------------------------------------------------------------ what is released


def released(deployment: Deployment) -> list[Component]:
    """The components of everything that the description releases, facts and repetitions included."""
    context = Context(deployment.setting.neighbouring, worst_case=deployment.setting.model == "tool")
    events = deployment.events
    if deployment.facts.get("arithmetic") in ("float64", "float32"):
        events = in_arithmetic(events, str(deployment.facts["arithmetic"]))
    parts = [c for e in events for c in components(e, context)]
    parts = _machine_sums(parts, deployment)
    parts += _from_facts(deployment)
    repeats = deployment.setting.repeats
    if repeats is not None and math.isfinite(repeats):
        parts = [replace(c, count=c.count * math.ceil(repeats)) for c in parts]
    return parts


def _another_unit(setting: Setting) -> bool:
    return bool(setting.events_unit) and setting.events_unit.lower() != setting.unit.lower()


def _unbounded(setting: Setting) -> bool:
    """Whether nothing bounds how many passes of the events one unit meets."""
    return math.isinf(setting.repeats) if setting.repeats is not None else _another_unit(setting)


def _per_pass(setting: Setting) -> str:
    return setting.events_unit or "pass of the events"


def _from_facts(deployment: Deployment) -> list[Component]:
    facts, found = deployment.facts, []
    if facts.get("seed") in ("fixed", "public"):
        why = "the noise is drawn from a known seed and can be subtracted"
        found.append(Component("seed", breach=Breach("DP624", 1.0, why)))
    elif facts.get("seed") == "reused":
        found.append(Component("seed", unknown="the same noise is drawn for several releases", how="DP624"))
    if facts.get("bounds") == "from-data":
        found.append(
            Component("bounds", unknown="clipping bounds are read from the protected records, outside the accounting", how="DP621")
        )
    elif facts.get("bounds") == "declared":
        found.append(Component("bounds", pure=0.0, rho=0.0, assumes="every record lies within the declared bounds", how="DP622"))
    if facts.get("thresholds") == "from-data":
        found.append(Component("thresholds", unknown="thresholds were tuned on the protected records", how="DP621"))
    if facts.get("normaliser") == "private":
        found.append(Component("normaliser", unknown="a private sum is divided by a private count outside the accounting", how="DP623"))
    if facts.get("key_set") == "private" and not any("threshold" in e.kind for e in nodes(deployment.events)):
        found.append(
            Component("keys", unknown="the set of published keys depends on the records and no threshold is described", how="DP644")
        )
    outside = facts.get("outputs_outside")
    if outside:
        names = ", ".join(map(str, outside)) if isinstance(outside, (list, tuple)) else str(outside)
        found.append(Component("outputs", unknown=f"released outside the accounting: {names}", how="DP641"))
    discarded = facts.get("discarded_runs")
    if isinstance(discarded, (list, tuple)):
        for epsilon in discarded:
            e = float(numeric(epsilon))
            pair = randomized_response(e) if 0 < e < 500 else None
            found.append(Component("discarded run", pure=e, rho=e * e / 2, over=pair, how="DP640"))
    elif discarded:
        found.append(Component("discarded runs", unknown="runs whose results influenced the choice are not described", how="DP640"))
    return found


_MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def machine_factor(summation: object) -> tuple[float, str] | None:
    """How many times the ideal sensitivity a machine sum can move by, at least, and why.

    Floats with a p-bit significand: records at the bound U add up to U 2^(p-1), where the spacing is U; further records U/2 are rounded
    away (ties to even). One more record U at the front turns every tie the other way once: the sums end 2U apart. Wrapping integers of b
    bits with bound U: the top plus one wraps to the bottom, 2^b - U apart.
    """
    if not isinstance(summation, dict):
        return None
    dtype, bound, n = str(summation.get("dtype", "")), float(summation.get("bound", 1)), float(summation.get("n", math.inf))
    if dtype.startswith(("int", "uint")):
        if summation.get("overflow", "wrap") != "wrap":
            return None
        bits = int(dtype.lstrip("uint") or 0)
        top = 2.0 ** (bits - 1) - 1 if dtype.startswith("int") else 2.0**bits - 1
        if n * bound < top:
            return None
        return (2.0**bits - bound) / bound, f"a {bits}-bit counter wraps around: neighbours differ by {2.0**bits - bound:.0f}"
    bits = _MANTISSA.get(dtype, 0)
    if bits == 0 or summation.get("exact") is True or n < 2 ** (bits - 1) + 1:
        return None
    return (
        2.0,
        f"{dtype} sums of {2 ** (bits - 1)} records at the bound round a further half bound away or up: a gap of 2 bounds",
    )


def _machine_sums(parts: list[Component], deployment: Deployment) -> list[Component]:
    found = machine_factor(deployment.facts.get("summation"))
    if found is None:
        return parts
    factor, why = found
    changed = []
    for c in parts:
        if c.mu is not None and c.mu > 0:
            changed.append(
                replace(
                    c, mu=None, over=None, pure=math.inf, rho=math.inf, rho_at_least=c.rho_at_least * factor**2, unknown=why, how="DP626"
                )
            )
        elif isinstance(c.over, LaplacePair):
            top = c.over.epsilon * factor
            under = LaplacePair(top) if top < 500 else None
            changed.append(replace(c, over=None, under=under, pure=math.inf, pure_at_least=top, rho=math.inf, unknown=why, how="DP626"))
        else:
            changed.append(c)
    return changed


# ----------------------------------------------------------------------------------------------------------------- the audit


def audit_static(deployment: Deployment) -> AuditResult:
    """Recompute the guarantee of a description and judge its claim."""
    if deployment.setting.model == "tool" or deployment.tool:
        return _audit_tool(deployment)
    if deployment.claim.unit and not deployment.setting.unit:
        deployment = replace(deployment, setting=replace(deployment.setting, unit=deployment.claim.unit))
    if deployment.channel is not None:
        return _audit_channel(deployment)
    if not deployment.setting.relation and depends_on_relation(deployment.events):
        return _under_each_relation(deployment)
    return _judge(deployment, released(deployment))


_ASKED = ("add_remove", "replace_one", "zero_out")


def _under_each_relation(deployment: Deployment) -> AuditResult:
    """No relation is stated and it matters: what holds under each of them holds, what is false under each is violated."""
    results = {}
    for relation in _ASKED:
        one = replace(deployment, setting=replace(deployment.setting, neighbouring=relation))
        results[relation] = _judge(one, released(one))
    found = {r.verdict for r in results.values()}

    def high(result: AuditResult) -> float:
        return result.static.epsilon if result.static else math.inf

    def low(result: AuditResult) -> float:
        return result.static.epsilon_lower if result.static else 0.0

    worst = max(results.values(), key=high)
    alternatives = tuple((f"neighbours are {relation}", high(r)) for relation, r in results.items())
    verdict: Verdict = worst.verdict
    conditions: tuple[str, ...] = ()
    findings = [f for f in worst.findings if f.code not in ("DP602", "DP609")]
    if len(found) == 1:
        verdict = worst.verdict
        worst = min(results.values(), key=low) if verdict == "violated" else worst
        findings, conditions = list(worst.findings), worst.conditions
    elif "inconsistent" in found or "cannot-verify" in found:
        verdict = "inconsistent" if "inconsistent" in found else "cannot-verify"
    elif found & {"holds", "holds-if", "vacuous"}:
        verdict = "holds-if"
        right = [relation for relation, r in results.items() if r.verdict in ("holds", "holds-if", "vacuous")]
        conditions = tuple(dict.fromkeys([f"neighbours are {' or '.join(right)}", *(c for r in right for c in results[r].conditions)]))
        findings = [f for f in findings if f.code != "DP601"] + [
            _say("DP606", "warning", f"the guarantee holds only if {c}") for c in conditions
        ]
    else:
        verdict = "not-certified"
        findings = [f for f in findings if f.code != "DP601"]
        findings.append(_say("DP602", "error", "the claim holds under no relation for sure, and is refuted under some only"))
    told = deployment.setting.neighbouring
    why = (
        "the neighbouring relation is not stated"
        if not told
        else f"neighbouring is stated as {told!r}, which is none of the relations known"
    )
    findings.insert(0, _say("DP631", "warning", why + ", and the guarantee depends on it", ", ".join(_ASKED) + " or local_replace"))
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


def _judge(deployment: Deployment, parts: Sequence[Component]) -> AuditResult:
    claim, setting = deployment.claim, deployment.setting
    delta = claim.delta or 0.0
    findings: list[Diagnostic] = list(deployment.notes)
    findings += _form(deployment)
    conditions = tuple(dict.fromkeys(c.assumes for c in parts if c.assumes))
    unbounded = _unbounded(setting)

    ranged = epsilon_range(parts, delta) if parts else Range(0.0, math.inf, "no event is described")
    single = ranged
    if unbounded and parts:
        ranged = Range(
            ranged.low, math.inf, f"{ranged.how}; per {_per_pass(setting)}, and how many of them one {setting.unit} meets is not bounded"
        )
    rho = rho_range(parts) if parts else Range(0.0, math.inf, "")
    if unbounded:
        rho = Range(rho.low, math.inf, rho.how)
    readings = _readings(claim, parts, ranged, rho, delta)
    twice = disagreements(deployment)
    contradictions = _contradictions(claim, setting) + twice
    if not parts:
        readings, ranged = _from_numbers(claim, readings, ranged)

    findings += [
        _say(c.breach.code, "error", c.breach.why)
        for c in parts
        if c.breach is not None and (c.breach.delta > delta or c.breach.delta == 0)
    ]
    findings += [_say(_code(c.how, "DP602"), "error", c.unknown) for c in parts if c.unknown and c.breach is None]
    verdict = _decide(claim, _with_records(deployment), readings, contradictions, bool(parts), conditions)
    verdict, told = _delta_left_open(claim, verdict, parts, setting)
    findings += told
    if twice:  # which of the numbers the bounds rest on is anybody's guess
        verdict = "inconsistent"
    if any(r.found.crossed for r in readings):
        verdict = "cannot-verify"
        low, high = max((r.found.low, r.found.high) for r in readings if r.found.crossed)
        findings.append(_say("DP647", "error", f"internal error: {low:.6g} is proved from below and {high:.6g} from above", _REPORT))
    if (
        verdict == "not-certified"
        and all(c.how in ("DP605", "DP673") for c in parts if c.unknown)
        and any(c.unknown for c in parts)
        and not unbounded
    ):
        verdict = "cannot-verify"
    alternatives = _alternatives(deployment, parts, single, delta, unbounded)
    findings += contradictions
    findings += _verdict_findings(verdict, deployment, readings, ranged, conditions, unbounded, single)
    findings += explain(deployment, parts, ranged)
    findings += [replace_severity(f, "warning") for f in rule_findings(claim, parts)]
    loose = _loose(verdict, readings)
    if loose is not None:
        findings.append(_say("DP607", "info", f"the stated value is {loose:.3g} times the certified one"))
    at_claim = None
    if claim.epsilon is not None and claim.epsilon >= 0 and verdict == "violated" and parts:
        enclosed = delta_range(parts, claim.epsilon)
        at_claim = None if enclosed is None else enclosed[0]
    static = None
    if parts or math.isfinite(ranged.high):
        static = StaticResult(
            ranged.high,
            ranged.low,
            delta,
            setting.neighbouring,
            ranged.how,
            rho.high if math.isfinite(rho.high) else None,
            rho.low,
            at_claim,
            alternatives,
        )
    frozen = tuple(parts)
    return AuditResult(
        deployment.subject,
        verdict,
        stated_json(claim, setting),
        tuple(dict.fromkeys(findings)),
        static,
        conditions=conditions if verdict == "holds-if" else (),
        loose=loose,
        profile=(lambda d: epsilon_range(frozen, d)) if parts else None,
    )


_REPORT = "no verdict rests on these bounds; please report the description"
_USUAL = (1e-3, 1e-5, 1e-6, 1e-9)


def _with_records(deployment: Deployment) -> Setting:
    """The setting, with the number of records that an event names when none is stated."""
    setting = deployment.setting
    if setting.n is not None or setting.events_unit:
        return setting
    told = [n for e in nodes(deployment.events) if e.kind in ("fixed_sampled", "laplace_mean") and (n := e.number("n")) is not None]
    return replace(setting, n=max(told)) if told else setting


def _delta_left_open(claim: Claim, verdict: Verdict, parts: Sequence[Component], setting: Setting) -> tuple[Verdict, list[Diagnostic]]:
    """A claim that is silent on delta, about something that has no epsilon without one.

    ``delta`` without a value: nothing is claimed yet. No word of delta: pure privacy is claimed, which the described noise cannot give;
    a delta was forgotten unless the number is false at every usual one.
    """
    if claim.epsilon is None or claim.delta is not None or not parts or verdict in ("holds", "holds-if"):
        return verdict, []
    if not claim.delta_open and (claim.variant or any(c.breach is not None for c in parts) or _unbounded(setting)):
        return verdict, []
    known = {delta: epsilon_range(parts, delta) for delta in _USUAL}
    if not claim.delta_open and (not math.isinf(epsilon_range(parts, 0.0).low) or all(math.isinf(r.low) for r in known.values())):
        return verdict, []
    shown = ", ".join(f"{r.high:.5g} at {d:g}" for d, r in known.items() if math.isfinite(r.high))
    help = f"epsilon is {shown}" if shown else ""
    needed = delta_range(parts, claim.epsilon) if claim.epsilon >= 0 else None
    if needed is not None and 0 < needed[1] < 1 and not _unbounded(setting):
        help += f"; epsilon {claim.epsilon:g} needs a delta of {needed[1]:.4g}"
    if setting.n is not None:
        help += f" (1/n is {1 / setting.n:.3g})"
    if claim.delta_open:
        return "cannot-verify", [_say("DP613", "error", "delta has no value: the statement is silent on it", help)]
    if verdict != "violated" or all(r.low > claim.epsilon * (1 + TOLERANCE) for r in known.values()):
        return verdict, [_say("DP613", "warning", "an epsilon is stated without a delta, and this noise has none at delta 0", help)]
    return "inconsistent", [_say("DP613", "error", "an epsilon is stated without a delta, and this noise has none at delta 0", help)]


def replace_severity(finding: Diagnostic, severity: Severity) -> Diagnostic:
    return replace(finding, severity=severity)


def _code(how: str, default: str) -> str:
    return how if how.startswith("DP6") and len(how) == 5 else default


def _readings(claim: Claim, parts: Sequence[Component], ranged: Range, rho: Range, delta: float) -> list[Reading]:
    readings: list[Reading] = []
    if claim.epsilon is not None:
        readings.append(Reading("epsilon", claim.epsilon, ranged))
        if claim.variant == "pure" and delta > 0 and parts:
            readings.append(Reading("epsilon at delta 0", claim.epsilon, epsilon_range(parts, 0.0)))
    if claim.one_report is not None:
        readings.append(Reading("epsilon of one report", claim.one_report, Range(0.0, math.inf, "no channel is described")))
    if claim.rho is not None:
        readings.append(Reading("rho", claim.rho, rho))
    if claim.mu is not None:
        mu = gaussian_only(parts) if parts else None
        found = Range(0.0, math.inf, "not Gaussian") if mu is None else Range(mu if attained(parts) else 0.0, mu, "Gaussian DP")
        readings.append(Reading("mu", claim.mu, found))
    return readings


def _from_numbers(claim: Claim, readings: list[Reading], ranged: Range) -> tuple[list[Reading], Range]:
    """Without events the stated rho or mu is taken as the mechanism and the stated epsilon judged against it."""
    if not claim.delta:
        return readings, ranged
    best, low = math.inf, 0.0
    how = ""
    if claim.rho is not None:
        best, how = zcdp_epsilon(claim.rho, claim.delta), f"from the stated rho {claim.rho:g}, optimal generic conversion"
    if claim.mu is not None and claim.mu > 0:
        from dpspec.privacy.gaussian import epsilon_of

        value = epsilon_of(claim.mu, claim.delta)
        best, how = (value, f"from the stated mu {claim.mu:g}") if value < best else (best, how)
        low = best
        if claim.rho:
            value = epsilon_of(math.sqrt(2 * claim.rho), claim.delta)
            best, low, how = value, value, f"from the stated rho {claim.rho:g} of Gaussian noise"
    if math.isinf(best):
        return readings, ranged
    return readings, Range(low, best, how)


def _form(deployment: Deployment) -> list[Diagnostic]:
    setting = deployment.setting
    found = []
    if setting.unit.lower() in ("", "-", "not given", "unknown", "unclear"):
        found.append(
            _say(
                "DP631",
                "warning",
                "the unit of protection is not stated",
                "say what one neighbouring step adds, removes or replaces: a record, a user, a user-day",
            )
        )
    if setting.neighbouring not in NEIGHBOURS:
        if not setting.neighbouring:
            found.append(
                _say("DP631", "warning", "the neighbouring relation is not stated", "add_remove, replace_one, zero_out or local_replace")
            )
        else:
            relation = setting.neighbouring
            found.append(_say("DP631", "info", f"neighbouring is stated as {relation!r}; sensitivities are taken as they are given"))
    told = {str(e.fields.get("arithmetic")) for e in nodes(deployment.events)} | {str(deployment.facts.get("arithmetic"))}
    floats = sorted(told & {"float64", "double", "float32", "single"})
    if floats:
        which = " and ".join(floats)
        found.append(_say("DP646", "warning", f"the sampler works in {which}; the ideal mechanism's guarantee is not that of the program"))
    return found


def _contradictions(claim: Claim, setting: Setting) -> list[Diagnostic]:
    found = []
    if claim.variant == "pure" and (claim.delta or 0) > 0:
        where = f" in the {setting.model} model" if setting.model == "local" else ""
        found.append(
            _say(
                "DP614",
                "error",
                f"a pure guarantee{where} is stated with delta {claim.delta:g}",
                "a delta belongs to another guarantee, for instance that of an aggregate",
            )
        )
    if claim.variant == "approx" and claim.delta is None and claim.epsilon is not None:
        found.append(_say("DP613", "error", "an approximate guarantee is stated without a delta"))
    own = {"zcdp": claim.rho, "gdp": claim.mu}
    if claim.variant in own and own[claim.variant] is None and claim.delta is None and claim.epsilon is not None:
        found.append(_say("DP613", "error", f"an epsilon of {claim.variant} is stated, with neither rho, mu nor a delta"))
    if claim.rho is not None and claim.mu is not None and claim.mu > 0:
        implied = claim.mu**2 / 2
        if abs(implied - claim.rho) > 0.01 * max(implied, claim.rho):
            found.append(
                _say(
                    "DP603",
                    "error",
                    f"mu {claim.mu:g} is rho {implied:.5g}, and rho {claim.rho:g} is mu {math.sqrt(2 * claim.rho):.5g}",
                )
            )
    if claim.mu is not None and claim.mu > 0 and claim.rho is None and claim.epsilon is not None and claim.delta:
        from dpspec.privacy.gaussian import epsilon_of

        value = epsilon_of(claim.mu, claim.delta)
        if claim.epsilon < value * (1 - 5e-3):
            found.append(
                _say("DP603", "error", f"mu {claim.mu:g} gives epsilon {value:.5g} at delta {claim.delta:g}, not {claim.epsilon:g}")
            )
    return found


def _decide(
    claim: Claim,
    setting: Setting,
    readings: Sequence[Reading],
    contradictions: Sequence[Diagnostic],
    described: bool,
    conditions: Sequence[str],
) -> Verdict:
    if claim.epsilon is not None and claim.epsilon < 0:
        return "violated"
    hard = [c for c in contradictions if c.code != "DP613"]
    states = [r.state for r in readings]
    if hard and not (states and all(s == "violated" for s in states)):
        return "inconsistent"
    if not readings:
        return "cannot-verify"
    if contradictions and not hard and "violated" not in states[1:]:
        return "cannot-verify"
    if not described:
        return _without_events(claim)
    if "violated" in states:
        return "violated"
    if "open" in states:
        return "not-certified"
    if conditions:
        return "holds-if"
    return "vacuous" if _is_vacuous(claim, setting) else "holds"


def _is_vacuous(claim: Claim, setting: Setting) -> bool:
    """delta at least 1/n; from 1/2 on it is that for any two records."""
    delta = claim.delta or 0.0
    return delta >= 0.5 or (setting.n is not None and delta * setting.n >= 1)


def _without_events(claim: Claim) -> Verdict:
    """Only numbers are stated: an epsilon can follow from a rho or mu, which itself is taken on trust."""
    if claim.epsilon is None or not claim.delta or (claim.rho is None and claim.mu is None):
        return "cannot-verify"
    from dpspec.privacy.gaussian import epsilon_of

    mu = claim.mu if claim.mu is not None else math.sqrt(2 * (claim.rho or 0.0))
    if mu == 0 or claim.epsilon >= epsilon_of(mu, claim.delta) * (1 - TOLERANCE):
        return "holds-if"
    return "not-certified"


def _loose(verdict: Verdict, readings: Sequence[Reading]) -> float | None:
    if verdict != "holds":
        return None
    ratios = [r.stated / r.found.high for r in readings if r.found.high > 0 and r.stated > 0]
    if not ratios or min(ratios) < LOOSE * (1 - TOLERANCE):
        return None
    return min(ratios)


def _alternatives(
    deployment: Deployment, parts: Sequence[Component], single: Range, delta: float, unbounded: bool
) -> tuple[tuple[str, float], ...]:
    found: list[tuple[str, float]] = []
    setting = deployment.setting
    if unbounded and parts:
        found.append((f"the unit is {setting.events_unit or 'one pass of the events'}", single.high))
        for passes in (2, 30, 365):
            many = [replace(c, count=c.count * passes) for c in parts]
            found.append((f"a {setting.unit or 'unit'} meets {passes} of them", epsilon_range(many, delta).high))
    if any(c.assumes and c.how == "DP629" for c in parts):  # how often a unit contributes is open
        many = [replace(c, count=c.count * 2) if c.assumes else c for c in parts]
        found.append(("a unit lies in 2 parts", epsilon_range(many, delta).high))
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


_LARGE_DELTA = 1e-3  # no data set worth protecting is smaller than its inverse


def _verdict_findings(
    verdict: Verdict,
    deployment: Deployment,
    readings: Sequence[Reading],
    ranged: Range,
    conditions: Sequence[str],
    unbounded: bool,
    single: Range,
) -> list[Diagnostic]:
    claim, setting = deployment.claim, _with_records(deployment)
    found: list[Diagnostic] = []
    if claim.epsilon is not None and claim.epsilon < 0:
        found.append(
            _say(
                "DP632",
                "error",
                f"epsilon {claim.epsilon:g} is no guarantee",
                f"the described parts need {ranged.high:.5g}" if math.isfinite(ranged.high) else "",
            )
        )
    if verdict == "violated":
        for r in readings:
            if r.state == "violated":
                value = "no finite value" if math.isinf(r.found.low) else f"at least {r.found.low:.6g}"
                found.append(_say("DP601", "error", f"{r.name}: {r.stated:g} is stated, {value} is true ({r.found.how})"))
    elif verdict == "not-certified":
        for r in readings:
            if r.state == "open":
                value = "no bound is proved" if math.isinf(r.found.high) else f"{r.found.high:.6g} is certified"
                found.append(_say("DP602", "error", f"{r.name}: {r.stated:g} is stated, {value}"))
    elif verdict == "holds-if":
        found += [_say("DP606", "warning", f"the guarantee holds only if {c}") for c in conditions]
        if not conditions:
            how = "the stated rho or mu itself is not derived from any event"
            if (
                claim.rho is not None
                and claim.delta
                and claim.epsilon is not None
                and claim.epsilon < zcdp_epsilon(claim.rho, claim.delta) * (1 - TOLERANCE)
            ):
                found.append(
                    _say(
                        "DP619",
                        "warning",
                        f"generic conversion gives {zcdp_epsilon(claim.rho, claim.delta):.5g}; {claim.epsilon:g} needs Gaussian noise",
                    )
                )
            found.append(_say("DP606", "warning", how))
    elif verdict == "cannot-verify":
        missing = "events with their sensitivities and noise scales, or a channel" if not deployment.events else "a claim"
        if claim.delta_open and claim.epsilon is not None:
            missing = "a delta"
        elif deployment.events and readings:
            missing = "what the mechanism models named above need"
        found.append(_say("DP605", "warning", f"missing: {missing}"))
    elif verdict == "vacuous":
        found.append(_say("DP604", "error", f"delta {claim.delta:g} is not below 1/n" + (f" = {1 / setting.n:.3g}" if setting.n else "")))
    elif verdict == "holds":
        mu = None
        if (
            claim.rho is not None
            and claim.delta
            and claim.epsilon is not None
            and claim.epsilon < zcdp_epsilon(claim.rho, claim.delta) * (1 - TOLERANCE)
        ):
            mu = claim.rho
        if mu is not None:
            found.append(
                _say(
                    "DP619",
                    "info",
                    f"generic conversion gives {zcdp_epsilon(claim.rho or 0, claim.delta or 0):.5g}; the claim rests on the Gaussian form",
                )
            )
        if setting.n is not None and (claim.delta or 0) * setting.n >= 0.1:
            found.append(_say("DP604", "warning", f"delta {claim.delta:g} is more than a tenth of 1/n"))
        if setting.n is None and (claim.delta or 0) >= _LARGE_DELTA:
            found.append(
                _say(
                    "DP604",
                    "warning",
                    f"delta {claim.delta:g} promises nothing to {1 / (claim.delta or 1):.0f} units and more; n is not stated",
                )
            )
    if unbounded and deployment.events:
        found.append(
            _say(
                "DP630",
                "error",
                f"the events protect one {_per_pass(setting)} ({single.high:.6g}); how many a {setting.unit} meets is not bounded",
            )
        )
    elif setting.repeats is not None and setting.repeats > 1 and deployment.events:
        found.append(_say("DP630", "warning", f"one {setting.unit or 'unit'} meets {setting.repeats:g} times a {_per_pass(setting)}"))
    slack = claim.delta or 0.0
    for event in nodes(deployment.events):
        if event.kind in ("laplace_threshold", "gaussian_threshold") and verdict == "holds" and (event.number("threshold") or 0.5) % 1 == 0:
            tail = key_tail(event, Context(setting.neighbouring), event.number("first_count") or 1.0, discrete=True)
            if tail > slack:
                kind = f"discrete_{event.kind}"
                found.append(
                    _say(
                        "DP644",
                        "warning",
                        f"{event.what}: with noise on integers a key appears with {tail:.4g}",
                        f"describe it as {kind} if so",
                    )
                )
    if verdict in ("violated", "not-certified") and math.isinf(ranged.high) and deployment.events:
        needed = math.fsum(c.slack * c.count for c in released(deployment))
        if needed > slack * (1 + 1e-9):
            found.append(_say("DP645", "warning", f"the parts need delta {needed:.6g} together; {slack:g} is stated"))
    return found


# ------------------------------------------------------------------------------------------------------------------ channels


def _audit_channel(deployment: Deployment) -> AuditResult:
    channel, claim, setting = deployment.channel, deployment.claim, deployment.setting
    assert channel is not None
    findings = list(deployment.notes) + _form(deployment)
    if channel.kind == "unknown":
        findings.append(_say("DP673", "warning", f"no model for the channel {channel.fields.get('type')!r}"))
        return AuditResult(deployment.subject, "cannot-verify", stated_json(claim, setting), tuple(findings))
    exact = audit_exact(channel)
    delta = claim.delta or 0.0
    unbounded, times = _unbounded(setting), setting.repeats or 1.0
    beside = _beside_channel(deployment, exact)
    one = channel_component(exact)
    parts = [*([] if unbounded else [replace(one, count=math.ceil(times))]), *beside]

    def bounds_at(d: float) -> Range:
        """One report and nothing beside it: the exact profile. Else the composition of pairs."""
        if not beside and (unbounded or times == 1):
            low, high = exact.range_at(d)
            return Range(low, math.inf if unbounded else high, exact.how)
        found = epsilon_range(parts if parts and not unbounded else [one, *beside], d)
        return Range(found.low, math.inf if unbounded else found.high, f"{exact.how}; {found.how}")

    ranged = bounds_at(delta)
    value = exact.epsilon_at(delta)
    twice = disagreements(deployment)
    contradictions = _contradictions(claim, setting)
    findings += contradictions + twice
    findings += [_say(c.breach.code, "error", c.breach.why) for c in beside if c.breach is not None]
    findings += [_say(_code(c.how, "DP602"), "error", c.unknown) for c in beside if c.unknown and c.breach is None]
    verdict: Verdict
    conditions: tuple[str, ...] = tuple(dict.fromkeys(c.assumes for c in beside if c.assumes))
    if setting.relation == "add_remove":
        conditions = (*conditions, "neighbours differ in what one unit reports, not in whether it does, which a report shows")
    readings = [Reading("epsilon", claim.epsilon, ranged)] if claim.epsilon is not None else []
    if claim.one_report is not None:
        single = exact.epsilon if exact.one_report is None else exact.one_report
        readings.append(Reading("epsilon of one report", claim.one_report, Range(single, single, exact.how)))
    if claim.rho is not None:
        rho = rho_range([replace(one, count=math.ceil(times if math.isfinite(times) else 1)), *beside])
        readings.append(Reading("rho", claim.rho, Range(rho.low, math.inf if unbounded else rho.high, rho.how)))
    if claim.mu is not None:
        mu = gaussian_only(parts) if parts and not unbounded else None
        readings.append(
            Reading(
                "mu",
                claim.mu,
                Range(0.0, math.inf, "not Gaussian") if mu is None else Range(mu if attained(parts) else 0.0, mu, "Gaussian DP"),
            )
        )
    if not readings:
        verdict = "cannot-verify"
    elif any(r.state == "violated" for r in readings):
        verdict = "violated"
    elif any(r.state == "open" for r in readings):
        verdict = "not-certified"
    elif claim.epsilon is None and exact.one_report is not None and exact.epsilon > exact.one_report * (1 + TOLERANCE):
        every = "no finite epsilon" if math.isinf(exact.epsilon) else f"epsilon {exact.epsilon:.5g}"
        verdict, conditions = "holds-if", (*conditions, f"every value is reported once: all reports together have {every}")
    elif conditions:
        verdict = "holds-if"
    else:
        verdict = "vacuous" if _is_vacuous(claim, setting) else "holds"
    if contradictions and verdict != "violated":
        verdict = "inconsistent" if any(c.code != "DP613" for c in contradictions) else "cannot-verify"
    verdict, told = _delta_left_open(claim, verdict, parts or [one], setting)
    findings += told
    if twice:
        verdict = "inconsistent"
    if any(r.found.crossed for r in readings):
        verdict = "cannot-verify"
        findings.append(_say("DP647", "error", "internal error: the bounds from below and from above contradict each other", _REPORT))
    findings += _verdict_findings(verdict, replace(deployment, events=()), readings, ranged, conditions, False, ranged)
    if verdict == "violated" and not beside:
        findings.append(
            _say(
                "DP642",
                "error",
                f"exact epsilon {value:.6g}"
                + (f" for inputs {exact.pair[0]} and {exact.pair[1]}, output {exact.output}" if exact.pair else ""),
            )
        )
    if unbounded:
        findings.append(
            _say("DP630", "error", f"{value:.6g} is for one {setting.events_unit or 'report'}; how many there are is not bounded")
        )
    elif times > 1:
        findings.append(_say("DP630", "warning", f"one {setting.unit or 'unit'} reports {times:g} times, each for {exact.epsilon:.6g}"))
    loose = _loose(verdict, readings)
    if loose is not None:
        findings.append(_say("DP607", "info", f"the stated value is {loose:.3g} times the exact one"))

    return AuditResult(
        deployment.subject,
        verdict,
        stated_json(claim, setting),
        tuple(dict.fromkeys(findings)),
        None,
        exact,
        conditions=conditions,
        loose=loose,
        profile=bounds_at,
    )


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
    found = _from_facts(deployment)
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
        (_say("DP605", "info", "missing: a claim"),),
        None,
        exact,
    )


# --------------------------------------------------------------------------------------------------------------------- tools


def _audit_tool(deployment: Deployment) -> AuditResult:
    claim, setting = deployment.claim, deployment.setting
    faults, right, checked = tool_findings(deployment)
    parts = released(deployment)
    findings: list[Diagnostic] = [*deployment.notes, *faults]
    delta = claim.delta or 0.0
    static = None
    verdict: Verdict = "cannot-verify"
    frozen = tuple(parts)
    ranged: Range | None = None
    loose = None
    if parts:
        ranged = epsilon_range(parts, delta)
        wrong = rule_findings(claim, parts)
        findings += wrong
        readings = _readings(claim, parts, ranged, rho_range(parts), delta)
        contradictions = _contradictions(claim, setting)
        twice = disagreements(deployment)
        findings += twice
        if claim.empty:
            verdict = "not-certified"
            findings.append(
                _say(
                    "DP608",
                    "error",
                    f"the tool returned no value; epsilon is {ranged.high:.6g} at delta {delta:g}",
                    "fall back to another accountant, never to a default epsilon",
                )
            )
        else:
            verdict = _decide(claim, setting, readings, contradictions, True, ())
            findings += contradictions + _verdict_findings(verdict, deployment, readings, ranged, (), False, ranged)
            if verdict in ("violated", "not-certified"):
                findings.append(_say("DP608", "error", "the tool's answer is no upper bound for the described class of mechanisms"))
            elif wrong and verdict == "holds":
                verdict = "not-certified"
            findings += explain(deployment, parts, ranged)
            loose = _loose(verdict, readings)
        if twice:
            verdict, loose = "inconsistent", None
        static = StaticResult(ranged.high, ranged.low, delta, setting.neighbouring, ranged.how)
    elif checked:
        verdict = "not-certified" if faults else "holds"
        epsilon = right.get("epsilon", right.get("epsilon_spent"))
        if epsilon is not None:
            static = StaticResult(epsilon, epsilon, right.get("delta", delta), setting.neighbouring, "the tool's rule, recomputed")
    else:
        findings.append(_say("DP605", "warning", "missing: what the tool was asked, as events or under tool"))
    if right:
        words = ", ".join(f"{k} = {v:.8g}" for k, v in right.items())
        findings.append(_say("DP608" if faults else "DP609", "info", f"recomputed: {words}"))
    fault = bool(faults) or (bool(parts) and verdict != "holds")
    return AuditResult(
        deployment.subject,
        verdict,
        stated_json(claim, setting),
        tuple(dict.fromkeys(findings)),
        static,
        loose=loose,
        tool_fault=fault,
        recomputed=right,
        profile=(lambda d: epsilon_range(frozen, d)) if parts else None,
    )
