"""Noise on one integer by its whole law: two laws a whole number apart, as atoms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpspec.audit.component import NOTHING, Breach, Component, Context, assuming
from dpspec.audit.event import Event
from dpspec.audit.events._additive import laplace_sensitivity
from dpspec.audit.pairs import Atoms

Array = NDArray[np.float64]


def moved(what: str, mass: Array, shift: int, beyond: float, *, ends: bool) -> Component:
    """The law with these masses on successive integers, moved by ``shift``, against itself. For a law whose logarithm is concave the larger
    of two shifts shows more at every epsilon (its losses are ordered as the outputs, and so are those of the shifts between), so this pair
    dominates all shifts up to it. ``beyond``: of the law outside of the masses, counted as a failure. ``ends``: nothing does."""
    if shift >= mass.size:
        gone = f"{what}: the noise has fewer values than the sensitivity is large"
        return Component(what, breach=Breach("DP620", 1.0, gone)) if ends else Component(what, unknown=gone, how="DP673")
    p, q = np.zeros(mass.size + shift), np.zeros(mass.size + shift)
    q[: mass.size], p[shift:] = mass, mass
    both = (p > 0) & (q > 0)
    over = Atoms((*p.tolist(), beyond, 0.0), (*q.tolist(), 0.0, beyond))
    under = Atoms(tuple(p[both]), tuple(q[both]))
    if not ends:
        return Component(what, pure_at_least=float(np.max(np.log(p[both]) - np.log(q[both]))), over=over, under=under)
    sure = float(max(mass[:shift].sum(), mass[-shift:].sum()))
    why = f"{what}: the noise has an end; outputs beyond a neighbour's show which data set it was"
    return Component(what, slack=sure, over=over, under=under, breach=Breach("DP620", sure, why) if sure > 0 else None)


def whole(event: Event, context: Context) -> int | Component:
    """The sensitivity of one integer, a whole number; a component where there is no more to say."""
    top = laplace_sensitivity(event, context)
    if event.number("dimension") not in (None, 1.0):
        return Component(event.what, unknown=f"{event.what}: only one integer has a model, not a vector", how="DP673")
    if top < 1:
        return NOTHING
    return int(min(top, 2.0**40))


def alone(event: Event, found: Component) -> list[Component]:
    condition = f"{event.what} is on one integer (dimension)"
    return assuming([found], condition) if event.number("dimension") is None and found is not NOTHING else [found]
