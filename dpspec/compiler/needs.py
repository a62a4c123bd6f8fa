"""How much memory and disk the records of a run take, from what an algorithm's card says that it asks of them (``Card.reads``)."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, Final

#: Records are in memory several times while they are read whole: the columns of the table, the encoded matrix, what enforcement makes of
#: it, and what is cast in between.
LOADED: Final = 4
#: Chunks of a pass: a few of 8 MiB, as columns, encoded and enforced, and what a reader holds of its file.
WINDOW: Final = 128 << 20


def machine_bytes() -> float:
    """The memory of this machine; infinite where the system does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def doubles(facts: Mapping[str, Any]) -> float:
    """Bytes of the records as doubles: n rows of the features and y."""
    return 8.0 * float(facts["n"]) * (float(facts.get("features", facts["d"])) + 1)


def records_bytes(reads: str, facts: Mapping[str, Any], rounds: float = 1.0) -> float:
    """The most memory that the records take at once. ``rounds``: into how many disjoint parts they are cut."""
    every = doubles(facts)
    match reads:
        case "whole":
            return LOADED * every
        case "parts":
            return min(LOADED * every, WINDOW + 2 * every / max(rounds, 1.0))
        case _:
            return min(LOADED * every, float(WINDOW))


def disk_bytes(reads: str, facts: Mapping[str, Any]) -> float:
    """Of the file of the enforced records, where they are too many for memory."""
    return 0.0 if reads in ("sums", "whole") else doubles(facts)
