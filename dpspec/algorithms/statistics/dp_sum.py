"""A sum with the noise of least mean error (central model).

    release step*(k_1 + ... + k_m + Z), k_i the i-th number of the column in whole steps between its public ends; staircase noise Z at pure
    epsilon, discrete Gaussian noise under rho and mu.

Sensitivity, in steps and exact, for ends lo <= k_i <= hi: max(|lo|, |hi|) where a record is there or not, hi - lo where it is replaced (a
row of zeros is a record of the interval); times the number of records where a unit has several. One draw. The step is the author's,
``step = 1`` for a column of integers, whose sum is then exact but for the noise; left open it is a power of two so fine that n roundings
stay far below the noise.

Source: Geng and Viswanath 2014: staircase noise minimises the mean absolute error at a given sensitivity (4 % below Laplace at epsilon 1, a
factor e^(epsilon/2)/epsilon at large epsilon); with sensitivity 1 it is discrete Laplace noise. With a delta it is compared with Gaussian
noise
by mean error.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Problem, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.columns import ROWS, Column
from dpspec.models.door import Door
from dpspec.models.rows import Rows, each
from dpspec.privacy.mechanisms.discrete import DiscreteGaussian
from dpspec.privacy.mechanisms.staircase import Staircase
from dpspec.privacy.schedule import Draw, Tree

HALF = "the exact quantile of the noise, and the rounding to steps"

CARD = Card(
    id="dp-sum",
    title="A sum with staircase noise",
    family="statistics",
    task="sum",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(noise.STAIRCASE, noise.GAUSSIAN),
    summary="The sum of a column in whole steps plus staircase noise (discrete Gaussian under rho and mu): exact integers throughout.",
    needs=(noise.CLIPPED,),
    tunables={"step": Tunable("0", "what numbers are multiples of, 1 for integers; 0: as fine as n allows", minimum=0.0, maximum=1e100)},
    options=noise.OPTION,
    bounds=(
        Bound(
            "absolute-error",
            "explicit",
            "upper",
            "q",
            "proved",
            HALF,
            probability="0.95",
            where={"q": "the 0.95 quantile of the noise and the rounding, about (value_high - value_low)*log(40)/epsilon"},
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "24*65536"},
    reads="sums",
    spread=True,
    spec="specs/statistics/dp-sum.dps",
    contributions=True,
)


def step(p: Problem, t: Tunables) -> float:
    return float(t.step) or noise.fine(p.n, largest(p))


def largest(p: Problem) -> float:
    return max(abs(p.facts["value_low"]), abs(p.facts["value_high"]))


def ends(p: Problem, t: Tunables) -> tuple[int, int]:
    """The interval in whole steps."""
    s = step(p, t)
    return math.ceil(p.facts["value_low"] / s - 1e-9), math.floor(p.facts["value_high"] / s + 1e-9)


def accepts(p: Problem, t: Tunables) -> str | None:
    if "auto" in p.facts:
        return "the bounds of its column are auto, and it has to know them: dp-auto-bounds finds them"
    if not 1e-150 < largest(p) < 1e150:
        return "its interval has ends beyond 1e150, or below 1e-150: declare it in other units"
    if t.step and largest(p) / t.step * noise.ROOM * p.n > noise.MOST:
        return f"sums of n = {p.n} numbers in steps of {t.step:g} do not fit: a larger step"
    low, high = ends(p, t)
    if high <= low:
        return f"no two multiples of step = {step(p, t):g} lie in [{p.facts['value_low']:g}, {p.facts['value_high']:g}]"
    return noise.refused(p, t)


def sensitivity(p: Problem, t: Tunables) -> float:
    """In steps."""
    low, high = ends(p, t)
    return float(p.rows * max(abs(low), abs(high)) if p.neighbours == "add-remove" else high - low)


def mechanism(p: Problem, t: Tunables) -> noise.Noise:
    moved = sensitivity(p, t)
    return noise.chosen(p, t, Staircase(moved), DiscreteGaussian(moved))


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("sum", mechanism(p, t))


def law(p: Problem, t: Tunables, level: float) -> noise.Law:
    """Of the released number; where the step was left open, n roundings are counted in."""
    found = noise.law(mechanism(p, t), level)
    rounding = 0.0 if t.step else p.n / 2
    return noise.Law(found.mean + rounding, found.error, found.half + rounding).times(step(p, t))


def run(records: Rows, p: Problem[Column], t: Tunables, release: Door) -> Estimate:
    s, (low, high) = step(p, t), ends(p, t)
    column = p.oracle

    def part(x: Any, y: Any) -> int:
        return noise.added(column, x, y, s, low, high)

    total = sum(each(records, ROWS, part))
    drawn = release.draw("sum", np.array([noise.cut(total)], dtype=np.int64), sensitivity=sensitivity(p, t))
    found, error = float(np.ravel(drawn)[0]) * s, law(p, t, release.level("sum"))
    return Estimate(np.array([found]), {"standard_error": error.error, "low": found - error.half, "high": found + error.half})


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    return {HALF: law(p, t, calibrated.levels["sum"]).half}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {HALF: {"q": law(p, t, calibrated.levels["sum"]).half}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Mean absolute error."""
    return law(p, t, calibrated.levels["sum"]).mean
