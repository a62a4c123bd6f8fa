"""Privacy-loss distributions with one-sided rounding, and the few quadratures that the auditor needs.

The auditor needs two numbers where an accountant needs one: an upper bound on the true epsilon (to certify) and a lower bound (to
prove a violation). Both come from the same object, a pair of output distributions (P, Q) whose log-likelihood ratio L is known
through its tails. On a grid of step h

* *over*: the mass between two grid points is split between them so that the masses under P and under Q are both kept. The result
  dominates (P, Q) (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, "Connect the dots");
* *under*: the outputs between two midpoints of the grid are merged into one output. Merging is post-processing, so the result is
  dominated by (P, Q). The merged loss ln(p/q) is then moved down to the grid, where the grid may be shifted by a small offset of
  order h^2 so that hardly any mass moves by a whole step.

Compositions are cyclic convolutions of exponentially tilted masses, which keeps relative accuracy in the far tail that a small delta
lives in. The rounding error of the transforms is estimated from their spectrum and added to upper, subtracted from lower values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

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
        # Q(L > b) <= tail and Q(L <= a) <= tail by bisection on the tails
        return _reach_by_bisection(self, tail)


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


@dataclass(frozen=True, slots=True)
class Masses:
    """P-mass ``mass[i]`` at loss ``(first + i)*step + offset``, and ``infinite`` at +inf."""

    step: float
    first: int
    mass: Array
    infinite: float
    offset: float = 0.0

    @property
    def losses(self) -> Array:
        return np.asarray((self.first + np.arange(self.mass.size)) * self.step + self.offset, dtype=float)


_TAIL = 1e-17


_LARGEST = 1 << 22


class TooFine(ArithmeticError):
    """The grid would need more points than memory should hold."""


def _grid(pair: Pair, step: float, tail: float) -> tuple[int, int]:
    low, high = pair.reach(tail)
    if (high - low) / step > _LARGEST:
        raise TooFine
    return math.floor(low / step) - 1, math.ceil(high / step) + 1


def over(pair: Pair, step: float, tail: float = _TAIL) -> Masses:
    """A dominating discretisation of ``pair``."""
    first, last = _grid(pair, step, tail)
    grid = np.asarray(np.arange(first, last + 1) * step, dtype=float)
    p_up, q_up, p_down, q_down = pair.tails(grid)
    p = np.where(grid[:-1] < 0, p_down[1:] - p_down[:-1], p_up[:-1] - p_up[1:])
    q = np.where(grid[:-1] < 0, q_down[1:] - q_down[:-1], q_up[:-1] - q_up[1:])
    p, q = np.maximum(p, 0.0), np.maximum(q, 0.0)
    # split p = a + b with a e^{-t} + b e^{-t-h} = q
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p > 0, np.exp(np.minimum(np.log(q) + grid[:-1] - np.log(p), 1.0)), 1.0)
    share = np.clip((ratio - math.exp(-step)) / -math.expm1(-step), 0.0, 1.0)  # of p that stays at the lower point
    mass = np.zeros(grid.size)
    mass[:-1] += p * share
    mass[1:] += p * (1 - share)
    mass[0] += float(p_down[0])
    if not abs(float(mass.sum()) + float(p_up[-1]) - 1) < 1e-6:  # an upper bound on less than all of the mass would be none
        raise ArithmeticError(f"the discretised losses hold {float(mass.sum()) + float(p_up[-1])} of the mass")
    return Masses(step, first, mass, float(p_up[-1]))


def under(pair: Pair, step: float, tail: float = _TAIL) -> Masses:
    """A dominated discretisation of ``pair``."""
    first, last = _grid(pair, step, tail)
    index = np.arange(first, last + 1)
    edges = np.asarray((np.arange(first, last + 2) - 0.5) * step, dtype=float)
    p_up, q_up, p_down, q_down = pair.tails(edges)
    p = np.where(edges[:-1] < 0, p_down[1:] - p_down[:-1], p_up[:-1] - p_up[1:])
    q = np.where(edges[:-1] < 0, q_down[1:] - q_down[:-1], q_up[:-1] - q_up[1:])
    p, q = np.maximum(p, 0.0), np.maximum(q, 0.0)
    if not np.any(p > 1e-290):  # nothing lies on the grid: all finite outputs are merged into one
        certain = float(p_up[-1]) if float(q_up[-1]) == 0.0 else 0.0
        return Masses(step, 0, np.array([1.0 - certain]), certain)
    solid = p > 1e-290
    index, p, q, floor = index[solid], p[solid], q[solid], edges[:-1][solid]
    # where q underflows the lower edge of the cell stands in for the merged loss, which is never below it
    merged = np.where(q > 1e-290, np.log(p) - np.log(np.maximum(q, 1e-290)), floor)
    # shortfall against the grid; choose the offset that loses least on average: points short by more than it move down a whole step
    short = index * step - merged
    order = np.argsort(short)
    weight = np.cumsum(p[order]) / p.sum()
    price = np.maximum(short[order], 0.0) + (1 - weight) * step
    offset = float(max(short[order][int(np.argmin(price))], 0.0))
    lowered = np.where(short <= offset * (1 + 1e-12), index, index - np.ceil((short - offset) / step).astype(int))
    base = int(lowered.min())
    mass = np.asarray(np.bincount(lowered - base, weights=p), dtype=float)
    beyond_p, beyond_q = float(p_up[-1]), float(q_up[-1])
    infinite = beyond_p if beyond_q == 0.0 else 0.0
    return Masses(step, base, mass, infinite, -offset)


def _log_moment(parts: Sequence[tuple[Array, Array, int]], tilt: float) -> float:
    """ln E[exp(tilt * L)] of the composition; ``parts``: losses, their masses, and the count."""
    total = 0.0
    for losses, mass, count in parts:
        x = tilt * losses
        top = float(x.max())
        with np.errstate(under="ignore"):
            total += count * (top + math.log(float(np.sum(mass * np.exp(x - top))) or 5e-324))
    return total


@dataclass(frozen=True, slots=True)
class Composed:
    """Tilted masses of a composition: the P-mass at loss l is ``mass * exp(log_norm - tilt*l)``; ``infinite`` at +inf.

    ``margin``: estimated rounding error of one entry of ``mass``, positive to be added (upper bounds), negative to be taken away.
    """

    losses: Array
    mass: Array
    tilt: float
    log_norm: float
    infinite: float
    margin: float

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence at ``epsilon``."""
        i = int(np.searchsorted(self.losses, epsilon, side="right"))
        loss, m = self.losses[i:], self.mass[i:]
        with np.errstate(under="ignore"):
            value = float(np.sum(np.maximum(m + self.margin, 0.0) * np.exp(self.log_norm - self.tilt * loss) * -np.expm1(epsilon - loss)))
        return self.infinite + max(value, 0.0)

    def epsilon(self, delta: float) -> float:
        """The least epsilon >= 0 with ``self.delta(epsilon) <= delta``; infinite when the mass at +inf exceeds delta."""
        if self.infinite > delta:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, max(float(self.losses[-1]), 1e-300)
        for _ in range(200):
            mid = (low + high) / 2
            if self.delta(mid) > delta:
                low = mid
            else:
                high = mid
            if high - low <= 1e-12 * high:
                break
        return high


