"""What levels of mixed, sampled or pure schedules spend, by privacy-loss distributions: the curves, and their roots.

See :mod:`dpspec.privacy.search` for the pitch of the grids and what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING

from dpspec.privacy import accounting, gaussian
from dpspec.privacy.accounting import Block, blocks, draw_epsilon
from dpspec.privacy.gaussian import float_up
from dpspec.privacy.guarantees import zcdp_epsilon
from dpspec.privacy.samplers import CalibrationError, Neighbours, removal
from dpspec.privacy.schedule import Leaf, Tree

if TYPE_CHECKING:
    from dpspec.privacy.pairs import Pair
    from dpspec.privacy.pld import Use

_COARSE, _FINE = 0.02, 5e-4
_FINER = 3  # times that a grid may be made four times as fine
_LOST = 1e-6  # share of delta that truncation may spend
_POINTS = 500_000_000  # grid points that one search may compute: some seconds; a usual one takes a hundredth


# ------------------------------------------------------------------------------------------------- from a tree to pairs


def uses(tree: Tree, found: Mapping[str, Leaf], levels: Mapping[str, float], neighbours: Neighbours) -> tuple[tuple[Use, ...], ...]:
    """The schedule as uses of dominating pairs: one list, or two (record present against absent, and the reverse) where Poisson sampling
    makes the two directions differ. Full-batch Gaussian draws are merged into one exactly."""
    from dpspec.privacy.pld import Use

    plain = Fraction(0)  # mu^2 of the full-batch Gaussian draws
    directions: tuple[list[Use], list[Use]] = ([], [])
    for block in blocks(tree):
        if block.sampling is None:
            ((name, times),) = block.times.items()
            leaf, count = found[name], block.count * times
            if leaf.draw.mechanism.family == "gaussian":
                plain += count / Fraction(levels[name]) ** 2
                continue
            for direction in directions:
                direction.append(Use(_pair(found, levels, {name: 1}), count))
            continue
        rate = math.nextafter(float(block.sampling.rate), 1.0)
        pair = _pair(found, levels, block.times)
        if block.sampling.method == "poisson" and neighbours != "replace-one":
            directions[0].append(Use(pair, block.count, "remove", rate))
            directions[1].append(Use(pair, block.count, "add", rate))
            continue
        reach = _reach(found, levels, block) if block.sampling.method == "poisson" else 1.0
        for direction in directions:
            direction.append(Use(pair, block.count, "opposite" if reach <= 0.5 else "exchange", rate, reach))
    if plain:
        from dpspec.privacy.pairs import Pair

        for direction in directions:
            direction.append(Use(Pair("gaussian", gaussian.sqrt_up(plain)), 1))
    first, second = (tuple(d) for d in directions)
    return (first,) if first == second else (first, second)


def _pair(found: Mapping[str, Leaf], levels: Mapping[str, float], times: Mapping[str, int]) -> Pair:
    """One dominating pair for the draws from one sample together: exact for Gaussian draws alone and for one draw alone."""
    from dpspec.privacy.pairs import Pair

    families = {found[name].draw.mechanism.family for name in times}
    if families == {"gaussian"}:
        return Pair("gaussian", gaussian.sqrt_up(sum((k / Fraction(levels[n]) ** 2 for n, k in times.items()), Fraction(0))))
    if "gaussian" not in families:
        total = float_up(sum((k * draw_epsilon(found[n], levels[n]) for n, k in times.items()), Fraction(0)))
        (family, *others) = families
        assert family != "approx", "calibration lets such a draw stand alone only"
        return Pair(family if not others and sum(times.values()) == 1 else "pure", total)
    squared = Fraction(0)
    for name, k in times.items():
        if found[name].draw.mechanism.family == "gaussian":
            squared += k / Fraction(levels[name]) ** 2
        else:
            squared += k * accounting.pure_mu(draw_epsilon(found[name], levels[name])) ** 2
    return Pair("gaussian", gaussian.sqrt_up(squared))


def _reach(found: Mapping[str, Leaf], levels: Mapping[str, float], block: Block) -> float:
    """Poisson sampling under replace-one. Let the release move by u when the sampled record is left out and by v when its replacement is
    (in units of noise): the laws are (1 - q)N(0) + qN(u) and (1 - q)N(0) + qN(v).

    When |u|, |v| <= r mu, with mu the bound on |u - v|, opposite directions u = -v are worst. Under N(0) the two likelihood ratios are
    exp of jointly Gaussian variables, the hockey-stick divergence is the mean of a convex function of q e^a - alpha q e^b, so its
    mixed second derivative in (a, b) is negative, and by Price's theorem it falls in the covariance <u, v>; on a line it rises in |u| and
    |v|, since raising them raises P and lowers Q on the half-lines that are the optimal tests. With r <= 1/2 that pair is used
    (and 2 r <= 1 keeps |u - v| within its bound); otherwise any three laws at distance at most mu are bounded by ``exchange``.
    """
    total = reached = 0.0
    for name, k in block.times.items():
        leaf = found[name]
        share = removal(leaf)
        if leaf.draw.mechanism.family != "gaussian" or share is None or share > 0.5:
            return 1.0
        part = k / levels[name] ** 2
        total += part
        reached += part * share**2
    return min(0.5, math.sqrt(reached / total) * (1 + 1e-12))


# --------------------------------------------------------------------------------------------------------------- curves


def pitch(direction: tuple[Use, ...], epsilon: float, tilt: float, error: float) -> float:
    """The grid pitch at which discretisation multiplies delta by about 1 + ``error`` at ``tilt`` (see the module's text)."""
    count = sum(use.count for use in direction)
    step = math.sqrt(12 * error / (tilt * (tilt + 1) * count))
    kinds = {(use.pair.kind, use.pair.parameter, use.how) for use in direction}
    ((kind, parameter, how),) = kinds if len(kinds) == 1 else (("", 0.0, ""),)
    if kind == "pure" and how == "all":
        return parameter  # both atoms on the grid: exactly the optimal composition of Kairouz, Oh, Viswanath
    if kind == "laplace" and how == "all":
        return parameter / max(10, math.ceil(parameter / step))
    step = min(step, max(0.1 * _spread(direction), epsilon / (1000 * math.sqrt(count))))
    # losses far below the pitch (rare sampling) add pitch*|loss| in place of pitch^2/6, and |loss| is about the rate in the mean
    often = sum(use.count * use.rate for use in direction)
    rare = min(error / (tilt * (tilt + 1) * often), math.sqrt(12 * error / (tilt * (tilt + 1))), epsilon / 100)
    return rare if rare > 4 * step else step


def delta_of(
    parts: tuple[tuple[Use, ...], ...], epsilon: float, delta: float, error: float = _FINE, tilt: float = 0.0, start: float = 0.0
) -> tuple[float, float]:
    """(delta spent at ``epsilon``, rounded up; the tilt found). ``delta``: the size to expect, which sets what truncation may lose.
    ``tilt``: the size to expect of the tilt, which sets the pitch; ``start``: where its search begins (0: unknown)."""
    # the tilt is e^epsilon*Q(L > epsilon)/delta, so at most 1/delta
    usual = max(1.0, min(math.log(1 / delta) / epsilon, 1 / delta)) if epsilon > 0 else 1.0
    reference = min(max(tilt, 0.1 * usual), 4 * usual) if tilt > 0 else usual
    worst, last = 0.0, start or reference
    for direction in parts:
        value, found = _spent(direction, epsilon, delta, pitch(direction, epsilon, reference, error), min(start or reference, 4 * usual))
        if value >= worst:
            worst, last = value, found
    return worst, last


def _spent(direction: tuple[Use, ...], epsilon: float, delta: float, step: float, start: float) -> tuple[float, float]:
    from dpspec.privacy import pld

    for _ in range(6):
        try:
            return pld.compose(direction, step, _LOST * delta, epsilon).delta(epsilon, start, _LOST * delta)
        except MemoryError:  # a coarser grid is as safe, and needs more noise
            step *= 2
    raise CalibrationError("DP308", "no grid of a bearable size holds the losses of this schedule", "raise epsilon or use more noise")


def _spread(direction: tuple[Use, ...]) -> float:
    """The root mean square of the loss of one use, roughly; it keeps the pitch sane where the tilt is near zero."""
    total = count = 0.0
    for use in direction:
        mu = use.pair.parameter
        small = use.rate * math.sqrt(math.expm1(min(mu * mu, 4.0))) if use.how != "all" else mu
        total += use.count * small**2
        count += use.count
    return math.sqrt(total / count)


@contextmanager
def allowance() -> Iterator[None]:
    from dpspec.privacy import pld

    token = pld.WORK.set(pld.Work(_POINTS))
    try:
        yield
    finally:
        pld.WORK.reset(token)


def epsilon_spent(tree: Tree, levels: Mapping[str, float], delta: Fraction, neighbours: Neighbours, near: float | None = None) -> float:
    """The epsilon that given levels spend at ``delta``, rounded up: the best valid accountant. ``near``: where the search may begin."""
    from dpspec.privacy.schedule import draws

    found = draws(tree)
    best = zcdp_epsilon(accounting.zcdp_sum(found, levels), delta)
    families = {leaf.draw.mechanism.family for leaf in found.values()}
    if families == {"gaussian"} and not any(accounting.is_sampled(leaf) for leaf in found.values()):
        return gaussian.epsilon_of(gaussian.sqrt_up(accounting.gdp_sum(found, levels)), delta)
    if "gaussian" not in families:
        best = min(best, float_up(accounting.pure_sum(tree, found, levels)))
    parts = uses(tree, found, levels, neighbours)
    excess = excess_of(lambda x: (parts, math.exp(-x)), float(delta))
    with allowance():
        root = root_of(excess, -math.log(near or best or 1.0), lumped(tree, found))
    return best if root is None else min(best, math.exp(-root) * (1 + 1e-12))


# --------------------------------------------------------------------------------------------------------------- search


def excess_of(at: Callable[[float], tuple[tuple[tuple[Use, ...], ...], float]], delta: float) -> Callable[[float, float], float]:
    """log of delta spent over ``delta``, as a function of x and the grid's error; ``at(x)`` gives the uses and epsilon.

    The pitch stays the same within a stage (it follows the tilt at the end of the coarse one), so that the function is smooth.
    """
    target = math.log(delta)
    tilts = {_COARSE: 0.0}
    last = 0.0

    def excess(x: float, error: float) -> float:
        nonlocal last
        parts, epsilon = at(x)
        value, last = delta_of(parts, epsilon, delta, error, tilts.setdefault(error, last), last)
        return math.log(value) - target if value > 0 else -800.0

    return excess


def lumped(tree: Tree, found: Mapping[str, Leaf]) -> bool:
    """Whether a loss with an atom meets others: then delta may fall steeply in epsilon near the atom, and the pitch for smooth laws may be
    too coarse there."""
    kinds = {(leaf.draw.mechanism.family, accounting.is_sampled(leaf)) for leaf in found.values()}
    return len(kinds) > 1 and any(family != "gaussian" and not sampled for family, sampled in kinds)


def root_of(excess: Callable[[float, float], float], start: float, checked: bool = False) -> float | None:
    """The largest x, within 1e-5, that is shown to have excess(x, error) <= 0 on the fine grid; the excess rises in x.

    ``checked``: whether the fine grid is fine is looked at by one of a quarter of its pitch; where that shows more than 1 % less delta, the
    search goes on there, and so on.
    """
    from dpspec.privacy.pld import TooLong

    x, error = _root(excess, start, _COARSE, _FINE), _FINE
    for _ in range(_FINER if checked and x is not None else 0):
        assert x is not None
        try:
            if excess(x, error / 16) > -0.01:
                break
        except (TooLong, CalibrationError):
            break
        error /= 16
        better = _root(excess, x, error, error)
        x = x if better is None else max(x, better)
    return x


def _root(excess: Callable[[float, float], float], start: float, first: float, last: float) -> float | None:
    """Secant steps inside a bracket that is widened as needed, on the coarse grid and then on the fine one. None when no x is found. When
    the allowance of work ends first, the largest x that any grid has shown (a coarse grid shows as truly, and asks for more noise).
    """
    from dpspec.privacy.pld import TooLong

    x, fine, size = start, first == last, 0.05 if first != last else 1e-4
    coarse = None
    low, high = -math.inf, math.inf  # safe, unsafe
    at_low = at_high = 0.0
    best = None
    for turn in range(100):
        try:
            value = excess(x, last if fine else first)
        except (TooLong, CalibrationError):
            return best if best is not None else coarse
        if value <= 0:
            low, at_low = x, value
            best, coarse = (x, coarse) if fine else (best, x if coarse is None else max(coarse, x))
        else:
            high, at_high = x, value
        if math.isfinite(low) and math.isfinite(high):
            width = high - low
            if width <= (1e-5 if fine else 2e-3):
                if fine:
                    return low
                fine, x, low, high, size = True, low, -math.inf, math.inf, 1e-4
                continue
            slope = (at_high - at_low) / width
            guess = low - at_low / slope if slope > 0 else (low + high) / 2
            margin = min(0.25 * width, 2e-6 if fine else 5e-4)
            guess += -margin if turn % 2 else margin
            if not low + 0.01 * width <= guess <= high - 0.01 * width or turn > 40:
                guess = (low + high) / 2
            x = guess
        else:
            x, size = (low + size if math.isfinite(low) else high - size), 3 * size
            if abs(x) > 200:
                break
    return best
