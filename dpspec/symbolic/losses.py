"""Closed forms: the extrema of phi' and phi'' of the named losses on a range of margins.

A loss is recognised from its normal form, whoever wrote it and however. Each closed form is elementary calculus, said beside it; the
tests compare every one with the branch and bound enclosure, which knows nothing of this file. No sympy, no flint: exact rationals,
and doubles with directed slack where an exponential or a root comes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from dpspec.domains.domain import Domain, Margin
from dpspec.numeric.rounding import padded_down, padded_up, sqrt_up
from dpspec.symbolic.normal import Fn, Mono, Poly, Pow, Var, add, mul, named_loss, scale, sub, var

#: An end of a range; None is infinite on that side.
End: TypeAlias = Fraction | None

ZERO, HALF, ONE = Fraction(0), Fraction(1, 2), Fraction(1)


@dataclass(frozen=True, slots=True)
class Profile:
    """Bounds on a range of the argument t: ``slope`` >= sup|f'|, ``curve`` >= sup|f''|, ``least`` <= inf f''; None is infinite
    (minus infinite for ``least``, which only jumps downwards would cause and no named loss has). ``at``: where |f'| is largest."""

    slope: Fraction | None
    curve: Fraction | None
    least: Fraction
    at: Fraction | None


@dataclass(frozen=True, slots=True)
class Named:
    """A recognised loss: factor * f(t) with t = y*u (``product``), t = u - y (``residual``), or factor*(A(u) - y*u) (``glm``)."""

    name: str
    family: Literal["product", "residual", "glm"]
    factor: Fraction
    params: tuple[Fraction, ...]
    convex: bool
    profile: Callable[[End, End], Profile]


# ------------------------------------------------------------------------------------------------- elementary functions, bounded


def sigmoid_up(t: Fraction) -> Fraction:
    """>= 1/(1 + exp(-t))."""
    if t < -700:
        return padded_up(math.exp(-700.0))
    return min(ONE, padded_up(1.0 / (1.0 + math.exp(-min(float(padded_up(float(t))), 700.0)))))


def _bump_up(t: Fraction) -> Fraction:
    """>= s(t)(1 - s(t)) for the logistic function s; even and decreasing in |t|."""
    if t == 0:
        return Fraction(1, 4)
    e = math.exp(-min(float(padded_down(float(abs(t)))), 700.0))
    return min(Fraction(1, 4), padded_up(e / (1.0 + e) ** 2))


def _bump_down(t: Fraction) -> Fraction:
    if t == 0:
        return Fraction(1, 4)
    if abs(t) > 700:
        return ZERO
    e = math.exp(-float(padded_up(float(abs(t)))))
    return padded_down(e / (1.0 + e) ** 2)


def exp_up(t: Fraction) -> Fraction | None:
    if t == 0:
        return ONE
    return padded_up(math.exp(max(float(padded_up(float(t))), -740.0))) if t < 709 else None


def exp_down(t: Fraction) -> Fraction:
    if t == 0:
        return ONE
    return padded_down(math.exp(min(float(padded_down(float(t))), 709.0))) if t > -700 else ZERO


def _nearest_zero(a: End, b: End) -> Fraction:
    if a is not None and a > 0:
        return a
    if b is not None and b < 0:
        return b
    return ZERO


def _farthest(a: End, b: End) -> End:
    """The largest |t| of [a, b]; None when infinite."""
    return None if a is None or b is None else max(abs(a), abs(b))


# ---------------------------------------------------------------------------------------------------------------- the profiles


def _softplus_minus(a: End, b: End) -> Profile:
    """f = log(1 + exp(-t)): |f'| = s(-t) falls with t; f'' = s(1-s) is even and falls with |t|."""
    far = _farthest(a, b)
    slope = ONE if a is None else sigmoid_up(-a)
    return Profile(slope, _bump_up(_nearest_zero(a, b)), ZERO if far is None else _bump_down(far), a)


