"""k-ary randomized response."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpspec.audit.component import NOTHING, Breach, Component, Context
from dpspec.audit.event import Event
from dpspec.audit.kinds import Kind
from dpspec.audit.pairs import Atoms

KIND = Kind(
    "k-ary randomized response",
    ("epsilon", "categories", "keep"),
    (("epsilon", "keep"),),
    aliases=("rr", "krr", "grr"),
    attained="two values",
)
EXAMPLE = {"type": "randomized_response", "keep": 0.75}
RELATION = "local_replace"


def model(event: Event, context: Context) -> list[Component]:
    k, keep = int(event.number("categories") or 2), event.number("keep")
    if keep is not None:
        other = (1 - keep) / (k - 1)
        if min(keep, other) <= 0:
            return [Component(event.what, breach=Breach("DP642", max(keep, other), f"{event.what}: an output of probability 0"))]
    epsilon = max(response_losses(event).values())
    if epsilon == 0:
        return [NOTHING]
    if epsilon > 500:
        return [Component(event.what, pure=epsilon, pure_at_least=epsilon, rho=epsilon**2 / 2)]
    keep = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    other = (1 - keep) / (k - 1)
    rest = [max(1 - keep - other, 0.0)] if k > 2 else []
    pair = Atoms((keep, other, *rest), (other, keep, *rest))
    return [Component(event.what, pure=epsilon, pure_at_least=epsilon, rho=epsilon**2 / 2, over=pair, under=pair)]


def response_losses(event: Event) -> dict[str, float]:
    """epsilon of randomized response by each word that states it."""
    keep, epsilon = event.number("keep"), event.number("epsilon")
    found = {} if epsilon is None else {"epsilon": epsilon}
    if keep is not None:
        other = (1 - keep) / ((event.number("categories") or 2) - 1)
        found["keep"] = abs(math.log(keep / other)) if min(keep, other) > 0 else math.inf
    return found


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"epsilon": response_losses(event)}
