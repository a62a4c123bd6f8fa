"""A sum or a mean of a column whose bounds nobody declared (central model).

    1. release how many numbers lie in each of the cells (2^(j-1), 2^j], their negatives, and about 0, j = -30, ..., 50, with noise; of the
       cells whose noisy count exceeds t the outermost two give ends [a, b];
    2. release the sum (the mean) of the numbers clipped into [a, b], as for declared bounds.

t is exceeded by the noise of no empty cell but with probability 1e-6. No cell above it: [-1, 1]. Records in a cell of about 2 t records
or fewer at an end may be clipped, which biases the answer towards the middle; the interval is that of the noise, for the clipped records.

Sensitivity. A number is in one cell: the counts move by one unit vector where a record is there or not, by two where it is replaced (2 in
l1, sqrt(2) in l2), by R in l1 and l2 where a unit has R records. The second draw is in units of what was found: v/max(|a|, |b|) in steps
of 1/K under add-remove, a sum that moves by K a record; c = (2v - a - b)/(b - a), which moves by 2K where a record is replaced; for a
mean with a private number of records (sum of c, how many), which moves by K in l_inf. So it is the same whatever [a, b] was released, and
the two draws compose.

``finding`` is the share of the budget for the first draw. Sources: Wilson and others 2020 (section 5.1.1, bounds from a histogram of powers
of two, with its threshold); Hardt and Talwar 2010 for the pair.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Card, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _moments as moments
from dpspec.algorithms.statistics import _noise as noise
from dpspec.algorithms.statistics import dp_column_mean
from dpspec.models.columns import Column, values
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.cube_norm import CubeNorm
from dpspec.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpspec.privacy.mechanisms.staircase import Staircase
from dpspec.privacy.schedule import Draw, Sequence, Tree

#: Exponents of the cells, and how many cells there are: those of negative numbers, the one about 0, those of positive numbers.
FIRST: Final = -30
LAST: Final = 50
SIZES: Final = LAST - FIRST + 1
CELLS: Final = 2 * SIZES + 1
#: With this probability an empty cell is taken for one with records.
MISTAKEN: Final = 1e-6

CARD = Card(
    id="dp-auto-bounds",
    title="A sum or a mean between bounds that are found privately",
    family="statistics",
    task="ranged",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(
        Source("literature", "Wilson and others 2020", "bounds from a histogram of powers of two"),
        noise.STAIRCASE,
        noise.KNORM,
        noise.GAUSSIAN,
    ),
    summary="A noisy histogram over powers of two gives the ends of a column; its clipped sum or mean follows, both paid in the plan.",
    needs=(noise.CLIPPED,),
    tunables={"finding": Tunable("1/4", "the share of the budget that finds the bounds", minimum=0.01, maximum=0.99)},
    no_bound="how much clipping moves an answer depends on the records near the ends; every release states its interval and the ends",
    cost={"gradients": "0", "rounds": "2", "memory_bytes": "64*65536"},
    spec="specs/statistics/dp-auto-bounds.dps",
    contributions=True,
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return None if "auto" in p.facts else "the bounds of its column are declared, and finding them would cost something"


def gaussian(p: Problem) -> bool:
    return "rho" in p.facts or "mu" in p.facts


def counts(p: Problem) -> noise.Noise:
    """The noise of the cells."""
    replaced = p.neighbours != "add-remove"
    if gaussian(p):
        return DiscreteGaussian(math.nextafter(math.sqrt(2.0), 2.0) if replaced else float(p.rows), CELLS)
    return DiscreteLaplace(2.0 if replaced else float(p.rows), CELLS)


def answer(p: Problem) -> noise.Noise:
    """The noise of the second draw, in steps."""
    k = moments.steps(p)
    if p.neighbours != "add-remove":
        return DiscreteGaussian(2.0 * k) if gaussian(p) else Staircase(2.0 * k)
    moved = float(p.rows * k)
    if p.task.what == "sum":
        return DiscreteGaussian(moved) if gaussian(p) else Staircase(moved)
    return DiscreteGaussian(moved * math.sqrt(2.0) * (1 + 1e-12), 2) if gaussian(p) else CubeNorm(moved, 2)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Sequence((Draw("cells", counts(p), weight=float(t.finding)), Draw("answer", answer(p), weight=1 - float(t.finding))))


def cells(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The cell of each finite number, rising with it; the one about 0 is SIZES."""
    fraction, power = np.frexp(np.abs(numbers))
    j = np.where(fraction == 0.5, power - 1, power).astype(np.int64)
    size = np.where((j < FIRST) | (numbers == 0), 0, np.minimum(j, LAST) - FIRST + 1)
    return np.asarray(SIZES + np.sign(numbers).astype(np.int64) * size)


