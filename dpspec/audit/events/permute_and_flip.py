"""Permute-and-flip selection."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpspec.audit.component import NOTHING, Breach, Component, Context, Missing
from dpspec.audit.conversions import renyi
from dpspec.audit.event import Event
from dpspec.audit.events._additive import ratio
from dpspec.audit.events._selection import score
from dpspec.audit.kinds import SCORES, Kind
from dpspec.audit.pairs import Array, Atoms, Pair, randomized_response

KIND = Kind(
    "permute-and-flip selection",
    (*SCORES, "scale", "epsilon", "candidates"),
    (("scale", "epsilon"),),
    aliases=(),
    attained="up to four equal scores of which some rise and the others fall",
)
EXAMPLE = {"type": "permute_and_flip", "linf_sensitivity": 1, "scale": 2}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    if event.number("candidates") == 1:
        return [NOTHING]
    epsilon = max(flip_losses(event).values())
    if math.isinf(epsilon):
        return [Component(event.what, breach=Breach("DP620", 1.0, f"{event.what}: the choice is deterministic"))]
    exponent = min(epsilon / 2, 300.0)  # on scores in units of the sensitivity; beyond, the weaker instance still is one
    best_rho, best_pure = 0.0, 0.0
    under: Pair | None = None
    candidates = event.number("candidates")
    orders = np.concatenate([np.linspace(1.0, 4.0, 61), np.geomspace(4.2, 60.0, 30)])
    for m in range(2, 5):
        if candidates is not None and m > candidates:
            break
        for up in range(1, m):
            p = permute_and_flip([0.0] * m, exponent)
            q = permute_and_flip([1.0] * up + [-1.0] * (m - up), exponent)
            for a, b in ((p, q), (q, p)):
                rho = float(np.max(renyi(a, b, orders) / orders))
                if rho > best_rho:
                    best_rho, under = rho, Atoms(tuple(a), tuple(b))
                with np.errstate(divide="ignore"):
                    best_pure = max(best_pure, min(float(np.max(np.log(a) - np.log(b))), epsilon))
    return [
        Component(
            event.what,
            pure=epsilon,
            pure_at_least=best_pure,
            rho=epsilon**2 / 2,
            rho_at_least=best_rho,
            over=randomized_response(epsilon) if epsilon > 0 else None,
            under=under,
            how="permute-and-flip is epsilon-DP but not bounded range: epsilon^2/2-zCDP",
        )
    ]


def permute_and_flip(scores: Sequence[float], exponent: float) -> Array:
    """Exact selection probabilities (McKenna and Sheldon 2020): candidates in random order, each accepted with exp(exponent*(q - q*))."""
    q = np.asarray(scores, dtype=float)
    accept = np.exp(exponent * (q - q.max()))
    total = np.zeros(q.size)
    orders = list(itertools.permutations(range(q.size)))
    for order in orders:
        left = 1.0
        for i in order:
            total[i] += left * accept[i]
            left *= 1 - accept[i]
    return total / len(orders)


def flip_losses(event: Event) -> dict[str, float]:
    """epsilon of permute-and-flip by each word that states it."""
    scale, epsilon = event.number("scale"), event.number("epsilon")
    found = {} if epsilon is None else {"epsilon": epsilon}
    if scale is not None:
        found["scale"] = ratio(2 * score(event), scale)
    if not found:
        raise Missing("scale")
    return found


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"epsilon": flip_losses(event)}
