"""discrete laplace noise on counts with private keys, released from a threshold on."""

from __future__ import annotations

from collections.abc import Mapping

from dpspec.audit.component import Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events import discrete_laplace
from dpspec.audit.events._additive import laplace_losses
from dpspec.audit.events._thresholds import thresholded
from dpspec.audit.kinds import L1, Kind

KIND = Kind(
    "two-sided geometric noise on integer counts with private keys, released at or above a threshold",
    (*L1, "scale", "epsilon", "threshold", "first_count", "keys"),
    (("scale", "epsilon"),),
    contributions=True,
    aliases=("geometric_threshold", "threshold_geometric"),
    attained="a key that one unit alone has, and a count that is the sensitivity larger",
)
EXAMPLE = {"type": "discrete_laplace_threshold", "l1_sensitivity": 2, "scale": 2, "threshold": 30}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    return thresholded(event, context, discrete_laplace.model(event, context)[0], 1.0)


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"noise (as epsilon)": laplace_losses(event, context)}
