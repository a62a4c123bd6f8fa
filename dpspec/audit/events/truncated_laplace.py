"""Laplace noise cut off at a bound."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dpspec.audit.component import Breach, Component, Context, laplace_release
from dpspec.audit.event import Event
from dpspec.audit.events._additive import laplace_losses, laplace_sensitivity
from dpspec.audit.kinds import L1, Kind
from dpspec.audit.pairs import Array, Atoms, approximate

KIND = Kind(
    "Laplace noise cut off at a bound",
    (*L1, "scale", "epsilon", "bound"),
    (("scale", "epsilon"), ("bound",)),
    aliases=(),
    attained="two values the sensitivity apart",
)
EXAMPLE = {"type": "truncated_laplace", "l1_sensitivity": 1, "scale": 2, "bound": 40}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    top, epsilon, bound = laplace_sensitivity(event, context), max(laplace_losses(event, context).values()), event.number("bound") or 0.0
    if epsilon == 0 or math.isinf(epsilon) or top == 0:
        return [laplace_release(event.what, 0.0 if top == 0 else epsilon)]
    if bound == 0:
        return [laplace_release(event.what, math.inf)]
    scale = top / epsilon
    # outputs within top of one end are impossible for the neighbour
    whole = -math.expm1(-bound / scale)
    end = (math.exp(-abs(bound - top) / scale) - math.exp(-bound / scale)) / (2 * whole)  # noise beyond |bound - top| on one side
    gap = 1.0 if top >= 2 * bound else end if top <= bound else 1 - end
    why = f"{event.what}: noise is cut off at {bound:g}, so outputs beyond the cut of a neighbour show which data set it was"
    return [
        Component(
            event.what,
            pure=epsilon,
            slack=gap,
            over=approximate(epsilon, gap) if gap < 1 else None,
            under=_real_pair(top / scale, bound / scale) if gap < 1 else None,
            breach=Breach("DP620", gap, why),
        )
    ]


def _real_pair(top: float, bound: float) -> Atoms:
    """The law moved by ``top`` against the law at 0 (in units of the scale, ``top < 2 bound``), cut into intervals."""
    whole = -2 * math.expm1(-bound)

    def mass(x: Array, centre: float) -> Array:
        low, high = np.clip(x[:-1] - centre, -bound, bound), np.clip(x[1:] - centre, -bound, bound)
        # integrals of exp(-|t|) on each side of 0
        right = np.exp(-np.maximum(low, 0)) - np.exp(-np.maximum(high, 0))
        left = np.exp(np.minimum(high, 0)) - np.exp(np.minimum(low, 0))
        return np.asarray((right + left) / whole, dtype=float)

    edges = np.unique(np.concatenate([np.linspace(-bound, bound + top, 401), [top - bound, bound, 0.0, top], np.linspace(0, top, 201)]))
    p, q = mass(edges, top), mass(edges, 0.0)
    return Atoms(tuple(p.tolist()), tuple(q.tolist()))


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"noise (as epsilon)": laplace_losses(event, context)}
