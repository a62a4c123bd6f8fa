"""What a release of a statistic publishes: a table of names, values, standard errors and 95 % intervals of its noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpspec.algorithms.card import Problem

#: Numbers that an answer carries beside its values, and that a table shows in this order.
CARRIED = ("standard_error", "low", "high", "rank_error", "rank_within")


def table(names: Callable[[Problem], Sequence[str]], *beside: str) -> Callable[[Any, Problem], dict[str, Any]]:
    """The arrays of a release: ``name``, ``value``, what the algorithm says of their noise, and the numbers called ``beside`` if it has
    any."""

    def arrays(estimate: Any, problem: Problem) -> dict[str, Any]:
        value = np.atleast_1d(estimate.theta)
        found: dict[str, Any] = {"name": np.array(list(names(problem)), dtype=np.str_), "value": value}
        for word in CARRIED:
            if word in estimate.extras:
                found[word] = np.broadcast_to(np.asarray(estimate.extras[word], dtype=np.float64), value.shape).copy()
        found.update({word: np.asarray(estimate.extras[word]) for word in beside if word in estimate.extras})
        return found

    return arrays
