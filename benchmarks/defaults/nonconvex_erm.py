"""Laws and grids of losses that are not convex: sigmoid labels, robust regression with outliers, a start at a saddle point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.defaults.harness import Cell, times

SPEC: Final = """
analysis "defaults: losses that are not convex"

data
  n = 4000, d = 4
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {y}

privacy central
  epsilon = 1, delta = 1e-6

release weights
  minimise {loss} over {over}
  by {by}
  expect {measure} <= 10

simulate
  theta = dense unit l2
  x ~ {x}
  y {law}
"""
#: Loss, labels, law of x, law of y.
LAWS: Final = {
    "sigmoid labels": ("1/(1 + exp(y*<w, x>))", "{-1, 1} by map(0 -> -1, 1 -> 1)", "uniform-sphere", "~ bernoulli-logistic(6*<theta, x>)"),
    "outliers": ("biweight(1)", "[-4, 4] by clip", "uniform-ball", "= <theta, x> + normal(0, 0.1) + 4*bernoulli(0.1)"),
    "saddle": ("biweight(1/2)", "[-1, 1] by clip", "uniform-sphere", "= rademacher*<theta, x>"),
}
#: Algorithm: set, measure, grid.
GRIDS: Final = {
    "dp-pgd-nonconvex": ("R^d", "gradient-norm", {"eta": times(0.5, 1), "T": times(0.3, 1), "output": ("random", "last")}),
    "rrpsgd": ("R^d", "gradient-norm", {"eta": times(0.5, 1, 2), "b": times(0.5, 1)}),
    "dp-gld": ("R^d", "gradient-norm", {"beta": times(0.3, 1, 3), "output": ("last", "random")}),
    "dp-gd-sosp": ("R^d", "second-order-stationarity", {"T": times(0.3, 1), "share": times(0.3, 1, 3)}),
    "dp-tr": ("R^d", "second-order-stationarity", {"T": times(0.25, 1, 3), "alpha": times(0.3, 1, 3)}),
    "dp-str": ("R^d", "second-order-stationarity", {"b": times(0.5, 1, 2), "alpha": times(0.3, 1, 3)}),
    "dp-fw-l2": ("ball(l2, 2)", "frank-wolfe-gap", {"T": times(0.3, 1, 3), "gamma": times(0.3, 1, 3)}),
    "dp-fw-l1": ("ball(l1, 2)", "frank-wolfe-gap", {"T": times(0.3, 1), "gamma": times(0.3, 1, 3)}),
    "dp-pmd-nonconvex": ("ball(l1, 2)", "mirror-mapping-norm", {"T": times(0.3, 1), "pace": times(0.3, 1)}),
    "dp-gd-so": ("ball(l2, 2)", "frank-wolfe-gap", {"alpha": times(0.1, 0.3, 1), "T": times(0.3, 1, 3)}),
    "exponential-mechanism-net": ("ball(l2, 1)", "excess-empirical-risk", {"alpha": times(0.3, 1, 3)}),
}
#: At a saddle point gradients and gaps are 0: there the risk says whether it was left.
SADDLE: Final = "excess-empirical-risk"


_STALL = (
    "The start is a saddle point, stationary (norm 0.001): what is measured is the noise, and a setting that goes nowhere has least of it; "
    "whether the saddle was left is said by the risk."
)
_SHORT: Final = (
    "T is what the bound needs for a second-order point at its alpha, and steps are no longer than sqrt(alpha/rho): the saddle is left (the "
    "trivial risk is 0.012), but the way to the minimum takes three times as many shorter steps, which second-order points pay for."
)
REASONS: Final = {
    ("dp-tr", "saddle, by risk"): _SHORT,
    ("dp-str", "saddle, by risk"): _SHORT,
    ("dp-pgd-nonconvex", "saddle"): _STALL,
    ("dp-fw-l1", "saddle"): "Every choice moves by a vertex of the ball. " + _STALL,
    ("dp-fw-l2", "saddle"): _STALL,
    ("dp-tr", "saddle"): _STALL,
}


def cells() -> Iterator[Cell]:
    for name, (loss, y, x, law) in LAWS.items():
        for algorithm, (over, own, grid) in GRIDS.items():
            # a net of few dimensions, and a pure choice
            net = algorithm == "exponential-mechanism-net"
            base = SPEC.replace("n = 4000, d = 4", "n = 2000, d = 2").replace(", delta = 1e-6", "") if net else SPEC
            for measure in dict.fromkeys((own, SADDLE) if name == "saddle" else (own,)):
                text = base
                for word, value in {"loss": loss, "y": y, "x": x, "law": law, "over": over, "measure": measure}.items():
                    text = text.replace("{" + word + "}", value)
                yield Cell(algorithm, name if measure == own else f"{name}, by risk", text, grid, trials=4)
