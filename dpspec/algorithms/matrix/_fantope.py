"""The Fantope {0 <= X <= I, tr X = k}: its projection, and Fantope projection and selection by ADMM. Post-processing only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpspec.algorithms.sets import Vector, soft_threshold


def capped_simplex(g: Vector, k: int) -> Vector:
    """The nearest vector with entries in [0, 1] and sum k: min(max(g - theta, 0), 1), theta exact from the sorted breakpoints.

    The sum falls piecewise linearly in theta with breakpoints at g_i (entry i leaves 0) and g_i - 1 (it leaves 1).
    """
    if k >= g.size:
        return np.ones_like(g)
    points = np.unique(np.concatenate([g, g - 1.0]))
    sums = np.clip(g[None, :] - points[:, None], 0.0, 1.0).sum(axis=1) if g.size <= 2048 else _sums(g, points)
    i = int(np.searchsorted(-sums, -float(k), side="left"))  # the first breakpoint with sum <= k
    if i == 0:
        theta = points[0] - (k - sums[0]) / g.size
    else:
        left, right = points[i - 1], points[i]
        slope = sums[i - 1] - sums[i]
        theta = right if slope <= 0 else left + (sums[i - 1] - k) / slope * (right - left)
    return np.asarray(np.clip(g - theta, 0.0, 1.0))


def _sums(g: Vector, points: Vector) -> Vector:
    return np.array([float(np.clip(g - p, 0.0, 1.0).sum()) for p in points])


def project(a: Vector, k: int) -> Vector:
    """The nearest point of the Fantope in the Frobenius norm: the eigenvalues go to the capped simplex."""
    values, vectors = np.linalg.eigh(a)
    weights = capped_simplex(values, k)
    used = weights > 0
    return np.asarray((vectors[:, used] * weights[used]) @ vectors[:, used].T)


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """``x``: in the Fantope; ``y``: sparse, at distance at most the tolerance; residuals as in the stopping rule; ``steps`` taken."""

    x: Vector
    y: Vector
    primal: float
    dual: float
    steps: int
    converged: bool


def select(s: Vector, k: int, penalty: float, *, tolerance: float = 1e-4, steps: int = 2000, rho: float | None = None) -> Solution:
    """max <S, X> - penalty*|X|_{1,1} over the Fantope (000, equation (6.5)) by ADMM, Algorithm 6.1.47 with a stopping rule.

    X = P(Y - U + S/rho), Y = soft(X + U, penalty/rho), U = U + X - Y until max(|X - Y|_F^2, rho^2 |Y - Y'|_F^2/s^2) <= k*tolerance^2 with s
    the scale of S, the rule of Vu, Cho, Lei and Rohe (2013). rho is balanced between the residuals for the first 200 steps and then
    fixed, so that the iteration converges.
    """
    d = len(s)
    scale = max(float(np.abs(s).max()), 1e-300)
    weight = rho if rho is not None else max(scale, penalty)
    y, u, previous = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    x, primal, dual = y, np.inf, np.inf
    goal = np.sqrt(k) * tolerance
    for step in range(1, steps + 1):
        x = project(y - u + s / weight, k)
        previous, y = y, soft_threshold(x + u, penalty / weight)
        u += x - y
        primal = float(np.linalg.norm(x - y))
        dual = weight / scale * float(np.linalg.norm(y - previous))
        if max(primal, dual) <= goal:
            return Solution(x, y, primal, dual, step, True)
        if rho is None and step <= 200 and step % 10 == 0:
            factor = 2.0 if primal > 10 * dual else 0.5 if dual > 10 * primal else 1.0
            weight, u = weight * factor, u / factor
    return Solution(x, y, primal, dual, steps, False)
