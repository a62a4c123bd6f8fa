"""discrete gaussian noise on counts with private keys, released from a threshold on."""

from __future__ import annotations

from collections.abc import Mapping

from dpspec.audit.component import Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events import discrete_gaussian
from dpspec.audit.events._additive import gaussian_shifts
from dpspec.audit.events._thresholds import thresholded
from dpspec.audit.kinds import L2, Kind

KIND = Kind(
    "discrete Gaussian noise on integer counts with private keys, released at or above a threshold",
    (*L2, "sigma", "threshold", "first_count", "keys"),
    (("sigma",),),
    contributions=True,
    aliases=(),
    attained="a key that one unit alone has, and a count that is the sensitivity larger",
)
EXAMPLE = {"type": "discrete_gaussian_threshold", "l2_sensitivity": 1, "sigma": 2, "threshold": 14}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    return thresholded(event, context, discrete_gaussian.model(event, context)[0], 2.0)


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"noise (as mu)": gaussian_shifts(event, context)}
