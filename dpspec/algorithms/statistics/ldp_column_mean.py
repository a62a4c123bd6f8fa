"""The mean of a column, one bit a user (local model).

Each client puts its number v of [low, high] to c = (2v - low - high)/(high - low), draws the sign with mean c, and flips it with
probability 1/(1 + e^epsilon) (:class:`dpspec.privacy.channels.one_bit.OneBitMean`): epsilon-LDP whatever the record holds. The average of
the reports has the variance (B^2 - mean c^2)/n, B = (e^epsilon + 1)/(e^epsilon - 1); B^2/n is stated. Source: Duchi, Jordan and
Wainwright 2018.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpspec.algorithms.card import Card, Problem, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _local as local
from dpspec.models import column_features
from dpspec.models.columns import Column
from dpspec.models.door import Door
from dpspec.models.features import Feature
from dpspec.models.rows import Rows
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="ldp-column-mean",
    title="The mean of a column by one bit a user",
    family="statistics",
    task="column-mean",
    models=("nldp", "sldp"),
    guarantees=("pure", "approx"),
    sources=(local.ONE_BIT,),
    summary="Each user reports the randomised sign of its centred number; the reports are averaged.",
    needs=(local.OWN,),
    no_bound="every release states the standard error of its reports",
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "1", "memory_bytes": "8*8192"},
    reads="sums",
    spec="specs/statistics/ldp-column-mean.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if "auto" in p.facts:
        return "the bounds of its column are auto, and it has to know them: dp-auto-bounds finds them"
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("report", OneBitMean(1.0), per="user")


def centred(records: Any, column: Column) -> Iterator[Any]:
    """c of each user, (rows, 1)."""
    for x, y in records.blocks(local.ROWS):
        yield column_features.centred(column, x, y)


def client(p: Problem[Column], t: Tunables) -> dict[str, Feature]:
    return {"report": column_features.Centred(p.oracle)}


def run(records: Rows, p: Problem[Column], t: Tunables, release: Door) -> Estimate:
    c = float(np.ravel(release.mean_blocks("report", centred(records, p.oracle)))[0])
    low, half = p.facts["value_low"], (p.facts["value_high"] - p.facts["value_low"]) / 2
    value = low + half * (1 + min(max(c, -1.0), 1.0))
    error = half * local.one_bit_error(release.scale("report"), p.n)
    return Estimate(np.array([value]), local.around(value, error, low, low + 2 * half))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Mean absolute error."""
    half = (p.facts["value_high"] - p.facts["value_low"]) / 2
    return 0.8 * half * local.one_bit_error(calibrated.scale("report"), p.n)
