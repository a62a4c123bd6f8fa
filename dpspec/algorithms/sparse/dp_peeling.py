"""Peeling as a catalogue entry: the private largest entries of a vector.

The mechanism is :func:`dpspec.privacy.mechanisms.peeling.peeling` (selections and values, composed by the accountant) or
:class:`dpspec.privacy.mechanisms.peeling.Peeling` (one pure draw). dp-iht-truncated, dp-iht-subgaussian and the heavy-tailed sparse
algorithms draw from it.
"""

from __future__ import annotations

from dpspec.algorithms.card import Bound, Card, Fault, Need, Source
from dpspec.algorithms.sparse._central import EVIDENCE, PEELING_FAULTS

CARD = Card(
    id="dp-peeling",
    title="Peeling: the noisy largest entries of a vector",
    family="sparse",
    task="mechanism",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp", "pure"),
    sources=(Source("003", "5.1", "Algorithm 4", ("Theorem 6", "Theorem 8")),),
    summary="Choose the largest entry not yet chosen, as often as wanted, then release the chosen ones with noise.",
    needs=(Need("v", "privacy", "the vector moves by at most lam in l_inf between neighbours"),),
    bounds=(
        Bound(
            "largest noise",
            "explicit",
            "upper",
            "B*log((kept + 1)*d/zeta)",
            "proved",
            "Laplace tails",
            probability="1 - zeta",
            conditions="Laplace noise of scale B in selections and values",
            where={"B": "scale of the noise", "kept": "entries that are kept", "zeta": "chance of failure"},
        ),
    ),
    faults=(
        *PEELING_FAULTS,
        Fault(
            "003 Algorithm 4: scale 2 lam sqrt(3 s ln(1/delta))/epsilon",
            "more than needed: at s = 10, epsilon 1, delta 1e-6 it spends 0.64; the accountant needs less, and Gumbel selections half",
            EVIDENCE + "test_our_noise_is_below_the_printed_one",
            "utility",
        ),
        Fault("003 Algorithm 4: w for the noise", "it is the letter of the parameter", "docs/faults.md#letter-of-the-noise", "text"),
    ),
    role="mechanism",
)
