"""``estimate covariance(x)`` and ``second-moment(x)``. No mean is subtracted by any algorithm: bounds speak of E x x^T."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.measures.matrix import OF_A_MATRIX, RELATIVE_REFERENCE_ERROR, known, second_moment
from dpspec.measures.matrix import reference as fitted
from dpspec.measures.measure import Array, Trial
from dpspec.spec.model import Estimate
from dpspec.tasks._moments import SHARED, moment_of, radius
from dpspec.tasks.protocol import Reference, Task


def truth(trial: Trial) -> Array:
    moment = second_moment(trial.truth)
    if moment is None:
        return fitted(trial)
    return np.asarray(known(trial.truth, "covariance")) if trial.problem.task.what == "covariance" else moment


def bounded(trial: Trial, moment: Any = None) -> Trial:
    """The same trial with the quantity that bounds of this family speak of: the second moment, as no mean is subtracted. ``moment``: the
    records' own, where the law does not tell."""
    task = trial.problem.task
    if task.what != "covariance":
        return trial
    second = replace(trial.problem, task=task.model_copy(update={"what": "second-moment"}))
    return replace(trial, problem=second, reference=trial.reference if moment is None else moment)


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    from dpspec.algorithms.matrix._moment import mean_of

    moment = moment_of(records, settings)
    if problem.task.what != "covariance":
        return moment, None
    mean = mean_of(records, radius(settings))
    return moment - np.outer(mean, mean), None


def ceiling(problem: Problem, measure: str) -> float | None:
    """The error of the zero matrix: every norm of E x x^T that is at most the Frobenius norm is at most r^2, |x|_2 <= r."""
    if "x_l2" not in problem.facts or measure not in ("operator-error", "frobenius-error", "max-error"):
        return None
    return problem.facts["x_l2"] ** 2


TASK = Task(
    name="covariance",
    serves=lambda node: isinstance(node, Estimate) and node.what in ("covariance", "second-moment"),
    words=("estimate", "covariance"),
    measures=(*OF_A_MATRIX, RELATIVE_REFERENCE_ERROR),
    reference=reference,
    truth=truth,
    ceiling=ceiling,
    bounded=bounded,
    centred=lambda node: node.what == "covariance",
    uncentred=lambda node: node.model_copy(update={"what": "second-moment"}) if node.what == "covariance" else None,
    bounded_reference=moment_of,
    **SHARED,
)
