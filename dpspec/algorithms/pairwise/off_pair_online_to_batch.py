"""Pairwise learning by averaging what an online method would release (online-to-batch, central model).

Runs the steps of on-pair-c (or, on the spec's own ridge, of on-pair-str-c: alpha = 0 where lam is enough) over the records in their order
and releases the average of w_0, ..., w_{Q-1}, the points that were evaluated; the transcript is private as a whole, so its average is.
Sensitivity and accounting: :mod:`dpspec.algorithms.pairwise._stream`.

Source: 000, section 3.3.3, Theorem 3.3.5, Lemma 3.3.5, Remark 3.3.2. Differences: the T_1 points of the start phase are not in the
average; the released point is fed back; blocks. off-pair-c and off-pair-str-c add noise once and need smoothness; this one does not, so
it serves hinge losses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.pairwise import _stream
from dpspec.algorithms.pairwise._printed import feedback
from dpspec.algorithms.pairwise._stream import (
    PairOracle,
    accepts,
    bound_terms,
    explicit_bounds,
    influence,
    predicted,
    schedule,
    sensitivity,
)
from dpspec.models.door import Door
from dpspec.models.rows import Rows

__all__ = ["CARD", "accepts", "bound_terms", "explicit_bounds", "influence", "predicted", "published", "run", "schedule", "sensitivity"]

#: The average is of the points before the last one, so with one block it is the start: an audit takes more records.
AUDIT_RECORDS = 4

_TESTS = "tests/algorithms/pairwise/test_off_pair_online_to_batch.py::"
_OFFLINE = "tests/algorithms/pairwise/test_off_pair_c.py::"

CARD = Card(
    id="off-pair-online-to-batch",
    title="Pairwise learning by averaging an online method",
    family="pairwise",
    task="minimise-pairwise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "3.3.3", "Algorithms 3.3.9 and 3.3.10, averaged", ("Theorem 3.3.5", "Lemma 3.3.5")),),
    summary="One pass of noisy gradient steps, each block of records against all earlier ones; the average of the points is released.",
    needs=(
        Need("lipschitz", "privacy", "the gradient of every pair has l2 norm at most L on the set"),
        Need("convex", "utility", "the loss of a pair is convex in w"),
    ),
    tunables={
        "reach": _stream.REACH,
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "every": _stream.EVERY_OFFLINE,
        "T_1": _stream.T_1_EARLIER,
        "alpha": _stream.ALPHA,
        "shift": _stream.shift("alpha + lam", 16),
        "tail": Tunable("1/2", "share of the points after the start phase that is averaged; 000: all iterates", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "regret",
            "explicit",
            "upper",
            "(first*L*D + every*(A*c*D^2/2 + (L^2 + d*scale^2)/(2*A)*H + Q*ridge*D^2/2))/(n - 1)",
            "proved",
            _stream.THEOREM,
            conditions="of the sequence that is averaged: mean over the penalties, in expectation over the noise",
            where={
                "first": "records of the start phase, less one",
                "A": "strength: lam, or alpha + lam",
                "ridge": "what is added to lam, alpha or 0",
                "c": "shift of the steps",
                "Q": "blocks after the start phase",
                "H": "sum over j < Q of 1/(j + c), at most log((Q + c)/c) + 1/c",
            },
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*(D*L*sqrt(d/n) + D*L*(d*log(1/delta))^(1/4)/sqrt(n*epsilon) + L*D*sqrt(log(n/zeta)/n))",
            "claimed",
            "000 Lemma 3.3.5 with the explicit regret, Rademacher averages of order L*D*sqrt(d/n)",
            probability="1 - 2*zeta",
            conditions="tail = 1 (a share: over it); records independent of each other",
        ),
    ),
    faults=(
        Fault(
            "000 section 3.3.5: raw features, and G, B of the loss without its ridge",
            "records are enforced to lie in the declared set, each by itself, and the ridge cancels between pairs",
            _OFFLINE + "test_raw_features_break_the_printed_sensitivity",
            "privacy",
        ),
        Fault(
            "000 (3.116), (3.117): without 6 G |C| sqrt(log(n/zeta)/(n - 1)) of Lemma 3.3.5",
            "absorbed by the first term only where constants are at least 1; it is in the bound of this card",
            "docs/faults.md#pairwise-dropped-deviation",
            "utility",
        ),
        Fault(
            "000 section 3.3.3: the average of w_1, ..., w_{n-1}",
            "T_1 of them are random points of the set; the average here is over t > T_1 alone",
            _TESTS + "test_the_start_phase_is_not_in_the_average",
            "utility",
        ),
    ),
    margins="several",
    cost={"gradients": "n^2/2", "rounds": "n/every", "memory_bytes": "8*n*(d + 2)"},
    spec="specs/pairwise/off-pair-online-to-batch.dps",
)


def run(records: Rows, p: Problem[PairOracle], t: Tunables, release: Door) -> Estimate:
    """``theta``: the average of the last ``tail`` of w_0, ..., w_{Q-1}."""
    path = np.asarray(_stream.run(records, p, t, release).extras["transcript"])[:-1]
    return Estimate(p.objective.over.project(path[-max(1, int(np.ceil(t.tail * len(path)))) :].mean(axis=0)))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The printed noise of the method that is averaged, with the released point fed back, and what it really spends."""
    source = "000 Algorithm 3.3.10" if t.alpha > 0 else "000 Algorithm 3.3.9"
    return feedback(p, t, budget, source + ", averaged", _stream.strength_of(p, t), float(t.alpha))
