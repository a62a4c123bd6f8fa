"""Sums of independent random unit vectors, drawn from their law without drawing each vector: for studies, never for a release.

Four facts about a uniform point u of the unit sphere of R^d carry everything.

1. *Isotropic sums.* The sum of independent isotropic vectors is isotropic, and |S + S'|^2 = |S|^2 + |S'|^2 + 2|S||S'| c with c the cosine
   of two independent uniform directions, independent of both lengths. So the length of a sum of m vectors takes m - 1 cosines, in a
   binary tree, and its direction d normal numbers once: not m*d.
2. *A density of two values is a mixture.* If it is low/area outside a region and higher inside, u is uniform on the whole sphere with
   probability ``low``, and uniform on the region otherwise. The first part does not look at the record: where the coin that decides it is
   the same for all, only the records of the second part are read.
3. *Half a sphere is a reflection.* With g = (d normal numbers), sgn<g, z> g/|g| is uniform on the hemisphere of z.
4. *Blocks.* A point of a region around z is t z + sqrt(1 - t^2) h, h uniform among the unit vectors orthogonal to z: the part of g
   orthogonal to z over its length. Of k such vectors with centres z_1..z_k let A_i be the k coordinates of g_i in an orthonormal basis
   of the span (the Cholesky factor L of the Gram matrix: z_i = sum_j L_ij q_j), and r_i the length of the rest, chi with d - k degrees
   of freedom. <g_i, z_i> = (A L^T)_ii; every length, and the sign of 3, follows from A_i and r_i; and the rests are isotropic vectors of
   one space, the complement of the span, so their sum is drawn by 1. That takes k + d/k normal numbers a vector.
   Blocks whose centres are nearly dependent (a squared distance from the span of those before below 2^-20) are drawn vector by vector.

All of this is exact in real numbers; in doubles it is off by about 2^-30 of a vector at most, in blocks at the limit of 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpspec.numeric.norms import directions, lengths
from dpspec.privacy.noise import Array, Integers, NoiseSource, StudyNoise

#: The least squared distance from the span of the centres before, of length 1.
_NEAR = 2.0**-20
#: Squared lengths between these have kept their relative accuracy.
_LOW, _HIGH = 2.0**-900, 2.0**1000
#: Numbers of a tile of records, of which the Gram matrices are taken while it is in the processor's cache, and of a piece, on which the
#: arithmetic of blocks runs.
_TILE, _PIECE = 1 << 15, 1 << 19


def block_size(dim: int) -> int:
    """Vectors of a block; 1 in dimensions where linear algebra costs more than the normal numbers that it saves."""
    return 1 if dim < 20 else 4 if dim < 64 else 8


def piece_rows(dim: int) -> int:
    """Records that are worked on at a time: whole blocks."""
    k = block_size(dim)
    return max(1, _PIECE // (dim * k)) * k


def chi_square(degrees: int, size: Any, noise: NoiseSource) -> Array:
    """Chi-square with whole degrees of freedom: two a unit of the gamma law, and the square of a normal number for an odd one."""
    found = noise.gamma(degrees // 2, 2.0, size) if degrees > 1 else np.zeros(size)
    if degrees % 2:
        found += noise.gaussian(1.0, size) ** 2
    return found


def bulk(noise: NoiseSource) -> NoiseSource:
    """A quick stream of a study's noise; other sources as they are."""
    return noise.bulk() if isinstance(noise, StudyNoise) else noise


