"""Random Fourier features of a shift-invariant kernel: a public map of records to vectors of norm 1.

k(x - x') = E cos(<s, x - x'>) for s of the kernel's spectral law (Bochner): normal of variance 2 gamma a coordinate for the rbf kernel
exp(-gamma |x - x'|_2^2), Cauchy of scale gamma for the laplacian kernel exp(-gamma |x - x'|_1). With D frequencies

    phi(x) = (cos<s_1, x>, ..., cos<s_D, x>, sin<s_1, x>, ..., sin<s_D, x>)/sqrt(D),    |phi(x)|_2 = 1,    E <phi(x), phi(x')> = k(x - x').

The frequencies are public and read no record. Because the norm is 1 for every record, a local channel of radius 1 clips nothing. The
paper's cos(<s, x> + b)/sqrt(D) has inner products near k/2, and sqrt(2/D) in the place of 1/sqrt(D) gives norms up to sqrt(2).

Source: 001, section 3.3, Algorithm 4, steps 1 and 3, Lemma 7 (Rahimi and Recht 2007; Rubinstein et al. 2012).
"""

from __future__ import annotations

import math

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Source
from dpspec.algorithms.sets import Vector
from dpspec.models.door import PublicCoins

_EVIDENCE = "tests/algorithms/nldp_erm/test_random_fourier_features.py::"

CARD = Card(
    id="random-fourier-features",
    title="Random Fourier features",
    family="nldp_erm",
    task="primitive",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("001", "3.3", "Algorithm 4, steps 1 and 3", ("Lemma 7",)),),
    summary="Cosines and sines of random public frequencies: vectors of norm 1 whose inner products are near a shift-invariant kernel.",
    bounds=(
        Bound(
            "sup kernel error on m pairs",
            "explicit",
            "upper",
            "sqrt(2*log(2*m/zeta)/D)",
            "proved",
            "Hoeffding's inequality for D cosines, m pairs",
            probability="1 - zeta",
            conditions="pairs that do not depend on the frequencies",
        ),
        Bound(
            "sup kernel error",
            "order",
            "upper",
            "C*sqrt(d*log(D)/D)",
            "claimed",
            "001, proof of Corollary 2 (Rahimi and Recht 2007)",
            conditions="over a compact domain",
        ),
    ),
    faults=(
        Fault(
            "001 Algorithm 4: cos(<s, x> + b) times sqrt(1/D)",
            "inner products are near k/2; cosines and sines of the same D frequencies over sqrt(D) have the mean k",
            _EVIDENCE + "test_the_printed_scale_estimates_half_of_the_kernel",
            "utility",
        ),
        Fault(
            "the usual repair, sqrt(2/D) cos(<s, x> + b), under noise for vectors of norm 1",
            "norms reach sqrt(2), so two records differ by up to 2 sqrt(2); pairs have norm 1 for every record",
            _EVIDENCE + "test_shifted_cosines_are_longer_than_one_and_pairs_never",
            "privacy",
        ),
        Fault(
            "001 section 3.3: bandwidth and C without a word where they come from",
            "a median heuristic or cross-validation reads the records; here both stand in the spec",
            _EVIDENCE + "test_a_bandwidth_of_the_data_is_a_function_of_the_data",
            "privacy",
        ),
        Fault(
            "001 section 3.3: f(s) = (1/2 pi) int exp(-j <s, x>) k(x) dx",
            "(2 pi)^-d in d dimensions",
            "docs/faults.md#density-of-frequencies",
            "text",
        ),
    ),
    role="primitive",
)

#: Kernels and what their parameter gamma is.
KERNELS = ("rbf", "laplacian")


def frequencies(kernel: str, gamma: float, pairs: int, d: int, coins: PublicCoins) -> Vector:
    """D frequencies, (pairs, d). Raises ValueError for a kernel that is not one of :data:`KERNELS`."""
    if kernel == "rbf":
        return np.asarray(coins.standard_normal((pairs, d)) * math.sqrt(2 * gamma))
    if kernel == "laplacian":
        return np.asarray(coins.standard_cauchy((pairs, d)) * gamma)
    raise ValueError(f"no kernel {kernel!r}: {' or '.join(KERNELS)}")


def features(x: Vector, s: Vector) -> Vector:
    """phi of each row, (rows, 2 pairs), of norm 1 up to rounding. A row with an angle that is no number has NaNs."""
    with np.errstate(all="ignore"):
        angles = x @ s.T
        return np.asarray(np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / math.sqrt(len(s)))
