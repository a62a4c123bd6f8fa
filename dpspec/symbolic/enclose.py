"""Branch and bound over the margin and the label: rigorous extrema of phi' and phi''.

A box is split until the best upper bound over all boxes and the best value found at a point agree to the tolerance; the remaining
boxes (the leaves) are the certificate. On a box the enclosure is the ball evaluation, sharpened by the mean value form and by
monotonicity (the extremum of a monotone function sits at an end).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from flint import ctx

from dpspec.numeric.rounding import down, up
from dpspec.symbolic.balls import Balls, exact, hull, lower, upper
from dpspec.symbolic.jets import jet
from dpspec.symbolic.normal import Fn, Poly, Pow

What: TypeAlias = Literal["abs-first", "abs-second", "minus-second", "abs-third", "value", "minus-value"]

#: (u from, u to, y from, y to)
Box: TypeAlias = tuple[Fraction, Fraction, Fraction, Fraction]

MAX_BOXES = 3_000
#: Boxes times the size of the expression: a long or deep loss takes no longer than a short one. Few boxes still bound, less tightly.
MAX_WORK = 45_000
LEAST_BOXES = 40
#: When so many boxes have not shown one point at which the function is finite, more will not.
HOPELESS = 64
#: A box narrower than this part of the domain on which nothing finite can be said is a singularity or a kink.
NARROW = Fraction(1, 2**30)


@dataclass(frozen=True, slots=True)
class Enclosure:
    """``lower <= sup <= upper``, both rounded outwards; ``at`` is a margin and a label where ``lower`` is reached. ``leaves`` counts the
    boxes that prove the upper bound. ``upper`` is infinite when the function is unbounded or jumps."""

    lower: float
    upper: float
    at: tuple[Fraction, Fraction] | None
    leaves: int

    @property
    def tight(self) -> bool:
        return math.isfinite(self.upper) and self.upper - self.lower <= 1e-5 * max(abs(self.upper), 1e-300)


def derivative_at(p: Poly, u: Fraction, y: Fraction, order: int) -> tuple[float, float]:
    """A lower and an upper bound of the derivative of that order at a point (hull of the one-sided values at a kink)."""
    with ctx.workprec(96):
        value = jet(p, {"u": exact(u), "y": exact(y)}, Balls(), order).d[order]
        low, high = lower(value), upper(value)
    if low is None or high is None:
        return -math.inf, math.inf
    return down(low), up(high)


def supremum(
    p: Poly, what: What, boxes: Sequence[Box], *, tolerance: float = 1e-6, floor: float = 0.0, limit: int = MAX_BOXES
) -> Enclosure:
    """The supremum over the union of ``boxes`` of |phi'|, |phi''|, -phi'', |phi'''|, phi or -phi.

    ``abs-first`` takes one-sided derivatives at kinks. ``abs-second`` is infinite when phi' may jump. ``minus-second`` is infinite
    only when phi' may jump downwards (an upward jump is convex). ``abs-third`` is infinite where phi'' may jump.
    The search also stops when the gap is below ``floor``.
    """
    with ctx.workprec(80):
        return _search(_evaluator(p, what), boxes, what, tolerance, floor, min(limit, max(LEAST_BOXES, MAX_WORK // size(p))))


def size(p: Poly) -> int:
    """How many functions, powers and products one evaluation computes."""
    count = 1
    for mono, _ in p.terms:
        for atom, exponent in mono:
            count += abs(exponent).bit_length()
            match atom:
                case Fn(args=args):
                    count += sum(size(inner) for inner in args)
                case Pow(base=inner):
                    count += size(inner)
                case _:
                    pass
    return count


Evaluator: TypeAlias = Callable[[Box], tuple[Any, Any]]


def _evaluator(p: Poly, what: What) -> Evaluator:
    """Maps a box to (enclosure of the function, enclosure of its u-derivative or None)."""
    alg = Balls()
    order = {"abs-first": 1, "value": 0, "minus-value": 0, "abs-third": 3}.get(what, 2)

    def evaluate(box: Box) -> tuple[Any, Any]:
        j = jet(p, {"u": hull(box[0], box[1]), "y": hull(box[2], box[3])}, alg, min(order + 1, 3))
        if what == "abs-third":
            return (j.d[3] * math.nan if j.rough else j.d[3]), None
        value, slope = j.d[order], j.d[order + 1]
        if what in ("value", "minus-value"):  # continuous across a kink, where the slope is a hull
            return (value, slope) if what == "value" else (-value, -slope)
        if what == "abs-first":
            return value, None if j.kink else slope
        if (what == "abs-second" and j.kink) or (what == "minus-second" and j.kink not in (0, 1)):
            return value * math.nan, None
        if what == "minus-second":
            value, slope = -value, -slope
        return value, None if j.rough else slope

    return evaluate


def _search(evaluate: Evaluator, boxes: Sequence[Box], what: What, tolerance: float, floor: float, limit: int) -> Enclosure:
    magnitude = what in ("abs-first", "abs-second", "abs-third")
    best, at = -math.inf, None
    heap: list[tuple[float, int, Box]] = []
    count = 0
    width = min((b[1] - b[0] for b in boxes if b[1] > b[0]), default=Fraction(0))  # of the middle, where others are half-lines
    height = max((b[3] - b[2] for b in boxes), default=Fraction(0))

    def note(value: Any, u: Fraction, y: Fraction) -> None:
        # at a kink the value is a hull, whose least magnitude is a lower bound of the one-sided values
        nonlocal best, at
        found = lower(abs(value)) if magnitude else lower(value)
        if found is not None and down(found) > best:
            best, at = down(found), (u, y)

    def sample(box: Box) -> None:
        u, y = (box[0] + box[1]) / 2, (box[2] + box[3]) / 2
        note(evaluate((u, u, y, y))[0], u, y)

    def keep(bound: float, box: Box) -> None:
        nonlocal count
        count += 1
        heapq.heappush(heap, (-bound, count, box))

    def push(box: Box) -> None:
        value, slope = evaluate(box)
        thin = box[2] == box[3]
        if slope is None or not slope.is_finite() or box[0] == box[1]:
            keep(_top(value, magnitude), box)
            sample(box)
            return
        if slope > 0 or slope < 0:  # monotone in u for every y of the box: only the two ends count
            for u in (box[0], box[1]):
                end = (u, u, box[2], box[3])
                v, _ = evaluate(end)
                keep(_top(v, magnitude), end)
                if thin:
                    note(v, u, box[2])
                else:
                    sample(end)
            return
        centre = (box[0] + box[1]) / 2
        middle, _ = evaluate((centre, centre, box[2], box[3]))
        shifted = middle + slope * hull(box[0] - centre, box[1] - centre)
        keep(min(_top(value, magnitude), _top(shifted, magnitude)), box)
        if thin:
            note(middle, centre, box[2])
        else:
            sample(box)

    for box in boxes:
        for corner in ((box[0], box[2]), (box[1], box[2]), (box[0], box[3]), (box[1], box[3])):
            sample((corner[0], corner[0], corner[1], corner[1]))
        push(box)

    while heap:
        top = -heap[0][0]
        if top <= best + max(tolerance * abs(best), floor) or count >= limit or (count >= HOPELESS and best == -math.inf):
            break
        _, _, box = heapq.heappop(heap)
        du, dy = box[1] - box[0], box[3] - box[2]
        if du <= NARROW * width and dy <= NARROW * height:
            heapq.heappush(heap, (-top, count, box))
            break
        if du * (height or 1) >= dy * (width or 1) and du > 0:
            m = (box[0] + box[1]) / 2
            parts: tuple[Box, Box] = ((box[0], m, box[2], box[3]), (m, box[1], box[2], box[3]))
        else:
            m = (box[2] + box[3]) / 2
            parts = ((box[0], box[1], box[2], m), (box[0], box[1], m, box[3]))
        for part in parts:
            push(part)
    return Enclosure(best, -heap[0][0] if heap else best, at, len(heap))


def _top(value: Any, magnitude: bool) -> float:
    bound = upper(abs(value) if magnitude else value)
    return math.inf if bound is None else up(bound)
