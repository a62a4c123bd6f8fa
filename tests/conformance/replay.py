"""A meter that answers without looking: the noise is real, and every value handed to it is replaced by zeros.

Two runs with one seed then get the same answers whatever the records are, so everything that an algorithm does between its draws must be
the same too: an output that differs was computed from records outside the meter. The values that were handed over are kept, so
that the sensitivity can be measured along one transcript: that is the adaptive-composition argument, executed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpspec.privacy.meter import Release


@dataclass
class Blind:
    """Wraps a study-mode :class:`Release`. ``seen``: (draw, what it was given) in the order of the calls.

    ``poisson``: sampling rates by draw. A record's coins are its own: data set and neighbour, which lacks the record ``removed``, are
    compared along coins that agree for all records that both have, as the accountant's mixture does.
    """

    meter: Release
    seen: list[tuple[str, Any]] = field(default_factory=list)
    poisson: dict[str, float] = field(default_factory=dict)
    removed: int | None = None
    batches: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.meter, name)  # level, scale, remaining, public, mode

    def batch(self, name: str, count: int | None = None) -> Any:
        if name not in self.poisson:
            return self.meter.batch(name, count)
        self.meter.batch(name, None if count is None else 0)  # keeps its order of calls, and tosses no coin
        self.batches += 1
        held = int(count or 0) + (self.removed is not None)
        coins = np.random.default_rng([77, self.batches]).random(held) < self.poisson[name]
        return np.flatnonzero(coins if self.removed is None else np.delete(coins, self.removed))

    def _central(self, method: str, name: str, value: Any, **options: Any) -> Any:
        self.seen.append((name, np.array(value, dtype=float)))
        return getattr(self.meter, method)(name, np.zeros_like(np.asarray(value, dtype=float)), **options)

    def gaussian(self, name: str, value: Any, *, sensitivity: float) -> Any:
        return self._central("gaussian", name, value, sensitivity=sensitivity)

    def laplace(self, name: str, value: Any, *, sensitivity: float) -> Any:
        return self._central("laplace", name, value, sensitivity=sensitivity)

    def exponential(self, name: str, scores: Any, *, sensitivity: float) -> Any:
        return self._central("exponential", name, scores, sensitivity=sensitivity)

    def noisy_max(self, name: str, scores: Any, *, sensitivity: float) -> Any:
        return self._central("noisy_max", name, scores, sensitivity=sensitivity)

    def permute_and_flip(self, name: str, scores: Any, *, sensitivity: float) -> Any:
        return self._central("permute_and_flip", name, scores, sensitivity=sensitivity)

    def peel(self, name: str, value: Any, *, sensitivity: float, kept: int | None = None) -> Any:
        return self._central("peel", name, value, sensitivity=sensitivity, kept=kept)

    def norm_laplace(self, name: str, value: Any, *, sensitivity: float) -> Any:
        return self._central("norm_laplace", name, value, sensitivity=sensitivity)

    def wishart(self, name: str, value: Any, *, sensitivity: float) -> Any:
        return self._central("wishart", name, value, sensitivity=sensitivity)

    def smooth(self, name: str, value: float, *, bound: float, smoothing: float) -> Any:
        self.seen.append((name, None))
        return self.meter.smooth(name, 0.0, bound=1.0, smoothing=smoothing)

    def objective(self, name: str, solve: Any, *, sensitivity: float) -> Any:
        """What is seen is the minimiser at the planned linear term, the same one in every run with one seed."""

        def blind(linear: Any, extra: float) -> Any:
            self.seen.append((name, np.array(solve(linear, extra), dtype=float)))
            return linear

        return self.meter.objective(name, blind, sensitivity=sensitivity)

    def mean(self, name: str, values: Any) -> Any:
        self.seen.append((name, [values]))
        return self.meter.mean(name, _zeros(values))

    def reports(self, name: str, values: Any) -> Any:
        self.seen.append((name, [values]))
        return self.meter.reports(name, _zeros(values))

    def mean_blocks(self, name: str, blocks: Iterable[Any]) -> Any:
        held = list(blocks)
        self.seen.append((name, held))
        return self.meter.mean_blocks(name, [_zeros(b) for b in held])

    def mean_blocks_many(self, names: Any, blocks: Iterable[Any]) -> Any:
        held = list(blocks)
        self.seen += [(name, held) for name in names]
        return self.meter.mean_blocks_many(names, [_zeros(b) for b in held])


def moved(mechanism: Any, level: float, one: Any, other: Any, tolerance: float = 0.0) -> float:
    """How far a draw's value moved, in what its mechanism's ``sensitivity`` bounds.

    An objective's minimisers at one linear term: J is Lambda-strongly convex and its neighbour's gradient differs by (1/n) times what the
    sum of gradients moves by, so that is at least n*(Lambda*distance - 2*tolerance), each point being ``tolerance``/Lambda from its
    minimiser.
    """
    v = np.asarray(one) - np.asarray(other)
    match mechanism.kind:
        case "objective-perturbation" | "objective-gaussian":
            weight = mechanism.l2 + mechanism.extra(level)
            return float(mechanism.n * (weight * np.linalg.norm(v) - 2 * tolerance))
        case "wishart":  # one record's term at the most on either side, by its trace
            values = np.linalg.eigvalsh(v)
            return float(max(values[values > 0].sum(), -values[values < 0].sum()))
        case "wishart-symmetrised":
            return float(np.abs(np.linalg.eigvalsh(v)).sum())
        case "laplace-symmetric":
            return float(np.abs(v[np.triu_indices(len(v))]).sum())
    match mechanism.norm:
        case "l2":
            return float(np.linalg.norm(v))
        case "l1":
            return float(np.abs(v).sum())
        case _:
            return float(np.abs(v).max(initial=0.0))


def _zeros(block: Any) -> Any:
    if isinstance(block, tuple):
        return tuple(np.zeros(np.shape(part)) for part in block)
    return np.zeros(np.shape(block))


def rows(held: Any) -> np.ndarray:
    """What the users of one local draw held: one row a user."""
    parts = []
    for block in held:
        arrays = block if isinstance(block, tuple) else (block,)
        dense = [np.asarray(a.toarray() if hasattr(a, "toarray") else a, dtype=float) for a in arrays]
        parts.append(np.column_stack([a.reshape(len(a), -1) for a in dense]))
    return np.vstack(parts)
