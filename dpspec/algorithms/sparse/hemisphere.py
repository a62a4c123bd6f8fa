"""The hemisphere randomizer as a catalogue entry: a pure LDP unbiased report of a vector of the l2 ball.

The channel is :class:`dpspec.privacy.channels.hemisphere.Hemisphere`; ldp-iht and ldp-iht-nonlinear use it.
"""

from __future__ import annotations

from dpspec.algorithms.card import Bound, Card, Fault, Need, Source

_CHANNEL = "tests/algorithms/test_ldp_iht.py::"

CARD = Card(
    id="hemisphere",
    title="Hemisphere randomizer for vectors of the l2 ball",
    family="sparse",
    task="mechanism",
    models=("nldp", "sldp"),
    guarantees=("pure", "approx"),
    sources=(Source("000", "5.3.3", "equation (5.75)", ("Lemma 5.3.1",)), Source("004", "C", "equation (6)", ("Lemma 8",))),
    summary="A random direction, turned towards or away from the record; one vector of fixed length a user.",
    needs=(
        Need("x", "privacy", "none: the client scales its vector into the ball", enforced_by="the client scales its vector into the ball"),
    ),
    bounds=(
        Bound(
            "variance",
            "explicit",
            "upper",
            "pi/2*r^2*((exp(epsilon) + 1)/(exp(epsilon) - 1))^2",
            "proved",
            "000 Lemma 5.3.1, 004 Lemma 8, with the constant",
            conditions="per coordinate; tends to pi/2*r^2 as epsilon grows",
            where={"r": "length of a vector, at most"},
        ),
    ),
    faults=(
        Fault(
            "000 eq. (5.75), 004 eq. (6): length O(r sqrt(d))",
            "the factor (e^eps + 1)/(e^eps - 1) is missing: as written E R(x) = x is false",
            _CHANNEL + "test_the_printed_length_is_biased",
            "utility",
        ),
        Fault(
            "000, 004: the Bernoulli parameter 1/2 + |x|/(2r) for any x",
            "undefined above r (it happens in 000's own algorithm); the client clips and never raises or abstains",
            "tests/algorithms/test_printed_leaks.py::test_a_bernoulli_parameter_above_one_stops_the_run",
            "privacy",
        ),
        Fault("000 b x/|x| against 004 b r x/|x|", "only the direction matters", "docs/faults.md#direction-of-a-report", "text"),
    ),
    role="mechanism",
)
