"""The exponential mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_positive
from dpspec.privacy.mechanisms.selection import SLACK, check_scores, choose_exponential, gaps
from dpspec.privacy.noise import NoiseSource
from dpspec.privacy.schedule import Family, Norm


@dataclass(frozen=True, slots=True)
class Exponential(Drawn):
    """Chooses candidate i with probability proportional to exp(epsilon*score_i/(2*sensitivity)): epsilon-DP, epsilon-bounded range and
    so epsilon^2/8-zCDP (Cesar and Rogers 2021). Level = epsilon.

    ``sensitivity``: the largest change of one score between neighbours. ``monotone``: all scores move in the same direction
    between neighbours, and then the exponent is epsilon*score/sensitivity with the same guarantee. Source: 000, Definition 2.1.7 and
    Lemma 2.1.3; McSherry and Talwar 2007.
    """

    sensitivity: float
    candidates: int
    monotone: bool = False
    kind: ClassVar[str] = "exponential"
    family: ClassVar[Family] = "bounded-range"
    norm: ClassVar[Norm] = "score"
    size: ClassVar[int] = 1
    reference: ClassVar[str] = "000 Definition 2.1.7, Lemma 2.1.3; McSherry and Talwar 2007; Cesar and Rogers 2021"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, candidates=self.candidates)

    def scale(self, level: float) -> float:
        """The temperature: probabilities are proportional to exp(score/scale)."""
        return (1.0 if self.monotone else 2.0) * self.sensitivity / check_level(level)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon from the temperature: a score moves the exponent by sensitivity/scale, twice where scores move both ways."""
        return (1.0 if self.monotone else 2.0) * self.sensitivity / noise["scale"]

    def check(self, value: Any) -> str | None:
        return check_scores(value, self.candidates)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> int:
        unit = (1.0 if self.monotone else 2.0) * self.sensitivity
        return choose_exponential(gaps(value, unit) * (check_level(level) * SLACK), noise)
