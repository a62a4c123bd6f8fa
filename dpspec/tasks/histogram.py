"""``estimate histogram(c, ...)``: how many records have each declared level, or lie between public edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.measures.statistic import ABSOLUTE_ERROR, LARGEST_ERROR
from dpspec.tasks._columns import asks, cells, checked, facts_of, needs_y
from dpspec.tasks._statistics import table
from dpspec.tasks.protocol import Binding, Reference, Task


def facts(binding: Binding) -> Mapping[str, float]:
    """``cells``: how many numbers are released."""
    return {"cells": float(len(cells(binding).names))}


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    return problem.oracle.counts(records).astype(np.float64), None


TASK = Task(
    name="histogram",
    serves=asks("histogram"),
    words=("histogram",),
    measures=(ABSOLUTE_ERROR, LARGEST_ERROR),
    check=checked(cells),
    facts=facts_of(facts),
    bind=cells,
    reference=reference,
    trivial=lambda problem: None,
    labelled=needs_y,
    total=lambda problem: True,
    arrays=table(lambda problem: problem.oracle.names),
)
