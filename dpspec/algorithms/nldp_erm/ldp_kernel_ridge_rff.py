"""Kernel ridge regression from noisy products of random Fourier features, one message a user (non-interactive local model).

phi(x) = (cos<s_j, x>, sin<s_j, x>)_j/sqrt(D) with D public frequencies has norm 1 (``random-fourier-features``). Each user sends its
phi phi^T (upper triangle) and phi y, y clipped at tau, plus Gaussian noise: sensitivities sqrt(2) and 2 tau, exact composition mu^2 = sum
1/l^2. With S, b the means of the reports, S^+ the part of S with eigenvalues above 0,

    w = argmin C (<w, S^+ w>/2 - <b, w>) + |w|^2/2 = (C S^+ + I)^-1 C b,        f(x) = <phi(x), w>.

The printed scheme sends noisy phi and y, and multiplies them at the server: noise of variance sigma^4 in S in the place of sigma^2, so that
rates have n epsilon^4; products have n epsilon^2 there, at D(2 D + 1) numbers a user in the place of 2 D.

The noise of S has an operator norm of about 2 sd sqrt(2 D/n): C defaults to twice the inverse, as half of that noise is cut off at 0.

Privacy: each client maps, clips and noises its own record; frequencies, gamma and C are public. Local, replace-one, one message a user.

Source: 001, section 3.3, Algorithm 4, Lemma 7, Corollary 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.nldp_erm.random_fourier_features import features, frequencies
from dpspec.algorithms.sets import Vector
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.channels.gaussian_ball_product import GaussianBallProduct
from dpspec.privacy.channels.gaussian_outer import GaussianOuter
from dpspec.privacy.schedule import Draw, Sequence, Tree

_EVIDENCE = "tests/algorithms/nldp_erm/test_ldp_kernel_ridge_rff.py::"
#: The norm of phi, rounded up: the clip takes nothing off a vector of norm 1 that was computed in doubles.
RADIUS: Final = 1 + 2.0**-40
MOST_PAIRS: Final = 1000
#: Noise of two draws meets in the weights: an empirical audit sees a violation at a larger factor only.
AUDIT_FACTOR: Final = 16.0

CARD = Card(
    id="ldp-kernel-ridge-rff",
    title="Kernel ridge regression from noisy Fourier features",
    family="nldp_erm",
    task="kernel-regression",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("001", "3.3", "Algorithm 4", ("Lemma 7", "Corollary 2")),),
    summary="Each user sends noisy products of its public random features and its response; the server solves a ridge regression.",
    needs=(
        Need("x", "privacy", "its features have norm 1", enforced_by="cosines and sines of public frequencies, clipped by the client"),
        Need("y", "privacy", "|y| <= tau", enforced_by="each client clips its response"),
    ),
    tunables={
        "tau": Tunable(
            "min(y_abs, sigma_y*sqrt(2*log(n))) else y_abs else sigma_y*sqrt(2*log(n))",
            "the range of y; 001: 1",
            minimum=1e-100,
            maximum=1e70,
        ),
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "pairs": Tunable(
            "min(64, max(4, ceil(strength*sqrt(n)/16)))",
            "D, the number of frequencies: balances 1/sqrt(D) and the noise, and more than 64 gain next to nothing; 001: epsilon sqrt(d n)",
            integer=True,
            minimum=1,
            maximum=MOST_PAIRS,
        ),
        "weight": Tunable("1/2", "share of the second moment in mu^2", minimum=1e-6, maximum=1 - 1e-6),
        "C": Tunable(
            "max(1, strength*sqrt(weight*n/pairs)/2)",
            "twice the inverse of the operator norm of the noise of S, about; 001 leaves it open",
            minimum=1e-12,
            maximum=1e12,
        ),
    },
    bounds=(
        Bound(
            "excess of the regularised risk in the feature space",
            "order",
            "upper",
            "C*tau^2*sqrt(pairs/n)/epsilon",
            "proved",
            "noise of products: operator norm of the noise of S times |w|^2, and the length of the noise of b times |w|",
            conditions="|w| of the order tau, epsilon <= 1, times sqrt(log(1/delta))",
            when=("epsilon <= 1",),
        ),
        Bound(
            "excess of the regularised risk",
            "order",
            "upper",
            "C*(d/(n*epsilon^2))^(1/4)",
            "claimed",
            "001 Corollary 2, with products in the place of copies",
            conditions="D of the order epsilon*sqrt(d*n); the printed scheme has epsilon^4",
        ),
        Bound(
            "sup |f - f*|",
            "order",
            "upper",
            "C*(d/(n*epsilon^2))^(1/8)",
            "claimed",
            "001 Corollary 2 by Lemma 7",
            conditions="the same",
        ),
    ),
    faults=(
        Fault(
            "001 Algorithm 4, steps 4 and 5, by Algorithm 1: noise for sensitivity 1",
            "two vectors of norm 1 differ by up to 2: half of the noise that is needed, in the debiasing term, too",
            _EVIDENCE + "test_the_printed_noise_is_half_of_what_is_needed",
            "privacy",
        ),
        Fault(
            "001 Algorithm 4, step 3, with features of scale sqrt(2/D)",
            "norms reach sqrt(2); pairs of cosines and sines have norm 1",
            "tests/algorithms/nldp_erm/test_random_fourier_features.py::test_shifted_cosines_are_longer_than_one_and_pairs_never",
            "privacy",
        ),
        Fault(
            "001 Algorithm 4: |y| <= 1 is a promise about the data",
            "a larger response moves its report without limit; every client clips it",
            _EVIDENCE + "test_no_record_moves_a_message_by_more_than_its_sensitivity",
            "privacy",
        ),
        Fault(
            "001 Algorithm 4, step 8: no ridge and no set",
            "S^+ is singular and b has a part in its null space: the infimum is minus infinity; the ridge of (7) stands here",
            _EVIDENCE + "test_without_the_ridge_there_is_no_minimum",
            "utility",
        ),
        Fault(
            "001 Corollary 2: rates in n epsilon^2 from products of noisy copies",
            "the noise of a product of copies is sigma^2, so n epsilon^4; products noised by the client have n epsilon^2",
            _EVIDENCE + "test_products_have_less_noise_than_copies",
            "utility",
        ),
    ),
    cost={
        "gradients": "0",
        "rounds": "1",
        "bits_per_user": "64*(pairs*(2*pairs + 1) + 2*pairs)",
        "memory_bytes": "8*(4096*2*pairs + 8*pairs*pairs)",
    },
    reads="sums",
    spec="specs/nldp_erm/ldp-kernel-ridge-rff.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return None  # the task refuses other kernels


def schedule(p: Problem, t: Tunables) -> Tree:
    return Sequence(
        (
            Draw("moment", GaussianOuter(2 * t.pairs, RADIUS), per="user", weight=t.weight),
            Draw("xy", GaussianBallProduct(2 * t.pairs, RADIUS, t.tau), per="user", weight=1 - t.weight),
        )
    )


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    s = frequencies(p.task.kernel, p.facts["gamma"], t.pairs, p.d, release.public.generator("frequencies"))
    second, cross = release.mean_blocks_many(("moment", "xy"), mapped(records, s))
    w = solved(second, cross, t.C)
    return Estimate(np.column_stack([s, w[: t.pairs], w[t.pairs :]]).reshape(-1))


def mapped(records: Rows, s: Vector, rows: int = 4096) -> Iterator[tuple[Vector, Vector]]:
    """(phi, y) of the users in blocks: what their clients clip. What is no number is the record 0 to the channels."""
    for x, y in records.blocks(rows):
        yield features(x if isinstance(x, np.ndarray) else x.toarray(), s), y


# ------------------------------------------------------------------------------------------------ pieces, post-processing


def solved(second: Vector, cross: Vector, c: float) -> Vector:
    """(C S^+ + I)^-1 C b."""
    values, vectors = np.linalg.eigh((second + second.T) / 2)
    return np.asarray(vectors @ (c * (vectors.T @ cross) / (c * np.maximum(values, 0.0) + 1)))


# --------------------------------------------------------------------------------------------------- what is known beforehand


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """E (f(x) - y)^2 for y of variance tau^2/4, half of it explained: the rest, the ridge, the features, and noise in every direction that
    the ridge lets through; at most the error of f = 0."""
    size = t.tau / 2
    noise = 2 * t.pairs * calibrated.scale("xy") ** 2 / p.n * min(1.0, t.C) / (1 + t.C / (2 * t.pairs))
    bias = size**2 * (1 / (1 + t.C / (2 * t.pairs)) + 1 / math.sqrt(t.pairs))
    return float(min(size**2, size**2 / 2 + bias / 2 + noise))


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    norm = 2 * calibrated.scale("moment") * math.sqrt(2 * t.pairs / p.n)
    if norm <= 1 / math.sqrt(2 * t.pairs):
        return []
    needed = math.ceil(p.n * norm**2 * 2 * t.pairs)
    return [
        f"the noise of the features' second moment has operator norm about {norm:.3g}, and its largest eigenvalues are between"
        f" {1 / (2 * t.pairs):.2g} and 1: with {t.pairs} pairs it needs about n = {needed:.2g}"
    ]
