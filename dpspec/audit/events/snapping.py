"""Mironov's snapping mechanism: Laplace noise whose doubles are rounded to a coarse lattice and clamped."""

from __future__ import annotations

import math

from dpspec.audit.component import Component, Context, laplace_release
from dpspec.audit.event import Event
from dpspec.audit.events._additive import laplace_sensitivity
from dpspec.audit.kinds import L1, Kind
from dpspec.audit.pairs import Atoms, randomized_response

KIND = Kind(
    "Laplace noise, rounded to a power of two at least its scale and clamped (snapping)",
    (*L1, "scale", "clamp"),
    (("scale",), ("clamp",)),
    aliases=("snapping_mechanism",),
    attained="two values the sensitivity apart, and the noisy value clamped at one end",
)
EXAMPLE = {"type": "snapping", "l1_sensitivity": 1, "scale": 2, "clamp": 1000}
RELATION = "add_remove"
_UNIT = 2.0**-53


def model(event: Event, context: Context) -> list[Component]:
    """epsilon = (sensitivity + 2^-49 clamp)/scale, for scale < clamp < 2^46 scale (Mironov 2012, "On significance of the least significant
    bits for differential privacy", Theorem 1, in units of the sensitivity)."""
    top, scale, clamp = laplace_sensitivity(event, context), event.number("scale") or 0.0, event.number("clamp") or 0.0
    if top == 0:
        return [laplace_release(event.what, 0.0)]
    if scale == 0:
        return [laplace_release(event.what, math.inf)]
    if not scale < clamp < 2.0**46 * scale or clamp < top:
        why = f"{event.what}: the theorem needs scale < clamp < 2^46 scale, and a clamp of at least the sensitivity"
        return [Component(event.what, unknown=why, how="DP673")]
    plain = top / scale
    whole = (top + 16 * _UNIT * clamp) / scale
    # the noisy value is clamped at -clamp with chance exp(-(f + clamp)/scale)/2: values the sensitivity apart attain top/scale
    low = math.exp(-plain) / 2
    pair = Atoms((low, 1 - low), (0.5, 0.5))
    return [
        Component(
            event.what,
            pure=whole,
            pure_at_least=plain * (1 - 1e-9),
            rho=whole**2 / 2,
            over=randomized_response(whole) if whole < 500 else None,
            under=pair,
        )
    ]
