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
from dpspec.models.columns import ROWS, Column
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
    euclidean = 2.0 * k if degree == 1 else k * REPLACED + 2  # each of two rounded T_2 is off by at most 1/2, and T_1 too
    return noise.chosen(p, t, CubeNorm(2 * k, size), DiscreteGaussian(euclidean, size))


def moments(records: Rows, p: Problem[Column], degree: int) -> NDArray[np.int64]:
    """The sums, in steps: exact integers."""
    k, column = steps(p), p.oracle
    total = [0] * (degree + 1)
    middle, half = (column.low + column.high) / 2, (column.high - column.low) / 2

    def part(x: Any, y: Any) -> tuple[int, ...]:
        block = column.entries(x, y)
        with np.errstate(all="ignore"):  # half of the narrowest interval is 0, and 0/0 counts as the lower end
            c = np.clip(np.nan_to_num((block - middle) / half, nan=-1.0), -1.0, 1.0)
        first = int(noise.steps(c * k, 1.0, -k, k).sum())
        return k * block.size, first, *((int(noise.steps((2 * c * c - 1) * k, 1.0, -k, k).sum()),) if degree == 2 else ())

    for one in each(records, ROWS, part):
        total = [a + b for a, b in zip(total, one, strict=True)]
    return np.array([noise.cut(v) for v in (total if hidden(p) else total[1:])], dtype=np.int64)


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
