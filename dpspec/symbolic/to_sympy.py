"""From the expression tree to sympy, through a fixed vocabulary. No text is ever evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpspec.spec.expr import Bin, Call, Expr, Inner, Name, Neg, Norm, NotANumber, Num
from dpspec.symbolic.render import to_latex, to_text


def to_sympy(e: Expr, *, values: Mapping[str, Fraction | int | float] | None = None, positive: bool = True) -> Any:
    """The sympy expression. Rationals stay ``Rational``; ``pi`` is the number.

    Names become symbols, positive unless ``positive`` is False (then real), except those in ``values``. Inner products and norms of
    names become symbols of their own (``<w, x>``, ``|w|_2``); ``|v|`` of anything else is the absolute value. Raises
    :class:`dpspec.spec.expr.NotANumber` for a call outside the vocabulary.
    """
    import sympy

    table = {
        "exp": sympy.exp,
        "log": sympy.log,
        "sqrt": sympy.sqrt,
        "abs": sympy.Abs,
        "max": sympy.Max,
        "min": sympy.Min,
        "sin": sympy.sin,
        "cos": sympy.cos,
        "tanh": sympy.tanh,
        "erf": sympy.erf,
        "ceil": sympy.ceiling,
        "floor": sympy.floor,
    }
    known = values or {}

    def symbol(name: str) -> Any:
        return sympy.Symbol(name, positive=True) if positive else sympy.Symbol(name, real=True)

    def number(v: Fraction | int | float) -> Any:
        exact = Fraction(v)
        return sympy.Rational(exact.numerator, exact.denominator)

    def convert(node: Expr) -> Any:
        match node:
            case Num(value=v):
                return number(v)
            case Name(id=name):
                if name in known:
                    return number(known[name])
                return sympy.pi if name == "pi" else symbol(name)
            case Neg(operand=a):
                return -convert(a)
            case Inner():
                return sympy.Symbol(to_text(node), real=True)
            case Norm(operand=Name(id=name)) if name not in known:
                return sympy.Symbol(to_text(node), nonnegative=True)
            case Norm(operand=a):
                return sympy.Abs(convert(a))
            case Bin(op=op, left=a, right=b):
                left, right = convert(a), convert(b)
                if op == "+":
                    return left + right
                if op == "-":
                    return left - right
                if op == "*":
                    return left * right
                return left / right if op == "/" else left**right
            case Call(function=f, args=args):
                if f not in table:
                    raise NotANumber(f"{f} is not a function of numbers", node.span)
                return table[f](*(convert(a) for a in args))

    return convert(e)


__all__ = ["to_latex", "to_sympy", "to_text"]
