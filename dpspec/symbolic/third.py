"""Hessian-Lipschitz constants: how far apart the Hessians phi''(<w, x>, y) x x^T of a record are at two points.

|phi''(u) - phi''(v)| <= sup|phi'''| |u - v| where phi'' is continuous, so a loss with margins in a range is Hessian-Lipschitz with
sup|phi'''| times the third power of the l2 bound of x. Named losses have closed forms over all margins; other expressions are enclosed by
branch and bound where the range is bounded, and a jump of phi'' has no bound. Found when asked for: most algorithms never do.

Closed forms of sup|f'''|, the loss f(y u) or f(u - y): logistic 1/(6 sqrt 3), the greatest |s''| of the logistic function s; sigmoid
1/8, as s''' = p (1 - 6 p), p = s (1 - s) in (0, 1/4]; biweight(c): f''' = (2 s/c^2)(10 s^2/c^2 - 6) inside, 8/c at its ends;
cauchy(c): (2/c) q (q^2 - 3)/(1 + q^2)^3 with q = s/c, largest in magnitude at q = sqrt(2) - 1, where it is below 1.4571/c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from dpspec.domains.domain import Margin
from dpspec.numeric.rounding import padded_up, up
from dpspec.symbolic.extrema import ranges, saturating
from dpspec.symbolic.losses import recognise
from dpspec.symbolic.parts import Case

#: sup|s''| of the logistic function.
_BEND: Final = Fraction(padded_up(1 / (6 * math.sqrt(3.0))))
#: sup of 2 q (3 - q^2)/(1 + q^2)^3, at q = sqrt(2) - 1.
_CAUCHY: Final = Fraction(padded_up(4 * (2 - math.sqrt(2.0)) / (4 - 2 * math.sqrt(2.0)) ** 3))


@dataclass(frozen=True, slots=True)
class HessianLipschitz:
    """Of the ``cases`` of a loss with margins in ``margin`` and records of l2 norm at most ``x`` (None: unbounded)."""

    cases: tuple[Case, ...]
    margin: Margin
    x: Fraction | None

    def third(self) -> float:
        """A bound of sup|phi'''|, rounded up; infinite where none is proved or phi'' may jump."""
        found = [_third(case, self.margin) for case in self.cases]
        return max((math.inf if v is None else up(v) for v in found), default=math.inf)

    def value(self) -> float:
        """The Hessian-Lipschitz constant of the loss of a record: from the operator norm to the l2 norm, and in the Frobenius norm too."""
        third = self.third()
        if third == 0:
            return 0.0
        return math.inf if self.x is None or not math.isfinite(third) else up(Fraction(third) * self.x**3)


@lru_cache(maxsize=256)
def _third(case: Case, margin: Margin) -> Fraction | None:
    closed = _closed(case)
    if closed == 0 or not (margin.bounded or (closed is None and saturating(case.form))):
        return closed
    searched = _searched(case, margin)
    return closed if searched is None else searched if closed is None else min(closed, searched)


def _closed(case: Case) -> Fraction | None:
    named = recognise(case.form)
    if named is None:
        return None
    size = case.y.magnitude
    if named.name in ("squared", "linear"):
        return Fraction(0)
    if named.name == "biweight":
        return named.factor * 8 / named.params[0]
    if named.name == "cauchy":
        return named.factor * _CAUCHY / named.params[0]
    if named.name == "logistic-glm":
        return named.factor * _BEND
    if size is None or named.name not in ("logistic", "sigmoid"):
        return None
    return named.factor * size**3 * (_BEND if named.name == "logistic" else Fraction(1, 8))


def _searched(case: Case, margin: Margin) -> Fraction | None:
    from dpspec.symbolic.enclose import supremum

    if not case.y.values and (case.y.low is None or case.y.high is None):
        return None
    form, boxes, _ = ranges(case, margin)
    top = supremum(form, "abs-third", boxes, tolerance=1e-3)
    return Fraction(top.upper) if math.isfinite(top.upper) else None
