"""Channels as matrices of conditional probabilities: the exact answer about one, and what every model of a channel asks of its words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpspec.audit.deployment import ChannelSpec, numeric
from dpspec.audit.pairs import Array, Atoms, Pair, randomized_response
from dpspec.spec.diagnostics import Diagnostic, SpecError


@dataclass(frozen=True, slots=True)
class ExactResult:
    """``epsilon``: the exact pure epsilon (infinite when an output is possible for one input only).

    ``pair`` and ``output`` attain it; ``delta_needed``: the least delta with which any finite epsilon holds (0 for a pure channel);
    ``delta_at``: the hockey-stick divergence at an epsilon, largest over pairs, or from above (``attained`` False), or not known (None).
    ``one_report``: of a single report, for channels whose claim is about many. ``over``, ``under``: pairs that dominate the channel and
    that two inputs show, for compositions.
    """

    epsilon: float
    how: str
    pair: tuple[str, str] | None = None
    output: str | None = None
    delta_needed: float = 0.0
    delta_at: Callable[[float], float] | None = None
    one_report: float | None = None
    attained: bool = True
    over: Pair | None = None
    under: Pair | None = None

    def epsilon_at(self, delta: float) -> float:
        """The least epsilon that is known to hold at ``delta``: without a profile the one that holds at every delta."""
        if delta <= 0 or self.delta_needed > delta:
            return self.epsilon if delta <= 0 else math.inf
        if self.delta_at is None:
            return self.epsilon
        from dpspec.audit.conversions import bisect_down

        return min(bisect_down(self.delta_at, delta), self.epsilon)

    def range_at(self, delta: float) -> tuple[float, float]:
        """Bounds on the epsilon at ``delta``; they agree where the profile is exact."""
        high = self.epsilon_at(delta)
        exact = delta <= 0 or self.delta_needed > delta or (self.delta_at is not None and self.attained)
        return (high if exact else 0.0), high

    def to_json(self) -> dict[str, object]:
        return {
            "epsilon": _finite(self.epsilon),
            "how": self.how,
            "pair": None if self.pair is None else list(self.pair),
            "output": self.output,
            "delta_needed": self.delta_needed,
            "epsilon_one_report": self.one_report,
        }


def _finite(x: float) -> float | str:
    return x if math.isfinite(x) else "inf"


def refuse(message: str, help: str = "") -> SpecError:
    return SpecError([Diagnostic("DP675", "error", message, help)])


def matrix_privacy(
    rows: Array | Sequence[Sequence[Any]],
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    neighbours: Sequence[tuple[int, int]] | None = None,
    how: str = "largest log-ratio over outputs and ordered pairs of inputs",
) -> ExactResult:
    """Exact audit of a matrix. Entries may be numbers or rational text (``"1/3"``); each row must sum to 1 within 1e-6.

    ``neighbours``: pairs of row indices; all pairs when absent.
    """
    p = checked_matrix(rows)
    names = [str(x) for x in (inputs if inputs is not None else range(p.shape[0]))]
    outs = [str(x) for x in (outputs if outputs is not None else range(p.shape[1]))]
    if len(names) != p.shape[0] or len(outs) != p.shape[1]:
        raise refuse(f"the matrix is {p.shape[0]} by {p.shape[1]}, but there are {len(names)} inputs and {len(outs)} outputs")
    if p.shape[0] < 2:
        raise refuse("a channel with one input has no neighbours", "give one row for each input")
    with np.errstate(divide="ignore"):
        log = np.log(p)
    if neighbours is None:
        with np.errstate(invalid="ignore"):
            gap = log.max(axis=0) - log.min(axis=0)
        gap = np.where(p.max(axis=0) == 0, 0.0, gap)
        y = int(np.argmax(gap))
        a, b = int(np.argmax(p[:, y])), int(np.argmin(p[:, y]))
        best = float(gap[y])
    else:
        _check_neighbours(neighbours, p.shape[0])
        best, a, b, y = -1.0, 0, 0, 0
        for i, j in (*neighbours, *((j, i) for i, j in neighbours)):
            with np.errstate(invalid="ignore"):
                gap = np.where(p[i] > 0, log[i] - log[j], -np.inf)
            if float(gap.max()) > best:
                best, a, b, y = float(gap.max()), i, j, int(np.argmax(gap))

    def delta_at(epsilon: float) -> float:
        if math.isinf(epsilon):
            factor = None
        else:
            factor = math.exp(min(epsilon, 709.0))
        top = 0.0
        if neighbours is None:
            for i in range(p.shape[0]):
                excess = np.where(p == 0, p[i], 0.0) if factor is None else np.maximum(p[i] - factor * p, 0.0)
                top = max(top, float(excess.sum(axis=1).max()))
        else:
            for i, j in (*neighbours, *((j, i) for i, j in neighbours)):
                excess = np.where(p[j] == 0, p[i], 0.0) if factor is None else np.maximum(p[i] - factor * p[j], 0.0)
                top = max(top, float(excess.sum()))
        return top

    needed = delta_at(math.inf) if math.isinf(best) else 0.0
    over = randomized_response(best) if 0 < best < 500 else None
    under = Atoms(tuple(p[a].tolist()), tuple(p[b].tolist()))
    return ExactResult(best, how, (names[a], names[b]), outs[y], needed, delta_at, over=over, under=under)


def _check_neighbours(neighbours: Sequence[tuple[int, int]], size: int) -> None:
    """Pairs of rows, two different ones at least: an empty comparison would be certified by silence."""
    for i, j in neighbours:
        if i not in range(size) or j not in range(size):
            raise refuse(f"neighbours ({i}, {j}) are not rows of the matrix")
    if all(i == j for i, j in neighbours):
        raise refuse("neighbours names no two different inputs, so nothing is compared", "leave it out to compare all pairs of inputs")


def checked_matrix(rows: Any) -> Array:
    try:
        table = [[_entry(x) for x in row] for row in rows]
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise refuse("the channel's rows must be lists of probabilities") from None
    if not table or not table[0]:
        raise refuse("the channel matrix is empty")
    if len({len(row) for row in table}) != 1:
        raise refuse("the rows of the channel matrix differ in length", "an output that only some inputs can give still needs its column")
    p = np.asarray(table, dtype=float)
    if not all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        raise refuse("the channel's rows must be lists of probabilities")
    if not np.all(np.isfinite(p)) or p.min() < 0 or p.max() > 1 + 1e-9:
        raise refuse("an entry of the channel matrix is no probability")
    sums = p.sum(axis=1)
    if np.max(np.abs(sums - 1)) > 1e-5:
        i = int(np.argmax(np.abs(sums - 1)))
        raise refuse(
            f"row {i} sums to {sums[i]:.6g}, not to 1", "one row is the distribution of the output for one input; is the matrix transposed?"
        )
    return p


def _entry(value: Any) -> float:
    if isinstance(value, str):
        number = numeric(value)
        if isinstance(number, str):
            raise ValueError("no number")
        return float(number)
    if isinstance(value, bool):
        raise ValueError("no number")
    return float(value)


def need(c: ChannelSpec, *names: str, low: float = -math.inf, high: float = math.inf) -> float:
    value = c.number(*names)
    if value is None:
        raise refuse(f"channel {c.kind} needs {' or '.join(names)}")
    if not low <= value <= high:
        raise refuse(f"{names[0]} = {value:g} is outside [{low:g}, {high:g}]")
    return value


def keep_of(c: ChannelSpec, k: float) -> float:
    keep, epsilon = c.number("keep"), c.number("epsilon")
    if keep is None and epsilon is None:
        raise refuse(f"channel {c.kind} needs keep or epsilon")
    found = [] if keep is None else [need(c, "keep", low=0, high=1)]
    if epsilon is not None:
        found.append(1 / (1 + (k - 1) * math.exp(-need(c, "epsilon", low=0))))
    # two statements that differ are said to; the one that tells more is used
    return max(found, key=lambda x: math.inf if x in (0.0, 1.0) else abs(math.log(x / (1 - x) * (k - 1))))
