"""laplace noise on counts with private keys, released from a threshold on."""

from __future__ import annotations

from collections.abc import Mapping

from dpspec.audit.component import Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events import discrete_laplace, laplace
from dpspec.audit.events._additive import laplace_losses
from dpspec.audit.events._thresholds import thresholded
from dpspec.audit.kinds import L1, Kind, Sort

KIND = Kind(
    "Laplace noise on a histogram with private keys, released above a threshold",
    (*L1, "scale", "epsilon", "threshold", "first_count", "keys", "noise_on"),
    (("scale", "epsilon"),),
    sorts={"noise_on": Sort("", form="word", words=("reals", "integers"))},
    contributions=True,
    aliases=("threshold_laplace",),
    attained="a key that one unit alone has, and a count that is the sensitivity larger",
)
EXAMPLE = {"type": "laplace_threshold", "l1_sensitivity": 2, "scale": 2, "threshold": 30}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    law = discrete_laplace if event.fields.get("noise_on") == "integers" else laplace
    return thresholded(event, context, law.model(event, context)[0], 1.0)


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"noise (as epsilon)": laplace_losses(event, context)}
