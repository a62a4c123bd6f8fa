"""``estimate variance(c)``: the mean squared distance of a column from its mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.measures.statistic import ABSOLUTE_ERROR
from dpspec.models.columns import values
from dpspec.tasks._columns import asks, checked, facts_of, interval_facts, needs_y, of_a_number
from dpspec.tasks._statistics import table
from dpspec.tasks.protocol import Reference, Task


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    found = list(values(problem.oracle, records))
    every = np.concatenate(found) if found else np.zeros(1)
    return np.array([float(np.var(every))]), None


TASK = Task(
    name="column-variance",
    serves=asks("variance"),
    words=("column-variance",),
    measures=(ABSOLUTE_ERROR,),
    check=checked(of_a_number),
    facts=facts_of(interval_facts),
    bind=of_a_number,
    reference=reference,
    trivial=lambda problem: None,
    labelled=needs_y,
    arrays=table(lambda problem: (f"variance({problem.task.of})",)),
)
