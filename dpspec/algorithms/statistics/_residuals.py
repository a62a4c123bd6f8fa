"""Tables of k of several columns as sums of orthogonal residuals, one a set A of at most k columns.

A table over B is T_B = sum over A in B of r_A x (1/n_j for the columns j of B that are not in A), where r_A, a table over A that sums to
0 along each of its axes, is what T_A says beyond its own margins; r_{} is the number of records. So consistent tables are residuals, and
residuals in T_B that are orthogonal to each other have squared lengths |r_A|^2/prod n_j.

With noise of variance s_A in each direction of r_A, a cell of T_B has the variance

    sum over A in B of s_A prod_{i in A} (1 - 1/n_i) prod_{j in B, not in A} n_j^-2,

and a record moves r_A by a vector of squared length p_A = prod_{i in A} (1 - 1/n_i). Over Gaussian noise of total price sum p_A/s_A the
sum of variances over all cells, sum_A v_A s_A, is least for s_A proportional to sqrt(p_A/v_A), by Cauchy and Schwarz: no other linear
strategy does better on these tables (Xiao, He, Zhang and Kifer 2023, ResidualPlanner, which attains the singular value bound).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Chosen: TypeAlias = tuple[int, ...]
Residuals: TypeAlias = dict[Chosen, Array]


@dataclass(frozen=True, slots=True)
class Workload:
    """All tables of ``order`` of columns with so many levels each."""

    sizes: tuple[int, ...]
    order: int

    @property
    def tables(self) -> list[Chosen]:
        return list(itertools.combinations(range(len(self.sizes)), self.order))

    @property
    def parts(self) -> list[Chosen]:
        """The sets of columns of a residual, the empty one first."""
        return [a for m in range(self.order + 1) for a in itertools.combinations(range(len(self.sizes)), m)]

    def shape(self, chosen: Chosen) -> tuple[int, ...]:
        return tuple(self.sizes[j] for j in chosen)

    def price(self, a: Chosen) -> float:
        """p_A."""
        return math.prod(1 - 1 / self.sizes[i] for i in a)

    def spread(self, a: Chosen, b: Chosen) -> float:
        """The variance of a cell of T_B for one of a direction of r_A."""
        return self.price(a) / math.prod(self.sizes[j] ** 2 for j in b if j not in a)

    def weight(self, a: Chosen) -> float:
        """v_A: the same summed over all cells of all tables."""
        return math.fsum(self.spread(a, b) * math.prod(self.shape(b)) for b in self.tables if set(a) <= set(b))

    def copies(self, a: Chosen) -> float:
        """The squared length of all tables' parts that one of r_A is."""
        return math.fsum(1 / math.prod(self.sizes[j] for j in b if j not in a) for b in self.tables if set(a) <= set(b))

    def split(self, flat: Array) -> dict[Chosen, Array]:
        """The tables of a vector of cells."""
        found, start = {}, 0
        for b in self.tables:
            shape = self.shape(b)
            found[b] = flat[start : start + math.prod(shape)].reshape(shape)
            start += math.prod(shape)
        return found

    def joined(self, tables: Mapping[Chosen, Array]) -> Array:
        return np.concatenate([tables[b].ravel() for b in self.tables])

    def residual(self, table: Array, b: Chosen, a: Chosen) -> Array:
        """r_A of one table."""
        found = table.sum(axis=tuple(i for i, j in enumerate(b) if j not in a))
        for axis in range(len(a)):
            found = found - found.mean(axis=axis, keepdims=True)
        return np.asarray(found)

    def residuals(self, tables: Mapping[Chosen, Array]) -> Residuals:
        """Of tables that may contradict each other, those of the nearest consistent ones (in squares)."""
        found = {}
        for a in self.parts:
            over = [b for b in self.tables if set(a) <= set(b)]
            weights = [1 / math.prod(self.sizes[j] for j in b if j not in a) for b in over]
            found[a] = sum(w * self.residual(tables[b], b, a) for w, b in zip(weights, over, strict=True)) / math.fsum(weights)
        return {a: np.asarray(r, dtype=np.float64) for a, r in found.items()}

    def rebuilt(self, residuals: Residuals) -> dict[Chosen, Array]:
        """The tables."""
        found = {}
        for b in self.tables:
            total = np.zeros(self.shape(b))
            for a in _within(b):
                place = tuple(slice(None) if j in a else None for j in b)
                total += residuals[a][place] / math.prod(self.sizes[j] for j in b if j not in a)
            found[b] = total
        return found

    def not_negative(self, residuals: Residuals, variances: Mapping[Chosen, float], rounds: int = 200) -> dict[Chosen, Array]:
        """The consistent tables without a negative cell that are most likely: least sum of |r_A - given|^2/s_A, by alternating directions
        (Boyd and others 2011, section 5.2); a residual without variance stays as it is. What is left below 0 when the rounds end is cut."""
        scale = max(variances.values())
        inverse = {a: scale / variances[a] if variances[a] > 0 else math.inf for a in self.parts}
        copies = {a: self.copies(a) for a in self.parts}
        now = dict(residuals)
        tables = self.rebuilt(now)
        kept = {b: np.maximum(t, 0.0) for b, t in tables.items()}
        push = {b: np.zeros_like(t) for b, t in tables.items()}
        rate = 1.0
        for _ in range(rounds):
            aimed = self.residuals({b: kept[b] - push[b] for b in self.tables})
            for a in self.parts:
                if math.isfinite(inverse[a]):
                    pull = rate * copies[a]
                    now[a] = (inverse[a] * residuals[a] + pull * aimed[a]) / (inverse[a] + pull)
            tables = self.rebuilt(now)
            kept = {b: np.maximum(tables[b] + push[b], 0.0) for b in self.tables}
            push = {b: push[b] + tables[b] - kept[b] for b in self.tables}
        return {b: np.maximum(t, 0.0) for b, t in tables.items()}


def _within(b: Chosen) -> Iterator[Chosen]:
    for m in range(len(b) + 1):
        yield from itertools.combinations(b, m)


def contrasts(size: int, steps: int) -> NDArray[np.int64]:
    """Whole, orthogonal rows that sum to 0 exactly, each about ``steps`` long, (size - 1, size): the first i entries alike, against the
    next."""
    rows = np.zeros((size - 1, size), dtype=np.int64)
    for i in range(1, size):
        one = max(1, round(steps / math.sqrt(i * (i + 1))))
        rows[i - 1, :i], rows[i - 1, i] = one, -i * one
    return rows


def coarse(size: int, steps: int) -> float:
    """By how much the mean variance of an entry is larger than with rows of length 1, where noise is added to these contrasts."""
    squares = (contrasts(size, steps).astype(np.float64) ** 2).sum(axis=1)
    return float(np.mean(1 / squares))
