"""``estimate mean(x)``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.algorithms.sets import constraint_set
from dpspec.measures.measure import Array, Trial
from dpspec.measures.vector import DISTANCES, SUPPORT_ERROR
from dpspec.numeric.norms import length
from dpspec.spec.model import Estimate
from dpspec.tasks._declared import largest_coordinate, used_by_bounds
from dpspec.tasks.protocol import Reference, Task, fitted, of_the_records


def truth(trial: Trial) -> Array:
    """The mean of the law where it is known, else that of the records: a parameter called theta need not be the mean."""
    known = getattr(trial.truth, "mean", None)
    if known is not None:
        return np.asarray(known, dtype=np.float64)
    return np.asarray(reference(trial.records, trial.problem, {})[0]) if trial.reference is None else fitted(trial)


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    """The mean of the records. Shape (d,)."""
    total = np.zeros(records.d)
    for x, _ in records.blocks():
        total += np.ravel(x.sum(axis=0))
    return total / records.n, None


def broken(release: Any, problem: Problem, law: Any, records: Any, parts: tuple[Any, ...] = (), room: float = 0.0) -> Iterator[str]:
    """``tau``, the second moment of a coordinate, where an explicit bound uses it and the law's is larger; a mean outside of the set."""
    settings = release.tunables or {}
    if "tau" in used_by_bounds(release) and "tau" in settings:
        most, slack = largest_coordinate(law, records, parts, room)
        if most - slack > float(settings["tau"]) * (1 + 1e-9):
            yield f"a coordinate has a larger second moment than tau = {float(settings['tau']):.4g}, which is declared"
    mean, over = getattr(law, "mean", None), constraint_set(problem.task.over, problem.facts)
    if mean is not None and over.kind != "reals" and length(over.project(np.asarray(mean)) - mean) > 1e-9 * max(1.0, length(mean)):
        yield "the mean lies outside of the set after `over`"


def ceiling(problem: Problem, measure: str) -> float | None:
    """The error of the zero vector: the mean is as short as the records are."""
    radius = problem.facts.get({"l2-error": "x_l2", "squared-l2-error": "x_l2", "linf-error": "x_linf"}.get(measure, ""))
    return None if radius is None else radius**2 if measure == "squared-l2-error" else radius


TASK = Task(
    name="mean",
    serves=lambda node: isinstance(node, Estimate) and node.what == "mean" and node.of == "x" and not node.group,
    words=("estimate", "mean"),
    measures=(*DISTANCES, SUPPORT_ERROR),
    labelled=lambda node: False,
    check=of_the_records,
    reference=reference,
    spared=True,
    truth=truth,
    ceiling=ceiling,
    enforced_truth="moments",
    law_is="the error is measured against the law of",
    inside="the mean",
    broken=broken,
    extremes="opposite",
)
