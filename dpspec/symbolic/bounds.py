"""Bounds as expressions: their value, their rate in each parameter, and what n or epsilon a target asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from dpspec.spec.expr import Bin, Call, Expr, Name, Neg, NotANumber, Unbound, evaluate, names, num
from dpspec.symbolic.growth import Direction, Growth, default_direction, growth
from dpspec.symbolic.render import to_latex, to_text

Values: TypeAlias = Mapping[str, Fraction | int | float]
Kind: TypeAlias = Literal["explicit", "order"]

#: The unspecified constant of an order bound.
CONSTANT = "C"
#: Parameters that count something; least values of these are whole numbers.
WHOLE = frozenset({"n", "m", "d", "p", "k", "s", "T", "N"})


@dataclass(frozen=True, slots=True)
class BoundExpr:
    """A bound. An ``order`` bound has the free constant ``C`` (it may be missing from the expression: then the whole is meant up to a
    constant factor); an ``explicit`` one has none and its value is a claim about numbers."""

    expression: Expr
    kind: Kind = "explicit"

    @property
    def parameters(self) -> frozenset[str]:
        """Names that need a value, the free constant left out."""
        return names(self.expression) - {CONSTANT, "pi"} if self.kind == "order" else names(self.expression) - {"pi"}

    def evaluate(self, values: Values) -> float:
        """The value. An order bound without ``C`` among ``values`` is evaluated at C = 1: its shape, not a claim.

        Raises :class:`dpspec.spec.expr.Unbound` for a missing parameter, ``NotANumber`` where no finite value exists.
        """
        env: dict[str, Fraction | int | float] = dict(values)
        if self.kind == "order":
            env.setdefault(CONSTANT, 1)
        try:
            return float(evaluate(self.expression, env))
        except OverflowError:
            raise NotANumber("too large for a double", self.expression.span) from None

    def exponents(self, variable: str, *, to: Direction | None = None, dominant_in: str | None = None) -> Growth:
        """How the bound grows in ``variable`` alone, as it goes to infinity (``to="infinity"``) or to zero (``"zero"``).

        ``to`` defaults to zero for accuracies and budgets (epsilon, delta, rho, alpha...) and to infinity for sizes. ``dominant_in``
        keeps only the terms that dominate in that other variable first (the rate in d of the term that matters at large n). Raises
        ValueError when the rate is neither a power nor a power times logarithms (``Growth.exponential`` covers exp).
        """
        e = self.expression if dominant_in is None else self._joined(self.dominant_terms(dominant_in))
        return growth(e, variable, to or default_direction(variable))

    def dominant_terms(self, variable: str, *, to: Direction | None = None) -> tuple[Expr, ...]:
        """The terms of the sum (products are distributed over sums first) that no other term outgrows."""
        direction = to or default_direction(variable)
        rated = [(growth(t, variable, direction), t) for t in terms(self.expression)]
        best = max(g.key for g, _ in rated)
        return tuple(t for g, t in rated if g.key == best)

    def _joined(self, parts: tuple[Expr, ...]) -> Expr:
        out = parts[0]
        for p in parts[1:]:
            out = Bin("+", out, p)
        return out

    def solve_for(
        self,
        variable: str,
        target: float,
        values: Values,
        bracket: tuple[float, float] | None = None,
        *,
        whole: bool | None = None,
    ) -> Solution:
        """The value of ``variable`` at which the bound meets ``target``; see :class:`Solution`."""
        return solve(self, variable, target, values, bracket, whole=whole)

    def text(self) -> str:
        return to_text(self.expression)

    def latex(self) -> str:
        """LaTeX; an order bound is wrapped in O(.) and loses its constant."""
        if self.kind == "explicit":
            return to_latex(self.expression)
        return rf"O\left({to_latex(_without_constant(self.expression))}\right)"


def in_exponents(e: Expr, values: Values) -> Expr:
    """The expression with the names in its exponents replaced by their values, where they have one: what a power is depends on them, and
    a general argument about primes or symbols says nothing of the spec at hand."""
    return _replaced(e, values, inside=False)


def _replaced(e: Expr, values: Values, *, inside: bool) -> Expr:
    match e:
        case Name(id=word) if inside and word in values:
            return num(Fraction(values[word]).limit_denominator(10**6))
        case Bin(op="^", left=a, right=b):
            return Bin("^", _replaced(a, values, inside=inside), _replaced(b, values, inside=True))
        case Bin(op=op, left=a, right=b):
            return Bin(op, _replaced(a, values, inside=inside), _replaced(b, values, inside=inside))
        case Neg(operand=a):
            return Neg(_replaced(a, values, inside=inside))
        case Call(function=f, args=args):
            return Call(f, tuple(_replaced(a, values, inside=inside) for a in args))
        case _:
            return e


def _without_constant(e: Expr) -> Expr:
    match e:
        case Bin(op="*", left=a, right=b):
            if a == Name(CONSTANT):
                return b
            inner = _without_constant(a)
            return Bin("*", inner, b) if inner is not a else e
        case Bin(op="/", left=a, right=b):
            if a == Name(CONSTANT):
                return Bin("/", num(1), b)
            inner = _without_constant(a)
            return Bin("/", inner, b) if inner is not a else e
        case _:
            return e


def terms(e: Expr) -> tuple[Expr, ...]:
    """The summands, with factors and divisors distributed over sums. Subtracted terms keep their sign."""
    match e:
        case Bin(op="+", left=a, right=b):
            return terms(a) + terms(b)
        case Bin(op="-", left=a, right=b):
            return terms(a) + tuple(Neg(t) for t in terms(b))
        case Neg(operand=a):
            return tuple(Neg(t) for t in terms(a))
        case Bin(op="*", left=a, right=b):
            return tuple(Bin("*", s, t) for s in terms(a) for t in terms(b))
        case Bin(op="/", left=a, right=b):
            return tuple(Bin("/", s, b) for s in terms(a))
        case Call(function="max", args=args):
            return tuple(t for a in args for t in terms(a))  # of the order of the sum, for terms that are not negative
        case _:
            return (e,)


Function: TypeAlias = Callable[[float], float]
Status: TypeAlias = Literal["solved", "always", "never", "not monotone"]


@dataclass(frozen=True, slots=True)
class Solution:
    """``solved``: ``value`` is the least (``side`` "least") or the greatest ("greatest") value of the variable for which the bound is at
    most the target, and it stays so on the far side up to the end of the bracket. ``always``: the whole bracket meets the target,
    ``value`` is its easy end. ``never``: nothing in the bracket does. ``not monotone``: the bound turns where the answer would lie.
    ``bound`` is the bound at ``value``."""

    status: Status
    value: float | None = None
    side: Literal["least", "greatest"] = "least"
    bound: float | None = None
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.status in ("solved", "always")


#: Where to look when the caller does not say.
_BRACKETS: Mapping[str, tuple[float, float]] = {"epsilon": (1e-6, 1e3), "delta": (1e-30, 0.5), "rho": (1e-9, 1e4), "mu": (1e-6, 1e3)}
_GRID = 240


def solve(
    b: BoundExpr,
    variable: str,
    target: float,
    values: Values,
    bracket: tuple[float, float] | None = None,
    *,
    whole: bool | None = None,
) -> Solution:
    """Root finding that is honest about monotonicity.

    The bound is sampled on a logarithmic grid over ``bracket`` (positive ends; default 1 to 1e15 for whole numbers). It must fall, or
    rise, over a stretch at the end of the bracket that contains the crossing; bracketing points are then bisected. A whole number is
    returned on the side that meets the target, and a double likewise: the bound at ``value`` is never above ``target``. Raises
    :class:`dpspec.spec.expr.Unbound` when another parameter is missing and ValueError for a bad bracket.
    """
    integer = variable in WHOLE if whole is None else whole
    low, high = bracket or _BRACKETS.get(variable, (1.0, 1e15))
    if not 0 < low < high < math.inf:
        raise ValueError("the bracket must be two positive finite numbers in order")
    missing = b.parameters - set(values) - {variable}
    if missing:
        raise Unbound(min(missing), b.expression.span)
    env: dict[str, Fraction | int | float] = {k: float(v) for k, v in values.items()}

    def f(v: float) -> float:
        env[variable] = v
        try:
            return b.evaluate(env)
        except NotANumber:
            return math.nan

    points = _grid(low, high, integer)
    if len(points) < 2:
        raise ValueError("the bracket holds fewer than two candidates")
    levels = [f(v) for v in points]
    return _fall(points, levels, target, f, integer) or _rise(points, levels, target, f, integer) or _no_answer(levels, target)


def _grid(low: float, high: float, integer: bool) -> list[float]:
    ratio = math.log(high / low)
    raw = [low * math.exp(ratio * i / (_GRID - 1)) for i in range(_GRID - 1)] + [high]
    if not integer:
        return raw
    return [float(v) for v in sorted({min(max(math.ceil(low), round(v)), math.floor(high)) for v in raw})]


def _no_answer(levels: list[float], target: float) -> Solution:
    finite = [v for v in levels if not math.isnan(v)]
    if not finite:
        return Solution("never", reason="the bound has no finite value in the bracket")
    if min(finite) > target:
        return Solution("never", reason=f"the least value in the bracket is {min(finite):.6g}")
    return Solution("not monotone", reason="the bound turns where the answer would lie")


#: Rounding noise of a double evaluation, not a rise.
_NOISE = 1e-12


def _fall(points: list[float], levels: list[float], target: float, f: Function, integer: bool) -> Solution | None:
    """The bound falls towards the upper end: the least value that meets the target."""
    start = len(levels) - 1
    if math.isnan(levels[start]) or levels[start] > target:
        return None
    while start > 0 and levels[start - 1] >= levels[start] * (1 - math.copysign(_NOISE, levels[start])):
        start -= 1
    if start == len(levels) - 1:
        return None
    first = next(i for i in range(start, len(levels)) if levels[i] <= target)
    if first == 0:
        return Solution("always", points[0], "least", levels[0])
    if first == start and not math.isnan(levels[start - 1]):
        return None  # it meets the target on a stretch where it does not fall
    value = _bisect(points[first - 1], points[first], target, f, integer)
    return Solution("solved", value, "least", f(value))


def _rise(points: list[float], levels: list[float], target: float, f: Function, integer: bool) -> Solution | None:
    """The bound rises from the lower end: the greatest value that meets the target."""
    if math.isnan(levels[0]) or levels[0] > target:
        return None
    end = 0
    while end < len(levels) - 1 and levels[end + 1] >= levels[end] * (1 - math.copysign(_NOISE, levels[end])):
        end += 1
    if end == 0:
        return None
    last = max(i for i in range(end + 1) if levels[i] <= target)
    if last == end:
        return Solution("always", points[-1], "greatest", levels[-1]) if end == len(levels) - 1 else None
    value = _bisect(points[last + 1], points[last], target, f, integer)
    return Solution("solved", value, "greatest", f(value))


def _bisect(bad: float, good: float, target: float, f: Function, integer: bool) -> float:
    """Between a point that misses the target and one that meets it; the result meets it."""
    for _ in range(200):
        middle = float(round((bad + good) / 2)) if integer else math.sqrt(bad * good)
        if middle in (bad, good) or (not integer and abs(good - bad) <= 1e-13 * abs(good)):
            break
        if f(middle) <= target:
            good = middle
        else:
            bad = middle
    return good
