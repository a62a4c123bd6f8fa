"""A histogram over public cells, one set a user (local model).

Each client tells its cell, or that it is in none, by subset selection among the K + 1 answers: a random set that tends to hold the true one
(:class:`dpspec.privacy.channels.subset_selection.SubsetSelection`), epsilon-LDP. Minimax optimal at every epsilon (Ye and Barg 2018);
where sets of one are best, that is at large epsilon or few cells, it is k-ary randomised response. The last answer is dropped.

Variance of a count: n (f p (1 - p) + (1 - f) q (1 - q))/(p - q)^2 for a cell with the share f, p and q the chances that a set holds the
true answer and another one; stated at the estimated f.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpspec.algorithms.card import Card, Problem, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _local as local
from dpspec.models.column_features import cell_of
from dpspec.models.columns import Cells
from dpspec.models.door import Door
from dpspec.models.features import Feature
from dpspec.models.rows import Rows
from dpspec.privacy.channels.subset_selection import SubsetSelection
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="ldp-histogram",
    title="A histogram by subset selection",
    family="statistics",
    task="histogram",
    models=("nldp", "sldp"),
    guarantees=("pure", "approx"),
    sources=(local.SUBSETS,),
    summary="Each user reports a random set of cells that tends to hold its own; how often each cell is reported gives the counts.",
    needs=(local.OWN,),
    no_bound="every release states the standard errors of its reports",
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "cells + 1", "memory_bytes": "8*8192*(cells + 1)"},
    reads="sums",
    spec="specs/statistics/ldp-histogram.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("cell", SubsetSelection(int(p.facts["cells"]) + 1), per="user")


def told(records: Any, cells: Cells) -> Iterator[Any]:
    """The cell of each user, the last code for none."""
    edges = np.asarray(cells.edges, dtype=np.float64)
    for x, y in records.blocks(local.ROWS):
        at = cells.column.cells(x, y, edges) if cells.edges else cells.column.codes(x, y)
        yield np.where(at < 0, len(cells.names), at)


def client(p: Problem[Cells], t: Tunables) -> dict[str, Feature]:
    return {"cell": cell_of(p.oracle)}


def run(records: Rows, p: Problem[Cells], t: Tunables, release: Door) -> Estimate:
    shares = np.ravel(release.mean_blocks("cell", told(records, p.oracle)))[:-1]
    error = errors(shares, p, release.level("cell"))
    value = p.n * shares
    low, high = (np.clip(value + side * local.REACH * error, 0.0, float(p.n)) for side in (-1, 1))
    return Estimate(value, {"standard_error": error, "low": low, "high": high})


def errors(shares: Any, p: Problem, level: float) -> Any:
    """Standard errors of the counts."""
    channel = SubsetSelection(int(p.facts["cells"]) + 1)
    truth, width = float(channel.truth(level)), channel.width(level)
    other = (truth * (width - 1) + (1 - truth) * width) / (channel.k - 1)
    f = np.clip(shares, 0.0, 1.0)
    return np.sqrt(p.n * (f * truth * (1 - truth) + (1 - f) * other * (1 - other))) / (truth - other)


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Mean absolute error a cell."""
    cells = int(p.facts["cells"])
    return 0.8 * float(np.mean(errors(np.full(cells, 1.0 / (cells + 1)), p, calibrated.levels["cell"])))
