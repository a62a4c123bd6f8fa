"""Privacy-loss distributions on a grid, rounded up, composed by a tilted Fourier transform.

**Discretisation.** Between two grid losses a < b, the mass that P and Q give to losses in (a, b] is moved to the two ends so that
both masses are kept. This is "connecting the dots" (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022): on the axis e^epsilon the
privacy profile becomes the chord of a convex function, so it never gets smaller, and it is unchanged at the grid points. Losses above
the grid become infinite; losses below it become the lowest grid loss.

**Composition.** For independent losses the T-fold law is a convolution power. The discrete law p is first tilted, p~(l) = p(l)
e^(lam*l)/M(lam), with lam the saddle point of T log M(lam) - lam*epsilon. The tilted sum is centred at epsilon, and

    delta(epsilon) = M(lam)^T e^(-lam*epsilon) * sum over l > epsilon of p~_T(l) e^(-lam(l - epsilon)) (1 - e^(epsilon - l))
                     + infinite mass,

so rounding errors of the transform, which are relative to the largest term, are scaled by about delta itself: a delta of 1e-30
is as accurate as one of 1e-3 (the plain transform has an absolute floor near 1e-15). The grid is circular; mass that would wrap
from above is bounded by Chernoff's inequality and added to delta, mass that wraps from below only adds.

One-sidedness: discretisation, truncation and wrapping all enlarge delta; an explicit bound of the transform's rounding error is
added; the remaining rounding of sums and exponentials, far below a millionth of delta, is covered by the factor ``_SLACK``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from dpspec.privacy.pairs import Array, Pair, above, below, bottom, top

#: How one use reads the records. ``all``: every record. ``remove``/``add``: Poisson, the pair with the record against without it, and the
#: reverse. ``exchange``: a uniform subset, replace-one. ``opposite``: Poisson, replace-one, contributions on opposite sides.
How: TypeAlias = Literal["all", "remove", "add", "exchange", "opposite"]

_SLACK = 1 + 1e-6
_MAX_POINTS, _MANY_POINTS = 1 << 23, 1 << 20
_BEYOND = 40.0  # a loss that is so much above epsilon counts e^-40 less than an infinite one


class TooLong(Exception):
    """The work that a search may take is done."""


class Work:
    """What a search may still compute, counted in grid points and not in seconds, so that the same question has the same answer on every
    machine. A point stands for some 20 nanoseconds."""

    def __init__(self, points: int) -> None:
        self.left = points

    def take(self, points: int) -> None:
        self.left -= points
        if self.left < 0:
            raise TooLong


#: The allowance of the running search; None: unlimited.
WORK: ContextVar[Work | None] = ContextVar("work", default=None)


def _take(points: int) -> None:
    work = WORK.get()
    if work is not None:
        work.take(points)


@dataclass(frozen=True, slots=True)
class Use:
    """``count`` uses of a pair, each on a fresh sample at ``rate``. ``reach`` (``opposite`` only): the largest distance between the
    release with the record and without it, in units of the sensitivity."""

    pair: Pair
    count: int
    how: How = "all"
    rate: float = 1.0
    reach: float = 0.5


@dataclass(frozen=True, slots=True)
class Law:
    """Mass ``mass[i]`` at loss ``(low + i)*step`` under P, and ``infinite`` at infinity. The masses sum to one."""

    step: float
    low: int
    mass: Array
    infinite: float

    @property
    def losses(self) -> Array:
        return _grid(self.low, self.mass.size, self.step)


# ------------------------------------------------------------------------------------------------------ discretisation


def _grid(low: int, points: int, step: float) -> Array:
    return np.arange(low, low + points, dtype=np.float64) * step


def law(use: Use, step: float, tail: float, cap: float = math.inf) -> Law:
    """One use on a grid of pitch ``step``; losses with probability at most ``tail`` in all are rounded to infinity. Where that needs very
    many points, losses above ``cap`` are rounded to infinity as well, and losses below -``cap`` up to it."""
    if use.how == "all":
        lowest, highest = bottom(use.pair, tail), top(use.pair, tail)
    elif use.how == "opposite":
        highest = _opposite_loss(use, use.reach + math.sqrt(2 * math.log(1 / tail)) / use.pair.parameter)
        lowest = -highest
    else:
        rises = _amplify(use.rate, top(use.pair, tail))
        falls = max(math.log1p(-use.rate), _amplify(use.rate, bottom(use.pair, tail)))
        lowest, highest = {"remove": (falls, rises), "add": (-rises, -falls), "exchange": (-rises, rises)}[use.how]
    if (highest - lowest) / step > _MANY_POINTS:
        lowest, highest = max(lowest, -cap), min(highest, cap)
    if (highest - lowest) / step > _MAX_POINTS:
        raise MemoryError("a grid of so many losses is too fine")
    low, high = math.floor(lowest / step) - 1, math.ceil(highest / step) + 1
    if high - low > _MAX_POINTS:
        raise MemoryError(f"a grid of {high - low} losses is too fine")
    _take(16 * (high - low))
    if use.how == "exchange":
        return _symmetric(use, step, high)
    if use.how == "add":  # the same buckets as remove, with the laws exchanged and the sign of the loss turned
        p, q, rest_low, rest_high = _buckets(use, _grid(-high, high - low + 1, step))
        return _split(q[::-1], p[::-1], rest_high[::-1], rest_low[::-1], low, step)
    p, q, rest_low, rest_high = _buckets(use, _grid(low, high - low + 1, step))
    return _split(p, q, rest_low, rest_high, low, step)


def _amplify(rate: float, loss: float) -> float:
    return math.log1p(rate * math.expm1(loss)) if loss < 700 else math.log(rate) + loss


def _buckets(use: Use, edges: Array) -> tuple[Array, Array, Array, Array]:
    """Masses of P and Q in each bucket (edges[i], edges[i + 1]], and the pairs (P, Q) below the first and above the last edge."""
    p_above, q_above, p_below, q_below = _tails(use, edges)
    right = edges[:-1] >= 0
    p = np.where(right, p_above[:-1] - p_above[1:], p_below[1:] - p_below[:-1])
    q = np.where(right, q_above[:-1] - q_above[1:], q_below[1:] - q_below[:-1])
    return np.maximum(p, 0), np.maximum(q, 0), np.array([p_below[0], q_below[0]]), np.array([p_above[-1], q_above[-1]])


def _tails(use: Use, loss: Array) -> tuple[Array, Array, Array, Array]:
    """P and Q above, P and Q below each loss, after sampling."""
    if use.how == "all":
        return (*above(use.pair, loss), *below(use.pair, loss))
    q = use.rate
    if use.how == "opposite":
        from scipy.special import ndtr

        z, r = 1 / use.pair.parameter, use.reach
        x = _opposite_point(use, loss)
        stays = 1 - q
        return (
            stays * ndtr(-x / z) + q * ndtr((r - x) / z),
            stays * ndtr(-x / z) + q * ndtr((-r - x) / z),
            stays * ndtr(x / z) + q * ndtr((x - r) / z),
            stays * ndtr(x / z) + q * ndtr((x + r) / z),
        )
    # loss of the mixture (1 - q)Q + qP against Q is log(1 - q + q e^l), so the mixture's edge is this edge of the base loss
    with np.errstate(divide="ignore", invalid="ignore"):
        base = np.where(loss > math.log1p(-q), np.log1p(np.expm1(np.minimum(loss, 690)) / q), -np.inf)
        base = np.where(loss > 690, loss - math.log(q), base)
    reachable = np.isfinite(base)
    p_above, q_above = (np.where(reachable, t, 1.0) for t in above(use.pair, np.where(reachable, base, 0.0)))
    p_below, q_below = (np.where(reachable, t, 0.0) for t in below(use.pair, np.where(reachable, base, 0.0)))
    return (1 - q) * q_above + q * p_above, q_above, (1 - q) * q_below + q * p_below, q_below


def _opposite_loss(use: Use, x: float) -> float:
    """log of the density ratio of (1 - q)N(0) + qN(r) to (1 - q)N(0) + qN(-r) at x >= 0, scale z."""
    z, r, q = 1 / use.pair.parameter, use.reach, use.rate
    up, down = (r * x - r * r / 2) / z**2, (-r * x - r * r / 2) / z**2
    return _amplify(q, up) - _amplify(q, down)


def _opposite_point(use: Use, loss: Array) -> Array:
    """The x at which :func:`_opposite_loss` equals ``loss``. With t = e^(r x/z^2) and c = e^(-r^2/(2 z^2)) it is the positive root of
    q c t^2 - (1 - q)(E - 1) t - E q c = 0, E = e^loss; the loss is odd in x."""
    z, r, q = 1 / use.pair.parameter, use.reach, use.rate
    size = np.abs(loss)
    log_a = np.log(np.maximum(-np.expm1(-size), 1e-300)) + math.log1p(-q) - math.log(q) + r * r / (2 * z * z)  # (1-q)(E-1)/(E q c)
    # t = E a/2 + sqrt((E a/2)^2 + E): log t = E^(1/2) form, log t = size/2 + asinh(e^(size/2) a/2)
    argument = size / 2 + log_a - math.log(2)
    arcsinh = np.where(argument > 300, argument + math.log(2), np.arcsinh(np.exp(np.minimum(argument, 300))))
    return np.sign(loss) * (size / 2 + arcsinh) * z * z / r


def _split(p: Array, q: Array, rest_low: Array, rest_high: Array, low: int, step: float) -> Law:
    """Each bucket's mass to its two ends, keeping the masses of P and Q."""
    edges = _grid(low, p.size + 1, step)
    with np.errstate(over="ignore", invalid="ignore"):
        up = (p - np.exp(edges[:-1]) * q) / -math.expm1(-step)
    up = np.clip(np.where((q == 0) | ((edges[:-1] > 600) & (q < 1e-290)), p, up), 0.0, p)  # e^600 times few bits is no number
    mass = np.zeros(p.size + 1)
    mass[1:] += up
    mass[:-1] += p - up
    mass[0] += rest_low[0]
    return _trimmed(step, low, mass, float(rest_high[0]))


