"""Repeat until a private test passes, publish the accepted result."""

from __future__ import annotations

import math

from dpspec.audit.component import Component, Context, assuming
from dpspec.audit.event import Event
from dpspec.audit.events import inner
from dpspec.audit.kinds import BODY, Kind
from dpspec.audit.pairs import randomized_response

KIND = Kind(
    "repeat until a private test passes, publish the accepted result",
    (*BODY, "limit"),
    (BODY,),
    aliases=(),
)
EXAMPLE = {"type": "select_until", "event": {"type": "laplace", "l1_sensitivity": 1, "scale": 2}}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    found = inner(event, context)
    bad = next((c for c in found if c.breach or c.unknown or not math.isfinite(c.pure) or c.slack), None)
    if bad is not None:
        if bad.breach and bad.breach.delta >= 1:
            return found  # what is certain in every attempt is certain of the accepted one
        return [Component(event.what, unknown=bad.unknown or f"{event.what}: private selection is modelled for pure steps only")]
    if event.number("limit") is not None:
        return [Component(event.what, unknown=f"{event.what}: a limit on the attempts with a fallback output needs its own argument")]
    epsilon = 2 * sum(c.pure * c.count for c in found)
    over = randomized_response(epsilon) if 0 < epsilon < 500 else None
    # P(out = y) = Q(y, pass)/Q(pass): the ratio moves by exp(eps) in the numerator and by exp(eps) in the denominator
    chosen = Component(event.what, pure=epsilon, rho=epsilon**2 / 2, over=over, how="repetition until success: 2 epsilon")
    return assuming([chosen], *(c.assumes for c in found))
