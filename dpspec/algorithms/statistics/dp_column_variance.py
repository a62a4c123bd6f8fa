"""The variance of a column, over how many records there are (central model).

With c in [-1, 1] the centred and scaled number, T_1 = c and T_2 = 2 c^2 - 1: the sums S_1, S_2 (and N, where it is private) are released
in one
draw, and

    Var = h^2 ((1 + S_2/N)/2 - (S_1/N)^2),   h half the length of the interval, put into [0, h^2].

Sensitivity, under add-remove: |(1, T_1, T_2)|_inf <= 1, l2 sqrt(3). Where a record is replaced: 2 in l_inf, and in l2
sqrt(D^2 (1 + 4 (2 - D)^2)) at D = (6 - sqrt(2))/4, which is 2.268 and not 2 sqrt(2). One draw of K-norm noise of the cube, or of Gaussian
noise.

Interval: S_1, S_2, N in a box that holds them with probability 0.95 together, and the range of the formula over it.

Source: Hardt and Talwar 2010 for the noise; the moments and sensitivities are derived in :mod:`dpspec.algorithms.statistics._moments`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Card, Problem, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _moments as sums
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.columns import Column
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="dp-column-variance",
    title="The variance of a column",
    family="statistics",
    task="column-variance",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(noise.KNORM, noise.GAUSSIAN),
    summary="Two Chebyshev moments of a column, and the count where it is private, in one draw; the variance follows from them.",
    needs=(noise.CLIPPED,),
    options=noise.OPTION,
    no_bound="the error depends on the mean, which the noisy moments carry; every release states its interval",
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "56*65536"},
    reads="sums",
    spread=True,
    spec="specs/statistics/dp-column-variance.dps",
    contributions=True,
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return noise.refused(p, t)


def mechanism(p: Problem, t: Tunables) -> noise.Noise:
    return sums.mechanism(p, t, 2)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("moments", mechanism(p, t))


def run(records: Rows, p: Problem[Column], t: Tunables, release: Door) -> Estimate:
    planned = mechanism(p, t)
    drawn = release.draw("moments", sums.moments(records, p, 2), sensitivity=planned.sensitivity)
    count, (first, second) = sums.in_units(drawn, p)
    half, level, k = (p.facts["value_high"] - p.facts["value_low"]) / 2, release.level("moments"), sums.steps(p)
    n = max(count, 1.0)
    m, s = min(max(first / n, -1.0), 1.0), min(max(second / n, -1.0), 1.0)
    value = min(max((1 + s) / 2 - m * m, 0.0), 1.0)
    slopes = (2 * m * m - s / 2, -2 * m, 0.5) if sums.hidden(p) else (-2 * m, 0.5)
    error = min(sums.spread(planned, level, slopes, k) / n, 0.5)
    low, high = interval(first, second, count, sums.largest(planned, level, k), hidden=sums.hidden(p))
    return Estimate(np.array([value * half**2]), {"standard_error": error * half**2, "low": low * half**2, "high": high * half**2})


def interval(first: float, second: float, count: float, r: float, *, hidden: bool) -> tuple[float, float]:
    """The range of (1 + S_2/N)/2 - (S_1/N)^2 for S_1, S_2 and, where it is private, N within r of what was released, in [0, 1]."""
    fewest, most = (max(count - r, 1.0), max(count + r, 1.0)) if hidden else (count, count)
    ends = [
        tuple(min(max(v, -1.0), 1.0) for v in (pick((s - r) / n for n in (fewest, most)), other((s + r) / n for n in (fewest, most))))
        for s in (first, second)
        for pick, other in ((min, max),)
    ]
    (a, b), (c, d) = ends
    smallest = 0.0 if a <= 0 <= b else min(a * a, b * b)
    return max((1 + c) / 2 - max(a * a, b * b), 0.0), min(max((1 + d) / 2 - smallest, 0.0), 1.0)


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Mean absolute error, of numbers that are uniform on the interval."""
    planned, level = mechanism(p, t), calibrated.levels["moments"]
    slopes = (1 / 6, 0.0, 0.5) if sums.hidden(p) else (0.0, 0.5)
    error = 0.8 * sums.spread(planned, level, slopes, sums.steps(p)) / p.n
    return math.ldexp(error * (p.facts["value_high"] - p.facts["value_low"]) ** 2, -2)
