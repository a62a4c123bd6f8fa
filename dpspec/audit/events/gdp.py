"""Any mu-GDP step."""

from __future__ import annotations

from dataclasses import replace

from dpspec.audit.component import Component, Context, gaussian_release
from dpspec.audit.event import Event
from dpspec.audit.kinds import Kind

KIND = Kind(
    "any mu-GDP step",
    ("mu",),
    (("mu",),),
    guarantee="gdp",
    aliases=(),
)
EXAMPLE = {"type": "gdp", "mu": 0.5}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    mu = event.number("mu") or 0.0
    c = gaussian_release(event.what, mu)
    return [c if context.worst_case else replace(c, under=None, pure_at_least=0.0, rho_at_least=0.0)]
