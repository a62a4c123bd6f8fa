"""Which noise a statistic gets, and its law: the mean error that chooses it, the standard error and the 95 % interval that a release
carries.

Integers throughout. A number of a record is a whole number of steps between public ends (:func:`steps`), sums of them are exact, and so are
their sensitivities: nothing rounds between a record and the meter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from dpspec.algorithms.card import Need, Problem, Source
from dpspec.models.columns import NEAR, Column, numbers, pieces, room
from dpspec.privacy.mechanisms.cube_norm import CubeBlocks, CubeNorm
from dpspec.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpspec.privacy.mechanisms.staircase import Staircase, tread

Noise: TypeAlias = Staircase | CubeNorm | CubeBlocks | DiscreteGaussian | DiscreteLaplace
Kind: TypeAlias = Literal["pure", "gaussian"]

#: The share of errors that an interval leaves out.
OUTSIDE: Final = 0.05
#: Sums are cut here, which moves no two of them further apart; the meter takes integers below 2^53.
MOST: Final = 2**52
#: Of what is released, how many records there may be for each that n says, before sums are cut.
ROOM: Final = 8

OPTION: Final = {"noise": ("auto", "pure", "gaussian")}
CLIPPED: Final = Need(
    "x",
    "privacy",
    "a number of a record lies in its interval",
    enforced_by="each number is clipped into its interval as it is read",
)
ONCE: Final = Need("x", "privacy", "a record is counted once at most", enforced_by="each record is in one cell, or in none")
GEOMETRIC: Final = Source("literature", "Ghosh, Roughgarden and Sundararajan 2009", "geometric mechanism")
STAIRCASE: Final = Source("literature", "Geng and Viswanath 2014", "staircase mechanism")
KNORM: Final = Source("literature", "Hardt and Talwar 2010", "K-norm mechanism")
GAUSSIAN: Final = Source("literature", "Canonne, Kamath and Steinke 2020", "discrete Gaussian")


def kinds(p: Problem) -> tuple[Kind, ...]:
    """What the budget allows: Gaussian noise alone under rho and mu, pure noise alone without a delta."""
    if "rho" in p.facts or "mu" in p.facts:
        return ("gaussian",)
    return ("pure", "gaussian") if "delta" in p.facts else ("pure",)


def refused(p: Problem, t: Any) -> str | None:
    """Why the option `noise` does not go with the budget."""
    if t.noise in ("auto", *kinds(p)):
        return None
    if t.noise == "pure":
        return "noise = pure is stated in epsilon; under rho and mu Gaussian noise costs less"
    return "noise = gaussian needs a delta, rho or mu; the budget is epsilon alone"


def chosen(p: Problem, t: Any, pure: Noise, gaussian: Noise) -> Noise:
    """The noise of least mean error a number, at the whole budget, where the author leaves it open."""
    allowed = kinds(p)
    if t.noise != "auto":
        return pure if t.noise == "pure" else gaussian
    if len(allowed) == 1:
        return pure if allowed[0] == "pure" else gaussian
    one = law(pure, p.facts["epsilon"]).mean
    other = law(gaussian, 1.0 / strength(p.facts["epsilon"], p.facts["delta"])).mean
    return pure if one <= other else gaussian


def strength(epsilon: float, delta: float) -> float:
    """About the mu of Gaussian DP that (epsilon, delta) buys; it chooses, and calibrates nothing."""
    from scipy.optimize import brentq
    from scipy.special import log_ndtr, ndtr

    def spent(mu: float) -> float:
        return float(ndtr(-epsilon / mu + mu / 2) - np.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2)) - delta)

    return float(brentq(spent, 1e-9, 1e3))


# ------------------------------------------------------------------------------------------------------------------- laws


@dataclass(frozen=True, slots=True)
class Law:
    """Of one number's noise: the mean of its size, its standard error, and the least ``half`` with P(|Z| > half) <= OUTSIDE."""

    mean: float
    error: float
    half: float

    def times(self, unit: float) -> Law:
        return Law(self.mean * unit, self.error * unit, self.half * unit)


def law(noise: Noise, level: float, outside: float = OUTSIDE) -> Law:
    """The law of one entry of the noise at a level, in steps."""
    scale = noise.scale(level)
    match noise:
        case Staircase():
            return _staircase(int(noise.sensitivity), level, outside)
        case DiscreteLaplace():
            return _staircase(1, 1.0 / scale, outside)
        case CubeNorm():
            return _cube(scale, noise.size, outside)
        case CubeBlocks():
            return _cube(scale, noise.width, outside)
        case _:
            from scipy.special import ndtri

            return Law(scale * math.sqrt(2 / math.pi), scale, math.ceil(scale * -float(ndtri(outside / 2))))