def _hinge(m: Fraction) -> Callable[[End, End], Profile]:
    """f = max(0, m - t): slope -1 left of m, 0 right of it."""

    def profile(a: End, b: End) -> Profile:
        left = a is None or a <= m
        kink = left and (b is None or b >= m)
        return Profile(ONE if left else ZERO, None if kink else ZERO, ZERO, a if a is not None and a < m else m - 1 if a is None else None)

    return profile


def _squared_hinge(m: Fraction) -> Callable[[End, End], Profile]:
    """f = max(0, m - t)^2: |f'| = 2 max(0, m - t) falls with t; f'' is 2 left of m and 0 right of it."""

    def profile(a: End, b: End) -> Profile:
        slope = None if a is None else 2 * max(ZERO, m - a)
        return Profile(slope, Fraction(2) if a is None or a < m else ZERO, Fraction(2) if b is not None and b < m else ZERO, a)

    return profile


def _smoothed_hinge(s: Fraction, m: Fraction) -> Callable[[End, End], Profile]:
    """f = (r - t + sqrt((t - m)^2 + s^2))/2 with r = m: |f'| = (1 - v/sqrt(v^2 + s^2))/2, v = t - m, falls with t;
    f'' = s^2/(2 (v^2 + s^2)^(3/2)) is even in v and falls with |v|."""

    def slope_up(v: Fraction) -> Fraction:
        root = math.sqrt(float(v * v + s * s))
        if v <= 0:
            return min(ONE, padded_up((1.0 + float(-v) / root) / 2.0))
        return padded_up(float(s * s) / (2.0 * root * (root + float(v))))  # the same without cancellation

    def curve(v: Fraction) -> float:
        q = float(v * v + s * s)
        return float(s * s) / (2.0 * q * math.sqrt(q))

    def profile(a: End, b: End) -> Profile:
        va, vb = (None if a is None else a - m), (None if b is None else b - m)
        near, far = _nearest_zero(va, vb), _farthest(va, vb)
        top = 1 / (2 * s) if near == 0 else padded_up(curve(near))
        return Profile(ONE if va is None else slope_up(va), top, ZERO if far is None else padded_down(curve(far)), a)

    return profile


#: sup |s''| of the logistic function: 1/(6 sqrt 3), at |t| = log(2 + sqrt 3).
_PEAK_AT = math.log(2.0 + math.sqrt(3.0))


def _expit_minus(a: End, b: End) -> Profile:
    """f = 1/(1 + exp(t)): |f'| = s(1-s) falls with |t|; f'' = s(1-s)(2s-1) is odd, positive right of zero, and |f''| rises up to
    |t| = log(2 + sqrt 3) and falls beyond."""
    near = _nearest_zero(a, b)

    def third_up(t: Fraction) -> Fraction:  # >= |f''(t)| = e(1 - e)/(1 + e)^3 with e = exp(-|t|); each factor rounded its own way
        if t == 0:
            return ZERO
        near_zero, beyond = exp_up(-abs(t)) or ONE, float(exp_down(-abs(t)))
        small = padded_up(-math.expm1(-min(float(padded_up(float(abs(t)))), 700.0)))
        return min(padded_up(math.sqrt(3.0) / 18.0), near_zero * small * padded_up((1.0 + beyond) ** -3))

    def third_down(t: Fraction) -> Fraction:
        if t == 0:
            return ZERO
        over = float(exp_up(-abs(t)) or ONE)
        small = padded_down(-math.expm1(-min(float(padded_down(float(abs(t)))), 700.0)))
        return max(ZERO, exp_down(-abs(t)) * small * padded_down((1.0 + over) ** -3))

    def unimodal_up(p: Fraction, q: End) -> Fraction:  # sup of |f''| over p <= |t| <= q
        below, beyond = float(padded_down(_PEAK_AT)), float(padded_up(_PEAK_AT))
        if p <= beyond and (q is None or q >= below):
            return padded_up(math.sqrt(3.0) / 18.0)
        return third_up(p) if p > beyond or q is None else third_up(q)

    curve = unimodal_up(abs(near), _farthest(a, b))
    if a is not None and a >= 0:
        least = ZERO if b is None else min(third_down(a), third_down(b))
    else:
        # the part left of zero
        least = -unimodal_up(ZERO if b is None or b > 0 else -b, None if a is None else -a)
    return Profile(_bump_up(near), curve, least, near)


