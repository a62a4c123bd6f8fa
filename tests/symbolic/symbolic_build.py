"""Hand-built expressions, so that these tests depend on no parser."""

from __future__ import annotations

from dpspec.spec.expr import Bin, Call, Expr, Inner, Name, Neg, Norm, num

W, X, Y = Name("w"), Name("x"), Name("y")
U = Inner(W, X)


def n(v: int | str) -> Expr:
    return num(v)


def plus(a: Expr, b: Expr) -> Expr:
    return Bin("+", a, b)


def minus(a: Expr, b: Expr) -> Expr:
    return Bin("-", a, b)


def times(a: Expr, b: Expr) -> Expr:
    return Bin("*", a, b)


def over(a: Expr, b: Expr) -> Expr:
    return Bin("/", a, b)


def power(a: Expr, b: int | str) -> Expr:
    return Bin("^", a, num(b))


def f(name: str, *args: Expr) -> Expr:
    return Call(name, args)


def neg(a: Expr) -> Expr:
    return Neg(a)


def norm(order: str = "2") -> Expr:
    return Norm(W, order)  # type: ignore[arg-type]