def _trimmed(step: float, low: int, mass: Array, infinite: float) -> Law:
    held = np.flatnonzero(mass)
    return Law(step, low + int(held[0]), mass[held[0] : held[-1] + 1], infinite) if held.size else Law(step, 0, np.zeros(1), infinite)


def _symmetric(use: Use, step: float, high: int) -> Law:
    """The pair whose profile is that of ``remove`` at and above zero and its mirror image below (Zhu, Dong, Wang 2022, Proposition 30):
    the buckets above zero, the same with the laws exchanged below zero, and the remaining mass of both laws at zero."""
    remove = Use(use.pair, use.count, "remove", use.rate)
    p, q, _, rest = _buckets(remove, _grid(0, high + 1, step))
    mass = np.zeros(2 * high + 1)
    for part in (_split(p, q, np.zeros(2), rest, 0, step), _split(q[::-1], p[::-1], rest[::-1], np.zeros(2), -high, step)):
        mass[high + part.low : high + part.low + part.mass.size] += part.mass
    mass[high] += max(0.0, 1.0 - float(mass.sum()) - float(rest[0]))
    return _trimmed(step, -high, mass, float(rest[0]))


# --------------------------------------------------------------------------------------------------------- composition


@dataclass(frozen=True, slots=True)
class Composition:
    """Independent uses on one grid: ``laws[i]`` taken ``counts[i]`` times."""

    laws: tuple[Law, ...]
    counts: tuple[int, ...]

    @property
    def infinite(self) -> float:
        log_finite = sum(
            k * math.log1p(-one.infinite) if one.infinite < 1 else -math.inf for one, k in zip(self.laws, self.counts, strict=True)
        )
        return max(0.0, -math.expm1(log_finite))

    def cumulant(self, tilt: float) -> tuple[float, float, float]:
        """log of the moment generating function of the sum at ``tilt``, and its two derivatives."""
        value = mean = variance = 0.0
        for one, k in zip(self.laws, self.counts, strict=True):
            losses = one.losses
            _take(losses.size)
            exponent = tilt * losses
            largest = float(exponent.max())
            weight = one.mass * np.exp(exponent - largest)
            total = float(weight.sum())
            first = float((weight * losses).sum()) / total
            value += k * (largest + math.log(total))
            mean += k * first
            variance += k * float((weight * (losses - first) ** 2).sum()) / total
        return value, mean, variance

    def saddle(self, epsilon: float, start: float = 1.0) -> float:
        """The tilt >= 0 that minimises log M - tilt*epsilon (Newton, kept inside a bracket); 0 when the mean is already above epsilon."""
        if self.cumulant(0.0)[1] >= epsilon:
            return 0.0
        low, high, tilt = 0.0, math.inf, start
        for _ in range(100):
            _, mean, variance = self.cumulant(tilt)
            gap = mean - epsilon
            if gap < 0:
                low = tilt
            else:
                high = tilt
            if abs(gap) < 1e-3 * math.sqrt(variance) or high - low < 1e-6 * high:
                break
            nearer = tilt - gap / variance if variance > 0 else math.inf
            if not low < nearer < high:
                nearer = 2 * tilt + 1 if math.isinf(high) else (low + high) / 2
            tilt = min(nearer, 8 * tilt + 1)
            if tilt > 1e9:
                break
        return tilt

    def delta(self, epsilon: float, start: float = 1.0, least: float = 0.0) -> tuple[float, float]:
        """(delta at ``epsilon``, rounded up, and the saddle point). ``start``: where its search begins; ``least``: a probability that
        may be lost at the window's upper end (0: about 1e-10 of delta).

        The sum is right at any tilt, and an upper bound at any tilt. The saddle point is the best one unless the law is so heavy-tailed
        that its far tail rules the tilted law (rare large losses of a sampled mechanism); the value is then far below the saddle-point
        estimate, smaller tilts are tried too, and the least value counts.
        """
        top = sum(k * (one.low + one.mass.size - 1) for one, k in zip(self.laws, self.counts, strict=True)) * self.laws[0].step
        if top <= epsilon:
            return self.infinite, start
        saddle = self.saddle(epsilon, start)
        value, _, variance = self.cumulant(saddle)
        estimate = value - saddle * epsilon - 0.5 * math.log(1 + variance * saddle**2) - 2 * math.log1p(saddle)
        log_lost = min(estimate - 23, math.log(least) if least > 0 else 0.0)
        spread = math.sqrt(variance)
        further = [saddle + j / spread for j in (3, 6, 12)] if spread > 0 else []
        bounds = [(t, self.cumulant(t)[0]) for t in (0.5 * saddle, 0.75 * saddle, saddle, *further) if t > 0]
        room = min(((k - t * epsilon - log_lost) / t for t, k in bounds), default=math.inf)
        room = max(room, 4 * self.laws[0].step, 2 * spread)
        if not math.isfinite(room):  # no tilt helps: the window reaches the greatest loss there is
            room = max(top - epsilon, 4 * self.laws[0].step) + self.laws[0].step
        best = self._at(epsilon, saddle, room, bounds)
        if best < 1e-2 * math.exp(min(estimate, 0.0)):
            for share in (0.75, 0.5, 0.25, 0.0):
                best = min(best, self._at(epsilon, share * saddle, room, bounds))
        return best, saddle

    def _at(self, epsilon: float, tilt: float, room: float, bounds: list[tuple[float, float]]) -> float:
        """delta by the transform at one tilt, on a window that reaches ``room`` above epsilon; ``bounds``: tilts and log moments."""
        import scipy.fft

        step = self.laws[0].step
        value, mean, variance = self.cumulant(tilt)
        log_front = value - tilt * epsilon
        below_by = 9 * math.sqrt(variance) + max(0.0, epsilon - mean) + step
        size = scipy.fft.next_fast_len(int((room + below_by) / step) + 2, real=True)
        if size > _MAX_POINTS:
            raise MemoryError(f"a transform of {size} points is too large")
        _take((4 + 16 * len(self.laws)) * size)
        base = math.floor((epsilon - below_by) / step)  # the grid index that the window starts at
        spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
        shift = 0
        for one, k in zip(self.laws, self.counts, strict=True):
            exponent = tilt * one.losses
            tilted = one.mass * np.exp(exponent - float(exponent.max()))
            tilted /= tilted.sum()
            if tilted.size > size:
                tilted = np.pad(tilted, (0, -tilted.size % size)).reshape(-1, size).sum(axis=0)
            spectrum *= np.power(scipy.fft.rfft(tilted, size), k)
            shift += k * one.low
        summed = np.maximum(scipy.fft.irfft(spectrum, size), 0.0)
        summed = np.roll(summed, (shift - base) % size)
        offset = (base + np.arange(size)) * step - epsilon
        part = offset > 0
        weight = np.exp(-tilt * offset[part]) * -np.expm1(-offset[part])
        uses = sum(self.counts)
        rounding = 16 * np.finfo(float).eps * (uses + math.log2(size)) * math.sqrt(float((weight**2).sum()) * float((summed**2).sum()))
        front = math.exp(min(log_front, 700.0)) if log_front > -745 else 0.0
        total = front * (float((weight * summed[part]).sum()) + rounding)
        end = epsilon + (size * step - below_by) - step
        lost = math.exp(min((k - t * end for t, k in bounds), default=0.0))  # Chernoff's bound, valid at each tilt
        drift = tilt * uses * 2.0**-50  # a rounding of each use, the same in all of them
        slack = _SLACK * (math.exp(min(drift, 700.0)) if drift > 1e-7 else 1.0)
        return min(1.0, (total + min(1.0, lost)) * slack + self.infinite)


def compose(uses: Sequence[Use], step: float, tail: float, epsilon: float = math.inf) -> Composition:
    """The uses on a grid of pitch ``step``; together they lose at most about ``tail`` to the infinite loss. ``epsilon``: where delta will
    be asked for."""
    each = tail / sum(use.count for use in uses)
    cap = epsilon + _BEYOND
    return Composition(tuple(law(use, step, each, cap) for use in uses), tuple(use.count for use in uses))
