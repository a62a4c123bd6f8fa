"""The gradients of records near the origin: how long they are, and how far apart, at weights of a given norm.

An iterate w is a function of earlier releases, so r = |w|_2 is public, and the noise of the next gradient may be scaled to the gradients
that records can have *there*. X is the enforced l2 bound of the records.

* Length. Margins lie in [-r X, r X] by Cauchy and Schwarz, so |phi'(u, y) x| is at most X times the extremum of phi' over that range.
* Spread, the distance of two records' gradients, which is what a mean moves by under replace-one. The longest gradients all point the same
  way: with the part xi of x along w, g = phi'(r xi, y) x has |g - c w/r|^2 <= s^2 X^2 - 2 c s xi + c^2, s = phi'(r xi, y), and for every
  number c two points of the ball with radius R_c = max over xi and y of that are at most 2 R_c apart. A convex phi has a nondecreasing
  phi', so on a cell of xi the slope s lies between its values at the ends, and the quadratic, convex in s and linear in xi, is largest at
  a corner: a maximum over cells and corners is a proof, not a sample. c is chosen by search; c = 0 gives twice the length.

For the logistic loss with X = 1 a gradient at w = 0 is 1/2 long (1 in general), and two are at most 1.10 apart at r = 1, 1.42 at r = 3 and
1.77 at r = 8 (2 in general). Closed forms only; values are remembered at norms rounded to six binary digits, outwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dpspec.symbolic.domains import Margin, RecordDomain
from dpspec.symbolic.losses import Named, constants, recognise
from dpspec.symbolic.parts import Case
from dpspec.symbolic.rounding import coarse_down, coarse_up, up

_CELLS = 1024
_SLACK = 1e-9  # relative to the length: rounding of phi', of norms and of the quadratic


@dataclass(frozen=True, slots=True)
class LocalLipschitz:
    """Of a loss of one margin: its ``cases``, recognised, with their labels; the ``margin`` range over the whole set; the records' l2
    bound ``x``."""

    cases: tuple[tuple[Named, Case], ...]
    margin: Margin
    x: Fraction
    _lengths: dict[float, float] = field(default_factory=dict, compare=False, repr=False)
    _spreads: dict[float, float] = field(default_factory=dict, compare=False, repr=False)

    def length(self, norm: float) -> float:
        """A bound of every record's gradient at weights of l2 norm at most ``norm``, rounded up; infinite where none is proved."""
        r = coarse_up(norm)
        if r not in self._lengths:
            self._lengths[r] = self._longest(Fraction(r) * self.x)
        return self._lengths[r]

    def spread(self, norm: float) -> float:
        """A bound of the distance of two records' gradients at weights of l2 norm ``norm``; at most twice the length."""
        r = coarse_up(norm)
        if r not in self._spreads:
            self._spreads[r] = min([2 * self.length(r), *self._widest(coarse_down(norm), r)])
        return self._spreads[r]

    def _longest(self, reach: Fraction) -> float:
        low = -reach if self.margin.low is None else max(self.margin.low, -reach)
        high = reach if self.margin.high is None else min(self.margin.high, reach)
        if low > high:  # no weights of the set are this short
            return math.inf
        near = replace(self.margin, low=low, high=high)
        slopes = [constants(named, near, case.y).slope for named, case in self.cases]
        known = [s for s in slopes if s is not None]
        return up(max(known) * self.x) if len(known) == len(slopes) else math.inf

    def _widest(self, least: float, most: float) -> list[float]:
        """2 min R_c for weights of norm between ``least`` and ``most``; nothing where the argument does not hold."""
        if len(self.cases) != 1:
            return []
        ((named, case),) = self.cases
        if not named.convex or not (case.y.values or named.family != "product"):
            return []
        import numpy as np

        from dpspec.symbolic.margin import MarginLoss

        slope, length, X = MarginLoss(named.name, case.form).derivative, self.length(most), float(up(self.x))
        if not 0 < length < math.inf:
            return []
        ends = np.linspace(-X, X, _CELLS + 1)
        least, most = least * (1 - _SLACK), most * (1 + _SLACK)
        low = np.minimum(least * ends[:-1], most * ends[:-1])
        high = np.maximum(least * ends[1:], most * ends[1:])
        squares, crosses = [], []
        for y0, y1 in _labels(case.y):
            for s in (slope(low, y1), slope(high, y0)):  # a residual and a canonical loss have slopes that fall with y
                for xi in (ends[:-1], ends[1:]):
                    squares.append(s * s * X * X)
                    crosses.append(s * xi)
        square, cross = np.concatenate(squares), np.concatenate(crosses)
        if not np.isfinite(square).all():
            return []

        def radius(c: Any) -> Any:
            return np.sqrt(np.max(square - 2 * c[:, None] * cross, axis=1) + c**2)

        grid = np.linspace(-length, length, 17)
        for _ in range(3):  # R_c is convex in c: the least lies beside the least of a grid
            i = int(np.argmin(radius(grid)))
            grid = np.linspace(grid[max(i - 1, 0)], grid[min(i + 1, 16)], 17)
        return [float(2 * radius(grid).min() + _SLACK * length)]


def _labels(y: RecordDomain) -> list[tuple[float, float]]:
    """Single labels, or the ends of their range, outwards."""
    if y.values:
        return [(float(v), float(v)) for v in y.values]
    return [(-up(-y.low), up(y.high))] if y.low is not None and y.high is not None else [(-math.inf, math.inf)]


def local_lipschitz(cases: Sequence[Case], margin: Margin, x: Fraction | None) -> LocalLipschitz | None:
    """None when the records have no l2 bound, or a case of the loss has no closed form."""
    named = [(recognise(case.form), case) for case in cases]
    known = tuple((loss, case) for loss, case in named if loss is not None)
    return LocalLipschitz(known, margin, x) if x is not None and len(known) == len(named) else None
