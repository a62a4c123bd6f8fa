"""Second moments block by block, and what is done to a released symmetric matrix afterwards. Everything but :func:`second_moment` is
post-processing: a function of its released argument and of public numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpspec.algorithms.sets import Vector
from dpspec.numeric.norms import clip_rows

#: Rows of a block: what fits the processor's cache for d up to a few hundred.
ROWS = 8192
#: From this dimension on, the leading eigenvectors come from Lanczos iterations when few of them are asked for.
LANCZOS_FROM = 500
#: Relative accuracy of Lanczos eigenvalues.
LANCZOS_TOLERANCE = 1e-10


def blocks(records: Any, rows: int = ROWS) -> Iterator[Vector]:
    """The records x in dense blocks."""
    for x, _ in records.blocks(rows):
        yield x if isinstance(x, np.ndarray) else x.toarray()


def second_moment(records: Any, radius: float = np.inf, n: int | None = None) -> Vector:
    """(1/n) sum x x^T of the records, each scaled into the l2 ball of ``radius``: (d, d). No (n, d, d) array is made.

    ``n``: the public number of records, which every release must divide by: under add-remove the true one is private. References leave
    it out and divide by how many there are.
    """
    d = records.d
    total = np.zeros((d, d))
    for x in blocks(records):
        if np.isfinite(radius):
            x = clip_rows(np.array(x), radius)
        total += x.T @ x
    return np.asarray(total / (records.n if n is None else n))


def mean_of(records: Any, radius: float = np.inf) -> Vector:
    """The mean of the records, each scaled into the l2 ball of ``radius``: (d,). For references only: no release reads it."""
    total = np.zeros(records.d)
    for x in blocks(records):
        total += (clip_rows(np.array(x), radius) if np.isfinite(radius) else x).sum(axis=0)
    return np.asarray(total / records.n)


def positive_part(a: Vector, floor: float = 0.0) -> Vector:
    """Eigenvalues below ``floor`` are raised to it: for 0 the nearest positive semi-definite matrix in the Frobenius norm. A positive
    semi-definite matrix is not further from it than from ``a`` in that norm, and at most twice as far in the spectral norm."""
    values, vectors = np.linalg.eigh(a)
    if values[0] >= floor:
        return a
    out = (vectors * np.maximum(values, floor)) @ vectors.T
    return np.asarray((out + out.T) / 2)


def leading(a: Vector, k: int) -> tuple[Vector, Vector]:
    """The k algebraically largest eigenvalues (k,), descending, and eigenvectors (d, k), each with its largest entry positive.

    Dense LAPACK, or for d >= LANCZOS_FROM and k <= d/20 ARPACK's Lanczos iterations at relative accuracy LANCZOS_TOLERANCE with a
    fixed start, falling back on LAPACK when they do not converge.
    """
    from scipy.linalg import eigh

    d = len(a)
    values: Vector
    vectors: Vector
    if d >= LANCZOS_FROM and k <= d // 20:
        from scipy.sparse.linalg import ArpackError, eigsh

        try:
            values, vectors = eigsh(a, k=k, which="LA", tol=LANCZOS_TOLERANCE, v0=np.ones(d))
        except ArpackError:
            values, vectors = eigh(a, subset_by_index=(d - k, d - 1))
    else:
        values, vectors = eigh(a, subset_by_index=(d - k, d - 1))
    order = np.argsort(values)[::-1]
    return values[order], signed(vectors[:, order])


def signed(vectors: Vector) -> Vector:
    """Columns with their entry of largest magnitude positive: a basis without arbitrary signs."""
    at = np.argmax(np.abs(vectors), axis=0)
    return np.asarray(vectors * np.where(vectors[at, np.arange(vectors.shape[1])] < 0, -1.0, 1.0))


def kept_above(a: Vector, threshold: float) -> Vector:
    """Entries of magnitude at most ``threshold`` set to zero, the diagonal included."""
    return np.where(np.abs(a) > threshold, a, 0.0)
