"""What the categorical channels share. Records are integer codes 0 .. k - 1, shape (users,); estimates are the k frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpspec.privacy.channels.protocol import check_level
from dpspec.privacy.noise import Integers, NoiseSource


def codes(records: Any, k: int) -> tuple[Integers, bool]:
    """Integer codes of the users and whether it was a single record. Anything else (NaN, a fraction, out of range) is the code 0:
    the client never fails on a record."""
    x = np.asarray(records, dtype=float)
    single = x.ndim == 0
    x = x.reshape(-1)
    with np.errstate(invalid="ignore"):
        good = (x >= 0) & (x <= k - 1) & (np.floor(x) == x)
    return np.where(good, x, 0.0).astype(np.int64), single


def check_categories(k: int) -> None:
    if not (isinstance(k, int) and 2 <= k <= 2**31):
        raise ValueError(f"a categorical channel needs at least 2 categories, not {k!r}")


def check_tellable(level: float) -> float:
    """Probabilities are whole multiples of 2^-64 and cut by 2^-48 of themselves, which is more than what an epsilon of 2^-40 is about."""
    if check_level(level) < 2.0**-40:
        raise ValueError(f"an epsilon of {level:.3g} for one report is below 2^-40, what 64-bit coins can tell apart")
    return level


def multinomial_uniform(n: int, k: int, noise: NoiseSource) -> Integers:
    """How n uniform choices fall into k categories: binomials one category after another."""
    out, left = np.zeros(k, dtype=np.int64), n
    for j in range(k - 1):
        if left == 0:
            break
        out[j] = int(noise.binomial(np.array([left]), 1.0 / (k - j), 1)[0])
        left -= int(out[j])
    out[k - 1] += left
    return out
