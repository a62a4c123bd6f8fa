"""Counts of keys that nobody declared, with Gaussian noise: a key is named above a threshold that no new key passes but with delta."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy import gaussian
from dpspec.privacy.mechanisms.discrete import gdp_parameter, largest_step
from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_positive
from dpspec.privacy.noise import Integers, NoiseSource
from dpspec.privacy.schedule import Family, Norm

_MARGIN = 1e-9  # share of delta kept back for the rounding of sums of exponentials
#: Shares of delta that the counts of common keys may take alone: the threshold is the least over these.
_SHARES = (0.999, 0.95, 0.85, 0.7, 0.5, 0.3)
#: Parameters up to which tails are added up.
_SUMMED = 2.0**12
#: Numbers of new keys that are looked at one by one; beyond, in so many stretches.
_EACH = 64


def not_counts(value: Any) -> str | None:
    """Why a value is not (2, m), different keys as numbers above their counts; None where it is."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.ndim != 2 or array.shape[0] != 2:
        return "the value is not a row of keys above a row of counts"
    if not np.isfinite(array).all():
        return "the value holds a NaN or an infinity"
    counts = array[1]
    if (counts != np.rint(counts)).any() or (counts < 0).any() or (counts > 2.0**52).any():
        return "a count is not a whole number between 0 and 2^52"
    return "a key stands twice" if np.unique(array[0]).size != array.shape[1] else None


def moved(one: Any, other: Any) -> list[float]:
    """How far the count of each key of either value is from that of the other, 0 where a value lacks the key."""
    first, second = ({float(k): float(c) for k, c in np.asarray(v, dtype=float).T} for v in (one, other))
    return [abs(first.get(k, 0.0) - second.get(k, 0.0)) for k in {*first, *second}]


def tail(s: float, t: int) -> float:
    """P(Z > t) of discrete Gaussian noise of parameter s, from above: its weights add up to s sqrt(2 pi) at least (Poisson summation); of
    large parameters the integral from t on (Canonne, Kamath and Steinke 2020, Proposition 25)."""
    if s > _SUMMED:
        return 0.5 * math.erfc(t / s / math.sqrt(2.0)) * (1.0 + _MARGIN)
    z = np.arange(t + 1, t + 2 + math.ceil(40.0 * s), dtype=float)
    return float(np.exp(-0.5 * (z / s) ** 2).sum()) / (s * math.sqrt(2.0 * math.pi)) * (1.0 + _MARGIN)


@functools.lru_cache(maxsize=256)
def step(s: float) -> float:
    """The mu of a shift by one."""
    return largest_step(s) if s <= _SUMMED else (1.0 + 1.0 / (12.0 * s * s)) / s


