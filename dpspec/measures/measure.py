"""What a measure of error is, and what it may look at. Study mode only.

Each compares an estimate with the truth of the law, with a non-private reference or with the records of the trial; lower is better. The law
is that of the records after enforcement wherever a bound may speak of the measure (:mod:`dpspec.executor.enforced`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Problem

Array: TypeAlias = NDArray[np.float64]
#: ``truth``: a parameter of the law, which enforcement moves (the reference stands in for it on real data). ``law``: the same of the law
#: before enforcement, as a support is: a sample has no zeros. ``optimum``: the least value of the objective on the records.
#: ``reference``: the non-private estimate. ``records``: those of the trial. ``population``: fresh records of the law.
Needs: TypeAlias = Literal["truth", "law", "optimum", "reference", "records", "population"]


#: Parts of a population sample whose spread tells its error.
PARTS = 16


def _no_truth(trial: Trial) -> Array:
    raise LookupError("this task has no true value to measure against")


@dataclass(frozen=True)
class Population:
    """Fresh enforced records of the law, many more than a trial has; ``solve`` finds the minimiser of the objective on them and the least
    value. ``quadratic``: (w*, H) where the mean loss of the law is known in closed form, (w - w*)^T H (w - w*)/2 above its least value."""

    records: Any
    solve: Callable[[], tuple[Any, float | None]] = lambda: (None, None)
    quadratic: tuple[Array, Array] | None = None

    @cached_property
    def solved(self) -> tuple[Any, float | None]:
        """Found when it is first asked for."""
        found: tuple[Any, float | None] = self.solve()
        return found

    @property
    def optimum(self) -> float | None:
        least: float | None = self.solved[1]
        return least

    def error(self, value: Callable[[Any, Any], float], w: Any) -> float | None:
        """The standard error of the excess risk at w: of ``value(w, records)`` less that of the minimiser, from :data:`PARTS` parts of the
        fresh records; None where no minimiser is known, and where the risk is known in closed form."""
        if self.quadratic is not None:
            return None
        best, rows = self.solved[0], self.records
        if best is None or getattr(rows, "x", None) is None or rows.n < 2 * PARTS:
            return None
        parts = [type(rows)(rows.x[i::PARTS], None if rows.y is None else rows.y[i::PARTS]) for i in range(PARTS)]
        found = np.array([value(w, part) - value(best, part) for part in parts])
        return float(found.std(ddof=1)) / math.sqrt(PARTS)


@dataclass(frozen=True)
class Trial:
    """What a measure may look at. ``truth``: the parameters by name of the law that is compared with, empty on real data; ``reference``:
    non-private estimate; ``optimum``: least value of the objective; ``estimand``: the task's true value in a trial; ``population``: fresh
    enforced records of the law, for measures that need them; ``released``: for measures of more than the estimate."""

    records: Any
    problem: Problem
    truth: Any
    reference: Any
    optimum: float | None = None
    estimand: Callable[[Trial], Array] = _no_truth
    population: Population | None = None
    released: Mapping[str, Any] = field(default_factory=dict)  # all that the release published, by name: theta and its extras

    @property
    def true(self) -> Array:
        """The true value of the task, in the shape of an estimate. Raises LookupError where neither law nor reference tells it."""
        return self.estimand(self)


@dataclass(frozen=True, slots=True)
class Measure:
    """``name`` is the word of specs and cards; ``of(estimate, trial)`` its value; ``needs`` what it reads beside the estimate."""

    name: str
    of: Callable[[Array, Trial], float]
    needs: Needs
    compared: bool = True  # whether the ratio to the non-private error says anything: a stationary point has 0 up to its tolerance
    transfers: bool = True  # whether it says something of an answer and records that it was not found on

    @property
    def of_a_law(self) -> bool:
        """Whether it compares with a parameter of the law, which enforcement moves."""
        return self.needs == "truth"

    @property
    def on_records(self) -> bool:
        """Whether it is computed on the enforced records themselves; every other one compares with a law."""
        return self.needs in ("records", "optimum", "reference")


#: Other spellings of a name.
_SPELLINGS: Mapping[str, str] = {"l2": "l2-error"}


def normal(name: str) -> str:
    """The one spelling of a measure's name."""
    word = name.replace(" ", "-")
    return _SPELLINGS.get(word, word)
