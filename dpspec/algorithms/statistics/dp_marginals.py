"""All tables of k of the columns, at the optimal Gaussian strategy (central model).

    release G c + Z, c the counts of the tables, G their residuals (:mod:`dpspec.algorithms.statistics._residuals`) in whole numbers, each
    with the weight 1/sqrt(s_A) of the strategy, Z discrete Gaussian of one parameter; the tables are rebuilt from them. At pure epsilon:
    c + Z, Z discrete Laplace for all tables, and the nearest consistent tables in squares.

Whole numbers: the residual over A is c_A times, axis after axis, whole contrasts of each column, times the rounded weight of A: an
exact integer for each record, so that sums are exact, and so is the sensitivity: sqrt(sum_A m_A^2 max_j |column j of G_A|^2) for a record
that is there or not. Where it is replaced, |g - g'|^2 = |g|^2 + |g'|^2 - 2 <g, g'>, and <g, g'> of A is a product over its columns of a
number that depends on whether the two records agree there: the largest value over all patterns of agreement; the residual of no column,
n, is then public and costs nothing. Where a unit has R records, R times as much. The whole contrasts are orthogonal, sum
to 0, and are inverted as they are: no bias.

Discrete Laplace: a record is in one cell of each of the C(d, k) tables, so l1 moves by their number (twice where it is replaced).

``post``: ``none`` is unbiased: cells may be negative, tables agree with each other. ``nonnegative`` is the most likely consistent table
without a negative cell: its mean squared error is smaller, and cells near 0 are biased upwards, which the others pay for together (the
number of records stays that of the noisy tables). ``log-linear``: these, or the tables of a distribution over all columns that leans to
what margins say where noise hides the rest (:mod:`dpspec.algorithms.statistics._loglinear`), whichever has the smaller estimated
error: cells without evidence are biased towards independence of their columns. Standard errors and intervals are those of the noise
before it, cut at 0.

Source: Xiao, He, Zhang and Kifer 2023 (ResidualPlanner; the strategy is optimal among Gaussian ones for the sum of squared errors).
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Card, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _loglinear as loglinear
from dpspec.algorithms.statistics import _noise as noise
from dpspec.algorithms.statistics._residuals import Chosen, Workload, coarse, contrasts
from dpspec.models.columns import Tables
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpspec.privacy.schedule import Draw, Tree

#: The strategy's weights are whole numbers of about this size.
WEIGHT = 256
#: Of more columns the patterns of agreement are bounded table by table.
PATTERNS = 12

CARD = Card(
    id="dp-marginals",
    title="All tables of k columns at the optimal Gaussian strategy",
    family="statistics",
    task="marginals",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("literature", "Xiao, He, Zhang and Kifer 2023", "ResidualPlanner"), noise.GAUSSIAN),
    summary="Counts of all tables of k columns: residuals with optimally shared Gaussian noise; consistent, optionally not negative.",
    needs=(noise.ONCE,),
    options={**noise.OPTION, "post": ("none", "nonnegative", "log-linear")},
    no_bound="every release states the exact standard error of each cell",
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "64*answers + 32*65536"},
    spec="specs/statistics/dp-marginals.dps",
    contributions=True,
)


def work(p: Problem) -> Workload:
    return Workload(tuple(int(p.facts[f"levels_{i}"]) for i in range(1, int(p.facts["attributes"]) + 1)), int(p.facts["order"]))


def resolution(p: Problem) -> int:
    """How many steps a contrast of length 1 has: as many as sums of n records leave room for."""
    free = 51 - math.ceil(math.log2(noise.ROOM * p.n)) - math.ceil(math.log2(WEIGHT))
    return int(2 ** min(16, free // int(p.facts["order"])))


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.n > 2**40 or resolution(p) < 16:
        return f"tables of {int(p.facts['order'])} columns of n = {p.n} records do not fit whole numbers: a smaller k"
    if t.post == "log-linear" and math.prod(work(p).sizes) > loglinear.CELLS:
        return f"post = log-linear builds the table over all columns, {math.prod(work(p).sizes):.3g} cells, more than {loglinear.CELLS}"
    return noise.refused(p, t)


@lru_cache(maxsize=64)
def strategy(w: Workload, steps: int, public: bool) -> dict[Chosen, int]:
    """The whole weight of each residual, whose contrasts have ``steps`` to the number of its columns: so that all are as fine; 0 for the
    number of records where it is public."""
    variances = {a: math.sqrt(w.price(a) / w.weight(a)) for a in w.parts}
    found = {a: 1 / math.sqrt(s) for a, s in variances.items()}
    largest = max(found.values())
    return {a: 0 if public and not a else max(1, round(WEIGHT * v / largest)) * steps ** (w.order - len(a)) for a, v in found.items()}


@lru_cache(maxsize=64)
def moved(w: Workload, steps: int, replaced: bool) -> float:
    """The l2 sensitivity of one record, rounded up."""
    weights = strategy(w, steps, replaced)
    grams = [(u.T @ u) for u in (contrasts(n, steps) for n in w.sizes)]
    longest = [int(np.diag(g).max()) for g in grams]
    alone = {a: weights[a] ** 2 * math.prod(longest[i] for i in a) for a in w.parts}
    if not replaced:
        return _root(sum(alone.values()))
    shortest = [int(np.diag(g).min()) for g in grams]
    off = [g[~np.eye(len(g), dtype=bool)] for g in grams]
    apart = [(int(o.min()), int(o.max())) for o in off]

    def least(a: Chosen, same: frozenset[int]) -> int:  # of <g, g'> of A
        low, high = 1, 1
        for i in a:
            ends = (shortest[i], longest[i]) if i in same else apart[i]
            products = [x * y for x in (low, high) for y in ends]
            low, high = min(products), max(products)
        return weights[a] ** 2 * low

    columns = range(len(w.sizes))
    if len(w.sizes) <= PATTERNS:
        patterns = [frozenset(s) for m in columns for s in itertools.combinations(columns, m)]
        return _root(max(sum(2 * alone[a] - 2 * least(a, same) for a in w.parts) for same in patterns))
    return _root(
        sum(
            2 * alone[a] - 2 * min(least(a, frozenset(s)) for m in range(len(a) + 1) for s in itertools.combinations(a, m)) for a in w.parts
        )
    )


def _root(square: int) -> float:
    found = float(math.isqrt(square) + 1)
    return found * (1 + 1e-15)


def mechanism(p: Problem, t: Tunables) -> noise.Noise:
    w, replaced = work(p), p.neighbours != "add-remove"
    times = 2 if replaced else p.rows
    pure = DiscreteLaplace(float(len(w.tables) * times), int(p.facts["answers"]))
    size = sum(math.prod(w.sizes[i] - 1 for i in a) for a in w.parts if not (replaced and not a))
    gaussian = DiscreteGaussian(moved(w, resolution(p), replaced) * (1 if replaced else p.rows), size)
    kinds = noise.kinds(p)
    if t.noise != "auto" or len(kinds) == 1:
        return pure if t.noise == "pure" or kinds == ("pure",) else gaussian
    one, other = (
        typical(w, variances(p, m, level))
        for m, level in ((pure, p.facts["epsilon"]), (gaussian, 1 / noise.strength(p.facts["epsilon"], p.facts["delta"])))
    )
    return pure if one <= other else gaussian


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("tables", mechanism(p, t))


def variances(p: Problem, planned: Any, level: float) -> dict[Chosen, float]:
    """s_A of the residuals that the tables are rebuilt from."""
    w, replaced = work(p), p.neighbours != "add-remove"
    if isinstance(planned, DiscreteLaplace):
        found = {a: noise.law(planned, level).error ** 2 / w.copies(a) for a in w.parts}
        return {a: 0.0 if replaced and not a else s for a, s in found.items()}
    return of_strategy(w, resolution(p), replaced, planned.scale(level))


def of_strategy(w: Workload, steps: int, public: bool, scale: float) -> dict[Chosen, float]:
    """s_A of noise of so many steps in every number that is released, on average over the cells of T_A."""
    weights = strategy(w, steps, public)
    each = [coarse(n, steps) for n in w.sizes]
    return {a: (scale / weights[a]) ** 2 * math.prod(each[i] for i in a) if weights[a] else 0.0 for a in w.parts}


def errors(w: Workload, found: dict[Chosen, float]) -> NDArray[np.float64]:
    """The standard error of each table's cells."""
    return np.array([math.sqrt(math.fsum(found[a] * w.spread(a, b) for a in w.parts if set(a) <= set(b))) for b in w.tables])


