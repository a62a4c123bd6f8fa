"""Losses of several margins: networks of two layers and a fixed, small width, written as expressions.

    phi(<w1, x>, ..., <wK, x>, v1, ..., vK, y),   for example (v1*tanh(<w1, x>) + v2*tanh(<w2, x>) - y)^2/2

The weights are K vectors w1..wK, the margins of the hidden units, and where the expression names them K numbers v1..vK, the weights of the
output; a v that the data block gives a number to is that number, and no weight. An expression is kept as it is written, a tree: what bounds
it is propagated from its leaves (:mod:`dpspec.symbolic.network_bounds`), and a square that were multiplied out would be bounded term by
term. Only ``log(1 + exp(z))``, ``1/(1 + exp(z))`` and ``max`` are rewritten, to functions whose derivatives are known.

:func:`recognise` reads the expression; :mod:`dpspec.symbolic.network_values` evaluates it over arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias

from dpspec.spec.expr import Bin, Call, Expr, Inner, Name, Neg, Norm, Num, is_network, names, network_weights, unit, walk
from dpspec.symbolic.normal import NAMED_LOSSES, NoNormalForm, NoValue, Scope, normal_form, var
from dpspec.symbolic.parts import Parts, split

#: Hidden units: the search for extrema runs through all margins at once.
MAX_WIDTH: Final = 8
#: Nodes of the tree, after rewriting.
MAX_NODES: Final = 300
#: What a unit or the loss may apply, as :mod:`dpspec.symbolic.margin` knows it. A power has its exponent as its parameter.
_FUNCTIONS: Final = frozenset(("exp", "log", "tanh", "erf", "sin", "cos", "abs"))


@dataclass(frozen=True, slots=True)
class Number:
    value: Fraction


@dataclass(frozen=True, slots=True)
class Label:
    """y."""


@dataclass(frozen=True, slots=True)
class Input:
    """A variable by its place: unit k's margin <w_k, x> is k - 1, the output weight v_k is K + k - 1."""

    place: int


