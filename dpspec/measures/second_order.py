"""How far a point is from a second-order point: the least eigenvalue of the Hessian, alone and beside the norm of the gradient.

Of objectives phi(<w, x>, y) with a ridge over R^d. Beyond 2,000 dimensions eigenvalues come from products of the Hessian with vectors.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dpspec.algorithms.second_order import least_eigenvalue, refused
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.spec.diagnostics import Diagnostic, SpecError


def negative_curvature(w: Array, trial: Trial) -> float:
    """max(0, -lambda_min of the Hessian of F) on the records of the trial. Raises SpecError (DP413) where a loss has no Hessian."""
    _check(trial, lipschitz=False)
    return max(0.0, -least_eigenvalue(trial.records, trial.problem, w))


def second_order_stationarity(w: Array, trial: Trial) -> float:
    """The least a for which w is an a-second-order point: |grad F(w)| <= a and lambda_min >= -sqrt(rho a), rho the proved Hessian-Lipschitz
    constant of a record's loss. Raises SpecError (DP413) over a set, and where no such constant is proved."""
    _check(trial, lipschitz=True)
    p = trial.problem
    assert p.loss is not None
    gradient = float(np.linalg.norm(p.oracle.gradient(w, trial.records)))
    return max(gradient, negative_curvature(w, trial) ** 2 / p.loss.hessian_lipschitz())


def _check(trial: Trial, *, lipschitz: bool) -> None:
    p = trial.problem
    reason = refused(p, lipschitz=lipschitz, large=True)
    if reason is None and lipschitz and p.task.over.kind != "reals":
        reason = "over a set the test is another one"
    if reason is not None:
        text = f"second-order points are those of a smooth loss over R^d: {reason}"
        raise SpecError([Diagnostic("DP413", "error", text, "expect gradient-norm")])


LEAST_EIGENVALUE: Final = Measure("least-eigenvalue", negative_curvature, "records", compared=False)
SECOND_ORDER: Final = Measure("second-order-stationarity", second_order_stationarity, "records", compared=False)

#: Measures of tasks that stand in files of their own, by the name of the task.
FOR: Final = {"minimise": (LEAST_EIGENVALUE, SECOND_ORDER)}
