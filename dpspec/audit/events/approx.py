"""Any (epsilon, delta)-DP step."""

from __future__ import annotations

from dpspec.audit.component import Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events import pure
from dpspec.audit.kinds import Kind
from dpspec.audit.pairs import approximate

KIND = Kind(
    "any (epsilon, delta)-DP step",
    ("epsilon", "delta"),
    (("epsilon",), ("delta",)),
    guarantee="approx",
    aliases=("epsilon_delta", "approx_dp", "approximate"),
)
EXAMPLE = {"type": "approx", "epsilon": 0.5, "delta": 1e-7}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    epsilon, delta = event.number("epsilon") or 0.0, event.number("delta") or 0.0
    if delta == 0:
        return pure.model(event, context)
    pair = approximate(epsilon, delta)
    under = pair if context.worst_case else None
    return [Component(event.what, pure=epsilon, slack=delta, over=pair, under=under)]
