"""The expression tree that both surfaces share.

Expressions are data: the parser builds these nodes from a fixed vocabulary and nothing ever evaluates text. Numbers are exact
(:class:`fractions.Fraction`): ``0.1`` in a spec is one tenth, not the nearest double. Spans do not take part in equality, so two
expressions are equal when they mean the same tree, wherever they stand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

from dpspec.spec.diagnostics import Span

NormOrder = Literal["2", "1", "inf"]
BinaryOp = Literal["+", "-", "*", "/", "^"]

#: Functions of the expression language, with their number of arguments (None: two or more).
FUNCTIONS: Mapping[str, int | None] = {
    "exp": 1,
    "log": 1,
    "sqrt": 1,
    "abs": 1,
    "max": None,
    "min": None,
    "sin": 1,
    "cos": 1,
    "tanh": 1,
    "erf": 1,
    "ceil": 1,
    "floor": 1,
}


@dataclass(frozen=True, slots=True)
class Num:
    value: Fraction
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, a constant, or a hyphenated word of the vocabulary (``student-t``)."""

    id: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Neg:
    operand: Expr
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Bin:
    op: BinaryOp
    left: Expr
    right: Expr
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """``f(a, b)``: a function of :data:`FUNCTIONS`, or (where the grammar asks for one) a set, a law or a loss with arguments."""

    function: str
    args: tuple[Expr, ...]
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Inner:
    """``<a, b>``: the inner product."""

    left: Expr
    right: Expr
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Norm:
    """``|v|`` (order 2; the absolute value when ``v`` is a scalar), ``|v|_1``, ``|v|_inf``."""

    operand: Expr
    order: NormOrder = "2"
    span: Span | None = field(default=None, compare=False)


Expr: TypeAlias = Num | Name | Neg | Bin | Call | Inner | Norm


def num(value: int | str | Fraction) -> Num:
    """An exact number: an int, a fraction, or decimal text such as ``"1e-6"``."""
    return Num(Fraction(value))


def children(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Num() | Name():
            return ()
        case Neg(operand=a) | Norm(operand=a):
            return (a,)
        case Bin(left=a, right=b) | Inner(left=a, right=b):
            return (a, b)
        case Call(args=args):
            return args


def walk(e: Expr) -> Iterator[Expr]:
    """Every node, parents first."""
    stack = [e]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def names(e: Expr) -> frozenset[str]:
    return frozenset(node.id for node in walk(e) if isinstance(node, Name))


_OF_A_NETWORK = re.compile(r"([wv])([1-9][0-9]{0,3})")


def unit(name: str, letter: str) -> int:
    """k of the name w<k> (``letter`` w: the weights of hidden unit k, a vector) or v<k> (its weight in the output); 0 of any other."""
    found = _OF_A_NETWORK.fullmatch(name)
    return int(found[2]) if found is not None and found[1] == letter else 0


def is_network(loss: Expr) -> bool:
    """Whether a loss names the margin of a hidden unit, ``<w1, x>``."""
    return any(isinstance(e, Inner) and any(unit(name, "w") for name in names(e)) for e in walk(loss))


def network_weights(loss: Expr) -> frozenset[str]:
    """The names of weights, w1, w2... and v1, v2..., in a loss that :func:`is_network`; empty for any other."""
    return frozenset(n for n in names(loss) if unit(n, "w") or unit(n, "v")) if is_network(loss) else frozenset()


class Unbound(Exception):
    """An expression needs a number that nobody has given. ``name`` says which."""

    def __init__(self, name: str, span: Span | None) -> None:
        super().__init__(f"{name} has no value here")
        self.name = name
        self.span = span


class NotANumber(Exception):
    """An expression of numbers has no finite real value (division by zero, log of a negative number, overflow)."""

    def __init__(self, reason: str, span: Span | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span


_MATH: Mapping[str, Callable[..., Fraction | int | float]] = {
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "abs": abs,
    "max": max,
    "min": min,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "erf": math.erf,
    "ceil": math.ceil,
    "floor": math.floor,
}


def evaluate(e: Expr, values: Mapping[str, Fraction | int | float] | None = None) -> Fraction | float:
    """The value of a scalar expression.

    Rational arithmetic stays exact; the first transcendental function turns the value into a double. Raises :class:`Unbound` for
    a name without value and :class:`NotANumber` where no finite real value exists; never returns NaN or an infinity.
    """
    env = values or {}
    try:
        value = _evaluate(e, env)
    except (ZeroDivisionError, OverflowError, ValueError) as error:
        raise NotANumber(str(error), e.span) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise NotANumber("not a finite number", e.span)
    return value


def _evaluate(e: Expr, env: Mapping[str, Fraction | int | float]) -> Fraction | float:
    match e:
        case Num(value=v):
            return v
        case Name(id="pi"):
            return math.pi
        case Name(id=name):
            if name not in env:
                raise Unbound(name, e.span)
            given = env[name]
            return Fraction(given) if isinstance(given, int) else given
        case Neg(operand=a):
            return -_evaluate(a, env)
        case Norm(operand=a):
            size = _evaluate(a, env)
            return -size if size < 0 else size
        case Inner(left=a, right=b):
            return _evaluate(a, env) * _evaluate(b, env)
        case Bin(op=op, left=a, right=b):
            return _binary(op, _evaluate(a, env), _evaluate(b, env), e.span)
        case Call(function=f, args=args):
            if f not in _MATH:
                raise NotANumber(f"{f} is not a function of numbers", e.span)
            value = _MATH[f](*(_evaluate(a, env) for a in args))
            return Fraction(value) if isinstance(value, int) else value


def _binary(op: BinaryOp, a: Fraction | float, b: Fraction | float, span: Span | None) -> Fraction | float:
    if op == "+":
        return a + b
    if op == "-":
        return a - b
    if op == "*":
        return a * b
    if op == "/":
        return a / b
    exact = isinstance(a, Fraction) and isinstance(b, Fraction) and b.denominator == 1 and abs(b) <= 4096
    if exact and isinstance(a, Fraction) and (a.numerator.bit_length() + a.denominator.bit_length()) * abs(int(b)) <= 65536:
        return a ** int(b)
    v: float | complex = float(a) ** float(b)
    if isinstance(v, complex):
        raise NotANumber("a negative number to a fractional power is not real", span)
    return v
