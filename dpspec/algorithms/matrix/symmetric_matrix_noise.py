"""Symmetric Gaussian and Laplace noise for second moments, as a catalogue entry.

The mechanisms are in :mod:`dpspec.privacy.mechanisms.symmetric` (``GaussianSymmetric``, ``LaplaceSymmetric``) and the channel in
:mod:`dpspec.privacy.channels.gaussian_outer`. Every algorithm of this family draws from them.
"""

from __future__ import annotations

from dpspec.algorithms.card import Bound, Card, Need, Source
from dpspec.algorithms.matrix._common import sensitivity_fault

CARD = Card(
    id="symmetric-matrix-noise",
    title="Symmetric Gaussian and Laplace noise for second moments",
    family="matrix",
    task="mechanism",
    models=("central", "nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp", "pure"),
    sources=(Source("000", "6.3.5", "Algorithm 6.3.51", ("Theorem 6.3.5", "Theorem 6.3.7")), Source("000", "6.1.3", "Algorithm 6.1.46")),
    summary="Noise on the upper triangle, copied: isotropic in the Frobenius product or equal on every entry; Laplace for pure DP.",
    needs=(Need("x", "privacy", "|x|_2 <= r for every record"),),
    bounds=(
        Bound(
            "operator-norm",
            "explicit",
            "upper",
            "scale*(sqrt(2*d) + sqrt(2*log(40)))",
            "proved",
            "Gordon and Gaussian concentration, isotropic",
            probability="0.95",
        ),
        Bound("operator-norm", "order", "upper", "C*scale*sqrt(d)", "proved", "000 section 6.1.6"),
    ),
    faults=(sensitivity_fault("000, Theorem 6.3.7 and every Gaussian matrix of chapter 6"),),
    role="mechanism",
)
