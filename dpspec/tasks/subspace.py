"""``estimate subspace(x, k)``: the k leading eigenvectors of the second moment."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.measures.matrix import OF_A_SUBSPACE, known, second_moment
from dpspec.measures.matrix import reference as fitted
from dpspec.measures.measure import Array, Trial
from dpspec.spec.expr import NotANumber, Unbound, evaluate
from dpspec.spec.model import Estimate
from dpspec.tasks._moments import SHARED, moment_of
from dpspec.tasks.protocol import Binding, Reference, Task


def facts(binding: Binding) -> Mapping[str, float]:
    """``rank``: the k of the spec."""
    found = {}
    if binding.node.args:
        with contextlib.suppress(Unbound, NotANumber):
            found["rank"] = float(evaluate(binding.node.args[0], binding.facts))
    return found


def truth(trial: Trial) -> Array:
    """The true principal subspace, (d, k) orthonormal."""
    k = int(trial.problem.facts["rank"])
    basis, mean = known(trial.truth, "subspace"), known(trial.truth, "mean")
    if basis is not None and basis.shape[1] == k and (mean is None or not mean.any()):  # of a covariance; a mean adds a direction
        return basis
    moment = second_moment(trial.truth)
    return fitted(trial) if moment is None else np.asarray(np.linalg.eigh(moment)[1][:, ::-1][:, :k])


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    from dpspec.algorithms.matrix._moment import leading

    return leading(moment_of(records, settings), int(problem.facts["rank"]))[1], None


def ceiling(problem: Problem, measure: str) -> float | None:
    """The largest distance of two subspaces of dimension k of R^d, |sin Theta|_F = sqrt(min(k, d - k))."""
    if "rank" not in problem.facts:
        return None
    least = min(problem.facts["rank"], problem.d - problem.facts["rank"])
    largest = {"subspace-distance": math.sqrt(least), "squared-subspace-distance": least, "projector-distance": math.sqrt(2 * least)}
    return largest.get(measure)


TASK = Task(
    name="subspace",
    serves=lambda node: isinstance(node, Estimate) and node.what == "subspace",
    words=("estimate", "subspace"),
    measures=OF_A_SUBSPACE,
    facts=facts,
    reference=reference,
    truth=truth,
    ceiling=ceiling,
    centred=lambda node: True,
    **SHARED,
)
