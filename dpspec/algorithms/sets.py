"""Constraint sets and penalties: projections, linear minimisation oracles, thresholds, and the proximal map of a penalty over a set.

Everything here is a deterministic function of its arguments, so on a released vector it is post-processing. Vectors have shape (d,).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.data.files import Corners, local
from dpspec.data.files import numbers as read_vertices
from dpspec.numeric.norms import directions, group_lengths, length, lengths, project, project_each
from dpspec.spec import model
from dpspec.spec.expr import evaluate
from dpspec.symbolic.groups import GroupTerm

Vector: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["l1", "l2", "linf", "simplex", "box", "sparse", "polytope", "semidefinite", "reals"]


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintSet:
    """A set of R^d. ``radius``: of a ball; ``low``, ``high``: of a box; ``k``: of the k-sparse vectors (the only non-convex kind);
    ``vertices``: (m, d), the corners of a polytope. ``semidefinite``: symmetric matrices without negative eigenvalues, row after row, of
    Frobenius norm at most ``radius``."""

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
            case "semidefinite":
                return project_semidefinite(v, self.radius)
            case "reals":
                return v

    def project_rows(self, points: Vector) -> Vector:
        """:meth:`project` of each row of an (m, d) array."""
        match self.kind:
            case "l2":
                return project_each(points, self.radius)
            case "linf" | "box" | "reals":
                return self.project(points)
            case _:
                return np.array([self.project(v) for v in points]).reshape(points.shape)

    def minimise_linear(self, g: Vector) -> Vector:
        """A point of the set that minimises <g, v>. Raises ``ValueError`` when there is none (an unbounded set)."""
        match self.kind:
            case "l2":
                return np.asarray(-self.radius * directions(g[None, :])[0][0])
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
            case "l2" | "l1" | "semidefinite":
                return self.radius
            case "linf":
                return self.radius * math.sqrt(d)
            case "simplex":
                return math.sqrt(1 - 1 / d) if d > 1 else 0.0
            case "box":
                return math.sqrt(d) * (self.high - self.low) if math.isfinite(self.high - self.low) else math.inf
            case "polytope":
                assert self.vertices is not None
                return float(lengths(self.vertices - self.start(d)).upper.max())
            case _:
                return math.inf

    def diameter(self, d: int) -> float:
        """max |u - v| over the set in l2, infinity when unbounded."""
        match self.kind:
            case "l2" | "l1":
                return 2 * self.radius
            case "semidefinite":  # <U, V> >= 0
                return math.sqrt(2.0) * self.radius
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
    """The set that a spec writes after ``over``; ``values``: the public numbers its expressions may name. None means R^d. The set of a
    :class:`~dpspec.algorithms.card.Problem` brings the vertices of a polytope along, as the plan holds them."""
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
            rows = s.rows if isinstance(s, Corners) else read_vertices(local(path))[0]
            return ConstraintSet("polytope", vertices=np.array(rows))
        case model.Finite():
            raise ValueError("a finite set is no constraint set for a vector")


def unkept(p: Any, *kept: Kind, radius: float | None = None) -> str | None:
    """Why a release would leave the set after `over` of a :class:`~dpspec.algorithms.card.Problem`, for an algorithm that stays inside the
    sets of the kinds ``kept`` alone; ``radius``: of the ball in which it stays."""
    over: Any = getattr(p.task, "over", None)
    if over is None or over.kind == "reals":
        return None
    kind = getattr(over, "norm", over.kind)
    if kind not in kept:
        others = f", or over an {' or '.join(kept)} ball" if kept else ""
        return f"it does not keep its release inside the set after `over` ({kind}): ask without a set{others}"
    if radius is not None and radius > float(evaluate(over.radius, p.facts)) * (1 + 1e-12):
        return f"it keeps its release inside the ball of radius {radius:g}, and the set after `over` is smaller"
    return None


def project_l2(v: Vector, radius: float) -> Vector:
    """v * min(1, radius/|v|)."""
    return project(v, radius)


def project_semidefinite(v: Vector, radius: float) -> Vector:
    """The nearest symmetric positive semidefinite matrix of Frobenius norm at most ``radius`` to the square matrix ``v``, both row after
    row: its symmetric part without the negative eigenvalues (Higham 1988), scaled into the ball, which is exact for a cone. Rounding is
    that of LAPACK's eigenvectors (:data:`EIGEN`). Never raises: what is not finite is projected to 0."""
    d = math.isqrt(v.size)
    with np.errstate(all="ignore"):
        m = np.reshape(v, (d, d))
        size = float(np.abs(m).max(initial=0.0))
        if not (math.isfinite(size) and size > 0.0):
            return np.zeros_like(v)
        scale = 2.0 ** math.floor(math.log2(size)) if size > 2.0**-1000 else 1.0
        m = m / scale
        values, vectors = np.linalg.eigh((m + m.T) / 2)
        kept = np.maximum(values, 0.0)
        whole = (vectors * kept) @ vectors.T
        whole = (whole + whole.T) / 2 * scale
    return project(whole.ravel(), radius) if np.isfinite(whole).all() else np.zeros_like(v)