@dataclass(frozen=True, slots=True)
class GaussianKeys(Drawn):
    """The counts of the keys that the records hold, (keys, counts), each with discrete Gaussian noise Z; a key is published, with its noisy
    count, where that exceeds T: (level, ``delta``)-DP. Level = epsilon.

    ``keys``: how many keys' counts one unit moves at most, each by ``most`` at most and by ``sensitivity`` in all (l1).

    Proof. Of neighbours, let j of the moved keys be there on one side alone. (1) Such a key is named with probability q = P(Z > T - most)
    at most on its side, and never on the other. (2) On all other keys both sides draw the same noise around counts that are apart by h,
    |h|_2^2 <= min((keys - j) most^2, most (sensitivity - j)), since each of the j moves by one at least; names and counts follow from
    these noisy counts, so they are mu-GDP, mu = |h|_2 times the mu of a shift by one (see ``DiscreteGaussian``).

    P and Q are the laws of the two sides, P' and Q' those of (2), D their divergence at epsilon; a of the j keys are on the side of P, b
    on that of Q. For an event S without names of the a, P(S) - e^epsilon Q(S) <= P'(S) - e^epsilon (1-q)^b Q'(S), which is D at most and
    ((1-q)^-b - 1) e^epsilon (1-q)^b Q'(S), where the last factors are at most P'(S) <= 1 or there is nothing to show. Names of the a add
    a q at most. So delta = max over j of D_j(epsilon) + j q/(1 - j q) suffices: records that come, go or are replaced.

    s and T: of a few shares of delta for D_0 the one with the least T, from public numbers. The noise grows with the root of the number
    of keys, noise of bounded reach with the number itself, so it names more from three keys a unit on. Source: Wilkins, Kifer, Zhang and
    Karrer 2024 (the exact analysis for counts that move by one).
    """

    sensitivity: float
    keys: int
    delta: float
    most: int = 1
    kind: ClassVar[str] = "keys-gaussian"
    family: ClassVar[Family] = "approx"
    norm: ClassVar[Norm] = "l1"
    size: ClassVar[int] = 1
    open_ended: ClassVar[bool] = True
    accountant: ClassVar[str] = "Gaussian threshold"
    reference: ClassVar[str] = "Wilkins, Kifer, Zhang and Karrer 2024; Canonne, Kamath and Steinke 2020"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, keys=self.keys, delta=self.delta, most=self.most)
        if not self.delta < 0.5:
            raise ValueError(f"delta must be below 1/2, not {self.delta!r}")
        if self.sensitivity != math.floor(self.sensitivity):
            raise ValueError("counts move by whole numbers")
        if self.sensitivity > self.keys * self.most:
            raise ValueError(f"{self.keys} keys that move by {self.most} at most do not move by {self.sensitivity:g}")

    @property
    def moved(self) -> float:
        """How many keys one unit moves at most: at least two where a record is replaced."""
        return min(float(self.keys), self.sensitivity)

    @property
    def _stretches(self) -> tuple[tuple[int, int], ...]:
        """(first, last) numbers of new keys that are judged together."""
        most = min(self.keys, int(self.sensitivity))
        if most <= _EACH:
            return tuple((j, j) for j in range(most + 1))
        ends = sorted({int(v) for v in np.linspace(0, most + 1, _EACH + 1)})
        return tuple((a, b - 1) for a, b in itertools.pairwise(ends))

    def _common(self, s: float, j: int) -> float:
        """mu of the keys that both sides have, where j are new."""
        squared = max(min((self.keys - j) * self.most**2, self.most * (int(self.sensitivity) - j)), 0)
        return gaussian.sqrt_up(Fraction(squared)) * step(s) * (1.0 + 2.0**-50)

    def scale(self, level: float) -> float:
        """s."""
        return _chosen(self, check_level(level))[0]

    def numbers(self, level: float) -> dict[str, float]:
        s, t = _chosen(self, check_level(level))
        return {"scale": s, "threshold": float(t)}

    def half(self, level: float) -> float:
        """About the count at which a key is named half of the time."""
        return _chosen(self, level)[1] + 1.0

    def spent(self, noise: Mapping[str, float]) -> float:
        """The least epsilon at which every number of new keys keeps ``delta``; infinite where one does not."""
        s, t = noise["scale"], noise["threshold"]
        if not (s > 0 and t >= 1 and t == int(t)):
            raise ValueError("the parameter is positive, and the threshold a whole number of at least 1")
        if s < 1e-3 or t < self.most:  # a new key may be named by its count alone
            return math.inf
        q, worst = tail(s, int(t) - self.most), 0.0
        for first, last in self._stretches:
            left = self.delta - (last * q / (1.0 - last * q) if last * q < 1.0 else math.inf)
            if left <= 0.0:
                return math.inf
            mu = self._common(s, first)
            if mu > 0.0:
                worst = max(worst, gaussian.epsilon_of(mu, left))
        return worst

    def delta_by_quadrature(self, level: float, epsilon: float) -> float:
        """delta at ``epsilon``, from the weights of the noise and the integral of max(0, p - e^epsilon p') over a pair of normal laws."""
        from scipy.integrate import quad

        s, t = _chosen(self, level)
        reach = math.ceil(40.0 * s)
        weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / s) ** 2)
        q = float(weights[reach + t - self.most + 1 :].sum() / weights.sum())

        def apart(mu: float) -> float:
            def excess(x: float) -> float:
                return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * -math.expm1(min(epsilon - mu * x - 0.5 * mu * mu, 0.0))

            start = (epsilon - 0.5 * mu * mu) / mu
            return float(quad(excess, start, max(start, 0.0) + 40.0, epsabs=0.0, epsrel=1e-9, limit=200)[0]) if start < 38.0 else 0.0

        found = 0.0
        for first, last in self._stretches:
            mu = self._common(s, first)
            found = max(found, last * q / (1.0 - last * q) + (apart(mu) if mu > 0.0 else 0.0))
        return found

    def check(self, value: Any) -> str | None:
        """``value``: (2, m), the keys as different numbers and their counts."""
        return not_counts(value)

    def blind(self, value: Any) -> tuple[Any, Any]:
        """What is drawn in its place is that of no key."""
        return np.array(value, dtype=float), np.zeros((2, 0))

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        """The sum over keys of how far their counts are apart, infinite where one is by more than ``most``, or more than ``keys`` are."""
        apart = [v for v in moved(one, other) if v]
        return math.inf if len(apart) > self.keys or max(apart, default=0.0) > self.most else math.fsum(apart)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Integers:
        """The noisy count of each key, 0 where it is not published; a key without records never is."""
        counts, (s, t) = np.asarray(value)[1].astype(np.int64), _chosen(self, level)
        noisy = counts + np.asarray(noise.discrete_gaussian(s, counts.shape), dtype=np.int64)
        return np.where((noisy > t) & (counts > 0), noisy, 0)