def compose(parts: Sequence[tuple[Masses, int]], delta: float, side: float = 0.0) -> Composed:
    """The composition of independent ``parts`` (each ``count`` times), tilted for a question about ``delta``.

    ``side``: 1 for an upper bound, -1 for a lower bound: the rounding error of the transform goes that way.
    """
    step = parts[0][0].step
    goal = math.log(1 / max(delta, 1e-300))
    solid = [(p.losses[p.mass > 0], p.mass[p.mass > 0], n) for p, n in parts]
    if any(mass.size == 0 for _, mass, _ in solid):  # some part has all its mass at infinity
        return Composed(np.array([0.0]), np.array([0.0]), 0.0, 0.0, 1.0, 0.0)

    def bound(t: float) -> float:
        return (_log_moment(solid, t) + goal) / t

    spread = max(max(abs(float(p.losses[0])), abs(float(p.losses[-1]))) for p, _ in parts)
    ladder = np.geomspace(1e-3 / max(spread, 1e-12), 4e2 / max(spread, 1e-12), 60)
    ladder = ladder[ladder < 600 / max(spread, 1e-12)]
    # the smallest tilt that is nearly best: a stronger one buries the smaller losses in the rounding of the transform
    bounds = [bound(float(t)) for t in ladder]
    tilt = float(next(t for t, b in zip(ladder, bounds, strict=True) if b <= min(bounds) + 0.05 * abs(min(bounds))))
    base = _log_moment(solid, tilt)

    def edge(sign: float) -> float:
        best = math.inf
        for s in ladder:
            growth = _log_moment(solid, tilt + sign * float(s)) - base
            best = min(best, (growth + 42.0) / float(s))
        return sign * best

    high, low = edge(1.0), edge(-1.0)
    total_low = sum(c * (p.first * step + p.offset) for p, c in parts)
    total_high = sum(c * ((p.first + p.mass.size - 1) * step + p.offset) for p, c in parts)
    low, high = max(low, total_low), min(high, total_high)
    width = max(math.ceil((high - low) / step) + 3, max(p.mass.size for p, _ in parts))
    if width > _LARGEST:
        raise TooFine
    size = 1 << (width - 1).bit_length()
    from scipy import fft

    spectrum: NDArray[np.complex128] | None = None
    first, offset, log_norm = 0, 0.0, 0.0
    for part, count in parts:
        x = tilt * part.losses
        top = float(x.max())
        with np.errstate(under="ignore"):
            tilted = part.mass * np.exp(x - top)
        norm = float(tilted.sum())
        piece = fft.rfft(tilted / norm, size) ** count
        spectrum = piece if spectrum is None else spectrum * piece
        first += count * part.first
        offset += count * part.offset
        log_norm += count * (math.log(norm) + top)
    assert spectrum is not None
    mass = np.maximum(fft.irfft(spectrum, size), 0.0)
    total = sum(count for _, count in parts)
    rounding = 4 * float(np.finfo(float).eps) * math.log2(size) * total * float(np.mean(np.abs(spectrum)))
    margin = side * (rounding + 2e-18)  # the second part covers what wraps around the window (see the 42 nats above)
    start = math.floor((low - offset) / step)  # the window of losses that the cycle stands for
    shift = (start - first) % size
    mass = np.roll(mass, -shift)
    losses = np.asarray((start + np.arange(size)) * step + offset, dtype=float)
    infinite = -math.expm1(sum(c * math.log1p(-p.infinite) if p.infinite < 1 else -math.inf for p, c in parts))
    inside = int(np.searchsorted(losses, total_high + step / 2, side="right"))
    return Composed(losses[:inside], mass[:inside], tilt, log_norm, infinite, margin)


