"""How far a slope that doubles compute may be from phi'(u, y): running error analysis (Higham 2002, section 3.3).

A :class:`Rounded` is a ball that encloses the exact value of an intermediate result for every margin and label of a box, and a bound of
the distance of the computed one. Every operation of :mod:`dpspec.symbolic.margin` adds its own rounding, |result| 2^-53, and passes on what
its operands bring. The elementary functions of NumPy and SciPy are off by a few units in the last place; 32 are allowed for. Boxes of
margins and labels are split where the bound is worst. The result is absolute, about the very form that runs
(:mod:`dpspec.symbolic.stable`), and infinite where nothing can be said: near a singularity, or where an intermediate result overflows.

A loss with terms of size 1e18 that cancel has a bound of 1e18 2^-53, whatever its real slope is; calibrations that rest on more than the
length of a gradient refuse it (:meth:`dpspec.algorithms.card.Loss.gradient_error`).

Recognised losses run by direct formulas, for which the bound is elementary (:func:`_closed`); u is any double of the range.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpspec.domains.domain import Domain, Margin
from dpspec.symbolic.losses import Named, recognise
from dpspec.symbolic.parts import Case

if TYPE_CHECKING:
    from dpspec.symbolic.jets import Outer

_U = 2.0**-53
#: Of an elementary function, relative; and where results are subnormal or underflow, absolute.
_FUNCTION, _TINY = 32 * _U, 2.0**-1000
_LARGE = 1e300
_BOXES = 400
#: Ranges are widened by so much: iterates are projected, and labels stored, in doubles.
_WIDER = Fraction(1, 2**30)
#: A bound this small, relative to the slope, is not worth more boxes.
_ENOUGH = 256 * _U


@dataclass(frozen=True, slots=True)
class SlopeError:
    """Of the ``cases`` of a loss with margins in ``margin`` and the certified ``slope`` >= |phi'|."""

    cases: tuple[Case, ...]
    margin: Margin
    slope: float

    def value(self) -> float:
        """A bound of |computed slope - phi'(u, y)| over the doubles u and y of the ranges; infinite where none is proved. Several cases
        (pairs of labels) are evaluated one by one (:class:`dpspec.symbolic.pair_loss.PairLoss`)."""
        if not self.cases or not math.isfinite(self.slope):
            return math.inf
        return max(slope_error(case, self.margin, self.slope) for case in self.cases)


@lru_cache(maxsize=256)
def slope_error(case: Case, margin: Margin, slope: float) -> float:
    named = recognise(case.form)
    closed = None if named is None else _closed(named, case.y, slope)
    if closed is not None:
        return closed
    if not margin.bounded or case.y.low is None or case.y.high is None:
        return math.inf
    labels = [(v, v) for v in case.y.values] or [(case.y.low, case.y.high)]
    return _searched(case, margin, labels, slope)


def _closed(named: Named, y: Domain, slope: float) -> float | None:
    """The direct formulas. Beside a few roundings of the result (at most ``slope``, or the range that the formula's parts have) stand

    * z = y u, off by 2^-53 |z|: the slope of a logistic loss turns by |z| s(z)(1 - s(z)) < 1/2 of that, exp(-z) by |z| <= 745 times its
      value, a squared hinge, positive for z < m only, by 2|z| <= 2|m| + 2(m - z), a smoothed one by
      (|v| + |m|) b^2/(2 (v^2 + b^2)^1.5), v = z - m;
    * u - y, rounded once, so to a few units of the slope;
    * A'(u) - y, each part off by its own units.

    At a kink the side taken is that of a margin some units away. None for a loss without a known formula.
    """
    factor = float(named.factor) * (1 + 2 * _U)
    size = math.inf if y.magnitude is None else float(y.magnitude) * (1 + 2 * _U)
    known: dict[str, Callable[..., float]] = {
        "logistic": lambda: factor * size,
        "squared-hinge": lambda m=1: factor * size * float(abs(m)),
        "smoothed-hinge": lambda b, m: factor * size * (1 + float(abs(m)) / float(b)),
        "logistic-glm": lambda: factor * (1 + size),
        "poisson": lambda: factor * size,
        "exponential": lambda: 32 * slope,
        **dict.fromkeys(("squared", "absolute", "linear", "huber", "quantile", "hinge"), lambda *_: 0.0),
    }
    if named.name not in known:
        return None
    more: float = known[named.name](*named.params)
    return 32 * _U * (slope + more)


# ------------------------------------------------------------------------------------------------------------------ the search


