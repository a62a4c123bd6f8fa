"""Optimal partition selection: which keys are published, by the number of units that hold them."""

from __future__ import annotations

import itertools
import math

from dpspec.audit.component import Breach, Component, Context, Family, unattained
from dpspec.audit.event import Event
from dpspec.audit.kinds import Kind
from dpspec.audit.pairs import Atoms, approximate

KIND = Kind(
    "each key published with the largest probability that (epsilon, delta) allows (truncated geometric thresholding)",
    ("epsilon", "delta", "keys"),
    (("epsilon",), ("delta",)),
    contributions=True,
    aliases=("truncated_geometric_threshold", "optimal_partition_selection", "magic_partition_selection"),
    attained="a key that n units hold under one data set and n + 1 under the other, for each n",
)
EXAMPLE = {"type": "partition_selection", "epsilon": 0.5, "delta": 1e-6, "keys": 2}
RELATION = "add_remove"


def published(epsilon: float, delta: float, most: int = 200_000) -> list[float]:
    """The probability that a key with n = 0, 1, 2, ... units is published, up to where it is 1 (Desfontaines, Voss, Gipson, Mandayam 2022,
    "Differentially private partition selection", Theorem 1): the largest that (epsilon, delta) allows beside that of n - 1 units."""
    found, up = [0.0], math.exp(min(epsilon, 700.0))
    while found[-1] < 1 and len(found) < most:
        last = found[-1]
        found.append(min(up * last + delta, 1 - (1 - last - delta) / up, 1.0))
    return found


def model(event: Event, context: Context) -> list[Component]:
    """``keys``: how many keys a unit is in, each of its ``contributions`` in so many; each is a mechanism of its own. Under replace-one a
    unit may leave its keys and enter others, so twice as many keys change."""
    epsilon, delta = event.number("epsilon") or 0.0, event.number("delta") or 0.0
    keys, m = event.number("keys"), event.number("contributions") or 1.0
    touched = (1.0 if keys is None else keys) * m
    assumes = "" if keys is not None else f"no unit is in more than one key of {event.what}"
    if delta >= 1 or epsilon > 500:
        return [Component(event.what, breach=Breach("DP644", min(delta, 1.0), f"{event.what}: a key of one unit is published"))]
    if delta == 0:
        return [Component(event.what, pure=0.0, rho=0.0, assumes=assumes)]
    chances = published(epsilon, delta, 5000)
    real = tuple(Atoms((b, 1 - b), (a, 1 - a)) for a, b in itertools.pairwise(chances) if a > 0 and b < 1)
    chance = -math.expm1(touched * math.log1p(-delta))
    why = f"{event.what}: a key that only one unit has is published with probability {chance:.4g} and never without that unit"
    one = Component(
        event.what,
        int(touched),
        pure=epsilon,
        slack=delta,
        over=approximate(epsilon, delta),
        under=Family(real[:: max(1, len(real) // 60)]) if real else None,
        breach=Breach("DP644", chance, why),
        assumes=assumes,
    )
    return [one, unattained(one)] if context.replacing else [one]
