"""Sums of bounded functions of one column, released together, and what follows of a ratio of them.

A number v of the interval [low, high] is c = (2v - low - high)/(high - low) in [-1, 1]. Of each record, in whole steps of 1/K,

    T_1(c) = c,   T_2(c) = 2 c^2 - 1,   and T_0 = 1 where how many records there are is private.

Each lies in [-K, K], so under add-remove the vector of sums moves by at most K in l_inf, and by at most 2K in T_1, T_2 alone where a
record is
replaced: one draw of the cube's K-norm noise (:class:`dpspec.privacy.mechanisms.cube_norm.CubeNorm`), or of Gaussian noise, for all of
them.
Chebyshev polynomials, because among polynomials with values in [-1, 1] they carry the largest leading coefficient.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Problem, Tunables
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.columns import ROWS, Column, pieces, room
from dpspec.models.rows import Rows, each
from dpspec.privacy.mechanisms.cube_norm import CubeNorm
from dpspec.privacy.mechanisms.discrete import DiscreteGaussian

#: The largest |(c - c', 2 c^2 - 2 c'^2)|^2 over c, c' in [-1, 1]. With D = c - c' >= 0 and |c + c'| <= 2 - D it is D^2 (1 + 4 (2 - D)^2),
#: whose
#: derivative vanishes at 8 D^2 - 24 D + 17 = 0: D = (6 - sqrt(2))/4.
_D: Final = (6 - math.sqrt(2)) / 4
REPLACED: Final = math.sqrt(_D**2 * (1 + 4 * (2 - _D) ** 2)) * (1 + 1e-12)


def steps(p: Problem) -> int:
    """K: as fine as sums of ``ROOM``*n of them allow."""
    return int(2 ** max(4, min(30, 47 - math.ceil(math.log2(p.n)))))


def hidden(p: Problem) -> bool:
    """Whether how many records there are is private."""
    return p.neighbours == "add-remove"


def mechanism(p: Problem, t: Tunables, degree: int) -> noise.Noise:
    """For T_1, ..., T_degree (degree 1 or 2), and T_0 in front where it is private."""
    k, size = steps(p), degree + hidden(p)
    if hidden(p):
        several = p.rows * k  # a unit's records move the sums one after the other
        return noise.chosen(p, t, CubeNorm(several, size), DiscreteGaussian(several * math.sqrt(size) * (1 + 1e-12), size))
    euclidean = 2.0 * k if degree == 1 else k * REPLACED + 2  # each rounded T_2 is off by at most 1/2, and T_1 too
    return noise.chosen(p, t, CubeNorm(2 * k, size), DiscreteGaussian(euclidean, size))


def moments(records: Rows, p: Problem[Column], degree: int) -> NDArray[np.int64]:
    """The sums, in steps: exact integers."""
    k, column = steps(p), p.oracle
    total = [0] * (degree + 1)

    def part(x: Any, y: Any) -> tuple[int, ...]:
        return added(column, x, y, k, degree)

    for one in each(records, ROWS, part):
        total = [a + b for a, b in zip(total, one, strict=True)]
    return np.array([noise.cut(v) for v in (total if hidden(p) else total[1:])], dtype=np.int64)


def added(column: Column, x: Any, y: Any, k: int, degree: int) -> tuple[int, ...]:
    """K times how many records a block has, the sums of its T_1 and, for degree 2, of its T_2, in steps: exact integers.

    T_1 is K c, put into [-K, K] and rounded; T_2 is 2 T_1^2/K rounded, less K: whole numbers in [-K, K], each a function of one record, T_1
    within 1/2 and 2^-20 of the real one, T_2 within as much of the real one at T_1/K. Their sums are exact in doubles, 2^47 at most a
    piece. What is no number counts as the lower end. Clipping K c is clipping the number, but for a quarter of a step; intervals too narrow
    or too wide for that in doubles take more passes.
    """
    middle, half = (column.low + column.high) / 2, (column.high - column.low) / 2
    raw = column.raw(x, y)
    ends = max(abs(column.high - middle - half), abs(middle - column.low - half))
    if not (1e-250 < half < 1e250 and ends <= 2**-32 * half):
        with np.errstate(all="ignore"):
            c = np.clip(np.nan_to_num((column.entries(x, y) - middle) / half, nan=-1.0), -1.0, 1.0)
        first = int(noise.steps(c * k, 1.0, -k, k).sum())
        return k * c.size, first, *((int(noise.steps((2 * c * c - 1) * k, 1.0, -k, k).sum()),) if degree == 2 else ())
    first = second = 0
    held, per = room(), k / half
    with np.errstate(all="ignore"):
        for piece in pieces(column, x, y):
            w = held[: piece.size]
            np.subtract(piece, middle, out=w)
            w *= per
            np.clip(w, -k, k, out=w)
            np.rint(w, out=w)
            one = float(w.sum())
            if math.isnan(one):  # enforced records hold no NaN; where one does, it is the lower end
                np.copyto(w, -k, where=np.isnan(w))
                one = float(w.sum())
            first += int(one)
            if degree == 2:
                np.multiply(w, w, out=w)
                w *= 2.0 / k
                np.rint(w, out=w)
                second += int(w.sum()) - k * piece.size
    return k * raw.shape[0], first, *((second,) if degree == 2 else ())


def in_units(drawn: Any, p: Problem) -> tuple[float, list[float]]:
    """The number of records (released, or the public n), and the sums in units of one record."""
    found = [float(v) / steps(p) for v in np.ravel(drawn)]
    return (found[0], found[1:]) if hidden(p) else (float(p.n), found)


def spread(planned: noise.Noise, level: float, weights: tuple[float, ...], k: int) -> float:
    """The standard error of the noise sum_j weights_j Z_j, in units of one record; the entries are uncorrelated."""
    length, unit = math.sqrt(sum(w * w for w in weights)), planned.scale(level) / k
    return length * unit * (math.sqrt((planned.size + 1) * (planned.size + 2) / 3) if isinstance(planned, CubeNorm) else 1.0)


def quantile(planned: noise.Noise, level: float, m: float, k: int) -> float:
    """h(m), with |Z_1 - m Z_0| <= h(m) but for a share OUTSIDE, of a draw of two entries: at |m| rounded up to whole 64ths, where it is not
    smaller. In units of one record."""
    from scipy.special import ndtri

    unit, up = planned.scale(level) / k, math.ceil(min(abs(m), 1.0) * 64) / 64
    return unit * (_of_cube(up) if isinstance(planned, CubeNorm) else math.hypot(1.0, up) * -float(ndtri(noise.OUTSIDE / 2)))


@lru_cache(maxsize=128)
def _of_cube(m: float) -> float:
    """For density ~ exp(-|z|_inf): Z = R U, R of the law Gamma(3) exactly, U on a grid of the square, with half a percent of room."""
    from scipy.optimize import brentq
    from scipy.special import gammaincc

    at = (np.arange(48) + 0.5) / 24 - 1
    size = np.abs(at[:, None] - m * at)

    def beyond(s: float) -> float:
        return float(np.mean(gammaincc(3, s / np.maximum(size, 1e-12)))) - noise.OUTSIDE

    return float(brentq(beyond, 0.0, 100.0, rtol=1e-6)) * 1.005


def largest(planned: noise.Noise, level: float, k: int) -> float:
    """r such that every |Z_j| <= r together, but for a share OUTSIDE; in units of one record."""
    from scipy.special import gammainccinv, ndtri

    unit, d = planned.scale(level) / k, planned.size
    if isinstance(planned, CubeNorm):
        return unit * float(gammainccinv(d, noise.OUTSIDE))  # |z|_inf has the law Gamma(d)
    return unit * -float(ndtri(noise.OUTSIDE / 2 / d))