def _searched(case: Case, margin: Margin, labels: Sequence[Any], slope: float) -> float:
    from flint import arb, ctx

    from dpspec.symbolic.balls import hull
    from dpspec.symbolic.jets import jet
    from dpspec.symbolic.stable import stable

    written = stable(case.form, 1)
    assert margin.low is not None
    assert margin.high is not None
    wide = max(abs(margin.low), abs(margin.high)) * _WIDER
    low, high = margin.low - wide, margin.high + wide
    boxes = [(low, high, a - abs(a) * _WIDER, b + abs(b) * _WIDER) for a, b in labels]
    if written.residual:  # one dimension; the subtraction is rounded
        boxes = [(low - b, high - a, Fraction(0), Fraction(0)) for _, _, a, b in boxes]

    # a single label, widened, is not worth splitting
    whole = [max(b[1] - b[0] for b in boxes) or 1, max((b[3] - b[2] for b in boxes if b[3] - b[2] > 4 * abs(b[2]) * _WIDER), default=2**60)]

    def bound(box: tuple[Fraction, ...]) -> float:
        u, y = hull(box[0], box[1]), hull(box[2], box[3])
        env = {"u": Rounded(u, _size(u) * _U if written.residual else arb(0))}
        if not written.residual:
            env["y"] = Rounded(y, arb(0))
        error = jet(written.form, env, _Rounding(), 1).d[1].error
        return float(error.upper()) * (1 + 2.0**-40) if error.is_finite() else math.inf

    with ctx.workprec(80):
        heap: list[tuple[float, int, tuple[Fraction, ...]]] = [(-bound(b), i, b) for i, b in enumerate(boxes)]
        heapq.heapify(heap)
        for count in range(len(heap), _BOXES):
            worst, _, box = heap[0]
            if -worst <= _ENOUGH * slope:
                break
            across = max(range(2), key=lambda k: (box[2 * k + 1] - box[2 * k]) / whole[k])
            a, b = box[2 * across], box[2 * across + 1]
            if a == b:
                break
            halves = [box[: 2 * across] + ends + box[2 * across + 2 :] for ends in ((a, (a + b) / 2), ((a + b) / 2, b))]
            heapq.heapreplace(heap, (-bound(halves[0]), 2 * count, halves[0]))
            heapq.heappush(heap, (-bound(halves[1]), 2 * count + 1, halves[1]))
        return -heap[0][0]


# ------------------------------------------------------------------------------------------------------------- the arithmetic


def _size(v: Any) -> Any:
    return v.abs_upper()


class Rounded:
    """``value``: a ball around the exact result; ``error``: how far the computed one is at most (a ball, whose upper end counts)."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any, error: Any) -> None:
        self.value, self.error = value, error

    def __add__(self, other: Any) -> Rounded:
        o = _lifted(other)
        if o.value == 0 and o.error == 0:  # exact
            return self
        if self.value == 0 and self.error == 0:
            return o
        return rounded(self.value + o.value, self.error + o.error)

    __radd__ = __add__

    def __neg__(self) -> Rounded:
        return Rounded(-self.value, self.error)

    def __sub__(self, other: Any) -> Rounded:
        return self + (-_lifted(other))

    def __rsub__(self, other: Any) -> Rounded:
        return _lifted(other) + (-self)

    def __mul__(self, other: Any) -> Rounded:
        if isinstance(other, int) and other in (0, 1):
            # 0 times a number that may have overflowed is NaN
            finite = _finite(self)
            return self if other == 1 else Rounded(self.value * 0 if finite else self.value * math.nan, self.error * 0)
        o = _lifted(other)
        return rounded(self.value * o.value, self.error * _size(o.value) + o.error * _size(self.value) + self.error * o.error)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Rounded:
        o = _lifted(other)
        least = o.value.abs_lower() - o.error
        if not least > 0:
            return Rounded(self.value * math.nan, self.error * math.nan)
        exact = self.value / o.value
        return rounded(exact, (self.error + _size(exact) * o.error) / least)

    def __rtruediv__(self, other: Any) -> Rounded:
        return _lifted(other) / self


def _finite(r: Rounded) -> bool:
    """Whether neither the exact nor the computed result can be out of the range of doubles."""
    return bool(r.value.is_finite() and r.error.is_finite() and _size(r.value) + r.error < _LARGE)


def rounded(value: Any, error: Any, units: float = _U) -> Rounded:
    """``value`` with the ``error`` that is passed on, and the rounding of the operation itself."""
    r = Rounded(value, error + (_size(value) + error) * units + _TINY)
    return r if _finite(r) else Rounded(value, error * math.nan)


def _lifted(v: Any) -> Rounded:
    from flint import arb

    return v if isinstance(v, Rounded) else Rounded(arb(v), arb(0))


class _Rounding:
    """The algebra of :mod:`dpspec.symbolic.jets` that follows, step by step, the arrays of :mod:`dpspec.symbolic.margin`; for first
    derivatives, so the last two entries of an ``Outer`` are left at zero."""

    def number(self, value: Fraction) -> Rounded:
        from dpspec.symbolic.balls import exact

        ball = exact(value)
        return Rounded(ball, ball.abs_upper() * (0 if Fraction(float(value)) == value else _U))

    def sign(self, value: Rounded) -> int:
        return 2

    def square(self, value: Rounded) -> Rounded:
        return value * value

    def pi(self) -> Rounded:
        from flint import arb

        return rounded(arb.pi(), arb(0))

    def power(self, z: Rounded, exponent: Fraction) -> Outer:
        from dpspec.symbolic.balls import Balls
        from dpspec.symbolic.jets import Outer

        exact = Balls().power(z.value, exponent).g
        if exponent.denominator == 1 and exponent >= 0:
            k = int(exponent)
            first = k * _whole(z, k - 1) if k else z * 0
            return Outer((_whole(z, k), Rounded(exact[1], first.error), z * 0, z * 0))
        least = (z.value.abs_lower() if exponent.denominator == 1 else z.value.lower()) - z.error
        if not least > 0:
            nothing = Rounded(z.value * math.nan, z.error * math.nan)
            return Outer((nothing, nothing, nothing, nothing))
        from flint import arb

        e = self.number(exponent)
        reach = least.lower().union((_size(z.value) + z.error).upper())
        steep = _size(e.value * reach ** arb(e.value - 1))
        base = rounded(exact[0], steep * z.error, _FUNCTION)
        if exponent != Fraction(1, 2):  # the exponent is a double, too
            base = Rounded(base.value, base.error + e.error * _size(base.value) * _size(reach.log()))
        first = e * base / z
        return Outer((base, Rounded(exact[1], first.error), z * 0, z * 0))

    def unary(self, name: str, params: tuple[Fraction, ...], z: Rounded) -> Outer:
        from dpspec.symbolic.balls import Balls
        from dpspec.symbolic.jets import Outer

        exact = Balls().unary(name, params, z.value).g
        value, first = _function(name, params, z, exact, self)
        return Outer((Rounded(exact[0], value), Rounded(exact[1], first), z * 0, z * 0))


def _whole(z: Rounded, k: int) -> Rounded:
    """z^k, k >= 0, by NumPy's power."""
    from dpspec.symbolic.balls import _whole_power

    if k == 0:
        return _lifted(1)
    if k == 1:
        return z
    top = _size(z.value)
    return rounded(_whole_power(z.value, k), (top + z.error) ** k - top**k, _FUNCTION)


