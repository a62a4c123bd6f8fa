"""``estimate mean(c)``: the mean of a column, in the author's units. The mean of all records, ``mean(x)``, is another task."""

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
    total, count = 0.0, 0
    for block in values(problem.oracle, records):
        total, count = total + float(block.sum()), count + block.size
    return np.array([total / max(count, 1)]), None


TASK = Task(
    name="column-mean",
    serves=asks("mean"),
    words=("ranged", "column-mean"),
    measures=(ABSOLUTE_ERROR,),
    check=checked(of_a_number),
    facts=facts_of(interval_facts),
    bind=of_a_number,
    reference=reference,
    trivial=lambda problem: None,
    labelled=needs_y,
    arrays=table(lambda problem: (f"mean({problem.task.of})",), "found_low", "found_high"),
)
