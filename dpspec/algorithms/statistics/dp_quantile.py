"""Quantiles by private selection on a public grid; several of them in one joint choice, or by halves (central model).

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

Several in one choice (``several = joint``): of all rising tuples of borders one, by the exponential mechanism with

    u(c) = -sum_j |N_j - a_j N|,  N_j the weight between c_(j-1) and c_j, a_j = p_j - p_(j-1), p_0 = 0, p_(m+1) = 1:

:class:`dpspec.privacy.mechanisms.joint_selection.JointSelection`. A record adds r_j to N_j, r >= 0 with sum 1, and a_j to what is wanted,
so u moves by at most sum_j |r_j - a_j| <= 2 (1 - min a): convex in r, so the most is at a corner, 1 - a_j + sum of the others. A replaced
record leaves N and moves one unit of weight: by 2 at most. Both are attained, upwards and downwards. One draw has the whole budget. Sums
of all |N_j - a_j N| bound the rank of each answer: sum_j (N_j - a_j N) = 0, so no partial sum is above half of them.

``several = auto`` compares :func:`typical` errors, of public facts alone. A border falls between two pieces, so an answer inside a tie is
off by a part of a piece, which is nothing to it, but lets its neighbours lean on it: of many records with little noise, halves are
better.

The grid: multiples of ``step`` (1 for integers) between the ends; left open about 2^14 numbers, of which whole ones count seven times as
much as
all others together where both ends are whole: columns of integers are common, and for others that costs log(8) of 2 sensitivity/epsilon
ranks.

Source: McSherry and Talwar 2007; McKenna and Sheldon 2020; Gillenwater, Joseph and Kulesza 2021 (joint, there between sorted records);
Kaplan, Schnapp and Stemmer 2022 (by halves, there with the records in parts: ties on a cut are theirs to break). The score and the
weights are derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Card, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.columns import Quantiles, values
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.joint_selection import JointSelection
from dpspec.privacy.mechanisms.row_selection import RowSelection
from dpspec.privacy.schedule import Draw, Sequence, Tree

#: Numbers of a grid that is left open, and the most that a grid may have.
OPEN: Final = 2**14
LARGEST: Final = 2**17
#: A joint choice: numbers of a grid that is left open, those of a stated step, pieces of a number at most, those of a whole number of a
#: grid that is left open (about a fifth of what lies between two of 0 to 100: more would draw other numbers to them), quantiles at most.
OPEN_JOINT: Final = 2**14
JOINT: Final = 2**14
COPIES: Final = 64
WHOLE_COPIES: Final = 32
MANY: Final = 16
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
        Source("literature", "Gillenwater, Joseph and Kulesza 2021", "joint exponential mechanism"),
        Source("literature", "Kaplan, Schnapp and Stemmer 2022", "approximate quantiles by halves"),
    ),
    summary="Each quantile is chosen on a public grid by how far its rank is off, ties included; several in one choice or by halves.",
    needs=(noise.CLIPPED,),
    tunables={"step": Tunable("0", "what the numbers are multiples of, 1 for integers; 0: left open", minimum=0.0)},
    options={"several": ("auto", "joint", "halves")},
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
    if t.several == "joint" and (problem := no_joint(p, t)) is not None:
        return f"several = joint {problem}; several = halves serves it"
    return None


def no_joint(p: Problem, t: Tunables) -> str | None:
    """Why there is no joint choice."""
    if not 2 <= len(fractions(p)) <= MANY:
        return f"chooses 2 to {MANY} quantiles, not {len(fractions(p))}"
    if min(gaps(p)) <= 0:
        return "needs shares that are a millionth apart"
    if t.step and size(p, t) > JOINT:
        return f"has a grid of at most {JOINT:,} numbers, and step = {t.step:g} gives {size(p, t):,}"
    try:
        selection(p, joint_grid(p, t))
    except ValueError as problem:
        return f"is not for these records: {problem}"
    return None


def joint(p: Problem, t: Tunables) -> bool:
    """Whether one joint choice is made: as the author says, or by the smaller :func:`typical` error."""
    if t.several != "auto":
        return bool(t.several == "joint")
    return no_joint(p, t) is None and typical(p, t, joint=True) <= typical(p, t, joint=False)


def resolved_options(p: Problem, t: Tunables) -> dict[str, str]:
    return {"several": "joint" if joint(p, t) else "halves"}


def typical(p: Problem, t: Tunables, *, joint: bool) -> float:
    """About the records that a rank is off, to choose by: errors as large as the temperature, which add up in squares over the levels, or
    over the intervals to both sides; and in a joint choice a fourth of a piece of a number that a tenth of the records share, half of that
    where no ``step`` says that there are ties."""
    epsilon, square = p.facts["epsilon"], False
    if "rho" in p.facts or "mu" in p.facts:
        epsilon, square = math.sqrt(8 * p.facts["rho"]) if "rho" in p.facts else 2 * p.facts["mu"], True
    shares = fractions(p)
    if joint:
        k = len(shares)
        apart = sum(math.sqrt(j * (k + 1 - j) / (k + 1)) for j in range(1, k + 1)) / k
        made = joint_grid(p, t)
        return float(2 * moved_jointly(p) / epsilon * apart + p.n / ((40 if t.step else 80) * made.copies))
    parts = levels(len(shares))
    each = math.sqrt(len(parts)) if square else len(parts)
    squares, found = 0.0, 0.0
    for level in parts:
        squares += (2 * float(moved(p, level)) * each / epsilon) ** 2
        found += math.sqrt(squares) * len(level)
    return found / len(shares)


def gaps(p: Problem) -> tuple[float, ...]:
    """The shares of the intervals between the quantiles."""
    ends = (Fraction(0), *fractions(p), Fraction(1))
    return tuple(float(b - a) for a, b in pairwise(ends))


def moved_jointly(p: Problem) -> float:
    """How far one unit moves u, in records."""
    return p.rows * (2 * (1 - min(gaps(p))) if p.neighbours == "add-remove" else 2.0)


def joint_grid(p: Problem, t: Tunables) -> Grid:
    low, high = p.facts["value_low"], p.facts["value_high"]
    if t.step:
        numbers = multiples(p, t)
        copies = max(1, min(COPIES, JOINT // numbers.size))
        return Grid(numbers, np.repeat(np.arange(numbers.size), copies), copies)
    length = high - low
    if low == math.floor(low) and high == math.floor(high) and 2 <= length <= OPEN_JOINT / 4:
        finer, copies = math.ceil(OPEN_JOINT / length), max(1, min(WHOLE_COPIES, OPEN_JOINT // int(length)))
        numbers = low + np.arange(int(length) * finer + 1) / finer
        pieces = np.where(np.arange(numbers.size) % finer == 0, copies, 1)
        return Grid(numbers, np.repeat(np.arange(numbers.size), pieces), copies)
    numbers = np.linspace(low, high, OPEN_JOINT + 1)
    return Grid(numbers, np.arange(numbers.size), 1)


def multiples(p: Problem, t: Tunables) -> NDArray[np.float64]:
    low, high = p.facts["value_low"], p.facts["value_high"]
    first = math.ceil(low / t.step - 1e-9) * t.step
    return np.asarray(np.clip(first + t.step * np.arange(size(p, t)), low, high), dtype=np.float64)


def grid(p: Problem, t: Tunables) -> Grid:
    if joint(p, t):
        return joint_grid(p, t)
    low, high, several = p.facts["value_low"], p.facts["value_high"], len(fractions(p)) > 1
    if t.step:
        numbers = multiples(p, t)
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
    return float(moved(p, parts) * copies) * (1 + 2.0**-40) + 2.0**-50 * copies * noise.ROOM * p.n * len(parts)


def moved(p: Problem, parts: list[Part]) -> Fraction:
    """The same in records, without rounding."""
    steepest = max(max(q, 1 - q) for q in (relative(part, fractions(p)) for part in parts))
    return steepest * p.rows if p.neighbours == "add-remove" else Fraction(1) if len(parts) == 1 else 2 * steepest


def selection(p: Problem, made: Grid) -> JointSelection:
    """In weights of a piece. The shares of the intervals are rounded by 2^-53 of themselves, which moves u by less than what is added."""
    sensitivity = moved_jointly(p) * made.copies * (1 + 2.0**-40)
    most = float(cap(p) * made.copies * (made.numbers.size if p.neighbours == "add-remove" else 1))
    return JointSelection(sensitivity, int(made.cell.size) + 1, len(fractions(p)), most)


def cap(p: Problem) -> int:
    """The most records that are counted at one number in a joint choice. Where n is private the rounding of the choice needs a bound of how
    many there are, and a cut of each number is one that moves nothing further: a record more is one more there, or none. Where n is
    public it cuts nothing."""
    return (2 if p.neighbours == "add-remove" else 1) * p.n * p.rows


def mechanisms(p: Problem, t: Tunables) -> list[RowSelection]:
    made = grid(p, t)
    form: Any = "exponential" if "rho" in p.facts or "mu" in p.facts else "flip"
    return [
        RowSelection(sensitivity(p, t, parts, made.copies), int(made.cell.size) + 1, len(parts), form)
        for parts in levels(len(fractions(p)))
    ]


def schedule(p: Problem, t: Tunables) -> Tree:
    if joint(p, t):
        return Draw("choice", selection(p, grid(p, t)))
    draws = tuple(Draw(f"choice-{i}", mechanism) for i, mechanism in enumerate(mechanisms(p, t), 1))
    return draws[0] if len(draws) == 1 else Sequence(draws)


def run(records: Rows, p: Problem[Quantiles], t: Tunables, release: Door) -> Estimate:
    made, shares = grid(p, t), fractions(p)
    counts = np.zeros(made.numbers.size, dtype=np.int64)
    for block in values(p.oracle.column, records):
        counts += np.bincount(nearest(block, made), minlength=counts.size)
    if joint(p, t):
        return jointly(counts, p, made, release, told(p, t, release, made))
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


def jointly(counts: NDArray[np.int64], p: Problem, made: Grid, release: Door, said: dict[str, Any]) -> Estimate:
    weights = running(np.minimum(counts, cap(p)), made)
    chosen = release.draw("choice", (weights, gaps(p)), sensitivity=selection(p, made).sensitivity)
    return Estimate(np.asarray(made.numbers[made.cell[np.minimum(chosen, made.cell.size - 1)]], dtype=np.float64), said)


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
    if joint(p, t):
        return joint_error(p, release.scale("choice"), made)
    drawn = mechanisms(p, t)
    for i, planned in enumerate(drawn, 1):
        outside = noise.OUTSIDE / len(drawn) / planned.rows
        total += release.scale(f"choice-{i}") * math.log(made.cell.size / outside) / made.copies + 1
    return total


def joint_error(p: Problem, scale: float, made: Grid) -> float:
    """As :func:`rank_error`: u is within scale log(tuples/OUTSIDE) of the best, and half of it is the most that a rank is off. The best is
    at most a piece a quantile (a border on either side of each rank), which may hold all records of one number."""
    k, pieces = len(fractions(p)), int(made.cell.size)
    tuples = math.lgamma(pieces + k + 1) - math.lgamma(k + 1) - math.lgamma(pieces + 1)
    return scale * (tuples - math.log(noise.OUTSIDE)) / 2 / made.copies + k * (p.n * p.rows / made.copies + 1) / 2


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """As a share of the records."""
    if joint(p, t):
        return typical(p, t, joint=True) / p.n
    return rank_error(p, t, calibrated) / 3 / p.n
