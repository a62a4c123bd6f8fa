"""The ball algebra of :mod:`dpspec.symbolic.jets`: rigorous enclosures by python-flint (Arb)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

from flint import arb, fmpq

from dpspec.symbolic.jets import Outer

Ball: TypeAlias = Any

NAN = arb("nan")


def exact(value: Fraction) -> Ball:
    """The ball of a rational, as tight as the working precision allows."""
    return arb(fmpq(value.numerator, value.denominator))


def hull(low: Fraction, high: Fraction) -> Ball:
    """A ball that contains [low, high]."""
    return exact(low) if low == high else exact(low).union(exact(high))


def to_fraction(exact_ball: Ball) -> Fraction:
    """The rational that a ball of radius zero stores."""
    mantissa, exponent = exact_ball.man_exp()
    m, e = int(mantissa), int(exponent)
    return Fraction(m << e) if e >= 0 else Fraction(m, 1 << -e)


#: Numbers nearer to 0 are not stored as rationals: their denominators may have 10^30 digits.
_LEAST = 2.0**-1000


def upper(b: Ball) -> Fraction | None:
    """A rational not below any point of the ball; None when it is not finite."""
    if not b.is_finite():
        return None
    end = b.upper()
    return to_fraction(end) if abs(end) >= _LEAST or end == 0 else Fraction(_LEAST) if end > 0 else Fraction(0)


def lower(b: Ball) -> Fraction | None:
    """A rational not above any point of the ball; None when it is not finite."""
    if not b.is_finite():
        return None
    end = b.lower()
    return to_fraction(end) if abs(end) >= _LEAST or end == 0 else -Fraction(_LEAST) if end < 0 else Fraction(0)


def _positive(b: Ball) -> bool:
    return bool(b > 0)


def _negative(b: Ball) -> bool:
    return bool(b < 0)


def _square(b: Ball) -> Ball:
    """b^2, never negative. (In python-flint ``b**2`` is NaN for a ball that contains zero, and ``b*b`` forgets that both factors agree.)"""
    if not b.is_finite():
        return NAN
    a = b.abs_lower()
    z = b.abs_upper()
    return (a * a).union(z * z).nonnegative_part() if not b.is_exact() else b * b


def _whole_power(b: Ball, k: int) -> Ball:
    """b^k for k >= 0, with the right range for even k."""
    if k == 0:
        return arb(1)
    if k == 1:
        return b
    half = _square(b)
    if k % 2 == 0:
        return _whole_power(half, k // 2)
    if _positive(b) or _negative(b) or b.is_exact():
        return b * _whole_power(half, k // 2)
    # odd powers are increasing
    return _whole_power_point(b.lower(), k).union(_whole_power_point(b.upper(), k))


def _whole_power_point(b: Ball, k: int) -> Ball:
    out = arb(1)
    for _ in range(k):
        out = out * b
    return out


def _clip(b: Ball, low: Ball, high: Ball) -> Ball:
    """The image of ``b`` under z -> min(max(z, low), high). (``arb.max`` of a wide ball spills over by up to its radius.)"""
    return b.lower().max(low).min(high).union(b.upper().max(low).min(high))


class Balls:
    """See :class:`dpspec.symbolic.jets.Algebra`."""

    def number(self, value: Fraction) -> Ball:
        return exact(value)

    def pi(self) -> Ball:
        return arb.pi()

    def sign(self, value: Ball) -> int:
        if value >= 0:
            return 1
        return -1 if value <= 0 else 2

    def square(self, value: Ball) -> Ball:
        return _square(value)

    def unary(self, name: str, params: tuple[Fraction, ...], z: Ball) -> Outer:
        if not z.is_finite():
            return Outer((NAN, NAN, NAN, NAN), 2 if name in ("abs", "pos") else 0, True)
        if name in ("abs", "pos"):
            return _kinked(name, int(params[0]) if params else 1, z)
        if name == "huber":
            return _huber(exact(params[0]), z)
        if name == "biweight":
            return _biweight(exact(params[0]), z)
        if name == "cauchy":
            return _cauchy(exact(params[0]), z)
        return Outer(_SMOOTH[name](z))

    def power(self, z: Ball, exponent: Fraction) -> Outer:
        if exponent.denominator == 1 and exponent >= 0:
            k = int(exponent)
            g = []
            factor = 1
            for i in range(4):
                g.append(factor * _whole_power(z, k - i) if k >= i else arb(0))
                factor *= k - i
            return Outer((g[0], g[1], g[2], g[3]))
        if exponent.denominator == 1 and z.is_finite() and not z.contains(0):
            k = -int(exponent)
            inv = 1 / z
            p = [_whole_power(inv, k + i) for i in range(4)]
            return Outer((p[0], -k * p[1], k * (k + 1) * p[2], -k * (k + 1) * (k + 2) * p[3]))
        if z > 0:
            e = exact(exponent)
            base = z.sqrt() if exponent == Fraction(1, 2) else (e * z.log()).exp()
            inv = 1 / z
            return Outer((base, e * base * inv, e * (e - 1) * base * inv * inv, e * (e - 1) * (e - 2) * base * inv * inv * inv))
        return Outer((NAN, NAN, NAN, NAN), 0, True)


def _kinked(name: str, k: int, z: Ball) -> Outer:
    """max(0, z)^k and |z|^k."""
    zero = arb(0)
    if _positive(z) or (_negative(z) and (name == "abs" or k == 0)):
        flip = -1 if _negative(z) else 1  # |z|^k = (-z)^k on the left
        g = []
        factor = 1
        for i in range(4):
            value = factor * _whole_power(z * flip, k - i) if k >= i else zero
            g.append(value if i % 2 == 0 else value * flip)
            factor *= k - i
        return Outer((g[0], g[1], g[2], g[3]))
    if _negative(z):
        return Outer((zero, zero, zero, zero))
    right = Balls().power(zero.union(z.upper().max(zero)), Fraction(k)).g
    if name == "pos":
        hulls = tuple(v.union(zero) for v in right)
    else:
        left = Balls().power(zero.union((-z).upper().max(zero)), Fraction(k)).g
        hulls = tuple(r.union(v if i % 2 == 0 else -v) for i, (r, v) in enumerate(zip(right, left, strict=True)))
    if k == 1:
        return Outer((hulls[0], hulls[1], zero, zero), 1, True)
    return Outer((hulls[0], hulls[1], hulls[2], hulls[3]), 0, k == 2)


def _huber(c: Ball, z: Ball) -> Outer:
    zero, one = arb(0), arb(1)
    if z > c:
        return Outer((c * z - c * c / 2, c, zero, zero))
    if z < -c:
        return Outer((-c * z - c * c / 2, -c, zero, zero))
    if z > -c and z < c:
        return Outer((_square(z) / 2, z, one, zero))
    magnitude = z.abs_lower().union(z.abs_upper())
    low, high = magnitude.lower().min(c), magnitude.upper()
    value = (low * low / 2).union((c * high - c * c / 2).max(high.min(c) * high.min(c) / 2))
    return Outer((value, _clip(z, -c, c), zero.union(one), zero), 0, True)


def _biweight(c: Ball, z: Ball) -> Outer:
    zero = arb(0)
    top = c * c / 6
    if z > c or z < -c:
        return Outer((top, zero, zero, zero))
    inside = z > -c and z < c
    q = z / c if inside else _clip(z / c, arb(-1), arb(1))
    r = 1 - _square(q)
    s2 = _square(q)
    g = (
        top * (1 - _whole_power(r, 3)),
        c * q * _square(r),
        r * (1 - 5 * s2),
        q * (20 * s2 - 12) / c,
    )
    return Outer(g if inside else (g[0], g[1].union(zero), g[2].union(zero), g[3].union(zero)))


def _cauchy(c: Ball, z: Ball) -> Outer:
    q = z / c
    r = 1 / (1 + _square(q))
    slope = c * q * r
    if q > 1 or q < -1:  # |f'| falls with |s| from there
        left, right = (c * end / (1 + _square(end)) for end in (q.lower(), q.upper()))
        slope = left.union(right)
    return Outer((c * c / 2 * _square(q).log1p(), slope, r * (2 * r - 1), 2 * q * (_square(q) - 3) * _whole_power(r, 3) / c))


def _exp(z: Ball) -> tuple[Ball, Ball, Ball, Ball]:
    e = z.exp()
    return e, e, e, e


def _log(z: Ball) -> tuple[Ball, Ball, Ball, Ball]:
    if not z > 0:
        return NAN, NAN, NAN, NAN
    inv = 1 / z
    return z.log(), inv, -inv * inv, 2 * inv * inv * inv


#: Beyond, a ball is taken by its ends: a half-line of margins.
_WIDE = 4


def _half(z: Ball) -> tuple[Ball, Ball]:
    """tanh(z/2) and its derivative by z: the first rises, the second is even and falls with the magnitude."""
    if z.rad() < _WIDE:
        return (z / 2).tanh(), 1 / (2 + 2 * z.cosh()) * 2
    near, far = z.abs_lower() / 2, z.abs_upper() / 2
    return (z.lower() / 2).tanh().union((z.upper() / 2).tanh()), (_square(near.sech()) / 2).union(_square(far.sech()) / 2)


def _expit(z: Ball) -> tuple[Ball, Ball, Ball, Ball]:
    # s' = 1/(2 + 2 cosh z), with z only once, so that the enclosure is tight
    t, twice = _half(z)
    s = 1 / (1 + (-z).exp()) if z.rad() < _WIDE else (1 + t) / 2
    s1 = twice / 2
    s2 = -s1 * t
    return s, s1, s2, s1 * (1 - 6 * s1)


def _softplus(z: Ball) -> tuple[Ball, Ball, Ball, Ball]:
    s, s1, s2, _ = _expit(z)
    value = z.exp().log1p() if z < 64 else z + (-z).exp().log1p()
    return value, s, s1, s2


def _tanh(z: Ball) -> tuple[Ball, Ball, Ball, Ball]:
    t, s = _half(2 * z) if z.rad() >= _WIDE else (z.tanh(), _square(z.sech()) / 2)
    s = 2 * s
    return t, s, -2 * t * s, s * (6 * _square(t) - 2)


def _erf(z: Ball) -> tuple[Ball, Ball, Ball, Ball]:
    g = 2 / arb.pi().sqrt() * (-_square(z)).exp()
    return z.erf(), g, -2 * z * g, (4 * _square(z) - 2) * g


def _erfc(z: Ball) -> tuple[Ball, Ball, Ball, Ball]:
    _, a, b, c = _erf(z)
    return z.erfc(), -a, -b, -c


def _sin(z: Ball) -> tuple[Ball, Ball, Ball, Ball]:
    s, c = z.sin(), z.cos()
    return s, c, -s, -c


def _cos(z: Ball) -> tuple[Ball, Ball, Ball, Ball]:
    s, c = z.sin(), z.cos()
    return c, -s, -c, s


_SMOOTH = {
    "exp": _exp,
    "log": _log,
    "expit": _expit,
    "softplus": _softplus,
    "tanh": _tanh,
    "erf": _erf,
    "erfc": _erfc,
    "sin": _sin,
    "cos": _cos,
}
