"""``estimate precision(x)``: the inverse of the second moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.measures.matrix import GAUSSIAN_KL, OF_A_MATRIX, RELATIVE_REFERENCE_ERROR, second_moment
from dpspec.measures.matrix import reference as fitted
from dpspec.measures.measure import Array, Trial
from dpspec.spec.model import Estimate
from dpspec.tasks._moments import SHARED, moment_of
from dpspec.tasks.protocol import Reference, Task


def truth(trial: Trial) -> Array:
    moment = second_moment(trial.truth)
    return fitted(trial) if moment is None else np.asarray(np.linalg.inv(moment), dtype=np.float64)


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    """The graphical lasso at the algorithm's own penalty."""
    from dpspec.algorithms.matrix._lasso import graphical_lasso

    return graphical_lasso(moment_of(records, settings), float(settings.get("penalty", 0.01))).theta, None


TASK = Task(
    name="precision",
    serves=lambda node: isinstance(node, Estimate) and node.what == "precision",
    words=("estimate", "precision"),
    measures=(RELATIVE_REFERENCE_ERROR, *OF_A_MATRIX, GAUSSIAN_KL),
    reference=reference,
    truth=truth,
    centred=lambda node: True,
    **{**SHARED, "settings": ("r", "penalty")},
)
