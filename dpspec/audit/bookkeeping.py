"""Sums that a claim states: the total of the parts that it names, and the sum of what the events cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpspec.audit.component import Component
from dpspec.audit.deployment import Claim
from dpspec.audit.verdict import TOLERANCE
from dpspec.spec.diagnostics import Diagnostic


def bookkeeping(claim: Claim, parts: Sequence[Component]) -> list[Diagnostic]:
    """One DP603 or DP639 for each sum that does not come out: of ``subtotals``, and of the events under ``rule: sum``."""
    found: list[Diagnostic] = []
    name, total = ("rho", claim.rho) if claim.rho is not None else ("epsilon", claim.epsilon)
    if claim.subtotals and total is not None:
        stated = math.fsum(claim.subtotals)
        if _differ(stated, total):
            words = " + ".join(f"{x:g}" for x in claim.subtotals)
            found.append(Diagnostic("DP603", "error", f"the stated parts {words} make {name} {stated:.6g}, and {total:g} is stated in all"))
        costs = [(c.rho if name == "rho" else c.pure) * c.count for c in parts]
        if len(costs) == len(claim.subtotals) and all(math.isfinite(x) for x in costs):
            for part, cost, share in zip(parts, costs, claim.subtotals, strict=True):
                if _differ(cost, share):
                    message = f"{part.what} is stated to cost {name} {share:g}, and costs {cost:.6g}"
                    found.append(Diagnostic("DP603", "error", message))
    if claim.rule.lower() == "sum":
        for word, number in (("epsilon", claim.epsilon), ("rho", claim.rho)):
            if number is None or not parts:
                continue
            right = math.fsum((c.rho if word == "rho" else c.pure) * c.count for c in parts)
            if math.isfinite(right) and _differ(number, right):
                message = f"sum: {word} is {right:.9g} by the rule, {number:.9g} is stated"
                found.append(Diagnostic("DP639", "error", f"{message} ({'understated' if number < right else 'overstated'})"))
    return found


def _differ(a: float, b: float) -> bool:
    return abs(a - b) > TOLERANCE * max(abs(a), abs(b)) + 1e-12
