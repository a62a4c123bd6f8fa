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

    def draw(self, name: str, value: Any, *, sensitivity: float) -> Any:
        seen, stand_in = self.meter.mechanism(name).blind(value)
        out = self.meter.draw(name, stand_in, sensitivity=sensitivity)
        self.seen.append((name, seen[0] if isinstance(seen, list) else seen))
        return out

    def peel(self, name: str, value: Any, *, sensitivity: float, kept: int | None = None) -> Any:
        self.seen.append((name, np.array(value, dtype=float)))
        return self.meter.peel(name, np.zeros_like(np.asarray(value, dtype=float)), sensitivity=sensitivity, kept=kept)

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
