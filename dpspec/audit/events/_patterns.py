"""How much a unit that takes part several times moves what a linear mechanism releases.

A unit takes part at most k times, with at least ``separation`` steps from one time to the next (Choquette-Choo et al. 2023, "Multi-epoch
matrix factorization mechanisms for private machine learning", section 2); each time it moves its step by a vector of norm at most 1.
What is released is C x plus noise, so its square moves by at most the largest sum of |G_st| over the steps s, t of a pattern, with
G = C^T C, and by exactly that sum where G has no negative entries there. Every function gives (from below, from above): a real pattern,
and a bound over all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def tree(leaves: int, k: int, separation: int) -> tuple[float, float]:
    """Squared norm for a binary tree whose nodes are sums over 1, 2, 4, ... leaves in a row, each with noise of its own (Dwork, Naor,
    Pitassi, Rothblum 2010; Chan, Shi, Song 2011). A node that holds c of the times moves by c. ``leaves`` that are no power of 2 are taken
    with all nodes of the next tree from above, and with whole nodes alone from below."""
    k = min(k, 1 + (leaves - 1) // separation)
    low, high = 0.0, 0.0
    places = np.arange(k, dtype=float) * separation
    for level in range(math.ceil(math.log2(leaves)) + 1):
        size = 2**level
        most = min(k, -(-size // separation))
        full, rest = divmod(k, most)
        high += full * most**2 + rest**2
        whole = np.floor(places / size)
        counts = np.unique(whole[(whole + 1) * size <= leaves], return_counts=True)[1]
        low += float((counts.astype(float) ** 2).sum())
    return low, high


def toeplitz(coefficients: Sequence[float], steps: int, k: int, separation: int, fixed: bool) -> tuple[float, float]:
    """Squared norm for C lower triangular with one column of ``coefficients``, moved down by one from each column to the next and cut at
    the last row; those that are left out are 0."""
    c = np.asarray(coefficients, dtype=float)[:steps]
    k = min(k, 1 + (steps - 1) // separation)
    a = np.abs(c)
    gram = np.correlate(a, a, "full")[c.size - 1 :] if c.size <= 4096 else _correlated(a)
    gram = gram * (1 + 1e-12)
    worst = gram if fixed else np.maximum.accumulate(gram[::-1])[::-1]
    lags = np.arange(1, k) * separation
    lags = lags[lags < gram.size]
    order = np.arange(1, lags.size + 1)
    high = k * float(gram[0]) + 2 * float(np.sum((k - order) * worst[lags]))
    moved = np.zeros(min(steps, (k - 1) * separation + c.size))
    for j in range(k):
        first = j * separation
        part = c[: moved.size - first]
        moved[first : first + part.size] += part
    signed = c.copy()
    if np.any(c < 0) and k > 1:  # signs of the times may differ: one time alone is a pattern too
        return max(float(moved @ moved), float(signed @ signed)) * (1 - 1e-12), high
    return float(moved @ moved) * (1 - 1e-12), high


def _correlated(a: Array) -> Array:
    from scipy.signal import fftconvolve

    found = np.asarray(fftconvolve(a, a[::-1]), dtype=float)[a.size - 1 :]
    return found + 1e-13 * float(a @ a)  # the rounding of the transform, upwards


def encoder(rows: Sequence[Sequence[float]], k: int, separation: int, fixed: bool) -> tuple[float, float]:
    """Squared norm for any C, a row a released number and a column a step."""
    c = np.asarray(rows, dtype=float)
    steps = c.shape[1]
    k = min(k, 1 + (steps - 1) // separation)
    gram = c.T @ c
    size = np.abs(gram)
    if k == 1:
        top = float(np.max(np.diag(gram)))
        return top * (1 - 1e-12), top * (1 + 1e-12)
    if fixed:
        found = [np.arange(s, steps, separation)[:k] for s in range(steps)]
        low = max(float(gram[np.ix_(p, p)].sum()) for p in found)
        return max(low, float(np.max(np.diag(gram)))) * (1 - 1e-12), max(float(size[np.ix_(p, p)].sum()) for p in found) * (1 + 1e-12)
    share, _ = heaviest(size, k, separation)  # at most this much beside each step
    (high,), chosen = heaviest(share[None, :], k, separation)
    pattern = chosen[0]
    low = max(float(gram[np.ix_(pattern, pattern)].sum()), float(np.max(np.diag(gram))))
    return low * (1 - 1e-12), float(high) * (1 + 1e-12)


def heaviest(weights: Array, k: int, separation: int) -> tuple[Array, list[list[int]]]:
    """For each row of non-negative weights (rows, steps): the most that at most k steps weigh together with at least ``separation`` from
    one to the next, and such steps."""
    rows, steps = weights.shape
    best = np.zeros((k + 1, rows, steps + 1))  # over the first t steps
    for j in range(1, k + 1):
        for t in range(1, steps + 1):
            taken = weights[:, t - 1] + best[j - 1, :, max(0, t - separation)]
            best[j, :, t] = np.maximum(best[j, :, t - 1], taken)
    patterns: list[list[int]] = []
    for r in range(rows):
        found, t, j = [], steps, k
        while j and t:
            if best[j, r, t] > best[j, r, t - 1]:
                found.append(t - 1)
                t, j = max(0, t - separation), j - 1
            else:
                t -= 1
        patterns.append(found[::-1] or [0])
    return best[k, :, steps], patterns