def _squared(a: End, b: End) -> Profile:
    far = _farthest(a, b)
    at = None if a is None or b is None else (a if abs(a) >= abs(b) else b)
    return Profile(far, ONE, ONE, at)


def _absolute(a: End, b: End) -> Profile:
    kink = (a is None or a <= 0) and (b is None or b >= 0)
    at = a if a is not None and a != 0 else b if b is not None and b != 0 else ONE if a is None or b is None else None
    return Profile(ONE, None if kink else ZERO, ZERO, at)


def _quantile(t: Fraction) -> Callable[[End, End], Profile]:
    """f = t max(0, -s) + (1 - t) max(0, s): slopes -t and 1 - t."""

    def profile(a: End, b: End) -> Profile:
        left, right = a is None or a <= 0, b is None or b >= 0
        options = ([(t, a if a is not None and a < 0 else -ONE if a is None else None)] if left else []) + (
            [(1 - t, b if b is not None and b > 0 else ONE if b is None else None)] if right else []
        )
        slope, at = max(options, key=lambda o: o[0])
        return Profile(slope, None if left and right else ZERO, ZERO, at)

    return profile


def _huber(c: Fraction) -> Callable[[End, End], Profile]:
    def profile(a: End, b: End) -> Profile:
        far = _farthest(a, b)
        inside = (a is None or a <= c) and (b is None or b >= -c)
        wholly = far is not None and far < c
        at = a if a is not None and (b is None or abs(a) >= abs(b)) else b
        if a is None or b is None:
            at = c if b is None else -c
        return Profile(c if far is None else min(c, far), ONE if inside else ZERO, ONE if wholly else ZERO, at)

    return profile


def _biweight(c: Fraction) -> Callable[[End, End], Profile]:
    """f' = s (1 - q)^2 and f'' = (1 - q)(1 - 5q) with q = s^2/c^2 <= 1, both zero beyond. |f'| rises up to q = 1/5, where it is
    (16/25) c/sqrt(5), and falls to zero at q = 1; f'' falls from 1 to -4/5 at q = 3/5 and rises to zero at q = 1."""

    def first(s: Fraction) -> Fraction:
        q = min(ONE, s * s / (c * c))
        return abs(s) * (1 - q) ** 2

    def second(q: Fraction) -> Fraction:
        return (1 - q) * (1 - 5 * q) if q < 1 else ZERO

    def profile(a: End, b: End) -> Profile:
        near, far = _nearest_zero(a, b), _farthest(a, b)
        q0 = near * near / (c * c)
        q1 = None if far is None else far * far / (c * c)
        fifth, dip = Fraction(1, 5), Fraction(3, 5)
        peak_at = Fraction(float(c) / math.sqrt(5.0))
        signed = peak_at if b is None or b >= peak_at else -peak_at
        if q0 <= fifth and (q1 is None or q1 >= fifth):
            slope: Fraction = Fraction(16, 25) * c * sqrt_up(fifth)
            at: End = signed
        elif q0 > fifth:
            slope, at = first(near), near
        else:
            assert far is not None
            slope, at = first(far), (far if b is not None and b == far else -far)
        ends = [second(q0), ZERO if q1 is None else second(q1)]
        highest, lowest = max(ends), min(ends)
        if q0 <= dip and (q1 is None or q1 >= dip):
            lowest = Fraction(-4, 5)
        return Profile(slope, max(abs(highest), abs(lowest)), lowest, at)

    return profile