@dataclass(frozen=True, slots=True)
class Sum:
    """``constant`` and multiples of nodes."""

    terms: tuple[tuple[Node, Fraction], ...]
    constant: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Product:
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of one number; ``power`` has its exponent in ``params``."""

    name: str
    inner: Node
    params: tuple[Fraction, ...] = ()


Node: TypeAlias = Number | Label | Input | Sum | Product | Apply

ZERO, ONE = Number(Fraction(0)), Number(Fraction(1))


def add(*nodes: Node) -> Node:
    constant, terms = Fraction(0), dict[Node, Fraction]()
    for node in nodes:
        match node:
            case Number(value=v):
                constant += v
            case Sum(terms=inner, constant=c):
                constant += c
                for part, k in inner:
                    terms[part] = terms.get(part, Fraction(0)) + k
            case _:
                terms[node] = terms.get(node, Fraction(0)) + 1
    kept = tuple((node, k) for node, k in terms.items() if k)
    if not kept:
        return Number(constant)
    return kept[0][0] if constant == 0 and len(kept) == 1 and kept[0][1] == 1 else Sum(kept, constant)


def times(k: Fraction, node: Node) -> Node:
    if k == 0:
        return ZERO
    match node:
        case Number(value=v):
            return Number(k * v)
        case Sum(terms=terms, constant=c):
            return add(*(Sum(((part, k * f),)) for part, f in terms), Number(k * c))
        case _:
            return node if k == 1 else Sum(((node, k),))


def multiply(a: Node, b: Node) -> Node:
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Number):
            return times(one.value, other)
        if isinstance(one, Sum) and len(one.terms) == 1 and one.constant == 0:
            return times(one.terms[0][1], multiply(one.terms[0][0], other))
    return power(a, Fraction(2)) if a == b else Product(a, b)


def power(a: Node, e: Fraction) -> Node:
    if e == 1:
        return a
    if isinstance(a, Number):
        if e.denominator == 1 and abs(e) <= 64 and not (a.value == 0 and e < 0):
            return Number(a.value ** int(e))
        if a.value <= 0:
            raise NoNormalForm("a power of a number is not defined there")
    if e == 0:
        return ONE
    if abs(e) > 64:
        raise NoNormalForm("a power beyond 64 is not covered")
    if isinstance(a, Sum) and len(a.terms) == 1 and a.constant == 0 and e.denominator == 1:
        node, k = a.terms[0]
        return times(k ** int(e), power(node, e))
    z = _one_plus_exp(a)
    if z is not None and e.denominator == 1 and e < 0:
        logistic = Apply("expit", times(Fraction(-1), z))
        return logistic if e == -1 else Apply("power", logistic, (-e,))
    return Apply("power", a, (e,))


def _one_plus_exp(a: Node) -> Node | None:
    if isinstance(a, Sum) and a.constant == 1 and len(a.terms) == 1:
        node, k = a.terms[0]
        if k == 1 and isinstance(node, Apply) and node.name == "exp":
            return node.inner
    return None


def apply(name: str, z: Node) -> Node:
    if name == "log":
        inner = _one_plus_exp(z)
        if inner is not None:
            return Apply("softplus", inner)
    if isinstance(z, Number):
        if z.value == 0 and name in ("tanh", "erf", "sin"):
            return ZERO
        if z.value == 0 and name in ("exp", "cos"):
            return ONE
        if name in ("abs", "pos"):
            return Number(abs(z.value) if name == "abs" else max(z.value, Fraction(0)))
    return Apply(name, z)


# ------------------------------------------------------------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class Network:
    """``form`` is a function of :class:`Input` places 0..width - 1 (margins) and, with ``outputs``, width..2 width - 1."""

    form: Node
    width: int
    outputs: bool

    @property
    def variables(self) -> int:
        return self.width * (2 if self.outputs else 1)

    @property
    def columns(self) -> int:
        """Entries of a unit beside its margin's weights: 1 where the output weight stands in its row, else 0."""
        return int(self.outputs)

    def size(self, features: int) -> int:
        """How many weights there are."""
        return self.width * (features + self.columns)


def recognise(loss: Expr, scope: Scope) -> tuple[Network, Parts] | None:
    """The data part and the regulariser of a loss of several margins; None of a loss that is none. Raises NoNormalForm, or a subclass,
    with what is not covered."""
    if not is_network(loss):
        return None
    summands = list(_summands(loss, Fraction(1)))
    penalty = [s for s in summands if names(s[1]) & {"w", "norm"} or _named_penalty(s[1])]
    data = [s for s in summands if s not in penalty]
    for _, e in penalty:
        if network_weights(e) or names(e) & {"x", *scope.labels}:
            raise NoNormalForm(
                "a term with w, the vector of all weights, may name nothing else: write regularisers as summands of their own"
            )
    named = frozenset().union(*(names(e) for _, e in data))
    width = max(unit(n, "w") for n in named)
    if width > MAX_WIDTH:
        raise NoNormalForm(f"a network has at most {MAX_WIDTH} hidden units, w1 to w{MAX_WIDTH}, and this one names w{width}")
    if missing := [f"w{k}" for k in range(1, width + 1) if f"w{k}" not in named]:
        raise NoNormalForm(f"hidden units are numbered from 1 on, and {', '.join(missing)} is missing")
    outputs = {n for n in named if unit(n, "v") and n not in scope.values}
    if outputs and outputs != {f"v{k}" for k in range(1, width + 1)}:
        raise NoNormalForm(f"output weights are v1 to v{width}, one a hidden unit, or numbers: {', '.join(sorted(outputs))} are named")
    for name in sorted(named):
        if unit(name, "w") and name in scope.values:
            raise NoNormalForm(f"{name} is the weights of a hidden unit here, and the data block makes it a number")
    reader = _Reader(scope, width)
    form = add(*(times(sign, reader.read(e)) for sign, e in data))
    if _count(form) > MAX_NODES:
        raise NoNormalForm("the loss is too large")
    places = _places(form)
    if gone := [k for k in range(width) if k not in places]:
        raise NoNormalForm(f"it does not depend on <w{gone[0] + 1}, x>")
    return Network(form, width, bool(outputs)), _penalty(penalty, scope)


