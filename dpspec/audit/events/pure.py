"""Any epsilon-DP step."""

from __future__ import annotations

from dpspec.audit.component import Component, Context
from dpspec.audit.event import Event
from dpspec.audit.kinds import Kind
from dpspec.audit.pairs import randomized_response

KIND = Kind(
    "any epsilon-DP step",
    ("epsilon",),
    (("epsilon",),),
    guarantee="pure",
    aliases=("pure_dp", "epsilon_dp"),
)
EXAMPLE = {"type": "pure", "epsilon": 0.5}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    epsilon = event.number("epsilon") or 0.0
    pair = randomized_response(epsilon) if 0 < epsilon < 500 else None
    return [
        Component(
            event.what,
            pure=epsilon,
            pure_at_least=epsilon if context.worst_case else 0.0,
            rho=epsilon**2 / 2,
            over=pair,
            under=pair if context.worst_case else None,
        )
    ]
