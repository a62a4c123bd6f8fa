"""Levels for budgets with a delta, where no single closed form is best."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dpspec.privacy import accounting
from dpspec.privacy.gaussian import float_up
from dpspec.privacy.guarantees import Guarantee, zcdp_epsilon, zcdp_rho
from dpspec.privacy.samplers import Neighbours
from dpspec.privacy.schedule import Leaf, Tree


def search(
    tree: Tree, found: Mapping[str, Leaf], share: Mapping[str, Fraction], epsilon: Fraction, delta: Fraction, neighbours: Neighbours
) -> tuple[dict[str, float], Guarantee, str]:
    rho = Fraction(zcdp_rho(epsilon, delta))
    levels = {name: accounting.level_for_rho(leaf, rho * share[name] / leaf.count) for name, leaf in found.items()}
    spent = accounting.zcdp_sum(found, levels)
    reached = min(zcdp_epsilon(spent, delta), float_up(epsilon))
    return levels, Guarantee("approx", epsilon=reached, delta=float_up(delta), rho=float_up(spent)), "zCDP sum"
