"""The same releases on disjoint parts."""

from __future__ import annotations

import math
from dataclasses import replace

from dpspec.audit.component import Component, Context, assuming
from dpspec.audit.event import Event
from dpspec.audit.events import components, inner
from dpspec.audit.events._additive import norm_bounded
from dpspec.audit.kinds import BODY, Kind

KIND = Kind(
    "the same releases on disjoint parts",
    (*BODY, "parts", "parts_per_unit", "parts_by"),
    (BODY,),
    aliases=("disjoint", "partition"),
    attained="the pairs of the parts that one unit touches",
)
EXAMPLE = {"type": "parallel", "parts": 10, "parts_per_unit": 1, "event": {"type": "laplace", "l1_sensitivity": 1, "scale": 2}}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    """Releases on disjoint parts. A unit that is replaced leaves its parts and enters others: twice as many parts change, unless one
    part's worst change, that of a vector at the norm bound turned into its opposite, already counts for both. ``parts_by: position``: the
    parts were fixed before a record was read, so that a replaced unit stays where it was."""
    per_unit, parts = event.number("parts_per_unit"), event.number("parts")
    replacing = context.replacing and event.fields.get("parts_by") != "position"
    found = inner(event, context)
    touched = 1.0 if per_unit is None else per_unit
    if parts is not None:
        touched = min(touched, parts)
    twice = touched * 2 if parts is None else min(2 * touched, parts)
    if replacing and twice > touched:
        found = [
            x
            for c, additive in zip(found, _additive(event, context, len(found)), strict=True)
            for x in _in_two_parts(c, additive, touched, twice)
        ]
    else:
        found = [replace(c, count=c.count * math.ceil(touched)) for c in found]
    if per_unit is None:
        condition = f"every unit contributes to at most one part of {event.what}"
        return [replace(c, how="DP629") for c in assuming(found, condition)]
    return found


def _additive(event: Event, context: Context, size: int) -> list[bool | None]:
    """For each component of the parts: True, additive noise on a sum of clipped vectors; None, clipped but sampled; False, other."""
    found: list[bool | None] = []
    for e in event.inner:
        bounded = norm_bounded(e)
        kind = bounded if e.kind in ("gaussian", "laplace") or not bounded else None
        found += [kind] * len(components(e, context))
    return found if len(found) == size else [False] * size


def _in_two_parts(c: Component, additive: bool | None, touched: float, twice: float) -> list[Component]:
    if additive:
        # C in each of two parts: mu*sqrt(2)/2, or the same l1 distance spread out; 2C in one part is no less
        return [replace(c, count=c.count * math.ceil(touched))]
    if additive is None:  # above: as if both parts saw a replacement; below: one does
        above = replace(c, count=c.count * math.ceil(twice), under=None, pure_at_least=0.0, rho_at_least=0.0, mu=None)
        below = Component(c.what, c.count * math.ceil(touched), pure=0.0, rho=0.0, under=c.under)
        return [above, below]
    return [replace(c, count=c.count * math.ceil(twice))]


def on_relation(event: Event) -> bool:
    return True
