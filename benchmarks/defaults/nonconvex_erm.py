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
    "dp-tr": ("R^d", "second-order-stationarity", {"T": times(0.25, 1), "alpha": times(0.3, 1, 3)}),
    "dp-str": ("R^d", "second-order-stationarity", {"b": times(0.5, 1, 2), "alpha": times(0.3, 1, 3)}),
    "dp-fw-l2": ("ball(l2, 2)", "frank-wolfe-gap", {"T": times(0.3, 1), "gamma": times(0.3, 1, 3)}),
    "dp-fw-l1": ("ball(l1, 2)", "frank-wolfe-gap", {"T": times(0.3, 1), "gamma": times(0.3, 1, 3)}),
}


def cells() -> Iterator[Cell]:
    for name, (loss, y, x, law) in LAWS.items():
        for algorithm, (over, measure, grid) in GRIDS.items():
            text = SPEC
            for word, value in {"loss": loss, "y": y, "x": x, "law": law, "over": over, "measure": measure}.items():
                text = text.replace("{" + word + "}", value)
            yield Cell(algorithm, name, text, grid, trials=4)
