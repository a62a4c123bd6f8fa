"""The graphical lasso with a penalised diagonal, solved to a certified accuracy.

    min over Theta > 0 of  -log det Theta + <S, Theta> + rho*sum_ij |Theta_ij|          (000, equation (6.83))

The dual is max log det(S + U) + d over |U_ij| <= rho. Primal and dual points give a gap g, and F is strongly convex on {|Theta|_2 <= b}
with
constant 1/b^2, so |Theta - Theta*|_F <= b*sqrt(2 g) with b bounding both norms (d/rho serves for positive semi-definite S).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpspec.algorithms.sets import Vector, soft_threshold


@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """``theta``: (d, d), positive definite, sparse where the penalty makes it so; ``gap``: the certified duality gap; ``steps``."""

    theta: Vector
    gap: float
    steps: int


def graphical_lasso(s: Vector, rho: float, *, gap: float | None = None, steps: int = 20_000) -> Precision:
    """ADMM (Boyd et al. 2011, section 6.5) until the duality gap is at most ``gap`` (1e-7*d unless given).

    ``s``: symmetric positive semi-definite (project it first: on an indefinite S the objective can be unbounded below, and then the
    dual is empty); rho > 0. Returns the best certified point after ``steps`` at the latest, its own gap with it. Raises ValueError
    when no certified point is found.
    """
    if not rho > 0:
        raise ValueError("the penalty must be positive")
    d = len(s)
    goal = 1e-7 * d if gap is None else gap
    z = np.diag(1 / (np.diag(s) + rho))
    w, weight = np.linalg.inv(z) - s, 1.0  # w: weight times the scaled multiplier
    w = np.clip(w, -rho, rho)
    weight = max(float(np.linalg.norm(w)) / max(float(np.linalg.norm(z)), 1e-300), rho / max(float(np.abs(z).max()), 1e-300))
    best, best_gap = z, math.inf
    for step in range(1, steps + 1):
        values, vectors = np.linalg.eigh(weight * z - w - s)
        values = (values + np.sqrt(values**2 + 4 * weight)) / (2 * weight)
        x = (vectors * values) @ vectors.T
        x = (x + x.T) / 2
        previous, z = z, soft_threshold(x + w / weight, rho / weight)
        w = w + weight * (x - z)  # in [-rho, rho] entry by entry: what the soft threshold cut off
        if step <= 10 or step % 5 == 0:
            point, reached = _certified(s, rho, x, z, w)
            if reached < best_gap:
                best, best_gap = point, reached
            if best_gap <= goal:
                return Precision(best, best_gap, step)
        if step <= 500 and step % 10 == 0:
            primal, dual = float(np.linalg.norm(x - z)), weight * float(np.linalg.norm(z - previous))
            scale = max(float(np.linalg.norm(z)), 1e-300), max(float(np.linalg.norm(w)), 1e-300)
            ratio = (primal / scale[0]) / max(dual / scale[1], 1e-300)
            weight *= 2.0 if ratio > 5 else 0.5 if ratio < 0.2 else 1.0
    if not math.isfinite(best_gap):
        raise ValueError("the graphical lasso found no dual point: the matrix is not positive semi-definite")
    return Precision(best, best_gap, steps)


def _certified(s: Vector, rho: float, x: Vector, z: Vector, w: Vector) -> tuple[Vector, float]:
    """The sparse iterate when it is positive definite, else the dense one, and its gap against the dual point S + clip(w)."""
    dual = _logdet(s + np.clip(w, -rho, rho))
    if dual is None:
        return x, math.inf
    found = _logdet(z)
    theta, log = (z, found) if found is not None else (x, _logdet(x))
    if log is None:
        return theta, math.inf
    value = -log + float(np.vdot(s, theta)) + rho * float(np.abs(theta).sum())
    return theta, max(value - dual - len(s), 0.0)


def _logdet(a: Vector) -> float | None:
    """log det of a positive definite matrix, None for another one."""
    try:
        return 2 * float(np.log(np.diag(np.linalg.cholesky(a))).sum())
    except np.linalg.LinAlgError:
        return None
