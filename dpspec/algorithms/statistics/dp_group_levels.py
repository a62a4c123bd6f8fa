"""Counts, sums and means by declared keys (central model).

    release (T_j + Z_j) for every key j, T_j of the records of key j: their number; the sum of the column in whole steps; or, for a mean,
    the pair (sum of c, number of records) with c the column moved to [-1, 1]. The mean is the ratio, put back into the interval.

Sensitivity. A record is in one group or none, so a unit of R records moves the T_j one record at a time, wherever these are, and with M
the largest |step| of the column: the numbers of a count by R, sums by R M, in l1 and in l2 (all may be in one group); a pair by 1 in l_inf
each, so the pairs by R in the sum over groups of the l_inf norm, and by sqrt(2) R in l2. Where a record is replaced, one group loses and
another gains: twice as much in l1, sqrt(2) times in l2 (in one group no more: hi - lo <= 2M for a sum, 2 for c), 2 for pairs. One draw
of all groups: parallel composition is in the norm.

Noise: discrete Laplace for counts and sums, K-norm noise group by group for pairs; discrete Gaussian under rho and mu, or where its mean
error is smaller. How many records a group has is private under every relation, so that a mean is divided by a noisy number; its interval
is that of :mod:`dpspec.algorithms.statistics.dp_column_mean`. Source: Dwork, McSherry, Nissim and Smith 2006; Hardt and Talwar 2010;
Canonne, Kamath and Steinke 2020.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Card, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _grouped as grouped
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.columns import Keys
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.cube_norm import CubeBlocks
from dpspec.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpspec.privacy.schedule import Draw, Tree

#: The noise of a group: of pairs, that of one block.
Joint = CubeBlocks | DiscreteLaplace | DiscreteGaussian

CARD = Card(
    id="dp-group-levels",
    title="Counts, sums and means by declared keys",
    family="statistics",
    task="grouped",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(
        Source("literature", "Dwork, McSherry, Nissim and Smith 2006", "the Laplace mechanism of a histogram"),
        noise.KNORM,
        noise.GAUSSIAN,
    ),
    summary="A count, a sum or a mean for each declared key, in one draw; several rows a unit count as the spec bounds them.",
    needs=(noise.CLIPPED, noise.ONCE),
    tunables={
        "step": Tunable("0", "what summed numbers are multiples of, 1 for integers; 0: as fine as n allows", minimum=0.0, maximum=1e100)
    },
    options=noise.OPTION,
    no_bound="a mean's error depends on how many records its group has; every release states the interval of each number",
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "48*n"},
    spec="specs/statistics/dp-group-levels.dps",
    contributions=True,
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if "cells" not in p.facts:
        return "nobody declared the keys: levels(...) of the column, or dp-group-keys and dp-group-count, which take a delta"
    return grouped.refused(p, t) or noise.refused(p, t)


def mechanism(p: Problem, t: Tunables) -> Joint:
    cells, replaced = int(p.facts["cells"]), p.neighbours != "add-remove"
    unit = grouped.unit(p, t)
    if p.task.what == "mean":
        pure: Any = CubeBlocks((2 if replaced else p.rows) * unit, 2, cells)
        gaussian = DiscreteGaussian((2 if replaced else p.rows * math.sqrt(2.0)) * unit * (1 + 1e-12), 2 * cells)
    else:
        pure = DiscreteLaplace((2 if replaced else p.rows) * unit, cells)
        euclidean = max(math.sqrt(2.0) * unit * (1 + 1e-12), grouped.width(p, t)) if replaced else p.rows * unit
        gaussian = DiscreteGaussian(euclidean, cells)
    found: Any = noise.chosen(p, t, pure, gaussian)
    return found  # type: ignore[no-any-return]


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("groups", mechanism(p, t))


def run(records: Rows, p: Problem[Keys], t: Tunables, release: Door) -> Estimate:
    planned = mechanism(p, t)
    keys, _, codes, written = p.oracle.units(records)
    numbers = grouped.numbers(records, p, t, codes, keys.size)
    drawn = np.asarray(release.draw("groups", numbers.T.reshape(-1), sensitivity=planned.sensitivity), dtype=np.float64)
    values, carried = grouped.answers(drawn.reshape(keys.size, -1), p, t, planned, release.level("groups"))
    return Estimate(np.column_stack([keys, values]), {"name": tuple(written(keys)), **carried})


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Mean absolute error of a group's number, of a mean where groups are alike."""
    return grouped.error(p, t, mechanism(p, t), calibrated.levels["groups"], p.n / p.facts["cells"])
