"""The total of many releases at a delta, by both accountants: tight, and valid where the plans were fixed in advance.

Gaussian draws on all records are one Gaussian DP statement, equal uses are counted, everything else is composed as privacy-loss
distributions (Zhu, Dong, Wang 2022, Theorem 10: pairs that dominate each step dominate the composition, if they were chosen beforehand). An
(epsilon, delta) draw fails with probability delta and is an epsilon-DP draw otherwise. A release with disjoint parts enters by the
pointwise greatest profile of its ways: it is convex, so it is the profile of a pair, which dominates the release whatever part a record
lies in (Zhu et al. 2022, Proposition 8), and its distribution on the grid comes from its chords (:mod:`dpspec.privacy.pld`: connecting the
dots).

This total admits nothing: for a choice of plans that looks at earlier results it is no guarantee, and filters are
(:mod:`dpspec.ledger.limits`).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias

from dpspec.privacy import gaussian
from dpspec.privacy.forms import from_json
from dpspec.privacy.gaussian import float_up, sqrt_up
from dpspec.privacy.pairs import Pair
from dpspec.privacy.pld import Composition, How, Law, Use, law
from dpspec.privacy.samplers import Neighbours
from dpspec.privacy.schedule import Disjoint, Draw, Leaf, Parallel, Repeat, Sampled, Sequence, Tree, draws, worlds

_ERROR = 5e-5  # of delta, by the pitch of the grid
_LOST = 1e-6
_FLOOR = 1e-15  # the rounding of a profile's second differences, as a failure of each such release

Key: TypeAlias = tuple[Pair, How, float, float]


@dataclass
class Kinds:
    """The uses of one direction: how often each kind, ``ways`` of releases with parts (each way as counted kinds), and the sum of mu^2."""

    plain: Fraction = Fraction(0)
    uses: Counter[Key] = field(default_factory=Counter)
    ways: Counter[tuple[tuple[tuple[Key, int], ...], ...]] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Total:
    """``epsilon`` at ``delta`` by the first accountant, rounded up; ``second`` by dp_accounting, None where it does not read a release;
    ``releases``: how many."""

    epsilon: float
    delta: float
    releases: int
    second: float | None = None


def total(schedules: Iterable[tuple[Mapping[str, Any], int]], delta: Fraction, *, check: bool = True) -> Total:
    """The total of (schedule, how often) at ``delta``. All are under one relation."""
    found = [(_read(schedule), times) for schedule, times in schedules]
    releases = sum(times for _, times in found)
    if not found:
        return Total(0.0, float(delta), 0, 0.0)
    (neighbours,) = {relation for (_, _, relation), _ in found}
    trees = [(tree, levels, times) for (tree, levels, _), times in found]
    epsilon = epsilon_of(trees, delta, neighbours)
    second = _second(trees, float(delta), neighbours, epsilon) if check and math.isfinite(epsilon) else None
    return Total(epsilon, float_up(delta), releases, second)


def counted(schedules: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int]]:
    """Equal schedules together."""
    found: dict[str, tuple[Mapping[str, Any], int]] = {}
    for schedule in schedules:
        key = json.dumps([schedule["tree"], schedule["relation"]], sort_keys=True)
        found[key] = (schedule, found.get(key, (schedule, 0))[1] + 1)
    return list(found.values())


def _read(schedule: Mapping[str, Any]) -> tuple[Tree, dict[str, float], Neighbours]:
    tree, levels, _ = from_json(schedule["tree"])
    return tree, levels, schedule["relation"]


# --------------------------------------------------------------------------------------------------------- the first accountant


def epsilon_of(trees: list[tuple[Tree, dict[str, float], int]], delta: Fraction, neighbours: Neighbours) -> float:
    """The least epsilon at ``delta`` that is shown, infinite where none is."""
    pure = _pure(trees)
    failing = _failing(trees)
    if delta <= failing:
        return pure if failing == 0 and delta == 0 else math.inf
    rest = (delta - failing) / (1 - failing)
    directions = _gather(trees, neighbours)
    return min(pure if failing == 0 else math.inf, max(_of_direction(kinds, rest) for kinds in directions))


def _pure(trees: list[tuple[Tree, dict[str, float], int]]) -> float:
    from dpspec.ledger.costs import UNIT, units
    from dpspec.privacy.accounting import pure_sum

    sum_ = 0
    for tree, levels, times in trees:
        ways = [draws(way) for way in worlds(tree)]
        if any(leaf.draw.mechanism.family in ("gaussian", "approx") for way in ways for leaf in way.values()):
            return math.inf
        worst = max(pure_sum(way, found, {n: levels[n] for n in found}) for way, found in zip(worlds(tree), ways, strict=True))
        sum_ += times * units(worst)
    return float_up(Fraction(sum_, UNIT))


def _failing(trees: list[tuple[Tree, dict[str, float], int]]) -> Fraction:
    """The probability, at most, that an (epsilon, delta) draw fails: 1 - prod(1 - delta), or the sum where there are many."""
    total_ = Fraction(0)
    for tree, _, times in trees:
        each = max(sum((x.count * _own_delta(x) for x in draws(way).values()), Fraction(0)) for way in worlds(tree))
        total_ += times * each
    return total_


def _own_delta(leaf: Leaf) -> Fraction:
    stated: Any = leaf.draw.mechanism
    return Fraction(float(stated.delta)) if leaf.draw.mechanism.family == "approx" else Fraction(0)


def _gather(trees: list[tuple[Tree, dict[str, float], int]], neighbours: Neighbours) -> list[Kinds]:
    directions = [Kinds(), Kinds()]
    for tree, levels, times in trees:
        ways = worlds(tree)
        each = [_uses(way, {n: levels[n] for n in draws(way)}, neighbours) for way in ways]
        for i, kinds in enumerate(directions):
            here = [parts[min(i, len(parts) - 1)] for parts in each]
            alike = {_alone(part) for part in here}
            if len(here) == 1 or None not in alike:
                use = here[0] if len(here) == 1 else (max((p[0] for p in here), key=lambda u: u.pair.parameter),)
                for one in use:
                    if one.pair.kind == "gaussian" and one.how == "all":
                        kinds.plain += times * one.count * Fraction(one.pair.parameter) ** 2
                    else:
                        kinds.uses[_key(one)] += times * one.count
            else:
                kinds.ways[tuple(sorted((tuple((_key(u), u.count) for u in part) for part in here), key=repr))] += times
    return directions[:1] if directions[0] == directions[1] else directions


def _alone(part: tuple[Use, ...]) -> str | None:
    """``gaussian`` where a way is one Gaussian statement: of several such the largest mu dominates."""
    return "gaussian" if len(part) == 1 and part[0].pair.kind == "gaussian" and part[0].how == "all" else None


def _key(use: Use) -> Key:
    return use.pair, use.how, use.rate, use.reach


def _use(key: Key, count: int) -> Use:
    pair, how, rate, reach = key
    return Use(pair, count, how, rate, reach)


def _uses(tree: Tree, levels: dict[str, float], neighbours: Neighbours) -> tuple[tuple[Use, ...], ...]:
    from dpspec.privacy.spent import uses

    found = draws(tree)
    if any(leaf.draw.mechanism.family == "approx" for leaf in found.values()):  # alone and unsampled: what does not fail is pure
        return (tuple(Use(Pair("pure", levels[name]), leaf.count) for name, leaf in found.items()),)
    return uses(tree, found, levels, neighbours)


def _of_direction(kinds: Kinds, delta: Fraction) -> float:
    mu = sqrt_up(kinds.plain) if kinds.plain else 0.0
    if not kinds.uses and not kinds.ways:
        return gaussian.epsilon_of(mu, delta) if mu else 0.0
    near = _rough(kinds, mu, delta)
    best = math.inf
    for _ in range(4):
        composition = _composed(kinds, mu, near, delta)
        best = min(best, _root(composition, near, delta))
        if 0.7 * near <= best <= 1.4 * near:
            break
        near = best if math.isfinite(best) else 4 * near
    return best * (1 + 1e-12)


def _delta(composition: Composition, epsilon: float, tilt: float, least: float) -> tuple[float, float]:
    """delta at ``epsilon`` and a tilt; of one use alone without a transform, whose window would cost a few percent of its few points."""
    import numpy as np

    if composition.counts != (1,):
        return composition.delta(epsilon, tilt, least)
    (one,) = composition.laws
    over = one.losses - epsilon
    part = over > 0
    return float(one.mass[part] @ -np.expm1(-over[part])) * (1 + 1e-9) + one.infinite, tilt


def _root(composition: Composition, near: float, delta: Fraction) -> float:
    """The least epsilon, within 1e-6 of it, that is shown to spend ``delta``; infinite where none is found. Secants inside a bracket, on
    the logarithm of delta."""
    target, goal = math.log(float(delta)), float(delta)
    tilt = max(1.0, -target / near)
    low, high = (0.0, math.inf), (math.inf, 0.0)  # (epsilon, log of delta over the goal): too little, enough
    epsilon = near
    for turn in range(60):
        value, tilt = _delta(composition, epsilon, tilt, _LOST * goal)
        gap = (math.log(value) if value > 0 else -800.0) - target
        if value <= goal:
            high = (epsilon, gap)
        else:
            low = (epsilon, gap)
        if high[0] - low[0] <= 1e-6 * high[0]:
            break
        if math.isinf(high[0]):
            epsilon = min(max(epsilon + 1.1 * gap / max(tilt, 0.1), 1.001 * epsilon), 3 * epsilon)
        elif low[0] == 0.0:
            epsilon = max(epsilon + 1.1 * gap / max(tilt, 0.1), epsilon / 3)
            if high[0] < 1e-12:
                break
        elif turn % 4 == 3 or not math.isfinite(low[1]):
            epsilon = (low[0] + high[0]) / 2
        else:
            share = low[1] / (low[1] - high[1])
            epsilon = low[0] + (high[0] - low[0]) * min(max(share + (1e-4 if turn % 2 else -1e-4), 1e-3), 1 - 1e-3)
    return high[0]


def _rough(kinds: Kinds, mu: float, delta: Fraction) -> float:
    """About the epsilon of the Gaussian with the same variance of the loss; no guarantee rests on it."""
    squared = mu**2
    counted_: Counter[Key] = Counter(kinds.uses)
    for ways, times in kinds.ways.items():
        for key, count in ways[0]:
            counted_[key] += count * times
    for (pair, how, rate, _), count in counted_.items():
        size = math.expm1(min(pair.parameter**2, 4.0)) if pair.kind == "gaussian" else min(pair.parameter**2, 100.0)
        squared += count * size * (rate**2 if how != "all" else 1.0)
    return max(gaussian.epsilon_of(math.sqrt(squared), delta), 1e-6)


def _composed(kinds: Kinds, mu: float, epsilon: float, delta: Fraction) -> Composition:
    from dpspec.privacy.spent import pitch

    uses = [_use(key, count) for key, count in kinds.uses.items()]
    if mu:
        uses.append(Use(Pair("gaussian", mu), 1))
    inside = list(kinds.ways.items())
    flat = uses + [_use(key, n * times) for ways, times in inside for key, n in ways[0]]
    tilt = max(1.0, min(-math.log(float(delta)) / epsilon, 1 / float(delta)))
    step = pitch(tuple(flat), epsilon, tilt, _ERROR)
    curved = [use.pair.parameter for use in flat if use.pair.kind in ("laplace", "bounded-range") and use.how == "all"]
    if curved:  # the rule of the pitch is for many uses; of one, chords on few points are seen
        step /= max(1, math.ceil(400 * step / max(curved)))
    tail = _LOST * float(delta) / sum(use.count for use in flat)
    laws = [law(use, step, tail, epsilon + 40.0) for use in uses]
    counts = [use.count for use in uses]
    for ways, times in inside:
        laws.append(_envelope(ways, step, tail, epsilon))
        counts.append(times)
    return Composition(tuple(laws), tuple(counts))


def _envelope(ways: tuple[tuple[tuple[Key, int], ...], ...], step: float, tail: float, epsilon: float) -> Law:
    """The law on the grid of the greatest profile of the ways of a release with parts."""
    import numpy as np

    composed = [_power([(law(_use(key, 1), step, tail, epsilon + 40.0), times) for key, times in way]) for way in ways]
    low = min(one.low for one in composed) - 1
    high = max(one.low + one.mass.size for one in composed)
    grid = np.arange(low, high + 1, dtype=np.float64) * step
    each = np.array([_profile(one, low, high, step) for one in composed])
    best = np.argmax(each + 1e-15 * np.arange(len(composed))[::-1, None], axis=0)  # rounding does not choose between equal ones
    profile = np.take_along_axis(each, best[None, :], axis=0)[0]
    infinite = float(profile[-1])
    # on the axis e^loss a profile is piecewise linear; its slope is minus Q(L > .), and P has e^loss times the mass of Q. Where one way is
    # the greatest on both sides, that is its own mass; where they change places, the difference of the slopes
    slopes = np.diff(profile) / (np.exp(grid[:-1]) * math.expm1(step))
    kinks = np.maximum(np.diff(np.concatenate([[-1.0], slopes, [0.0]])), 0.0) * np.exp(grid)
    padded = np.zeros_like(each)
    for row, one in zip(padded, composed, strict=True):
        row[one.low - low : one.low - low + one.mass.size] = one.mass
    own = np.take_along_axis(padded, best[None, :], axis=0)[0]
    changes = np.concatenate([[True], best[1:] != best[:-1]]) | np.concatenate([best[1:] != best[:-1], [True]])
    mass = np.where(changes, kinks, own)
    lost = max(0.0, 1.0 - infinite - float(mass.sum())) + _FLOOR
    return Law(step, low, mass, min(1.0, infinite + lost))


def _profile(one: Law, low: int, high: int, step: float) -> Any:
    """delta at each grid loss low..high: sum over greater losses of p (1 - e^(x - loss))."""
    import numpy as np

    p = np.zeros(high - low + 1)
    p[one.low - low : one.low - low + one.mass.size] = one.mass
    above = np.concatenate([np.cumsum(p[::-1])[::-1][1:], [0.0]])
    back = np.zeros(high - low + 1)  # sum over greater losses of p e^(x - loss)
    decay = math.exp(-step)
    running = 0.0
    for i in range(high - low - 1, -1, -1):
        running = (running + p[i + 1]) * decay
        back[i] = running
    return np.maximum(above - back, 0.0) + one.infinite


def _power(parts: list[tuple[Law, int]]) -> Law:
    """The law of a way: the convolution of its uses."""
    import numpy as np
    from scipy.signal import fftconvolve

    low, mass, finite = 0, np.ones(1), 1.0
    for one, times in parts:
        for _ in range(times):
            low, finite = low + one.low, finite * (1 - one.infinite)
            mass = np.maximum(fftconvolve(mass, one.mass), 0.0) if mass.size > 1 else mass * one.mass
    missing = max(0.0, finite - float(mass.sum()))
    return Law(parts[0][0].step, low, mass, min(1.0, 1 - finite + missing + _FLOOR))


# -------------------------------------------------------------------------------------------------------- the second accountant


def _second(trees: list[tuple[Tree, dict[str, float], int]], delta: float, neighbours: Neighbours, near: float) -> float | None:
    """dp_accounting's epsilon of all together. Of a release with parts its first way enters, which may be less than the worst one; draws
    that fail take their deltas away first."""
    from dpspec.privacy.second import AccountingMismatch, pld_epsilon

    failing = float(_failing(trees))
    if delta - failing < 1e-10 or near <= 0:
        return None
    parts: list[Tree] = []
    all_levels: dict[str, float] = {}
    for i, (tree, levels, times) in enumerate(trees):
        way = worlds(tree)[0]
        parts.append(Repeat(_renamed(way, f"{i}."), times))
        all_levels |= {f"{i}.{name}": levels[name] for name in draws(way)}
    try:
        return pld_epsilon(Sequence(tuple(parts)), all_levels, near, (delta - failing) / (1 - failing), neighbours)
    except (AccountingMismatch, ArithmeticError, ValueError, MemoryError):
        return None


@dataclass(frozen=True)
class _Pure:
    """What an (epsilon, delta) draw is where it does not fail."""

    family: str = "pure"


def _renamed(tree: Tree, prefix: str) -> Tree:
    match tree:
        case Draw(name=name, mechanism=mechanism):
            pure: Any = _Pure() if mechanism.family == "approx" else mechanism
            return replace(tree, name=prefix + name, mechanism=pure)
        case Sequence(parts=parts):
            return Sequence(tuple(_renamed(p, prefix) for p in parts))
        case Parallel(parts=parts):
            return Parallel(tuple(_renamed(p, prefix) for p in parts))
        case Repeat() | Disjoint() | Sampled():
            return replace(tree, body=_renamed(tree.body, prefix))
