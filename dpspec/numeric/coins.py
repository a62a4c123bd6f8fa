"""Public coins: numbers in [0, 1) that a seed and a place fix for ever.

For choices that depend on no record and that a plan is calibrated to, such as which records a buffer holds. Whoever reads the plan can
toss them again, with any version of any library: each is the output function of splitmix64 (Steele, Lea, Flood 2014) at a counter.
They hide nothing and must never be noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def coins(seed: int, rows: NDArray[np.int64], columns: int) -> NDArray[np.float64]:
    """Shape (len(rows), columns): the coins of these rows of an endless table with ``columns`` columns."""
    start = _mixed(np.array([(seed * int(_GOLDEN) + columns) % 2**64], dtype=np.uint64))
    places = np.asarray(rows, dtype=np.uint64)[:, None] * np.uint64(columns) + np.arange(columns, dtype=np.uint64)
    words = _mixed(np.asarray(start + (places + np.uint64(1)) * _GOLDEN, dtype=np.uint64))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
