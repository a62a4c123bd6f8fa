"""Two-sided geometric noise on integers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpspec.audit.component import Component, Context
from dpspec.audit.event import Event
from dpspec.audit.events import laplace
from dpspec.audit.events._additive import laplace_losses, laplace_sensitivity
from dpspec.audit.kinds import L1, Kind
from dpspec.audit.pairs import Atoms, randomized_response

KIND = Kind(
    "two-sided geometric noise on integers",
    (*L1, "scale", "epsilon"),
    (("scale", "epsilon"),),
    aliases=("geometric", "two_sided_geometric"),
    attained="two integers the sensitivity apart along one coordinate",
)
EXAMPLE = {"type": "discrete_laplace", "l1_sensitivity": 1, "scale": 2}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    """Two-sided geometric noise, P(x) ~ exp(-|x|/scale) on integers: the largest loss has more mass than under continuous noise."""
    (whole,) = laplace.model(event, context)
    if whole.breach is not None or whole.pure == 0:
        return [whole]
    stated = event.number("l1_sensitivity", "sensitivity", "clip_norm", "norm_bound")
    top = 0.0 if stated is None else laplace_sensitivity(event, context)
    if top != int(top) or not 1 <= top <= 10_000 or whole.pure > 500:
        return [replace(whole, over=randomized_response(whole.pure) if whole.pure < 500 else None, under=None)]
    ratio = math.exp(-whole.pure / top)
    at_zero = (1 - ratio) / (1 + ratio)
    inside = at_zero * ratio ** np.arange(1, int(top))  # between the two centres, from the nearer one
    end, far = 1 / (1 + ratio), ratio ** int(top) / (1 + ratio)  # at or beyond the own centre; at or beyond the other one
    q = (end, *inside.tolist(), far)
    pair = Atoms(q[::-1], q)
    return [replace(whole, over=pair, under=pair)]


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"noise (as epsilon)": laplace_losses(event, context)}
