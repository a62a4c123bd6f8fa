"""Wishart noise for second moments, as a catalogue entry.

The mechanisms are :class:`dpspec.privacy.mechanisms.wishart_one_sided.Wishart` ((epsilon, delta)-DP, positive semi-definite),
:class:`dpspec.privacy.mechanisms.wishart.SymmetrisedWishart` (pure, mean 0) and the channel
:class:`dpspec.privacy.channels.wishart_outer.WishartOuter`. Algorithms draw from them: dp-precision-covariance, dp-precision-output,
distributed-precision-wishart, ldp-precision.
"""

from __future__ import annotations

from dpspec.algorithms.card import Bound, Card, Fault, Need, Source
from dpspec.algorithms.matrix._common import ONE_SIDED

CARD = Card(
    id="wishart",
    title="Wishart noise: one-sided (approximate DP) and symmetrised (pure DP)",
    family="matrix",
    task="mechanism",
    models=("central", "nldp", "sldp"),
    guarantees=("approx", "pure"),
    sources=(Source("000", "6.3.2", "Definition 6.3.1", ("Lemma 6.3.1", "Lemma 6.3.2", "Lemma 6.3.3", "Lemma 6.3.4")),),
    summary="M + W_d(m, C) with m and C from a proved tail of the loss; W1 - W2 for pure DP, scaled to the nuclear norm.",
    needs=(Need("x", "privacy", "|x|_2 <= r for every record"),),
    bounds=(
        Bound(
            "operator-norm",
            "explicit",
            "upper",
            "scale*(sqrt(m) + sqrt(d) + sqrt(2*log(20)))^2",
            "proved",
            "000 Lemma 6.3.3, upper half, any m",
            probability="0.95",
        ),
        Bound(
            "operator-norm",
            "order",
            "upper",
            "C*d*log(d)*scale",
            "proved",
            "000 Lemma 6.3.4",
            conditions="m = d + 1; the log d is an artefact",
        ),
    ),
    faults=(
        ONE_SIDED,
        Fault(
            "000, Lemma 6.3.2: C = 3/(2 n eps) B^2 I for A^T A",
            "the matrix released must be A^T A/n",
            "docs/faults.md#normalisation-of-a-wishart",
            "text",
        ),
        Fault(
            "000, Lemma 6.3.1 (recalled from [254] without a factor 2)",
            "safe for epsilon < 1 with much slack; the calibration here is proved and smaller",
            "tests/algorithms/matrix/test_matrix_central.py::test_the_wishart_calibration_is_valid_and_below_the_printed_one",
            "utility",
        ),
    ),
    role="mechanism",
)
