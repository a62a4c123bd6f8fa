"""Gaussian noise added to a vector."""

from __future__ import annotations

from collections.abc import Mapping

from dpspec.audit.component import Component, Context, gaussian_release
from dpspec.audit.event import Event
from dpspec.audit.events._additive import gaussian_shift, gaussian_shifts
from dpspec.audit.kinds import L2, Kind

KIND = Kind(
    "Gaussian noise added to a vector",
    (*L2, "sigma", "noise_multiplier", "variance", "rho", "mu"),
    (("sigma", "noise_multiplier", "variance", "rho", "mu"),),
    noise="gaussian",
    aliases=("normal", "analytic_gaussian"),
    attained="two values the sensitivity apart; a Gaussian law knows no other direction",
)
EXAMPLE = {"type": "gaussian", "l2_sensitivity": 1, "sigma": 2}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    return [gaussian_release(event.what, gaussian_shift(event, context))]


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"noise (as mu)": gaussian_shifts(event, context)}
