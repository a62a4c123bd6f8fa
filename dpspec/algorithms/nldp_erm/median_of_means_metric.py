"""The estimate in the middle of several: the one with the smallest ball around it that holds half of them.

theta_1, ..., theta_m are independent points of a metric space, each within e of theta with probability 2/3 or more. With r_i the radius of
the smallest ball around theta_i that holds at least m/2 of them (itself included), theta_i of least r_i is within 3 e of theta with
probability 1 - exp(-m/18): more than m/2 points are within e of theta except with that probability (Hoeffding, 2/3 - 1/2 = 1/6), so a good
point has r <= 2 e, and the chosen ball, of radius at most 2 e, holds a good one. The printed condition, failure with probability at most
2/3, says nothing: then most points may be far.

Source: 001, section 3.1, inner loop of Algorithm 2, Lemma 4 (Hsu and Sabato 2016, Proposition 9).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Source
from dpspec.algorithms.sets import Vector
from dpspec.numeric.norms import lengths

_EVIDENCE = "tests/algorithms/nldp_erm/test_median_of_means_metric.py::"

CARD = Card(
    id="median-of-means-metric",
    title="Median of means in a metric space",
    family="nldp_erm",
    task="primitive",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("001", "3.1", "inner loop of Algorithm 2", ("Lemma 4",)),),
    summary="Of several estimates the one with the smallest ball around it that holds half of them: post-processing.",
    needs=(Need("groups", "utility", "the estimates are independent, each within e of the truth with probability 2/3"),),
    bounds=(
        Bound(
            "distance to the truth",
            "explicit",
            "upper",
            "3*e",
            "proved",
            "001 Lemma 4 with the condition mended",
            probability="1 - exp(-m/18)",
            conditions="m independent estimates, each within e with probability 2/3",
            where={"e": "error of one estimate with probability 2/3"},
        ),
    ),
    faults=(
        Fault(
            "001 Lemma 4: an estimate fails with probability at most 2/3",
            "at most 1/3: with 2/3 a far cluster of the failed is the majority",
            _EVIDENCE + "test_a_majority_of_failures_is_what_it_returns",
            "utility",
        ),
    ),
    role="primitive",
)


def central(points: Vector, norm: Literal["l1", "l2", "linf"] = "l1") -> Vector:
    """Of the rows, (m, p), the one with the smallest ball around it that holds half of them; the first of several."""
    far = np.sort([lengths(points - one, norm).values for one in points], axis=1)
    return np.asarray(points[int(np.argmin(far[:, math.ceil(len(points) / 2) - 1]))])


def groups(zeta: float) -> int:
    """How many groups make the failure probability zeta: ceil(18 log(1/zeta))."""
    return math.ceil(18 * math.log(1 / zeta))
