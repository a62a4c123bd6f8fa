"""Laplace noise cut off at a bound."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpspec.audit.component import Breach, Component, Context, laplace_release
from dpspec.audit.event import Event
from dpspec.audit.events._additive import laplace_losses, laplace_sensitivity
from dpspec.audit.kinds import L1, Kind
from dpspec.audit.pairs import approximate

KIND = Kind(
    "Laplace noise cut off at a bound",
    (*L1, "scale", "epsilon", "bound"),
    (("scale", "epsilon"), ("bound",)),
    aliases=(),
)
EXAMPLE = {"type": "truncated_laplace", "l1_sensitivity": 1, "scale": 2, "bound": 40}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    top, epsilon, bound = laplace_sensitivity(event, context), max(laplace_losses(event, context).values()), event.number("bound") or 0.0
    if epsilon == 0 or math.isinf(epsilon) or top == 0:
        return [laplace_release(event.what, 0.0 if top == 0 else epsilon)]
    if bound == 0:
        return [laplace_release(event.what, math.inf)]
    scale = top / epsilon
    # outputs within top of one end are impossible for the neighbour
    whole = -math.expm1(-bound / scale)
    gap = 1.0 if top >= 2 * bound else (math.exp(-max(bound - top, 0.0) / scale) - math.exp(-bound / scale)) / (2 * whole)
    why = f"{event.what}: noise is cut off at {bound:g}, so outputs beyond the cut of a neighbour show which data set it was"
    return [
        Component(
            event.what, pure=epsilon, slack=gap, over=approximate(epsilon, gap) if gap < 1 else None, breach=Breach("DP620", gap, why)
        )
    ]


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"noise (as epsilon)": laplace_losses(event, context)}