def _cauchy(c: Fraction) -> Callable[[End, End], Profile]:
    """f' = s/(1 + q) and f'' = (1 - q)/(1 + q)^2 with q = s^2/c^2: |f'| rises to c/2 at q = 1 and falls; f'' falls from 1 to -1/8 at
    q = 3 and rises towards 0."""

    def first(s: Fraction) -> Fraction:
        return abs(s) / (1 + s * s / (c * c))

    def second(q: Fraction) -> Fraction:
        return (1 - q) / (1 + q) ** 2

    def profile(a: End, b: End) -> Profile:
        near, far = _nearest_zero(a, b), _farthest(a, b)
        q0 = near * near / (c * c)
        q1 = None if far is None else far * far / (c * c)
        if q0 <= 1 and (q1 is None or q1 >= 1):
            slope, at = c / 2, c if b is None or b >= c else -c
        elif q0 > 1:
            slope, at = first(near), near
        else:
            assert far is not None
            slope, at = first(far), far if b is not None and b == far else -far
        ends = [second(q0), ZERO if q1 is None else second(q1)]
        lowest = Fraction(-1, 8) if q0 <= 3 and (q1 is None or q1 >= 3) else min(ends)
        return Profile(slope, max(abs(max(ends)), abs(lowest)), lowest, at)

    return profile


def _exp_minus(a: End, b: End) -> Profile:
    """f = exp(-t), and all its derivatives but for the sign."""
    top = None if a is None else exp_up(-a)
    return Profile(top, top, ZERO if b is None else exp_down(-b), a)


def _linear(a: End, b: End) -> Profile:
    return Profile(ONE, ZERO, ZERO, a if a is not None else b if b is not None else ZERO)


def _exp_mean(a: End, b: End) -> Profile:
    """A = exp, the mean function of Poisson regression; its ``slope`` is unused, the caller needs both ends."""
    top = None if b is None else exp_up(b)
    return Profile(top, top, ZERO if a is None else exp_down(a), b)


def _softplus_mean(a: End, b: End) -> Profile:
    far = _farthest(a, b)
    return Profile(ONE if b is None else sigmoid_up(b), _bump_up(_nearest_zero(a, b)), ZERO if far is None else _bump_down(far), b)


# --------------------------------------------------------------------------------------------------------------- recognition

_U, _Y = var("u"), var("y")
_Z: Poly = mul(_Y, _U)
_S: Poly = sub(_U, _Y)


def drop_free(p: Poly) -> Poly:
    """Without the terms that do not depend on u: no derivative sees them."""
    return Poly(tuple((m, c) for m, c in p.terms if _depends(m)))


def _depends(m: Mono) -> bool:
    return any(atom_depends(a) for a, _ in m)


def atom_depends(a: Fn | Pow | Var) -> bool:
    match a:
        case Var(name=name):
            return name.startswith("u")
        case Fn(args=args):
            return any(_depends(m) for p in args for m, _ in p.terms)
        case Pow(base=base):
            return any(_depends(m) for m, _ in base.terms)


def _multiple(p: Poly, template: Poly) -> Fraction | None:
    """k > 0 with p = k * template."""
    t = drop_free(template)
    if not p.terms or len(p.terms) != len(t.terms) or p.terms[0][0] != t.terms[0][0]:
        return None
    k = p.terms[0][1] / t.terms[0][1]
    return k if k > 0 and scale(t, k) == p else None


def recognise(form: Poly) -> Named | None:
    """The named loss whose normal form this is, up to a positive factor and terms without w; None when there is none."""
    p = drop_free(form)
    for name, family, convex, profile in _FIXED:
        k = _multiple(p, _template(name))
        if k is not None:
            return Named(name, family, k, (), convex, profile)
    if len(p.terms) == 1:
        mono, k = p.terms[0]
        if len(mono) == 1 and isinstance(mono[0][0], Fn) and k > 0:
            return _one_atom(mono[0][0], mono[0][1], k)
    return _two_pieces(p)


_TEMPLATES: dict[str, Poly] = {}


def _template(name: str) -> Poly:
    if name not in _TEMPLATES:
        _TEMPLATES[name] = named_loss(name, ())
    return _TEMPLATES[name]


