"""Entrywise thresholding of the second moment without privacy: the reference of the sparse covariance algorithms.

sigma_ij 1[|sigma_ij| > gamma*sqrt(log d/n)], then the positive part. Source: 000, section 6.2.3 (citing [38], [60]). Study mode only.
"""

from __future__ import annotations

import math

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.matrix._moment import kept_above, positive_part, second_moment
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

CARD = Card(
    id="covariance-thresholding",
    title="Thresholded second moment (not private)",
    family="matrix",
    task="estimate",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("000", "6.2.3", "thresholding estimator of [38], [60]"),),
    summary="Hard thresholding of the entries of the second moment, positive part.",
    needs=(Need("sparse", "utility", "at most s non-zero off-diagonal entries a column"),),
    tunables={"gamma": Tunable("2*x_l2^2 else 2", "as dp-thresholding", minimum=0.0)},
    bounds=(Bound("operator-error", "order", "upper", "C*k*sqrt(log(d)/n)", "claimed", "000 section 6.2 [60], minimax"),),
    cost={"gradients": "0", "memory_bytes": "16*d*d"},
    role="reference",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return None if p.task.what in ("covariance", "second-moment") else "it estimates covariance(x)"


def schedule(p: Problem, t: Tunables) -> Tree:
    raise ValueError("a reference draws no noise")


def run(records: Rows, p: Problem, t: Tunables, release: Door | None) -> Estimate:
    """``release`` is not used."""
    tau = float(t.gamma) * math.sqrt(math.log(max(p.d, 2)) / p.n)
    return Estimate(positive_part(kept_above(second_moment(records), tau)))
