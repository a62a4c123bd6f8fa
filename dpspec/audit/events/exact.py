"""A statistic of the private data released without noise."""

from __future__ import annotations

from dpspec.audit.component import Breach, Component, Context
from dpspec.audit.event import Event
from dpspec.audit.kinds import Kind

KIND = Kind(
    "a statistic of the private data released without noise",
    ("condition",),
    (),
    aliases=("none", "raw", "no_noise", "unnoised", "non_private"),
    attained="two values of the statistic",
)
EXAMPLE = {"type": "exact"}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    condition = str(event.fields.get("condition") or "")
    why = f"{event.what}: a statistic of the protected records is published without noise"
    return [Component(event.what, breach=Breach("DP620", 1.0, why + (f" ({condition})" if condition else "")))]