def ends(cell: int) -> tuple[float, float]:
    size = abs(cell - SIZES)
    if size == 0:
        return -(2.0 ** (FIRST - 1)), 2.0 ** (FIRST - 1)
    low, high = 2.0 ** (size + FIRST - 2), 2.0 ** (size + FIRST - 1)
    return (low, high) if cell > SIZES else (-high, -low)


def found(noisy: NDArray[np.float64], threshold: float) -> tuple[float, float]:
    """The ends that the noisy counts give."""
    above = np.flatnonzero(noisy > threshold)
    return (ends(int(above[0]))[0], ends(int(above[-1]))[1]) if above.size else (-1.0, 1.0)


def run(records: Rows, p: Problem[Column], t: Tunables, release: Door) -> Estimate:
    first, second, k = counts(p), answer(p), moments.steps(p)
    held = np.zeros(CELLS, dtype=np.int64)
    for block in values(p.oracle, records):
        held += np.bincount(cells(block), minlength=CELLS)
    noisy = np.asarray(release.draw("cells", held, sensitivity=first.sensitivity), dtype=np.float64)
    a, b = found(noisy, noise.law(first, release.level("cells"), 2 * MISTAKEN / CELLS).half)
    total, size = 0, 0
    middle, half = a / 2 + b / 2, b / 2 - a / 2
    largest = max(abs(a), abs(b))
    scaled = p.task.what == "sum" and p.neighbours == "add-remove"
    for block in values(p.oracle, records):
        clipped = np.clip(block, a, b)
        c = np.clip(clipped / largest if scaled else (clipped - middle) / half, -1.0, 1.0)
        total, size = total + int(noise.steps(c * k, 1.0, -k, k).sum()), size + k * block.size
    pair = p.neighbours == "add-remove" and not scaled
    numbers = np.array([noise.cut(v) for v in ((size, total) if pair else (total,))], dtype=np.int64)
    drawn = np.ravel(np.asarray(release.draw("answer", numbers, sensitivity=second.sensitivity), dtype=np.float64)) / k
    level, beside = release.level("answer"), {"found_low": a, "found_high": b}
    if scaled:
        law = noise.law(second, level).times(largest / k)
        value, near = float(drawn[0]) * largest, law.half + p.n / 2 * largest / k
        return Estimate(np.array([value]), {"standard_error": law.error, "low": value - near, "high": value + near, **beside})
    if pair:
        m, error, low, high = dp_column_mean.ratio(float(drawn[1]), float(drawn[0]), second, level, k)
    else:
        m, error, low, high = dp_column_mean.over_n(float(drawn[0]), p, second, level)
    if p.task.what == "mean":
        m, low, high = (min(max(v, -1.0), 1.0) for v in (m, low, high))
        carried = {"standard_error": half * error, "low": middle + half * low, "high": middle + half * high}
        return Estimate(np.array([middle + half * m]), {**carried, **beside})
    carried = {"standard_error": p.n * half * error, "low": p.n * (middle + half * low), "high": p.n * (middle + half * high)}
    return Estimate(np.array([p.n * (middle + half * m)]), {**carried, **beside})
