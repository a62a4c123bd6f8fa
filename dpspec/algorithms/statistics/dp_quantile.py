"""Quantiles by private selection on a public grid; several of them by halves (central model).

One quantile p of N records: candidate q of the grid has the score

    min(p N - #{x < q}, #{x <= q} - p N),

which is at least 0 exactly where q is a sample quantile, and minus the rank error elsewhere; permute-and-flip chooses (the exponential
mechanism under rho and mu, where its bounded range costs epsilon^2/8). On tied numbers the right answer is ahead by the way to *both*
ends of its
tie, so it is as sharp as a score by middle ranks, which is wrong where ties are unequal.

Sensitivity of a score: max(p, 1 - p) where a record is there or not (p N and one of the two counts move), 1 where it is replaced; times
the number of records where a unit has several.

Several: the middle one of the shares p_1 < ... < p_m first, then those below among the records below it and those above among the records
above it, and so on: ceil(log2(m + 1)) draws. In a part with the shares (a, b) of all records p becomes (p - a)/(b - a). A record at the
chosen
number itself belongs to both sides, by weights: each number of the grid is cut into ``copies`` equal pieces, a record has the weight
1/copies in each piece of its number, and what is chosen first is a border between two pieces. Weights of a record sum to 1, so all rows
of a
draw together move by at most max over rows of max(p, 1 - p), and by at most twice that where a record is replaced (1 for a single row):
:class:`dpspec.privacy.mechanisms.row_selection.RowSelection`. The last row of each branch takes the score above, inside its part.

The grid: multiples of ``step`` (1 for integers) between the ends; left open about 2^14 numbers, of which whole ones count seven times as
much as
all others together where both ends are whole: columns of integers are common, and for others that costs log(8) of 2 sensitivity/epsilon
ranks.

Source: McSherry and Talwar 2007; McKenna and Sheldon 2020; Kaplan, Schnapp and Stemmer 2022 (by halves, there with the records in parts:
ties
on a cut are theirs to break). The score and the weights are derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Card, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.columns import Quantiles, values
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.row_selection import RowSelection
from dpspec.privacy.schedule import Draw, Sequence, Tree

#: Numbers of a grid that is left open, and the most that a grid may have.
OPEN: Final = 2**14
LARGEST: Final = 2**17
#: The share of whole numbers among pieces, to one.
WHOLE: Final = 7

#: Two records share the budget of several choices: an audit sees a sixteenth of the randomness.
AUDIT_FACTOR = 16

CARD = Card(
    id="dp-quantile",
    title="Quantiles by permute-and-flip, several by halves",
    family="statistics",
    task="quantile",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(
        Source("literature", "McKenna and Sheldon 2020", "permute-and-flip"),
        Source("literature", "Kaplan, Schnapp and Stemmer 2022", "approximate quantiles by halves"),
    ),
    summary="Each quantile is chosen on a public grid by how far its rank is off, ties included; several take log2 as many draws.",
    needs=(noise.CLIPPED,),
    tunables={"step": Tunable("0", "what the numbers are multiples of, 1 for integers; 0: left open", minimum=0.0)},
    no_bound="how far a rank is off depends on the records at the answer; every release states a bound of it",
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "48*131072"},
    reads="sums",
    spec="specs/statistics/dp-quantile.dps",
    contributions=True,
)


@dataclass(frozen=True, slots=True)
class Grid:
    """``numbers``: of the author's units, rising; ``cell``: the number of each piece; ``copies``: pieces of a number that has several."""

    numbers: NDArray[np.float64]
    cell: NDArray[np.int64]
    copies: int


@dataclass(frozen=True, slots=True)
class Part:
    """Between the borders of share ``low`` and of share ``high`` (indices; -1 and m are the ends) the share ``at`` is sought."""

    low: int
    high: int

    @property
    def at(self) -> int:
        return (self.low + self.high) // 2

    @property
    def leaf(self) -> bool:
        return self.high - self.low == 2


