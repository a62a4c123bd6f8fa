"""What the tests of the online methods share: a bound problem, and the transcript without noise, written again in fractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from dpspec.executor.bind import bound_problem
from tests.algorithms.pairwise.test_off_pair_c import RANKING, drafted

__all__ = ["RANKING", "Fed", "bound", "movement", "vectors"]


def bound(module: ModuleType, **spec: Any) -> tuple[Any, Any, Any]:
    """Problem, tunables and calibration, as the compiler makes them."""
    draft = drafted(algorithm=module.CARD.id, **spec)
    release = draft.releases[0]
    assert release.module is module, [e.message for e in draft.diagnostics]
    return bound_problem(draft, release), release.tunables, release.calibrated


class Fed:
    """A release that answers each vector of a stream with a number of its own, whatever the records are: one transcript."""

    public: Any = SimpleNamespace()

    def __init__(self, answers: np.ndarray | None = None) -> None:
        self.answers, self.seen = answers, [np.zeros(0)]

    def draw(self, name: str, value: Callable[[Any], None], *, sensitivity: float) -> np.ndarray:
        self.seen, given = [], []

        def answer(vector: np.ndarray) -> np.ndarray:
            self.seen.append(np.array(vector))
            given.append(vector if self.answers is None else self.answers[len(given)])
            return given[-1]

        value(answer)
        return np.array(given)


def vectors(x: Sequence[Fraction], y: Sequence[int], slope: Any, points: Sequence[Fraction], blocks: Any, held: Any) -> list[Fraction]:
    """The exact gradients of one coordinate at the released ``points``; ``held``: the buffer before each block, None: all earlier."""
    found = []
    for q in range(blocks.count):
        rows, w, total = blocks.rows(q), points[q], Fraction(0)
        for k in range(rows.start, rows.stop):
            others = list(range(k)) if held is None else list(held[q])
            terms = [(x[k] - x[i]) * slope(w * (x[k] - x[i]), y[k] - y[i]) for i in others]
            total += sum(terms, Fraction(0)) / len(others)
        found.append(total / blocks.every)
    return found


def movement(n: int, slope: Any, points: Sequence[Fraction], blocks: Any, held: Any) -> Fraction:
    """The largest squared distance of all gradients of a transcript, over every place of the record that differs and extreme records."""
    records = [(Fraction(a), b) for a in (-1, 1) for b in (-1, 1)]
    most = Fraction(0)
    for rest in ((Fraction(-1), -1), (Fraction(1), 1)):
        for place in range(n):
            ends = []
            for own in records:
                rows = [rest] * n
                rows[place] = own
                ends.append(vectors([r[0] for r in rows], [r[1] for r in rows], slope, points, blocks, held))
            most = max(most, *(sum(((a - b) ** 2 for a, b in zip(u, v, strict=True)), Fraction(0)) for u in ends for v in ends))
    return most
