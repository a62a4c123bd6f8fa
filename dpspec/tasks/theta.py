"""``estimate theta in MODEL``: the parameter of a regression.

What the same records give without noise, in study mode only:

=========================================  ==================================================================================
``y = <theta, x> + noise``                 ordinary least squares; over a set, least squares over it
``y = f(<theta, x>) + noise``              least squares through f, (1/2n) sum (f(<theta, x_i>) - y_i)^2, from the linear fit
``y ~ glm(link)``                          maximum likelihood: logistic (labels 0/1 or -1/1), poisson/log, linear/identity
=========================================  ==================================================================================

The loss through f need not be convex: the reference is then the stationary point that L-BFGS reaches from the linear fit, which for
Gaussian x points in the direction of theta whatever f is (Brillinger 1983). A link that is not in the table has no reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Problem
from dpspec.algorithms.sets import REALS, constraint_set
from dpspec.measures.risk import LABEL_ERROR
from dpspec.measures.vector import DISTANCES, SUPPORT_ERROR
from dpspec.spec.model import EstimateTheta
from dpspec.spec.words import Assumption
from dpspec.tasks.protocol import Reference, Task

Vector: TypeAlias = NDArray[np.float64]

#: Up to this dimension least squares adds up the (d, d) second moments in one pass, 32 MB at most; beyond it iterates on the records.
DENSE: Final = 2048


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    """The estimate of the table above; none without responses or for a link that is not in it."""
    from dpspec.algorithms.objective import optimum

    task = problem.task
    if not records.has_y:
        return None, None
    over = constraint_set(task.over, problem.facts)
    if task.form == "linear" and over is REALS:
        return least_squares(records), None
    objective = _regression(task, records, problem)
    if objective is None:
        return None, None
    start = over.project(least_squares(records)) if task.form == "nonlinear" else None
    return optimum(replace(objective, over=over), records, start=start)[0], None


def _regression(task: EstimateTheta, records: Any, problem: Problem) -> Any:
    """The objective of a regression model over R^d, or None for a link without a known likelihood."""
    from dpspec.algorithms.objective import Objective
    from dpspec.spec.expr import Name
    from dpspec.symbolic.links import GLM_LOSSES, glm_loss, link_loss
    from dpspec.symbolic.margin import margin_functions

    if task.form == "linear":
        loss = glm_loss("identity")
    elif task.form == "nonlinear":
        assert task.link is not None
        loss = link_loss(task.link)
    else:
        link = task.link.id if isinstance(task.link, Name) else ""
        if link not in GLM_LOSSES:
            return None
        signs = link == "logistic" and any(bool((y < 0).any()) for _, y in records.blocks())
        loss = Name("logistic") if signs else glm_loss(link)
    f = margin_functions(loss, dict(problem.facts))
    return Objective(phi=f.value, slope=f.derivative, curvature=f.second)


def least_squares(records: Any) -> Vector:
    """Ordinary least squares, the solution of least norm where there are several. Shape (d,).

    Up to :data:`DENSE` coordinates from the second moments, added up block by block. Beyond that by LSMR (Fong and Saunders 2011), which
    needs two products with the records a step and memory for a few vectors of n and of d numbers; it starts at zero and stays in the
    row space, so that it too finds the solution of least norm. It stops after 1000 steps at the latest.
    """
    d = records.d
    if d > DENSE:
        return _iterated(records)
    moment, cross = np.zeros((d, d)), np.zeros(d)
    for x, y in records.blocks():
        moment += np.asarray((x.T @ x) if isinstance(x, np.ndarray) else (x.T @ x).toarray())
        cross += np.asarray(x.T @ y)
    solution: Vector = np.linalg.lstsq(moment, cross, rcond=None)[0]
    return solution


def _iterated(records: Any) -> Vector:
    from scipy.sparse.linalg import LinearOperator, lsmr

    def times(w: Vector) -> Vector:
        flat = np.ravel(w)
        return np.concatenate([np.asarray(x @ flat) for x, _ in records.blocks()])

    def transposed(r: Vector) -> Vector:
        total, start = np.zeros(records.d), 0
        for x, y in records.blocks():
            total += np.asarray(x.T @ np.ravel(r)[start : start + len(y)])
            start += len(y)
        return total

    operator = LinearOperator((records.n, records.d), matvec=times, rmatvec=transposed, dtype=np.float64)
    y = np.concatenate([y for _, y in records.blocks()])
    solution: Vector = lsmr(operator, y, atol=1e-12, btol=1e-12, conlim=1e12, maxiter=1000)[0]
    return solution


#: Read by generalised linear models alone.
ASSUMED: Final = {"elliptical": Assumption("x is S^(1/2) times a vector whose law no rotation changes")}

TASK = Task(
    name="theta",
    serves=lambda node: isinstance(node, EstimateTheta),
    words=("estimate-theta", "theta"),
    measures=(*DISTANCES, SUPPORT_ERROR, LABEL_ERROR),
    assumes=ASSUMED,
    reference=reference,
    enforced_truth="regression",
    law_is="the model holds for",
    inside="theta",
    extremes="labels",
)