def cosines(dim: int, size: int, noise: NoiseSource) -> Array:
    """<u, z> of uniform u in R^dim and any unit vector z, shape (size,).

    Its density is (1 - c^2)^v with v = (dim - 3)/2. For v > 2: normal numbers c of variance 1/(2 v), whose density is exp(-v c^2), each
    kept with probability exp(-q), q = v (-log(1 - c^2) - c^2) >= 0, about 1 - 3/(4 dim). As q <= b = v c^4/(2 (1 - c^2)) and
    1 - b <= exp(-q), the logarithm is needed for few of them.
    """
    if dim < 8:
        first = noise.gaussian(1.0, size)
        return np.asarray(first / np.sqrt(first * first + chi_square(dim - 1, size, noise)))
    v = (dim - 3) / 2.0
    found = noise.gaussian(1.0 / math.sqrt(2.0 * v), size)
    left: Any = slice(None)
    while True:
        c = found[left]
        square = c * c
        coin = noise.uniform(c.size)
        rest = np.maximum(1.0 - square, 0.0)
        unsure = np.flatnonzero(coin * rest >= rest - (v / 2.0) * (square * square))
        square = square[unsure]
        with np.errstate(invalid="ignore", divide="ignore"):
            kept = (square < 1.0) & (np.log(coin[unsure]) < v * (np.log1p(-square) + square))
        again = unsure[~kept]
        if not again.size:
            return found
        left = again if isinstance(left, slice) else left[again]
        found[left] = noise.gaussian(1.0 / math.sqrt(2.0 * v), left.size)


def lengths_of_sums(lengths: Array, dim: int, noise: NoiseSource) -> Array:
    """The lengths of sums of isotropic vectors of R^dim with these ``lengths`` (vectors, sums): (sums,)."""
    left, used = lengths, 0
    drawn = cosines(dim, lengths.size - lengths.shape[1], noise).reshape(-1, lengths.shape[1])
    while left.shape[0] > 1:
        pairs = left.shape[0] // 2
        a, b = left[:pairs], left[pairs : 2 * pairs]
        c = drawn[used : used + pairs]
        used += pairs
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


