"""``estimate correlation(x)``: the correlations of the columns of the records, a matrix of ones on the diagonal.

The correlation with a column that is constant is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Problem
from dpspec.measures.statistic import ABSOLUTE_ERROR, LARGEST_ERROR
from dpspec.spec.model import Estimate
from dpspec.tasks._moments import moment_of
from dpspec.tasks.protocol import Reference, Task, of_the_records


def of_covariance(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where a variance is 0 up to rounding there is none, and 0 stands for it."""
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    there = deviations > 1e-8 * max(float(deviations.max(initial=0.0)), 1e-300)
    inverse = np.where(there, 1 / np.where(there, deviations, 1.0), 0.0)
    found = np.clip(covariance * inverse[:, None] * inverse, -1.0, 1.0)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    from dpspec.algorithms.matrix._moment import mean_of

    mean = mean_of(records, np.inf)
    return of_covariance(moment_of(records, {}) - np.outer(mean, mean)), None


TASK = Task(
    name="correlation",
    serves=lambda node: isinstance(node, Estimate) and node.what == "correlation",
    words=("correlation",),
    measures=(ABSOLUTE_ERROR, LARGEST_ERROR),
    check=of_the_records,
    reference=reference,
    trivial=lambda problem: np.eye(problem.d),
    labelled=lambda node: False,
    extremes="orthogonal",
)