_FIXED: Sequence[tuple[str, Literal["product", "residual", "glm"], bool, Callable[[End, End], Profile]]] = (
    ("logistic", "product", True, _softplus_minus),
    ("squared", "residual", True, _squared),
    ("hinge", "product", True, _hinge(ONE)),
    ("squared-hinge", "product", True, _squared_hinge(ONE)),
    ("sigmoid", "product", False, _expit_minus),
    ("logistic-glm", "glm", True, _softplus_mean),
    ("poisson", "glm", True, _exp_mean),
    ("absolute", "residual", True, _absolute),
    ("exponential", "product", True, _exp_minus),
    ("linear", "product", True, _linear),
)


_RESIDUALS = {"huber": _huber, "biweight": _biweight, "cauchy": _cauchy}


def _one_atom(a: Fn, exponent: int, k: Fraction) -> Named | None:
    if a.name in _RESIDUALS and exponent == 1 and a.args[0] in (_S, scale(_S, -1)):
        c = a.params[0]
        return Named(a.name, "residual", k, (c,), a.name == "huber", _RESIDUALS[a.name](c))
    if a.name == "pos" and exponent in (1, 2) and a.args[0].as_dict().get(((Var("u"), 1), (Var("y"), 1))) == -1:
        m = add(a.args[0], _Z).constant()
        if m is not None:
            return Named(
                "hinge" if exponent == 1 else "squared-hinge",
                "product",
                k,
                (m,),
                True,
                _hinge(m) if exponent == 1 else _squared_hinge(m),
            )
    return None


def _two_pieces(p: Poly) -> Named | None:
    """quantile: k1*max(0, y - u) + k2*max(0, u - y); smoothed hinge: k*(sqrt((m - z)^2 + b^2) - z)."""
    if len(p.terms) != 2:
        return None
    d = p.as_dict()
    below, above = ((Fn("pos", (scale(_S, -1),)), 1),), ((Fn("pos", (_S,)), 1),)
    if set(d) == {below, above} and all(c > 0 for c in d.values()):
        total = d[below] + d[above]
        level = d[below] / total
        return Named("quantile", "residual", total, (level,), True, _quantile(level))
    for mono, k in p.terms:
        if len(mono) == 1 and mono[0][1] == 1 and isinstance(mono[0][0], Pow) and mono[0][0].exponent == HALF and k > 0:
            base = mono[0][0].base.as_dict()
            uy: Mono = ((Var("u"), 1), (Var("y"), 1))
            u2y2: Mono = ((Var("u"), 2), (Var("y"), 2))
            if d.get(uy) != -k or base.pop(u2y2, None) != 1:
                return None
            m = -base.pop(uy, ZERO) / 2
            rest = base.pop((), ZERO) - m * m
            if base or rest <= 0:
                return None
            b = sqrt_up(rest)
            if b * b != rest:
                return None
            return Named("smoothed-hinge", "product", 2 * k, (b, m), True, _smoothed_hinge(b, m))
    return None


# --------------------------------------------------------------------------------------------------------- over the two domains


@dataclass(frozen=True, slots=True)
class Constants:
    """``slope`` >= sup|phi'|, ``curve`` >= sup|phi''|, ``least`` <= inf phi''. None: infinite. ``at``: margin and label where |phi'| is
    (nearly) ``slope``, when such a point is known."""

    slope: Fraction | None
    curve: Fraction | None
    least: Fraction | None
    at: tuple[Fraction, Fraction] | None


def constants(named: Named, margin: Margin, y: Domain) -> Constants:
    """The extrema of a recognised loss over u in the margin range and y in its domain (one value of y at a time when it is finite)."""
    u = (margin.low, margin.high)
    if y.values:
        return _widest([_one(named, u, (v, v)) for v in y.values], named.factor)
    return _widest([_one(named, u, (y.low, y.high))], named.factor)


def _widest(parts: Sequence[Constants], factor: Fraction) -> Constants:
    slopes = [p.slope for p in parts]
    curves = [p.curve for p in parts]
    leasts = [p.least for p in parts]
    worst = max(parts, key=lambda p: math.inf if p.slope is None else float(p.slope))
    return Constants(
        None if None in slopes else factor * max(s for s in slopes if s is not None),
        None if None in curves else factor * max(c for c in curves if c is not None),
        None if None in leasts else factor * min(v for v in leasts if v is not None),
        worst.at,
    )


