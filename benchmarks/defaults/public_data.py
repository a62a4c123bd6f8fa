"""Laws and grids of the family with public records: predictions of size one, large ones, and an ill-conditioned design."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.defaults.harness import Cell, times

SPEC: Final = """
analysis "defaults: a model with public records"

data
  n = 40_000, d = 5
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 4) by scale
  y in RANGE

privacy nldp
  with public x (m = 10_000)
  epsilon = 4, delta = 1e-6

assume
  centred of x
  sub-gaussian(1) of x

release theta
  estimate theta in MODEL
  by {by}

simulate
  theta = dense unit l2
  x ~ LAW
  y RESPONSE
"""
LAWS: Final = {
    "inside": ("normal(0, I)", "1"),
    "large": ("normal(0, I)", "3"),
    "ill-conditioned": ("normal(0, 0.25*toeplitz(0.8))", "1"),
}
GRID: Final = {"r": times(0.5, 0.75, 1), "moment": ("private", "public"), "root": ("score", "stein")}


def cells() -> Iterator[Cell]:
    for law, (x, size) in LAWS.items():
        glm = SPEC.replace("RANGE", "{0, 1} by map(0 -> 0, 1 -> 1)").replace("MODEL", "y ~ glm(logistic)").replace("LAW", x)
        glm = glm.replace("RESPONSE", f"~ bernoulli(1/(1 + exp(-{size}*<theta, x>)))")
        yield Cell("nldp-glm-public", law, glm, GRID, n=(10_000, 40_000, 160_000), epsilon=(2.0, 4.0, 8.0))
        curve = SPEC.replace("RANGE", "[-1.5, 1.5] by clip").replace("MODEL", f"y = tanh({size}*<theta, x>) + noise").replace("LAW", x)
        curve = curve.replace("RESPONSE", f"= tanh({size}*<theta, x>) + normal(0, 0.01)")
        yield Cell("nldp-nonlinear-regression-public", law, curve, GRID, n=(10_000, 40_000, 160_000), epsilon=(2.0, 4.0, 8.0))


REASONS: dict[tuple[str, str], str] = {}
