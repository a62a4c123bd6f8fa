"""A histogram over public cells (central model).

    release c + Z, c_j the number of records in cell j, Z_j independent discrete Laplace noise of P(z) ~ exp(-epsilon |z|/D1), or discrete
    Gaussian noise of l2 sensitivity D2.

Sensitivity: a record is in one cell or in none, so where it is there or not c moves by one unit vector: D1 = D2 = 1. Where it is replaced
(by a row of zeros too, which may be in a cell) one cell loses and another gains: D1 = 2, D2 = sqrt(2), not 2. Where a unit has R records
all of them may be in one cell: D1 = D2 = R. One draw of all cells.

Which of the two: the smaller mean error a cell, at the budget; Laplace at pure epsilon, Gaussian under rho and mu. Source: Ghosh,
Roughgarden and
Sundararajan 2009; Canonne, Kamath and Steinke 2020. Counts may come out negative and do not add up to anything: that keeps them unbiased.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Problem, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.columns import Cells
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpspec.privacy.schedule import Draw, Tree

EACH = "the mean error of one cell"
ALL = "the exact quantile of the noise, a union over the cells"

CARD = Card(
    id="dp-histogram",
    title="A histogram over declared cells",
    family="statistics",
    task="histogram",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(noise.GEOMETRIC, noise.GAUSSIAN),
    summary="Counts of declared levels, or between public edges, plus discrete Laplace or discrete Gaussian noise, whichever is smaller.",
    needs=(noise.ONCE,),
    options=noise.OPTION,
    bounds=(
        Bound(
            "absolute-error",
            "explicit",
            "upper",
            "q",
            "proved",
            EACH,
            where={"q": "the mean of |noise|, about 2/epsilon"},
        ),
        Bound(
            "largest-error",
            "explicit",
            "upper",
            "q",
            "proved",
            ALL,
            probability="0.95",
            where={"q": "the quantile of the noise at 0.05 over the number of cells, about scale*log(40*cells)"},
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "24*65536 + 8*cells"},
    reads="sums",
    spread=True,
    spec="specs/statistics/dp-histogram.dps",
    contributions=True,
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return noise.refused(p, t)


def mechanism(p: Problem, t: Tunables) -> noise.Noise:
    replaced, cells = p.neighbours != "add-remove", int(p.facts["cells"])
    moved = 2.0 if replaced else float(p.rows)
    euclidean = math.nextafter(math.sqrt(2.0), 2.0) if replaced else moved
    return noise.chosen(p, t, DiscreteLaplace(moved, cells), DiscreteGaussian(euclidean, cells))


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("counts", mechanism(p, t))


def run(records: Rows, p: Problem[Cells], t: Tunables, release: Door) -> Estimate:
    planned = mechanism(p, t)
    drawn = release.draw("counts", p.oracle.counts(records), sensitivity=planned.sensitivity)
    found, law = np.asarray(drawn, dtype=np.float64), noise.law(planned, release.level("counts"))
    low, high = np.maximum(found - law.half, 0), np.maximum(found + law.half, 0)
    return Estimate(found, {"standard_error": np.full(found.shape, law.error), "low": low, "high": high})


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    planned, level = mechanism(p, t), calibrated.levels["counts"]
    return {EACH: noise.law(planned, level).mean, ALL: noise.law(planned, level, noise.OUTSIDE / planned.size).half}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    planned, level = mechanism(p, t), calibrated.levels["counts"]
    return {EACH: {"q": noise.law(planned, level).mean}, ALL: {"q": noise.law(planned, level, noise.OUTSIDE / planned.size).half}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Mean absolute error a cell."""
    return noise.law(mechanism(p, t), calibrated.levels["counts"]).mean
