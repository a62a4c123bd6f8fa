"""Uniform noise on an interval."""

from __future__ import annotations

from dpspec.audit.component import NOTHING, Breach, Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events._additive import laplace_sensitivity
from dpspec.audit.kinds import L1, Kind
from dpspec.audit.pairs import approximate

KIND = Kind(
    "uniform noise on an interval",
    (*L1, "width"),
    (("width",),),
    aliases=(),
    attained="two values the sensitivity apart",
)
EXAMPLE = {"type": "uniform", "l1_sensitivity": 1e-6, "width": 10}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    top, width = laplace_sensitivity(event, context), event.number("width") or 0.0
    if top == 0:
        return [NOTHING]
    gap = 1.0 if width <= 0 else min(top / width, 1.0)
    why = f"{event.what}: uniform noise has an edge; outputs beyond a neighbour's edge show which data set it was"
    return [
        Component(
            event.what,
            pure=0.0,
            slack=gap,
            over=approximate(0.0, gap) if gap < 1 else None,
            under=approximate(0.0, min(gap, 1.0)),
            breach=Breach("DP620", gap, why),
        )
    ]
