"""Steps that follow the curvature that released gradients show: post-processing, so it costs no budget.

A certified smoothness is that of the worst records, all alike and of full length; records that spread over d directions have a curvature
smaller by about d, and a step of its inverse would then need some d times as many rounds. The secant <dw, dg>/|dw|^2 of two points whose
gradients were released is the mean curvature between them. Its standard error is at most sqrt(2) s/|dw| for noise of standard deviation
s a coordinate; twice that is added (and the noise that moved w itself only raises the secant), so a step grows where the gradients
say enough, and is never shorter than the certified one. Not from the documents.
"""

from __future__ import annotations

import math

from dpspec.algorithms.sets import Vector
from dpspec.numeric.norms import length

#: A step is at most this many times the one before.
GROWTH = 4.0
#: Standard errors of a secant that are added to it.
CAUTION = 2.0
#: A step is at most this many times the first: where a loss is flat, steps would grow for ever.
REACH = 2.0**20


class Steps:
    """The step at each point, from the noisy gradients there. ``noise``: their standard deviation a coordinate; ``least``: the first step
    and the shortest, every step where not ``adaptive``."""

    def __init__(self, least: float, noise: float, *, adaptive: bool) -> None:
        self.step, self._least, self._noise, self._adaptive = least, least, noise, adaptive
        self._before: tuple[Vector, Vector] | None = None

    def after(self, w: Vector, g: Vector) -> float:
        """The step from ``w``, where the released gradient is ``g``."""
        if self._adaptive and self._before is not None:
            moved = w - self._before[0]
            size = length(moved)
            if 0 < size < math.inf:
                curvature = float(moved / size @ (g - self._before[1])) / size
                bound = max(curvature, 0.0) + CAUTION * math.sqrt(2) * self._noise / size
                longest = 1 / bound if bound > 0 else math.inf
                self.step = max(self._least, min(longest, GROWTH * self.step, REACH * self._least))
        self._before = (w, g)
        return self.step
