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
    return np.frombuffer(random_bytes(8 * n), dtype=np.uint64)


def uniform_below(high: int, n: int) -> Integers:
    """n exactly uniform integers of 0 .. high - 1, by rejection; high at most 2^62."""
    if not 1 <= high <= 2**62:
        raise ValueError("the number of choices must be between 1 and 2^62")
    limit = np.uint64((2**64 // high) * high - 1)
    drawn = words(n)
    if (bad := drawn > limit).any():
        drawn = drawn.copy()
        while bad.any():
            drawn[bad] = words(int(bad.sum()))
            bad = drawn > limit
    return (drawn % np.uint64(high)).view(np.int64)


def signs(n: int) -> Bools:
    """n fair coins."""
    return np.unpackbits(np.frombuffer(random_bytes((n + 7) // 8), dtype=np.uint8))[:n].astype(bool)


def bernoulli_exp(t: Array, exact: Callable[[int], Fraction] | None = None) -> Bools:
    """True with probability exp(-t), t >= 0 of shape (n,). ``exact(i)`` is the i-th exponent as a rational when ``t[i]`` is only its float
    value, with an error of at most 2^-50*(t + sqrt(2t)); without it the floats are the exponents."""
    if not (t >= 0).all():
        raise ValueError("the exponent must be at least 0")
    low = (words(t.size) >> np.uint64(11)).astype(float) * 2.0**-53
    gap = np.exp(-t)
    gap -= low
    out: Bools = gap > 0
    # p = exp(-t) is off by at most p*(2^-47 + (t + sqrt(2t))*2^-49) + 2^-1060, where p*t and p*sqrt(2t) are below 1: by less than 2^-46 for
    # every t; the difference is off by half of 2^-53 at most, and the digits of U that follow are worth 2^-53
    doubt = np.abs(gap) <= 2.0**-45
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
    drawn = words(n)
    out, doubt = _counted(drawn, _powers())
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


def _counted(drawn: Words, bounds: Words) -> tuple[Integers, Bools]:
    """How many of the ascending ``bounds`` each number is below, and which ones equal a bound or are 0. A pass a bound: few have many."""
    out = np.zeros(drawn.size, dtype=np.int64)
    doubt = drawn == 0
    where: Integers | None = None  # of those that are below the bounds so far, once they are few
    left = drawn
    for bound in bounds[::-1]:
        equal = left == bound
        if equal.any():
            doubt[np.flatnonzero(equal) if where is None else where[equal]] = True
        below = left < bound
        if where is None:
            out += below
            where = np.flatnonzero(below)
        else:
            where = where[below]
            out[where] += 1
        if not where.size:
            break
        left = left[below]
    return out, doubt


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
    if sigma == math.floor(sigma) and sigma <= 2**53:
        return _whole_gaussian(int(sigma), n)
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


def _whole_gaussian(s: int, n: int) -> Integers:
    """The discrete Gaussian of a whole sigma = s <= 2^53, by blocks of length s.

    With |z| = k s + u, 0 <= u < s, the exponent is z^2/(2 s^2) = k^2/2 + t, t = (k + u/(2s)) u/s. So k is drawn with P(k) proportional to
    exp(-k^2/2), u uniformly, kept with probability exp(-t), and given a fair sign; a negative zero is drawn again, so that 0 counts once
    (the idea is that of Karney 2016 for the continuous law). Seven of ten candidates are kept; from the Laplace law it is one of two.

    The float t carries at most eight errors of 2^-53 of itself: the quotient, its half, the sum (of non-negative terms) and the product.
    """
    found: list[Integers] = []
    need = n
    while need > 0:
        size = min(CHUNK, need + need // 2 + 16)
        k, u = _blocks_of_gaussian(size), uniform_below(s, size)
        share = u / s
        t = 0.5 * share
        t += k
        t *= share

        def exact(i: int, k: Integers = k, u: Integers = u) -> Fraction:
            part = Fraction(int(u[i]), s)
            return (int(k[i]) + part / 2) * part

        z = k * s
        z += u
        kept = bernoulli_exp(t, exact)
        negative = signs(size)
        kept &= ~(negative & (z == 0))
        np.negative(z, out=z, where=negative)
        found.append(z[kept][:need])
        need -= found[-1].size
    return np.concatenate([*found, np.empty(0, dtype=np.int64)])


#: Blocks that 64 digits can tell from none: P(block >= 9) is about 2^-59, P(block >= 10) below 2^-64.
_TOLD = 9


def _tail(k: int, digits: int) -> tuple[int, int]:
    """Integers a <= P(block >= k)*2^digits <= b, where P(block = j) is proportional to exp(-j^2/2): from sums of enclosed terms."""
    more = digits + 64
    last = k + math.isqrt(2 * more) + 2  # from there on exp(-j^2/2) is below 2^-more, and the terms fall by more than a half each
    terms = [enclosed_exp(Fraction(j * j, 2), more) for j in range(last)]
    low = [sum(a for a, _ in terms[j:]) for j in (0, k)]
    high = [sum(b for _, b in terms[j:]) + 2 for j in (0, k)]
    return (low[1] << digits) // high[0], -((-high[1] << digits) // low[0])


@lru_cache(maxsize=1)
def _tails() -> Words:
    """floor(2^64 P(block >= k)) for k = _TOLD, ..., 1: ascending."""
    found = []
    for k in range(_TOLD, 0, -1):
        low, high = (bound >> 64 for bound in _tail(k, 128))
        assert low == high  # none of them has 64 zero digits there
        found.append(low)
    return np.array(found, dtype=np.uint64)


def _blocks_of_gaussian(n: int) -> Integers:
    """n integers k >= 0 with P(k) proportional to exp(-k^2/2), exactly: how many k >= 1 have U < P(block >= k) for a uniform U.

    As in :func:`geometric`, 64 digits of U tell unless they are those of a bound itself, or all 0; the last bound of 64 digits is 0.
    """
    drawn = words(n)
    out, doubt = _counted(drawn, _tails())
    for index in np.flatnonzero(doubt):
        known, digits, k = int(drawn[index]), 64, 0
        while True:
            low, high = _tail(k + 1, digits)
            if known + 1 < low:
                k += 1
            elif known > high:
                break
            else:
                known, digits = (known << 64) | int.from_bytes(random_bytes(8), "little"), digits + 64
        out[index] = k
    return out
