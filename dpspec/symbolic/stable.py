"""The form of a loss that doubles evaluate: equal to its normal form, and written so that less cancels.

The normal form multiplies everything out, so that equal losses are equal data; evaluated as it stands, (y - u)^2 at 1e8 has lost its last
digits. Four rewritings give them back:

* a loss of the residual alone is evaluated at s = u - y, one subtraction that is rounded once;
* a quadratic in u (or in z = y u) that keeps one sign becomes a (u + B/2a)^2 + rest, the rest of the same sign;
* log(k1 exp(a) + k2 exp(b)) becomes a + log k1 + log(1 + exp(b - a + log k2/k1)), which neither overflows nor underflows;
* exp(a) expit(-a) becomes expit(a).

None of them is needed for privacy (every slope is brought into its certified range, :mod:`dpspec.algorithms.objective`); they make what
runs close to what is proved, and :mod:`dpspec.symbolic.running` bounds how close.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpspec.symbolic.losses import drop_free
from dpspec.symbolic.normal import (
    ZERO,
    Atom,
    Fn,
    Mono,
    NoNormalForm,
    Poly,
    Pow,
    Var,
    add,
    const,
    fn,
    mul,
    of_atom,
    poly,
    scale,
    sub,
    substitute,
    var,
    variables,
)

_U, _Y = var("u"), var("y")
_U1: Mono = ((Var("u"), 1),)
_U2: Mono = ((Var("u"), 2),)


@dataclass(frozen=True, slots=True)
class Stable:
    """``form``, in u and y; with ``residual`` the variable called u is u - y, and y does not occur."""

    form: Poly
    residual: bool


@lru_cache(maxsize=256)
def stable(form: Poly, order: int) -> Stable:
    """What to evaluate for the derivative of ``form`` of that order. Terms without u are left out of derivatives: where they overflow they
    would turn a zero into a NaN."""
    p = drop_free(form) if order else form
    try:
        if {"u", "y"} == variables(p):
            moved = substitute(p, {"u": add(_U, _Y)})
            moved = drop_free(moved) if order else moved
            if "y" not in variables(moved):
                return Stable(_rewritten(moved), True)
        return Stable(_rewritten(p), False)
    except NoNormalForm:  # too large once rewritten
        return Stable(p, False)


def _rewritten(p: Poly) -> Poly:
    out: Poly = ZERO
    for mono, c in p.terms:
        term = const(c)
        for part in _parts(mono):
            term = mul(term, part)
        out = add(out, term)
    return _centred(out)


def _parts(mono: Mono) -> list[Poly]:
    atoms = dict(mono)
    out = []
    for a, k in mono:  # exp(a)*expit(-a) = expit(a)
        if isinstance(a, Fn) and a.name == "exp" and k == 1:
            partner = Fn("expit", (scale(a.args[0], -1),))
            if atoms.get(partner) == 1:
                del atoms[a], atoms[partner]
                out.append(_atom(Fn("expit", a.args)))
    return [*out, *(_to_power(_atom(a), a, k) for a, k in atoms.items())]


def _to_power(rewritten: Poly, a: Atom, k: int) -> Poly:
    if k == 1:
        return rewritten
    if len(rewritten.terms) == 1 and rewritten.terms[0][1] == 1 and len(rewritten.terms[0][0]) == 1 and rewritten.terms[0][0][0][1] == 1:
        return poly({((rewritten.terms[0][0][0][0], k),): Fraction(1)})
    return of_atom(Pow(rewritten, Fraction(k)))


def _atom(a: Atom) -> Poly:
    match a:
        case Fn(name="log", args=(inner,)):
            return _log_of_two(inner) or of_atom(Fn("log", (_rewritten(inner),)))
        case Fn(name=name, args=(inner,), params=params):
            return of_atom(Fn(name, (_rewritten(inner),), params))
        case Pow(base=base, exponent=exponent):
            return of_atom(Pow(_rewritten(base), exponent))
        case _:
            return of_atom(a)


def _exponent(mono: Mono) -> Poly | None:
    """log of a product of exponentials."""
    out = ZERO
    for a, k in mono:
        if not (isinstance(a, Fn) and a.name == "exp"):
            return None
        out = add(out, scale(a.args[0], k))
    return out


def _log_of_two(inner: Poly) -> Poly | None:
    if len(inner.terms) != 2:
        return None
    (first, k1), (second, k2) = inner.terms
    a, b = _exponent(first), _exponent(second)
    if a is None or b is None or k1 <= 0 or k2 <= 0:
        return None
    step = add(sub(b, a), fn("log", const(k2 / k1)))
    return add(add(_rewritten(a), fn("log", const(k1))), of_atom(Fn("softplus", (_rewritten(step),))))


def _centred(p: Poly) -> Poly:
    """``p`` with the quadratic part a u^2 + u B(y) + C(y) written as a square and a rest of one sign, where it has that shape."""
    if p.terms and all(m == () or (len(m) == 2 and m[0][0] == Var("u") and m[1] == (Var("y"), m[0][1])) for m, _ in p.terms):
        return _in_z(p)
    terms = dict(p.terms)
    a = terms.get(_U2)
    linear: dict[Mono, Fraction] = {}
    free: dict[Mono, Fraction] = {}
    for m, c in p.terms:
        if m == () or all(b == Var("y") for b, _ in m):
            free[m] = c
        elif m[0] == (Var("u"), 1) and all(b == Var("y") for b, _ in m[1:]):
            linear[m[1:]] = c
    if a is None or not linear:
        return p
    shift = scale(poly(linear), 1 / (2 * a))
    rest = sub(poly(free), scale(mul(shift, shift), a))
    if any(c * a < 0 or any(k % 2 for _, k in m) for m, c in rest.terms):
        return p
    used = {_U2, *free, *((_U1[0], *m) for m in linear)}
    kept = poly({m: c for m, c in p.terms if m not in used})
    return add(add(kept, rest), scale(of_atom(Pow(add(_U, shift), Fraction(2))), a))


def _in_z(p: Poly) -> Poly:
    """A quadratic in z = y u."""
    by = {(m[0][1] if m else 0): c for m, c in p.terms}
    a, b, c = by.get(2), by.get(1), by.get(0, Fraction(0))
    if a is None or b is None or set(by) - {0, 1, 2}:
        return p
    h = b / (2 * a)
    rest = c - a * h * h
    if rest * a < 0:
        return p
    return add(const(rest), scale(of_atom(Pow(add(mul(_Y, _U), const(h)), Fraction(2))), a))
