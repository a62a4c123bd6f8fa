"""What the selection mechanisms share: score gaps, and exact sampling from them.

Scores are high for good candidates; ``sensitivity`` is the largest change of any one score between neighbours.

A gap is v_i = max(scores) - score_i, cut at 2^20 units of 2*sensitivity. Cutting costs no privacy: between neighbours the changes of all
gaps lie in an interval of length 2*sensitivity that contains 0 (the old and the new best candidate have changes of opposite sign),
and a cut gap changes by something between 0 and the change of the gap. Gaps of at most 2^20 units carry rounding errors of at
most 2^-31 units, which the factor 1 - 2^-27 on epsilon pays for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpspec.privacy.mechanisms.protocol import check_numbers
from dpspec.privacy.noise import Array, NoiseSource

SLACK = 1.0 - 2.0**-27
_CUT = 2.0**20


def check_scores(scores: Any, candidates: int) -> str | None:
    problem = check_numbers(scores, candidates)
    if problem is None and np.ndim(scores) != 1:
        return f"the scores have shape {np.shape(scores)} and the plan chooses among {candidates} candidates"
    return problem


def gaps(scores: Any, unit: float) -> Array:
    """(max - score)/unit, at most 2^20."""
    s = np.asarray(scores, dtype=float)
    with np.errstate(over="ignore"):
        out: Array = np.minimum((np.max(s) - s) / unit, _CUT)
    return out


def choose_exponential(exponents: Array, noise: NoiseSource) -> int:
    """Index i with probability proportional to exp(-exponents[i]); the least exponent is 0.

    Secure source: a uniform candidate is accepted with probability exp(-exponent), which is exact; up to about as many tries as there
    are candidates. Study: the greatest exp noise of Gumbel type, the same law in one pass.
    """
    n = exponents.size
    if not noise.secure:
        return int(np.argmax(noise.gumbel(1.0, n) - exponents))
    while True:
        tries = noise.integers(n, n)
        accepted = np.flatnonzero(noise.bernoulli_exp(exponents[tries]))
        if accepted.size:
            return int(tries[accepted[0]])


def choose_flip(exponents: Array, noise: NoiseSource) -> int:
    """Permute-and-flip: every candidate flips a coin with head probability exp(-exponent); one of the heads, uniformly.

    The first head in a random order, as the mechanism is stated, is a uniform head: the coins do not depend on the order. The best
    candidate has exponent 0 and always shows a head.
    """
    heads = np.flatnonzero(noise.bernoulli_exp(exponents))
    return int(heads[int(noise.integers(heads.size, 1)[0])])
