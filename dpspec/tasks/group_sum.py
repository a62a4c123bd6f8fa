"""``estimate sum(c) group by g`` and ``mean(c) group by g``: a column's sum or mean over the records of each key, declared or not.

An answer is a table: a row a published key, its number (of words: its place in the records' list) and its value. Errors are over the keys
that the records hold (of a sum over declared keys: all of them); one that is not named counts as what needs no data, 0 or the middle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.models.columns import ROWS
from dpspec.spec.model import Estimate
from dpspec.tasks._columns import checked, facts_of, key_facts, keys_of, needs_y
from dpspec.tasks.group_count import arrays
from dpspec.tasks.protocol import Reference, Task


def exact(records: Any, problem: Problem) -> Array:
    """The table of these records without noise."""
    keys = problem.oracle
    listed, _, codes, _ = keys.units(records)
    total, counts, start = np.zeros(listed.size), np.zeros(listed.size), 0
    for x, y in records.blocks(ROWS):
        part = codes[start : start + x.shape[0]]
        start += x.shape[0]
        values = np.clip(keys.of.offset + keys.of.factor * keys.of.entries(x, y), keys.of.value_low, keys.of.value_high)
        total += np.bincount(part[part >= 0], weights=values[part >= 0], minlength=listed.size)
        counts += np.bincount(part[part >= 0], minlength=listed.size)
    if problem.task.what == "sum":
        there = counts >= 0 if keys.levels else counts > 0
        return np.column_stack([listed[there], total[there]])
    there = counts > 0
    return np.column_stack([listed[there], total[there] / counts[there]])


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    return exact(records, problem), None


def apart(answer: Array, trial: Trial) -> tuple[Array, Any]:
    """Of each key: the error of its value, and whether it is named."""
    true, p = exact(trial.records, trial.problem), trial.problem
    said = np.asarray(answer, dtype=np.float64).reshape(-1, 2)
    said = said[np.argsort(said[:, 0])]
    nothing = 0.0 if p.task.what == "sum" else (p.facts["value_low"] + p.facts["value_high"]) / 2
    values = np.full(len(true), nothing)
    named = np.isin(true[:, 0], said[:, 0])
    values[named] = said[np.searchsorted(said[:, 0], true[named, 0]), 1]
    return np.abs(values - true[:, 1]), named


def mean_error(answer: Array, trial: Trial) -> float:
    """The mean of |published - true| over the keys."""
    errors, _ = apart(answer, trial)
    return float(np.mean(errors)) if errors.size else 0.0


def largest(answer: Array, trial: Trial) -> float:
    """The largest of them."""
    return float(np.max(apart(answer, trial)[0], initial=0.0))


def unnamed(answer: Array, trial: Trial) -> float:
    """The share of the keys that are not named."""
    _, named = apart(answer, trial)
    return float(1.0 - np.mean(named)) if named.size else 0.0


TASK = Task(
    name="group_sum",
    serves=lambda node: isinstance(node, Estimate) and node.what in ("sum", "mean") and bool(node.group),
    words=("grouped", "group-sum"),
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
    total=lambda problem: problem.task.what == "sum",
    arrays=arrays,
)