#: Of a projected matrix of d rows: it is within EIGEN d^2 units of the exact projection of v, relative to v. The backward error of
#: LAPACK's symmetric eigensolvers is a modest multiple of d units (LAPACK Users' Guide, section 4.7); the product with the vectors
#: rounds by d + 2.
EIGEN: Final = 64


def project_simplex(v: Vector, total: float = 1.0) -> Vector:
    """The nearest vector with non-negative entries that sum to ``total`` (sorting; Held, Wolfe, Crowder 1974). Adding a number to all of v
    changes nothing: with 0 as the largest, ``total`` is never lost beside it."""
    with np.errstate(over="ignore"):
        v = v - v.max()
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


def project_polytope(v: Vector, vertices: Vector) -> Vector:
    """The nearest point of the convex hull of the rows of ``vertices``, up to rounding.

    With p_i = (vertex_i - v)/scale, non-negative least squares (Lawson, Hanson 1974) minimise |sum a_i p_i|^2 + (sum a_i - 1)^2. For
    weights a = s b, sum b_i = 1, the best s leaves |p_b|^2/(1 + |p_b|^2), which grows with the distance |p_b| of the point from v: the
    minimiser, divided by its sum, is the nearest point exactly.
    """
    from scipy.optimize import nnls

    offsets = vertices - v
    scale = float(lengths(offsets).values.max())
    if scale == 0.0:
        return v
    weights, _ = nnls(np.vstack([offsets.T / scale, np.ones((1, len(vertices)))]), np.append(np.zeros(v.size), 1.0))
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


# ------------------------------------------------------------------------------------------------------------------ penalties


@dataclass(frozen=True, slots=True, eq=False)
class GroupNorm:
    """sum_g weights_g |v_g|_2 over consecutive groups. ``starts``: (g,), the first coordinate of each; ``sizes``, ``weights``: (g,)."""

    starts: NDArray[np.intp]
    sizes: NDArray[np.intp]
    weights: Vector

    def norms(self, v: Vector) -> Vector:
        """|v_g|_2 of every group, shape (g,)."""
        return group_lengths(v, self.starts)

    def value(self, v: Vector) -> float:
        return float(self.weights @ self.norms(v))

    def spread(self, per_group: Vector) -> Vector:
        """A number a group as a number a coordinate, shape (d,)."""
        return np.repeat(per_group, self.sizes)

    def shrink(self, v: Vector, step: float) -> Vector:
        """Every group scaled by max(0, 1 - step*weight/|v_g|): the minimiser of |u - v|^2/2 + step*value(u)."""
        norms = self.norms(v)
        kept = 1.0 - step * self.weights / np.where(norms > 0.0, norms, 1.0)
        return v * self.spread(np.where(norms > step * self.weights, kept, 0.0))


