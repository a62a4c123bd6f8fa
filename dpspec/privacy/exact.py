"""Exact samplers of discrete laws from random bytes, vectorised.

The algorithms are those of Canonne, Kamath and Steinke 2020 (section 5), which OpenDP implements one sample at a time (tests compare the
two); here whole arrays go through them at about a fiftieth of the cost a sample. Exactness does not rest on floating point: every coin of
probability exp(-t) is decided by comparing a uniform number with a float value of exp(-t) only when the two are further apart than the
rounding errors of t and exp together; otherwise (about once in 2^45 coins) integer arithmetic on the exact rational t and further random
digits decide. NumPy is all that this needs, since clients run it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dpspec.privacy.entropy import random_bytes

Array: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Integers: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

CHUNK = 1 << 17


def words(n: int) -> Words:
    """n uniform 64-bit integers of the secure stream."""
    return np.frombuffer(bytearray(random_bytes(8 * n)), dtype=np.uint64)


def uniform_below(high: int, n: int) -> Integers:
    """n exactly uniform integers of 0 .. high - 1, by rejection; high at most 2^62."""
    if not 1 <= high <= 2**62:
        raise ValueError("the number of choices must be between 1 and 2^62")
    limit = np.uint64((2**64 // high) * high - 1)
    drawn = words(n)
    while (bad := drawn > limit).any():
        drawn[bad] = words(int(bad.sum()))
    return (drawn % np.uint64(high)).astype(np.int64)


def signs(n: int) -> Bools:
    """n fair coins."""
    return np.unpackbits(np.frombuffer(random_bytes((n + 7) // 8), dtype=np.uint8))[:n].astype(bool)


def bernoulli_exp(t: Array, exact: Callable[[int], Fraction] | None = None) -> Bools:
    """True with probability exp(-t), t >= 0 of shape (n,). ``exact(i)`` is the i-th exponent as a rational when ``t[i]`` is only its float
    value, with an error of at most 2^-50*(t + sqrt(2t)); without it the floats are the exponents."""
    if not (t >= 0).all():
        raise ValueError("the exponent must be at least 0")
    low = (words(t.size) >> np.uint64(11)).astype(float) * 2.0**-53
    p = np.exp(-t)
    margin = p * (2.0**-47 + (t + np.sqrt(2.0 * t)) * 2.0**-49) + 2.0**-1060
    out: Bools = low < p
    doubt = (low <= p + margin) & (low + 2.0**-53 >= p - margin)
    if exact is None:
        out |= t == 0
        doubt &= t > 0
    for index in np.flatnonzero(doubt):
        exponent = Fraction(float(t[index])) if exact is None else exact(int(index))
        out[index] = exponent == 0 or decide_exp(exponent, int(math.ldexp(float(low[index]), 53)))
    return out


def decide_exp(t: Fraction, bits: int) -> bool:
    """Whether U < exp(-t) for the uniform U whose first 53 binary digits are ``bits``; draws further digits until it is certain."""
    import secrets

    precision, known = 53, bits
    while True:
        known, precision = (known << 64) | secrets.randbits(64), precision + 64
        low, high = enclosed_exp(t, precision)
        if known + 1 < low:
            return True
        if known > high:
            return False


def enclosed_exp(t: Fraction, digits: int) -> tuple[int, int]:
    """Integers a <= exp(-t)*2^digits <= b for t >= 0, at most two apart, in integer arithmetic.

    exp(-t) is exp(-r) squared k times, r = t/2^k at most 1/2. The series of exp(-r) alternates and its terms fall, so a partial sum is off
    by at most the next term. Numbers are multiples of 2^-p, every term and square is kept as a lower and an upper one; squaring
    doubles the distance of the two, which is at most a few hundred steps before.
    """
    k = max(0, math.ceil(t).bit_length() + 1)
    p = digits + k + 32
    numerator, denominator = t.numerator, t.denominator << k
    low = high = 0
    term, over, j = 1 << p, 1 << p, 0  # a lower and an upper one
    while over > 1:
        low, high = (low + term, high + over) if j % 2 == 0 else (low - over, high - term)
        j += 1
        term, over = term * numerator // (denominator * j), -(-over * numerator // (denominator * j))
    low, high = max(low - over, 0), high + over
    for _ in range(k):
        low, high = low * low >> p, -(-high * high >> p)
    return low >> (p - digits), -(-high >> (p - digits))


@lru_cache(maxsize=1)
def _powers() -> Words:
    """floor(2^64 e^-k) for k = 44, ..., 1: ascending, the first of them 1."""
    found = []
    for k in range(44, 0, -1):
        low, high = (bound >> 64 for bound in enclosed_exp(Fraction(k), 128))
        assert low == high  # no e^-k has 64 zero digits there
        found.append(low)
    return np.array(found, dtype=np.uint64)


def geometric(n: int) -> Integers:
    """n integers with P(v >= k) = e^-k, exactly: how many k >= 1 have U < e^-k for a uniform U.

    64 digits of U tell unless they are those of a power itself (once in 2^58 draws), or all 0; further digits decide then.
    """
    powers = _powers()
    drawn = words(n)
    above = np.searchsorted(powers, drawn, side="right")
    out = (powers.size - above).astype(np.int64)
    doubt = powers[np.maximum(above, 1) - 1] == drawn
    doubt |= drawn == 0
    for index in np.flatnonzero(doubt):
        k = 1
        bits = int(drawn[index])
        known, digits = bits, 64
        while True:
            below, known, digits = _below_power(known, digits, k)
            if not below:
                break
            k += 1
        out[index] = k - 1
    return out


def _below_power(known: int, digits: int, k: int) -> tuple[bool, int, int]:
    """Whether the U that begins with these binary digits lies below e^-k, and the digits that were needed to know."""
    while True:
        low, high = enclosed_exp(Fraction(k), digits)
        if known + 1 < low:
            return True, known, digits
        if known > high:
            return False, known, digits
        known, digits = (known << 64) | int.from_bytes(random_bytes(8), "little"), digits + 64


def discrete_laplace(scale: float, n: int) -> Integers:
    """n integers with P(z) proportional to exp(-|z|/scale), for a scale of 2^-55 .. 2^55 taken as the exact number that the double is."""
    if not 2.0**-55 <= scale <= 2.0**55:
        raise ValueError("the scale must lie between 2^-55 and 2^55")
    t, s = Fraction(scale).as_integer_ratio()  # t at most 2^55
    found: list[Integers] = []
    need = n
    while need > 0:
        u = uniform_below(t, min(CHUNK, need + (2 * need) // 3 + 16))
        u = u[bernoulli_exp(u / t, lambda i, u=u: Fraction(int(u[i]), t))]  # type: ignore[misc]
        x = _quotients(u, t, geometric(u.size), s)
        negative = signs(x.size)
        keep = ~(negative & (x == 0))
        found.append(np.where(negative, -x, x)[keep][:need])
        need -= found[-1].size
    return np.concatenate([*found, np.empty(0, dtype=np.int64)])


def _quotients(u: Integers, t: int, v: Integers, s: int) -> Integers:
    """floor((u + t v)/s), in integers of any length where 64 bits might not do."""
    if t < 2**55 and s == 1 and (v < 256).all():
        return u + t * v
    if s <= 2**61 and (v < 2**62 // t - 1).all():
        return (u + t * v) // s
    out = np.zeros(u.size, dtype=np.int64)
    for i in np.flatnonzero(v >= s // t - 1):  # any other is below s
        out[i] = (int(u[i]) + t * int(v[i])) // s
    return out


def discrete_gaussian(sigma: float, n: int) -> Integers:
    """n integers with P(z) proportional to exp(-z^2/(2 sigma^2)), for a sigma of 2^-55 .. 2^54: the exact number that the double is.

    The float exponent z^2/2 of a candidate y, z = (|y| - sigma^2/t)/sigma, has an error of at most 2^-50*(e + sqrt(2e)) for e = z^2/2: each
    of the quantities that are subtracted carries at most 2^-52 of itself, sigma/t is at most 1, so z is off by at most 2^-52*(3 + 3|z|).
    """
    if not 2.0**-55 <= sigma <= 2.0**54:
        raise ValueError("the scale must lie between 2^-55 and 2^54")
    t = math.floor(sigma) + 1
    centre, exactly = sigma * (sigma / t), Fraction(sigma) ** 2
    found: list[Integers] = []
    need = n
    while need > 0:
        y = discrete_laplace(t, min(CHUNK, need + need // 2 + 16))
        z = (np.abs(y) - centre) / sigma

        def exact(i: int, y: Integers = y) -> Fraction:
            return (abs(int(y[i])) - exactly / t) ** 2 / (2 * exactly)

        found.append(y[bernoulli_exp(0.5 * z * z, exact)][:need])
        need -= found[-1].size
    return np.concatenate([*found, np.empty(0, dtype=np.int64)])
