"""The mean of records in an l2 ball with Gaussian noise.

    mean = (1/n) sum x_i + N(0, s^2 I), |x_i|_2 <= R enforced.

Sensitivity: a replaced record moves the sum by 2 R, one that is added, removed or zeroed by R; over the public n, in l2, one draw.
"""

from __future__ import annotations

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Card, Need, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="sample-gaussian-mean",
    title="A mean with Gaussian noise, of a sample package",
    family="sample",
    task="mean",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("literature", "Dwork and Roth 2014, appendix A"),),
    summary="The sum of the enforced records over the public n, plus Gaussian noise calibrated to the radius.",
    needs=(Need("x", "privacy", "|x|_2 <= R for every record"),),
    no_bound="a sample states none",
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "8*32768*d"},
    reads="sums",
    spec="sample-gaussian-mean.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.what != "mean":
        return f"it estimates mean(x), not {p.task.what}(x)"
    return None if "x_l2" in p.facts else "the l2 norm of x is not enforced"


def sensitivity(p: Problem) -> float:
    moved = 2.0 if p.neighbours == "replace-one" else 1.0
    return sums.sensitivity(moved * p.facts["x_l2"] / p.n, p.n, moved, hidden=p.neighbours == "add-remove")


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("mean", Gaussian(sensitivity(p), p.d))


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    total = sums.Sum(p.d)
    for x, _ in records.blocks(sums.block_rows(1 << 18, p.d)):
        total.add((x if isinstance(x, np.ndarray) else x.toarray()).sum(axis=0))
    noisy = np.atleast_1d(release.draw("mean", total.value / p.n, sensitivity=sensitivity(p)))
    return Estimate(constraint_set(p.task.over, p.facts).project(noisy))
