"""What the facts of a description add to its events: releases of their own, conditions, faults of machine arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from dpspec.audit.component import Breach, Component
from dpspec.audit.deployment import Deployment
from dpspec.audit.event import nodes
from dpspec.audit.formulas import numeric
from dpspec.audit.pairs import LaplacePair, randomized_response


def from_facts(deployment: Deployment) -> list[Component]:
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
    if isinstance(outside, (list, tuple)):
        bare = [str(x["what"]) for x in outside if isinstance(x, Mapping) and x.get("exact") is True]
        if bare:
            why = f"published without noise outside the accounting: {', '.join(bare)}"
            found.append(Component("outputs", breach=Breach("DP641", 1.0, why)))
        outside = [x["what"] if isinstance(x, Mapping) else x for x in outside if not (isinstance(x, Mapping) and x.get("exact") is True)]
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


def machine_sums(parts: list[Component], deployment: Deployment) -> list[Component]:
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
