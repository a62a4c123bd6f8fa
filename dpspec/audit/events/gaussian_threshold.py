"""gaussian noise on counts with private keys, released from a threshold on."""

from __future__ import annotations

from collections.abc import Mapping

from dpspec.audit.component import Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events import discrete_gaussian, gaussian
from dpspec.audit.events._additive import gaussian_shifts
from dpspec.audit.events._thresholds import thresholded
from dpspec.audit.kinds import L2, Kind, Sort

KIND = Kind(
    "Gaussian noise on a histogram with private keys, released above a threshold",
    (*L2, "sigma", "threshold", "first_count", "keys", "noise_on"),
    (("sigma",),),
    sorts={"noise_on": Sort("", form="word", words=("reals", "integers"))},
    contributions=True,
    aliases=("threshold_gaussian",),
    attained="a key that one unit alone has, and counts that are the sensitivity apart",
)
EXAMPLE = {"type": "gaussian_threshold", "l2_sensitivity": 1, "sigma": 2, "threshold": 14}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    law = discrete_gaussian if event.fields.get("noise_on") == "integers" else gaussian
    return thresholded(event, context, law.model(event, context)[0], 2.0)


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"noise (as mu)": gaussian_shifts(event, context)}
