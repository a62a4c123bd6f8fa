"""What one release costs, in the additive measures that filters count: exact integers in units of 2^-80, rounded up.

==============  =====================================================================================================================
measure         of one release
==============  =====================================================================================================================
``epsilon``     the pure sum (sampling amplifies it draw by draw); none where a draw is Gaussian
``rho``         zCDP, sampling ignored
``mu2``         mu^2 of Gaussian DP, sampling ignored
``renyi:A``     the Renyi divergence of order A, sampling included
``delta``       the sum of the deltas of ``approx`` draws: of such a draw no more is known than (epsilon, delta)-DP, so it is an epsilon-DP
                draw that fails with probability delta (Kairouz, Oh, Viswanath 2015: it is a function of that worst one)
==============  =====================================================================================================================

A release with disjoint parts costs, in each measure, what its worst way costs (:func:`dpspec.privacy.schedule.worlds`): each measure is a
statement of its own, and each holds for a record whose part is public.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from dpspec.privacy import accounting
from dpspec.privacy.forms import from_json
from dpspec.privacy.samplers import Neighbours, check_sampler
from dpspec.privacy.schedule import Leaf, Tree, draws, worlds

UNIT = 1 << 80
#: The cost of what has no finite one: far above every limit, and a number all the same, so that it can be taken back.
INFINITE = 1 << 200

#: Units of 2^-80 by measure.
Cost = dict[str, int]


def units(value: Fraction | float) -> int:
    """The least whole number of units that is not below ``value``."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return INFINITE
        value = Fraction(value)
    return min(math.ceil(value * UNIT), INFINITE)


def finite(cost: int) -> bool:
    return cost < INFINITE // 2


def number(cost: int) -> float:
    return cost / UNIT if finite(cost) else math.inf


def added(left: Mapping[str, int], right: Mapping[str, int], sign: int = 1) -> Cost:
    """The sum in every measure of ``left``; with ``sign`` -1 the difference."""
    return {measure: a + sign * right[measure] for measure, a in left.items()}


def cost_of(schedule: Mapping[str, Any], measures: Iterable[str]) -> Cost:
    """The cost of a calibrated schedule (``schedule`` of a plan) in every measure. Raises :class:`~dpspec.privacy.forms.FormError`."""
    return dict(_cost(json.dumps(schedule["tree"], sort_keys=True), str(schedule["relation"]), tuple(sorted(measures))))


@functools.lru_cache(maxsize=512)
def _cost(tree_text: str, relation: str, measures: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    tree, levels, _ = from_json(json.loads(tree_text))
    neighbours: Neighbours = relation  # type: ignore[assignment]
    from dpspec.privacy.calibrate import check_parts

    check_parts(tree)
    for name, leaf in draws(tree).items():
        check_sampler(name, leaf, neighbours)
    ways = [(way, {name: levels[name] for name in draws(way)}) for way in worlds(tree)]
    return tuple((m, max(units(_measured(m, way, own, neighbours)) for way, own in ways)) for m in measures)


def _measured(measure: str, tree: Tree, levels: Mapping[str, float], neighbours: Neighbours) -> Fraction | float:
    found = draws(tree)
    families = {leaf.draw.mechanism.family for leaf in found.values()}
    if measure == "delta":
        failing = [leaf for leaf in found.values() if leaf.draw.mechanism.family == "approx"]
        return sum((leaf.count * Fraction(_delta(leaf)) for leaf in failing), Fraction(0))
    if measure == "epsilon":
        return math.inf if "gaussian" in families else accounting.pure_sum(tree, found, levels)
    if measure == "rho":
        return sum((leaf.count * _rho(leaf, levels[name]) for name, leaf in found.items()), Fraction(0))
    if measure == "mu2":
        return accounting.gdp_sum(found, levels)
    order = Fraction(measure.removeprefix("renyi:"))
    if "approx" in families:  # such a draw stands alone and unsampled: its epsilon part is pure
        from dpspec.privacy.guarantees import Pure, pure_to_renyi

        if families != {"approx"} or any(leaf.sampling is not None for leaf in found.values()):
            return math.inf
        return sum(
            (leaf.count * Fraction(pure_to_renyi(Pure(levels[name]), float(order)).epsilon) for name, leaf in found.items()), Fraction(0)
        )
    from dpspec.ledger.renyi import divergence

    return divergence(tree, levels, neighbours, float(order))


def _rho(leaf: Leaf, level: float) -> Fraction:
    return Fraction(level) ** 2 / 2 if leaf.draw.mechanism.family == "approx" else accounting.draw_rho(leaf, level)


def _delta(leaf: Leaf) -> float:
    return float(leaf.draw.mechanism.delta)  # type: ignore[attr-defined]
