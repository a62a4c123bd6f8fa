"""What could have made the numbers of 000, Tables 6.4 and 6.5: ``python -m benchmarks.precision_tables``.

The law is the document's: rows of N(0, (U U^T)^-1), U sparse with entries -1 and 1 (its density is not stated; here a triangular U with a
diagonal of signs, so that the inverse exists). Squared norms of rows are of the order of hundreds, where its noise is for at most 1. Three
variants of Algorithm 6.3.51 with the document's noise, rho = 0.001, relative error against the same procedure without noise:

- ``as printed``: records as they are, the positive part of the noisy matrix, a certified minimiser;
- ``scaled``: the same with rows of length 1, which the noise covers;
- ``stopped``: records as they are, no positive part, ten proximal gradient steps (Guillot et al. 2012) for both estimates.

One line a variant: the ratios n/d = 0.5, 1, 1.5 by epsilon = 0.5 and 1.5, means over :data:`SEEDS`. Nothing here is private.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Final

import numpy as np

from dpspec.algorithms.matrix._lasso import graphical_lasso
from dpspec.algorithms.matrix._moment import positive_part

RHO: Final = 0.001
DELTA: Final = 0.01
SEEDS: Final = (1, 2, 3)
#: Table 6.4, Laplace noise: (n, epsilon) and the relative error, d = 400.
LAPLACE: Final = {
    (200, 0.5): 101.4, (400, 0.5): 52.85, (600, 0.5): 35.42,
    (200, 1.0): 49.44, (400, 1.0): 25.41, (600, 1.0): 16.83,
    (200, 1.5): 32.30, (400, 1.5): 16.41, (600, 1.5): 10.76,
}  # fmt: skip


def root(rng: np.random.Generator, d: int, a_row: float) -> Any:
    """U: signs on the diagonal, and ``a_row`` further entries in a row of d on average, below it."""
    signs = np.where(rng.random((d, d)) < 0.5, -1.0, 1.0)
    return np.tril(signs * (rng.random((d, d)) < a_row / d), -1) + np.diag(np.diag(signs))


def noise(rng: np.random.Generator, kind: str, d: int, n: int, epsilon: float) -> Any:
    """The printed noise: Gaussian of scale sqrt(2 log(1.25/delta))/(n epsilon), or Laplace of scale 2d/(n epsilon); symmetric."""
    if kind == "gaussian":
        drawn = rng.normal(0, math.sqrt(2 * math.log(1.25 / DELTA)) / (n * epsilon), (d, d))
    else:
        drawn = rng.laplace(0, 2 * d / (n * epsilon), (d, d))
    return np.triu(drawn) + np.triu(drawn, 1).T


def stopped(s: Any, steps: int) -> Any:
    """``steps`` proximal gradient steps, halved until the matrix is positive definite and the smooth part is below its quadratic model."""
    theta, length = np.diag(1 / (np.abs(np.diag(s)) + RHO)), 1.0
    for _ in range(steps):
        inverse = np.linalg.inv(theta)
        slope, before = s - inverse, -np.linalg.slogdet(theta)[1] + float((s * theta).sum())
        for _ in range(60):
            moved = theta - length * slope
            new = np.sign(moved) * np.maximum(np.abs(moved) - length * RHO, 0.0)
            by = new - theta
            sign, volume = np.linalg.slogdet(new)
            model = before + float((slope * by).sum()) + float((by * by).sum()) / (2 * length)
            if sign > 0 and np.linalg.eigvalsh(new)[0] > 0 and -volume + float((s * new).sum()) <= model:
                break
            length /= 2
        else:
            return theta
        curvature = float((by * (inverse - np.linalg.inv(new))).sum())
        length = float((by * by).sum()) / curvature if curvature > 0 else length
        theta = new
    return theta


def error(found: Any, reference: Any) -> float:
    return float(np.linalg.norm(found - reference) / np.linalg.norm(reference))


def one(d: int, a_row: float, seed: int) -> dict[tuple[str, str], list[float]]:
    """Errors by (variant, noise): of n/d = 0.5, 1, 1.5 at epsilon = 0.5, then at 1.5."""
    rng = np.random.default_rng(seed)
    u = root(rng, d, a_row)
    rows = rng.standard_normal((3 * d // 2, d)) @ np.linalg.inv(u)
    gap = 1e-4 * d
    found: dict[tuple[str, str], list[float]] = {}
    references: dict[tuple[str, int], tuple[Any, Any]] = {}
    for n in (d // 2, d, 3 * d // 2):
        for variant in ("as printed", "scaled", "stopped"):
            x = rows[:n]
            if variant == "scaled":
                x = x / np.sqrt((x * x).sum(axis=1))[:, None]
            s = x.T @ x / n
            references[variant, n] = s, stopped(s, 10) if variant == "stopped" else graphical_lasso(s, RHO, gap=gap).theta
    for epsilon in (0.5, 1.5):
        for (variant, n), (s, reference) in references.items():
            for kind in ("gaussian", "laplace"):
                noisy = s + noise(rng, kind, d, n, epsilon)
                got = stopped(noisy, 10) if variant == "stopped" else graphical_lasso(positive_part(noisy), RHO, gap=gap).theta
                found.setdefault((variant, kind), []).append(error(got, reference))
    return found


def norm_of_noise(d: int, n: int, epsilon: float) -> float:
    """The root of the mean squared Frobenius norm of the printed Laplace noise: every entry has the variance 2 (2d/(n epsilon))^2."""
    return math.sqrt(2) * 2 * d / (n * epsilon) * d


def main(words: list[str]) -> None:
    d = int(words[0]) if words else 100
    shares = [norm_of_noise(400, n, e) / value for (n, e), value in LAPLACE.items()]
    print(f"norm of the Laplace noise over the printed error, nine settings: {min(shares):.1f} to {max(shares):.1f}")
    for a_row in (1.0, 3.0):
        runs = [one(d, a_row, seed) for seed in SEEDS]
        for key in runs[0]:
            means = np.mean([run[key] for run in runs], axis=0)
            print(a_row, *key, " ".join(f"{m:.3g}" for m in means), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
