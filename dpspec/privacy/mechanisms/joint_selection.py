"""One choice of several borders together, by how many records lie between them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_numbers, check_positive
from dpspec.privacy.mechanisms.selection import choose_exponential
from dpspec.privacy.noise import Array, Integers, NoiseSource
from dpspec.privacy.schedule import Family, Norm

#: Of one addition of logarithms L, on top of |L|, in units of 2^-52: see :meth:`JointSelection.effective`.
_LIBRARY = 8.0


@dataclass(frozen=True, slots=True)
class JointSelection(Drawn):
    """Of all rising tuples of borders c_1 <= ... <= c_k one, with probability proportional to exp(epsilon*u(c)/(2*sensitivity)), where

        u(c) = -sum_j |W[c_j] - W[c_(j-1)] - gaps_j*W[last]|,  c_0 the first border and c_(k+1) the last.

    The exponential mechanism over tuples: epsilon-DP, epsilon-bounded range, epsilon^2/8-zCDP. Level = epsilon.

    ``sensitivity``: the largest change of u between neighbours. ``candidates``: how many borders there are. ``chosen``: k. ``most``: the
    most that W[last] may be, for the rounding.

    The value that is drawn from is the pair (W, gaps): the weight before each border, rising whole numbers from 0, and the wanted share of
    the weight in each of the k + 1 intervals, public.

    Sampling: c_k first, then c_(k-1) given c_k, and so on; the weight of c_j is F_j(c_j) exp(cost of the interval behind it), F_j(c) the
    sum over all c_1 <= ... <= c_j = c. Each choice is exact for the doubles that stand for the logarithms of its weights
    (:func:`~dpspec.privacy.mechanisms.selection.choose_exponential`). F_j by two sums a border: where the interval holds too much
    (all earlier borders up to some place: a running sum) and where it holds too little (a window up to c); both by doubling, so that each
    is O(log m) additions deep. What these logarithms are off is paid for out of epsilon: :meth:`effective`.

    Source: Gillenwater, Joseph and Kulesza 2021 (there on the gaps between sorted records, with O(k n log n) by Fourier transforms);
    McSherry and Talwar 2007; Cesar and Rogers 2021.
    """

    sensitivity: float
    candidates: int
    chosen: int
    most: float
    kind: ClassVar[str] = "joint-exponential"
    family: ClassVar[Family] = "bounded-range"
    norm: ClassVar[Norm] = "score"
    reference: ClassVar[str] = "Gillenwater, Joseph and Kulesza 2021; McSherry and Talwar 2007; Cesar and Rogers 2021"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, candidates=self.candidates, chosen=self.chosen, most=self.most)
        if self._rounding()[0] > 2.0**-10:
            raise ValueError(f"weights of up to {self.most:g} are too many for the doubles that choose")

    @property
    def size(self) -> int:
        return self.chosen

    def scale(self, level: float) -> float:
        """The temperature 2*sensitivity/epsilon."""
        return 2.0 * self.sensitivity / check_level(level)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon from the temperature."""
        return 2.0 * self.sensitivity / noise["scale"]

    def check(self, value: Any) -> str | None:
        if not isinstance(value, tuple) or len(value) != 2:
            return "the value is the pair of the weights before each border and the wanted shares of the intervals"
        problem = check_numbers(value[0], self.candidates) or check_numbers(value[1], self.chosen + 1)
        if problem is None and (np.ndim(value[0]) != 1 or np.ndim(value[1]) != 1):
            return "the weights and the shares are no vectors"
        if problem is None:
            w, gaps = np.asarray(value[0], dtype=float), np.asarray(value[1], dtype=float)
            if gaps.min() <= 0 or abs(math.fsum(gaps) - 1) > 2.0**-40:
                return "the wanted shares are not positive with the sum 1"
            if w[0] != 0 or (np.diff(w) < 0).any() or (w != np.rint(w)).any() or w[-1] > 2.0**53:
                return "the weights before the borders are not rising whole numbers from 0"
        return problem

    def blind(self, value: Any) -> tuple[Any, Any]:
        """The shares and then the weights, in one vector; no weight at all is what is drawn instead."""
        weights, gaps = (np.asarray(part, dtype=float) for part in value)
        return np.concatenate([gaps, weights]), (np.zeros_like(weights), gaps)

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        """The most that u can move where W moves by their difference, over all tuples: the triangle inequality, by dynamic programming
        over the runs of equal differences."""
        gaps = np.asarray(one, dtype=float)[: self.chosen + 1]
        moved = np.asarray(other, dtype=float)[gaps.size :] - np.asarray(one, dtype=float)[gaps.size :]
        kept = moved[np.concatenate([[True], np.diff(moved) != 0])]
        best = np.where(np.arange(kept.size) == 0, 0.0, -np.inf)
        earlier = np.triu(np.ones((kept.size, kept.size), dtype=bool))
        for a in gaps:
            best = np.where(earlier, best[:, None] + np.abs(kept[None, :] - kept[:, None] - a * kept[-1]), -np.inf).max(axis=0)
        return float(best[-1])

    def _rounding(self) -> tuple[float, float]:
        """(alpha, beta): at a level e the logarithm of the chance of a tuple is off by at most (alpha e + beta)/2."""
        k, deep = self.size, math.ceil(math.log2(max(self.candidates, 2)))
        steps = 4 * k * (k + 1) * (2 * deep + 8) * 2.0**-52
        return steps * 2 * self.most / self.sensitivity, steps * (k * math.log(self.candidates) + _LIBRARY)

    def effective(self, level: float) -> float:
        """epsilon of the law on paper, such that the law of the doubles keeps ``level``.

        All terms are positive, so a sum in logarithms takes no error larger than its largest. An addition of logarithms is off by
        2^-52 (|L| + 8) at most (one rounding of the sum, few of exp and log1p, whose result is below 1), and |L| <= 4 W[last]/scale +
        k log(candidates): all costs of a tuple sum to 2 W[last] at most. Additions of logarithms move by no more than what is added, so
        F_j is off by j E, E = (2 log2(candidates) + 8) 2^-52 (|L| + 8), the weights of a choice by (k + 1) E, and as much again for their
        sum; k choices. Two neighbours: twice that, alpha level + beta. A level below beta chooses without looking at W.
        """
        alpha, beta = self._rounding()
        return max(0.0, (check_level(level) * (1.0 - alpha) - beta) * (1.0 - 2.0**-40))

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Integers:
        w, gaps = (np.asarray(part, dtype=float) for part in value)
        w = w * (self.effective(level) / (2.0 * self.sensitivity))
        wanted = gaps * w[-1]
        forward = [-np.abs(w - wanted[0])]
        for t in wanted[1:-1]:
            forward.append(_further(forward[-1], w, t))
        out, end = np.zeros(self.size, dtype=np.int64), w.size - 1
        for j in range(self.size - 1, -1, -1):
            logs = forward[j][: end + 1] - np.abs(w[end] - w[: end + 1] - wanted[j + 1])
            end = out[j] = choose_exponential(logs.max() - logs, noise)
        return out


def _further(logs: Array, w: Array, t: float) -> Array:
    """Of each c the logarithm of sum over b <= c of exp(logs[b] - |w[c] - w[b] - t|)."""
    m, ends = w.size, np.arange(w.size)
    # b < split: w[b] <= w[c] - t, the interval holds enough or too much
    split = np.minimum(np.searchsorted(w, w - t, side="right"), ends + 1)
    much, little = logs + w, logs - w
    window = np.full(m, -np.inf)  # of the borders after ``at``, ending with c; taken from the right
    at, left = ends.copy(), ends + 1 - split
    length = 1
    while length <= m:
        took = np.flatnonzero(left & length)
        if took.size:
            window[took] = np.logaddexp(window[took], little[at[took]])
            at[took] -= length
        much[length:] = np.logaddexp(much[length:], much[:-length])  # sums of 2*length borders; all of them in the end
        little[length:] = np.logaddexp(little[length:], little[:-length])
        length *= 2
    enough = np.where(split > 0, much[split - 1] - (w - t), -np.inf)
    found: Array = np.logaddexp(enough, window + (w - t))
    return found
