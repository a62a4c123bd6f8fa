"""The Gaussian mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_numbers, check_positive
from dpspec.privacy.noise import Array, NoiseSource
from dpspec.privacy.schedule import Family, Norm


@dataclass(frozen=True, slots=True)
class Gaussian(Drawn):
    """value + N(0, scale^2 I): exactly mu-GDP with mu = sensitivity/scale = 1/level.

    ``sensitivity``: the largest l2 distance of the value between neighbours under the relation of the analysis. ``size``: numbers
    released at once. Source: 000, Definition 2.1.6 and Lemma 2.1.2 (whose scale sqrt(2 ln(1.25/delta))/epsilon holds for epsilon <= 1
    only); exact privacy curve: Balle and Wang 2018; Dong, Roth and Su 2022.
    """

    sensitivity: float
    size: int = 1
    kind: ClassVar[str] = "gaussian"
    family: ClassVar[Family] = "gaussian"
    norm: ClassVar[Norm] = "l2"
    reference: ClassVar[str] = "000 Definition 2.1.6; Balle and Wang 2018; Dong, Roth and Su 2022"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, size=self.size)

    def scale(self, level: float) -> float:
        return check_level(level) * self.sensitivity

    def check(self, value: Any) -> str | None:
        return check_numbers(value, self.size)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        return noise.add_gaussian(np.asarray(value, dtype=float), self.scale(level), sensitivity=self.sensitivity, dim=self.size)
