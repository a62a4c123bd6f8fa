"""Privacy-loss distributions on a grid, rounded up: upper bounds on compositions. Lower bounds are in :mod:`dpspec.audit.lower`.

A pair of output distributions (P, Q) is known through the tails of its log-likelihood ratio. The mass between two points of a grid of
losses is split between them so that the masses under P and under Q are both kept. The result dominates (P, Q) (Doroshenko, Ghazi, Kamath,
Kumar, Manurangsi 2022, "Connect the dots"). Compositions are cyclic convolutions of exponentially tilted masses, which keeps relative
accuracy in the far tail that a small delta lives in. The rounding error of the transforms is estimated from their spectrum and added.

The planner's accountant (:mod:`dpspec.privacy.pld`) is not used: plans are audited here, and a fault of one must not hide in the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpspec.audit.lower import epsilon_at_least
from dpspec.audit.pairs import Array, Pair, Reversed, symmetric


@dataclass(frozen=True, slots=True)
class Masses:
    """P-mass ``mass[i]`` at loss ``(first + i)*step``, and ``infinite`` at +inf."""

    step: float
    first: int
    mass: Array
    infinite: float

    @property
    def losses(self) -> Array:
        return np.asarray((self.first + np.arange(self.mass.size)) * self.step, dtype=float)


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

    ``margin``: estimated rounding error of one entry of ``mass``, to be added.
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


def _tilt(solid: Sequence[tuple[Array, Array, int]], goal: float, spread: float) -> tuple[float, float, float]:
    """The tilt for a question about a delta of exp(-``goal``), and the losses between which the tilted sum lies but for e^-42."""
    ladder = np.geomspace(1e-3 / max(spread, 1e-12), 4e2 / max(spread, 1e-12), 60)
    ladder = ladder[ladder < 600 / max(spread, 1e-12)]
    # the smallest tilt that is nearly best: a stronger one buries the smaller losses in the rounding of the transform
    bounds = [(_log_moment(solid, float(t)) + goal) / float(t) for t in ladder]
    tilt = float(next(t for t, b in zip(ladder, bounds, strict=True) if b <= min(bounds) + 0.05 * abs(min(bounds))))
    base = _log_moment(solid, tilt)

    def edge(sign: float) -> float:
        return sign * min((_log_moment(solid, tilt + sign * float(s)) - base + 42.0) / float(s) for s in ladder)

    return tilt, edge(-1.0), edge(1.0)


def compose(parts: Sequence[tuple[Masses, int]], delta: float) -> Composed:
    """The composition of independent ``parts`` (each ``count`` times), tilted for a question about ``delta``.

    The rounding error of the transform is added.
    """
    from scipy import fft

    step = parts[0][0].step
    solid = [(p.losses[p.mass > 0], p.mass[p.mass > 0], n) for p, n in parts]
    if any(mass.size == 0 for _, mass, _ in solid):  # some part has all its mass at infinity
        return Composed(np.array([0.0]), np.array([0.0]), 0.0, 0.0, 1.0, 0.0)
    spread = max(max(abs(float(p.losses[0])), abs(float(p.losses[-1]))) for p, _ in parts)
    tilt, low, high = _tilt(solid, math.log(1 / max(delta, 1e-300)), spread)
    total_low = sum(c * p.first * step for p, c in parts)
    total_high = sum(c * (p.first + p.mass.size - 1) * step for p, c in parts)
    low, high = max(low, total_low), min(high, total_high)
    width = max(math.ceil((high - low) / step) + 3, max(p.mass.size for p, _ in parts))
    if width > _LARGEST:
        raise TooFine
    size = 1 << (width - 1).bit_length()
    spectrum: NDArray[np.complex128] | None = None
    first, log_norm = 0, 0.0
    for part, count in parts:
        x = tilt * part.losses
        top = float(x.max())
        with np.errstate(under="ignore"):
            tilted = part.mass * np.exp(x - top)
        norm = float(tilted.sum())
        piece = fft.rfft(tilted / norm, size) ** count
        spectrum = piece if spectrum is None else spectrum * piece
        first += count * part.first
        log_norm += count * (math.log(norm) + top)
    assert spectrum is not None
    mass = np.maximum(fft.irfft(spectrum, size), 0.0)
    total = sum(count for _, count in parts)
    rounding = 4 * float(np.finfo(float).eps) * math.log2(size) * total * float(np.mean(np.abs(spectrum)))
    margin = rounding + 2e-18  # the second part covers what wraps around the window (see the 42 nats above)
    start = math.floor(low / step)  # the window of losses that the cycle stands for
    mass = np.roll(mass, -((start - first) % size))
    losses = np.asarray((start + np.arange(size)) * step, dtype=float)
    infinite = -math.expm1(sum(c * math.log1p(-p.infinite) if p.infinite < 1 else -math.inf for p, c in parts))
    inside = int(np.searchsorted(losses, total_high + step / 2, side="right"))
    return Composed(losses[:inside], mass[:inside], tilt, log_norm, infinite, margin)


def _once(parts: Sequence[tuple[Pair, int]], delta: float, step: float, tail: float) -> tuple[float, int]:
    """One grid: upper bound, size of the largest transform."""
    high, largest = 0.0, 0
    for turn in (False,) if all(symmetric(p) for p, _ in parts) else (False, True):
        whole = compose([(over(Reversed(p) if turn and not symmetric(p) else p, step, tail), n) for p, n in parts], delta)
        largest = max(largest, whole.mass.size)
        high = max(high, whole.epsilon(delta))
    return high, largest


def at_most(parts: Sequence[tuple[Pair, int]], delta: float, low: float = 0.0, precision: float = 2e-3) -> float:
    """An epsilon that holds at ``delta`` > 0 for the composition of dominating pairs with their counts, in both directions.

    The grid is refined until the answer is within ``precision`` of ``low``, settles, or the transform is large. Infinite: no grid fits.
    """
    if not parts:
        return 0.0
    tail = min(_TAIL, delta * 1e-6)
    spans = [max(abs(x) for x in pair.reach(1e-9)) for pair, _ in parts]
    whole_span = math.sqrt(sum(n * s * s for (_, n), s in zip(parts, spans, strict=True)))
    step = min(whole_span / 1500, min(s for s in spans if s > 0) / 40)
    high, before, coarser = math.inf, math.inf, 0
    for _ in range(7):
        try:
            found, largest = _once(parts, delta, step, tail)
        except TooFine:
            if math.isfinite(before) or coarser > 30:
                break
            step, coarser = step * 4, coarser + 1
            continue
        high = min(high, found)
        settled = math.isinf(high) or abs(high - before) <= precision / 4 * high
        if largest > 1 << 19 or largest * len(parts) > 1 << 22 or settled or high - low <= precision * high or coarser:
            break
        before = high
        step /= 4
    return high


def bracket(
    upper: Sequence[tuple[Pair, int]] | None, lower: Sequence[tuple[Pair, int]], delta: float, precision: float = 2e-3
) -> tuple[float, float]:
    """Bounds on the epsilon at ``delta`` > 0 of compositions of pairs, in both directions.

    ``upper``: dominating pairs with their counts (None: no upper bound is asked for, the second number is infinite); ``lower``: pairs
    that neighbours attain jointly.
    """
    low = epsilon_at_least(lower, delta)
    return low, math.inf if upper is None else at_most(upper, delta, low, precision)


def delta_at_most(parts: Sequence[tuple[Pair, int]], epsilon: float) -> float:
    """A delta that suffices at ``epsilon`` for the composition of dominating pairs, in both directions."""
    step = max(max(abs(x) for x in pair.reach(1e-9)) for pair, _ in parts) / 4000
    value = 0.0
    for turn in (False, True):
        masses = [(over(Reversed(p) if turn and not symmetric(p) else p, step), n) for p, n in parts]
        shown = compose(masses, 0.3).delta(epsilon)
        if shown < 1e-8:  # far in the tail: once more, tilted for it
            shown = compose(masses, max(shown, 1e-14)).delta(epsilon)
        value = max(value, shown)
    return min(value, 1.0)
