"""What one event of a description proves, from above and from below: the currency of the auditor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dpspec.audit.pairs import Array, Atoms, GaussianPair, LaplacePair, Pair
from dpspec.audit.words import NEIGHBOURS, REPLACING


@dataclass(frozen=True, slots=True)
class Breach:
    """An event of probability ``delta`` under one data set and zero under a neighbour: no finite epsilon below that delta."""

    code: str
    delta: float
    why: str


@dataclass(frozen=True, slots=True)
class Component:
    """``pure``, ``rho``, ``slack``, ``mu`` and the pairs are those of one use; ``count`` uses compose.

    ``pure``: upper bound on epsilon at delta 0; ``pure_at_least``: a log-ratio that neighbours attain jointly with the other components.
    ``slack``: probability of failure to be added to delta. ``mu``: exactly a Gaussian release with that shift. ``over`` dominates both
    directions (the other one is its reverse); ``under`` is a real pair. ``unknown``: why no upper bound is known. ``assumes``: the
    condition that the upper bound rests on and the description leaves open.
    """

    what: str
    count: int = 1
    pure: float = math.inf
    pure_at_least: float = 0.0
    slack: float = 0.0
    rho: float = math.inf
    rho_at_least: float = 0.0
    mu: float | None = None
    over: Pair | None = None
    under: Pair | None = None
    breach: Breach | None = None
    unknown: str = ""
    assumes: str = ""
    how: str = ""


NOTHING = Component("nothing", pure=0.0, rho=0.0)


@dataclass(frozen=True, slots=True)
class Context:
    """``neighbouring``: a relation, or other text, with which nothing that depends on the relation has a model."""

    neighbouring: str
    worst_case: bool = False  # the class of mechanisms counts (composition tools)
    sampled: bool = False  # inside a sampler

    @property
    def replacing(self) -> bool:
        if self.neighbouring not in NEIGHBOURS:
            raise Missing("the neighbouring relation")
        return self.neighbouring in REPLACING


def unattained(c: Component) -> Component:
    """The same upper bounds; no neighbours are known that show anything."""
    return replace(c, under=None, pure_at_least=0.0, rho_at_least=0.0, breach=None)


def void(c: Component, why: str, how: str) -> Component:
    """The same pairs of neighbours; nothing bounds them from above."""
    if c.unknown:
        return c
    return replace(c, unknown=why, how=how, over=None, mu=None, pure=math.inf, rho=math.inf, slack=0.0)


class Missing(Exception):
    """What a model needs and the event does not state."""


def assuming(found: Sequence[Component], *conditions: str) -> list[Component]:
    """The same components, which hold under further conditions."""
    new = [c for c in dict.fromkeys(conditions) if c]

    def joined(old: str) -> str:
        return "; and ".join([*([old] if old else []), *(c for c in new if c not in old)])

    return [replace(c, assumes=joined(c.assumes)) for c in found] if new else list(found)


@dataclass(frozen=True, slots=True)
class Family:
    """Several real pairs of which the best is used; resolved against delta by :func:`dpspec.audit.bounds.lower_pair`."""

    members: tuple[Atoms, ...]

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        return self.members[0].tails(loss)

    def reach(self, tail: float) -> tuple[float, float]:
        return self.members[0].reach(tail)


def event_pairs(chances: Iterable[tuple[float, float]]) -> tuple[Atoms, ...]:
    return tuple(Atoms((p, 1 - p), (q, 1 - q)) for p, q in chances if 0 < q < 1 and 0 < p < 1)


def gaussian_release(what: str, mu: float, count: int = 1) -> Component:
    if mu == 0:
        return Component(what, count, pure=0.0, rho=0.0, mu=0.0)
    if math.isinf(mu):
        return Component(what, count, breach=Breach("DP620", 1.0, f"{what}: no noise for a positive sensitivity"))
    rho = mu * mu / 2
    return Component(what, count, pure_at_least=math.inf, rho=rho, rho_at_least=rho, mu=mu, over=GaussianPair(mu), under=GaussianPair(mu))


def laplace_release(what: str, epsilon: float, count: int = 1) -> Component:
    if epsilon == 0:
        return Component(what, count, pure=0.0, rho=0.0)
    if math.isinf(epsilon):
        return Component(what, count, breach=Breach("DP620", 1.0, f"{what}: no noise for a positive sensitivity"))
    pair = LaplacePair(epsilon) if epsilon < 500 else None
    # KL of the pair is epsilon + exp(-epsilon) - 1, the order-1 value of D_a/a, hence a lower bound on rho
    low = epsilon + math.expm1(-epsilon)
    return Component(what, count, pure=epsilon, pure_at_least=epsilon, rho=epsilon**2 / 2, rho_at_least=low, over=pair, under=pair)
