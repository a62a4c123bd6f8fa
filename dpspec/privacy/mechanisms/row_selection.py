"""Several selections at once, one a row of scores, of which one record moves few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_positive
from dpspec.privacy.mechanisms.selection import SLACK, check_scores, choose_exponential, choose_flip, gaps
from dpspec.privacy.noise import Integers, NoiseSource
from dpspec.privacy.schedule import Family, Norm


@dataclass(frozen=True, slots=True)
class RowSelection(Drawn):
    """Of each row of scores one candidate, independently, by permute-and-flip or by the exponential mechanism. Level = epsilon.

    ``sensitivity``: the most that a neighbour changes the rows *together*: the sum over the rows of the largest change of a score of the
    row.
    If row i changes by s_i at most, its selection at the common temperature 2*sensitivity/epsilon is (s_i/sensitivity)*epsilon-DP, and of
    bounded range so much for the exponential mechanism; both add up over rows to at most epsilon. So where every record counts in one row
    alone, many rows cost what one does: parallel composition without parts that are fixed beforehand.

    ``candidates``: the most that a row may have. Rows may differ in length by what was released before. Source: McSherry and Talwar 2007;
    McKenna and Sheldon 2020; for quantiles by halves, Kaplan, Schnapp and Stemmer 2022.
    """

    sensitivity: float
    candidates: int
    rows: int
    form: Literal["flip", "exponential"] = "flip"
    kinds: ClassVar[tuple[str, ...]] = ("rows-flip", "rows-exponential")
    norm: ClassVar[Norm] = "score"
    reference: ClassVar[str] = "McSherry and Talwar 2007; McKenna and Sheldon 2020; Kaplan, Schnapp and Stemmer 2022"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, candidates=self.candidates, rows=self.rows)

    @property
    def kind(self) -> str:
        return f"rows-{self.form}"

    @property
    def family(self) -> Family:
        return "pure" if self.form == "flip" else "bounded-range"

    @property
    def size(self) -> int:
        return self.rows

    def scale(self, level: float) -> float:
        """The temperature 2*sensitivity/epsilon."""
        return 2.0 * self.sensitivity / check_level(level)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon from the temperature."""
        return 2.0 * self.sensitivity / noise["scale"]

    def check(self, value: Any) -> str | None:
        if not isinstance(value, Sequence) or len(value) != self.rows:
            return f"the plan chooses in {self.rows} rows of scores"
        for row in value:
            found = np.asarray(row)
            if not 1 <= found.size <= self.candidates:
                return f"a row has {found.size} candidates, and the plan allows 1 to {self.candidates}"
            if (problem := check_scores(found, found.size)) is not None:
                return problem
        return None

    def blind(self, value: Any) -> tuple[Any, Any]:
        """Rows side by side, the shorter ones with zeros behind; all scores equal is what is drawn instead."""
        seen = np.zeros((self.rows, max(np.size(row) for row in value)))
        for i, row in enumerate(value):
            seen[i, : np.size(row)] = row
        return seen, [np.zeros(np.size(row)) for row in value]

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        return float(np.abs(np.asarray(one) - np.asarray(other)).max(axis=1).sum())

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Integers:
        choose = choose_flip if self.form == "flip" else choose_exponential
        epsilon = check_level(level) * (1.0 - self.rows * (1.0 - SLACK))  # each row's gaps are rounded
        return np.array([choose(gaps(row, 2.0 * self.sensitivity) * epsilon, noise) for row in value], dtype=np.int64)
