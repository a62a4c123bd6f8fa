"""Exact samplers of discrete laws from random bytes, vectorised.

The algorithms are those of Canonne, Kamath and Steinke 2020 (section 5), which OpenDP implements one sample at a time; here whole
arrays go through them at about a twentieth of the cost a sample. Exactness does not rest on floating point: every coin of probability
exp(-t) is decided by comparing a uniform number with a float value of exp(-t) only when the two are further apart than the rounding
errors of t and exp together; otherwise (about once in 2^45 coins) ball arithmetic on the exact rational t and further random digits decide.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Integers: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

CHUNK = 1 << 17


def words(n: int) -> Words:
    """n uniform 64-bit integers from the operating system."""
    return np.frombuffer(bytearray(os.urandom(8 * n)), dtype=np.uint64)


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
    return np.unpackbits(np.frombuffer(os.urandom((n + 7) // 8), dtype=np.uint8))[:n].astype(bool)


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
    from flint import arb, ctx

    precision, known = 53, bits
    while True:
        known, precision = (known << 64) | secrets.randbits(64), precision + 64
        before = ctx.prec
        ctx.prec = precision + 64 + int(1.5 * t)
        try:
            p = arb.exp(-(arb(t.numerator) / arb(t.denominator)))
            if arb(known + 1) / arb(2) ** precision < p:
                return True
            if arb(known) / arb(2) ** precision > p:
                return False
        finally:
            ctx.prec = before


def discrete_laplace(t: int, n: int) -> Integers:
    """n integers with P(z) proportional to exp(-|z|/t), for an integer t of 1 .. 2^55."""
    if not 1 <= t <= 2**55:
        raise ValueError("the scale must be an integer between 1 and 2^55")
    found: list[Integers] = []
    need = n
    while need > 0:
        u = uniform_below(t, min(CHUNK, 2 * need + 16))
        u = u[bernoulli_exp(u / t, lambda i, u=u: Fraction(int(u[i]), t))]  # type: ignore[misc]
        v = np.zeros(u.size, dtype=np.int64)
        going = np.arange(u.size)
        while going.size:  # geometric with ratio 1/e; 2^63 would need 255 successes, of probability e^-255
            going = going[bernoulli_exp(np.ones(going.size))]
            v[going] += 1
        x = u + t * v
        negative = signs(x.size)
        keep = ~(negative & (x == 0))
        found.append(np.where(negative, -x, x)[keep][:need])
        need -= found[-1].size
    return np.concatenate([*found, np.empty(0, dtype=np.int64)])


def discrete_gaussian(sigma: int, n: int) -> Integers:
    """n integers with P(z) proportional to exp(-z^2/(2 sigma^2)), for an integer sigma of 1 .. 2^54."""
    if not 1 <= sigma <= 2**54:
        raise ValueError("the scale must be an integer between 1 and 2^54")
    t = sigma + 1
    centre = sigma * (sigma / t)
    found: list[Integers] = []
    need = n
    while need > 0:
        y = discrete_laplace(t, min(CHUNK, 2 * need + 16))
        z = (np.abs(y) - centre) / sigma

        def exact(i: int, y: Integers = y) -> Fraction:
            return Fraction((abs(int(y[i])) * t - sigma**2) ** 2, 2 * sigma**2 * t**2)

        found.append(y[bernoulli_exp(0.5 * z * z, exact)][:need])
        need -= found[-1].size
    return np.concatenate([*found, np.empty(0, dtype=np.int64)])
