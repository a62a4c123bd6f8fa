"""Derivatives by propagation: the value of a normal form and its first derivatives in the margin u.

One rule set, two algebras. Over balls of python-flint the result encloses the true value for every u and y in the given intervals;
over NumPy arrays it evaluates. Where a function has a kink inside the interval the derivative is the hull of its one-sided
derivatives and the jet says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from dpspec.symbolic.normal import Fn, Poly, Pow, Var

#: Which way the first derivative may jump inside the interval: 0 not at all, +1 upwards only, -1 downwards only, 2 unknown.
Kink: TypeAlias = int


@dataclass(frozen=True, slots=True)
class Jet:
    """``d``: value and derivatives up to the order asked for. ``rough``: the second derivative may jump, so the third bounds nothing."""

    d: tuple[Any, ...]
    kink: Kink = 0
    rough: bool = False


@dataclass(frozen=True, slots=True)
class Outer:
    """A function of one variable at an argument: value and three derivatives, with the flags of :class:`Jet`."""

    g: tuple[Any, Any, Any, Any]
    kink: Kink = 0
    rough: bool = False


class Algebra(Protocol):
    """Numbers of one kind. ``sign`` is +1 (never negative), -1 (never positive) or 2 (unknown)."""

    def number(self, value: Fraction) -> Any: ...

    def sign(self, value: Any) -> int: ...

    def square(self, value: Any) -> Any: ...

    def unary(self, name: str, params: tuple[Fraction, ...], z: Any) -> Outer: ...

    def power(self, z: Any, exponent: Fraction) -> Outer: ...

    def pi(self) -> Any: ...


def _merge(a: Kink, b: Kink) -> Kink:
    if a == 0 or a == b:
        return b
    return a if b == 0 else 2


def _times(kink: Kink, sign: int) -> Kink:
    if kink == 0:
        return 0
    return 2 if 2 in (kink, sign) else kink * sign


def _product(a: Jet, b: Jet, alg: Algebra) -> Jet:
    f, g = a.d, b.d
    out = [f[0] * g[0]]
    if len(f) > 1:
        out.append(f[1] * g[0] + f[0] * g[1])
    if len(f) > 2:
        out.append(f[2] * g[0] + 2 * (f[1] * g[1]) + f[0] * g[2])
    if len(f) > 3:
        out.append(f[3] * g[0] + 3 * (f[2] * g[1]) + 3 * (f[1] * g[2]) + f[0] * g[3])
    kink = 0
    if a.kink or b.kink:
        kink = _merge(_times(a.kink, alg.sign(g[0])), _times(b.kink, alg.sign(f[0])))
    return Jet(tuple(out), kink, a.rough or b.rough or bool(kink))


def _compose(outer: Outer, inner: Jet, alg: Algebra) -> Jet:
    g, f = outer.g, inner.d
    out = [g[0]]
    if len(f) > 1:
        out.append(g[1] * f[1])
    if len(f) > 2:
        out.append(g[2] * alg.square(f[1]) + g[1] * f[2])
    if len(f) > 3:
        out.append(g[3] * f[1] * alg.square(f[1]) + 3 * (g[2] * (f[1] * f[2])) + g[1] * f[3])
    kink = _merge(outer.kink, _times(inner.kink, alg.sign(g[1])) if inner.kink else 0)
    return Jet(tuple(out), kink, outer.rough or inner.rough or bool(kink))


def jet(p: Poly, env: Mapping[str, Any], alg: Algebra, order: int) -> Jet:
    """The jet of ``p`` in ``u``; every other variable of ``env`` is a constant. ``order`` is 0 to 3."""
    zero = env["u"] * 0
    total = Jet((zero,) * (order + 1))
    for mono, coefficient in p.terms:
        c = alg.number(coefficient)
        if not mono:
            total = Jet((total.d[0] + c, *total.d[1:]), total.kink, total.rough)
            continue
        term: Jet | None = None
        for atom, exponent in mono:
            part = _atom_power(atom, exponent, env, alg, order)
            term = part if term is None else _product(term, part, alg)
        assert term is not None
        kink = _times(term.kink, 1 if coefficient > 0 else -1)
        total = Jet(tuple(a + c * b for a, b in zip(total.d, term.d, strict=True)), _merge(total.kink, kink), total.rough or term.rough)
    return total


def _atom_power(atom: Any, exponent: int, env: Mapping[str, Any], alg: Algebra, order: int) -> Jet:
    match atom:
        case Var(name=name):
            z = env[name]
            zero = env["u"] * 0
            base = Jet((z + zero, *((zero + 1,) if name == "u" else (zero,)), zero, zero)[: order + 1])
        case Fn(name="pi"):
            zero = env["u"] * 0
            base = Jet((zero + alg.pi(), zero, zero, zero)[: order + 1])
        case Fn(name="pos" | "abs" as name, args=(inner,), params=()) if exponent >= 2:
            # max(0, z)^k and |z|^k have a continuous derivative for k >= 2, which a product of two kinks would not show
            z_jet = jet(inner, env, alg, order)
            return _compose(alg.unary(name, (Fraction(exponent),), z_jet.d[0]), z_jet, alg)
        case Fn(name=name, args=(inner,), params=params):
            z_jet = jet(inner, env, alg, order)
            base = _compose(alg.unary(name, params, z_jet.d[0]), z_jet, alg)
        case Pow(base=inner, exponent=e):
            z_jet = jet(inner, env, alg, order)
            return _compose(alg.power(z_jet.d[0], e * exponent), z_jet, alg)
        case _:  # pragma: no cover - the normal form has no other atom
            raise TypeError(f"unknown atom {atom!r}")
    return base if exponent == 1 else _compose(alg.power(base.d[0], Fraction(exponent)), base, alg)
