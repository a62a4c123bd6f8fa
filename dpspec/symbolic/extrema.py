"""The extrema of phi' and phi'' for one case of a loss: closed form, or branch and bound, or nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

from dpspec.domains.domain import Margin
from dpspec.symbolic.convexity import curvature
from dpspec.symbolic.losses import Constants, atom_depends, constants, drop_free, recognise
from dpspec.symbolic.normal import Fn, NoNormalForm, Poly, Var, add, substitute, var, variables
from dpspec.symbolic.parts import Case, labels

#: A margin and a label.
Point: TypeAlias = tuple[Fraction, Fraction]
#: Margins from and to, labels from and to.
Box: TypeAlias = tuple[Fraction, Fraction, Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    bounds: Constants
    convex: bool | None
    closed: bool
    boxes: int = 0
    loose: bool = False
    concave_at: tuple[Fraction, Fraction] | None = None


def case_constants(case: Case, margin: Margin) -> Result:
    named = recognise(case.form)
    if named is not None:
        bounds = constants(named, margin, case.y)
        convex = True if named.convex else None
        if not named.convex and bounds.least is not None and bounds.least >= 0:
            convex = True
        at = concave_point(case, margin) if convex is None else None
        return Result(named.name, bounds, False if at is not None else convex, True, concave_at=at)
    by_rules = curvature(case.form) in ("constant", "affine", "convex")
    if not (margin.bounded or saturating(case.form)) or (not case.y.values and (case.y.low is None or case.y.high is None)):
        at = None if by_rules else concave_point(case, margin)
        return Result(
            "expression",
            Constants(None, None, Fraction(0) if by_rules else None, None),
            by_rules or (None if at is None else False),
            False,
            concave_at=at,
        )
    return _branch_and_bound(case, margin, by_rules)


def _branch_and_bound(case: Case, margin: Margin, by_rules: bool) -> Result:
    from dpspec.symbolic.enclose import supremum

    form, boxes, shifted = ranges(case, margin)
    first = supremum(form, "abs-first", boxes)
    second = supremum(form, "abs-second", boxes)
    floor = 1e-9 * second.upper if math.isfinite(second.upper) else 0.0
    concave = supremum(form, "minus-second", boxes, floor=floor)
    least = None if math.isinf(concave.upper) else -Fraction(concave.upper)
    convex: bool | None = None
    if by_rules or (least is not None and least >= 0):
        convex, least = True, max(least or Fraction(0), Fraction(0))
    elif concave.lower > 0:
        convex = False
    ends = _ends(case)
    bounds = Constants(
        Fraction(first.upper) if math.isfinite(first.upper) else None,
        Fraction(second.upper) if math.isfinite(second.upper) else None,
        least,
        _unshift(first.at, margin, ends) if shifted else first.at,
    )
    loose = (math.isfinite(first.upper) and not first.tight) or (math.isfinite(second.upper) and not second.tight)
    at = None if convex is not False else _unshift(concave.at, margin, ends) if shifted else concave.at
    return Result("expression", bounds, convex, False, first.leaves + second.leaves + concave.leaves, loose, at)


def _ends(case: Case) -> list[Point]:
    return [(v, v) for v in case.y.values] or [(known(case.y.low), known(case.y.high))]


#: Functions that tend to a limit at both ends, with all derivatives to 0, each the faster the higher it is.
_LEVEL = frozenset(("tanh", "expit", "biweight"))
#: An unbounded range of margins is cut into pieces, whose ends are at most a factor of ``_RATIO`` apart: a ball has one precision for both.
#: At ``_FAR`` functions of ``_LEVEL`` and their derivatives are closer to their limits than the enclosures are wide, so that what holds up
#: to it holds for all margins.
_TAIL, _RATIO, _PIECES = Fraction(2**4), Fraction(2**20), 6
_FAR = _TAIL * _RATIO**_PIECES
#: The least factor of u in an argument.
_LEAST = Fraction(1, 2**32)


def saturating(form: Poly) -> bool:
    """Whether u occurs within functions that level out alone, in arguments of first degree in u: phi and its derivatives are then bounded
    whatever the margin is, and enclosures of half-lines of margins are finite."""
    return all(
        not atom_depends(atom) or (isinstance(atom, Fn) and atom.name in _LEVEL and exponent > 0 and all(_linear(z) for z in atom.args))
        for mono, _ in form.terms
        for atom, exponent in mono
    )


def _linear(z: Poly) -> bool:
    """Of first degree in u, the factor a number that is not tiny, or one times the label."""
    for mono, factor in z.terms:
        degrees = [exponent for atom, exponent in mono if atom_depends(atom)]
        if not all(isinstance(atom, Var) for atom, _ in mono) or sum(degrees) > 1 or (degrees and abs(factor) < _LEAST):
            return False
    return True


def reach(margin: Margin) -> list[tuple[Fraction, Fraction]]:
    """The range of margins in pieces: whole where it is bounded, else a middle and pieces of the half-lines."""
    if margin.bounded:
        return [(known(margin.low), known(margin.high))]
    low, high = (-_FAR if margin.low is None else margin.low), (_FAR if margin.high is None else margin.high)
    tail = [_TAIL * _RATIO**k for k in range(_PIECES)]
    cuts = [low, *(c for c in (*(-v for v in reversed(tail)), *tail) if low < c < high), high]
    return list(pairwise(cuts))


def ranges(case: Case, margin: Margin) -> tuple[Poly, list[Box], bool]:
    """What branch and bound searches over bounded margins and labels: a form, boxes of its variables, and whether the form is one of
    s = u - y alone."""
    ends, pieces = _ends(case), reach(margin)
    try:
        residual = drop_free(substitute(case.form, {"u": add(var("u"), var("y"))}))
    except NoNormalForm:  # too long once u + y stands for u
        residual = case.form
    if "y" not in variables(residual):
        # a function of s = u - y: one dimension instead of two, with exactly the same range, and squares of s stay whole
        return residual, [(low - last, high - first, Fraction(0), Fraction(0)) for first, last in ends for low, high in pieces], True
    return case.form, [(low, high, first, last) for first, last in ends for low, high in pieces], False


def known(v: Fraction | None) -> Fraction:
    assert v is not None
    return v


def _unshift(at: Point | None, margin: Margin, ends: Sequence[tuple[Fraction, Fraction]]) -> Point | None:
    """From s = u - y back to some u and y of their ranges."""
    if at is None:
        return None
    low, high = reach(margin)[0][0], reach(margin)[-1][1]
    for y0, y1 in ends:
        u = min(max(at[0] + y0, low), high)
        if y0 <= u - at[0] <= y1:
            return u, u - at[0]
    return None


def concave_point(case: Case, margin: Margin) -> tuple[Fraction, Fraction] | None:
    """A margin and a label where phi'' is proved negative, if a coarse search meets one."""
    from dpspec.symbolic.enclose import derivative_at

    low, high = window(margin)
    best: tuple[float, Fraction, Fraction] | None = None
    for label in labels(case):
        for i in range(65):
            u = low + (high - low) * i / 64
            top = derivative_at(case.form, u, label, 2)[1]
            if top < 0 and (best is None or top < best[0]):
                best = (top, u, label)
    return None if best is None else best[1:]


def window(margin: Margin) -> tuple[Fraction, Fraction]:
    """A bounded window of margins in which to look for counterexamples; attained margins when they are known."""
    if margin.attained and margin.attained_low is not None and margin.attained_high is not None:
        return margin.attained_low, margin.attained_high
    return (
        margin.low if margin.low is not None else Fraction(-16),
        margin.high if margin.high is not None else Fraction(16),
    )
