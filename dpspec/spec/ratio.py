"""Numbers as text in data and descriptions: decimals and ratios, exactly, in bounded time."""

from __future__ import annotations

import re
from fractions import Fraction

_LONG = re.compile(r"[eE][+-]?0*\d{4,}")


def ratio(text: str) -> Fraction:
    """``"1/3"``, ``"2.5e-3"``, ``"7"``. Raises ``ValueError`` for anything else, also for exponents of four digits (``Fraction`` would
    write ``1e999999999`` out) and for more than 1000 characters."""
    if len(text) > 1000 or _LONG.search(text):
        raise ValueError("the number is too long")
    try:
        return Fraction(text.strip())
    except ZeroDivisionError:
        raise ValueError("a ratio to zero is no number") from None
