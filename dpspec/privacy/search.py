"""Levels for budgets with a delta, where no single closed form is best."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dpspec.privacy import accounting
from dpspec.privacy.gaussian import float_up
from dpspec.privacy.guarantees import Guarantee, zcdp_epsilon, zcdp_rho
from dpspec.privacy.samplers import Neighbours
from dpspec.privacy.schedule import Leaf


def search(
    found: Mapping[str, Leaf], epsilon: Fraction, delta: Fraction, neighbours: Neighbours
) -> tuple[dict[str, float], Guarantee, str]:
    from dpspec.privacy.calibrate import shares

    share = shares(found)
    rho = Fraction(zcdp_rho(epsilon, delta))
    levels = {name: accounting.level_for_rho(leaf, rho * share[name] / leaf.count) for name, leaf in found.items()}
    spent = accounting.zcdp_sum(found, levels)
    return (
        levels,
        Guarantee("approx", epsilon=min(zcdp_epsilon(spent, delta), float_up(epsilon)), delta=float_up(delta), rho=float_up(spent)),
        "zCDP sum",
    )
