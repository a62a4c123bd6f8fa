"""Gaussian noise on a stream of vectors, each of which may depend on the noisy ones before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_positive
from dpspec.privacy.noise import Array, NoiseSource
from dpspec.privacy.schedule import Family, Norm


@dataclass(frozen=True, slots=True)
class GaussianStream(Drawn):
    """``count`` vectors of ``width`` numbers, one after the other, each plus N(0, scale^2 I): exactly mu-GDP for the whole transcript of
    noisy vectors, mu = sensitivity/scale = 1/level.

    ``sensitivity``: the largest, over the records, of the l2 norm of (c_1, c_2, ...), where c_q bounds by how far a change of that one
    record moves vector q *whatever was released before* (the vectors of one transcript, put one below the other, as one vector). Given
    the noisy vectors before it, vector q is a (c_q/scale)-GDP release; the c_q of a record are public numbers, so adaptive composition
    gives sqrt(sum_q c_q^2)/scale (Dong, Roth and Su 2022, Corollary 2), and the guarantee is that of the worst record. A record that moves
    few of the vectors, or late ones little, so pays for these alone: with one bound c for all vectors the noise would be c*sqrt(count).

    The value is a function of ``answer``: it computes the vectors, hands each to ``answer`` and gets the noisy one, ``count`` times in
    all. It must use the records for nothing else. What is drawn is the noisy vectors, shape (count, width).
    """

    sensitivity: float
    width: int
    count: int
    kind: ClassVar[str] = "gaussian-stream"
    family: ClassVar[Family] = "gaussian"
    norm: ClassVar[Norm] = "l2"
    reference: ClassVar[str] = "Dong, Roth and Su 2022, Corollary 2; 000 section 3.3.2 with the released point fed back"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, width=self.width, count=self.count)

    @property
    def size(self) -> int:
        return self.width * self.count

    def scale(self, level: float) -> float:
        return check_level(level) * self.sensitivity

    def check(self, value: Any) -> str | None:
        return None if callable(value) else "a stream takes a function of (answer), which hands its vectors over one after the other"

    def blind(self, value: Any) -> tuple[Any, Any]:
        """What is seen is the vectors of one transcript, the same noise in every run with one seed; zeros are drawn in their place."""
        seen: list[Array] = []

        def stand_in(answer: Callable[[Array], Array]) -> None:
            handed: list[Array] = []

            def instead(vector: Array) -> Array:
                handed.append(np.array(vector, dtype=float))
                return answer(np.zeros(self.width))

            value(instead)
            seen.append(np.concatenate(handed))

        return seen, stand_in

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        scale, drawn = self.scale(level), np.empty((self.count, self.width))
        done = 0

        def answer(vector: Array) -> Array:
            nonlocal done
            if done == self.count:
                raise ValueError(f"the stream was planned with {self.count} vectors and hands over one more")
            v = np.asarray(vector, dtype=float)
            if v.shape != (self.width,) or not np.isfinite(v).all():
                raise ValueError(f"a vector of the stream is not {self.width} finite numbers")
            drawn[done] = noise.add_gaussian(v, scale, sensitivity=self.sensitivity, dim=self.size)
            done += 1
            noisy: Array = drawn[done - 1].copy()
            return noisy

        value(answer)
        if done != self.count:
            raise ValueError(f"the stream handed over {done} of its {self.count} vectors")
        return drawn