def symmetric(pair: Pair) -> bool:
    """Whether the pair and its reverse have the same profile, so that one direction is enough."""
    if isinstance(pair, Atoms):
        return sorted(zip(pair.p, pair.q, strict=True)) == sorted(zip(pair.q, pair.p, strict=True))
    if isinstance(pair, Seen):
        return symmetric(pair.pair)
    return isinstance(pair, (GaussianPair, LaplacePair, BoundedRangePair, SubsampledReplace, Joined))


def _both(
    upper: Sequence[tuple[Pair, int]] | None, lower: Sequence[tuple[Pair, int]], delta: float, step: float, tail: float
) -> tuple[float, float, int]:
    """One grid: lower bound, upper bound, size of the largest transform."""
    low, high, largest = 0.0, math.inf, 0
    for pairs, make, side in ((upper, over, 1.0), (lower, under, -1.0)):
        if not pairs:
            continue
        found = 0.0
        for turn in (False,) if all(symmetric(p) for p, _ in pairs) else (False, True):
            whole = compose([(make(Reversed(p) if turn else p, step, tail), n) for p, n in pairs], delta, side)
            largest = max(largest, whole.mass.size)
            found = max(found, whole.epsilon(delta))
        low, high = (low, found) if side > 0 else (found, high)
    return low, high, largest


def bracket(
    upper: Sequence[tuple[Pair, int]] | None, lower: Sequence[tuple[Pair, int]], delta: float, precision: float = 2e-3
) -> tuple[float, float]:
    """Bounds on the epsilon at ``delta`` > 0 of compositions of pairs, in both directions.

    ``upper``: dominating pairs with their counts (None: no upper bound is asked for, the second number is infinite); ``lower``: pairs
    that neighbours attain jointly. The grid is refined until the bounds agree to ``precision`` or the transform gets large.
    """
    tail = min(_TAIL, delta * 1e-6)
    low, high = 0.0, math.inf if upper else (math.inf if upper is None else 0.0)
    everything = [pair for pair, _ in (*(upper or ()), *lower)]
    if not everything:
        return low, high
    spans = [max(abs(x) for x in pair.reach(1e-9)) for pair in everything]
    counts = [n for _, n in (*(upper or ()), *lower)]
    whole_span = math.sqrt(sum(n * s * s for n, s in zip(counts, spans, strict=True)))
    step = min(whole_span / 1500, min(s for s in spans if s > 0) / 40)
    before = (-1.0, -1.0)
    coarser = 0
    for _ in range(7):
        try:
            found_low, found_high, largest = _both(upper, lower, delta, step, tail)
        except TooFine:
            if before != (-1.0, -1.0) or coarser > 30:
                break
            step, coarser = step * 4, coarser + 1
            continue
        low, high = max(low, found_low), min(high, found_high)
        settled = abs(low - before[0]) <= precision / 4 * low and (math.isinf(high) or abs(high - before[1]) <= precision / 4 * high)
        if largest > 1 << 19 or largest * len(everything) > 1 << 22 or settled or (math.isfinite(high) and high - low <= precision * high):
            break
        before = (low, high)
        if coarser:
            break
        step /= 4
    return low, high


