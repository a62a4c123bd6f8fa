"""How far a point is from being stationary, for losses that need not be convex."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dpspec.algorithms.mirror import geometry
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.spec.diagnostics import Diagnostic, SpecError


def gradient_norm(w: Array, trial: Trial) -> float:
    """|m(w)|_2 of the generalised gradient m(w) = (w - prox_g(w - g grad F(w)))/g on the records of the trial, at g = 1/(2 S), S the proved
    smoothness of F (g = 1 where none is); over R^d without an l1 or group term that is |grad F(w)|_2. Zero at stationary points alone."""
    return _mapping_norm(w, trial.problem.oracle.gradient(w, trial.records), trial)


def population_gradient_norm(w: Array, trial: Trial) -> float:
    """The same of the mean loss of the law: in closed form where it is known, else on fresh records of it, many more than a trial has."""
    fresh = trial.population
    assert fresh is not None
    if fresh.quadratic is not None:
        best, curvature = fresh.quadratic
        return _mapping_norm(w, curvature @ (w - best), trial)
    return _mapping_norm(w, trial.problem.oracle.gradient(w, fresh.records), trial)


def _mapping_norm(w: Array, gradient: Array, trial: Trial) -> float:
    f, loss = trial.problem.oracle, trial.problem.loss
    if f.over.kind == "reals" and f.smooth_penalty:
        return float(np.linalg.norm(gradient))
    smooth = math.inf if loss is None else loss.smooth + loss.l2
    step = 1 / (2 * smooth) if 0 < smooth < math.inf else 1.0
    return float(np.linalg.norm(w - f.prox(w - step * gradient, step)) / step)


def frank_wolfe_gap(w: Array, trial: Trial) -> float:
    """max over v in the set of <grad F(w), w - v> on the records of the trial, F with its ridge: zero at stationary points alone, and at
    least F(w) - F* where F is convex. Raises SpecError (DP413) over an unbounded set."""
    f = trial.problem.oracle
    gradient = f.gradient(w, trial.records)
    try:
        best = f.over.minimise_linear(gradient)
    except ValueError:
        text = "the Frank-Wolfe gap is that of a bounded set, and this one has points in every direction"
        raise SpecError([Diagnostic("DP413", "error", text, "expect gradient-norm, or minimise over a ball")]) from None
    return float(gradient @ (w - best))


def mirror_mapping_norm(w: Array, trial: Trial) -> float:
    """|m(w)|_C of the mirror mapping m = (u - u+)/gamma at gamma = 1/(2 M), in units of the set: u = w/R, u+ the mirror step without noise,
    M the smoothness of F in the norm |.|_C of the set (:mod:`dpspec.algorithms.mirror`). Zero at stationary points alone, and in no other
    way comparable with a norm of the gradient. Raises SpecError (DP413) where no mirror map or no smoothness is known."""
    f, loss, shape = trial.problem.oracle, trial.problem.loss, geometry(trial.problem)
    smooth = math.inf if loss is None else loss.smooth + loss.l2
    if shape is None or not f.smooth_penalty or not 0 < smooth < math.inf:
        text = "the mirror mapping is that of a smooth loss over a ball or the simplex, without an l1 or group term"
        raise SpecError([Diagnostic("DP413", "error", text, "expect gradient-norm, or minimise over a ball")])
    gamma = 1 / (2 * smooth * (shape.radius * shape.l2) ** 2)
    u = w / shape.radius
    return shape.norm((u - shape.step(u, gamma * shape.radius * f.gradient(w, trial.records))) / gamma)


GRADIENT_NORM: Final = Measure("gradient-norm", gradient_norm, "records", compared=False)
POPULATION_GRADIENT_NORM: Final = Measure("population-gradient-norm", population_gradient_norm, "population", compared=False)
FRANK_WOLFE_GAP: Final = Measure("frank-wolfe-gap", frank_wolfe_gap, "records", compared=False)
MIRROR_MAPPING_NORM: Final = Measure("mirror-mapping-norm", mirror_mapping_norm, "records", compared=False)

#: Measures of tasks that stand in files of their own, by the name of the task.
FOR: Final = {"minimise": (GRADIENT_NORM, POPULATION_GRADIENT_NORM, FRANK_WOLFE_GAP, MIRROR_MAPPING_NORM)}
