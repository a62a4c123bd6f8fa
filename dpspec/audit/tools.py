"""Accountants, calibrators and ledgers under audit: their answers against the rule they name, monotonicity, and order of booking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpspec.audit.bounds import epsilon_range, rho_range
from dpspec.audit.component import Component, Context, Missing
from dpspec.audit.deployment import Claim, Deployment, _Loader
from dpspec.audit.events import components
from dpspec.audit.events._additive import gaussian_shift
from dpspec.audit.verdict import TOLERANCE
from dpspec.spec.diagnostics import Diagnostic


def _fault(code: str, message: str, help: str = "") -> Diagnostic:
    return Diagnostic(code, "error", message, help)


def kov(epsilon: float, delta: float, count: int, slack: float) -> tuple[float, float]:
    """Composition of ``count`` (epsilon, delta) mechanisms with slack delta' (Kairouz, Oh, Viswanath 2015, Theorem 3.4)."""
    linear = count * epsilon * math.tanh(epsilon / 2)
    options = [count * epsilon]
    if slack > 0:
        options.append(linear + epsilon * math.sqrt(2 * count * math.log(math.e + math.sqrt(count * epsilon**2) / slack)))
        options.append(linear + epsilon * math.sqrt(2 * count * math.log(1 / slack)))
    total = -math.expm1(count * math.log1p(-delta) + math.log1p(-slack)) if slack < 1 else 1.0
    return min(options), total


def advanced(epsilon: float, delta: float, count: int, slack: float) -> tuple[float, float]:
    """Advanced composition (Dwork, Rothblum, Vadhan 2010)."""
    return count * epsilon * math.expm1(epsilon) + epsilon * math.sqrt(2 * count * math.log(1 / slack)), count * delta + slack


def rule_value(claim: Claim, parts: Sequence[Component]) -> tuple[float, float] | None:
    """(epsilon, delta) of the named rule for equal parts, or None when the rule is not one of these."""
    rule = claim.rule.lower().replace("-", "").replace("_", "")
    if rule == "sum":
        return math.fsum(c.pure * c.count for c in parts), math.fsum(c.slack * c.count for c in parts)
    if len(parts) != 1 or claim.slack is None or not math.isfinite(parts[0].pure):
        return None
    one = parts[0]
    if rule in ("kov", "optimalcomposition"):
        return kov(one.pure, one.slack, one.count, claim.slack)
    if rule in ("advanced", "advancedcomposition", "strong"):
        return advanced(one.pure, one.slack, one.count, claim.slack)
    return None


def rule_findings(claim: Claim, parts: Sequence[Component]) -> list[Diagnostic]:
    """Whether the stated numbers are what the named rule gives (relative tolerance 1e-6 on epsilon and on delta)."""
    value = rule_value(claim, parts)
    if value is None:
        return []
    said = (claim.epsilon, claim.delta)
    found = []
    for name, stated, right in (("epsilon", said[0], value[0]), ("delta", said[1], value[1])):
        if stated is not None and abs(stated - right) > 1e-5 * max(abs(right), 1e-300):
            direction = "understated" if stated < right else "overstated"
            found.append(_fault("DP639", f"{claim.rule}: {name} is {right:.9g} by the rule, {stated:.9g} is stated ({direction})"))
    return found


def tool_findings(deployment: Deployment) -> tuple[list[Diagnostic], dict[str, float], bool]:
    """Faults of the tool, right values by name, and whether anything about a tool could be checked at all."""
    tool, claim = deployment.tool, deployment.claim
    faults: list[Diagnostic] = []
    right: dict[str, float] = {}
    checked = False
    if "conversion" in tool:
        checked = True
        faults += _conversion(tool["conversion"], claim, right)
    if "calibrate" in tool:
        checked = True
        faults += _calibration(tool, deployment, right)
    if "spends" in tool:
        told, enough = _spends(tool["spends"], deployment, right)
        faults += told
        checked = checked or bool(told) or enough
    if "ledger" in tool:
        checked = True
        faults += _ledger(tool["ledger"], claim, right)
    if tool.get("returned") == "nothing" and not faults:
        faults.append(_fault("DP608", "the tool returned nothing", "fall back to another accountant, never to a default epsilon"))
    return faults, right, checked


def _conversion(data: Any, claim: Claim, right: dict[str, float]) -> list[Diagnostic]:
    from dpspec.audit.conversions import zcdp_delta, zcdp_epsilon

    if not isinstance(data, Mapping) or not isinstance(data.get("rho"), (int, float)):
        return [_fault("DP605", "tool.conversion needs rho")]
    rho = float(data["rho"])
    if claim.epsilon is not None and claim.delta is not None:
        value = zcdp_delta(rho, claim.epsilon)
        right["delta"] = value
        right["epsilon"] = claim.epsilon
        if claim.delta < value * (1 - 1e-12):
            return [
                _fault(
                    "DP608",
                    f"the optimal conversion of rho {rho:g} at epsilon {claim.epsilon:g} is delta {value:.17g}, not {claim.delta:.17g}",
                )
            ]
        return []
    if claim.delta is not None:
        right["epsilon"] = zcdp_epsilon(rho, claim.delta)
    return []


