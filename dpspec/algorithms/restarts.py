"""The least value of an objective that need not be convex, over many local searches: a non-private reference that certifies nothing.

A local search ends at a stationary point, and which one depends on where it starts: from w = 0, which is a saddle point of many even
losses, it may not move at all. So :data:`RESTARTS` searches start at 0 and at points that are spread over the set, the same for every data
set of that shape; all of them run :data:`FIRST` iterations, the :data:`FINALISTS` with the least values run to the end, and the least value
of all is returned. A global minimum may be smaller: an excess over this reference is one over the best point that was found.

For study mode: the value depends on the records without noise.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dpspec.algorithms.objective import Objective, optimum
from dpspec.algorithms.sets import Vector

RESTARTS: Final = 12
FIRST: Final = 20
FINALISTS: Final = 3
#: Relative step at which a search ends; values are known to about its square.
TOLERANCE: Final = 1e-8
#: Lengths of starts over unbounded sets, in turns.
_LENGTHS: Final = (0.3, 1.0, 3.0)
#: Directions are cosines of quadratic phases in steps of the golden ratio: spread like random ones, and the same everywhere.
_GOLDEN: Final = (5.0**0.5 - 1) / 2


def starts(objective: Objective, d: int) -> list[Vector]:
    """:data:`RESTARTS` points of the set: its start, and directions of several lengths, projected."""
    over, phases = objective.over, 2 * np.pi * np.mod(_GOLDEN * np.arange(1.0, d + 1) ** 2, 1.0)
    found = [over.start(d)]
    far = over.distance_bound(d)
    for k in range(RESTARTS - 1):
        v = np.cos((k + 1) * phases)
        v /= max(float(np.sqrt(v @ v)), 1e-300)
        length = _LENGTHS[k % len(_LENGTHS)]
        step = (length / max(_LENGTHS)) * far * v if np.isfinite(far) else length * v
        found.append(over.project(found[0] + step))
    return found


def best_of_restarts(objective: Objective, records: Any) -> tuple[Vector, float]:
    """(w, F(w)): the best end of the searches."""
    first = [optimum(objective, records, start=w, iterations=FIRST) for w in starts(objective, objective.size(records.d))]
    first.sort(key=lambda found: found[1] if found[1] == found[1] else np.inf)
    ends = [optimum(objective, records, start=w, tolerance=TOLERANCE) for w, _ in first[:FINALISTS]]
    return min(ends, key=lambda found: found[1])
