"""Hostile records that are still different after enforcement, made from the declared domains alone.

A record far outside its domain proves nothing where enforcement maps it to the same image as its neighbour (``map`` gives every unknown
value the first image, ``reject`` gives zeros). What stands here is what a user would send to end at an extreme point: the listed values of
a finite set (the keys of a map), the opposite ends of a box, opposite and orthogonal points of a ball, and zero where it stays zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpspec.compiler.draft import Draft
from dpspec.data.enforce import rules_of
from dpspec.data.problems import number
from dpspec.data.records import Records
from dpspec.data.sources import as_number, known_values
from dpspec.executor.bind import missing, values
from dpspec.numeric.norms import Entries
from dpspec.spec.model import Domain, Finite

FAR = 1e3  # how far outside its domain a record is sent, where enforcement brings it back to the boundary
#: One record: (x, y) as they are sent.
Row = tuple[tuple[float, ...], float]


def enforced_domains(draft: Draft, variable: str) -> list[Domain]:
    return [domain for domain in draft.analysis.data.domains if domain.variable == variable and domain.by is not None]


def spelled(draft: Draft) -> frozenset[str]:
    """Variables whose map has a key that is no number: arrays can hold its images only, and say so (``Records.mapped``)."""
    found = [domain for v in ("x", "y") for domain in enforced_domains(draft, v)]
    return frozenset(f.variable for f in found if f.by is not None and any(as_number(key) is None for key, _ in f.by.mapping))


def made(draft: Draft, x: Any, y: Any, public: Any = None) -> Records:
    return Records(x, y, public, spelled(draft))


def image(draft: Draft, variable: str, sent: np.ndarray) -> np.ndarray:
    """The vector (or the number, of one coordinate) after enforcement."""
    data = draft.analysis.data
    env = known_values(data, values(draft))
    rules = rules_of(data, variable, sent.size, env, done=variable in spelled(draft))
    gone = np.isnan(sent) & (variable == "x" and missing(draft))
    found = np.ravel(rules.apply(Entries(np.where(gone, 0.0, np.array(sent, dtype=float))[None, :]))[0])
    return np.where(gone, np.nan, found)


def listed(draft: Draft, variable: str) -> list[float]:
    """The values of a finite domain as they are sent, in the order of their images; empty for a domain that is no list."""
    for domain in enforced_domains(draft, variable):
        assert domain.by is not None
        if domain.by.mapping:
            keys = [as_number(key) for key, _ in domain.by.mapping]
            if variable in spelled(draft):
                keys = [float(number(e, values(draft), "an image", "DP521")) for _, e in domain.by.mapping]
            found = [float(key) for key in keys if key is not None]
        elif isinstance(domain.set, Finite):
            found = [float(number(e, values(draft), "a value", "DP521")) for e in domain.set.values]
        else:
            continue
        return sorted(set(found), key=lambda v: image(draft, variable, np.array([v]))[0])
    return []


def _directions(d: int) -> list[np.ndarray]:
    """Both ends of the first axis first, the second axis, the diagonal, both ends of the alternating one, zero."""
    eye, ones, wave = np.eye(d), np.ones(d), np.where(np.arange(d) % 2, -1.0, 1.0)
    found = [eye[0], -eye[0], ones, -ones, np.zeros(d)]
    return found if d == 1 else [*found[:2], eye[1], *found[2:4], wave, -wave, found[4]]


def _pattern(direction: np.ndarray, values_: list[float]) -> np.ndarray:
    """The direction over a list: its signs become the largest, the least and the middle value."""
    return np.select([direction > 0, direction < 0], [values_[-1], values_[0]], values_[(len(values_) - 1) // 2])


def to_listed(draft: Draft, x: np.ndarray) -> np.ndarray:
    """Rows over the list of a finite domain, where any other number would become the first image: the sign of each entry says which value
    it is. Of other domains ``x`` itself."""
    allowed = listed(draft, "x")
    return _pattern(x, allowed) if allowed else x


def sent_to_the_end(draft: Draft, variable: str, direction: np.ndarray) -> np.ndarray:
    """A multiple of the direction that enforcement brings to the end of the domain: far outside, or just inside where records outside
    become zeros."""
    if not direction.any() or not enforced_domains(draft, variable):
        return direction * FAR
    size = float(np.abs(image(draft, variable, direction * 1e150)).max())
    far = direction * FAR * max(size, 1.0)
    rejected = any(domain.by is not None and domain.by.how == "reject" for domain in enforced_domains(draft, variable))
    if not rejected:
        return far
    kept = [m for m in 4.0 ** np.arange(-20, 40) if image(draft, variable, direction * m).any()]
    if not kept:
        return far
    low, high = kept[-1], 4 * kept[-1]  # around the largest multiple that is kept
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if image(draft, variable, direction * middle).any() else (low, middle)
    return direction * low


def extremes(draft: Draft, variable: str, d: int) -> list[np.ndarray]:
    """Vectors to send, no two of which have one image."""
    allowed = listed(draft, variable)
    if allowed:
        candidates = [_pattern(v, allowed) for v in _directions(d)] + [np.full(d, v) for v in allowed[:6]]
        if d > 1:  # one coordinate against all others: of binary records that is the nearest to an axis
            candidates += [np.where(np.eye(d)[j] > 0, allowed[-1], allowed[0]) for j in (0, 1)]
    else:
        candidates = [sent_to_the_end(draft, variable, v) for v in _directions(d)]
    found: dict[bytes, np.ndarray] = {}
    for v in candidates:
        found.setdefault((image(draft, variable, v) + 0.0).tobytes(), v)
    return list(found.values())


def opposite(draft: Draft, variable: str, sent: np.ndarray) -> np.ndarray:
    """The vector to send whose image is the furthest from that of ``sent``."""
    here = image(draft, variable, sent)
    candidates = [*extremes(draft, variable, sent.size), -sent]
    return max(candidates, key=lambda v: float(np.linalg.norm(image(draft, variable, v) / 2 - here / 2)))


def moved_coordinates(draft: Draft, sent: np.ndarray, j: int) -> list[np.ndarray]:
    """``sent`` and what it becomes when its coordinate j alone is another one."""
    ends = listed(draft, "x") or [FAR * max(1.0, float(np.abs(sent).max())), -FAR * max(1.0, float(np.abs(sent).max())), 0.0]
    found = {image(draft, "x", sent).tobytes(): sent}
    for end in [*ends, -sent[j], sent[j] + 1.0]:
        other = np.array(sent)
        other[j] = end
        found.setdefault(image(draft, "x", other).tobytes(), other)
    return list(found.values())


def groups(draft: Draft, relation: str) -> list[list[Row | None]]:
    """Sets of records of which any two make neighbours; None: the record is not there.

    ``replace-one``: any two. ``zero-out``: each with the record of zeros. ``add-remove``: each with none. ``attribute``: one coordinate
    of x differs, or y. ``labels-only``: y differs.
    """
    d = int(draft.facts["d"])
    xs, ys = extremes(draft, "x", d), [float(v[0]) for v in extremes(draft, "y", 1)]
    if relation != "labels-only":
        ys = sorted({min(ys), max(ys)})
    if missing(draft):
        xs = [*xs, np.where(np.arange(d) == 0, np.nan, xs[0]), np.where(np.arange(d) == 0, xs[0], np.nan), np.full(d, np.nan)]
    every: list[Row | None] = [(tuple(x), y) for x in xs for y in ys]
    labels: list[list[Row | None]] = [[(tuple(x), y) for y in ys] for x in xs]
    match relation:
        case "replace-one":
            found = [every]
        case "zero-out":
            found = [[row, ((0.0,) * d, 0.0)] for row in every]
        case "add-remove":
            found = [[row, None] for row in every]
        case "labels-only":
            found = labels[:4]
        case "attribute":
            coordinates = [([(tuple(v), ys[k % len(ys)]) for v in moved_coordinates(draft, x, k % d)]) for k, x in enumerate(xs[:4])]
            found = [*labels[:2], *coordinates]
        case _:
            raise ValueError(relation)
    return [[row for k, row in enumerate(group) if k == 0 or image_of(draft, row) != image_of(draft, group[0])] for group in found]


def image_of(draft: Draft, row: Row | None) -> bytes:
    if row is None:
        return b"none"
    return (image(draft, "x", np.array(row[0])) + 0.0).tobytes() + (image(draft, "y", np.array([row[1]])) + 0.0).tobytes()
