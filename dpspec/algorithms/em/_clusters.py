"""Mixtures of K Gaussians with means and weights of their own, spherical or with diagonal covariances: the model, and what EM adds up.

Parameters are public or released, one vector: K weights, K d means (a row a component), then K variances (spherical) or K d (diagonal).
What a record gives at them, r its posterior probabilities of the components (a softmax of log densities, so of [0, 1] and of sum 1 for
any finite record) and u_k = x - mu_k scaled into the ball of radius G:

    weights r_k (K numbers),  means r_k u_k (K d),  spreads r_k |u_k|^2 (K) or r_k u_kj^2 (K d).

In l2 they are at most 1, G and G^2 long: sum_k r_k^2 |u_k|^2 <= G^2 sum_k r_k^2 <= G^2, and sum_j u_kj^4 <= |u_k|^4. Weights and spreads
have no negative entries, so two records' are at most sqrt(2) of that apart, and two records' means 2 G.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.sets import Vector
from dpspec.models.rows import Rows
from dpspec.numeric.norms import clip_rows

#: Records are brought into the ball of so many radii of the means before anything is computed: far enough to change no answer, near enough
#: that squares over variances are finite.
FAR: Final = 1e6
#: The least clip: squares of entries that long are normal numbers.
LEAST: Final = 1e-100
_BLOCK: Final = 1 << 15
#: Rows that the start of a fit without noise looks at.
_LOOKED_AT: Final = 4096


@dataclass(frozen=True, slots=True)
class Parameters:
    """``weights``: (K,), positive, of sum 1. ``means``: (K, d). ``variances``: (K, 1) or (K, d), positive."""

    weights: Vector
    means: Vector
    variances: Vector

    @property
    def packed(self) -> Vector:
        return np.concatenate([self.weights, self.means.ravel(), self.variances.ravel()])


@dataclass(frozen=True, slots=True)
class Clusters:
    """The model: ``k`` components of R^d."""

    k: int
    d: int
    diagonal: bool

    @property
    def spreads(self) -> int:
        """Variances of a component."""
        return self.d if self.diagonal else 1

    def unpack(self, theta: Vector) -> Parameters:
        k, means = self.k, self.k * (1 + self.d)
        return Parameters(theta[:k], theta[k:means].reshape(k, self.d), theta[means:].reshape(k, self.spreads))

    def log_densities(self, q: Parameters, apart: list[Vector], squares: list[Vector] | None = None) -> Vector:
        """log(weight density) of each row and component, (rows, K), from x - mu_k, K arrays (rows, d). ``squares``: their squared l2 norms,
        where they are known."""
        found = np.empty((len(apart[0]), self.k))
        with np.errstate(over="ignore", under="ignore"):
            for j, u in enumerate(apart):
                v = q.variances[j]
                level = math.log(q.weights[j]) - np.log(2 * math.pi * np.broadcast_to(v, (self.d,))).sum() / 2
                if self.diagonal:
                    far = np.einsum("ij,ij->i", u, u * (0.5 / v))
                else:
                    far = (np.einsum("ij,ij->i", u, u) if squares is None else squares[j]) * (0.5 / v[0])
                found[:, j] = level - far
        return found

    def log_loss(self, theta: Vector, x: Any) -> Vector:
        """-log p(x; theta) of each row."""
        q = self.unpack(theta)
        densities = self.log_densities(q, [dense(x) - m for m in q.means])
        return np.asarray(-np.logaddexp.reduce(densities, axis=1))

    def responsibilities(self, theta: Vector, x: Any) -> Vector:
        """Logarithms of the posterior probabilities, (rows, K)."""
        q = self.unpack(theta)
        return normalised(self.log_densities(q, [dense(x) - m for m in q.means]))


def dense(x: Any) -> Vector:
    return x if isinstance(x, np.ndarray) else np.asarray(x.toarray())


def normalised(logs: Vector) -> Vector:
    """Rows minus the logarithm of their sum; of a row of -infinities the uniform law, so that no record makes a NaN."""
    top = logs.max(axis=1, keepdims=True)
    shifted = np.where(np.isfinite(top), logs - np.where(np.isfinite(top), top, 0.0), 0.0)
    with np.errstate(under="ignore"):
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def statistics(
    records: Rows, model: Clusters, q: Parameters, clip: float, far: float, near: float | None = None
) -> tuple[Vector, Vector, Vector]:
    """Sums over the records of weights (K,), means (K, d) and spreads (K, 1 or d), as the module's text has them. ``near``: the radius
    that u is scaled into for the means, where it is not ``clip``.

    A record's parts exceed 1, the clip and its square by (d + K + 16) 2^-53 of them at most: of a u_k that is longer than ``clip`` >= LEAST
    no square that matters is subnormal, and none overflows, since records lie within ``far``.
    """
    weights, means, spreads = sums.Sum(model.k), sums.Sum((model.k, model.d)), sums.Sum((model.k, model.spreads))
    for x, _ in records.blocks(sums.block_rows(1 << 15, model.d, 64)):
        rows = within(dense(x), far)
        apart = [rows - m for m in q.means]
        squares = [np.einsum("ij,ij->i", u, u) for u in apart]
        shares = np.exp(normalised(model.log_densities(q, apart, squares)))
        weights.add(shares.sum(axis=0))
        moved, spread = np.empty((model.k, model.d)), np.empty((model.k, model.spreads))
        for j, (u, square) in enumerate(zip(apart, squares, strict=True)):
            with np.errstate(divide="ignore"):
                factor = np.minimum(1.0, clip / np.sqrt(square))
                closer = factor if near is None else np.minimum(1.0, near / np.sqrt(square))
            moved[j] = (shares[:, j] * closer) @ u
            share = shares[:, j] * factor
            share *= factor
            spread[j] = share @ (u * u) if model.diagonal else share @ square
        means.add(moved)
        spreads.add(spread)
    return weights.value, means.value, spreads.value


def within(rows: Vector, far: float) -> Vector:
    """The rows scaled into the ball of radius ``far``, and 0 for one with an entry that is no number; the array itself where every entry is
    so small that nothing changes."""
    least, most = rows.min(initial=0.0), rows.max(initial=0.0)
    if max(-least, most) * math.sqrt(rows.shape[1]) <= far / 2:  # false for a NaN
        return rows
    return clip_rows(np.array(rows), far)


def counts(records: Rows, points: Vector, far: float) -> Vector:
    """How many records are nearest to each of the points, (L,): each record's cell is a function of it and of the points alone."""
    from scipy.spatial import cKDTree

    tree, total = cKDTree(points), np.zeros(len(points))
    for x, _ in records.blocks(_BLOCK):
        total += np.bincount(tree.query(within(dense(x), far))[1], minlength=len(points))
    return total