def typical(w: Workload, found: dict[Chosen, float]) -> float:
    """The root of the mean variance of a cell."""
    cells = np.array([math.prod(w.shape(b)) for b in w.tables])
    return float(np.sqrt(np.sum(cells * errors(w, found) ** 2) / cells.sum()))


def run(records: Rows, p: Problem[Tables], t: Tunables, release: Door) -> Estimate:
    planned, w, replaced = mechanism(p, t), work(p), p.neighbours != "add-remove"
    counts = p.oracle.counts(records)
    found = variances(p, planned, release.level("tables"))
    if isinstance(planned, DiscreteLaplace):
        drawn = np.asarray(release.draw("tables", counts, sensitivity=planned.sensitivity), dtype=np.float64)
        residuals = w.residuals(w.split(drawn))
    else:
        residuals = _gaussian(w, w.split(counts.astype(np.float64)), resolution(p), planned, release, replaced)
    if replaced:
        residuals[()] = np.asarray(float(p.n))  # every record is in one cell of each table, and how many there are is public
    if t.post == "log-linear":
        tables = loglinear.fitted(w, residuals, found, release.public.generator("direction"))
    else:
        tables = w.not_negative(residuals, found) if t.post == "nonnegative" else w.rebuilt(residuals)
    value, raw = w.joined(tables), w.joined(w.rebuilt(residuals))
    error = np.concatenate([np.full(math.prod(w.shape(b)), e) for b, e in zip(w.tables, errors(w, found), strict=True)])
    low, high = np.maximum(raw - 1.96 * error, 0), np.maximum(raw + 1.96 * error, 0)
    return Estimate(value, {"standard_error": error, "low": low, "high": high})


