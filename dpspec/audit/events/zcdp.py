"""Any rho-zCDP step."""

from __future__ import annotations

from dpspec.audit.component import Component, Context
from dpspec.audit.event import Event
from dpspec.audit.kinds import Kind

KIND = Kind(
    "any rho-zCDP step",
    ("rho",),
    (("rho",),),
    guarantee="zcdp",
    aliases=(),
)
EXAMPLE = {"type": "zcdp", "rho": 0.1}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    return [Component(event.what, rho=event.number("rho") or 0.0)]