def weighted_means(points: Vector, mass: Vector, k: int, generator: Any, restarts: int = 20) -> Vector:
    """k-means of weighted points, the best of some starts: (k, d). For released or public numbers, or in a study."""
    best, least = points[:k], math.inf
    for _ in range(restarts):
        centres = _spread(points, mass, k, generator)
        for _ in range(30):
            squares = ((points[:, None, :] - centres) ** 2).sum(axis=2)
            near = squares.argmin(axis=1)
            sizes = np.bincount(near, weights=mass, minlength=k)
            moved = np.stack([np.bincount(near, weights=mass * column, minlength=k) for column in points.T], axis=1)
            centres = np.where(sizes[:, None] > 0, moved / np.maximum(sizes, 1e-300)[:, None], centres)
        cost = float(mass @ ((points[:, None, :] - centres) ** 2).sum(axis=2).min(axis=1))
        if cost < least:
            best, least = centres, cost
    return np.asarray(best)


def _spread(points: Vector, mass: Vector, k: int, generator: Any) -> Vector:
    """k-means++: each further centre with probability proportional to mass times the squared distance to the nearest one so far."""
    chosen = [points[generator.choice(len(points), p=mass / mass.sum())]]
    for _ in range(k - 1):
        far = mass * ((points[:, None, :] - np.array(chosen)) ** 2).sum(axis=2).min(axis=1)
        chosen.append(points[generator.choice(len(points), p=far / far.sum())] if far.sum() > 0 else chosen[-1])
    return np.array(chosen)


def fit(
    records: Rows, model: Clusters, largest: float, *, rounds: int = 200, tolerance: float = 1e-9, start: Vector | None = None
) -> Vector:
    """EM without noise from k-means of some records, for references: the packed parameters. ``largest``: of a standard deviation. The least
    one is a millionth of it."""
    rows = np.concatenate([dense(x) for x, _ in records.blocks(_BLOCK)])
    if start is None:
        from sklearn.cluster import KMeans

        some = rows[:: max(len(rows) // _LOOKED_AT, 1)]
        start = KMeans(model.k, n_init=5, random_state=0).fit(some).cluster_centers_
    q = Parameters(np.full(model.k, 1 / model.k), start, np.full((model.k, model.spreads), largest**2))
    last = math.inf
    for _ in range(rounds):
        logs = model.log_densities(q, [rows - m for m in q.means])
        shares, loss = np.exp(normalised(logs)), -float(np.logaddexp.reduce(logs, axis=1).mean())
        sizes = np.maximum(shares.sum(axis=0), 1e-9)
        means = (shares.T @ rows) / sizes[:, None]
        squares = np.stack([shares[:, j] @ (rows - means[j]) ** 2 for j in range(model.k)]) / sizes[:, None]
        variances = squares if model.diagonal else squares.mean(axis=1, keepdims=True)
        q = Parameters(sizes / sizes.sum(), means, np.clip(variances, (1e-6 * largest) ** 2, None))
        if last - loss <= tolerance * max(abs(loss), 1.0):
            break
        last = loss
    return q.packed
