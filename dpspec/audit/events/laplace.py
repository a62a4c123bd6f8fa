"""Laplace noise added to a vector; folded, or with only a comparison released."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpspec.audit.component import Component, Context, laplace_release
from dpspec.audit.event import Event
from dpspec.audit.events._additive import laplace_losses, laplace_sensitivity
from dpspec.audit.kinds import L1, Kind
from dpspec.audit.pairs import Atoms, randomized_response

KIND = Kind(
    "Laplace noise added to a vector",
    (*L1, "scale", "noise_multiplier", "epsilon", "folded", "vote"),
    (("scale", "noise_multiplier", "epsilon"),),
    noise="laplace",
    aliases=(),
    attained="two values the sensitivity apart along one coordinate",
)
EXAMPLE = {"type": "laplace", "l1_sensitivity": 1, "scale": 2}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    epsilon = max(laplace_losses(event, context).values())
    whole = laplace_release(event.what, epsilon)
    vote = event.fields.get("vote")
    if isinstance(vote, Mapping) and 0 < epsilon < math.inf:
        low, high, threshold = (float(vote[k]) for k in ("low", "high", "threshold"))
        top = laplace_sensitivity(event, context)
        exact, pair = vote_loss(low, high, top, top / epsilon, threshold)
        return [
            replace(whole, pure=exact, pure_at_least=exact, rho=exact**2 / 2, rho_at_least=0.0, over=randomized_response(exact), under=pair)
        ]
    if event.fields.get("folded") and math.isfinite(epsilon):
        # |f + Lap(b)| near 0: both branches meet, and the densities for f = 0 and f = Delta differ by exp(Delta/b) exactly
        return [replace(whole, under=None, rho_at_least=0.0, how="folding is post-processing and loses nothing at output 0")]
    return [whole]


def vote_loss(low: float, high: float, sensitivity: float, scale: float, threshold: float) -> tuple[float, Atoms]:
    """Exact epsilon of the bit [x + Lap(scale) > threshold] for counts x in [low, high] that neighbours move by up to ``sensitivity``."""
    gap = min(sensitivity, high - low)

    def log_tail(z: float) -> float:  # ln P(Lap(1) > z)
        return -z - math.log(2) if z >= 0 else math.log1p(-math.exp(z) / 2)

    best, pair = 0.0, Atoms((0.5, 0.5), (0.5, 0.5))
    starts = {low, high - gap, *(min(max(threshold - s * gap, low), high - gap) for s in (0.0, 0.25, 0.5, 0.75, 1.0))}
    starts |= set(np.linspace(low, high - gap, 65).tolist())
    for x in sorted(starts):
        a, b = (threshold - x) / scale, (threshold - x - gap) / scale
        up, down = log_tail(b) - log_tail(a), log_tail(-a) - log_tail(-b)
        if max(up, down) > best:
            best = max(up, down)
            pair = Atoms((math.exp(log_tail(b)), math.exp(log_tail(-b))), (math.exp(log_tail(a)), math.exp(log_tail(-a))))
    return best, pair


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"noise (as epsilon)": laplace_losses(event, context)}
