"""What a description leaves open that can be worked out: the threshold that its claim needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from dpspec.audit.bounds import epsilon_range
from dpspec.audit.component import Component
from dpspec.audit.deployment import Deployment
from dpspec.audit.event import Event, nodes
from dpspec.audit.readings import say
from dpspec.spec.diagnostics import Diagnostic

_HIGHEST = 2.0**40


def threshold_needed(deployment: Deployment, parts_of: Callable[[Deployment], Sequence[Component]]) -> list[Diagnostic]:
    """DP649: the least threshold, to four digits, at which an event that states none meets the claim."""
    claim = deployment.claim
    open_ones = [e for e in nodes(deployment.events) if e.kind.endswith("_threshold") and e.number("threshold") is None]
    if len(open_ones) != 1 or claim.epsilon is None or not claim.delta:
        return []
    epsilon, delta = claim.epsilon, claim.delta

    def met(threshold: float) -> bool:
        with_it = replace(deployment, events=tuple(_with(e, open_ones[0], threshold) for e in deployment.events))
        return epsilon_range(parts_of(with_it), delta).high <= epsilon * (1 + 1e-9)

    high = 1.0
    while not met(high):
        high *= 2
        if high > _HIGHEST:
            why = f"no threshold meets ({epsilon:g}, {delta:g}): the noise alone does not"
            return [say("DP649", "error", why, "state more noise, or a larger epsilon")]
    low = 0.0 if high == 1.0 else high / 2
    while high - low > 1e-5 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if met(middle) else (middle, high)
    unit = 10.0 ** (math.floor(math.log10(high)) - 3)
    least = math.ceil(high / unit * (1 - 1e-12)) * unit
    return [say("DP649", "warning", f"no threshold is stated: ({epsilon:g}, {delta:g}) needs one of at least {least:.4g}", "state it")]


def _with(event: Event, wanted: Event, threshold: float) -> Event:
    if event is wanted:
        return replace(event, fields={**event.fields, "threshold": threshold})
    return replace(event, inner=tuple(_with(e, wanted, threshold) for e in event.inner))
