"""The trimmed and clipped mean of numbers, and its smooth sensitivity, exactly.

    f = clip((x_(m+1) + ... + x_(n-m))/(n - 2m), low, high),   S = max_k e^(-k t) min(high - low, LS_k),

x sorted, x_(i) = -inf for i < 1 and inf for i > n; LS_k = max_{0 <= l <= k+1} (x_(n-m+1+k-l) - x_(m+1-l))/(n - 2m) is the largest change of
the unclipped mean by one more replacement after k replacements (000, section 3.2.4 prints max((x_(n) - x_(1))/(n - 2m), e^(-m t)(high -
low)) in its place, which bounds S and is not smooth). S is at least f's local sensitivity, and at most e^t times that of a neighbour.

In O(n log n). With i = m + 1 - l and j = n - m + 1 + k - l the maximum is over pairs i <= m + 1, j >= n - m, k = j - i - (n - 2m) >= 0, of
e^(-k t) min(cap, x_(j) - x_(i)), cap = (high - low)(n - 2m). In row i nothing behind the first pair that reaches cap matters. Before it, if
j' > j is better than j for i, it is for every i' > i: e^(-j' t) x_(j') - e^(-j t) x_(j) >= -x_(i) (e^(-j t) - e^(-j' t)), and the right
side falls in i. So the best j grow with i, and halving the rows finds them all.

In the doubles that run: numbers are brought into [-2^900, 2^900] one by one (NaN is 0), and the sum is exact before it is rounded
(:func:`math.fsum`), so f is off by 4u of its own size; powers are off by 2^-43 while k t <= 700, and a wrong choice between two that
rounding does not tell apart loses as little of S. The exponent is t(1 - 2^-24), which leaves room for that where t >= 2^-16, and S is
raised by 2^-36 of itself and by 2^-48 of the largest |f|, a public number, which keeps it smooth.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.sets import Vector

#: Exponents below this leave no room for rounding; powers up to FARTHEST are computed to 2^-43.
LEAST: Final = 2.0**-16
FARTHEST: Final = 700.0
_HUGE: Final = 2.0**900


def finite(x: Any) -> Vector:
    """Each number by itself: NaN to 0, into [-2^900, 2^900]."""
    return np.asarray(np.clip(np.nan_to_num(np.asarray(x, dtype=float), nan=0.0, posinf=_HUGE, neginf=-_HUGE), -_HUGE, _HUGE))


def released(x: Vector, m: int, t: float, low: float, high: float) -> tuple[float, float]:
    """(f, S) of n > 2m numbers, as a smooth mechanism takes them."""
    x = np.sort(finite(x))
    kept = math.fsum(x[m : len(x) - m].tolist()) / (len(x) - 2 * m)
    bound = smooth_bound(x, m, t * (1 - 2.0**-24), high - low)
    return min(max(kept, low), high), bound * (1 + 2.0**-36) + 2.0**-48 * max(abs(low), abs(high))


def smooth_bound(x: Vector, m: int, t: float, width: float) -> float:
    """S of sorted ``x``; ``width`` = high - low."""
    n = len(x)
    count = n - 2 * m
    best = width * math.exp(-m * t)  # k = m reaches beyond the ends
    # rows: i = 1..m+1, columns: j = n-m..n (one-based); row i stops at its first column that reaches the cap
    left, right = x[: m + 1], x[n - m - 1 :]
    offset = np.arange(n - m, n + 1)
    with np.errstate(over="ignore"):
        stop = np.searchsorted(right, left + width * count, side="left")
    rows = np.arange(1, m + 2)
    first = np.where(rows == m + 1, 1, 0)  # i = m + 1 begins at j = n - m + 1
    stop = np.maximum(stop, first)
    reach = stop <= m
    if reach.any():
        nearest = float((offset[stop[reach]] - rows[reach] - count).min())
        best = max(best, width * math.exp(-t * nearest))
    decay = np.exp(-t * np.arange(m + 1))
    todo = [(0, m, 0, m)]
    while todo:
        top, bottom, low, high = todo.pop()
        if top > bottom:
            continue
        i = (top + bottom) // 2
        a, b = max(low, int(first[i])), min(high, int(stop[i]) - 1)
        at = low
        if a <= b:
            values = (right[a : b + 1] - left[i]) * decay[: b + 1 - a]
            at = a + int(np.argmax(values))
            k = int(offset[at] - rows[i] - count)
            best = max(best, math.exp(-t * k) * float(right[at] - left[i]) / count)
            todo += [(top, i - 1, low, at), (i + 1, bottom, at, high)]
        else:  # the row holds no pair below the cap: it says nothing of the others
            todo += [(top, i - 1, low, high), (i + 1, bottom, low, high)]
    return best
