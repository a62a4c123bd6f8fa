"""GenProt: an index into public samples instead of a noisy number."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dpspec.numeric.norms import check_size
from dpspec.privacy.channels.protocol import Records, check_level, check_scale, clip_cube, rows
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, Integers, NoiseSource


def window_epsilon(half: float, length: int) -> float:
    """The exact worst-case log ratio of one index when every acceptance probability lies in [e^-half/2, e^half/2].

    P(g = t) = p_t*E[1/(1 + heads among the others)] + prod(1 - p)/T grows with p_t and falls with the others, so the extremes sit at the
    corners: p_t high and the others low, against p_t low and the others high.
    """
    low, high = 0.5 * math.exp(-half), 0.5 * math.exp(half)

    def chance(own: float, rest: float) -> float:
        none = (1.0 - rest) ** (length - 1)
        return own * (1.0 - none * (1.0 - rest)) / (length * rest) + (1.0 - own) * none / length

    return math.log(chance(high, low) / chance(low, high))


def window(half: float) -> tuple[float, float]:
    """The acceptance probabilities that really run: multiples of 2^-53, which the coins use as they are, within [e^-half/2, e^half/2] up
    to rounding. Both are 1/2 where the window is narrower than that."""
    low, high = math.ceil(math.ldexp(math.exp(-half), 52)), math.floor(math.ldexp(math.exp(half), 52))
    return (math.ldexp(low, -53), math.ldexp(high, -53)) if low <= high else (0.5, 0.5)


def within(low: float, high: float, length: int, epsilon: float) -> bool:
    """A proof, in ball arithmetic on the doubles themselves, that the loss of :func:`window_epsilon` over [low, high] is at most
    ``epsilon``."""
    from dpspec.privacy import gaussian

    if low == high:
        return True
    with gaussian._precision(256) as flint:
        a, b = (gaussian._ball(flint, Fraction(v)) for v in (low, high))

        def chance(own: Any, rest: Any) -> Any:
            none = (1 - rest) ** (length - 1)
            return own * (1 - none * (1 - rest)) / (length * rest) + (1 - own) * none / length

        return bool((chance(b, a) / chance(a, b)).log() <= gaussian._ball(flint, Fraction(epsilon)))


@functools.lru_cache(maxsize=256)
def base_epsilon(epsilon: float, length: int) -> float:
    """The epsilon of the base Laplace law whose indices are epsilon-LDP. The ratio of two Laplace densities with centres within half the
    interval is within e^(+-base/2). The bisection is in doubles; what it finds is lowered until :func:`within` proves it."""
    low, high = 0.0, 1.38  # high e^half/2 must stay a probability: base < 2 ln 2
    if window_epsilon(high / 2, length) <= epsilon:
        low = high
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if window_epsilon(middle / 2, length) <= epsilon else (low, middle)
    base, cut = min(low if low > 0 else epsilon, 4 * epsilon), 2.0**-40  # the loss is about 2*base, and more than base/4 for any length
    while not within(*window(base / 2), length, epsilon):
        base, cut = base * (1.0 - cut), min(2 * cut, 0.5)
    return base


@dataclass(frozen=True, slots=True)
class GenProt:
    """A number of [-r, r] sent as an index of log2(T) bits into T public Laplace samples; level = the epsilon of the report.

    The client draws a salt without looking at its record; (seed, salt) give public y_1 .. y_T from the Laplace law around 0 of scale
    2r/e0. It accepts y_t with probability p_t = (1/2)*density of y_t around v/density around 0, kept in [e^(-e0/2)/2, e^(e0/2)/2], and
    sends a uniform accepted index (any index when none is accepted). The decoded y_g has the Laplace law around v, except with
    probability 2^-T; the mean is v*(1 - 2^(1-T)), which ``aggregate`` undoes. The samples that a client rejects together have mean -v,
    hence the factor.

    Privacy is exact: the loss of the window's doubles is proved to be at most epsilon (:func:`within`), and p_t is clamped to them. The
    documents' bound is 10*epsilon for a base epsilon <= 1/4 (000, section 5.1.7, Algorithm 5.1.37, after Bun, Nelson and Stemmer 2019);
    the corners give about 2*e0 here, because centring the public law halves the window. The printed server averages the indices g
    instead of the samples y_g. Reports: integers (salt, index), shape (users, 2).
    """

    radius: float
    length: int = 32
    seed: int = 0
    kind: ClassVar[str] = "genprot"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    size: ClassVar[int] = 1
    reference: ClassVar[str] = "000 section 5.1.7, Algorithm 5.1.37 (server corrected, loss computed exactly); Bun, Nelson and Stemmer 2019"

    def __post_init__(self) -> None:
        check_size(radius=self.radius)
        if not 2 <= self.length <= 4096:
            raise ValueError("the list has between 2 and 4096 public samples")

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon of an index, exactly: :func:`window_epsilon` of the window that the base epsilon 2r/scale sets."""
        base = 2.0 * self.radius / noise["scale"]
        if not 0 < base <= 2.0 * math.log(2.0):
            raise ValueError("the acceptance probability e^(base/2)/2 is above 1")
        return window_epsilon(base / 2.0, self.length)

    def scale(self, level: float) -> float:
        """The scale of the base Laplace law."""
        return check_scale(2.0 * self.radius / base_epsilon(check_level(level), self.length))

    def variance(self, level: float) -> float:
        """Close to E(R - v)^2: that of the base law."""
        return 2.0 * self.scale(level) ** 2

    def _samples(self, salt: Integers, b: float) -> Array:
        """Public samples, shape (users, T)."""
        u = public_uniform(self.seed, salt, self.length)
        return np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u))) * b

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Integers:
        x, single = rows(records, 1)
        v = clip_cube(x[:, 0], self.radius)
        users, b = v.size, self.scale(level)
        half = base_epsilon(level, self.length) / 2.0
        salt = noise.integers(2**62, users)
        y = self._samples(salt, b)
        p = 0.5 * np.exp(np.clip((np.abs(y) - np.abs(y - v[:, None])) / b, -half, half))
        p = np.clip(p, *window(half))
        accepted = noise.bernoulli(p, p.shape)
        accepted[~accepted.any(axis=1)] = True
        # a uniform accepted index: the rank is drawn exactly, given how many there are
        counts = accepted.sum(axis=1)
        rank = np.zeros(users, dtype=np.int64)
        for count in np.unique(counts):
            which = np.flatnonzero(counts == count)
            rank[which] = noise.integers(int(count), which.size)
        index = np.argmax(np.cumsum(accepted, axis=1) > rank[:, None], axis=1)
        out = np.stack([salt, index], axis=1)
        return np.asarray(out[0]) if single else out

    def decode(self, reports: Integers, level: float) -> Array:
        """The public sample that each report points to."""
        pairs = np.atleast_2d(reports)
        return np.asarray(self._samples(pairs[:, 0], self.scale(level))[np.arange(pairs.shape[0]), pairs[:, 1]])

    def aggregate(self, reports: Integers, level: float) -> Array:
        return np.array([float(self.decode(reports, level).mean()) / (1.0 - 2.0 ** (1 - self.length))])

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """Straight from the law of the decoded samples: Laplace around v with probability 1 - 2^-T, the rejected law otherwise."""
        x, _ = rows(records, 1)
        v, b = clip_cube(x[:, 0], self.radius), self.scale(level)
        y = v + noise.laplace(b, v.size)
        for i in np.flatnonzero(noise.bernoulli(2.0**-self.length, v.size)):
            while True:  # the law 2*Lap(0) - Lap(v), by rejection from Lap(0)
                z = float(noise.laplace(b, 1)[0])
                if noise.bernoulli(1.0 - 0.5 * math.exp((abs(z) - abs(z - v[i])) / b), 1)[0]:
                    y[i] = z
                    break
        return np.array([float(y.mean()) / (1.0 - 2.0 ** (1 - self.length))])


def public_uniform(seed: int, salt: Integers, count: int) -> Array:
    """Public uniform numbers in (0, 1), shape (users, count): SplitMix64 at position (salt, t) of the stream ``seed``. Not secret,
    never noise."""
    with np.errstate(over="ignore"):
        state = _mix(salt.astype(np.uint64) + _mix(np.array([seed % 2**64], dtype=np.uint64)))
        z = state[:, None] + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
        return (_mix(z) >> np.uint64(11)).astype(float) * 2.0**-53 + 2.0**-54


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
