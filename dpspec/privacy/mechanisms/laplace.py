"""The Laplace mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_numbers, check_positive
from dpspec.privacy.noise import Array, NoiseSource
from dpspec.privacy.schedule import Family, Norm


@dataclass(frozen=True, slots=True)
class Laplace(Drawn):
    """value + independent Laplace(b) noise on each coordinate: epsilon-DP with epsilon = sensitivity/b = 1/level.

    ``sensitivity``: the largest l1 distance of the value between neighbours under the relation of the analysis. Variance 2*b^2 a
    coordinate. Source: 000, Definition 2.1.5 and Lemma 2.1.1; Dwork, McSherry, Nissim and Smith 2006.
    """

    sensitivity: float
    size: int = 1
    kind: ClassVar[str] = "laplace"
    family: ClassVar[Family] = "laplace"
    norm: ClassVar[Norm] = "l1"
    reference: ClassVar[str] = "000 Definition 2.1.5; Dwork, McSherry, Nissim and Smith 2006"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, size=self.size)

    def scale(self, level: float) -> float:
        return check_level(level) * self.sensitivity

    def check(self, value: Any) -> str | None:
        return check_numbers(value, self.size)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        return noise.add_laplace(np.asarray(value, dtype=float), self.scale(level), sensitivity=self.sensitivity, dim=self.size)
