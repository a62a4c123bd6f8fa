"""Measures of a loss over records: how far above the least value, and which labels are wrong."""

from __future__ import annotations

from typing import Final

import numpy as np

from dpspec.measures.measure import Array, Measure, Trial


def excess_empirical_risk(w: Array, trial: Trial) -> float:
    """F(w) - min F over the set, on the records of the trial."""
    assert trial.optimum is not None
    return float(trial.problem.objective.value(w, trial.records)) - trial.optimum


def excess_population_risk(w: Array, trial: Trial) -> float:
    """F(w) - min F over the set, F the mean loss of the law, on fresh records of it."""
    fresh = trial.population
    assert fresh is not None
    assert fresh.optimum is not None
    return float(trial.problem.objective.value(w, fresh.records)) - fresh.optimum


def label_error(w: Array, trial: Trial) -> float:
    """Share of records whose sign(<w, x>) is not the label; of several classes, those whose largest margin <w_j, x> is not the label's."""
    wrong = total = 0
    classes = 1 if trial.problem.loss is None else trial.problem.loss.classes
    for x, y in trial.records.blocks():
        if classes > 1:
            wrong += int(np.count_nonzero(np.argmax(np.asarray(x @ w.reshape(classes, -1).T), axis=1) != y))
        else:
            wrong += int(np.count_nonzero(np.sign(np.asarray(x @ w)) * y <= 0))
        total += len(y)
    return wrong / total


EXCESS_EMPIRICAL_RISK: Final = Measure("excess-empirical-risk", excess_empirical_risk, "optimum")
EXCESS_POPULATION_RISK: Final = Measure("excess-population-risk", excess_population_risk, "population")
LABEL_ERROR: Final = Measure("label-error", label_error, "records")
