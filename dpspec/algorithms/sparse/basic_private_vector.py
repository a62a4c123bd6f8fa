"""The clipped Gaussian vector as a catalogue entry: one user's vector, scaled into a ball, with Gaussian noise.

The channel is :class:`dpspec.privacy.channels.gaussian_vector.GaussianVector`; a record with a NaN or an infinity counts as 0.
"""

from __future__ import annotations

from dpspec.algorithms.card import Bound, Card, Fault, Need, Source

_EVIDENCE = "tests/algorithms/sparse/test_mechanisms.py::"

CARD = Card(
    id="basic-private-vector",
    title="Clipped vector with Gaussian noise",
    family="sparse",
    task="mechanism",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("001", "2.1", "Algorithm 1", ("Lemma 1", "Theorem 1")),),
    summary="Scale into the ball of radius B, add N(0, (2B/mu)^2) to every coordinate, send once.",
    needs=(Need("x", "privacy", "|x|_2 <= B", enforced_by="the client scales its vector into the ball"),),
    bounds=(
        Bound(
            "squared error of a report",
            "explicit",
            "upper",
            "d*8*B^2*log(5/(4*delta))/epsilon^2",
            "proved",
            "Gaussian moments at the classical scale, which ours is below",
            conditions="in expectation, epsilon <= 1",
            when=("epsilon <= 1",),
            where={"B": "length of a vector, at most"},
        ),
    ),
    faults=(
        Fault(
            "001 Algorithm 1: sigma = sqrt(2 ln(1.25/delta))/epsilon on the unit ball",
            "two points of the ball are at distance 2: nominal (1, 1e-5) spends epsilon 1.61, nominal 5 spends 10.4",
            _EVIDENCE + "test_the_printed_scale_is_a_factor_two_too_small",
            "privacy",
        ),
        Fault(
            "001 Algorithm 1, steps 2-4: clip where |x| > 1",
            "|NaN| > 1 is false and inf/inf is NaN: the report then identifies its input; such a record counts as 0 here",
            _EVIDENCE + "test_a_vector_that_is_not_finite_is_reported_like_zero",
            "privacy",
        ),
        Fault(
            "001 Lemma 1: for every epsilon",
            "the classical scale is proved for epsilon <= 1 and false from about 8 to 9; the noise here is exact",
            _EVIDENCE + "test_the_classical_scale_fails_at_large_epsilon",
            "privacy",
        ),
    ),
    role="mechanism",
)
