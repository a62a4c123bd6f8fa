"""What covariances, precision matrices and subspaces have in common: the second moment of the records as the algorithm sees them.

The truth is that of the law of the enforced records: their covariance, their second moment E x x^T, the inverse of that, its leading
eigenvectors. On real data the non-private estimate of the same records stands in for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Problem
from dpspec.tasks._declared import of_a_moment
from dpspec.tasks.protocol import of_the_records

Matrix = NDArray[np.float64]


def radius(settings: Mapping[str, Any]) -> float:
    """To which an algorithm scales each record by itself (local models); infinite for others."""
    r = settings.get("r", math.inf)
    return float(r) if isinstance(r, (int, float)) else math.inf


def moment_of(records: Any, settings: Mapping[str, Any]) -> Matrix:
    """(1/n) sum x x^T of the records, each scaled to the algorithm's radius."""
    from dpspec.algorithms.matrix._moment import second_moment

    return second_moment(records, radius(settings))


def unmet(problem: Problem, law: Any, parts: tuple[Any, ...] = (), room: float = 0.0) -> tuple[str, ...]:
    """Declared constants of the second moment that the simulated law contradicts: eigenvalues that are larger, a gap that is smaller. A
    bound that takes them is not judged. ``parts``: of the sample that ``law`` was computed from, with ``room`` standard errors."""
    if getattr(law, "covariance", None) is None or getattr(law, "mean", None) is None or not {"eig_max", "gap"} & set(problem.facts):
        return ()

    def numbers(of: Any) -> tuple[float, float]:
        values = np.linalg.eigvalsh(of.covariance + np.outer(of.mean, of.mean))[::-1]
        k = int(problem.facts.get("rank", 0))
        return float(values[0]), float(values[k - 1] - values[k]) if 0 < k < len(values) else math.nan

    found, (top, gap) = [], numbers(law)
    spread = np.array([numbers(part) for part in parts])
    slack = room * spread.std(axis=0, ddof=1) / math.sqrt(len(parts)) if len(parts) > 1 else np.zeros(2)
    most, least = problem.facts.get("eig_max"), problem.facts.get("gap")
    if most is not None and top - slack[0] > float(most) * (1 + 1e-9):
        found.append(f"the largest eigenvalue of the second moment is {top:.4g}, and {float(most):.4g} is declared")
    if least is not None and problem.task.what == "subspace" and gap + slack[1] < float(least) * (1 - 1e-9):
        found.append(f"the gap of the second moment is {gap:.4g}, and {float(least):.4g} is declared")
    return tuple(found)


#: The base of the three tasks.
SHARED: Mapping[str, Any] = {
    "check": of_the_records,
    "labelled": lambda node: False,
    "settings": ("r",),
    "spared": True,
    "trivial": lambda problem: None,
    "enforced_truth": "moments",
    "radius": radius,
    "law_is": "the error is measured against the law of",
    "unmet": unmet,
    "broken": of_a_moment,
    "extremes": "orthogonal",
}
