"""Bounds with their numbers: which one answers a target, which one is compared with, and where one begins.

Only an explicit upper bound (every constant known) with status ``proved`` accepts or misses a target. A bound in expectation answers a
target with a probability through Markov's inequality.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dpspec.spec.expr import names
from dpspec.theory.formulas import UNKNOWN, choose, positive

Kind = Literal["explicit", "order"]


@dataclass(frozen=True, slots=True)
class BoundValue:
    """A bound of the chosen algorithm, with its number where every constant is known. ``outside``: its conditions that do not hold here, so
    that it says nothing; ``trivial``: what an answer without data, or the largest possible error, has in its measure, where that is known
    before any data are; ``floor``: the value of the part that no n removes."""

    measure: str
    kind: Kind
    type: Literal["upper", "lower"]
    expression: str
    value: float | None
    probability: float | None
    status: Literal["proved", "claimed", "refuted"]
    theorem: str
    conditions: str = ""
    holds_if: tuple[str, ...] = ()
    regime: str = ""
    least_n: float | None = None  # the regime's value, its unspecified constant taken as 1
    outside: tuple[str, ...] = ()
    trivial: float | None = None
    floor: float | None = None

    @property
    def applies(self) -> bool:
        return not self.outside

    @property
    def vacuous(self) -> bool:
        """Whether it is true of every answer, or of the one without data, so that nothing is promised."""
        upper = self.kind == "explicit" and self.type == "upper"
        return upper and self.value is not None and self.trivial is not None and self.value >= self.trivial

    def to_json(self) -> dict[str, object]:
        begins = {"regime": self.regime, "least_n": self.least_n} if self.regime else {}
        more: dict[str, object] = {"outside": list(self.outside)} if self.outside else {}
        if self.vacuous:
            more["vacuous"] = self.trivial
        if self.floor is not None:
            more["floor"] = self.floor
        return {
            **begins,
            **more,
            "measure": self.measure,
            "kind": self.kind,
            "type": self.type,
            "expression": self.expression,
            "value": self.value,
            "probability": self.probability,
            "status": self.status,
            "theorem": self.theorem,
            "conditions": self.conditions,
            "holds_if": list(self.holds_if),
        }


def guaranteed(bounds: Iterable[BoundValue], measure: str, probability: float | None) -> float | None:
    """The least value that a proved explicit upper bound promises for a measure, at the asked probability; None where none does."""
    least: float | None = None
    for b in bounds:
        if b.measure != measure or b.kind != "explicit" or b.type != "upper" or b.status != "proved" or b.value is None or b.outside:
            continue
        value = b.value
        if probability is not None and b.probability is None:
            value = value / (1 - probability) if probability < 1 else math.inf
        elif probability is not None and b.probability is not None and b.probability < probability:
            continue
        least = value if least is None else min(least, value)
    return least


def best(bounds: Sequence[BoundValue], measure: str) -> BoundValue | None:
    """The bound that measured errors are held against: the tightest proved explicit upper one, else a proved order bound, else none. Only
    those whose conditions hold here."""
    same = [b for b in bounds if b.measure == measure and b.type == "upper" and b.status == "proved" and b.applies]
    explicit = [b for b in same if b.kind == "explicit" and b.value is not None]
    if explicit:
        return min(explicit, key=lambda b: b.value or math.inf)
    return next((b for b in same if b.kind == "order"), None)


def order(bounds: Iterable[BoundValue], measure: str = "") -> BoundValue | None:
    """The upper order bound that a study fits the constant of: the first whose conditions hold, a proved one before a claimed one; where
    none hold, the first that fails in numbers alone (a budget, an n), which other points of a study may meet."""
    same = [b for b in bounds if b.kind == "order" and b.type == "upper" and b.status != "refuted" and measure in ("", b.measure)]
    return _first([b for b in same if b.applies]) or _first([b for b in same if all(is_number(text) for text in b.outside)])


def _first(bounds: Sequence[BoundValue]) -> BoundValue | None:
    return next((b for b in bounds if b.status == "proved"), bounds[0] if bounds else None)


def is_number(outside: str) -> bool:
    """Whether a condition that fails is a comparison of numbers (``epsilon <= 1 (it is 4)``), not a statement or an option."""
    return "(it is" in outside


# -------------------------------------------------------------------------------------------------------------- regimes


def begins(regime: str, known: Mapping[str, float]) -> float | None:
    """The n at which a bound begins, its unspecified constant taken as 1; None where none is stated or a name has no value."""
    return positive(regime, {**known, UNKNOWN: 1.0}) if regime else None


def open_constant(regime: str) -> bool:
    """Whether a regime is known up to a constant only."""
    return UNKNOWN in names(choose(regime, {UNKNOWN: 1.0})[0])


def before(bounds: Iterable[BoundValue], n: float) -> BoundValue | None:
    """The upper bound that begins first, where ``n`` lies before every one that states where it begins."""
    stated = [(b.least_n, b) for b in bounds if b.type == "upper" and b.status != "refuted" and b.least_n is not None and b.applies]
    if not stated:
        return None
    least, first = min(stated, key=lambda pair: pair[0])
    return first if n < least else None
