"""Measures of a loss over records: how far above the least value, and which labels are wrong."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dpspec.measures.measure import Array, Measure, Trial


def excess_empirical_risk(w: Array, trial: Trial) -> float:
    """F(w) - min F over the set, on the records of the trial."""
    assert trial.optimum is not None
    return float(trial.problem.objective.value(w, trial.records)) - trial.optimum


def excess_population_risk(w: Array, trial: Trial) -> float:
    """F(w) - min F over the set, F the mean loss of the law: in closed form where it is known, else on fresh records of it."""
    fresh = trial.population
    assert fresh is not None
    if fresh.quadratic is not None:
        best, curvature = fresh.quadratic
        return float((w - best) @ curvature @ (w - best)) / 2
    assert fresh.optimum is not None
    return float(trial.problem.objective.value(w, fresh.records)) - fresh.optimum


def label_error(w: Array, trial: Trial) -> float:
    """Share of records whose sign(<w, x>) is not the label; of several classes, those whose largest margin <w_j, x> is not the label's."""
    return _wrong(w, trial, trial.records)


def population_label_error(w: Array, trial: Trial) -> float:
    """The same on fresh records of the law: the chance of a wrong label."""
    assert trial.population is not None
    return _wrong(w, trial, trial.population.records)


def _wrong(w: Array, trial: Trial, records: Any) -> float:
    wrong = total = 0
    classes = 1 if trial.problem.loss is None else trial.problem.loss.classes
    for x, y in records.blocks():
        if classes > 1:
            wrong += int(np.count_nonzero(np.argmax(np.asarray(x @ w.reshape(classes, -1).T), axis=1) != y))
        else:
            wrong += int(np.count_nonzero(np.sign(np.asarray(x @ w)) * y <= 0))
        total += len(y)
    return wrong / total


EXCESS_EMPIRICAL_RISK: Final = Measure("excess-empirical-risk", excess_empirical_risk, "optimum")
EXCESS_POPULATION_RISK: Final = Measure("excess-population-risk", excess_population_risk, "population")
LABEL_ERROR: Final = Measure("label-error", label_error, "records")
POPULATION_LABEL_ERROR: Final = Measure("population-label-error", population_label_error, "population")
