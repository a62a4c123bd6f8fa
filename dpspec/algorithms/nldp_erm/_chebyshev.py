"""Chebyshev moments E T_v(u), v in {0, ..., t - 1}^d, of records u of [-1, 1]^d, and what smooth functions make of them.

f is replaced by its interpolant at the t^d tensor Chebyshev nodes, sum_v c_v T_v: a cosine transform of its values there. So

    E f(u)  is about  sum_v c_v E T_v(u),        sum_v 2^-|v|_0 c_v^2 <= max |f|^2,

the second by the discrete orthogonality of cosines, v_j = 0 counting once. With |d^h f/du_j^h| <= 1 in every variable, t > h, Jackson's
theorem (E_n(f) <= (pi/2)^h/((n + 1) n ... (n - h + 2)), n = t - 1) and the Lebesgue constant L <= 1 + (2/pi) log t of the nodes give

    |f - interpolant|  <=  (1 + L) (1 + L + ... + L^(d - 1)) (pi/2)^h (t - h)!/t!.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dpspec.algorithms.sets import Vector


def nodes(t: int) -> Vector:
    return np.asarray(np.cos((np.arange(t) + 0.5) * math.pi / t))


def grid(d: int, t: int) -> Vector:
    """The tensor nodes, (t^d, d), the last variable fastest."""
    return np.stack(np.meshgrid(*[nodes(t)] * d, indexing="ij"), axis=-1).reshape(-1, d)


def coefficients(f: Callable[[Vector], Vector], d: int, t: int) -> Vector:
    """c_v of each function of ``f`` (points (m, d) to values (m, Q)), shape (t^d, Q)."""
    angles = (np.arange(t) + 0.5) * math.pi / t
    transform = 2 / t * np.cos(np.arange(t)[:, None] * angles)
    transform[0] /= 2
    values = f(grid(d, t))
    out = values.reshape(*[t] * d, -1)
    for axis in range(d):
        out = np.moveaxis(np.tensordot(transform, out, axes=(1, axis)), 0, axis)
    return np.asarray(out.reshape(t**d, -1))


def products(u: Vector, v: Any) -> Vector:
    """T_v(u) row by row, (rows,): the degrees v, (rows, d), of each row; entries outside [-1, 1] are clipped, NaN stays."""
    return np.asarray(np.cos(np.arccos(np.clip(u, -1.0, 1.0)) * v).prod(axis=1))


def bias(d: int, h: int, t: int) -> float:
    """The bound above; infinite for t <= h."""
    if t <= h:
        return math.inf
    lebesgue = 1 + 2 / math.pi * math.log(t)
    return (1 + lebesgue) * sum(lebesgue**j for j in range(d)) * best(h, t)


def best(h: int, t: int) -> float:
    """Jackson's bound in one variable, t > h."""
    return (math.pi / 2) ** h / math.perm(t, h)


# ---------------------------------------------------------------------------- the battery of queries on which errors are measured


def waves(d: int) -> list[tuple[tuple[int, ...], float]]:
    return [(w, p) for w in itertools.product(range(4), repeat=d) if any(w) for p in (0.0, math.pi / 2)]


def bumps(d: int) -> list[tuple[tuple[float, ...], float]]:
    centres = [(0.0,) * d, *itertools.product((-0.5, 0.5), repeat=d)]
    return [(c, b) for c in centres for b in (1.0, 0.5, 0.25)]


def battery(u: Vector, h: int) -> Vector:
    """Functions with derivatives up to the order h in [-1, 1], listed in ``dpspec/tasks/smooth_queries.py``: (rows, d) to (rows, Q)."""
    d = u.shape[1]
    columns = [np.cos(u @ np.array(w, dtype=np.float64) + p) / max(w) ** h for w, p in waves(d)]
    for c, b in bumps(d):
        columns.append(np.exp(-((u - np.array(c)) ** 2).sum(axis=1) / (2 * b * b)) * b**h / math.sqrt(math.factorial(h)))
    return np.stack(columns, axis=1)


def queries(d: int) -> int:
    """Q."""
    return len(waves(d)) + len(bumps(d))


@lru_cache(maxsize=8)
def battery_coefficients(d: int, h: int, t: int) -> Vector:
    """Their c_v, (t^d, Q)."""
    return coefficients(lambda u: battery(u, h), d, t)


def energy(d: int, h: int, t: int) -> float:
    """The largest sum of c_v^2, v not 0, of one of them."""
    return float((battery_coefficients(d, h, t)[1:] ** 2).sum(axis=0).max())
