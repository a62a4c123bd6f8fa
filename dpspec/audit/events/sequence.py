"""Several releases on the same records."""

from __future__ import annotations

from dpspec.audit.component import Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events import inner
from dpspec.audit.kinds import BODY, Kind

KIND = Kind(
    "several releases on the same records",
    BODY,
    (BODY,),
    aliases=("composed", "composition", "self_composed"),
    attained="the pairs of the parts, moved by one record at once",
)
EXAMPLE = {
    "type": "sequence",
    "events": [{"type": "laplace", "l1_sensitivity": 1, "scale": 2}, {"type": "gaussian", "l2_sensitivity": 1, "sigma": 2}],
}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    return inner(event, context)
