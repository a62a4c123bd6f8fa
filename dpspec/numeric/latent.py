"""Gradients of the latent models of two components and of regression with missing entries, of each record, in NumPy alone: the executor and
the devices of ldp-gradient-em evaluate the same. Formulas and their sources stand in :mod:`dpspec.tasks.latent`.

Rows are dense, (rows, d); what a record gives is a function of it, of ``beta`` and of the public ``sigma`` alone, bit for bit, wherever it
stands in a block. Entries may be infinite or NaN for records of huge entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dpspec.numeric.norms import Vector


def along(rows: Vector, w: Vector) -> Vector:
    """<w, x_i> of every row, (rows,)."""
    return np.asarray(np.einsum("ij,j->i", rows, w))


def finite(u: Vector) -> Vector:
    """An inner product that overflows in both directions at once is no number: it says nothing about the sign."""
    return np.where(np.isnan(u), 0.0, u)


def mixture(sigma: float, beta: Vector, rows: Vector, y: Any) -> Vector:
    """tanh(<beta, x>/sigma^2) x - beta."""
    with np.errstate(all="ignore"):
        lean = np.tanh(finite(along(rows, beta) / sigma / sigma))
        return np.asarray(rows * lean[:, None] - beta)


def regressions(sigma: float, beta: Vector, rows: Vector, y: Any) -> Vector:
    """(tanh(y <beta, x>/sigma^2) y - <beta, x>) x."""
    with np.errstate(all="ignore"):
        fitted = along(rows, beta)
        lean = np.tanh(finite(y * fitted / sigma / sigma))
        return np.asarray(rows * (lean * y - fitted)[:, None])


def missing(sigma: float, beta: Vector, rows: Vector, y: Any) -> Vector:
    """r x_j sigma^2/q where x_j is seen and (r^2/q - 1) beta_j sigma^2/q where it is NaN."""
    gone = np.isnan(rows)
    seen, square = np.where(gone, 0.0, rows), sigma**2
    with np.errstate(all="ignore"):
        rest = y - along(seen, beta)
        spread = square + along(gone.astype(np.float64), beta * beta)
        guessed = np.where(gone, beta, 0.0) * (rest / spread * rest - 1)[:, None]
        return np.asarray((seen * rest[:, None] + guessed) * (square / spread)[:, None])


#: By the name of the model in the language, and whether it needs y.
GRADIENTS: Final[dict[str, tuple[Callable[..., Vector], bool]]] = {
    "gmm": (mixture, False),
    "mixture-of-regressions": (regressions, True),
    "regression-with-missing": (missing, True),
}
