"""The least value of a number (records, a budget) at which something is met, everything else fixed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """Where to look, and how near the answer has to be: the last value that misses is within a factor ``near`` of it."""

    lowest: float
    highest: float
    near: float
    whole: bool = False


#: For a target of a spec, where each probe compiles the analysis anew.
RECORDS = Range(2.0, 1e13, 1.0005, whole=True)
EPSILON = Range(1e-5, 1e3, 1.0005)
#: For a prediction with a fitted constant, which is known to fewer digits.
ABOUT_RECORDS = Range(2.0, 1e13, 1.001, whole=True)
ABOUT_BUDGET = Range(1e-4, 1e3, 1.001)


def least(meets: Callable[[float], bool], start: float, within: Range) -> float | None:
    """The least value at which ``meets``, for a condition that once met stays met; None where nothing in the range meets it.

    A bracket is sought outwards from ``start`` by factors of four, then halved in the logarithm. The answer is always a value that
    was seen to meet the condition; where the lowest one does, it is the answer.
    """
    low = high = min(max(start, within.lowest), within.highest)
    if meets(low):
        while low == high or meets(low):
            if low <= within.lowest:
                return low
            low, high = max(low / 4, within.lowest), low
    else:
        while low == high or not meets(high):
            if high >= within.highest:
                return None
            low, high = high, min(high * 4, within.highest)
    while high / low > within.near:
        middle = math.sqrt(low * high)
        if within.whole:
            middle = float(round(middle))
            if middle in (low, high):
                break
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high
