"""A count with the noise that is optimal for it (central model).

    release c + Z, c the number of records that satisfy the condition, P(Z = z) proportional to e^(-epsilon |z|); discrete Gaussian under
    rho, mu.

Sensitivity: a record satisfies the condition or not, so c moves by at most 1 under each relation, exactly, and by the number of records
where a unit has several. One draw.

Source: Ghosh, Roughgarden and Sundararajan 2009: discrete Laplace noise minimises the expected loss of every observer of a count, at pure
epsilon. Canonne, Kamath and Steinke 2020 for the discrete Gaussian. With a delta the pure noise is compared with the Gaussian one by mean
error; for a single count it wins at every usual budget.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Problem, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.columns import Conditions
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpspec.privacy.schedule import Draw, Tree

HALF = "the exact quantile of the noise"

CARD = Card(
    id="dp-count",
    title="A count with geometric noise",
    family="statistics",
    task="count",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(noise.GEOMETRIC, noise.GAUSSIAN),
    summary="How many records satisfy a condition, plus discrete Laplace noise (discrete Gaussian under rho and mu): exact integers.",
    needs=(noise.ONCE,),
    options=noise.OPTION,
    bounds=(
        Bound(
            "absolute-error",
            "explicit",
            "upper",
            "q",
            "proved",
            HALF,
            probability="0.95",
            where={"q": "the 0.95 quantile of the noise, about scale*log(40)"},
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "8*65536"},
    reads="sums",
    spread=True,
    spec="specs/statistics/dp-count.dps",
    contributions=True,
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return noise.refused(p, t)


def mechanism(p: Problem, t: Tunables) -> noise.Noise:
    return noise.chosen(p, t, DiscreteLaplace(float(p.rows)), DiscreteGaussian(float(p.rows)))


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("count", mechanism(p, t))


def run(records: Rows, p: Problem[Conditions], t: Tunables, release: Door) -> Estimate:
    found = float(np.ravel(release.draw("count", np.array([p.oracle.count(records)]), sensitivity=float(p.rows)))[0])
    law = noise.law(mechanism(p, t), release.level("count"))
    return Estimate(np.array([found]), {"standard_error": law.error, "low": max(found - law.half, 0.0), "high": max(found + law.half, 0.0)})


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    return {HALF: noise.law(mechanism(p, t), calibrated.levels["count"]).half}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return {HALF: {"q": noise.law(mechanism(p, t), calibrated.levels["count"]).half}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Mean absolute error."""
    return noise.law(mechanism(p, t), calibrated.levels["count"]).mean
