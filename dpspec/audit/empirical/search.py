"""Search for the pair of neighbouring inputs that tells most, without gradients.

A successive halving: all extremal pairs and some random ones get a few runs, the better third more, and the best are varied. A pair is
scored as an audit would choose its event, with cheap statistics, on runs of the search alone: the final test draws fresh ones, so no
correction for the number of pairs searched is due, only for the number finally tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpspec.audit.empirical.domains import Domain
from dpspec.audit.empirical.events import Aim, choose_event
from dpspec.audit.empirical.samples import as_matrix, encode, fit_coding
from dpspec.audit.empirical.statistics import candidates

Sampler = Callable[[Any, int, np.random.Generator], Any]

_CHEAP = ("coordinates", "summaries", "positions", "atoms", "histogram", "linear")


@dataclass(frozen=True, slots=True)
class Scored:
    """``score``: the epsilon that a test of ``aim.n_test`` runs would be expected to show, cautiously."""

    pair: tuple[Any, Any]
    score: float
    runs: int


def separation(sampler: Sampler, pair: tuple[Any, Any], runs: int, aim: Aim, rng: np.random.Generator) -> float:
    """The predicted lower bound from ``runs`` runs on each input; -inf when nothing tells them apart."""
    a, b = (as_matrix(sampler(x, runs, rng)) for x in pair)
    width = max(a.shape[1], b.shape[1])
    if a.shape[1] != b.shape[1]:
        a, b = (_widen(x, width) for x in (a, b))
    coding = fit_coding(a, b)
    ea, eb = encode(coding, a), encode(coding, b)
    event = choose_event(candidates(_CHEAP, ea, eb), ea, eb, aim)
    return -math.inf if event is None else event.predicted


def _widen(x: Any, width: int) -> Any:
    return np.concatenate([np.asarray(x, dtype=float), np.full((len(x), width - x.shape[1]), np.nan)], axis=1)


def search_pairs(
    sampler: Sampler,
    domain: Domain | Sequence[tuple[Any, Any]],
    aim: Aim,
    *,
    budget: int,
    keep: int,
    rng: np.random.Generator,
) -> list[tuple[Any, Any]]:
    """The ``keep`` most telling pairs. ``domain``: a description, or the pairs to choose from. ``budget``: runs on each input, over all
    pairs."""
    given = isinstance(domain, Sequence)
    pool: list[tuple[Any, Any]] = list(domain) if isinstance(domain, Sequence) else _distinct(domain.extremes())
    if isinstance(domain, Sequence):
        if len(pool) <= keep:
            return pool
    else:
        pool += [domain.random(rng) for _ in range(max(8, len(pool) // 3))]
    rounds = 3
    share = budget / (rounds if given else rounds + 1)
    scored: list[Scored] = []
    looked_for = Aim(None, aim.delta, min(aim.z, 2.5), aim.n_test, aim.gaussian)  # the largest epsilon, whatever is claimed
    for turn in range(rounds):
        runs = int(np.clip(share / len(pool), 200, 20_000))
        scored = sorted((Scored(p, separation(sampler, p, runs, looked_for, rng), runs) for p in pool), key=lambda s: -s.score)
        pool = [s.pair for s in scored[: max(keep, math.ceil(len(scored) / 3))]]
        if not isinstance(domain, Sequence) and turn < rounds - 1:
            pool += [domain.vary(pool[i % max(1, len(pool) // 2)], rng) for i in range(max(2, len(pool)))]
    if not isinstance(domain, Sequence):
        scored = _climb(sampler, domain, scored[: max(keep, 4)], looked_for, int(share), rng)
    return [s.pair for s in scored[:keep]]


def _climb(sampler: Sampler, domain: Domain, scored: list[Scored], aim: Aim, budget: int, rng: np.random.Generator) -> list[Scored]:
    """Variations of the best pair; a better one replaces it."""
    runs = scored[0].runs
    best = list(scored)
    for _ in range(max(0, budget // max(1, runs))):
        trial = domain.vary(best[0].pair, rng)
        if not domain.neighbours(*trial):
            continue
        best = sorted([*best, Scored(trial, separation(sampler, trial, runs, aim, rng), runs)], key=lambda s: -s.score)[: len(scored)]
    return best


def _distinct(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    seen: dict[Any, tuple[Any, Any]] = {}
    for a, b in pairs:
        seen.setdefault((np.shape(a), np.asarray(a).tobytes(), np.shape(b), np.asarray(b).tobytes()), (a, b))
    return list(seen.values())
