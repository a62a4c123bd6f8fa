"""Convexity in the margin by composition rules (the ones disciplined convex programming uses), for one fixed label.

It answers "convex" where the rules show it and None where they do not; None is not "not convex".
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from dpspec.symbolic.losses import atom_depends
from dpspec.symbolic.normal import Atom, Fn, Mono, Poly, Pow, Var

Curvature: TypeAlias = Literal["constant", "affine", "convex", "concave"]


def curvature(p: Poly) -> Curvature | None:
    """The curvature in u of a normal form, for every value of the other variables."""
    total: Curvature = "constant"
    for mono, c in p.terms:
        joined = _join(total, _flip(_mono(mono), c < 0))
        if joined is None:
            return None
        total = joined
    return total


def _flip(c: Curvature | None, negative: bool) -> Curvature | None:
    if negative and c in ("convex", "concave"):
        return "concave" if c == "convex" else "convex"
    return c


def _join(a: Curvature, b: Curvature | None) -> Curvature | None:
    order = ("constant", "affine")
    if b is None or a == b:
        return b
    if a in order:
        return b if b not in order else "affine"
    return a if b in order else None


def _mono(m: Mono) -> Curvature | None:
    inside = [(a, k) for a, k in m if atom_depends(a)]
    outside = [(a, k) for a, k in m if not atom_depends(a)]
    if not inside:
        return "constant"
    if len(inside) > 1:
        return None
    inner = _atom(*inside[0])
    if inner == "affine":
        return inner
    return inner if all(_nonnegative(a, k) for a, k in outside) else None


def _nonnegative(a: Atom, k: int) -> bool:
    if k % 2 == 0:
        return True
    if isinstance(a, Pow):
        return a.exponent.denominator % 2 == 0  # an even root
    return isinstance(a, Fn) and a.name in ("pi", "exp", "expit", "softplus", "abs", "pos")


def _atom(a: Atom, k: int) -> Curvature | None:
    match a:
        case Var():
            return "affine" if k == 1 else "convex" if k > 0 and k % 2 == 0 else None
        case Fn(name="exp" | "softplus" | "pos", args=(z,)):
            # convex, increasing, never negative: so are the positive powers
            return "convex" if k >= 1 and curvature(z) in ("constant", "affine", "convex") else None
        case Fn(name="abs" | "huber", args=(z,)):
            return "convex" if k >= 1 and curvature(z) in ("constant", "affine") else None
        case Fn(name="log", args=(z,)):
            return "concave" if k == 1 and curvature(z) in ("constant", "affine", "concave") else None
        case Pow(base=z, exponent=e) if e * k < 0:
            # z^-a is convex and decreasing where it is defined, which for a fractional power or z > 0 is the right half line
            return "convex" if e.denominator != 1 and curvature(z) in ("constant", "affine", "concave") else None
        case Pow(base=z, exponent=e) if k == 1 and e > 0 and e.denominator == 1 and e % 2 == 0:
            return "convex" if curvature(z) in ("constant", "affine") else None
        case _:
            return None
