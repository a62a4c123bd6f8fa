"""The mean of a column (central model).

How many records there are is public (replace-one, zero-out): the sum of c in [-1, 1] in whole steps of 1/K plus staircase noise for
sensitivity 2K,
over n; discrete Gaussian noise under rho and mu.

How many there are is private (add-remove), and then n is never divided by: with S = sum c and N the number of records, the pair is
released in one
draw, and the mean is S~/N~, put back into the interval. Sensitivity: a record moves (S, N) by (c, 1) or its negative, and |(c, 1)|_inf <=
1, so
K-norm noise of density ~ exp(-epsilon |z|_inf) is epsilon-DP by the triangle inequality; |(c, 1)|_2 <= sqrt(2) for Gaussian noise. That c
is
centred is what makes a noisy N cheap: S~/N~ is off by about (Z_1 - m Z_0)/N with |m| <= 1, and m near 0 for means near the middle.

Interval. Z_1 - m Z_0 = S~ - m N~ at the true m, so the m with |S~ - m N~| <= h(m), h the 95 % quantile of |Z_1 - m Z_0|, are a confidence
set
(Fieller); h is Lipschitz with h(1) at most, so for N~ above that the set is an interval, and otherwise the whole interval is stated.

Source: Geng and Viswanath 2014; Hardt and Talwar 2010. The steps make sums exact (:mod:`dpspec.algorithms.statistics._moments`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Problem, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _moments as sums
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.columns import Column
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.discrete import DiscreteGaussian
from dpspec.privacy.mechanisms.staircase import Staircase
from dpspec.privacy.schedule import Draw, Tree

HALF = "the exact quantile of the noise over n"

CARD = Card(
    id="dp-column-mean",
    title="The mean of a column",
    family="statistics",
    task="column-mean",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(noise.STAIRCASE, noise.KNORM, noise.GAUSSIAN),
    summary="A noisy sum over the public n; where n is private, a centred sum and a count in one draw of K-norm noise, and their ratio.",
    needs=(noise.CLIPPED,),
    options=noise.OPTION,
    bounds=(
        Bound(
            "absolute-error",
            "explicit",
            "upper",
            "(value_high - value_low)/2*q",
            "proved",
            HALF,
            probability="0.95",
            conditions="replace-one or zero-out",
            where={"q": "the 0.95 quantile of the noise and the rounding in units of half the range, about 2*log(40)/(n*epsilon)"},
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "40*65536"},
    reads="sums",
    spread=True,
    spec="specs/statistics/dp-column-mean.dps",
    contributions=True,
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if "auto" in p.facts:
        return "the bounds of its column are auto, and it has to know them: dp-auto-bounds finds them"
    return noise.refused(p, t)


def mechanism(p: Problem, t: Tunables) -> noise.Noise:
    if sums.hidden(p):
        return sums.mechanism(p, t, 1)
    moved = 2.0 * sums.steps(p)
    return noise.chosen(p, t, Staircase(moved), DiscreteGaussian(moved))


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("mean", mechanism(p, t))


def run(records: Rows, p: Problem[Column], t: Tunables, release: Door) -> Estimate:
    planned = mechanism(p, t)
    drawn = release.draw("mean", sums.moments(records, p, 1), sensitivity=planned.sensitivity)
    n, (total,) = sums.in_units(drawn, p)
    level = release.level("mean")
    m, error, low, high = ratio(total, n, planned, level, sums.steps(p)) if sums.hidden(p) else over_n(total, p, planned, level)
    low_, half = p.facts["value_low"], (p.facts["value_high"] - p.facts["value_low"]) / 2

    def value(c: float) -> float:
        return low_ + half * (1 + min(max(c, -1.0), 1.0))

    return Estimate(np.array([value(m)]), {"standard_error": error * half, "low": value(low), "high": value(high)})


def over_n(total: float, p: Problem, planned: noise.Noise, level: float) -> tuple[float, float, float, float]:
    """Mean, standard error and interval, of c."""
    law = noise.law(planned, level).times(1 / sums.steps(p) / p.n)
    half = law.half + 1 / sums.steps(p)
    return total / p.n, law.error, total / p.n - half, total / p.n + half


def ratio(total: float, count: float, planned: noise.Noise, level: float, k: int) -> tuple[float, float, float, float]:
    """The same from a noisy sum and a noisy count."""
    n = max(count, 1.0)
    m = min(max(total / n, -1.0), 1.0)
    error = min(sums.spread(planned, level, (1.0, -m), k) / n, 1.0)
    if count <= sums.quantile(planned, level, 1.0, k):
        return m, error, -1.0, 1.0
    return m, error, _end(total, count, planned, level, k, -1), _end(total, count, planned, level, k, 1)


def _end(total: float, count: float, planned: noise.Noise, level: float, k: int, side: int) -> float:
    """The outermost c in [-1, 1] on one side with side*(c count - total) <= h(c). By bisection: the left side rises in c faster than h,
    which is
    the quantile at 1 at most."""
    low, high = (-1.0, 1.0) if side > 0 else (1.0, -1.0)
    for _ in range(30):
        c = (low + high) / 2
        inside = side * (c * count - total) <= sums.quantile(planned, level, c, k)
        low, high = (c, high) if inside else (low, c)
    return high


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    if sums.hidden(p):
        return {}
    half = noise.law(mechanism(p, t), calibrated.levels["mean"]).half / sums.steps(p) / p.n + 1 / sums.steps(p)
    return {HALF: half * (p.facts["value_high"] - p.facts["value_low"]) / 2}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    if sums.hidden(p):
        return {}
    half = noise.law(mechanism(p, t), calibrated.levels["mean"]).half / sums.steps(p) / p.n + 1 / sums.steps(p)
    return {HALF: {"q": half}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Mean absolute error, of a mean halfway between the middle and an end where n is private."""
    planned, level = mechanism(p, t), calibrated.levels["mean"]
    if sums.hidden(p):
        error = 0.8 * sums.spread(planned, level, (1.0, -0.5), sums.steps(p)) / p.n
    else:
        error = noise.law(planned, level).mean / sums.steps(p) / p.n
    return error * (p.facts["value_high"] - p.facts["value_low"]) / 2
