"""Constraint sets and proximal maps: projections, linear minimisation oracles, thresholds.

Everything here is a deterministic function of its arguments, so on a released vector it is post-processing. Vectors have shape (d,).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.spec import model
from dpspec.spec.expr import evaluate

Vector: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["l1", "l2", "linf", "simplex", "box", "sparse", "polytope", "reals"]


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintSet:
    """A set of R^d. ``radius``: of a ball; ``low``, ``high``: of a box; ``k``: of the k-sparse vectors (the only non-convex kind);
    ``vertices``: (m, d), the corners of a polytope."""

    kind: Kind
    radius: float = math.inf
    low: float = -math.inf
    high: float = math.inf
    k: int = 0
    vertices: Vector | None = None

    @property
    def convex(self) -> bool:
        return self.kind != "sparse"

    def project(self, v: Vector) -> Vector:
        """The nearest point of the set in l2 (a nearest point, for sparse vectors)."""
        match self.kind:
            case "l2":
                return project_l2(v, self.radius)
            case "l1":
                return project_l1(v, self.radius)
            case "linf":
                return np.clip(v, -self.radius, self.radius)
            case "simplex":
                return project_simplex(v)
            case "box":
                return np.clip(v, self.low, self.high)
            case "sparse":
                return hard_threshold(v, self.k)
            case "polytope":
                assert self.vertices is not None
                return project_polytope(v, self.vertices)
            case "reals":
                return v

    def minimise_linear(self, g: Vector) -> Vector:
        """A point of the set that minimises <g, v>. Raises ``ValueError`` when there is none (an unbounded set)."""
        match self.kind:
            case "l2":
                norm = float(np.linalg.norm(g))
                return np.zeros_like(g) if norm == 0.0 else -(self.radius / norm) * g
            case "l1":
                out = np.zeros_like(g)
                j = int(np.argmax(np.abs(g)))
                out[j] = -self.radius * np.sign(g[j])
                return out
            case "linf":
                return -self.radius * np.sign(g)
            case "simplex":
                out = np.zeros_like(g)
                out[int(np.argmin(g))] = 1.0
                return out
            case "box" if math.isfinite(self.low) and math.isfinite(self.high):
                return np.where(g > 0, self.low, self.high)
            case "polytope":
                assert self.vertices is not None
                corner: Vector = self.vertices[int(np.argmin(self.vertices @ g))]
                return corner
            case _:
                raise ValueError(f"a linear function has no least value over this set ({self.kind})")

    def start(self, d: int) -> Vector:
        """A public starting point: the point of the set that is nearest to zero (the barycentre of the simplex)."""
        return self.project(np.zeros(d))

    def distance_bound(self, d: int) -> float:
        """An upper bound of |w - start| over the set, infinity when unbounded."""
        match self.kind:
            case "l2" | "l1":
                return self.radius
            case "linf":
                return self.radius * math.sqrt(d)
            case "simplex":
                return math.sqrt(1 - 1 / d) if d > 1 else 0.0
            case "box":
                return math.sqrt(d) * (self.high - self.low) if math.isfinite(self.high - self.low) else math.inf
            case "polytope":
                assert self.vertices is not None
                return float(np.linalg.norm(self.vertices - self.start(d), axis=1).max())
            case _:
                return math.inf

    def diameter(self, d: int) -> float:
        """max |u - v| over the set in l2, infinity when unbounded."""
        match self.kind:
            case "l2" | "l1":
                return 2 * self.radius
            case "linf":
                return 2 * self.radius * math.sqrt(d)
            case "simplex":
                return math.sqrt(2.0) if d > 1 else 0.0
            case "box":
                return math.sqrt(d) * (self.high - self.low) if math.isfinite(self.high - self.low) else math.inf
            case "polytope":
                assert self.vertices is not None
                return 2 * self.distance_bound(d)
            case _:
                return math.inf


REALS = ConstraintSet("reals")


def constraint_set(s: model.Set | None, values: Mapping[str, Any]) -> ConstraintSet:
    """The set that a spec writes after ``over``; ``values``: the public numbers its expressions may name. None means R^d."""
    match s:
        case None | model.Reals():
            return REALS
        case model.Ball(norm=norm, radius=r):
            return ConstraintSet(norm, radius=float(evaluate(r, values)))
        case model.Simplex():
            return ConstraintSet("simplex")
        case model.Box(low=low, high=high):
            return ConstraintSet("box", low=float(evaluate(low, values)), high=float(evaluate(high, values)))
        case model.Sparse(k=k):
            return ConstraintSet("sparse", k=int(evaluate(k, values)))
        case model.Polytope(vertices=path):
            return ConstraintSet("polytope", vertices=np.atleast_2d(np.loadtxt(path, delimiter=",")))
        case model.Finite():
            raise ValueError("a finite set is no constraint set for a vector")


def project_l2(v: Vector, radius: float) -> Vector:
    """v * min(1, radius/|v|)."""
    norm = float(np.linalg.norm(v))
    return v if norm <= radius else v * (radius / norm)


def project_simplex(v: Vector, total: float = 1.0) -> Vector:
    """The nearest vector with non-negative entries that sum to ``total`` (sorting; Held, Wolfe, Crowder 1974)."""
    u = np.sort(v)[::-1]
    excess = np.cumsum(u) - total
    rank = np.arange(1, v.size + 1)
    r = int(np.nonzero(u * rank > excess)[0][-1])
    return np.asarray(np.maximum(v - excess[r] / (r + 1), 0.0))


def project_l1(v: Vector, radius: float) -> Vector:
    """The nearest vector with |.|_1 <= radius: the simplex projection of the magnitudes."""
    if float(np.abs(v).sum()) <= radius:
        return v
    if radius == 0.0:
        return np.zeros_like(v)
    return np.sign(v) * project_simplex(np.abs(v), radius)


def project_polytope(v: Vector, vertices: Vector, tolerance: float = 1e-10) -> Vector:
    """The nearest point of the convex hull of the rows of ``vertices``.

    Least squares over convex weights by non-negative least squares with one heavily weighted row that makes the weights sum to one.
    """
    from scipy.optimize import nnls

    scale = max(1.0, float(np.abs(vertices).max()))
    weight = scale / math.sqrt(tolerance)
    system = np.vstack([vertices.T, np.full((1, vertices.shape[0]), weight)])
    weights, _ = nnls(system, np.append(v, weight))
    point: Vector = (weights / weights.sum()) @ vertices
    return point


def hard_threshold(v: Vector, k: int) -> Vector:
    """Keep the k entries of largest magnitude, zero the rest (``Trunc(v, k)`` of documents 000 and 004); v itself when k >= d."""
    if k >= v.size:
        return v
    out = np.zeros_like(v)
    if k > 0:
        keep = np.argpartition(np.abs(v), v.size - k)[v.size - k :]
        out[keep] = v[keep]
    return out


def soft_threshold(v: Vector, threshold: float | Vector) -> Vector:
    """sign(v)*max(|v| - threshold, 0): the minimiser of |u - v|^2/2 + threshold*|u|_1 (004, equation (2), where the 1/2 is left out)."""
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)


def shrink(v: Vector, tau: float) -> Vector:
    """sign(v)*min(|v|, tau), coordinate by coordinate."""
    return np.clip(v, -tau, tau)