def size(p: Problem, t: Tunables) -> int:
    """How many numbers the grid has where the author states the step."""
    return math.floor((p.facts["value_high"] - p.facts["value_low"]) / float(t.step) + 1e-9) + 1


def accepts(p: Problem, t: Tunables) -> str | None:
    if t.step and not 2 <= size(p, t) <= LARGEST:
        return f"step = {t.step:g} gives a grid of {size(p, t):,} numbers; it has 2 to {LARGEST:,}"
    return None


def grid(p: Problem, t: Tunables) -> Grid:
    low, high, several = p.facts["value_low"], p.facts["value_high"], len(fractions(p)) > 1
    if t.step:
        first = math.ceil(low / t.step - 1e-9) * t.step
        numbers = np.clip(first + t.step * np.arange(size(p, t)), low, high)
        copies = max(1, min(64, LARGEST // numbers.size)) if several else 1
        return Grid(numbers, np.repeat(np.arange(numbers.size), copies), copies)
    length = high - low
    if low == math.floor(low) and high == math.floor(high) and 2 <= length <= OPEN / 4:
        finer = math.ceil(OPEN / length)
        numbers = low + np.arange(int(length) * finer + 1) / finer
        pieces = np.where(np.arange(numbers.size) % finer == 0, WHOLE * finer, 1)
        return Grid(numbers, np.repeat(np.arange(numbers.size), pieces), WHOLE * finer)
    copies = 8 if several else 1
    numbers = np.linspace(low, high, OPEN + 1)
    return Grid(numbers, np.repeat(np.arange(numbers.size), copies), copies)


def pieces_of(p: Problem, t: Tunables) -> int:
    return int(grid(p, t).cell.size)


def fractions(p: Problem) -> tuple[Fraction, ...]:
    return tuple(Fraction(p.facts[f"share_{i}"]).limit_denominator(10**6) for i in range(1, int(p.facts["shares"]) + 1))


def levels(m: int) -> list[list[Part]]:
    """The parts of each draw: halves of the shares."""
    found, now = [], [Part(-1, m)]
    while now:
        found.append(now)
        now = [half for part in now for half in (Part(part.low, part.at), Part(part.at, part.high)) if half.high - half.low > 1]
    return found


def relative(part: Part, shares: tuple[Fraction, ...]) -> Fraction:
    """The share within the part."""
    ends = (Fraction(0), *shares, Fraction(1))
    a, b, at = ends[part.low + 1], ends[part.high + 1], ends[part.at + 1]
    return (at - a) / (b - a)


def sensitivity(p: Problem, t: Tunables, parts: list[Part], copies: int) -> float:
    """Of all rows of a draw together, in weights of a piece; quotients of the scores are rounded by less than what is added."""
    steepest = max(max(q, 1 - q) for q in (relative(part, fractions(p)) for part in parts))
    moved = steepest * p.rows if p.neighbours == "add-remove" else Fraction(1) if len(parts) == 1 else 2 * steepest
    return float(moved * copies) * (1 + 2.0**-40) + 2.0**-50 * copies * noise.ROOM * p.n * len(parts)


def mechanisms(p: Problem, t: Tunables) -> list[RowSelection]:
    made = grid(p, t)
    form: Any = "exponential" if "rho" in p.facts or "mu" in p.facts else "flip"
    return [
        RowSelection(sensitivity(p, t, parts, made.copies), int(made.cell.size) + 1, len(parts), form)
        for parts in levels(len(fractions(p)))
    ]


def schedule(p: Problem, t: Tunables) -> Tree:
    draws = tuple(Draw(f"choice-{i}", mechanism) for i, mechanism in enumerate(mechanisms(p, t), 1))
    return draws[0] if len(draws) == 1 else Sequence(draws)


def run(records: Rows, p: Problem[Quantiles], t: Tunables, release: Door) -> Estimate:
    made, shares = grid(p, t), fractions(p)
    counts = np.zeros(made.numbers.size, dtype=np.int64)
    for block in values(p.oracle.column, records):
        counts += np.bincount(nearest(block, made), minlength=counts.size)
    weights, table = running(counts, made), Borders(made)
    borders = {-1: 0, len(shares): int(made.cell.size)}
    answers = np.zeros(len(shares))
    for i, (parts, planned) in enumerate(zip(levels(len(shares)), mechanisms(p, t), strict=True), 1):
        rows = [scores(weights, table, borders[q.low], borders[q.high], relative(q, shares), leaf=q.leaf) for q in parts]
        chosen = release.draw(f"choice-{i}", rows, sensitivity=planned.sensitivity)
        for part, at in zip(parts, np.ravel(chosen), strict=True):
            borders[part.at] = borders[part.low] + int(at)
            answers[part.at] = made.numbers[made.cell[min(borders[part.at], made.cell.size - 1)]]
    return Estimate(np.maximum.accumulate(answers), told(p, t, release, made))


def nearest(numbers: NDArray[np.float64], made: Grid) -> NDArray[np.int64]:
    """The number of the grid of each record."""
    first, last = made.numbers[0], made.numbers[-1]
    at = np.rint((numbers - first) / (last - first) * (made.numbers.size - 1))
    return np.asarray(np.clip(at, 0, made.numbers.size - 1), dtype=np.int64)


def running(counts: NDArray[np.int64], made: Grid) -> NDArray[np.int64]:
    """Weights before each border between pieces: a record has the weight ``copies`` in all."""
    pieces = np.bincount(made.cell, minlength=counts.size)
    return np.concatenate([[0], np.cumsum((counts * (made.copies // pieces))[made.cell])])


class Borders:
    """Of each piece the first and the last border of its number."""

    __slots__ = ("first", "last")

    def __init__(self, made: Grid) -> None:
        ends = np.cumsum(np.bincount(made.cell, minlength=made.numbers.size))
        self.last = ends[made.cell]
        self.first = np.concatenate([[0], ends[:-1]])[made.cell]


def scores(weights: NDArray[np.int64], table: Borders, start: int, stop: int, share: Fraction, *, leaf: bool) -> NDArray[np.float64]:
    """Of the borders from ``start`` to ``stop``, for a part that is cut again; of its pieces for a leaf. At least one."""
    a, b = share.numerator, share.denominator
    wanted = float(share) * float(weights[stop] - weights[start]) if b > 10**6 else a * (weights[stop] - weights[start]) / b
    if not leaf or start == stop:
        return np.asarray(-np.abs(wanted - (weights[start : stop + 1] - weights[start])), dtype=np.float64)
    below = weights[np.maximum(table.first[start:stop], start)] - weights[start]
    at = weights[np.minimum(table.last[start:stop], stop)] - weights[start]
    return np.asarray(np.minimum(wanted - below, at - wanted), dtype=np.float64)


def told(p: Problem, t: Tunables, release: Any, made: Grid) -> dict[str, Any]:
    """``rank_error``, of some number that is at most ``rank_within`` away: records are counted at the nearest number of the grid."""
    near = 0.0 if t.step else float(np.max(np.diff(made.numbers))) / 2
    count = len(fractions(p))
    return {"rank_error": np.full(count, rank_error(p, t, release) / p.n), "rank_within": np.full(count, near)}


def rank_error(p: Problem, t: Tunables, release: Any) -> float:
    """How many records the rank of any answer is off, but for a share OUTSIDE of all releases: on each level every chosen score is within
    2 sensitivity/epsilon log(pieces rows/share) of the best, which is 0 at least but for one piece."""
    made, total = grid(p, t), 0.0
    drawn = mechanisms(p, t)
    for i, planned in enumerate(drawn, 1):
        outside = noise.OUTSIDE / len(drawn) / planned.rows
        total += release.scale(f"choice-{i}") * math.log(made.cell.size / outside) / made.copies + 1
    return total


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """As a share of the records."""
    return rank_error(p, t, calibrated) / 3 / p.n