def regions(x: Array, chosen: Integers, radius: float) -> Iterator[tuple[Array, Array, Array, Array]]:
    """The ``chosen`` rows, a piece at a time: rows z (m, d), lengths (m,) that make z/length the unit centres, min(1, norm/radius) (m,),
    and the Gram matrices of the whole blocks of z (m // k, k, k).

    Rows that are 0 or not finite have share 0 and a z of zeros. What is yielded is overwritten in the next step.
    """
    dim, k = x.shape[1], block_size(x.shape[1])
    step, tile = piece_rows(dim), max(1, _TILE // (dim * k)) * k
    out = np.empty((min(step, chosen.size), dim))
    products = np.empty((len(out) // k, k, k))
    for start in range(0, chosen.size, step):
        index = chosen[start : start + step]
        z, gram = out[: index.size], products[: index.size // k]
        for at in range(0, index.size, tile):  # a row is multiplied while it is in the cache
            np.take(x, index[at : at + tile], axis=0, out=z[at : at + tile], mode="clip")
            _multiply(z[at : at + tile], gram[at // k :])
        square = np.concatenate([np.einsum("bii->bi", gram).reshape(-1), _squares(z[len(gram) * k :])])
        if ((square > _LOW) & (square < _HIGH)).all():
            norms = np.sqrt(square)
            yield z, norms, np.minimum(norms / radius, 1.0), gram
            continue
        found = lengths(z)
        shares = np.where(found.finite, found.shares(radius), 0.0)
        z[:] = directions(z)[0]
        _multiply(z, gram)
        yield z, np.ones(len(z)), shares, gram


def sum_around(z: Array, norms: Array, t: Array | None, noise: NoiseSource, gram: Array | None = None) -> Array:
    """The sum of t_i c_i + sqrt(1 - t_i^2) h_i, h_i independent and uniform among the unit vectors orthogonal to c_i = z_i/norms_i.

    ``z``: (m, d). ``norms``: (m,), the lengths of the rows with any sign. ``t``: (m,), each in [-1, 1], or None: uniform points of the
    hemispheres of c_i. ``gram``: of the whole blocks of z, where it is known.
    """
    m, dim = z.shape
    if m == 0:
        return np.zeros(dim)
    if dim == 1:
        return np.asarray((np.sign(norms) if t is None else t / norms) @ z)
    k = block_size(dim)
    whole = m // k * k if k > 1 else 0
    total, left = np.zeros(dim), np.arange(whole, m)
    if whole:
        blocks = z[:whole].reshape(-1, k, dim)
        if gram is None:
            gram = np.empty((len(blocks), k, k))
            _multiply(z, gram)
        length, g, weights, dependent = sums_of_blocks(blocks, gram, norms[:whole].reshape(-1, k), _block(t, whole, k), noise)
        total = length @ g + weights.T.reshape(-1) @ z[:whole]
        if dependent.any():
            left = np.concatenate([np.flatnonzero(np.repeat(dependent, k)), left])
    if left.size:
        every = left.size == m
        total = total + _each(z if every else z[left], norms[left], None if t is None else t[left], noise)
    return total


def _block(t: Array | None, whole: int, k: int) -> Array | None:
    return None if t is None else t[:whole].reshape(-1, k)


def _squares(z: Array) -> Array:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.asarray(np.einsum("ij,ij->i", z, z))


def _multiply(z: Array, out: Array) -> None:
    """z_i z_i^T of each whole block z_i (k, d) of the rows ``z``, into the first of ``out``."""
    k = out.shape[1]
    blocks = z[: len(z) // k * k].reshape(-1, k, z.shape[1])
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # such rows are measured again
        np.matmul(blocks, blocks.transpose(0, 2, 1), out=out[: len(blocks)])


def _each(z: Array, norms: Array, t: Array | None, noise: NoiseSource) -> Array:
    """Vector by vector, from d normal numbers each."""
    g = noise.gaussian(1.0, z.shape)
    along = np.einsum("ij,ij->i", g, z) / norms
    if t is None:
        return np.asarray(np.where(along < 0, -1.0, 1.0) / np.sqrt(_squares(g)) @ g)
    g -= (along / norms)[:, None] * z  # subtracted before it is measured: in two dimensions the rest may be short
    factor = np.sqrt(np.maximum(1.0 - t * t, 0.0) / _squares(g))
    return np.asarray(factor @ g + (t / norms) @ z)


def sums_of_blocks(z: Array, gram: Array, norms: Array, t: Array | None, noise: NoiseSource) -> tuple[Array, Array, Array, Any]:
    """The sums of blocks of vectors, with centres ``z``/norms (blocks, k, d): length*g + sum_i weights_i z_i. ``gram``: z z^T of each.

    Returns length (blocks,), g (blocks, d), weights (k, blocks), and which blocks are nearly dependent: those have only zeros.
    """
    blocks, k, dim = z.shape
    inverse = np.ascontiguousarray(1.0 / norms.T)
    product = np.ascontiguousarray(gram.transpose(1, 2, 0))
    product *= inverse
    product *= inverse[:, None]
    factor, dependent = _cholesky(product)
    a = noise.gaussian(1.0, (k, k, blocks))  # (vector, coordinate, block)
    rest = chi_square(dim - k, (k, blocks), noise)
    along = np.einsum("ijb,ijb->ib", a, factor)
    if t is None:
        share = np.where(along < 0, -1.0, 1.0) / np.sqrt(np.einsum("ijb,ijb->ib", a, a) + rest)
        inside = np.einsum("ib,ijb->jb", share, a)
        share = np.abs(share)
    else:
        t = np.ascontiguousarray(t.T)
        a -= along[:, None] * factor  # orthogonal to the centre, in the coordinates of the span
        share = np.sqrt(np.maximum(1.0 - t * t, 0.0) / (np.einsum("ijb,ijb->ib", a, a) + rest))
        inside = np.einsum("ib,ijb->jb", share, a) + np.einsum("ib,ijb->jb", t, factor)
    length = lengths_of_sums(share * np.sqrt(rest), dim - k, noise)
    # a direction of the complement: g minus its part in the span, Q^T Q g with Q = L^-1 Z
    g = noise.gaussian(1.0, (blocks, dim))
    part = _forward(factor, np.ascontiguousarray(np.matmul(z, g[:, :, None])[:, :, 0].T) * inverse)
    outside = _squares(g) - np.einsum("jb,jb->b", part, part)
    length = length / np.sqrt(np.maximum(outside, np.finfo(float).tiny))
    weights = _backward(factor, inside - length * part)
    weights *= inverse
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
