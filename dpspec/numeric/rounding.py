"""Directed rounding: from exact rationals to doubles that err on the side asked for.

Everything that a certificate states is an upper (or a lower) bound, so no conversion here rounds to nearest.
"""

from __future__ import annotations

import math
from fractions import Fraction

#: Relative slack put on a value that came out of ``math``'s exp, log1p, sqrt and a handful of operations on doubles. Those are
#: accurate to a few units in the last place (2^-52 each); 2^-44 leaves more than a hundred of them.
SLACK = Fraction(1, 2**44)
_SLACK = float(SLACK)


def up(value: Fraction | int) -> float:
    """The least double that is not below ``value`` (infinity when none is)."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.nextafter(math.inf, 0.0)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def down(value: Fraction | int) -> float:
    """The greatest double that is not above ``value``."""
    return -up(-value)


def padded_up(value: float) -> Fraction:
    """An upper bound of the real number that ``value`` approximates to a few units in the last place."""
    if abs(value) < 1e-280:  # where units in the last place are absolute, in the end
        exact = Fraction(value)
        return exact + abs(exact) * SLACK + Fraction(1, 2**1060)
    # a double, so that later sums and products stay short: rounding to nearest loses less than the next double gains
    return Fraction(math.nextafter(value + abs(value) * _SLACK, math.inf))


def padded_down(value: float) -> Fraction:
    return -padded_up(-value)


def coarse_up(value: float) -> float:
    """The least number with six binary digits that is not below ``value`` (finite, not negative): at most 1/32 larger."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(mantissa * 64), exponent - 6)


def sqrt_up(value: Fraction) -> Fraction:
    """A rational not below sqrt(value), exact when ``value`` is the square of a rational. Raises ValueError below zero."""
    if value < 0:
        raise ValueError("square root of a negative number")
    p, q = value.numerator * value.denominator, value.denominator
    root = math.isqrt(p)
    if root * root == p:
        return Fraction(root, q)
    bits = 64
    root = math.isqrt(p << (2 * bits))
    return Fraction(root + 1, q << bits)


def as_fraction(value: Fraction | int | float) -> Fraction:
    """Exact: a double is the rational it stores."""
    return Fraction(value)


def show(value: Fraction | float, *, side: int = 1, digits: int = 4) -> str:
    """Decimal text with ``digits`` significant digits that is not below (side +1) or not above (side -1) ``value``."""
    if isinstance(value, float) and math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    exact = Fraction(value)
    if exact == 0:
        return "0"
    exponent = len(str(abs(exact.numerator))) - len(str(exact.denominator)) - digits + 1
    if abs(exact) < Fraction(10) ** (exponent + digits - 1):
        exponent -= 1
    unit = Fraction(10) ** exponent
    whole = math.ceil(exact / unit) if side > 0 else math.floor(exact / unit)
    if not -6 <= exponent + digits - 1 <= 9:
        text = f"{Fraction(whole, 10 ** (digits - 1)).__float__():.{digits - 1}f}".rstrip("0").rstrip(".")
        return f"{text}e{exponent + digits - 1}"
    if exponent >= 0:
        return str(whole * 10**exponent)
    sign, whole = ("-" if whole < 0 else ""), abs(whole)
    head, tail = divmod(whole, 10**-exponent)
    text = f"{tail:0{-exponent}d}".rstrip("0")
    return f"{sign}{head}.{text}" if text else f"{sign}{head}"
