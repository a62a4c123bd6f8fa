"""Permute-and-flip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_positive
from dpspec.privacy.mechanisms.selection import SLACK, check_scores, choose_flip, gaps
from dpspec.privacy.noise import NoiseSource
from dpspec.privacy.schedule import Family, Norm


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(Drawn):
    """Visits the candidates in random order and takes the first whose coin of probability exp(epsilon*(score - max)/(2*sensitivity))
    shows a head: epsilon-DP, never worse in expectation than the exponential mechanism. Level = epsilon.

    It is not bounded range with parameter epsilon, so epsilon^2/8 does not apply: accounted as pure. ``sensitivity``: the largest
    change of one score between neighbours. Source: McKenna and Sheldon 2020; the same law as noisy max with exponential noise
    (Ding et al. 2021).
    """

    sensitivity: float
    candidates: int
    kind: ClassVar[str] = "permute-and-flip"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "score"
    size: ClassVar[int] = 1
    reference: ClassVar[str] = "McKenna and Sheldon 2020"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, candidates=self.candidates)

    def scale(self, level: float) -> float:
        """The temperature 2*sensitivity/epsilon."""
        return 2.0 * self.sensitivity / check_level(level)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon from the temperature."""
        return 2.0 * self.sensitivity / noise["scale"]

    def check(self, value: Any) -> str | None:
        return check_scores(value, self.candidates)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> int:
        return choose_flip(gaps(value, 2.0 * self.sensitivity) * (check_level(level) * SLACK), noise)
