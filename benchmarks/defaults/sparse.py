"""Laws and grids of the sparse family: an optimum inside, on the boundary of what is declared, and an ill-conditioned design."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.defaults.harness import Cell, times

LOGISTIC: Final = """
analysis "defaults: sparse logistic regression"

data
  n = 20_000, d = 20
  k = 3
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1/n^1.1

assume
  sparse(k)

release weights
  minimise log(1 + exp(-y*<w, x>)) + 1/1000*|w|^2 over sparse(k)
  by {by}

simulate
  theta = sparse(3) unit l2
{law}
"""
LAWS: Final = {
    "inside": "  x ~ uniform-ball\n  y ~ bernoulli-logistic(6*<theta, x>)",
    "boundary": "  x ~ uniform-sphere\n  y ~ bernoulli-logistic(30*<theta, x>)",
    "ill-conditioned": "  x ~ normal(0, 0.02*toeplitz(0.9))\n  y ~ bernoulli-logistic(8*<theta, x>)",
}


def cells() -> Iterator[Cell]:
    for name, law in LAWS.items():
        spec = LOGISTIC.replace("{law}", law).replace("{{", "{").replace("}}", "}")
        yield Cell(
            "dp-iht",
            name,
            spec,
            {"eta": times(1, 4, 16), "T": times(0.25, 1, 4), "kept": ("3", "6")},
            n=(5000, 20_000, 80_000),
            epsilon=(0.5, 1.0, 2.0),
        )
