"""The numbers of a claim against the bounds of what they are about, and the verdict that follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpspec.audit.bounds import Range, attained, delta_range, epsilon_range, gaussian_only
from dpspec.audit.component import Component
from dpspec.audit.conversions import zcdp_epsilon
from dpspec.audit.deployment import Claim, Deployment, Setting
from dpspec.audit.event import nodes
from dpspec.audit.verdict import LOOSE, TOLERANCE, Verdict
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


def say(code: str, severity: Severity, message: str, help: str = "") -> Diagnostic:
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


def _another_unit(setting: Setting) -> bool:
    return bool(setting.events_unit) and setting.events_unit.lower() != setting.unit.lower()


def unbounded_passes(setting: Setting) -> bool:
    """Whether nothing bounds how many passes of the events one unit meets."""
    return math.isinf(setting.repeats) if setting.repeats is not None else _another_unit(setting)


def per_pass(setting: Setting) -> str:
    return setting.events_unit or "pass of the events"


def with_records(deployment: Deployment) -> Setting:
    """The setting, with the number of records that an event names when none is stated."""
    setting = deployment.setting
    if setting.n is not None or setting.events_unit:
        return setting
    told = [n for e in nodes(deployment.events) if e.kind in ("fixed_sampled", "laplace_mean") and (n := e.number("n")) is not None]
    return replace(setting, n=max(told)) if told else setting


def readings_of(claim: Claim, parts: Sequence[Component], ranged: Range, rho: Range, delta: float) -> list[Reading]:
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


def from_numbers(claim: Claim, readings: list[Reading], ranged: Range) -> tuple[list[Reading], Range]:
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


def contradictions_of(claim: Claim, setting: Setting) -> list[Diagnostic]:
    found = []
    if claim.variant == "pure" and (claim.delta or 0) > 0:
        where = f" in the {setting.model} model" if setting.model == "local" else ""
        found.append(
            say(
                "DP614",
                "error",
                f"a pure guarantee{where} is stated with delta {claim.delta:g}",
                "a delta belongs to another guarantee, for instance that of an aggregate",
            )
        )
    if claim.variant == "approx" and claim.delta is None and claim.epsilon is not None:
        found.append(say("DP613", "error", "an approximate guarantee is stated without a delta"))
    own = {"zcdp": claim.rho, "gdp": claim.mu}
    if claim.variant in own and own[claim.variant] is None and claim.delta is None and claim.epsilon is not None:
        found.append(say("DP613", "error", f"an epsilon of {claim.variant} is stated, with neither rho, mu nor a delta"))
    if claim.rho is not None and claim.mu is not None and claim.mu > 0:
        implied = claim.mu**2 / 2
        if abs(implied - claim.rho) > 0.01 * max(implied, claim.rho):
            found.append(
                say(
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
                say("DP603", "error", f"mu {claim.mu:g} gives epsilon {value:.5g} at delta {claim.delta:g}, not {claim.epsilon:g}")
            )
    return found


def decide(
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
    return "vacuous" if is_vacuous(claim, setting) else "holds"


def is_vacuous(claim: Claim, setting: Setting) -> bool:
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


def looseness(verdict: Verdict, readings: Sequence[Reading]) -> float | None:
    if verdict != "holds":
        return None
    ratios = [r.stated / r.found.high for r in readings if r.found.high > 0 and r.stated > 0]
    if not ratios or min(ratios) < LOOSE * (1 - TOLERANCE):
        return None
    return min(ratios)


_USUAL = (1e-3, 1e-5, 1e-6, 1e-9)


def delta_left_open(claim: Claim, verdict: Verdict, parts: Sequence[Component], setting: Setting) -> tuple[Verdict, list[Diagnostic]]:
    """A claim that is silent on delta, about something that has no epsilon without one.

    ``delta`` without a value: nothing is claimed yet. No word of delta: pure privacy is claimed, which the described noise cannot give;
    a delta was forgotten unless the number is false at every usual one.
    """
    if claim.epsilon is None or claim.delta is not None or not parts or verdict in ("holds", "holds-if"):
        return verdict, []
    if not claim.delta_open and (claim.variant or any(c.breach is not None for c in parts) or unbounded_passes(setting)):
        return verdict, []
    if not claim.delta_open and not math.isinf(epsilon_range(parts, 0.0).low):
        return verdict, []
    known = {delta: epsilon_range(parts, delta) for delta in _USUAL}
    if not claim.delta_open and all(math.isinf(r.low) for r in known.values()):
        return verdict, []
    shown = ", ".join(f"{r.high:.5g} at {d:g}" for d, r in known.items() if math.isfinite(r.high))
    help = f"epsilon is {shown}" if shown else ""
    needed = delta_range(parts, claim.epsilon) if claim.epsilon >= 0 else None
    if needed is not None and 0 < needed[1] < 1 and not unbounded_passes(setting):
        help += f"; epsilon {claim.epsilon:g} needs a delta of {needed[1]:.4g}"
    if setting.n is not None:
        help += f" (1/n is {1 / setting.n:.3g})"
    if claim.delta_open:
        return "cannot-verify", [say("DP613", "error", "delta has no value: the statement is silent on it", help)]
    if verdict != "violated" or all(r.low > claim.epsilon * (1 + TOLERANCE) for r in known.values()):
        return verdict, [say("DP613", "warning", "an epsilon is stated without a delta, and this noise has none at delta 0", help)]
    return "inconsistent", [say("DP613", "error", "an epsilon is stated without a delta, and this noise has none at delta 0", help)]