# ------------------------------------------------------------------------------------------------------- one-number tools


def bisect_down(fn: Callable[[float], float], target: float, low: float = 0.0, high: float = 1.0) -> float:
    """The least x >= low at which the falling function ``fn`` is at most ``target``."""
    if fn(low) <= target:
        return low
    while fn(high) > target:
        low, high = high, 2 * high
        if high > 1e15:
            return math.inf
    for _ in range(200):
        mid = (low + high) / 2
        if fn(mid) > target:
            low = mid
        else:
            high = mid
        if high - low <= 1e-13 * high:
            break
    return high


def zcdp_delta(rho: float, epsilon: float) -> float:
    """The least delta of the optimal conversion of rho-zCDP (Canonne, Kamath, Steinke 2020, Proposition 12), rounded up."""
    import flint

    if rho <= 0:
        return 0.0
    before = flint.ctx.prec
    flint.ctx.prec = 160
    try:
        r, e = flint.arb(rho), flint.arb(epsilon)

        def log_delta(a: Any) -> Any:
            return (a - 1) * (a * r - e) + a * (1 - 1 / a).log() - (a - 1).log()

        low, high = flint.arb(1) + flint.arb("1e-20"), flint.arb(max((epsilon + 1) / rho + 2, 4.0))
        share = flint.arb("0.381966011250105151795413165634361882279690820194237")
        for _ in range(240):  # golden section: log_delta is convex in the order, and every order gives a valid delta
            third = ((high - low) * share).mid()
            left, right = (low + third).mid(), (high - third).mid()
            if log_delta(left).mid() < log_delta(right).mid():
                high = right
            else:
                low = left
        top = log_delta(low.mid()).exp().upper()
        near = float(top)
        while near < 1 and not flint.arb(near) >= top:
            near = math.nextafter(near, 2.0)
        return min(near, 1.0)
    finally:
        flint.ctx.prec = before


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The epsilon of the optimal conversion of rho-zCDP at ``delta``."""
    if rho <= 0:
        return 0.0
    if not math.isfinite(rho) or delta <= 0:
        return math.inf
    goal = math.log(1 / delta)

    # epsilon(a) = a rho + (ln(1/delta) + (a-1) ln(1-1/a) - ln a)/(a-1)
    def at(log_gap: float) -> float:
        g = math.exp(log_gap)
        a = 1 + g
        return a * rho + (goal + g * math.log1p(-1 / a) - math.log(a)) / g

    low, high = math.log(1e-4), math.log(1e8)
    for _ in range(200):
        left, right = low + (high - low) * 0.382, high - (high - low) * 0.382
        if at(left) < at(right):
            high = right
        else:
            low = left
    return max(at((low + high) / 2), 0.0)


def renyi(p: Array, q: Array, order: float) -> float:
    """D_order(P || Q) of two mass vectors; infinite when q vanishes where p does not."""
    keep = p > 0
    if np.any(q[keep] <= 0):
        return math.inf
    lp, lq = np.log(p[keep]), np.log(q[keep])
    if abs(order - 1) < 1e-9:
        return float(np.sum(p[keep] * (lp - lq)))
    x = order * lp + (1 - order) * lq
    top = float(x.max())
    return (top + math.log(float(np.exp(x - top).sum()))) / (order - 1)


def quadrature(fn: Callable[[Array], Array], points: Sequence[float], order: int = 64) -> float:
    """Gauss-Legendre on each interval between consecutive ``points``."""
    x, w = np.polynomial.legendre.leggauss(order)
    total = 0.0
    for a, b in itertools.pairwise(points):
        if b > a:
            total += float(np.sum(w * fn((a + b) / 2 + (b - a) / 2 * x))) * (b - a) / 2
    return total


def laplace_cdf(x: Array, scale: float) -> Array:
    z = np.abs(x) / scale
    tail = np.exp(-z) / 2
    return np.where(x < 0, tail, 1 - tail)