def _one(named: Named, u: tuple[End, End], y: tuple[End, End]) -> Constants:
    if named.family == "residual":
        a = None if u[0] is None or y[1] is None else u[0] - y[1]
        b = None if u[1] is None or y[0] is None else u[1] - y[0]
        p = named.profile(a, b)
        return Constants(p.slope, p.curve, p.least, _residual_point(p.at, u, y))
    if named.family == "glm":
        return _glm(named, u, y)
    return _product(named, u, y)


def _residual_point(s: End, u: tuple[End, End], y: tuple[End, End]) -> tuple[Fraction, Fraction] | None:
    """Some (u, y) of the ranges with u - y = s."""
    if s is None:
        return None
    label = y[0] if y[0] is not None else y[1] if y[1] is not None else ZERO
    if u[0] is not None and s + label < u[0]:
        label = u[0] - s
    if u[1] is not None and s + label > u[1]:
        label = u[1] - s
    inside = (y[0] is None or y[0] <= label) and (y[1] is None or label <= y[1])
    return (s + label, label) if inside else None


def _glm(named: Named, u: tuple[End, End], y: tuple[End, End]) -> Constants:
    """phi' = A'(u) - y with A' increasing: extreme at (high u, low y) or (low u, high y). phi'' = A''(u)."""
    p = named.profile(*u)
    poisson = named.name == "poisson"
    if y[0] is None or y[1] is None or p.slope is None:
        return Constants(None, p.curve, p.least, None)
    if u[0] is None:
        low_mean = ZERO
    else:
        low_mean = exp_down(u[0]) if poisson else 1 - sigmoid_up(-u[0])
    up_end, down_end = p.slope - y[0], y[1] - low_mean
    if up_end >= down_end:
        return Constants(max(up_end, ZERO), p.curve, p.least, None if u[1] is None else (u[1], y[0]))
    return Constants(max(down_end, ZERO), p.curve, p.least, None if u[0] is None else (u[0], y[1]))


def _product(named: Named, u: tuple[End, End], y: tuple[End, End]) -> Constants:
    """phi' = y f'(yu) and phi'' = y^2 f''(yu): bounded by the extrema over the range of t = yu, exact for one value of y, and exact
    for an interval when the worst t belongs to the largest |y| (margins symmetric about zero)."""
    if y[0] is None or y[1] is None:
        return Constants(None, None, ZERO if named.convex else None, None)
    if y[0] == y[1] == 0:
        return Constants(ZERO, ZERO, ZERO, None)
    ends: list[End] = [_times(a, b) for a in u for b in y]
    a = None if _reaches(u, y, low=True) else min(e for e in ends if e is not None)
    b = None if _reaches(u, y, low=False) else max(e for e in ends if e is not None)
    p = named.profile(a, b)
    size = max(abs(y[0]), abs(y[1]))
    closest = ZERO if y[0] <= 0 <= y[1] else min(abs(y[0]), abs(y[1]))
    least = p.least * (closest**2 if p.least >= 0 else size**2)
    at = None
    if p.at is not None:
        for label in sorted(y, key=lambda v: -abs(v or ZERO)):
            if label:
                margin = p.at / label
                if (u[0] is None or u[0] <= margin) and (u[1] is None or margin <= u[1]):
                    at = (margin, label)
                    break
    slope = None if p.slope is None else size * p.slope
    return Constants(slope, None if p.curve is None else size**2 * p.curve, least, at)


def _times(a: End, b: End) -> End:
    return None if a is None or b is None else a * b


def _reaches(u: tuple[End, End], y: tuple[End, End], *, low: bool) -> bool:
    """Whether t = yu is unbounded below (or above)."""
    positive, negative = y[1] is not None and y[1] > 0, y[0] is not None and y[0] < 0
    if low:
        return (u[0] is None and positive) or (u[1] is None and negative)
    return (u[1] is None and positive) or (u[0] is None and negative)
