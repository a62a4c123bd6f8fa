"""Measures of error. Study mode only: each compares an estimate with the truth of the law, or with a non-private reference.

The law is that of the records after enforcement wherever a bound may speak of the measure (:mod:`dpspec.executor.enforced`).

A measure takes the estimate, the records of the trial, the problem with its objective, and the truth; lower is better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Problem
from dpspec.executor import measures_matrix
from dpspec.executor.measures_matrix import estimate_reference, is_matrix
from dpspec.executor.references import least_squares, reference
from dpspec.spec.diagnostics import Diagnostic, SpecError
from dpspec.spec.model import Estimate, Minimise

__all__ = ["MEASURES", "Trial", "choose", "estimate_reference", "is_matrix", "least_squares", "reference"]

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Trial:
    """What a measure may look at. ``truth``: the parameters by name of the law that is compared with, empty on real data; ``reference``:
    non-private estimate."""

    records: Any
    problem: Problem
    truth: Mapping[str, Any]
    reference: Vector | None
    optimum: float | None = None


Measure: TypeAlias = Callable[[Vector, Trial], float]


def _target(trial: Trial) -> Vector:
    """The parameter that errors are measured against: the law's, or the non-private estimate on real data and for a matrix of weights (laws
    have vectors, and rows that differ by one vector classify alike)."""
    task, mean = getattr(trial.problem, "task", None), getattr(trial.truth, "mean", None)
    if isinstance(task, Estimate) and task.what == "mean" and mean is not None:
        return np.asarray(mean, dtype=np.float64)
    for name in ("theta", "w"):
        if name in trial.truth and _classes(trial) == 1:
            return np.asarray(trial.truth[name], dtype=np.float64)
    if trial.reference is None:
        raise LookupError("no true parameter and no reference to measure against")
    return trial.reference


def _classes(trial: Trial) -> int:
    """K of a loss with a K x d matrix of weights, else 1."""
    return 1 if trial.problem is None or trial.problem.loss is None else trial.problem.loss.classes


def excess_empirical_risk(w: Vector, trial: Trial) -> float:
    """F(w) - min F over the set, on the records of the trial; the minimum by :func:`dpspec.algorithms.objective.optimum`."""
    assert trial.optimum is not None
    return float(trial.problem.objective.value(w, trial.records)) - trial.optimum


def l2_error(w: Vector, trial: Trial) -> float:
    return float(np.linalg.norm(w - _target(trial)))


def l1_error(w: Vector, trial: Trial) -> float:
    return float(np.abs(w - _target(trial)).sum())


def linf_error(w: Vector, trial: Trial) -> float:
    return float(np.abs(w - _target(trial)).max())


def squared_l2_error(w: Vector, trial: Trial) -> float:
    return l2_error(w, trial) ** 2


def label_error(w: Vector, trial: Trial) -> float:
    """Share of records whose sign(<w, x>) is not the label; of several classes, those whose largest margin <w_j, x> is not the label's."""
    wrong = total = 0
    classes = _classes(trial)
    for x, y in trial.records.blocks():
        if classes > 1:
            wrong += int(np.count_nonzero(np.argmax(np.asarray(x @ w.reshape(classes, -1).T), axis=1) != y))
        else:
            wrong += int(np.count_nonzero(np.sign(np.asarray(x @ w)) * y <= 0))
        total += len(y)
    return wrong / total


def support_error(w: Vector, trial: Trial) -> float:
    """1 - F1 of the support of the estimate against the true support."""
    truth = _target(trial) != 0
    found = w != 0
    both = int(np.count_nonzero(truth & found))
    return 1.0 - 2 * both / max(int(truth.sum()) + int(found.sum()), 1)


MEASURES: Mapping[str, Measure] = {
    "excess-empirical-risk": excess_empirical_risk,
    "l2-error": l2_error,
    "l1-error": l1_error,
    "linf-error": linf_error,
    "squared-l2-error": squared_l2_error,
    "label-error": label_error,
    "support-error": support_error,
    **measures_matrix.MEASURES,
}


#: Measures that are computed on the enforced records themselves, or that ask for the support of the law before enforcement.
_WITHOUT_TRUTH = ("excess-empirical-risk", "label-error", "support-error", *measures_matrix.SUPPORTS, *measures_matrix.AGAINST_REFERENCE)


def of_a_law(measure: str) -> bool:
    """Whether a measure compares with a parameter of the law, which enforcement moves."""
    return measure in MEASURES and measure not in _WITHOUT_TRUTH


def estimand(trial: Trial) -> Vector:
    """The true value of the task, as an estimate."""
    return measures_matrix.estimand(trial) if is_matrix(trial.problem) else _target(trial)


def as_bounded(trial: Trial, moment: Any = None) -> Trial:
    """The same trial with the quantity that bounds of this family speak of: of a covariance task the second moment, as no mean is
    subtracted. ``moment``: the records' own, where the law does not tell."""
    task = trial.problem.task
    if not isinstance(task, Estimate) or task.what != "covariance":
        return trial
    second = replace(trial.problem, task=task.model_copy(update={"what": "second-moment"}))
    return replace(trial, problem=second, reference=trial.reference if moment is None else moment)


def choose(release: Any) -> str:
    """The measure of a release: the one it expects, the first that its algorithm bounds, or its task's own. Raises SpecError (DP413) when
    the one it expects cannot be measured: another one is no answer to it."""
    from dpspec.compiler.bound import normal
    from dpspec.compiler.measures import hint, measurable

    expect = release.release.expect
    if expect is not None:
        known = measurable(release.release.task)
        if normal(expect.measure) in known:
            return normal(expect.measure)
        text = f"release {release.release.name!r}: a study does not measure {expect.measure}"
        raise SpecError([Diagnostic("DP413", "error", text, hint(expect.measure, known))])
    for b in release.bounds:
        if b.measure in MEASURES:
            return str(b.measure)
    if release.problem is not None and is_matrix(release.problem):
        return measures_matrix.DEFAULT[release.problem.task.what]
    return "excess-empirical-risk" if isinstance(release.release.task, Minimise) else "l2-error"
