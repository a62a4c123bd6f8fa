"""``estimate sum(c)``: the sum of a column, in the author's units."""

from __future__ import annotations

import math
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
    return np.array([math.fsum(math.fsum(block) for block in values(problem.oracle, records))]), None


TASK = Task(
    name="column-sum",
    serves=asks("sum"),
    words=("ranged", "sum"),
    measures=(ABSOLUTE_ERROR,),
    check=checked(of_a_number),
    facts=facts_of(interval_facts),
    bind=of_a_number,
    reference=reference,
    trivial=lambda problem: None,
    labelled=needs_y,
    total=lambda problem: True,
    arrays=table(lambda problem: (f"sum({problem.task.of})",), "found_low", "found_high"),
)
