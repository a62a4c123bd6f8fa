"""The gradients of records near the origin: how long they are, and how far apart, at weights of a given norm.

An iterate w is a function of earlier releases, so r = |w|_2 is public, and the noise of the next gradient may be scaled to the gradients
that records can have *there*. X is the enforced l2 bound of the records.

* Length. Margins lie in [-r X, r X] by Cauchy and Schwarz, so |phi'(u, y) x| is at most X times the extremum of phi' over that range.
* Spread, the distance of two records' gradients, which is what a mean moves by under replace-one. The longest gradients all point the same
  way: with the part xi of x along w, g = phi'(r xi, y) x has |g - c w/r|^2 <= s^2 X^2 - 2 c s xi + c^2, s = phi'(r xi, y), and for every
  number c two points of the ball with radius R_c = max over xi and y of that are at most 2 R_c apart. A convex phi has a nondecreasing
  phi', so on a cell of xi the slope s lies between its values at the ends, and the quadratic, convex in s and linear in xi, is largest at
  a corner: a maximum over cells and corners is a proof, not a sample. c is chosen by search; c = 0 gives twice the length.

Both grow with the norm, so a bound at a norm holds at every smaller one. For the spread: records with the parts a, b along w and slopes
s, t are, when what is left of them points apart, at squared distance (s^2 + t^2) X^2 - 2 s t a b + 2 |s t| sqrt((X^2 - a^2)(X^2 - b^2)).
Weights longer by 1/k give the parts k a, k b the same slopes, and with q = k^2 both -q |a b| and q |a b| added to
sqrt((X^2 - q a^2)(X^2 - q b^2)) fall with q: the slope of the root is minus the arithmetic mean of a^2 (X^2 - q b^2) and b^2 (X^2 - q a^2)
over the root itself, their geometric mean is |a b| times the root, and the arithmetic mean is no less.

For the logistic loss with X = 1 a gradient at w = 0 is 1/2 long (1 in general), and two are at most 1.10 apart at r = 1, 1.42 at r = 3 and
1.77 at r = 8 (2 in general). Closed forms only; values are remembered at norms rounded up to six binary digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpspec.domains.domain import Domain, Margin
from dpspec.numeric.rounding import coarse_up, up
from dpspec.symbolic.losses import Named, constants, recognise
from dpspec.symbolic.parts import Case

_CELLS = 1024
#: Relative to the length: rounding of phi' and of the quadratic. A computed margin is the exact one of a part xi that is off by d units in
#: the last place of X, which moves R_c by no more than that share of the length, since R_c is at least half of it.
_SLACK = 1e-9
#: Relative to r X: rounding of the norm of the weights and of margins, at the ends of the range, where a kink may lie.
_EDGE = Fraction(1, 2**33)
#: A smaller norm may have been computed from squares that underflow.
_TINY = 1e-150
_LABELS = 64


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
        """A bound of every record's gradient at weights of l2 norm at most ``norm``, rounded up; infinite where none is proved, as for a
        ``norm`` that is not finite."""
        r = rounded(norm)
        if r not in self._lengths:
            self._lengths[r] = self._longest(Fraction(r) * self.x) if r < math.inf else math.inf
        return self._lengths[r]

    def spread(self, norm: float) -> float:
        """A bound of the distance of two records' gradients at weights of l2 norm at most ``norm``; at most twice the length."""
        r = rounded(norm)
        if r not in self._spreads:
            self._spreads[r] = min([2 * self.length(r), *self._widest(r)])
        return self._spreads[r]

    def _longest(self, reach: Fraction) -> float:
        edge = reach * _EDGE
        reach += edge
        low = -reach if self.margin.low is None else max(self.margin.low - edge, -reach)
        high = reach if self.margin.high is None else min(self.margin.high + edge, reach)
        if low > high:  # no weights of the set are this short
            return math.inf
        near = replace(self.margin, low=low, high=high)
        slopes = [constants(named, near, case.y).slope for named, case in self.cases]
        known = [s for s in slopes if s is not None]
        return up(max(known) * self.x) if len(known) == len(slopes) else math.inf

    def _widest(self, r: float) -> list[float]:
        """2 min R_c for weights of norm ``r``, computed in units of the length and of X; nothing where the argument does not hold."""
        if len(self.cases) != 1:
            return []
        ((named, case),) = self.cases
        if not named.convex or (named.family == "product" and not 0 < len(case.y.values) <= _LABELS):
            return []
        import numpy as np

        from dpspec.symbolic.margin import MarginLoss

        slope, length, X = MarginLoss(named.name, case.form).derivative, self.length(r), float(up(self.x))
        if not 0 < length < math.inf:
            return []
        xi = np.linspace(-1.0, 1.0, _CELLS + 1)
        margins = r * (1 + float(_EDGE)) * X * xi
        unit, slopes, parts = length / X, [], []
        for y0, y1 in _labels(case.y, named.family):
            for ends in (slope(margins[:-1], y1), slope(margins[1:], y0)):
                slopes += [ends / unit] * 2
                parts += [xi[:-1], xi[1:]]
        s = np.concatenate(slopes)
        if not 1 - _SLACK <= np.abs(s).max() < 1e100:  # a slope of that size is in the range: out of the range of doubles, or at a kink
            return []
        square, cross = s * s, s * np.concatenate(parts)
        low, high, least = -1.0, 1.0, math.inf
        for _ in range(10):  # R_c^2 is convex in c, and c less the cross term of a largest corner is half of a subgradient
            c = (low + high) / 2
            corners = square - 2 * c * cross
            k = int(np.argmax(corners))
            least = min(least, math.sqrt(float(corners[k]) + c * c))
            low, high = (c, high) if cross[k] > c else (low, c)
        return [2 * (least + _SLACK) * length]


def rounded(norm: float) -> float:
    """The norm at which the bounds of a norm are taken: not below it, one of few; infinite for one that is not a finite number."""
    return coarse_up(max(norm, _TINY)) if norm < 1e300 else math.inf


def _labels(y: Domain, family: str) -> list[tuple[float, float]]:
    """Of a product, whose slopes may rise or fall with y, single labels; else, where slopes fall with y, the ends of their range,
    outwards."""
    if family == "product":
        return [(float(v), float(v)) for v in y.values]
    return [(-up(-y.low), up(y.high))] if y.low is not None and y.high is not None else [(-math.inf, math.inf)]


def local_lipschitz(cases: Sequence[Case], margin: Margin, x: Fraction | None) -> LocalLipschitz | None:
    """None when the records have no l2 bound, or a case of the loss has no closed form."""
    named = [(recognise(case.form), case) for case in cases]
    known = tuple((loss, case) for loss, case in named if loss is not None)
    return LocalLipschitz(known, margin, x) if x is not None and len(known) == len(named) else None
