"""Counts by key, for keys that nobody declared (central model).

    release the keys whose c_j + Z_j exceeds r, with that number: c_j the records of key j, Z_j discrete Laplace noise cut to [-r, r].

Sensitivity: a record has one key or none, so where it is there or not one count moves by one; where it is replaced one falls and another
rises: two keys. Where a unit has R records, the counts move by R in all, and all of it may be one key's. Which keys there are is private.
A key without records can never be published, so looking only at those that are there tells nothing, and one whose only record comes or
goes is named with probability delta a moved key: the whole delta of the budget is spent on that. Mechanism and proof:
:class:`dpspec.privacy.mechanisms.keys.TruncatedKeys`. One draw of all keys, at the whole epsilon.

Source: Desfontaines, Voss, Gipson and Mandayam 2022 (Theorem 1: how often a key may be named at most; Theorem 3: truncated noise does
it). With one key a record no threshold names more: Laplace noise of all sizes over the smallest threshold that its tail allows names
fewer rare keys, and Gaussian noise wins only where a unit may have many keys. The counts of keys that are named are biased upwards where
they are near r.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.columns import Keys
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.discrete import DiscreteLaplace
from dpspec.privacy.mechanisms.keys import TruncatedKeys
from dpspec.privacy.schedule import Draw, Tree

SURE = "twice the reach of the noise"

CARD = Card(
    id="dp-group-count",
    title="Counts by key, for keys that nobody declared",
    family="statistics",
    task="grouped",
    models=("central",),
    guarantees=("approx",),
    sources=(Source("literature", "Desfontaines, Voss, Gipson and Mandayam 2022", "truncated geometric thresholding", ("1", "3")),),
    summary="Names the keys that enough records have, as often as (epsilon, delta) allows, each with a noisy count.",
    needs=(noise.ONCE,),
    bounds=(
        Bound(
            "largest-error",
            "explicit",
            "upper",
            "2*r",
            "proved",
            SURE,
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


def mechanism(p: Problem) -> TruncatedKeys:
    # a double at most the budget's delta, whatever its digits
    delta = math.nextafter(p.facts["delta"], 0.0)
    return TruncatedKeys(float(p.rows), delta, p.rows) if p.neighbours == "add-remove" else TruncatedKeys(2.0, delta)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("keys", mechanism(p))


def run(records: Rows, p: Problem[Keys], t: Tunables, release: Door) -> Estimate:
    planned = mechanism(p)
    keys, counts, written = p.oracle.tally(records)
    drawn = np.asarray(release.draw("keys", np.array([keys, counts], dtype=np.float64), sensitivity=planned.sensitivity), dtype=np.float64)
    named = np.flatnonzero(drawn)
    kept, found = keys[named], drawn[named]
    law = noise.law(DiscreteLaplace(planned.sensitivity), release.level("keys"))  # without the cut, so a little wider
    carried = {
        "name": tuple(written(kept)),
        "standard_error": np.full(found.shape, law.error),
        "low": np.maximum(found - law.half, 1),  # a key that is named has a record
        "high": found + law.half,
    }
    return Estimate(np.column_stack([kept, found]), carried)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """A named key is off by the noise, at most r; one that is not has c + Z <= r, and c <= 2r."""
    return {SURE: 2.0 * mechanism(p).reach(calibrated.levels["keys"])[0]}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {SURE: {"r": mechanism(p).reach(calibrated.levels["keys"])[0]}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Mean absolute error of the count of a key that is common."""
    return noise.law(DiscreteLaplace(mechanism(p).sensitivity), calibrated.levels["keys"]).mean
