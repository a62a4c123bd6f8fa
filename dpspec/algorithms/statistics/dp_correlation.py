"""The correlations of the columns of the records (central model).

    r_ij = C_ij/sqrt(C_ii C_jj), C the covariance of :mod:`dpspec.algorithms.statistics.dp_centred_covariance`: second moment and mean in
    one draw of symmetric noise, after which everything is post-processing.

Sensitivity and noise are those of the covariance. Nothing is divided by a variance that the noise hides: where the noisy C_ii is below
twice its standard error, the correlations of i are 0 and their interval is [-1, 1]. Elsewhere the standard error is of first order,

    var r_ij = var C_ij/(C_ii C_jj) + r_ij^2/4 (var C_ii/C_ii^2 + var C_jj/C_jj^2),

which takes the three for uncorrelated. The covariance is released beside them: it is paid for. Released correlations are those of a
positive semi-definite matrix (``psd = on``).

Source: Dwork, Talwar, Thakurta and Zhang 2014 (analyze Gauss) for the noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpspec.algorithms.card import Card, Problem, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.matrix._moment import positive_part
from dpspec.algorithms.statistics import _symmetric as symmetric
from dpspec.algorithms.statistics import dp_centred_covariance as covariance
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="dp-correlation",
    title="Correlations",
    family="statistics",
    task="correlation",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=covariance.CARD.sources,
    summary="A centred covariance in one draw of symmetric noise, divided by its own deviations where the noise does not hide them.",
    needs=covariance.CARD.needs,
    tunables=covariance.CARD.tunables,
    options=covariance.CARD.options,
    no_bound="the error depends on the variances, which the noisy covariance carries; every release states its standard errors",
    cost=covariance.CARD.cost,
    spec="specs/statistics/dp-correlation.dps",
    centres=True,
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.d < 2:
        return "a correlation is of two columns"
    return covariance.fits(p)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("moment", covariance.mechanism(p, t))


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    second, mean, error, reach = covariance.released(records, p, t, release)
    raw = second - np.outer(mean, mean)
    found = positive_part(raw) if t.psd == "on" else raw
    variance, own = np.diag(found), np.diag(error)
    seen = variance > 2 * own
    deviation = np.sqrt(np.where(seen, variance, 1.0))
    r = np.where(np.outer(seen, seen), np.clip(found / np.outer(deviation, deviation), -1.0, 1.0), 0.0)
    relative = np.where(seen, own / np.where(seen, variance, 1.0), 0.0) ** 2
    spread = np.sqrt((error / np.outer(deviation, deviation)) ** 2 + r**2 / 4 * (relative[:, None] + relative))
    spread = np.where(np.outer(seen, seen), np.minimum(spread, 1.0), 1.0)
    low, high = np.clip(r - reach * spread, -1.0, 1.0), np.clip(r + reach * spread, -1.0, 1.0)
    hidden = ~np.outer(seen, seen)
    low[hidden], high[hidden] = -1.0, 1.0
    for matrix, value in ((r, 1.0), (spread, 0.0), (low, 1.0), (high, 1.0)):
        np.fill_diagonal(matrix, value)
    return Estimate(r, {"standard_error": spread, "low": low, "high": high, "covariance": found})


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Of one correlation, at variances of r^2/(4 d)."""
    _, off, _ = symmetric.spread(covariance.mechanism(p, t), calibrated.scale("moment"))
    return float(min(0.8 * off * 4 * p.d / p.facts["x_l2"] ** 2, 1.0))