def group_norm(term: GroupTerm | None, d: int) -> GroupNorm | None:
    """The group norm of a loss on d coordinates. Raises ``ValueError`` when the sizes of its groups do not add up to d."""
    if term is None:
        return None
    sizes = np.array(term.groups.blocks(d), dtype=np.intp)
    return GroupNorm(np.cumsum(sizes) - sizes, sizes, term.weight * np.array(term.groups.weights(d)))


def prox(v: Vector, over: ConstraintSet, step: float, l1: float = 0.0, group: GroupNorm | None = None) -> Vector:
    """argmin over u in the set of |u - v|^2/2 + step*h(u), h(u) = l1 |u|_1 + group.value(u), l1 >= 0 and weights >= 0.

    Over R^d: s = soft threshold of v, then u = group shrinkage of s. Exact: v - s is step*l1 times a subgradient of |.|_1 at s, and as u
    is s scaled down group by group, that is one at u too; s - u is step times a subgradient of the group norm at u (Simon et al. 2013).
    "Threshold, then project" is exact over

    * the l2 ball, for every h with h(cu) = c h(u): with p the unconstrained point and u = cp, |u| = r, v - u = (v - p) + (1 - c)p, a
      subgradient of h at p, hence at u, plus an outward normal at u;
    * a box, wherever it lies, and the linf ball, for l1 alone: a problem a coordinate, and a convex function of one variable is least
      over an interval at the point of it that is nearest to its minimiser over R;
    * the l1 ball, for l1 alone: projecting is a soft threshold itself, and thresholds add up;
    * the simplex, for l1 alone, where |u|_1 = 1 is constant: project.

    It is not exact for a group norm over the l1 ball, the simplex or a box, nor for any penalty over a polytope. There

    * l1 ball: a multiplier m >= 0 of |u|_1 turns u into the map over R^d with l1 + m/step, and |u|_1 falls in m: a root in m;
    * simplex: the same with a multiplier of sum u; over the orthant u is the group shrinkage of the positive part (scaling down keeps the
      normals of a cone): a root in m;
    * box: a group of size |u_g| = t has u_g = the soft threshold of v_g, times t/(t + step*weight), clipped, and |u_g|/t falls in t: a
      root in t;
    * polytope: :func:`_prox_polytope`, to a stated tolerance.

    The three roots are found to rounding. Raises ``ValueError`` for a penalty over the k-sparse vectors, which are not convex.
    """
    if group is None and (l1 == 0.0 or over.kind == "simplex"):
        return over.project(v)
    if over.kind == "sparse":
        raise ValueError("a penalty over the k-sparse vectors has no proximal map here")
    if over.kind == "polytope":
        return _prox_polytope(v, over, step, l1, group)
    s = soft_threshold(v, step * l1) if l1 > 0.0 and over.kind != "simplex" else v
    if group is None:
        return over.project(s)
    match over.kind:
        case "l1":
            return _shrink_l1(s, group, step, over.radius)
        case "simplex":
            return _shrink_simplex(s, group, step)
        case "box":
            return _shrink_box(s, group, step, over.low, over.high)
        case "linf":
            return _shrink_box(s, group, step, -over.radius, over.radius)
        case _:
            return over.project(group.shrink(s, step))


def _shrink_l1(s: Vector, group: GroupNorm, step: float, radius: float) -> Vector:
    def at(m: float) -> Vector:
        return group.shrink(soft_threshold(s, m), step)

    u = at(0.0)
    if float(np.abs(u).sum()) <= radius:
        return u
    u = at(_root(lambda m: float(np.abs(at(m)).sum()) - radius, 0.0, float(np.abs(s).max())))
    return u * (radius / max(radius, float(np.abs(u).sum())))


def _shrink_simplex(s: Vector, group: GroupNorm, step: float) -> Vector:
    s = s - s.max()  # adding a number to all entries changes nothing over the simplex

    def at(m: float) -> Vector:
        return group.shrink(np.maximum(s - m, 0.0), step)

    # at m = 0 all is 0; at low the group of the largest entry has a norm of at least 1 + step*weight, so what is left of it sums to 1
    low = -1.0 - step * float(group.weights.max())
    u = at(_root(lambda m: float(at(m).sum()) - 1.0, low, 0.0))
    return np.asarray(u / u.sum())