def _expit(z: Rounded, exact: Any) -> Rounded:
    # 1/(1 + exp(-z)): the error of the exponential counts by 1 - s < 1; where it overflows the result is 0 and the truth below 1e-300
    return Rounded(exact, z.error / 4 + _FUNCTION * 2 * _size(exact) + 1e-300)


def _function(name: str, params: tuple[Fraction, ...], z: Rounded, exact: Any, alg: _Rounding) -> tuple[Any, Any]:
    """The errors of a function's value and of its first derivative."""
    from flint import arb

    v, e = z.value, z.error
    nothing = e * math.nan
    if not _finite(z):
        return nothing, nothing
    if name == "exp":
        out = rounded(exact[0], _size(exact[0]) * e.upper().expm1(), _FUNCTION)
        return out.error, out.error
    if name == "log":
        least = v.lower() - e
        if not least > 0:
            return nothing, nothing
        return rounded(exact[0], e / least, _FUNCTION).error, (1 / z).error
    if name == "expit":
        s = _expit(z, exact[0])
        return s.error, (s * _expit(-z, 1 - exact[0])).error
    if name == "softplus":
        return rounded(exact[0], e, 2 * _FUNCTION).error + _FUNCTION, _expit(z, exact[1]).error
    if name in ("pos", "abs"):
        k = int(params[0]) if params else 1
        m = Rounded(v.abs_lower().union(v.abs_upper()), e)
        away = v.abs_lower() - e > 0
        if k == 1:
            return e, arb(0) if away else arb(1 if name == "pos" else 2)
        return _whole(m, k).error, (k * _whole(m, k - 1)).error
    if name == "huber":
        c = alg.number(params[0])
        m = Rounded(v.abs_upper().min(c.value).union(arb(0)), e + c.error)
        return (m * (Rounded(v.abs_lower().union(v.abs_upper()), e) + m * 0.5)).error, e + c.error
    if name == "biweight":
        c = alg.number(params[0])
        q = z / c
        near = Rounded(arb(0).union(arb(1)), (q * q).error)
        r = 1 - near
        inner = Rounded(v.abs_upper().min(c.value).union(arb(0)), e)
        return (c * c * (1 - r * r * r)).error, (inner * r * r).error
    if name == "cauchy":
        c = alg.number(params[0])
        q = Rounded(v.abs_lower().union(v.abs_upper()), e) / c
        if not (_finite(q) and (q * q).error < 0.5):
            return nothing, nothing
        square = Rounded((q.value.abs_lower() ** 2).union(q.value.abs_upper() ** 2), (q * q).error)
        value = c * c * 0.5 * rounded(square.value.log1p(), 2 * square.error, _FUNCTION)
        return value.error, (c * q / (1 + square)).error
    if name in ("sin", "cos"):
        return e + _FUNCTION, e + _FUNCTION
    if name == "tanh":
        t = Rounded(exact[0], e + _FUNCTION)
        return t.error, (1 - t * t).error
    if name in ("erf", "erfc"):
        square = z * z
        g = rounded(exact[1], _size(exact[1]) * square.error.upper().expm1(), 4 * _FUNCTION)
        return 2 * e + 4 * _FUNCTION, g.error
    return nothing, nothing