def _gaussian(w: Workload, tables: Any, steps: int, planned: Any, release: Door, replaced: bool) -> dict[Chosen, Any]:
    """Noisy residuals: whole numbers through the meter, and the inverse of the contrasts."""
    weights = strategy(w, steps, replaced)
    bases = [contrasts(n, steps) for n in w.sizes]
    used = [a for a in w.parts if weights[a]]
    handed = []
    for a in used:
        b = next(b for b in w.tables if set(a) <= set(b))
        margin = tables[b].sum(axis=tuple(i for i, j in enumerate(b) if j not in a)).astype(np.int64)
        largest = math.prod(int(np.abs(bases[i]).max()) for i in a) * weights[a]
        if int(margin.sum()) * largest >= 2**62:  # more records than n says: nothing may go round 64 bits, and Python's numbers do not
            margin = np.array(margin.tolist(), dtype=object)
        for axis, i in enumerate(a):
            margin = np.moveaxis(np.tensordot(bases[i], margin, axes=(1, axis)), 0, axis)
        handed.append(np.ravel(margin) * weights[a])
    numbers = np.asarray(noise.cut(np.concatenate(handed)), dtype=np.int64)
    drawn = np.asarray(release.draw("tables", numbers, sensitivity=planned.sensitivity), dtype=np.float64)
    found: dict[Chosen, Any] = {a: np.zeros(w.shape(a)) for a in w.parts}
    start = 0
    for a in used:
        shape = tuple(w.sizes[i] - 1 for i in a)
        part = drawn[start : start + math.prod(shape)].reshape(shape) / weights[a]
        start += math.prod(shape)
        for axis, i in enumerate(a):
            part = np.moveaxis(np.tensordot(np.linalg.pinv(bases[i].astype(np.float64)), part, axes=(1, axis)), 0, axis)
        found[a] = np.asarray(part)
    return found


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Root mean squared error of a cell, without post-processing."""
    return typical(work(p), variances(p, mechanism(p, t), calibrated.levels["tables"]))