@functools.lru_cache(maxsize=128)
def _chosen(m: GaussianKeys, level: float) -> tuple[float, int]:
    """(s, T): the least T over the shares of delta, and the least s that keeps delta with it."""
    delta, found = m.delta * (1.0 - _MARGIN), []
    length = gaussian.sqrt_up(Fraction(max(min(m.keys * m.most**2, m.most * int(m.sensitivity)), 1)))
    for share in _SHARES:
        nominal = length / gaussian.mu_of(level, delta * share)
        if nominal > 2.0**40:
            raise ValueError(f"discrete Gaussian noise {nominal:.3g} wide is not drawn")
        s = gdp_parameter(nominal * (1.0 + 1e-12))
        allowed = _allowed(m, level, s, delta)
        if allowed > 0.0:
            found.append((_threshold(s, allowed, m.most), s))
    if not found:
        raise ValueError("no Gaussian noise keeps delta")
    t, high = min(found)
    low = 0.5 * high
    while high - low > 1e-12 * high:
        s = 0.5 * (low + high)
        allowed = _allowed(m, level, s, delta)
        low, high = (low, s) if allowed > 0.0 and tail(s, t - m.most) <= allowed else (s, high)
    return high, t


def _allowed(m: GaussianKeys, level: float, s: float, delta: float) -> float:
    """The largest chance of naming a new key that noise of parameter s leaves of delta; 0 where there is none."""
    found = 1.0
    for first, last in m._stretches:
        mu = m._common(s, first)
        left = delta - (gaussian.delta_upper(level, mu) if mu > 0.0 else 0.0)
        if left <= 0.0:
            return 0.0
        if last:
            found = min(found, left / (last * (1.0 + left)))
    return found


def _threshold(s: float, allowed: float, most: int) -> int:
    """The least whole T >= most with P(Z > T - most) at most that."""
    low, high = -1, 1
    while tail(s, high) > allowed:
        low, high = high, 2 * high
        if high > 2**52:
            raise ValueError("the threshold does not fit 64-bit integers")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(s, middle) <= allowed else (middle, high)
    return high + most
