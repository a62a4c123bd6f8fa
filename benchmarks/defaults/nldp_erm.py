"""Laws and grids of the one-report family: an optimum inside, on the boundary of what is declared, and a lopsided or skew design."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.defaults.harness import Cell, Times, times

Grid = Mapping[str, Sequence[Times | float | str]]

LOSS: Final = """
analysis "defaults: a convex loss in the local model"

data
  n = 20_000, d = 3
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(-1 -> -1, 1 -> 1)

privacy MODEL
  epsilon = 4, delta = 1e-6

release weights
  minimise LOSS over SET
  by {by}
  expect excess-population-risk <= 10

simulate
  theta = dense unit l2
LAW
"""
CLASSES: Final = {
    "inside": "  x ~ sphere\n  y ~ bernoulli-logistic(1.5*<theta, x>)",
    "boundary": "  x ~ sphere\n  y ~ bernoulli-logistic(8*<theta, x>)",
    "ill-conditioned": "  x ~ normal(0, 0.3*toeplitz(0.9))\n  y ~ bernoulli-logistic(3*<theta, x>)",
}
#: Algorithm, loss, set, model, grid.
LOSSES: Final[tuple[tuple[str, str, str, str, Grid], ...]] = (
    ("interactive-ldp-sgd", "logistic", "ball(l2, 2)", "sldp", {"eta": times(0.25, 1, 4, 16), "T": times(0.1, 1)}),
    ("ldp-sgll", "logistic", "ball(l2, 2)", "nldp", {"degree": ("1", "2", "3"), "T": times(0.1, 1)}),
    (
        "general-linear-ldp",
        "logistic",
        "ball(l2, 2)",
        "nldp",
        {"degree": ("1", "2", "3"), "T": times(0.1, 1), "server": ("average", "sigm")},
    ),
    ("hinge-loss-ldp", "smooth-hinge(0.25, 0.5)", "ball(l2, 2)", "nldp", {"degree": ("1", "2", "3"), "server": ("average", "sigm")}),
)
GRIDS: Final = ("local-bernstein", "local-bernstein-1bit")

MEAN: Final = """
analysis "defaults: a mean in the local model"

data
  n = 20_000, d = 8
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale

privacy nldp
  epsilon = 1

release centre
  estimate mean(x) over ball(l2, 1)
  by {by}

simulate
LAW
"""
MEANS: Final = {
    "inside": "  x ~ uniform-ball",
    "boundary": "  x = 1/2 + normal(0, 0.1)",
    "lopsided": "  x ~ exponential(10)",
}

TABLES: Final = """
analysis "defaults: tables in the local model"

data
  n = 20_000, d = 6
  from memory
  private, unit person, neighbours replace-one
  x in {0, 1} by map(0 -> 0, 1 -> 1)

privacy nldp
  epsilon = EPSILON

release tables
  answer marginals(2)
  by {by}

simulate
  x = bernoulli(P)
"""


def filled(text: str, **words: Any) -> str:
    for word, value in words.items():
        text = text.replace(word, str(value))
    return text


def cells() -> Iterator[Cell]:
    for algorithm, loss, over, model, grid in LOSSES:
        for law, lines in CLASSES.items():
            spec = filled(LOSS, MODEL=model, LOSS=loss, SET=over, LAW=lines)
            yield Cell(algorithm, law, spec, grid, trials=4, n=(5000, 20_000, 80_000), epsilon=(2.0, 4.0, 8.0))
    for algorithm in GRIDS:
        for law, lines in CLASSES.items():
            spec = filled(LOSS, MODEL="nldp", LOSS="logistic", SET="box(-2, 2)", LAW=lines).replace("d = 3", "d = 2")
            spec = spec.replace("epsilon = 4, delta = 1e-6", "epsilon = 4").replace("population", "empirical")
            yield Cell(algorithm, law, spec, {"k": ("1", "2", "3", "6"), "h": ("1", "2", "4")}, trials=4)
    for law, lines in MEANS.items():
        channels = ("sampled-coordinate", "priv-unit", "hemisphere", "laplace")
        yield Cell("ldp-mean", law, filled(MEAN, LAW=lines), {"channel": channels}, n=(5000, 20_000, 80_000), epsilon=(0.5, 1.0, 2.0))
    for law, epsilon, p in (("even", 1, 0.5), ("rare", 1, 0.05), ("large budget", 6, 0.3)):
        spec = filled(TABLES, EPSILON=epsilon, P=p)
        yield Cell("marginals-fourier-ldp", law, spec, {"method": ("parities", "cells")}, n=(5000, 20_000, 80_000))


REASONS: dict[tuple[str, str], str] = {
    ("local-bernstein-1bit", "inside"): (
        "the plan knows the second derivative of the loss alone, for which order 2 at degree 3 has the least bias; "
        "order 4 at degree 2 is better for a loss as smooth as the logistic one"
    ),
    ("local-bernstein-1bit", "boundary"): (
        "the minimum lies in a corner of the box, where a degree less leaves noise fewer false minima; without noise the excess of the "
        "default is 0.0004 there (degree 3, order 2) and 0.0002 at degree 2, order 4"
    ),
}