def _summands(e: Expr, sign: Fraction) -> Any:
    match e:
        case Neg(operand=a):
            yield from _summands(a, -sign)
        case Bin(op="+" | "-" as op, left=a, right=b):
            yield from _summands(a, sign)
            yield from _summands(b, sign if op == "+" else -sign)
        case _:
            yield sign, e


def _named_penalty(e: Expr) -> bool:
    return any(isinstance(n, Call) and n.function in ("l1", "l2", "ridge", "lasso", "elastic-net", "group", "group-lasso") for n in walk(e))


def _penalty(terms: list[tuple[Fraction, Expr]], scope: Scope) -> Parts:
    """The regulariser, by the rules of losses of one margin: beside <w, x>, which must be left."""
    whole: Expr = Inner(Name("w"), Name("x"))
    for sign, e in terms:
        whole = Bin("+", whole, Bin("*", Num(sign), e) if sign != 1 else e)
    parts = split(normal_form(whole, scope))
    if parts.group is not None:
        raise NoNormalForm("group norms of a network's weights are not covered; write ridge or l1 terms")
    if parts.data != var("u"):
        raise NoNormalForm("a term with w, the vector of all weights, must depend on w alone")
    return parts


class _Reader:
    def __init__(self, scope: Scope, width: int) -> None:
        self.scope, self.width = scope, width

    def read(self, e: Expr) -> Node:
        match e:
            case Num(value=v):
                return Number(v)
            case Name(id=name):
                return self._name(name)
            case Neg(operand=a):
                return times(Fraction(-1), self.read(a))
            case Inner(left=a, right=b):
                return self._margin(a, b)
            case Norm(operand=a, order="2"):
                return apply("abs", self.read(a))
            case Norm():
                raise NoNormalForm("norms of single vectors of weights are not covered")
            case Bin(op=op, left=a, right=b):
                return self._binary(op, self.read(a), self.read(b))
            case Call(function=f, args=args):
                return self._call(f, [self.read(a) for a in args] if f not in NAMED_LOSSES else [])

    def _name(self, name: str) -> Node:
        if name in self.scope.values:
            return Number(Fraction(self.scope.values[name]))
        if name in self.scope.labels:
            return Label()
        if unit(name, "v"):
            return Input(self.width + unit(name, "v") - 1)
        if unit(name, "w") or name in ("x", "w"):
            raise NoNormalForm(f"the vector {name} stands where a number is needed; write a margin such as <w1, x>")
        if name in NAMED_LOSSES:
            raise NoNormalForm(f"{name} is a loss of <w, x>; of a network write the expression, such as log(1 + exp(-y*(...)))")
        if name == "pi":
            raise NoNormalForm("pi is not covered in a network; write a number")
        raise NoValue(name)

    def _margin(self, a: Expr, b: Expr) -> Node:
        left, right = self._combination(a), self._combination(b)
        if set(left) == {"x"}:
            left, right = right, left
        if set(right) != {"x"} or "x" in left:
            raise NoNormalForm("inner products of a network are margins <w1, x>")
        return add(*(times(k * right["x"], Input(int(name[1:]) - 1)) for name, k in left.items()))

    def _combination(self, e: Expr) -> dict[str, Fraction]:
        """A vector as a combination of w1, w2, ... and x with numbers."""
        match e:
            case Name(id=name) if name == "x" or unit(name, "w"):
                return {name: Fraction(1)}
            case Neg(operand=a):
                return {name: -k for name, k in self._combination(a).items()}
            case Bin(op="+" | "-" as op, left=a, right=b):
                out = self._combination(a)
                for name, k in self._combination(b).items():
                    out[name] = out.get(name, Fraction(0)) + (k if op == "+" else -k)
                return out
            case Bin(op="*", left=Num(value=v), right=b):
                return {name: v * k for name, k in self._combination(b).items()}
            case Bin(op="/", left=a, right=Num(value=v)) if v:
                return {name: k / v for name, k in self._combination(a).items()}
            case _:
                raise NoNormalForm("inner products of a network are margins <w1, x>")

    def _binary(self, op: str, a: Node, b: Node) -> Node:
        if op == "+":
            return add(a, b)
        if op == "-":
            return add(a, times(Fraction(-1), b))
        if op == "*":
            return multiply(a, b)
        if op == "/":
            if b == ZERO:
                raise NoNormalForm("the loss divides by zero")
            return multiply(a, power(b, Fraction(-1)))
        if not isinstance(b, Number):
            raise NoNormalForm("a power whose exponent depends on the record is not covered")
        return power(a, b.value)

    def _call(self, f: str, args: list[Node]) -> Node:
        if f in NAMED_LOSSES:
            raise NoNormalForm(f"{f} is a loss of <w, x>; of a network write the expression, such as log(1 + exp(-y*(...)))")
        if f in ("max", "min") and len(args) >= 2:
            sign = Fraction(1 if f == "max" else -1)
            out = times(sign, args[0])
            for other in args[1:]:  # max(a, b) = b + max(0, a - b)
                b = times(sign, other)
                out = apply("pos", b) if out == ZERO else add(b, apply("pos", add(out, times(Fraction(-1), b))))
            return times(sign, out)
        if f == "sqrt" and len(args) == 1:
            return power(args[0], Fraction(1, 2))
        if f in _FUNCTIONS and len(args) == 1:
            return apply(f, args[0])
        raise NoNormalForm(f"{f} is not covered in a network")


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Sum(terms=terms):
            return tuple(part for part, _ in terms)
        case Product(left=a, right=b):
            return (a, b)
        case Apply(inner=a):
            return (a,)
        case _:
            return ()


