"""What the statistics of one column share in the local model: each client sends one report of its own record, and what is known of the
noise."""

from __future__ import annotations

import math
from typing import Any, Final

from dpspec.algorithms.card import Need, Source

#: Half the width of an interval of 95 %, in standard errors of an average of many reports.
REACH: Final = 1.96
ROWS: Final = 8192
OWN: Final = Need(
    "x",
    "privacy",
    "the report of a user is a channel's",
    enforced_by="each client clips its number, or tells its cell, itself",
)
ONE_BIT: Final = Source("literature", "Duchi, Jordan and Wainwright 2018", "one bit for a bounded mean")
SUBSETS: Final = Source("literature", "Ye and Barg 2018", "subset selection")


def around(value: float, error: float, low: float, high: float) -> dict[str, Any]:
    """Standard error and interval of a number that lies between ``low`` and ``high``."""
    ends = [min(max(value + side * REACH * error, low), high) for side in (-1, 1)]
    return {"standard_error": error, "low": ends[0], "high": ends[1]}


def one_bit_error(length: float, n: int) -> float:
    """Of the average of n reports +-``length``, at most: a report of v has the variance length^2 - v^2."""
    return length / math.sqrt(n)
