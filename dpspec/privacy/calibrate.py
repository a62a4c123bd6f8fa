"""From a budget and an event tree to noise levels.

The tree says what is released and how sensitive it is; :func:`calibrate` finds the levels: noise/sensitivity of a Gaussian or Laplace
draw, epsilon of a pure or bounded-range draw. A draw of weight w gets w over the sum of the weights of the whole budget, for all its
repetitions together: its share of mu^2 (GDP), of rho (zCDP, and every budget with a delta that is not all-Gaussian) or of epsilon
(pure). All accounting is of normalised pairs (sensitivity 1), so the neighbouring relation enters through the sensitivities of
the tree and through the samplers, and nowhere else.

==================  ====================================  =============================================================
budget              schedule                              accountant
==================  ====================================  =============================================================
epsilon             pure, laplace, bounded-range          exact sum (amplified draw by draw when sampled)
epsilon, delta      all Gaussian, no sampling             Gaussian DP, exact
epsilon, delta      pure, no sampling                     best of pure sum, optimal composition, zCDP, PLD
epsilon, delta      mixed or sampled                      PLD
rho                 any (sampling gives nothing)          zCDP sum
mu                  any (sampling gives nothing)          Gaussian DP sum
==================  ====================================  =============================================================

A schedule with parts (``Parallel``) is calibrated once for each way of a record through them (:func:`dpspec.privacy.schedule.worlds`), each
way having the whole budget; a draw that stands on several ways has the most noise that one of them asks for. More noise never costs more,
so every way keeps within the budget, and the guarantee of the whole is the worst of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence as Sequence_
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from dpspec.privacy import accounting, gaussian
from dpspec.privacy.calibrated import Budget as Budget
from dpspec.privacy.calibrated import Calibrated as Calibrated
from dpspec.privacy.calibrated import gaussian_levels, shares
from dpspec.privacy.gaussian import exact, float_up
from dpspec.privacy.guarantees import Guarantee, worst, zcdp_epsilon
from dpspec.privacy.samplers import CalibrationError, Neighbours, check_sampler
from dpspec.privacy.schedule import (
    Disjoint,
    Draw,
    Leaf,
    Parallel,
    Repeat,
    Sampled,
    Sequence,
    TooManyWorlds,
    Tree,
    draws,
    has_parts,
    worlds,
)


def calibrate(tree: Tree, budget: Budget, *, neighbours: Neighbours = "replace-one") -> Calibrated:
    """The least noise that keeps ``tree`` within ``budget``, split by the weights of the draws.

    ``neighbours`` is the relation under which the sensitivities of the tree were computed; it matters for samplers only. Raises
    :class:`CalibrationError`: DP301 (a pure budget and a Gaussian draw), DP306 (a sampler that the relation does not go with),
    DP308 (no accountant reads this schedule). The result's guarantee never exceeds the budget.
    """
    check_parts(tree)
    if has_parts(tree):
        return _in_parts(tree, budget, neighbours)
    found = draws(tree)
    if not found:
        raise CalibrationError("DP308", "the schedule releases nothing", "a plan needs at least one draw")
    for name, leaf in found.items():
        if not leaf.draw.weight > 0:
            raise CalibrationError("DP308", f"draw {name!r} has weight {leaf.draw.weight}", "weights are positive shares of the budget")
        if leaf.count < 1:
            raise CalibrationError("DP308", f"draw {name!r} happens {leaf.count} times", "repeat at least once")
    if any(leaf.draw.mechanism.family == "approx" for leaf in found.values()):
        levels, guarantee, accountant = _alone(found, budget)
        _drawable(found, levels)
        return Calibrated(tree, MappingProxyType(levels), guarantee, accountant, neighbours, budget)
    match budget.kind:
        case "pure":
            levels, guarantee, accountant = _pure(tree, found, budget, neighbours)
        case "zcdp":
            levels, guarantee, accountant = _zcdp(found, budget)
        case "gdp":
            levels, guarantee, accountant = _gdp(found, budget)
        case _:
            levels, guarantee, accountant = _approx(tree, found, budget, neighbours)
    _drawable(found, levels)
    return Calibrated(tree, MappingProxyType(levels), guarantee, accountant, neighbours, budget)


def _drawable(found: Mapping[str, Leaf], levels: Mapping[str, float]) -> None:
    """Whether the secure source can draw what the levels ask for: a run must not be the first to find out."""
    from dpspec.privacy.noise import grid_exponent, grid_steps

    for name, leaf in found.items():
        mechanism = leaf.draw.mechanism
        try:
            scale = mechanism.scale(levels[name])
            if scale <= 0 or math.isinf(scale):
                raise ValueError(f"the noise scale would be {scale:.3g}")
            if mechanism.norm in ("l1", "l2") and mechanism.family in ("gaussian", "laplace") and "discrete" not in mechanism.kind:
                spread = math.sqrt(mechanism.size) if mechanism.family == "gaussian" else float(mechanism.size)
                grid_steps(scale, grid_exponent(scale, mechanism.sensitivity, spread))
        except (ValueError, ArithmeticError) as problem:
            raise CalibrationError(
                "DP308",
                f"draw {name!r} cannot be drawn at level {levels[name]:.3g}: {problem}",
                "raise epsilon or delta, release or repeat less, or bound the records so that the sensitivity is a usual number",
            ) from problem


_Result: TypeAlias = tuple[dict[str, float], Guarantee, str]


def _alone(found: Mapping[str, Leaf], budget: Budget) -> _Result:
    """The only draw of a schedule, of a mechanism for which one pair (epsilon, delta) is proved."""
    name, leaf = next((n, x) for n, x in found.items() if x.draw.mechanism.family == "approx")
    kind = leaf.draw.mechanism.kind
    if budget.kind != "approx":
        raise CalibrationError(
            "DP301",
            f"draw {name!r} ({kind}) gives one pair (epsilon, delta) and the budget is not one",
            "state epsilon and a delta below 1/n",
        )
    if len(found) > 1 or leaf.count > 1 or accounting.is_sampled(leaf):
        raise CalibrationError(
            "DP308",
            f"draw {name!r} ({kind}) gives one pair (epsilon, delta) and composes with no other draw",
            "release it alone, or use other noise",
        )
    if exact(leaf.draw.mechanism.delta) > budget.delta_exact:  # type: ignore[attr-defined]
        raise CalibrationError("DP308", f"draw {name!r} was made for a larger delta than the budget's", "make it for the budget's delta")
    level = gaussian.float_down(budget.epsilon_exact)
    return (
        {name: level},
        Guarantee("approx", epsilon=level, delta=float_up(budget.delta_exact)),
        getattr(leaf.draw.mechanism, "accountant", "Wishart tail"),
    )


# ------------------------------------------------------------------------------------------------------------- parts


def check_parts(tree: Tree, sampled: bool = False) -> None:
    """Raises :class:`CalibrationError` DP308 for parts inside a sample: which part a sampled record falls into then depends on who else
    was drawn, and under a fixed size on the record that takes its place."""
    match tree:
        case Draw():
            return
        case Sequence(parts=parts):
            for part in parts:
                check_parts(part, sampled)
        case Parallel(parts=parts):
            if sampled and len(parts) > 1:
                raise CalibrationError("DP308", "a sample is cut into parts, and no accountant reads that", "sample inside each part")
            for part in parts:
                check_parts(part, sampled)
        case Disjoint(body=body, count=count):
            if sampled and count > 1:
                raise CalibrationError("DP308", "a sample is cut into parts, and no accountant reads that", "sample inside each part")
            check_parts(body, sampled)
        case Sampled(body=body, rate=rate):
            check_parts(body, sampled or rate < 1)
        case Repeat(body=body):
            check_parts(body, sampled)


def _in_parts(tree: Tree, budget: Budget, neighbours: Neighbours) -> Calibrated:
    draws(tree)  # names are unique
    try:
        ways = [calibrate(world, budget, neighbours=neighbours) for world in worlds(tree)]
    except TooManyWorlds as problem:
        raise CalibrationError("DP308", str(problem), "fewer parts, or one body repeated in each part") from problem
    levels: dict[str, float] = {}
    for way in ways:
        for name, (leaf, level) in way.events().items():
            louder = max if leaf.draw.mechanism.family in ("gaussian", "laplace") else min
            levels[name] = louder(levels.get(name, level), level)
    return beside(tree, [_at(way, levels, budget) for way in ways], budget)


def _at(way: Calibrated, levels: Mapping[str, float], budget: Budget) -> Calibrated:
    """The same way at levels of at least its own noise, with what they spend."""
    found = draws(way.tree)
    own = {name: levels[name] for name in found}
    if own == dict(way.levels):
        return way
    g, delta = way.guarantee, budget.delta_exact
    match way.accountant:
        case "pure sum":
            g = Guarantee(g.kind, epsilon=float_up(accounting.pure_sum(way.tree, found, own)), delta=g.delta)
        case "zCDP sum":
            spent = accounting.zcdp_sum(found, own)
            epsilon = zcdp_epsilon(spent, delta) if delta > 0 else None
            g = Guarantee(g.kind, epsilon=epsilon, delta=g.delta, rho=float_up(spent))
        case "Gaussian DP":
            mu = gaussian.sqrt_up(accounting.gdp_sum(found, own))
            g = Guarantee(g.kind, epsilon=gaussian.epsilon_of(mu, delta) if delta > 0 else None, delta=g.delta, mu=mu)
        case _:
            from dpspec.privacy.spent import epsilon_spent

            epsilon = min(epsilon_spent(way.tree, own, delta, way.neighbours, g.epsilon), g.epsilon or math.inf)
            g = Guarantee(g.kind, epsilon=epsilon, delta=g.delta)
    return replace(way, levels=MappingProxyType(own), guarantee=g)


def beside(tree: Tree, ways: Sequence_[Calibrated], budget: Budget | None = None) -> Calibrated:
    """One calibration for the schedule ``tree`` whose ways of one record are ``ways``: their levels, and the worst of their guarantees."""
    levels = {name: level for way in ways for name, level in way.levels.items()}
    accountants = ", ".join(dict.fromkeys(way.accountant for way in ways))
    several = accountants if "," not in accountants else f"the worst of the parts by {accountants}"
    whole = worst([way.guarantee for way in ways])
    return Calibrated(tree, MappingProxyType(levels), whole, several, ways[0].neighbours, budget, tuple(ways))


# ------------------------------------------------------------------------------------------------------------ pure sum


def _pure(tree: Tree, found: Mapping[str, Leaf], budget: Budget, neighbours: Neighbours) -> _Result:
    for name, leaf in found.items():
        if leaf.draw.mechanism.family == "gaussian":
            raise CalibrationError(
                "DP301",
                f"draw {name!r} adds Gaussian noise, which gives no pure guarantee at any scale, and the budget has no delta",
                "state a delta (below 1/n), a rho or a mu, or use an algorithm with Laplace noise or a pure channel",
            )
        check_sampler(name, leaf, neighbours)
    levels = accounting.pure_levels(tree, found, budget.epsilon_exact, shares(found))
    spent = accounting.pure_sum(tree, found, levels)
    return levels, Guarantee("pure", epsilon=float_up(spent), delta=0.0), "pure sum"


# ------------------------------------------------------------------------------------------------- zCDP and Gaussian DP


def _zcdp(found: Mapping[str, Leaf], budget: Budget) -> _Result:
    assert budget.rho is not None
    rho = exact(budget.rho)
    share = shares(found)
    levels = {name: accounting.level_for_rho(leaf, rho * share[name] / leaf.count) for name, leaf in found.items()}
    spent = accounting.zcdp_sum(found, levels)
    delta = budget.delta_exact
    epsilon = zcdp_epsilon(spent, delta) if delta > 0 else None
    return levels, Guarantee("zcdp", epsilon=epsilon, delta=float_up(delta) if delta > 0 else None, rho=float_up(spent)), "zCDP sum"


def _gdp(found: Mapping[str, Leaf], budget: Budget) -> _Result:
    assert budget.mu is not None
    levels, spent = gaussian_levels(found, exact(budget.mu))
    delta = budget.delta_exact
    epsilon = gaussian.epsilon_of(spent, delta) if delta > 0 else None
    return levels, Guarantee("gdp", epsilon=epsilon, delta=float_up(delta) if delta > 0 else None, mu=spent), "Gaussian DP"


# -------------------------------------------------------------------------------------------------------- with a delta


def _approx(tree: Tree, found: Mapping[str, Leaf], budget: Budget, neighbours: Neighbours) -> _Result:
    epsilon, delta = budget.epsilon_exact, budget.delta_exact
    families = {leaf.draw.mechanism.family for leaf in found.values()}
    if families == {"gaussian"} and not any(accounting.is_sampled(leaf) for leaf in found.values()):
        levels, mu = gaussian_levels(found, exact(gaussian.mu_of(epsilon, delta)))
        spent = gaussian.epsilon_of(mu, delta)
        return levels, Guarantee("approx", epsilon=spent, delta=float_up(delta), mu=mu), "Gaussian DP"
    for name, leaf in found.items():
        check_sampler(name, leaf, neighbours)
    from dpspec.privacy import search

    return search.search(tree, found, shares(found), epsilon, delta, neighbours)
