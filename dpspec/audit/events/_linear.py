"""Gaussian noise on a linear map of the steps of a run: trees and matrix mechanisms."""

from __future__ import annotations

import math
from dataclasses import replace

from dpspec.audit.component import Component, Context, Missing, assuming, gaussian_release
from dpspec.audit.event import Event
from dpspec.audit.events._additive import gaussian_shift
from dpspec.audit.kinds import OPEN_ENDED
from dpspec.audit.pairs import GaussianPair

#: Words of the unit's part in a run.
PART = ("participations", "separation")


def times(event: Event) -> tuple[int, int]:
    """How often a unit takes part, and how far apart. Raises :class:`Missing` where several times have no distance."""
    k = int(event.number("participations") or 1)
    separation = event.number("separation")
    if k > 1 and separation is None:
        raise Missing("separation (steps from one time that a unit takes part to the next, at least)")
    return k, int(separation or 1)


def release(event: Event, context: Context, squares: tuple[float, float], trees: int = 1) -> list[Component]:
    """The release of a linear map whose square moves by ``squares`` (from below, from above), ``trees`` times with noise of its own. One
    time that a unit takes part moves one step by the sensitivity. The Gaussian mechanism with noise drawn in advance keeps its profile
    when later steps depend on what was released before, for maps that look only back (Denisov et al. 2022, Theorem 2.1)."""
    one = gaussian_shift(event, context)
    low, high = (one * math.sqrt(trees * square) if one else 0.0 for square in squares)
    found = gaussian_release(event.what, high)
    if found.breach is None and high > 0 and low < high * (1 - 1e-9):
        under = GaussianPair(low) if low > 0 else None
        found = replace(found, mu=None, over=GaussianPair(high), under=under, rho_at_least=low * low / 2)
    conditions = []
    if event.number("participations") is None and event.fields.get("participations") is None:
        conditions.append(f"no unit takes part in more than one step of {event.what}")
    if event.fields.get("participations") in OPEN_ENDED:
        return [Component(event.what, unknown=f"{event.what}: a unit takes part without limit", how="DP629")]
    if context.neighbouring == "add_remove":
        conditions.append(f"a unit that is left out of {event.what} leaves the steps of the others as they are")
    return assuming([found], *conditions)
