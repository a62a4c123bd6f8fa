"""``estimate count group by c``: how many records have each key, declared or not.

An answer is a table: a row a named key, its number (of words: its place in the records' list of words) and its count. Errors are over the
keys that the records hold, a key that is not named counting as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.tasks._columns import asks, checked, facts_of, key_facts, keys_of, needs_y
from dpspec.tasks._statistics import CARRIED
from dpspec.tasks.protocol import Reference, Task

_count = asks("count", column=False)


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    found, counts, _ = problem.oracle.tally(records)
    return np.column_stack([found, counts]).astype(np.float64), None


def apart(answer: Array, trial: Trial) -> tuple[Array, Any]:
    """Of each key of the records: the error of its count, and whether it is named."""
    found, counts, _ = trial.problem.oracle.tally(trial.records)
    named = np.asarray(answer, dtype=np.float64).reshape(-1, 2)
    said = np.zeros(found.size)
    said[np.searchsorted(found, named[:, 0])] = named[:, 1]
    return np.abs(said - counts), np.isin(found, named[:, 0])


def mean_error(answer: Array, trial: Trial) -> float:
    """The mean of |published - true| over the keys of the records."""
    errors, _ = apart(answer, trial)
    return float(np.mean(errors)) if errors.size else 0.0


def largest(answer: Array, trial: Trial) -> float:
    """The largest of them."""
    return float(np.max(apart(answer, trial)[0], initial=0.0))


def unnamed(answer: Array, trial: Trial) -> float:
    """The share of the keys of the records that are not named."""
    _, named = apart(answer, trial)
    return float(1.0 - np.mean(named)) if named.size else 0.0


def arrays(estimate: Any, problem: Problem) -> dict[str, Any]:
    """``name`` and ``value`` of each published key, in the order of the names, and what is said of their noise."""
    value, names = estimate.theta.reshape(-1, 2)[:, 1], np.array(list(estimate.extras["name"]), dtype=np.str_)
    order = np.arange(names.size) if problem.oracle.column is not None else np.argsort(names, kind="stable")
    found: dict[str, Any] = {"name": names[order], "value": value[order]}
    for word in CARRIED:
        if word in estimate.extras:
            found[word] = np.broadcast_to(np.asarray(estimate.extras[word], dtype=np.float64), value.shape)[order]
    return found


TASK = Task(
    name="group_count",
    serves=lambda node: _count(node) and bool(node.group),
    words=("grouped", "group-count"),
    measures=(
        Measure("absolute-error", mean_error, "records"),
        Measure("largest-error", largest, "records"),
        Measure("keys-unnamed", unnamed, "records"),
    ),
    check=checked(keys_of),
    facts=facts_of(key_facts),
    bind=keys_of,
    reference=reference,
    trivial=lambda problem: np.zeros((0, 2)),
    labelled=needs_y,
    total=lambda problem: True,
    arrays=arrays,
)
