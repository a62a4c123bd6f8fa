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
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

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
REGRESSION: Final = """
analysis "defaults: sparse regression"

data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours replace-one

privacy central
  epsilon = 1, delta = 1/n^1.1

assume
  sparse(3)
{assume}

release theta
  estimate theta in y = <theta, x> + noise
  by {by}

simulate
  theta = {theta}
{law}
"""
GAUSSIAN: Final = {
    "inside": ("0.5*sparse(3) unit l2", "  x ~ normal(0, I)\n  y = <theta, x> + normal(0, 0.25)", "[1, 1]", 0.8),
    "boundary": ("sparse(3) unit l2", "  x ~ normal(0, I)\n  y = <theta, x> + normal(0, 1)", "[1, 1]", 1.5),
    "ill-conditioned": ("sparse(3) unit l2", "  x ~ normal(0, toeplitz(0.6))\n  y = <theta, x> + normal(0, 0.09)", "[0.25, 4]", 1.5),
}
HEAVY: Final = {
    "inside": ("0.5*sparse(3) unit l2", "  x ~ student-t(6)\n  y = <theta, x> + student-t(5)/4", "[1.4, 1.6]"),
    "boundary": ("sparse(3) unit l2", "  x ~ student-t(6)\n  y = <theta, x> + student-t(5)", "[1.4, 1.6]"),
    "ill-conditioned": ("sparse(3) unit l2", "  x ~ normal(0, toeplitz(0.6))\n  y = <theta, x> + student-t(5)/4", "[0.25, 4]"),
}

ROBUST: Final = """
analysis "defaults: sparse logistic regression with heavy tails"

data
  n = 20_000, d = 20
  k = 3
  from memory
  private, unit person, neighbours replace-one
  x in ball(linf, {radius}) by clip
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1/n^1.1

assume
  sparse(k)
  moment(order 2, bound {moment}) of gradient

release weights
  minimise log(1 + exp(-y*<w, x>)) + 1/50*|w|^2 over sparse(k)
  by {by}

simulate
  theta = sparse(3) unit l2
{law}
"""
TAILS: Final = {
    "inside": ("2", "1", "  x ~ uniform-cube\n  y ~ bernoulli-logistic(<theta, x>)"),
    "boundary": ("1", "1", "  x ~ uniform-cube\n  y ~ bernoulli-logistic(10*<theta, x>)"),
    "ill-conditioned": ("10", "2", "  x ~ normal(0, toeplitz(0.8))\n  y ~ bernoulli-logistic(2*<theta, x>)"),
}


def _filled(text: str, **words: str) -> str:
    for name, word in words.items():
        text = text.replace("{" + name + "}", word)
    return text


def cells() -> Iterator[Cell]:
    for name, law in LAWS.items():
        spec = LOGISTIC.replace("{law}", law)
        yield Cell(
            "dp-iht",
            name,
            spec,
            {"step": ("fixed",), "eta": (8, 32), "T": (20, 80)},
            n=(5000, 20_000, 80_000),
            epsilon=(0.5, 1.0, 2.0),
        )
    for name, (theta, law, eigen, sigma) in GAUSSIAN.items():
        words = f"  sub-gaussian(1) of x\n  sub-gaussian({sigma}) of y\n  eigenvalues in {eigen}"
        yield Cell(
            "dp-iht-subgaussian",
            name,
            _filled(REGRESSION, n="20_000", d="50", assume=words, theta=theta, law=law),
            {"T": (3, 5), "tau_res": (1.0, 2.0, 4.0), "K_x": (2.0, 3.0)},
            n=(5000, 20_000, 80_000),
            epsilon=(0.5, 1.0, 2.0),
        )
    for name, (theta, law, eigen) in HEAVY.items():
        words = f"  moment(order 4, bound 14) of x\n  eigenvalues in {eigen}"
        yield Cell(
            "dp-iht-truncated",
            name,
            _filled(REGRESSION, n="100_000", d="20", assume=words, theta=theta, law=law),
            {"T": (2, 5), "K": (2.0, 3.0, 4.5)},
            n=(25_000, 100_000, 400_000),
        )
    for name, (radius, moment, law) in TAILS.items():
        yield Cell(
            "dp-sparse-optimization-heavy-tailed",
            name,
            _filled(ROBUST, radius=radius, moment=moment, law=law),
            {"eta": times(0.5, 1, 2, 4), "T": (2, 4), "scale": times(0.5, 1)},
        )