def _shrink_box(s: Vector, group: GroupNorm, step: float, low: float, high: float) -> Vector:
    u = group.shrink(s, step)
    if u.min() >= low and u.max() <= high:
        return u
    threshold = step * group.weights

    def at(size: Vector) -> Vector:
        share = np.divide(size, size + threshold, out=np.ones_like(size), where=size + threshold > 0.0)
        return np.clip(s * group.spread(share), low, high)

    above = group.norms(np.clip(s, low, high))  # |u_g| is at most that
    if low <= 0.0 <= high:  # |u_g|/t at t = 0, from the coordinates that the box lets move: a group where it is no more than 1 is 0
        free = np.clip(s, -np.inf if low < 0.0 else 0.0, np.inf if high > 0.0 else 0.0)
        above = np.where(group.norms(free) <= threshold, 0.0, above)
    below = np.zeros_like(above)
    for _ in range(100):  # about 60 halvings leave no double between the ends
        middle = (below + above) / 2
        if bool(((middle <= below) | (middle >= above)).all()):
            break
        longer = group.norms(at(middle)) > middle
        below, above = np.where(longer, middle, below), np.where(longer, above, middle)
    return at(above)


def _root(f: Any, low: float, high: float) -> float:
    """Where the falling function f changes its sign in [low, high], to rounding (Brent 1973; by halves where that takes too long)."""
    from scipy.optimize import brentq

    if not f(low) > 0.0:
        return low
    if not f(high) <= 0.0:  # by rounding
        return high
    found, report = brentq(f, low, high, xtol=1e-300, rtol=4 * np.finfo(np.float64).eps, maxiter=500, full_output=True, disp=False)
    if report.converged:
        return float(found)
    for _ in range(2200):  # halvings leave no double between the ends in so many, wherever the root is
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if f(middle) > 0.0 else (low, middle)
    return high


#: :func:`prox` over a polytope is within this times the largest vertex of the exact point (and what rounding adds, about as much) ...
POLYTOPE_TOLERANCE = 1e-7
#: ... after at most this many projections; random instances need a few dozen.
POLYTOPE_LIMIT = 20_000


def _prox_polytope(v: Vector, over: ConstraintSet, step: float, l1: float, group: GroupNorm | None) -> Vector:
    """The dual by accelerated projected ascent with restarts (O'Donoghue, Candes 2015).

    step*h(u) = max <q, u> over q in D, and P_D(z) = z - prox of z over R^d: maximise min_u |u - v|^2/2 + <q, u> over D, whose inner
    minimiser, the projection of v - q, is the gradient. The duality gap at q is step*h(u) - <q, u>, and by strong convexity u is within
    sqrt(2 gap) of the exact point: the loop stops by that. For steps on released vectors only: where a guarantee rests on an exact
    map, polytopes are refused.
    """
    assert over.vertices is not None
    largest = float(lengths(over.vertices).values.max())
    slope = step * (l1 * math.sqrt(v.size) + (0.0 if group is None else length(group.weights)))
    rounding = 1e-14 * slope * (largest + slope + length(v))  # of u, about 1e-15 of what it is made of, times the slope
    slack = (POLYTOPE_TOLERANCE * largest) ** 2 / 2 + rounding

    def h(u: Vector) -> float:
        return step * (l1 * float(np.abs(u).sum()) + (0.0 if group is None else group.value(u)))

    def dual(z: Vector) -> Vector:
        return z - prox(z, REALS, step, l1, group)

    q = y = np.zeros_like(v)
    momentum = 1.0
    for _ in range(POLYTOPE_LIMIT):
        u = over.project(v - y)
        if h(u) - float(y @ u) <= slack:
            return u
        before, q = q, dual(y + u)
        if float((y - q) @ (q - before)) > 0.0:
            momentum = 1.0
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        y, momentum = dual(q + (momentum - 1) / following * (q - before)), following
    raise ValueError("no proximal point over this polytope to its tolerance; minimise over another set, or leave the penalty out")
