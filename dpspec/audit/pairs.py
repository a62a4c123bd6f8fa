"""Pairs of output distributions, seen through the tails of their log-likelihood ratio."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]


class Pair(Protocol):
    """Two output distributions P and Q, seen through L = ln(dP/dQ)."""

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        """At every threshold: P(L > t), Q(L > t), P(L <= t), Q(L <= t). L = +inf counts in P(L > t), L = -inf in Q(L <= t)."""
        ...

    def reach(self, tail: float) -> tuple[float, float]:
        """Losses (a, b) with P(L <= a) <= tail and P(L > b) <= tail, as close together as is cheap."""
        ...


def _ndtr(x: Array) -> Array:
    from scipy.special import ndtr

    return np.asarray(ndtr(x), dtype=float)


@dataclass(frozen=True, slots=True)
class GaussianPair:
    """N(mu, 1) against N(0, 1): L = mu x - mu^2/2."""

    mu: float

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        x = loss / self.mu
        up, down = x - self.mu / 2, x + self.mu / 2
        return _ndtr(-up), _ndtr(-down), _ndtr(up), _ndtr(down)

    def reach(self, tail: float) -> tuple[float, float]:
        from scipy.special import ndtri

        z = -float(ndtri(tail))
        return self.mu**2 / 2 - self.mu * z, self.mu**2 / 2 + self.mu * z


@dataclass(frozen=True, slots=True)
class LaplacePair:
    """Lap(Delta, b) against Lap(0, b) with ``epsilon`` = Delta/b: L = (|x| - |x - Delta|)/b, with atoms at -epsilon and epsilon."""

    epsilon: float

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        e = self.epsilon
        inside = np.clip(loss, -e, e)
        near, far = (e - inside) / 2, (e + inside) / 2  # distances to the two centres, in units of b
        p_down, q_up = np.exp(-near) / 2, np.exp(-far) / 2
        above, below = loss >= e, loss < -e
        p_up = np.where(above, 0.0, np.where(below, 1.0, 1 - p_down))
        q_up = np.where(above, 0.0, np.where(below, 1.0, q_up))
        p_down = np.where(above, 1.0, np.where(below, 0.0, p_down))
        q_down = np.where(above, 1.0, np.where(below, 0.0, 1 - np.exp(-far) / 2))
        return p_up, q_up, p_down, q_down

    def reach(self, tail: float) -> tuple[float, float]:
        slack = 1e-9 * self.epsilon
        return -self.epsilon - slack, self.epsilon


@dataclass(frozen=True, slots=True)
class BoundedRangePair:
    """The worst of all mechanisms whose losses lie in an interval of length ``epsilon`` (the exponential mechanism: Dong, Durfee, Rogers
    2020). An interval {t - epsilon, t} gives P(L = t) = (1 - e^(t - epsilon))/(1 - e^-epsilon); the largest of these profiles at x, over
    t, has its t at (x + epsilon)/2, and differentiating it in e^x gives Q(L > x)."""

    epsilon: float

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        e = self.epsilon
        inside = np.clip(loss, -e, e)
        up, down = (inside - e) / 2, (inside + e) / 2
        p_up, q_up = np.expm1(up) / math.expm1(-e), np.expm1(-up) / math.expm1(e)
        p_down, q_down = np.exp(-e) * np.expm1(down) / -math.expm1(-e), np.expm1(-down) / math.expm1(-e)
        return p_up, q_up, p_down, q_down

    def reach(self, tail: float) -> tuple[float, float]:
        slack = 1e-9 * self.epsilon
        return -self.epsilon - slack, self.epsilon


@dataclass(frozen=True, slots=True)
class GumbelPair:
    """A Gumbel variable moved up by ``shift`` against one that is not: with E = e^-x exponential, L = shift - E (e^shift - 1)."""

    shift: float

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        d = self.shift
        below = np.maximum((d - loss) / math.expm1(d), 0.0)  # L > t is E < this, E being of mean 1 under Q and of mean e^-d under P
        return -np.expm1(-below * math.exp(d)), -np.expm1(-below), np.exp(-below * math.exp(d)), np.exp(-below)

    def reach(self, tail: float) -> tuple[float, float]:
        return self.shift + math.expm1(-self.shift) * -math.log(tail), self.shift


@dataclass(frozen=True, slots=True)
class Atoms:
    """Finitely many outputs. ``p`` and ``q`` need not sum to one exactly; zero entries give infinite losses."""

    p: tuple[float, ...]
    q: tuple[float, ...]

    def _sorted(self) -> tuple[Array, Array, Array]:
        p, q = np.asarray(self.p, dtype=float), np.asarray(self.q, dtype=float)
        keep = (p > 0) | (q > 0)
        p, q = p[keep], q[keep]
        with np.errstate(divide="ignore"):
            loss = np.log(p) - np.log(q)
        order = np.argsort(loss, kind="stable")
        return loss[order], p[order], q[order]

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        at, p, q = self._sorted()
        i = np.searchsorted(at, loss, side="right")
        p_down, q_down = np.concatenate([[0.0], np.cumsum(p)]), np.concatenate([[0.0], np.cumsum(q)])
        p_up = np.concatenate([np.cumsum(p[::-1])[::-1], [0.0]])
        q_up = np.concatenate([np.cumsum(q[::-1])[::-1], [0.0]])
        return p_up[i], q_up[i], p_down[i], q_down[i]

    def reach(self, tail: float) -> tuple[float, float]:
        at, p, _ = self._sorted()
        finite = at[np.isfinite(at)]
        if finite.size == 0:
            return -1.0, 1.0
        low = at[np.searchsorted(np.cumsum(p), tail, side="right")]
        low = float(low) if math.isfinite(low) else float(finite[0])
        return low - 1e-9 * (1 + abs(low)), float(finite[-1])


@dataclass(frozen=True, slots=True)
class Reversed:
    """(Q, P) in place of (P, Q): the other direction of the same neighbours."""

    pair: Pair

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        # ln(dQ/dP) > t  <=>  L < -t. The closed and the open end differ only on atoms; nudge so that the atom falls where it must.
        at = np.nextafter(-loss, -np.inf)
        p_up, q_up, p_down, q_down = self.pair.tails(at)
        return q_down, p_down, q_up, p_up

    def reach(self, tail: float) -> tuple[float, float]:
        turned = getattr(self.pair, "turned", None)  # a pair that knows the quantiles of its other law
        # Q(L > b) <= tail and Q(L <= a) <= tail by bisection on the tails
        return turned(tail) if turned is not None else _reach_by_bisection(self, tail)


def _reach_by_bisection(pair: Pair, tail: float) -> tuple[float, float]:
    def up(t: float) -> float:
        return float(pair.tails(np.array([t]))[0][0])

    def down(t: float) -> float:
        return float(pair.tails(np.array([t]))[2][0])

    limit_up, limit_down = up(1e12), down(-1e12)
    high = 1e-9
    while up(high) > tail + limit_up and high < 1e12:
        high *= 2
    low = -1e-9
    while down(low) > tail + limit_down and low > -1e12:
        low *= 2
    for fn, inner in ((up, True), (down, False)):
        a, b = (0.0, high) if inner else (low, 0.0)
        for _ in range(40):
            mid = (a + b) / 2
            if inner:
                a, b = (a, mid) if fn(mid) <= tail + limit_up else (mid, b)
            else:
                a, b = (mid, b) if fn(mid) <= tail + limit_down else (a, mid)
        if inner:
            high = b
        else:
            low = a
    return low, high


@dataclass(frozen=True, slots=True)
class Subsampled:
    """(1 - rate) Q + rate P against Q: the record is present with probability ``rate`` under the first and absent under the second."""

    pair: Pair
    rate: float

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        q = self.rate
        lifted = np.expm1(np.minimum(loss, 600.0)) / q + 1  # (e^t - (1 - q))/q; rates below 1e-40 are no rates
        inner = np.where(lifted > 0, np.log(np.where(lifted > 0, lifted, 1.0)), -np.inf)
        inner = np.where(loss > 600, loss - math.log(q), inner)
        p_up, q_up, p_down, q_down = self.pair.tails(inner)
        return (1 - q) * q_up + q * p_up, q_up, (1 - q) * q_down + q * p_down, q_down

    def reach(self, tail: float) -> tuple[float, float]:
        return _reach_by_bisection(self, tail)


@dataclass(frozen=True, slots=True)
class Seen:
    """(P, Q) with probability ``rate``, nothing otherwise, and the outcome shows which it was.

    Dominates every (1-q) A + q P' against (1-q) A + q Q' whose (P', Q') are dominated by (P, Q), by joint convexity.
    """

    pair: Pair
    rate: float

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        q, nothing = self.rate, 1 - self.rate
        p_up, q_up, p_down, q_down = self.pair.tails(loss)
        up = loss < 0
        return q * p_up + nothing * up, q * q_up + nothing * up, q * p_down + nothing * ~up, q * q_down + nothing * ~up

    def reach(self, tail: float) -> tuple[float, float]:
        low, high = self.pair.reach(tail)
        return min(low, -1e-12), max(high, 1e-12)


@dataclass(frozen=True, slots=True)
class Joined:
    """The profile of ``above`` for losses >= 0 and of ``below`` for losses < 0, with an atom at 0 that closes the gap.

    Sampling without replacement under replace-one has one dominating pair for orders above 1 and its mirror image below 1 (Zhu, Dong,
    Wang 2022); compositions need both at once.
    """

    above: Pair
    below: Pair

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        p_up, q_up, _, _ = self.above.tails(loss)
        _, _, p_down, q_down = self.below.tails(loss)
        high = loss >= 0
        return (
            np.where(high, p_up, 1 - p_down),
            np.where(high, q_up, 1 - q_down),
            np.where(high, 1 - p_up, p_down),
            np.where(high, 1 - q_up, q_down),
        )

    def reach(self, tail: float) -> tuple[float, float]:
        return self.below.reach(tail)[0], self.above.reach(tail)[1]


@dataclass(frozen=True, slots=True)
class SubsampledReplace:
    """(1-q) N(0,1) + q N(a,1) against (1-q) N(0,1) + q N(-a,1): a record of norm bound a (in noise units) replaced by its opposite."""

    shift: float
    rate: float

    def _at(self, loss: Array) -> Array:
        """The output x at which L = loss. With u = exp(a x): q c u^2 + (1-q)(1 - e^t) u - e^t q c = 0, c = exp(-a^2/2)."""
        a, q = self.shift, self.rate
        half = loss / 2
        # divide by e^{t/2} u: q c (v - 1/v) = 2 (1-q) sinh(t/2) with u = v e^{t/2}
        right = (1 - q) * np.sinh(np.clip(half, -350, 350)) / (q * math.exp(-(a**2) / 2))
        return (np.arcsinh(right) + half) / a

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        a, q = self.shift, self.rate
        x = self._at(loss)
        zero_up, zero_down = _ndtr(-x), _ndtr(x)
        return (
            (1 - q) * zero_up + q * _ndtr(a - x),
            (1 - q) * zero_up + q * _ndtr(-a - x),
            (1 - q) * zero_down + q * _ndtr(x - a),
            (1 - q) * zero_down + q * _ndtr(x + a),
        )

    def reach(self, tail: float) -> tuple[float, float]:
        return _reach_by_bisection(self, tail)


def randomized_response(epsilon: float) -> Atoms:
    """The pair that dominates every pure epsilon-DP mechanism (Kairouz, Oh, Viswanath 2015)."""
    top = 1 / (1 + math.exp(-epsilon))
    return Atoms((top, 1 - top), (1 - top, top))


def approximate(epsilon: float, delta: float) -> Atoms:
    """The pair that dominates every (epsilon, delta)-DP mechanism (ibid.)."""
    top = (1 - delta) / (1 + math.exp(-epsilon))
    low = 1 - delta - top
    return Atoms((delta, top, low, 0.0), (0.0, low, top, delta))


def cells(p_cdf: Callable[[Array], Array], q_cdf: Callable[[Array], Array], low: float, high: float, count: int = 20001) -> Atoms:
    """A pair of densities on the line merged into ``count`` + 1 intervals: a post-processing, hence fit for lower bounds only."""
    x = np.linspace(low, high, count)
    p = np.diff(np.concatenate([[0.0], p_cdf(x), [1.0]]))
    q = np.diff(np.concatenate([[0.0], q_cdf(x), [1.0]]))
    # differences of distribution functions carry an absolute error of 1e-16: cells that it could distort join the heaviest one
    faint = (p < 1e-11) | (q < 1e-11)
    heaviest = int(np.argmax(np.where(faint, 0.0, p)))
    p[heaviest] += float(p[faint].sum())
    q[heaviest] += float(q[faint].sum())
    return Atoms(tuple(p[~faint]), tuple(q[~faint]))


def symmetric(pair: Pair) -> bool:
    """Whether the pair and its reverse have the same profile, so that one direction is enough."""
    if isinstance(pair, Atoms):
        return sorted(zip(pair.p, pair.q, strict=True)) == sorted(zip(pair.q, pair.p, strict=True))
    if isinstance(pair, Seen):
        return symmetric(pair.pair)
    if getattr(pair, "both_ways", False):  # a bound on the loss of either direction
        return True
    return isinstance(pair, (GaussianPair, LaplacePair, BoundedRangePair, SubsampledReplace, Joined))
