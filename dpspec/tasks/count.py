"""``estimate count`` and ``estimate count where CONDITION``: how many records there are, or satisfy it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.measures.statistic import ABSOLUTE_ERROR
from dpspec.tasks._columns import asks, checked, conditions, needs_y
from dpspec.tasks._statistics import table
from dpspec.tasks.protocol import Binding, Reference, Refusal, Task

_check = checked(conditions)
_count = asks("count", column=False)


def check(binding: Binding) -> Iterator[Refusal]:
    """How many records there are is public under replace-one and zero-out, and has no price."""
    if not binding.node.where and binding.problem.neighbours != "add-remove":
        yield Refusal(
            f"how many records there are is public under {binding.problem.neighbours}: it is n",
            "neighbours add-remove hides it; or count where CONDITION",
        )
    yield from _check(binding)


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    return np.array([float(problem.oracle.count(records))]), None


TASK = Task(
    name="count",
    serves=lambda node: _count(node) and not node.group,
    words=("count",),
    measures=(ABSOLUTE_ERROR,),
    check=check,
    bind=conditions,
    reference=reference,
    trivial=lambda problem: None,
    labelled=needs_y,
    total=lambda problem: True,
    arrays=table(lambda problem: ("count",)),
)
