"""A subset whose selection is not a known sampler."""

from __future__ import annotations

from dataclasses import replace

from dpspec.audit.component import Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events import inner
from dpspec.audit.kinds import BODY, Kind

KIND = Kind(
    "a subset whose selection is not a known sampler",
    (*BODY, "rate", "method"),
    (BODY,),
    aliases=("sampled",),
)
EXAMPLE = {"type": "subset", "rate": 0.1, "event": {"type": "laplace", "l1_sensitivity": 1, "scale": 2}}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    """No theorem for this selection: its releases are accounted without amplification."""
    return [replace(c, under=None, pure_at_least=0.0, rho_at_least=0.0, how="DP643") for c in inner(event, context)]
