"""A known link f of y = f(<theta, x>) + noise, as vectorised functions, and what is checked of its declared slopes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np

from dpspec.algorithms.card import Fault, Need, Problem, Tunable, Tunables
from dpspec.algorithms.sets import Vector
from dpspec.spec.expr import Expr

#: (u, y) -> (f(u) - y)*f'(u), elementwise.
Slope: TypeAlias = Callable[[Vector, Vector], Vector]

MONOTONE: Final = Need("monotone", "utility", "slope_min <= f' <= slope_max with slope_min/slope_max > sqrt(5)/3")
SLOPES: Final = {
    "slope_min": Tunable("slope_min", "declared: the least slope of f", minimum=1e-12),
    "slope_max": Tunable("slope_max", "declared: the greatest slope of f", minimum=1e-12),
}
ETA: Final = Tunable(
    "2/(slope_min^2 + slope_max^2)",
    "000 Theorems 5.3.9 and 5.3.11: within [5/(7 a^2 (1 - D)), 9/(7 b^2 (1 + D))]; the best step for slopes in [a, b]",
    minimum=0.0,
)
FAULTS: Final = (
    Fault(
        "000 Theorems 5.3.9 and 5.3.11: RIP with D <= (9 a^2 - 5 b^2)/14",
        "right for a = b = 1 only: the interval of steps is not empty iff D <= (9 a^2 - 5 b^2)/(9 a^2 + 5 b^2), 0.043 at a = 7, b = 9",
        "tests/algorithms/sparse/test_nonlinear.py::test_the_rip_condition_that_leaves_room_for_a_step",
        "utility",
    ),
    Fault(
        "000 equation (5.81): the loss has no factor 1/2",
        "the step interval belongs to the gradient without the factor 2",
        "docs/faults.md#factor-of-the-square",
        "text",
    ),
)


def slope(p: Problem) -> Slope:
    """The derivative in u of (f(u) - y)^2/2."""
    assert p.task.link is not None
    return _slope(p.task.link, tuple(sorted(p.facts.items())))


@lru_cache(maxsize=64)
def _slope(link: Expr, facts: tuple[tuple[str, float], ...]) -> Slope:
    from dpspec.symbolic.links import link_loss
    from dpspec.symbolic.margin import margin_functions

    return margin_functions(link_loss(link), dict(facts)).derivative


def derivative(p: Problem, u: Vector) -> Vector:
    """f'(u): the slope above is linear in y with coefficient -f'(u)."""
    s = slope(p)
    return s(u, np.zeros_like(u)) - s(u, np.ones_like(u))


def at_zero(p: Problem) -> float:
    """f(0): the public centre of the responses."""
    zero = np.zeros(1)
    return float(slope(p)(zero, zero)[0] / derivative(p, zero)[0])


def refusal(p: Problem, t: Tunables, reach: float) -> str | None:
    """Why the declared slopes cannot be those of the link on [-reach, reach]. Accuracy rests on them, privacy does not."""
    if p.task.form != "nonlinear":
        return "the model has no known non-linear link (`estimate theta in y = f(<theta, x>) + noise`)"
    if t.slope_min > t.slope_max:
        return f"slope_min = {t.slope_min:g} is above slope_max = {t.slope_max:g}"
    found: Any = derivative(p, np.linspace(-reach, reach, 2001))
    if not np.isfinite(found).all() or found.min() < t.slope_min * (1 - 1e-9) or found.max() > t.slope_max * (1 + 1e-9):
        return (
            f"f' takes values from {float(found.min()):.4g} to {float(found.max()):.4g} on [-{reach:.3g}, {reach:.3g}], "
            f"outside the declared [{t.slope_min:g}, {t.slope_max:g}]"
        )
    return None