def _staircase(sensitivity: int, epsilon: float, outside: float) -> Law:
    """Exact sums over the steps; discrete Laplace noise is the staircase of sensitivity 1."""
    d, q, rest = sensitivity, math.exp(-epsilon), -math.expm1(-epsilon)
    r = tread(d, epsilon)
    weight = r + (d - r) * q
    total = (2 * weight - rest) / rest

    def powers(k: int) -> float:  # sum over a step of w(z) z^k
        def below(m: int) -> float:
            return float(m) if k == 0 else m * (m - 1) / 2 if k == 1 else (m - 1) * m * (2 * m - 1) / 6

        return below(r) + q * (below(d) - below(r))

    first = d * q / rest**2 * powers(0) + powers(1) / rest
    second = d * d * q * (1 + q) / rest**3 * powers(0) + 2 * d * q / rest**2 * powers(1) + powers(2) / rest

    def beyond(t: int) -> float:  # P(|Z| > t)
        k, u = divmod(t + 1, d)
        left = max(r - u, 0) + q * (d - max(r, u))
        return 2 * math.exp(-epsilon * k) * (left + q / rest * weight) / total

    low, high = -1, max(1, math.ceil(d * (2 + math.log(2 / outside) / epsilon)))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if beyond(middle) <= outside else (middle, high)
    return Law(2 * first / total, math.sqrt(2 * second / total), float(high))


def _cube(scale: float, size: int, outside: float) -> Law:
    """An entry is R U with R of the law Gamma(size + 1) and U uniform on [-1, 1], up to less than one step."""
    from scipy.optimize import brentq
    from scipy.special import gammaincc

    def beyond(t: float) -> float:
        return float(gammaincc(size + 1, t) - t / size * gammaincc(size, t)) - outside

    half = float(brentq(beyond, 0.0, 60.0 + 10.0 * size))
    error = math.sqrt((size + 1) * (size + 2) / 3)
    return Law(scale * (size + 1) / 2, scale * error + 1, math.ceil(scale * half) + 1)


# ------------------------------------------------------------------------------------------------------------------ steps


def fine(n: float, size: float) -> float:
    """A step, a power of two, such that ``ROOM``*n numbers of at most ``size`` are a sum below MOST, and at most 2^30 steps each."""
    bits = max(4, min(30, 51 - math.ceil(math.log2(ROOM * max(n, 1)))))
    return float(2.0 ** (math.ceil(math.log2(size)) - bits))


def steps(values: Any, step: float, low: int, high: int) -> Any:
    """Whole numbers of steps, between the ends: a function of one record."""
    return np.clip(np.rint(np.asarray(values) / step), low, high).astype(np.int64)


def added(column: Column, x: Any, y: Any, step: float, low: int, high: int) -> int:
    """The exact sum over a block of the column's numbers in whole steps between the ends, each a function of one record: what is no number
    counts as the lower end.

    It is ``total(steps(numbers(column, x, y), step, low, high))`` to the last unit, in a third of the passes: every operation on the way
    rises with the entry, so clipping once, at the end, is clipping each time; a division by a power of two is a product. Sums of whole
    doubles are exact in any order while none of them leaves 2^53.
    """
    factor, offset = column.factor, column.offset
    even = math.frexp(step)[0] == 0.5 and 1e-250 < factor / step < 1e250 and abs(offset / step) < 1e250
    if factor <= 0:  # no encoding has one
        return total(steps(numbers(column, x, y), step, low, high))
    if even:  # exact quotients
        factor, offset = factor / step, offset / step
    fits, found, held = NEAR * max(abs(low), abs(high)) <= 2**53, 0, room()
    with np.errstate(all="ignore"):
        for piece in pieces(column, x, y):
            w = held[: piece.size]
            np.multiply(piece, factor, out=w)
            if offset != 0.0:
                w += offset
            if not even:
                w /= step
            np.rint(w, out=w)
            np.clip(w, low, high, out=w)
            part = float(w.sum()) if fits else math.nan
            if math.isnan(part):  # numbers too large to add as doubles, or no number: enforced records hold none
                np.copyto(w, low, where=np.isnan(w))
                found += total(w.astype(np.int64))
            else:
                found += int(part)
    return found


def total(whole: Any) -> int:
    """The sum of int64 numbers, exact however many there are: where n is private there may be more records than any step allows for, and a
    sum that went round the 64 bits would move by all of them for one record."""
    return (int(np.sum(whole >> 26)) << 26) + int(np.sum(whole & (2**26 - 1)))


def cut(total: Any) -> Any:
    """A sum of integers inside [-MOST, MOST]: Python's own numbers, or int64 that cannot overflow before."""
    return np.clip(total, -MOST, MOST)
