"""Steps that follow the curvature that released gradients show: post-processing, so it costs no budget.

A certified smoothness is that of the worst records, all alike and of full length; records that spread over d directions have a curvature
smaller by about d, and a step of its inverse would then need some d times as many rounds. The secant <dw, dg>/|dw|^2 of two points whose
gradients were released is the mean curvature between them, with a standard error of at most sqrt(2) s/|dw| for noise of standard
deviation s a coordinate (the noise that moved w itself only raises it). A step is the inverse of the largest secant with a few earlier
points, grows by at most a factor, and is never shorter than the certified one. Not from the documents.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpspec.algorithms.sets import Vector
from dpspec.numeric.norms import length

#: A step is at most this many times the one before.
GROWTH = 4.0
#: A step is at most this many times the first: where a loss is flat, steps would grow for ever.
REACH = 2.0**20
#: Earlier points that a new one is compared with: the last at a multiple of 1, 2, 4, ..., so far apart where points hardly move.
ANCHORS = 7


class Steps:
    """The step at each point, from the noisy gradients there. ``noise``: their standard deviation a coordinate; ``least``: the first step
    and the shortest, every step where not ``adaptive``."""

    def __init__(
        self,
        least: float,
        noise: float,
        *,
        adaptive: bool,
        caution: float = 0.0,
        most: float = math.inf,
        norm: Callable[[Vector], float] = length,
    ) -> None:
        """``caution``: standard errors that are added to a secant (negative: taken off, for methods that average their iterates and so
        forgive a step that was too long); ``most``: no step is longer; ``norm``: the one in which the method takes its steps."""
        self._caution = caution
        self.step, self._least, self._noise, self._adaptive, self._norm = least, least, noise, adaptive, norm
        self._most = min(most, REACH * least)
        self._anchors: dict[int, tuple[Vector, Vector]] = {}
        self._count = 0

    def after(self, w: Vector, g: Vector) -> float:
        """The step from ``w``, where the released gradient is ``g``."""
        if self._adaptive:
            seen = [secant for before in self._anchors.values() if (secant := self._secant(w, g, *before)) is not None]
            if seen:
                bound = max(seen)
                longest = 1 / bound if bound > 0 else math.inf
                self.step = max(self._least, min(longest, GROWTH * self.step, self._most))
            for k in range(ANCHORS):
                if self._count % (1 << k) == 0:
                    self._anchors[k] = (w, g)
            self._count += 1
        return self.step

    def _secant(self, w: Vector, g: Vector, before: Vector, slope: Vector) -> float | None:
        """Mean curvature between two points, ``caution`` standard errors added; None where they do not lie apart."""
        moved = w - before
        size = self._norm(moved)
        if not 0 < size < math.inf:
            return None
        moved = moved / size
        error = math.sqrt(2) * self._noise * length(moved) / size
        return float(moved @ (g - slope)) / size + self._caution * error
