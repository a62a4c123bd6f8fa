"""Covariance matrices of simulated records, kept in the form that makes drawing cheap."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpspec.data.records import Vector


@dataclass(frozen=True, slots=True, eq=False)
class Covariance:
    """``scale * (diagonal + strength * U U^T)`` or ``scale * F F^T``.

    ``d``: dimension. ``diagonal``: (d,) or None for ones. ``directions`` U: (d, k) with orthonormal columns. ``factor`` F: (d, d) lower
    triangular; it replaces the diagonal and the directions.
    """

    d: int
    scale: float = 1.0
    diagonal: Vector | None = None
    strength: float = 0.0
    directions: Vector | None = None
    factor: Vector | None = None

    def times(self, c: float) -> Covariance:
        return Covariance(self.d, self.scale * c, self.diagonal, self.strength, self.directions, self.factor)

    def colour(self, z: Vector) -> None:
        """Turn standard normal rows into rows with this covariance, in place."""
        if self.factor is not None:
            z[...] = z @ self.factor.T
        elif self.directions is not None:  # (I + s U U^T)^(1/2) = I + (sqrt(1 + s) - 1) U U^T
            z += ((z @ self.directions) * (np.sqrt(1 + self.strength) - 1)) @ self.directions.T
        elif self.diagonal is not None:
            z *= np.sqrt(self.diagonal)
        if self.scale != 1:
            z *= np.sqrt(self.scale)

    def matrix(self) -> Vector:
        """The (d, d) matrix."""
        if self.factor is not None:
            dense = self.factor @ self.factor.T
        else:
            dense = np.diag(np.ones(self.d) if self.diagonal is None else self.diagonal)
            if self.directions is not None:
                dense = dense + self.strength * self.directions @ self.directions.T
        return np.asarray(self.scale * dense)


def spiked(d: int, k: int, strength: float, rng: np.random.Generator, rows: int | None = None) -> Covariance:
    """I + strength * U U^T with k uniformly random orthonormal directions; ``rows``: U has that many random non-zero rows."""
    q, r = np.linalg.qr(rng.standard_normal((d if rows is None else rows, k)))
    q = q * np.sign(np.diag(r))
    if rows is not None:
        block, q = q, np.zeros((d, k))
        q[rng.permutation(d)[:rows]] = block
    return Covariance(d, strength=strength, directions=q)


@lru_cache(maxsize=2)
def toeplitz(d: int, rho: float) -> Covariance:
    """rho^|i-j|, by its Cholesky factor in closed form: L_i0 = rho^i, L_ij = rho^(i-j) sqrt(1 - rho^2) for 1 <= j <= i."""
    i = np.arange(d)
    gap = i[:, None] - i[None, :]
    factor = np.where(gap >= 0, float(rho) ** np.maximum(gap, 0), 0.0)
    factor[:, 1:] *= np.sqrt(1 - rho * rho)
    return Covariance(d, factor=factor)


@lru_cache(maxsize=2)
def banded(d: int, b: int, rho: float) -> Covariance:
    """1 on the diagonal, rho*(1 - |i-j|/(b+1)) at distance 1, ..., b, else 0: positive definite for 0 <= rho < 1."""
    i = np.arange(d)
    gap = np.abs(i[:, None] - i[None, :])
    dense = rho * np.maximum(0.0, 1 - gap / (b + 1))
    np.fill_diagonal(dense, 1.0)
    return Covariance(d, factor=np.linalg.cholesky(dense))
