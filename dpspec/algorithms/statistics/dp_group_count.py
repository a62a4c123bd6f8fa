"""Counts by key, for keys that nobody declared (central model).

    release the keys whose c_j + Z_j exceeds r, with that number: c_j the records of key j, Z_j discrete Laplace noise cut to [-r, r], or
    discrete Gaussian noise over a threshold.

Sensitivity: a record has one key or none, so where it is there or not one count moves by one; where it is replaced one falls and another
rises: two keys. Where a unit has R records in G groups, G keys move at most, each by ``each`` at most (of a unit so many records count in
one key; R unless the author says otherwise) and all together by R. Which keys there are is private. A key without records can never be
published, so looking only at those that are there tells nothing, and one whose only records come or go is named with probability delta at
most: the whole delta of the budget is spent on that. Mechanisms and proofs: :class:`dpspec.privacy.mechanisms.keys.TruncatedKeys`,
:class:`dpspec.privacy.mechanisms.gaussian_keys.GaussianKeys`. One draw of all keys, at the whole epsilon.

Which noise: that whose threshold a key passes with the smaller count, half of the time; known from the budget, R, G and ``each`` alone.
Source: Desfontaines, Voss, Gipson and Mandayam 2022 (Theorem 1: how often a key may be named at most; Theorem 3: truncated noise does
it): with one key a record no threshold names more, and Laplace noise of all sizes over the smallest threshold that its tail allows names
fewer rare keys. Wilkins, Kifer, Zhang and Karrer 2024: Gaussian noise names more where a unit may have three keys or more, each by few
records. The counts of keys that are named are biased upwards where they are near the threshold.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.columns import Keys
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.discrete import DiscreteLaplace
from dpspec.privacy.mechanisms.gaussian_keys import GaussianKeys
from dpspec.privacy.mechanisms.keys import TruncatedKeys
from dpspec.privacy.schedule import Draw, Tree

SURE = "twice the reach of the noise"
#: Noise of bounded reach, Gaussian noise, or the one that names a key at the smaller count.
OPTION = {"noise": ("auto", "truncated", "gaussian")}
GAUSSIAN = Source("literature", "Wilkins, Kifer, Zhang and Karrer 2024", "Gaussian sparse histogram")

CARD = Card(
    id="dp-group-count",
    title="Counts by key, for keys that nobody declared",
    family="statistics",
    task="grouped",
    models=("central",),
    guarantees=("approx",),
    sources=(
        Source("literature", "Desfontaines, Voss, Gipson and Mandayam 2022", "truncated geometric thresholding", ("1", "3")),
        GAUSSIAN,
    ),
    summary="Names the keys that enough records have, as often as (epsilon, delta) allows, each with a noisy count.",
    needs=(noise.ONCE,),
    options=OPTION,
    tunables={
        "each": Tunable(
            "0", "how many records of a unit count in one key at most; 0: all that count", integer=True, minimum=0, maximum=10**6
        )
    },
    bounds=(
        Bound(
            "largest-error",
            "explicit",
            "upper",
            "2*r",
            "proved",
            SURE,
            conditions="truncated noise, and all records of a unit count",
            where={"r": "reach of the noise, about scale*log(2/delta) + 1"},
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "48*n"},
    spec="specs/statistics/dp-group-count.dps",
    contributions=True,
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.what != "count":
        return "it counts, and adds nothing up"
    return "the keys are declared, and naming them costs nothing" if "cells" in p.facts else None


def mechanism(p: Problem, t: Tunables) -> TruncatedKeys | GaussianKeys:
    delta = math.nextafter(p.facts["delta"], 0.0)  # a double at most the budget's delta, whatever its digits
    if p.neighbours != "add-remove":
        return better(TruncatedKeys(2.0, delta), GaussianKeys(2.0, 2, delta), t, p.facts["epsilon"])
    each, keys = at_most(p, t), min(p.groups, p.rows)
    total = min(p.rows, keys * each)
    return better(TruncatedKeys(float(total), delta, each), GaussianKeys(float(total), keys, delta, each), t, p.facts["epsilon"])


def at_most(p: Problem, t: Tunables) -> int:
    """How many records of a unit count in one key."""
    return min(int(t.each) or p.rows, p.rows)


def better(truncated: TruncatedKeys, gaussian: GaussianKeys, t: Tunables, epsilon: float) -> TruncatedKeys | GaussianKeys:
    """The noise that the author chose, else the one that names a key at the smaller count."""
    if t.noise != "auto":
        return gaussian if t.noise == "gaussian" else truncated
    if gaussian.keys <= 2:  # half as far with one key, and not as far with two, at every delta below a hundredth
        return truncated
    try:
        return gaussian if gaussian.half(epsilon) < truncated.half(epsilon) else truncated
    except ValueError:  # no such noise fits 64 bits
        return truncated


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("keys", mechanism(p, t))


def law(planned: TruncatedKeys | GaussianKeys, level: float) -> noise.Law:
    """Of the noise of a named key: of truncated noise without the cut, so a little wider."""
    if isinstance(planned, TruncatedKeys):
        return noise.law(DiscreteLaplace(planned.sensitivity), level)
    s = planned.scale(level)
    return noise.Law(s * math.sqrt(2 / math.pi), s, math.ceil(s * 1.959964))


def run(records: Rows, p: Problem[Keys], t: Tunables, release: Door) -> Estimate:
    planned, each = mechanism(p, t), at_most(p, t)
    keys, counts, written = p.oracle.tally(records, each if each < p.rows else 0)
    drawn = np.asarray(release.draw("keys", np.array([keys, counts], dtype=np.float64), sensitivity=planned.sensitivity), dtype=np.float64)
    named = np.flatnonzero(drawn)
    kept, found = keys[named], drawn[named]
    of = law(planned, release.level("keys"))
    carried = {
        "name": tuple(written(kept)),
        "standard_error": np.full(found.shape, of.error),
        "low": np.maximum(found - of.half, 1),  # a key that is named has a record
        "high": found + of.half,
    }
    return Estimate(np.column_stack([kept, found]), carried)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """A named key is off by the noise, at most r; one that is not has c + Z <= r, and c <= 2r. Gaussian noise has no such r."""
    planned = mechanism(p, t)
    bounded = isinstance(planned, TruncatedKeys) and at_most(p, t) == p.rows
    return {SURE: 2.0 * planned.reach(calibrated.levels["keys"])[0]} if bounded and isinstance(planned, TruncatedKeys) else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {name: {"r": value / 2} for name, value in explicit_bounds(p, t, calibrated).items()}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Mean absolute error of the count of a key that is common."""
    return law(mechanism(p, t), calibrated.levels["keys"]).mean
