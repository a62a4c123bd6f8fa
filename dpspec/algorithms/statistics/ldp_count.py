"""How many records satisfy a condition, by randomised response (local model).

Each client answers 1 or -1, and keeps the answer with probability e^epsilon/(1 + e^epsilon): Warner's randomised response, which is
:class:`dpspec.privacy.channels.one_bit.OneBitMean` at an end of its interval. The count is n (1 + average)/2, with variance n (B^2 - 1)/4,
B = (e^epsilon + 1)/(e^epsilon - 1), whatever the records are. Source: Warner 1965; optimal for one bit (Kairouz, Oh and Viswanath 2016).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpspec.algorithms.card import Card, Problem, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _local as local
from dpspec.models.column_features import Satisfied
from dpspec.models.columns import Conditions
from dpspec.models.door import Door
from dpspec.models.features import Feature
from dpspec.models.rows import Rows
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="ldp-count",
    title="A count by randomised response",
    family="statistics",
    task="count",
    models=("nldp", "sldp"),
    guarantees=("pure", "approx"),
    sources=(local.ONE_BIT,),
    summary="Each user answers whether its record satisfies the condition, by randomised response; the answers are counted and corrected.",
    needs=(local.OWN,),
    no_bound="every release states the standard error of its reports",
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "1", "memory_bytes": "8*8192"},
    reads="sums",
    spec="specs/statistics/ldp-count.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("answer", OneBitMean(1.0), per="user")


def answers(records: Any, conditions: Conditions) -> Iterator[Any]:
    """1 or -1 of each user, (rows, 1)."""
    for x, y in records.blocks(local.ROWS):
        yield np.where(conditions.hold(x, y), 1.0, -1.0)[:, None]


def client(p: Problem[Conditions], t: Tunables) -> dict[str, Feature]:
    return {"answer": Satisfied(p.oracle.parts)}


def run(records: Rows, p: Problem[Conditions], t: Tunables, release: Door) -> Estimate:
    share = (1 + float(np.ravel(release.mean_blocks("answer", answers(records, p.oracle)))[0])) / 2
    value = p.n * share
    return Estimate(np.array([value]), local.around(value, error(p, release.scale("answer")), 0.0, float(p.n)))


def error(p: Problem, length: float) -> float:
    return float(np.sqrt(p.n * max(length**2 - 1, 0.0)) / 2)


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Mean absolute error."""
    return 0.8 * error(p, calibrated.scale("answer"))