def _calibration(tool: Mapping[str, Any], deployment: Deployment, right: dict[str, float]) -> list[Diagnostic]:
    claim = deployment.claim
    loader = _Loader({}, False)
    event = loader.event({"sigma": 1.0, **dict(tool["calibrate"])}, ("tool", "calibrate"))
    if event.kind != "gaussian" or claim.epsilon is None or not claim.delta:
        return [_fault("DP605", "tool.calibrate is modelled for Gaussian releases with a target epsilon and delta")]
    from dpspec.privacy.gaussian import mu_of

    try:
        shift = gaussian_shift(event, Context(deployment.setting.neighbouring))
    except Missing as missing:
        return [_fault("DP605", f"tool.calibrate: {missing} is not stated")]
    sigma = shift * (event.number("sigma") or 1.0) * math.sqrt(event.count) / mu_of(claim.epsilon, claim.delta)
    right["sigma"] = sigma
    answer = tool.get("sigma")
    if isinstance(answer, (int, float)):
        if answer < sigma * (1 - 1e-3):
            return [_fault("DP608", f"sigma {answer:g} is too small: {sigma:.6g} is needed")]
        if answer > sigma * 1.1:
            return [_fault("DP608", f"sigma {answer:g} is {answer / sigma:.3g} times what is needed ({sigma:.6g})")]
        return []
    return [_fault("DP608", f"no sigma was returned; {sigma:.6g} is right, from the closed form and without a grid")]


def _spends(data: Any, deployment: Deployment, right: dict[str, float]) -> tuple[list[Diagnostic], bool]:
    """``spends``: list of {event, charged}; a larger true cost must not be charged less. ``charged_in``: epsilon or rho, and then the
    amount must be at least the cost. Beside the faults: whether every amount is shown to be enough; order alone certifies nothing."""
    if not isinstance(data, Sequence) or isinstance(data, str):
        return [_fault("DP605", "tool.spends must be a list of {event, charged}")], False
    enough = len(data) > 0
    loader = _Loader({}, False)
    context = Context(deployment.setting.neighbouring)
    rows: list[tuple[float, float, str]] = []
    found: list[Diagnostic] = []
    for i, item in enumerate(data):
        event = loader.event(item.get("event"), ("tool", "spends", i))
        parts = components(event, context)
        cost = rho_range(parts).high
        rows.append((cost, float(item["charged"]), str(item.get("name", event.what))))
        right[f"rho {rows[-1][2]}"] = cost
        unit = item.get("charged_in")
        enough = enough and unit is not None
        if unit is not None:
            needs = rho_range(parts) if unit == "rho" else epsilon_range(parts, deployment.claim.delta or 0.0)
            right[f"{unit} {rows[-1][2]}"] = needs.high
            enough = enough and rows[-1][1] >= needs.high * (1 - TOLERANCE)
            if rows[-1][1] < needs.low * (1 - TOLERANCE):
                found.append(_fault("DP608", f"{rows[-1][2]} costs {unit} {needs.low:.6g} and is charged {rows[-1][1]:g}"))
    for cost, charged, name in rows:
        if cost > 0 and charged < 1e-300:
            found.append(_fault("DP608", f"{name} costs rho {cost:.4g} and is charged {charged:g}: it can be repeated for ever"))
    for i, a in enumerate(rows):
        for b in rows[i + 1 :]:
            dear, cheap = (a, b) if a[0] > b[0] else (b, a)
            if dear[0] > cheap[0] and dear[1] < cheap[1]:
                found.append(
                    _fault(
                        "DP608",
                        f"{dear[2]} costs rho {dear[0]:.4g} and is charged less than {cheap[2]} (rho {cheap[0]:.4g})",
                        "a spend must not grow with the noise",
                    )
                )
    return found, enough


def _ledger(data: Any, claim: Claim, right: dict[str, float]) -> list[Diagnostic]:
    """``charged``: before-draw, after-draw or on-success; ``concurrent`` runs may overlap; ``retries``; ``per_use``: epsilon of a run."""
    if not isinstance(data, Mapping):
        return [_fault("DP605", "tool.ledger must be a mapping")]
    charged = str(data.get("charged", ""))
    if charged not in ("before-draw", "after-draw", "on-success"):
        return [_fault("DP605", "tool.ledger.charged must be before-draw, after-draw or on-success")]
    if charged == "before-draw" and data.get("atomic", True) is not False:
        return []
    uses = max(float(data.get("concurrent", 1)), 1.0 + float(data.get("retries", 0)))
    per_use = data.get("per_use", claim.epsilon)
    if isinstance(per_use, (int, float)):
        right["epsilon_spent"] = uses * float(per_use)
    return [
        _fault(
            "DP638",
            f"the ledger is charged {charged}: {uses:g} releases can pass one check"
            + (f" and spend {right['epsilon_spent']:g}" if right else ""),
        )
    ]
