"""One noisy second moment of augmented records, from which covariances, subspaces and regressions follow.

Of each record z in R^D with |z|_2 <= R the matrix z z^T is summed, over the public n, in one draw: Gaussian noise that is isotropic in the
Frobenius product, or Laplace noise of the upper triangle at pure epsilon. |z z^T|_F = |z|^2 <= R^2, and |z z^T - z' z'^T|_F^2 =
|z|^4 + |z'|^4 - 2 <z, z'>^2 <= 2 R^4. The l1 norm of the upper triangle is at most (D + 1)/2 R^2 for one record, and sqrt(D (D + 3)/2)
R^2 for two (:func:`dpspec.privacy.mechanisms.symmetric.second_moment_l1_sensitivity`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms import sums
from dpspec.algorithms.card import Problem
from dpspec.models.rows import each
from dpspec.privacy.mechanisms.symmetric import GaussianSymmetric, LaplaceSymmetric, second_moment_l1_sensitivity, second_moment_sensitivity

Matrix: TypeAlias = NDArray[np.float64]
Mechanism: TypeAlias = GaussianSymmetric | LaplaceSymmetric

ROWS = 1024
#: Dense matrices up to here.
LARGEST = 5000


def mechanism(p: Problem, dim: int, radius: float) -> Mechanism:
    """Of the matrix as it is computed, for records of norm at most ``radius``; Laplace noise where the budget is epsilon alone."""
    room = sums.apart(p.n, radius**2, p.n, hidden=p.neighbours == "add-remove", rows=ROWS)
    if {"delta", "rho", "mu"} & set(p.facts):
        exact = second_moment_sensitivity(radius, p.n, dim, p.neighbours)  # type: ignore[arg-type]
        return GaussianSymmetric(_up(exact + room), dim)
    exact = second_moment_l1_sensitivity(radius, p.n, dim, p.neighbours)  # type: ignore[arg-type]
    return LaplaceSymmetric(_up(exact + (dim + 1) / 2 * room), dim)


def _up(value: float) -> float:
    return math.nextafter(value * (1 + 2.0**-40), math.inf)


def moment(records: Any, augment: Callable[[Matrix, Any], Matrix], dim: int, n: int) -> Matrix:
    """(1/n) sum z z^T, the z of a block of dense records and their y by ``augment``."""
    total = sums.Sum((dim, dim))

    def part(x: Any, y: Any) -> Matrix:
        z = augment(x if isinstance(x, np.ndarray) else x.toarray(), y)
        return z.T @ z

    for one in each(records, ROWS, part):
        total.add(one)
    return np.asarray(total.value / n)


def spread(planned: Mechanism, scale: float) -> tuple[float, float, float]:
    """Standard deviation of the noise on the diagonal and off it, and how many of them 95 % of one entry's noise are within."""
    if isinstance(planned, GaussianSymmetric):
        return scale, scale / math.sqrt(2), 1.96
    return scale * math.sqrt(2), scale * math.sqrt(2), 2.12
