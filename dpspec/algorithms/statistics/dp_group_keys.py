"""Sums and means by key, for keys that nobody declared (central model).

    name the keys whose number of units u_j + Z_j exceeds r, Z_j discrete Laplace noise cut to [-r, r], at a share of epsilon and the
    whole delta; of a named key release T_j + Y_j with the rest of epsilon: T_j the sum of the column in whole steps, or (sum of c, number
    of records).

Sensitivity. A unit is counted once in each of its groups, at most G of them (2 where a record is replaced), so u moves by one in G keys.
Its R records move the T_j by R M in all in l1 (M the largest |step|), and pairs by R in the sum over keys of the l_inf norm; twice that
where a record is replaced. Mechanism and proof: :class:`dpspec.privacy.mechanisms.keys.KeyedSums`. Names are chosen by units and not by
rows, since a unit may move a key by R rows and by one unit only.

The names may come from Gaussian noise over a threshold as well (:class:`dpspec.privacy.mechanisms.keys.GaussianKeyedSums`): which noise,
that whose threshold a key passes with fewer units, is known from the budget and G.

``naming``, the share of epsilon for names, is 1/2 unless the author says otherwise: no split is best for all records. Source: Desfontaines,
Voss, Gipson and Mandayam 2022; Hardt and Talwar 2010. Intervals are those of the noise of a key that is named.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Card, Problem, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _grouped as grouped
from dpspec.algorithms.statistics import _noise as noise
from dpspec.algorithms.statistics.dp_group_count import CARD as COUNTS
from dpspec.algorithms.statistics.dp_group_count import OPTION, better
from dpspec.models.columns import Keys
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.cube_norm import CubeNorm
from dpspec.privacy.mechanisms.discrete import DiscreteLaplace
from dpspec.privacy.mechanisms.gaussian_keys import GaussianKeys
from dpspec.privacy.mechanisms.keys import GaussianKeyedSums, KeyedSums, TruncatedKeys
from dpspec.privacy.schedule import Draw, Tree

#: For the empirical audit: so many records that a key is named, and a factor at which the noise of the half epsilon shows.
AUDIT_RECORDS, AUDIT_FACTOR = 40, 16

CARD = Card(
    id="dp-group-keys",
    title="Sums and means by key, for keys that nobody declared",
    family="statistics",
    task="grouped",
    models=("central",),
    guarantees=("approx",),
    sources=(*COUNTS.sources, noise.KNORM),
    summary="Names the keys that enough units have, each with a noisy sum or mean of a column; one draw at one (epsilon, delta).",
    needs=(noise.CLIPPED, noise.ONCE),
    options=OPTION,
    tunables={
        "naming": Tunable("1/2", "the share of epsilon that chooses which keys are named", minimum=0.01, maximum=0.99),
        "step": Tunable("0", "what summed numbers are multiples of, 1 for integers; 0: as fine as n allows", minimum=0.0, maximum=1e100),
    },
    no_bound="whether a key is named depends on how many units have it; every release states the interval of each number",
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "96*n"},
    spec="specs/statistics/dp-group-keys.dps",
    contributions=True,
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.what == "count":
        return "a count by key names it at the whole epsilon: dp-group-count"
    if "cells" in p.facts:
        return "the keys are declared, and naming them costs nothing"
    return grouped.refused(p, t)


def mechanism(p: Problem, t: Tunables) -> KeyedSums:
    replaced = p.neighbours != "add-remove"
    moved = (2 if replaced else p.rows) * grouped.unit(p, t)
    keys = 2.0 if replaced else float(p.groups)
    delta, naming = math.nextafter(p.facts["delta"], 0.0), float(t.naming)
    names = better(TruncatedKeys(keys, delta), GaussianKeys(keys, int(keys), delta), t, p.facts["epsilon"] * naming)
    kind = GaussianKeyedSums if isinstance(names, GaussianKeys) else KeyedSums
    return kind(moved, keys, 2 if p.task.what == "mean" else 1, delta, naming)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("keys", mechanism(p, t))


def law(p: Problem, t: Tunables) -> Any:
    """The noise of a named key's numbers; one number has discrete Laplace noise."""
    planned = mechanism(p, t)
    return CubeNorm(planned.sensitivity, 2) if planned.width == 2 else DiscreteLaplace(planned.sensitivity)


def run(records: Rows, p: Problem[Keys], t: Tunables, release: Door) -> Estimate:
    planned = mechanism(p, t)
    keys, counts, codes, written = p.oracle.units(records)
    there = np.flatnonzero(counts)
    numbers = grouped.numbers(records, p, t, codes, keys.size)
    handed = np.vstack([keys[there], counts[there], numbers[:, there]]).astype(np.float64)
    drawn = np.asarray(release.draw("keys", handed, sensitivity=planned.sensitivity), dtype=np.float64).reshape(1 + planned.width, -1)
    named = np.flatnonzero(drawn[0])
    kept = keys[there][named]
    rest = release.level("keys") * (1 - planned.share)
    values, carried = grouped.answers(drawn[1:, named].T, p, t, law(p, t), rest)
    return Estimate(np.column_stack([kept, values]), {"name": tuple(written(kept)), **carried})


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Mean absolute error of a named key's number, of a mean where a key has a hundredth of the records."""
    return grouped.error(p, t, law(p, t), calibrated.levels["keys"] * (1 - float(t.naming)), p.n / 100)
