"""Rates: the power and the logarithms with which an expression grows in one variable.

Rules over the tree settle every expression in which nothing cancels (bounds are sums of positive terms); where leading terms may
cancel, as in exp(epsilon) - 1 at zero, sympy takes the limit.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from dpspec.spec.expr import Bin, Call, Expr, Inner, Name, Neg, Norm, NotANumber, Num, evaluate, names
from dpspec.symbolic.to_sympy import to_sympy

Direction: TypeAlias = Literal["infinity", "zero"]

#: Accuracies and budgets: interesting when small.
_SMALL = frozenset({"epsilon", "eps", "delta", "rho", "mu", "alpha", "beta", "xi", "zeta"})


def default_direction(variable: str) -> Direction:
    return "zero" if variable in _SMALL else "infinity"


@dataclass(frozen=True, slots=True)
class Growth:
    """The expression is of the order v^power * log(v)^log_power (log(1/v) towards zero), v the variable.

    ``exponential`` is +1 when it grows faster than every power, -1 when it shrinks faster; then power and log_power say nothing.
    ``towards`` is the direction the variable takes.
    """

    power: Fraction
    log_power: Fraction = Fraction(0)
    exponential: int = 0
    towards: Direction = "infinity"

    @property
    def key(self) -> tuple[int, Fraction, Fraction]:
        """Order by size as the variable goes to its limit."""
        return (self.exponential, self.power if self.towards == "infinity" else -self.power, self.log_power)


class _Cancels(Exception):
    """The rules cannot tell the leading term."""


def growth(e: Expr, variable: str, to: Direction) -> Growth:
    """The rate of ``e`` in ``variable``; every other name is a fixed positive number.

    Raises ValueError when no rate of this form exists or can be found.
    """
    try:
        found = _growth(e, variable, to)
        if found is None:
            raise _Cancels
        return found
    except _Cancels:
        return _by_limit(e, variable, to)


def _times(a: Growth, b: Growth, sign: int = 1) -> Growth:
    exponential = a.exponential + sign * b.exponential
    if a.exponential and b.exponential and exponential == 0:
        raise _Cancels
    return Growth(a.power + sign * b.power, a.log_power + sign * b.log_power, max(-1, min(1, exponential)), a.towards)


def _scaled(a: Growth, k: Fraction) -> Growth:
    sign = 0 if k == 0 else 1 if k > 0 else -1
    return Growth(a.power * k, a.log_power * k, a.exponential * sign, a.towards)


def _growth(e: Expr, v: str, to: Direction) -> Growth | None:
    """None for an expression that is zero."""
    constant = Growth(Fraction(0), towards=to)
    if v not in names(e):
        if isinstance(e, Num) and e.value == 0:
            return None
        return constant
    match e:
        case Name():
            return Growth(Fraction(1), towards=to)
        case Neg(operand=a) | Norm(operand=a):
            return _growth(a, v, to)
        case Inner(left=a, right=b) | Bin(op="*", left=a, right=b):
            left, right = _growth(a, v, to), _growth(b, v, to)
            return None if left is None or right is None else _times(left, right)
        case Bin(op="/", left=a, right=b):
            left, right = _growth(a, v, to), _growth(b, v, to)
            if right is None:
                raise ValueError("the expression divides by zero")
            return None if left is None else _times(left, right, -1)
        case Bin(op="+" | "-" as op, left=a, right=b):
            return _sum(_growth(a, v, to), _growth(b, v, to), _same_sign(a, b, op))
        case Bin(op="^", left=a, right=b):
            return _power(a, b, v, to)
        case Call(function=f, args=args):
            return _call(f, args, v, to)
    raise _Cancels


def _sum(a: Growth | None, b: Growth | None, same_sign: bool) -> Growth | None:
    if a is None or b is None:
        return a or b
    if a.key == b.key and (not same_sign or a.exponential):
        raise _Cancels
    return max(a, b, key=lambda g: g.key)


def _same_sign(a: Expr, b: Expr, op: str) -> bool:
    return _negative(a) == (_negative(b) if op == "+" else not _negative(b))


def _negative(e: Expr) -> bool:
    match e:
        case Neg(operand=a):
            return not _negative(a)
        case Num(value=v):
            return v < 0
        case Bin(op="*" | "/", left=a, right=b):
            return _negative(a) != _negative(b)
        case _:
            return False


def _power(a: Expr, b: Expr, v: str, to: Direction) -> Growth | None:
    base = _growth(a, v, to)
    if v in names(b):
        if v in names(a):
            raise _Cancels
        exponent = _growth(b, v, to)
        if exponent is None or exponent.key <= (0, Fraction(0), Fraction(0)):
            return Growth(Fraction(0), towards=to)
        value = _number(a)  # c^(something that grows)
        if value is None or value == 1:
            raise _Cancels
        up = (value > 1) != _negative(b)
        return Growth(Fraction(0), exponential=1 if up else -1, towards=to)
    k = _number(b)
    if k is None:
        raise _Cancels
    return None if base is None else _scaled(base, k)


def _number(e: Expr) -> Fraction | None:
    try:
        value = evaluate(e)
    except Exception:
        return None
    return Fraction(value) if isinstance(value, Fraction) else Fraction(value).limit_denominator(10**6)


def _call(f: str, args: tuple[Expr, ...], v: str, to: Direction) -> Growth | None:
    parts = [_growth(a, v, to) for a in args]
    known = [p for p in parts if p is not None]
    constant = Growth(Fraction(0), towards=to)
    match f:
        case "sqrt":
            return None if parts[0] is None else _scaled(parts[0], Fraction(1, 2))
        case "abs" | "ceil" | "floor":
            if f != "abs" and (parts[0] is None or parts[0].key <= (0, Fraction(0), Fraction(0))):
                raise _Cancels
            return parts[0]
        case "max":
            return max(known, key=lambda g: g.key) if known else None
        case "min":
            return None if len(known) < len(parts) else min(known, key=lambda g: g.key)
        case "log":
            return _log(parts[0], to)
        case "exp":
            inner = parts[0]
            if inner is None or inner.key <= (0, Fraction(0), Fraction(0)):
                return constant  # tends to exp of a constant
            if inner.exponential or inner.power != 0:
                return Growth(Fraction(0), exponential=-1 if _negative(args[0]) else 1, towards=to)
            raise _Cancels
        case "sin" | "cos" if parts[0] is not None and parts[0].key > (0, Fraction(0), Fraction(0)):
            raise ValueError(f"no rate: {f} oscillates")
        case _:
            raise _Cancels


def _log(inner: Growth | None, to: Direction) -> Growth:
    if inner is None or inner.exponential:
        raise _Cancels
    if inner.power != 0:
        return Growth(Fraction(0), Fraction(1), towards=to)
    if inner.log_power != 0:
        return Growth(Fraction(0), towards=to)  # log log: slower than any power of log; dropped
    raise _Cancels  # log of something that tends to a constant, perhaps to one


#: Values for the other names where sympy takes a limit: distinct and in no simple relation.
_PRIMES: Sequence[int] = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)


def _by_limit(e: Expr, variable: str, to: Direction) -> Growth:
    """lim log f / log v, then lim log(f/v^a) / log log v, with the other names set to distinct primes (inverted for small ones)."""
    import sympy

    others = sorted(names(e) - {variable, "pi"})
    values = {name: Fraction(1, p) if name in _SMALL else Fraction(p) for name, p in zip(others, itertools.cycle(_PRIMES), strict=False)}
    try:
        f = to_sympy(e, values=values)
    except NotANumber as error:
        raise ValueError(f"no rate: {error.reason}") from None
    t = sympy.Symbol("t", positive=True)
    v = sympy.Symbol(variable, positive=True)
    f = sympy.simplify(f.subs(v, t if to == "infinity" else 1 / t))
    power = _rational(_limit(sympy.log(sympy.Abs(f)) / sympy.log(t), t))
    if power is None:
        raise ValueError(f"the expression has no power rate in {variable}")
    rest = sympy.simplify(f / t ** sympy.Rational(power.numerator, power.denominator))
    log_power = _rational(_limit(sympy.log(sympy.Abs(rest)) / sympy.log(sympy.log(t)), t))
    return Growth(power if to == "infinity" else -power, log_power or Fraction(0), towards=to)


def _limit(e: Any, t: Any) -> Any:
    import sympy

    try:
        return sympy.limit(e, t, sympy.oo)
    except (NotImplementedError, ValueError, RecursionError):
        return None


def _rational(value: Any) -> Fraction | None:
    if value is None or not getattr(value, "is_number", False) or not value.is_finite:
        return None
    if value.is_Rational:
        return Fraction(int(value.p), int(value.q))
    exact = Fraction(float(value)).limit_denominator(1000)
    return exact if abs(float(exact) - float(value)) < 1e-12 else None
