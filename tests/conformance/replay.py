"""A meter that answers without looking: the noise is real, and every value handed to it is replaced by zeros.

Two runs with one seed then get the same answers whatever the records are, so everything that an algorithm does between its draws must be
the same too: an output that differs was computed from records outside the meter. The values that were handed over are kept, so
that the sensitivity can be measured along one transcript: that is the adaptive-composition argument, executed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from dpspec.algorithms.estimate import Estimate
from dpspec.data.records import Records
from dpspec.executor import bind
from dpspec.executor.bind import bound_problem
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.privacy.schedule import Leaf, draws
from tests.conformance.cases import Case, public_of
from tests.conformance.extremes import Row, extremes, groups, listed, made


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


# ---------------------------------------------------------------------------------------------------------------- movements


def blind_run(c: Case, records: Records, module: Any = None, removed: int | None = None) -> tuple[Estimate, Blind]:
    """``removed``: the place of the record that these ``records`` lack, for Poisson coins."""
    r = c.release
    enforced, _ = bind.enforced(c.draft, records)
    meter = Release(r.calibrated, StudyNoise(5), mode="study", public=PublicRandomness(0), per_user=True)
    found = {name: leaf.sampling for name, leaf in draws(r.tree).items() if leaf.sampling is not None}
    blind = Blind(meter, poisson={name: s.rate for name, s in found.items() if s.method == "poisson"}, removed=removed)
    estimate = (module or r.module).run(enforced, bound_problem(c.draft, r), r.tunables, blind)
    blind.meter.close()
    return estimate, blind


def leaf_of(planned: dict[str, Leaf], name: str) -> Leaf:
    return next(planned[k] for k in (name, f"{name}/select", f"{name}/value") if k in planned)


@dataclass(frozen=True)
class Moved:
    """What one changed record moved: how many values of each draw, and the furthest as a share of the draw's sensitivity (of a local
    draw: 1 for a user that holds something else)."""

    counts: dict[str, int]
    shares: dict[str, float]
    apart: float = 0.0  # all values together, in l2: tells pairs apart that move a local draw alike


def moved(c: Case, before: Blind, after: Blind) -> Moved:
    """Along one transcript of answers. Raises AssertionError where the calls differ, where more values of a draw move than are planned, or
    one by more than its sensitivity."""
    planned, tolerance = draws(c.release.tree), float(c.release.tunables.get("tolerance", 0.0))
    assert [name for name, _ in before.seen] == [name for name, _ in after.seen], "the calls depend on the records"
    counts, shares, apart = dict.fromkeys(planned, 0), dict.fromkeys(planned, 0.0), 0.0
    for (name, u), (_, v) in zip(before.seen, after.seen, strict=True):
        if u is None:
            continue
        leaf = leaf_of(planned, name)
        if leaf.draw.per == "user":
            users = int((rows(u) != rows(v)).any(axis=1).sum())
            apart = math.hypot(apart, float(np.linalg.norm(rows(u) - rows(v))))
            counts[name] += users
            shares[name] = max(shares[name], float(users > 0))
            continue
        mechanism = leaf.draw.mechanism
        distance = mechanism.distance(c.release.calibrated.levels[leaf.draw.name], u, v, tolerance)
        assert distance <= mechanism.claim * (1 + 1e-9) + 1e-12, f"{name} moves further than its sensitivity"
        counts[leaf.draw.name] += int(distance > 0)
        shares[leaf.draw.name] = max(shares[leaf.draw.name], distance / mechanism.claim)
        apart = math.hypot(apart, distance / mechanism.claim)
    for name, leaf in planned.items():
        assert counts[name] <= leaf.count, f"one record moves {counts[name]} values of {name}, planned are {leaf.count}"
    return Moved(counts, shares, apart)


def bases(c: Case) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """The other records and the place of the one that differs: records of the least x, then typical ones."""
    n, d = int(c.draft.facts["n"]), int(c.draft.facts["d"])
    rng, ys = np.random.default_rng(6), [v[0] for v in extremes(c.draft, "y", 1)]
    allowed = listed(c.draft, "x")
    typical = rng.choice(allowed, size=(n, d)) if allowed else rng.normal(size=(n, d))
    return [(np.zeros((n, d)), np.full(n, max(ys)), 0), (typical, rng.choice(ys, size=n), n - 1)]


def with_row(c: Case, base: tuple[np.ndarray, np.ndarray, int], row: Row | None) -> Records:
    x, y, place = np.array(base[0]), np.array(base[1]), base[2]
    if row is None:
        return made(c.draft, np.delete(x, place, axis=0), np.delete(y, place), public_of(c))
    x[place], y[place] = row
    return made(c.draft, x, y, public_of(c))


def enforced(c: Case, records: Records) -> tuple[np.ndarray, np.ndarray]:
    kept = bind.enforced(c.draft, records)[0]
    return np.asarray(kept.x), np.asarray(kept.y)


def differ(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether two enforced data sets differ in exactly one record."""
    (x, y), (u, v) = one, other
    if len(x) != len(u):
        return abs(len(x) - len(u)) == 1
    apart = (x != u) & ~(np.isnan(x) & np.isnan(u))  # an entry that is missing from both is one
    return int((apart.any(axis=1) | (y != v)).sum()) == 1


Pair = tuple[Records, Records]


def movements(c: Case, relation: str, module: Any = None, surroundings: int = 2) -> list[tuple[Moved, Pair]]:
    """Every neighbouring pair of extreme records, each compared along one transcript; every record runs once. Raises AssertionError as
    :func:`moved` does, and for neighbours that enforcement makes one."""
    found: list[tuple[Moved, Pair]] = []
    for base in bases(c)[:surroundings]:
        runs: dict[Row | None, tuple[Records, Blind, tuple[np.ndarray, np.ndarray]]] = {}
        for group in groups(c.draft, relation):
            for row in group:
                if row not in runs:
                    records = with_row(c, base, row)
                    blind = blind_run(c, records, module, base[2] if row is None else None)[1]
                    runs[row] = records, blind, enforced(c, records)
            for (one, before, p), (other, after, q) in combinations((runs[row] for row in group), 2):
                assert differ(p, q), "the neighbours are one after enforcement"
                found.append((moved(c, before, after), (one, other)))
    return found


def nastiest(c: Case, relation: str, module: Any = None) -> Pair:
    """The neighbouring pair of extreme records, beside records of the least x, whose draws are furthest apart."""
    found = movements(c, relation, module, surroundings=1)
    return max(found, key=lambda item: (item[0].apart, max(item[0].shares.values())))[1]


def worst(found: list[tuple[Moved, Pair]]) -> dict[str, float]:
    """The largest share of its sensitivity by which any pair moved each draw."""
    return {name: max(m.shares[name] for m, _ in found) for name in found[0][0].shares}
