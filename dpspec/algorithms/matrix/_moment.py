"""Second moments block by block, and what is done to a released symmetric matrix afterwards. Everything but :func:`second_moment` is
post-processing: a function of its released argument and of public numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Problem
from dpspec.algorithms.sets import Vector
from dpspec.models.rows import each
from dpspec.numeric.norms import clip_rows
from dpspec.privacy.mechanisms.symmetric import second_moment_l1_sensitivity, second_moment_sensitivity
from dpspec.privacy.mechanisms.wishart import second_moment_nuclear_sensitivity

#: Rows of a block: as few as keep the matrix product fast, since rounding grows with them.
ROWS = 1024
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
    total = sums.Sum((d, d))

    def part(x: Any, _: Any) -> Any:
        x = x if isinstance(x, np.ndarray) else x.toarray()
        if np.isfinite(radius):
            x = clip_rows(np.array(x), radius)
        return x.T @ x

    for one in each(records, ROWS, part):
        total.add(one)
    return total.value / (records.n if n is None else n)


def rounded(p: Problem, r: float) -> float:
    """By how much rounding alone moves the computed second moment between neighbours, |x|_2 <= ``r``, in the Frobenius norm: the magnitudes
    |x||x|^T of a record's term are at most r^2 long. The nuclear norm is at most sqrt(d) times as large, and the l1 norm of the upper
    triangle (d + 1)/2 times, since the sum of |x_i||x_j| over i <= j is (|x|_1^2 + |x|_2^2)/2."""
    return sums.apart(p.n, r**2, p.n, hidden=p.neighbours == "add-remove", rows=ROWS)


def frobenius_sensitivity(p: Problem, r: float) -> float:
    """Of the second moment as computed; :func:`~dpspec.privacy.mechanisms.symmetric.second_moment_sensitivity` is that of real numbers."""
    return _up(second_moment_sensitivity(r, p.n, p.d, p.neighbours) + rounded(p, r))  # type: ignore[arg-type]


def l1_sensitivity(p: Problem, r: float) -> float:
    """The same for the l1 norm of the upper triangle."""
    return _up(second_moment_l1_sensitivity(r, p.n, p.d, p.neighbours) + (p.d + 1) / 2 * rounded(p, r))  # type: ignore[arg-type]


def nuclear_sensitivity(p: Problem, r: float) -> float:
    """The same for the nuclear norm."""
    return _up(second_moment_nuclear_sensitivity(r, p.n, p.neighbours) + math.sqrt(p.d) * rounded(p, r))  # type: ignore[arg-type]


def wishart_rounding(p: Problem, r: float) -> float:
    """What one-sided Wishart noise asks for: the Frobenius norm in units of r^2/n."""
    return rounded(p, r) / (r**2 / p.n) * (1 + 2.0**-40)


def _up(value: float) -> float:
    """Norms of records are at most r to the last digit; squares and roots of public numbers are off by a few units."""
    return math.nextafter(value * (1 + 2.0**-40), math.inf)


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


def kept_above(a: Vector, threshold: float | Vector) -> Vector:
    """Entries of magnitude at most ``threshold`` (one for all, or one each) set to zero, the diagonal included."""
    return np.where(np.abs(a) > threshold, a, 0.0)