def _count(node: Node) -> int:
    return 1 + sum(_count(c) for c in children(node))


@lru_cache(maxsize=4096)
def _places(node: Node) -> frozenset[int]:
    """The variables that a node depends on."""
    if isinstance(node, Input):
        return frozenset((node.place,))
    return frozenset().union(*(_places(c) for c in children(node)))


places = _places


@lru_cache(maxsize=64)
def exchangeable(net: Network) -> bool:
    """Whether hidden units may change places, each with its output weight: the loss is then the same function of z."""

    def key(node: Node, swap: Mapping[int, int]) -> Any:
        match node:
            case Number(value=v):
                return ("number", str(v))
            case Label():
                return ("label",)
            case Input(place=k):
                return ("input", swap.get(k, k))
            case Sum(terms=terms, constant=c):
                return ("sum", str(c), *sorted((repr(key(part, swap)), str(f)) for part, f in terms))
            case Product(left=a, right=b):
                return ("product", *sorted(repr(key(v, swap)) for v in (a, b)))
            case Apply(name=name, inner=inner, params=params):
                return (name, str(params), key(inner, swap))

    swaps = [{i: i + 1, i + 1: i, net.width + i: net.width + i + 1, net.width + i + 1: net.width + i} for i in range(net.width - 1)]
    return all(key(net.form, swap) == key(net.form, {}) for swap in swaps)


#: Functions that level out at both ends, with derivatives that tend to 0.
_LEVEL: Final = frozenset(("tanh", "expit", "erf"))
_LEAST: Final = Fraction(1, 2**32)


def saturating(net: Network) -> bool:
    """Whether margins occur in functions that level out alone, whose arguments are multiples of one margin and a number: the loss is then
    bounded with its derivatives whatever the margins are. Output weights have to be numbers."""

    def level(node: Node) -> bool:
        if not _places(node):
            return True
        if isinstance(node, Apply) and node.name in _LEVEL:
            z = node.inner
            if isinstance(z, Input):
                return True
            if isinstance(z, Sum) and len(z.terms) == 1 and isinstance(z.terms[0][0], Input):
                return abs(z.terms[0][1]) >= _LEAST
        return not isinstance(node, Input) and all(level(c) for c in children(node))

    return not net.outputs and level(net.form)
