"""Report noisy max with Laplace, Gumbel or exponential noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_positive
from dpspec.privacy.mechanisms.selection import SLACK, check_scores, choose_exponential, choose_flip, gaps
from dpspec.privacy.noise import Array, NoiseSource
from dpspec.privacy.schedule import Family, Norm

#: Below, discrete Laplace noise of 2^29/level steps reaches the end of 64-bit integers with a probability above e^-200.
LEAST_LEVEL = 2.0**-26


@dataclass(frozen=True, slots=True)
class NoisyMax(Drawn):
    """The index of the greatest score + noise, noise of scale 2*sensitivity/epsilon. Level = epsilon; each choice is epsilon-DP.

    ``gumbel``: the exponential mechanism (bounded range). ``exponential``: permute-and-flip (pure). ``laplace``: the textbook form (pure);
    000, Algorithm 3.4.17 uses it as noisy min. Only the index is released: the noisy score of the winner would cost more.
    ``sensitivity``: the largest change of one score between neighbours, of either sign.

    The secure source draws Gumbel and exponential noise through the two exact selections that have the same law, and Laplace noise on an
    integer grid with ties to the lower index: for fixed other noise, i wins when its noise is at least some k, and a neighbour moves k by
    at most 2*(sensitivity + grid), so the ratio of the tails of the discrete Laplace law bounds the loss.
    """

    sensitivity: float
    candidates: int
    noise: Literal["laplace", "gumbel", "exponential"] = "laplace"
    kinds: ClassVar[tuple[str, ...]] = ("noisy-max-laplace", "noisy-max-gumbel", "noisy-max-exponential")
    norm: ClassVar[Norm] = "score"
    size: ClassVar[int] = 1
    reference: ClassVar[str] = "Dwork and Roth 2014, Claim 3.9 and Theorem 3.10; Ding et al. 2021; 000 Algorithm 3.4.17"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, candidates=self.candidates)
        if self.noise not in ("laplace", "gumbel", "exponential"):
            raise ValueError(f"there is no noisy max with {self.noise!r} noise")

    @property
    def kind(self) -> str:
        return f"noisy-max-{self.noise}"

    @property
    def family(self) -> Family:
        return "bounded-range" if self.noise == "gumbel" else "pure"

    def scale(self, level: float) -> float:
        """The scale of the noise on each score."""
        if self.noise == "laplace" and check_level(level) < LEAST_LEVEL:
            raise ValueError(
                f"an epsilon of {level:.3g} for one noisy maximum is below 2^-26: its Laplace noise does not fit 64-bit integers"
            )
        return 2.0 * self.sensitivity / check_level(level)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon: two scores may move towards each other."""
        return 2.0 * self.sensitivity / noise["scale"]

    def check(self, value: Any) -> str | None:
        return check_scores(value, self.candidates)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> int:
        self.scale(level)  # refuses levels that cannot be drawn
        v = gaps(value, 2.0 * self.sensitivity)
        if self.noise == "gumbel":
            return choose_exponential(v * (check_level(level) * SLACK), noise)
        if self.noise == "exponential":
            return choose_flip(v * (check_level(level) * SLACK), noise)
        return noisy_argmax(-v, 1.0 / (check_level(level) * SLACK), noise)


def noisy_argmax(values: Array, scale: float, noise: NoiseSource) -> int:
    """argmax of values + Laplace(scale), on an integer grid in the secure source. One unit of ``values`` is twice the sensitivity."""
    if not noise.secure:
        return int(np.argmax(values + noise.laplace(scale, values.size)))
    exponent = -29  # two steps are 2^-28 units, within the slack
    steps = np.rint(np.ldexp(values, -exponent)).astype(np.int64)
    return int(np.argmax(steps + noise.discrete_laplace(math.ldexp(scale, -exponent), values.size)))
