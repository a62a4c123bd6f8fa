"""The exponential mechanism: probability proportional to exp(exponent * score)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dpspec.audit.component import NOTHING, Breach, Component, Context, Family, Missing
from dpspec.audit.event import Event
from dpspec.audit.events._selection import score
from dpspec.audit.kinds import SCORES, Kind
from dpspec.audit.pairs import Atoms, randomized_response

KIND = Kind(
    "exponential mechanism: probability proportional to exp(exponent * score)",
    (*SCORES, "epsilon", "exponent", "candidates", "monotone"),
    (("epsilon", "exponent"),),
    aliases=("exponential_mechanism", "gumbel"),
    attained="one candidate far behind rises while the others fall (monotone: stay)",
)
EXAMPLE = {"type": "exponential", "score_sensitivity": 1, "exponent": 0.5}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    epsilon = max(exponential_losses(event).values())
    if math.isinf(epsilon):
        return [Component(event.what, breach=Breach("DP620", 1.0, f"{event.what}: the choice is deterministic"))]
    single = event.number("candidates") == 1
    if single:
        return [NOTHING]
    # one candidate far behind the others moves up while they move down (or, monotone, stay): its log-probability moves by nearly epsilon
    return [
        Component(
            event.what,
            pure=epsilon,
            pure_at_least=epsilon,
            rho=epsilon**2 / 8,
            over=randomized_response(epsilon) if epsilon > 0 else None,
            under=_bounded_range(epsilon) if 0 < epsilon < 500 else None,
            how="exponential mechanism: epsilon-DP and epsilon^2/8-zCDP (bounded range)",
        )
    ]


def _bounded_range(epsilon: float) -> Family:
    """Two candidates whose log-odds move by ``epsilon`` in all, from many starting points (Dong, Durfee, Rogers 2020)."""
    pairs = []
    for start in np.linspace(-epsilon - 30.0, 30.0, 241):
        p, q = 1 / (1 + math.exp(-start - epsilon)), 1 / (1 + math.exp(-start))
        pairs.append(Atoms((p, 1 / (1 + math.exp(start + epsilon))), (q, 1 / (1 + math.exp(start)))))
    return Family(tuple(pairs))


def exponential_losses(event: Event) -> dict[str, float]:
    """epsilon of the exponential mechanism by each word that states it."""
    exponent, epsilon = event.number("exponent"), event.number("epsilon")
    found = {} if epsilon is None else {"epsilon": epsilon}
    if exponent is not None:
        found["exponent"] = (1.0 if event.fields.get("monotone") is True else 2.0) * exponent * score(event)
    if not found:
        raise Missing("epsilon (or exponent)")
    return found


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"epsilon": exponential_losses(event)}
