"""What may be spent, what a calibration is, and the shares that all calibrations split a budget by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dpspec.privacy import accounting, gaussian
from dpspec.privacy.gaussian import Number, exact
from dpspec.privacy.guarantees import Guarantee, Kind
from dpspec.privacy.samplers import CalibrationError, Neighbours
from dpspec.privacy.schedule import Leaf, Tree, draws


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent: ``epsilon`` alone (pure), ``epsilon`` and ``delta``, ``rho`` (zCDP) or ``mu`` (GDP).

    Numbers are read exactly (``Fraction`` and decimal text stay exact; a float means its binary value). With ``rho`` or ``mu``, a
    ``delta`` may be given to have the implied epsilon reported. Raises :class:`CalibrationError` DP302 for any other combination.
    """

    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    mu: Number | None = None

    def __post_init__(self) -> None:
        named = [n for n in ("epsilon", "rho", "mu") if getattr(self, n) is not None]
        if len(named) != 1:
            raise CalibrationError(
                "DP302",
                "a budget is one of epsilon, rho and mu" + (f", and {' and '.join(named)} were given" if named else ", and none was given"),
                "state epsilon (with or without delta), rho, or mu",
            )
        for name in (*named, "delta"):
            value = getattr(self, name)
            if value is None:
                continue
            try:
                number = exact(value)
            except (ValueError, ZeroDivisionError) as problem:
                raise CalibrationError("DP302", f"{name} = {value!r} is not a number", "give a finite decimal number") from problem
            if name == "delta" and not 0 <= number < 1:
                raise CalibrationError("DP302", f"delta = {value} is outside [0, 1)", "a delta of 1 or more promises nothing")
            if name != "delta" and number <= 0:
                raise CalibrationError(
                    "DP302", f"{name} = {value} is not positive", "nothing can be released at no cost; give a positive budget"
                )

    @property
    def kind(self) -> Kind:
        if self.rho is not None:
            return "zcdp"
        if self.mu is not None:
            return "gdp"
        return "approx" if self.delta is not None and exact(self.delta) > 0 else "pure"

    @property
    def epsilon_exact(self) -> Fraction:
        assert self.epsilon is not None
        return exact(self.epsilon)

    @property
    def delta_exact(self) -> Fraction:
        return Fraction(0) if self.delta is None else exact(self.delta)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A schedule with its levels. ``levels[name]`` is what :meth:`Mechanism.scale` takes; ``guarantee`` is re-derived from the levels
    (never copied from the budget) and is within it."""

    tree: Tree
    levels: Mapping[str, float]
    guarantee: Guarantee
    accountant: str
    neighbours: Neighbours = "replace-one"
    budget: Budget | None = field(default=None, compare=False)
    #: The ways of one record through a schedule with parts, each calibrated; empty where there is one way only.
    ways: tuple[Calibrated, ...] = ()

    def scale(self, name: str) -> float:
        """The noise scale of one draw, in the units of what it releases."""
        return draws(self.tree)[name].draw.mechanism.scale(self.levels[name])

    def events(self) -> dict[str, tuple[Leaf, float]]:
        """Every draw with its level, by name."""
        return {name: (leaf, self.levels[name]) for name, leaf in draws(self.tree).items()}


def shares(found: Mapping[str, Leaf]) -> dict[str, Fraction]:
    """Each draw's exact share of the budget, over all its repetitions; they sum to one."""
    weights = {name: exact(leaf.draw.weight) for name, leaf in found.items()}
    whole = sum(weights.values())
    return {name: weight / whole for name, weight in weights.items()}


def gaussian_levels(found: Mapping[str, Leaf], mu: Fraction) -> tuple[dict[str, float], float]:
    """Levels at which the draws together are ``mu``-GDP, and the mu that they spend, rounded up."""
    share = shares(found)
    levels = {name: accounting.level_for_mu_squared(leaf, mu**2 * share[name] / leaf.count) for name, leaf in found.items()}
    return levels, gaussian.sqrt_up(accounting.gdp_sum(found, levels))
