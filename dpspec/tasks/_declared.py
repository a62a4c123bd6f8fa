"""Declared constants of a law that the simulated law contradicts. A bound that takes one of them promises nothing there, so errors above it
refute the declaration and not the bound: it is never called violated.

A constant counts for a bound when its name stands in the bound's expression: ``tau`` of a mean, the second moment of a coordinate; ``k``,
the off-diagonal non-zeros a column of a second moment; ``k_x``, the rows of its leading eigenvectors. Where the truth was computed from a
sample, the spread of its parts is left as room.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

#: Entries beyond the declared ones may sum to this share of the spectral norm, rows beyond them have this length.
_NEGLIGIBLE: Final = 0.01


def used_by_bounds(release: Any) -> set[str]:
    """The names in the explicit upper bounds of a release."""
    from dpspec.lang.source import parse_expr
    from dpspec.spec.expr import names

    return {n for b in release.bounds if b.kind == "explicit" and b.type == "upper" for n in names(parse_expr(b.expression))}


def of_a_moment(release: Any, problem: Any, law: Any, records: Any, parts: tuple[Any, ...] = (), room: float = 0.0) -> Iterator[str]:
    """What is declared of a second moment, used by an explicit bound of the release, and false of ``law``, in words."""
    used = used_by_bounds(release)
    if getattr(law, "covariance", None) is None or getattr(law, "mean", None) is None:
        return
    if "k" in used and "k" in problem.facts and _columns(law, parts, room, int(problem.facts["k"])):
        yield f"a column of the second moment has more than the {int(problem.facts['k'])} off-diagonal non-zeros that are declared"
    rank = int(problem.facts.get("rank", 0))
    rows = _rows(law, parts, room, rank) if "k_x" in used and 0 < rank < len(law.mean) else 0
    if rows > int(problem.facts.get("k_x", rows)):
        yield f"the leading eigenvectors have more than the {int(problem.facts['k_x'])} non-zero rows that are declared"


def _moment(law: Any) -> Matrix:
    return np.asarray(law.covariance + np.outer(law.mean, law.mean))


def _slack(values: list[Matrix], room: float) -> Any:
    return room * np.std(values, axis=0, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def largest_coordinate(law: Any, records: Any, parts: tuple[Any, ...], room: float) -> tuple[float, float]:
    """The largest E x_j^2, and the room; of the records at hand where the law does not tell."""
    if getattr(law, "covariance", None) is None or getattr(law, "mean", None) is None:
        total = sum(np.square(np.asarray(x)).sum(axis=0) for x, _ in records.blocks())
        return float(np.max(total) / records.n), 0.0
    moments = np.diag(law.covariance) + law.mean**2
    j = int(np.argmax(moments))
    return float(moments[j]), float(_slack([np.diag(p.covariance)[j] + p.mean[j] ** 2 for p in parts], room))


def _columns(law: Any, parts: tuple[Any, ...], room: float, k: int) -> bool:
    """Whether the off-diagonal entries of a column beyond its ``k`` largest are more than negligible in sum."""
    moment = _moment(law)
    entries = np.maximum(np.abs(moment) - _slack([_moment(p) for p in parts], room), 0.0)
    np.fill_diagonal(entries, 0.0)
    over = float(np.sort(entries, axis=0)[: max(len(entries) - k, 0)].sum(axis=0).max(initial=0.0))
    return over > _NEGLIGIBLE * float(np.abs(np.linalg.eigvalsh(moment)).max())


def _rows(law: Any, parts: tuple[Any, ...], room: float, rank: int) -> int:
    """How many rows of the ``rank`` leading eigenvectors are longer than a negligible one."""

    def squares(of: Any) -> Matrix:
        return np.asarray((np.linalg.eigh(_moment(of))[1][:, -rank:] ** 2).sum(axis=1))

    return int(np.count_nonzero(squares(law) - _slack([squares(p) for p in parts], room) > _NEGLIGIBLE**2))
