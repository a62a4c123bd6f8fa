"""What the best attacker can do against a printed guarantee: detections against false alarms, for plans, reports and audits.

The maths is in :mod:`dpspec.privacy.risk` and :func:`dpspec.privacy.guarantees.trade_off`; here a guarantee may come as the plain
numbers of a plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpspec.privacy.guarantees import Guarantee, trade_off
from dpspec.privacy.risk import advantage, risk, sentences, strongest

__all__ = ["advantage", "detections", "read", "risk", "sentences", "strongest"]


def read(stated: Mapping[str, Any]) -> Guarantee:
    """The guarantee of a plan's or a record's JSON: ``kind`` and the numbers that are there. Raises ValueError for what is none."""
    numbers = {name: stated.get(name) for name in ("epsilon", "delta", "rho", "mu")}
    if any(v is not None and (isinstance(v, bool) or not isinstance(v, (int, float)) or not 0 <= v < math.inf) for v in numbers.values()):
        raise ValueError("a guarantee's numbers are finite and not negative")
    return Guarantee(stated.get("kind", "approx"), **numbers)


def detections(guarantee: Guarantee, rates: Sequence[float]) -> list[float]:
    """The largest true-positive rate of any attack at each false-positive rate, 1 - f(rate), from the strongest statement that the
    guarantee carries. Raises ValueError for a guarantee that says nothing."""
    import numpy as np

    curve = trade_off(strongest(guarantee))
    return [min(1.0, float(v)) for v in 1.0 - curve(np.asarray(rates, dtype=np.float64))]
