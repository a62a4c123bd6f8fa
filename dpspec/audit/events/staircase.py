"""Staircase noise: the optimal shape for pure epsilon on one number."""

from __future__ import annotations

import math

import numpy as np

from dpspec.audit.component import Component, Context, laplace_release
from dpspec.audit.event import Event
from dpspec.audit.events._additive import laplace_sensitivity
from dpspec.audit.kinds import L1, Kind
from dpspec.audit.pairs import Atoms, randomized_response

KIND = Kind(
    "staircase noise on one number",
    (*L1, "epsilon", "width", "gamma"),
    (("epsilon",), ("width",)),
    aliases=(),
    attained="two values the sensitivity apart",
)
EXAMPLE = {"type": "staircase", "l1_sensitivity": 1, "epsilon": 0.5, "width": 1, "gamma": 0.4}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    """The density falls by exp(-epsilon) over every ``width`` (Geng, Viswanath 2014): at |x| in [k width, (k + gamma) width) it is
    a exp(-k epsilon), from there to (k + 1) width a exp(-(k + 1) epsilon). A move of at most m widths changes it by exp(m epsilon) at most,
    and a move of exactly m widths does. ``gamma``: 1/(1 + exp(epsilon/2)) when it is not stated."""
    top, epsilon, width = laplace_sensitivity(event, context), event.number("epsilon") or 0.0, event.number("width") or 0.0
    if top == 0 or epsilon == 0:
        return [laplace_release(event.what, 0.0)]
    if width == 0:
        return [laplace_release(event.what, math.inf)]
    steps = math.ceil(top / width * (1 - 1e-12))
    worst = epsilon * steps
    pair = _pair(epsilon, top / width, event.number("gamma"))
    shown = math.floor(top / width * (1 + 1e-12))
    return [
        Component(
            event.what,
            pure=worst,
            pure_at_least=epsilon * shown,
            rho=worst**2 / 2,
            over=randomized_response(worst) if worst < 500 else None,
            under=pair,
        )
    ]


def _pair(epsilon: float, top: float, gamma: float | None) -> Atoms | None:
    """The law moved by ``top`` widths against the law at 0, on the pieces where both are flat."""
    share = 1 / (1 + math.exp(epsilon / 2)) if gamma is None else gamma
    reach = min(math.ceil(30 / epsilon) + math.ceil(top) + 1, 3000)
    if top > 1000:
        return None
    k = np.arange(reach, dtype=float)
    ends = np.concatenate([k, k + share])
    edges = np.concatenate([-ends, ends])
    edges = np.unique(np.concatenate([edges, edges + top]))
    middle, length = (edges[1:] + edges[:-1]) / 2, np.diff(edges)

    def density(x: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        away = np.abs(x)
        step = np.floor(away)
        return np.asarray(np.exp(-epsilon * (step + (away - step >= share))), dtype=float)

    scale = -math.expm1(-epsilon) / (2 * (share + math.exp(-epsilon) * (1 - share)))
    p, q = density(middle - top) * length * scale, density(middle) * length * scale
    keep = length > 1e-9
    return Atoms(tuple(p[keep]), tuple(q[keep]))
