"""What the inputs of a black box may be, and which two of them are neighbours.

A domain proposes neighbouring pairs: extremal ones by hand-made patterns, random ones, and small changes of a pair for a search. An input
is an array: (n,) numbers, (n, dim) vectors, (n, dim + 1) labelled vectors with the label last, (k,) query answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Pair = tuple[Array, Array]
Relation = Literal["replace-one", "add-remove"]


class Domain(Protocol):
    def extremes(self) -> list[Pair]: ...

    def random(self, rng: np.random.Generator) -> Pair: ...

    def vary(self, pair: Pair, rng: np.random.Generator) -> Pair: ...

    def neighbours(self, a: Any, b: Any) -> bool: ...


@dataclass(frozen=True, slots=True)
class Records:
    """Data sets of 1 to ``size`` records, each ``dim`` numbers: in [low, high] each, or in the ball of ``radius``; then a label of
    ``labels``, if any.

    With ``add-remove`` a pair is a data set and the same with one record more; with ``replace-one`` both have one length.
    """

    size: int
    dim: int = 1
    low: float = 0.0
    high: float = 1.0
    radius: float | None = None
    labels: tuple[float, ...] = ()
    relation: Relation = "replace-one"

    def __post_init__(self) -> None:
        if self.size < 1 or self.dim < 1 or not self.low < self.high or (self.radius is not None and self.radius <= 0):
            raise ValueError(f"empty domain {self}")

    def _poles(self) -> Iterator[Array]:
        """Corners and the middle of the record domain, with every label."""
        if self.radius is None:
            first: list[Array] = [np.full(self.dim, v) for v in (self.low, self.high, (self.low + self.high) / 2)]
            if self.low < 0 < self.high:
                first.append(np.zeros(self.dim))
            if self.dim > 1:
                mixed = np.full(self.dim, self.low)
                mixed[::2] = self.high
                first.append(mixed)
        else:
            axis = np.eye(self.dim)[0] * self.radius
            first = [axis, -axis, np.zeros(self.dim), np.full(self.dim, self.radius / np.sqrt(self.dim))]
        for x in first:
            for label in self.labels or (None,):
                yield x if label is None else np.append(x, label)

    def _shape(self, rows: list[Array]) -> Array:
        width = self.dim + (1 if self.labels else 0)
        data = np.array(rows, dtype=float).reshape(len(rows), width)
        return data[:, 0] if width == 1 else data

    def extremes(self) -> list[Pair]:
        poles = list(self._poles())
        out: list[Pair] = []
        for n in sorted({1, 2, self.size}, reverse=True):
            if n > self.size:
                continue
            for base in poles:
                for other in poles:
                    if self.relation == "add-remove":
                        if n > 1:
                            out.append((self._shape([base] * (n - 1)), self._shape([base] * (n - 1) + [other])))
                    elif other is not base:
                        out.append((self._shape([base] * n), self._shape([base] * (n - 1) + [other])))
        return out

    def _record(self, rng: np.random.Generator) -> Array:
        if self.radius is None:
            x = rng.uniform(self.low, self.high, self.dim)
            x = np.where(rng.random(self.dim) < 0.3, np.where(rng.random(self.dim) < 0.5, self.low, self.high), x)
        else:
            x = rng.standard_normal(self.dim)
            x *= self.radius / np.linalg.norm(x) * (1.0 if rng.random() < 0.7 else rng.random())
        return np.append(x, rng.choice(np.array(self.labels))) if self.labels else np.asarray(x, dtype=float)

    def random(self, rng: np.random.Generator) -> Pair:
        n = int(rng.integers(2 if self.relation == "add-remove" else 1, max(self.size, 2) + 1))
        rows = [self._record(rng) for _ in range(n)]
        if self.relation == "add-remove":
            return self._shape(rows[:-1]), self._shape(rows)
        return self._shape(rows), self._shape([*rows[:-1], self._record(rng)])

    def vary(self, pair: Pair, rng: np.random.Generator) -> Pair:
        """The last record of the longer input is the one that differs; change it, a common one, or the length."""
        a, b = (list(np.asarray(x, dtype=float).reshape(len(x), -1)) for x in pair)
        common, last = b[:-1], [b[-1]] if self.relation == "add-remove" else [a[-1], b[-1]]
        pick = rng.integers(4)
        if pick == 0 and len(common) + 2 <= self.size:
            common.append(self._record(rng))
        elif pick == 1 and len(common) > 1:
            common.pop(int(rng.integers(len(common))))
        elif pick == 2 and common:
            common[int(rng.integers(len(common)))] = self._record(rng)
        else:
            last[int(rng.integers(len(last)))] = self._record(rng)
        if self.relation == "add-remove":
            return self._shape(common), self._shape([*common, last[0]])
        return self._shape([*common, last[0]]), self._shape([*common, last[1]])

    def neighbours(self, a: Any, b: Any) -> bool:
        rows_a, rows_b = (sorted(tuple(np.atleast_1d(r)) for r in np.asarray(x, dtype=float)) for x in (a, b))
        if self.relation == "replace-one":
            return len(rows_a) == len(rows_b) and _differ(rows_a, rows_b) <= 1
        return abs(len(rows_a) - len(rows_b)) == 1 and _differ(rows_a, rows_b) == 0


def _differ(a: list[tuple[Any, ...]], b: list[tuple[Any, ...]]) -> int:
    """Records of the shorter list that the longer one lacks, as multisets."""
    short, long = (a, list(b)) if len(a) <= len(b) else (b, list(a))
    missing = 0
    for row in short:
        if row in long:
            long.remove(row)
        else:
            missing += 1
    return missing


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of ``count`` queries of sensitivity ``step``: a pair differs by at most ``step`` in each answer; with ``monotone`` all in
    one direction.

    ``span``: answers lie in [0, span]. This is the input of a noisy maximum or of the sparse vector technique.
    """

    count: int
    step: float = 1.0
    span: float = 2.0
    monotone: bool = False

    def __post_init__(self) -> None:
        if self.count < 1 or self.step <= 0 or self.span < self.step:
            raise ValueError(f"empty domain {self}")

    def extremes(self) -> list[Pair]:
        k, s = self.count, self.step
        one = np.eye(k)[0]
        half = (np.arange(k) < (k + 1) // 2).astype(float)
        ones = np.ones(k)
        level = [np.zeros(k), ones * s]
        out: list[Pair] = []
        for base in level:
            out += [(base, base + s * up) for up in (one, ones - one, half, ones, 1 - half)]
        if not self.monotone:
            for sign in (one, ones - one, half, 1 - half):
                out.append((s * sign, s * (1 - sign)))
                out.append((ones * s, ones * s + s * (2 * sign - 1)))
        return [(np.clip(a, 0, self.span), np.clip(b, 0, self.span)) for a, b in out]

    def random(self, rng: np.random.Generator) -> Pair:
        a = np.round(rng.uniform(0, self.span, self.count) / self.step) * self.step
        return self._move(np.clip(a, 0, self.span), rng)

    def _move(self, a: Array, rng: np.random.Generator) -> Pair:
        if self.monotone:
            change = rng.integers(0, 2, self.count) * self.step
        else:
            change = rng.integers(-1, 2, self.count) * self.step
        return a, np.clip(a + change, 0, self.span)

    def vary(self, pair: Pair, rng: np.random.Generator) -> Pair:
        a, b = (np.array(x, dtype=float) for x in pair)
        j = int(rng.integers(self.count))
        direction = -1.0 if self.monotone and np.any(b < a) else 1.0
        a[j] = np.clip(round(float(rng.uniform(0, self.span)) / self.step) * self.step, 0, self.span)
        low = 0 if self.monotone else -1
        b[j] = np.clip(a[j] + direction * int(rng.integers(low, 2)) * self.step, 0, self.span)
        return a, b

    def neighbours(self, a: Any, b: Any) -> bool:
        change = np.asarray(b, dtype=float) - np.asarray(a, dtype=float)
        bounded = bool(np.all(np.abs(change) <= self.step * (1 + 1e-12)))
        return bounded and (not self.monotone or bool(np.all(change >= 0) or np.all(change <= 0)))


def numbers(size: int, low: float, high: float, *, relation: Relation = "replace-one") -> Records:
    """Lists of numbers in a range."""
    return Records(size, 1, low, high, relation=relation)


def ball(size: int, dim: int, radius: float = 1.0, *, relation: Relation = "replace-one") -> Records:
    """Lists of vectors in a Euclidean ball."""
    return Records(size, dim, radius=radius, relation=relation)


def labelled(
    size: int, dim: int, radius: float = 1.0, *, labels: tuple[float, ...] = (-1.0, 1.0), relation: Relation = "replace-one"
) -> Records:
    """Lists of vectors in a ball, each with a label in the last column."""
    return Records(size, dim, radius=radius, labels=labels, relation=relation)
