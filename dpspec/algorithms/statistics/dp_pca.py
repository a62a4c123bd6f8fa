"""The k leading directions of the second moment (central model).

The second moment of the records with symmetric noise in one draw, Gaussian (isotropic in the Frobenius product) or Laplace at pure epsilon;
its k leading eigenvectors are post-processing, whatever k is. Sensitivity: sqrt(2) r^2/n where a record is replaced, r^2/n where it is
there or not (:mod:`dpspec.algorithms.statistics._symmetric`).

Source: Dwork, Talwar, Thakurta and Zhang 2014 (analyze Gauss); 000, section 6.2.3 prints sensitivity 1/n for replaced records.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Card, Need, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.matrix._moment import leading
from dpspec.algorithms.statistics import _symmetric as symmetric
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="dp-pca",
    title="Principal subspace of a noisy second moment",
    family="statistics",
    task="subspace",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("literature", "Dwork, Talwar, Thakurta and Zhang 2014", "analyze Gauss"),),
    summary="The second moment with symmetric noise, and its leading eigenvectors.",
    needs=(Need("x", "privacy", "|x|_2 <= r for every record"),),
    no_bound="the eigengap of the second moment decides the error",
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "64*d^2 + 8*1024*d"},
    reads="sums",
    spread=True,
    spec="specs/statistics/dp-pca.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.d > symmetric.LARGEST:
        return f"it keeps dense {p.d} x {p.d} matrices; d is at most {symmetric.LARGEST}"
    if "x_l2" not in p.facts:
        return "the enforced domain of x bounds no l2 norm (x in ball(l2, 1) by scale)"
    if not 1 <= p.facts.get("rank", 0) <= p.d:
        return f"a subspace of R^{p.d} has a dimension from 1 to {p.d}"
    if p.task.over is not None:
        return "it knows no set after `over`"
    return None


def mechanism(p: Problem) -> symmetric.Mechanism:
    return symmetric.mechanism(p, p.d, p.facts["x_l2"])


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("moment", mechanism(p))


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    drawn = release.draw("moment", symmetric.moment(records, lambda x, _: x, p.d, p.n), sensitivity=mechanism(p).sensitivity)
    values, vectors = leading((drawn + drawn.T) / 2, int(p.facts["rank"]))
    return Estimate(vectors, {"eigenvalues": np.asarray(values), "moment": np.asarray((drawn + drawn.T) / 2)})


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The noise over the declared gap, or over the mean eigenvalue; a sine is at most 1."""
    _, off, _ = symmetric.spread(mechanism(p), calibrated.scale("moment"))
    r = p.facts["x_l2"]
    error = 2 * off * math.sqrt(p.d) + r * math.sqrt(r**2 / p.d / p.n)
    return min(1.0, math.sqrt(p.facts["rank"]) * error / p.facts.get("gap", r**2 / p.d))
