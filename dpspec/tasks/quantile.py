"""``estimate quantile(c, p, ...)`` and ``estimate median(c)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpspec.algorithms.card import Problem
from dpspec.measures.statistic import ABSOLUTE_ERROR, RANK_ERROR
from dpspec.models.columns import Quantiles
from dpspec.tasks._columns import asks, checked, facts_of, interval_facts, needs_y, number_of, shares
from dpspec.tasks._statistics import table
from dpspec.tasks.protocol import Binding, Reference, Task


def bind(binding: Binding) -> Quantiles:
    return Quantiles(number_of(binding.node.of, binding), shares(binding))


def facts(binding: Binding) -> Mapping[str, float]:
    """The interval, and ``share_1``, ``share_2``, ...; ``shares``: how many."""
    asked = shares(binding)
    return {**interval_facts(binding), "shares": float(len(asked)), **{f"share_{i}": p for i, p in enumerate(asked, 1)}}


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    return problem.oracle.exact(records), None


def names(problem: Problem) -> tuple[str, ...]:
    return tuple(f"quantile({problem.task.of}, {p:g})" for p in problem.oracle.shares)


TASK = Task(
    name="quantile",
    serves=asks("quantile", "median"),
    words=("quantile",),
    measures=(RANK_ERROR, ABSOLUTE_ERROR),
    check=checked(bind),
    facts=facts_of(facts),
    bind=bind,
    reference=reference,
    trivial=lambda problem: None,
    labelled=needs_y,
    arrays=table(names),
)
