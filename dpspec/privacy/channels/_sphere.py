"""Sums of independent random unit vectors, drawn from their law without drawing each vector: for studies, never for a release.

Three facts about a uniform point u of the unit sphere of R^d carry everything.

1. *Isotropic sums.* The sum of independent isotropic vectors is isotropic, and |S + S'|^2 = |S|^2 + |S'|^2 + 2|S||S'| c with c the cosine
   of two independent uniform directions, independent of both lengths. So the length of a sum of m vectors takes m - 1 cosines, in a
   binary tree, and its direction d normal numbers once: not m*d.
2. *A density of two values is a mixture.* If it is low/area outside a region and higher inside, u is uniform on the whole sphere with
   probability ``low``, and uniform on the region otherwise. The first part does not look at the record.
3. *Blocks.* A point of a region around z is t z + sqrt(1 - t^2) h, h uniform among the unit vectors orthogonal to z. With g = (d normal
   numbers), h is the part of g orthogonal to z over its length. Of k such vectors with centres z_1..z_k let A_i be the k coordinates
   of g_i in an orthonormal basis of the span (the Cholesky factor L of the Gram matrix: z_i = sum_j L_ij q_j), and r_i the length of the
   rest, chi with d - k degrees of freedom. <g_i, z_i> = (A L^T)_ii; every length follows from A_i and r_i; and the rests are isotropic
   vectors of one space, the complement of the span, so their sum is drawn by 1. That takes k + d/k normal numbers a vector.
   Blocks whose centres are nearly dependent (a squared distance from the span of those before below 2^-20) are drawn vector by vector.

All of this is exact in real numbers; in doubles it is off by about 2^-30 of a vector at most, in blocks at the limit of 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpspec.privacy.noise import Array, NoiseSource

#: The least squared distance from the span of the centres before, of length 1.
_NEAR = 2.0**-20


def block_size(dim: int) -> int:
    """Vectors of a block; 1 in dimensions where linear algebra costs more than the normal numbers that it saves."""
    return 1 if dim < 20 else 4 if dim < 64 else 12


def chi_square(degrees: int, size: Any, noise: NoiseSource) -> Array:
    """Chi-square with whole degrees of freedom: two a unit of the gamma law, and the square of a normal number for an odd one."""
    found = 2.0 * noise.gamma(degrees // 2, 1.0, size) if degrees > 1 else np.zeros(size)
    if degrees % 2:
        found += noise.gaussian(1.0, size) ** 2
    return found


def cosines(dim: int, size: int, noise: NoiseSource) -> Array:
    """<u, z> of uniform u in R^dim and any unit vector z, shape (size,)."""
    first = noise.gaussian(1.0, size)
    return np.asarray(first / np.sqrt(first * first + chi_square(dim - 1, size, noise)))


def lengths_of_sums(lengths: Array, dim: int, noise: NoiseSource) -> Array:
    """The lengths of sums of isotropic vectors of R^dim with these ``lengths`` (vectors, sums): (sums,)."""
    left = lengths
    while left.shape[0] > 1:
        pairs = left.shape[0] // 2
        a, b = left[:pairs], left[pairs : 2 * pairs]
        c = cosines(dim, a.size, noise).reshape(a.shape)
        joined = np.sqrt(np.maximum(a * a + b * b + 2.0 * (a * b) * c, 0.0))
        left = joined if left.shape[0] % 2 == 0 else np.concatenate([joined, left[-1:]])
    return np.asarray(left[0])


def isotropic_sum(count: int, dim: int, noise: NoiseSource) -> Array:
    """The sum of ``count`` independent uniform points of the unit sphere of R^dim."""
    if count == 0:
        return np.zeros(dim)
    if count <= 2:
        return np.asarray(noise.directions(count, dim).sum(axis=0))
    length = float(lengths_of_sums(np.ones((count, 1)), dim, noise)[0])
    return np.asarray(noise.directions(1, dim)[0] * length)


def sum_around(z: Array, t: Array, noise: NoiseSource) -> Array:
    """The sum of t_i z_i + sqrt(1 - t_i^2) h_i, h_i independent and uniform among the unit vectors orthogonal to z_i.

    ``z``: unit vectors (m, d). ``t``: (m,), each in [-1, 1].
    """
    m, dim = z.shape
    if m == 0:
        return np.zeros(dim)
    if dim == 1:
        return np.asarray(t @ z)
    k = block_size(dim)
    whole = m // k * k if k > 1 else 0
    total, left = np.zeros(dim), np.arange(whole, m)
    if whole:
        blocks = z[:whole].reshape(-1, k, dim)
        length, g, weights, dependent = sums_of_blocks(blocks, t[:whole].reshape(-1, k), noise)
        total = length @ g + weights.T.reshape(-1) @ z[:whole]
        if dependent.any():
            left = np.concatenate([np.flatnonzero(np.repeat(dependent, k)), left])
    if left.size:
        total = total + (_each(z, t, noise) if left.size == m else _each(z[left], t[left], noise))
    return total


def _each(z: Array, t: Array, noise: NoiseSource) -> Array:
    """Vector by vector, from d normal numbers each."""
    g = noise.gaussian(1.0, z.shape)
    along = np.einsum("ij,ij->i", g, z)
    g -= along[:, None] * z  # subtracted before it is measured: in two dimensions the rest may be short
    factor = np.sqrt(np.maximum(1.0 - t * t, 0.0) / np.einsum("ij,ij->i", g, g))
    return np.asarray(factor @ g + t @ z)


def sums_of_blocks(z: Array, t: Array, noise: NoiseSource) -> tuple[Array, Array, Array, Any]:
    """The sums of blocks of vectors, with centres ``z`` (blocks, k, d): length*g + sum_i weights_i z_i.

    Returns length (blocks,), g (blocks, d), weights (k, blocks), and which blocks are nearly dependent: those have only zeros.
    """
    blocks, k, dim = z.shape
    factor, dependent = _cholesky(np.ascontiguousarray((z @ z.transpose(0, 2, 1)).transpose(1, 2, 0)))
    t = np.ascontiguousarray(t.T)
    a = noise.gaussian(1.0, (k, k, blocks))  # (vector, coordinate, block)
    rest = chi_square(dim - k, k * blocks, noise).reshape(k, blocks)
    along = np.einsum("ijb,ijb->ib", a, factor)
    a -= along[:, None] * factor  # orthogonal to z_i, in the coordinates of the span
    share = np.sqrt(np.maximum(1.0 - t * t, 0.0) / (np.einsum("ijb,ijb->ib", a, a) + rest))
    inside = np.einsum("ib,ijb->jb", share, a) + np.einsum("ib,ijb->jb", t, factor)
    length = lengths_of_sums(share * np.sqrt(rest), dim - k, noise)
    # a direction of the complement: g minus its part in the span, Q^T Q g with Q = L^-1 Z
    g = noise.gaussian(1.0, (blocks, dim))
    part = _forward(factor, np.ascontiguousarray(np.matmul(z, g[:, :, None])[:, :, 0].T))
    outside = np.einsum("ij,ij->i", g, g) - np.einsum("jb,jb->b", part, part)
    length = length / np.sqrt(np.maximum(outside, np.finfo(float).tiny))
    weights = _backward(factor, inside - length * part)
    if dependent.any():
        length[dependent] = 0.0
        weights[:, dependent] = 0.0
    return length, g, weights, dependent


def _cholesky(gram: Array) -> tuple[Array, Any]:
    """L with L L^T = gram, (k, k, blocks), and in which blocks a pivot is nearly 0 (L is of no use there, and finite)."""
    k, _, blocks = gram.shape
    out, dependent = np.zeros_like(gram), np.zeros(blocks, dtype=bool)
    for j in range(k):
        column = gram[j:, j] - np.einsum("ipb,pb->ib", out[j:, :j], out[j, :j])
        dependent |= ~(column[0] > _NEAR)
        pivot = np.sqrt(np.where(column[0] > _NEAR, column[0], 1.0))
        out[j:, j] = column / pivot
        out[j, j] = pivot
    return out, dependent


def _forward(factor: Array, b: Array) -> Array:
    """L^-1 b for each block; ``b`` (k, blocks) is overwritten."""
    for j in range(len(b)):
        b[j] /= factor[j, j]
        b[j + 1 :] -= factor[j + 1 :, j] * b[j]
    return b


def _backward(factor: Array, b: Array) -> Array:
    """L^-T b for each block; ``b`` (k, blocks) is overwritten."""
    for j in reversed(range(len(b))):
        b[j] /= factor[j, j]
        b[:j] -= factor[j, :j] * b[j]
    return b
