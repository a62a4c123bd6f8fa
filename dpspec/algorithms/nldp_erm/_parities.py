"""One parity a user: the statistics that answers to marginals are made of, in the local model.

z = 1 or -1 is the upper or lower value of an attribute, chi_S the product of z_j over j in S. The N = sum_{1 <= s <= t} C(d, s) sets S of
at most t attributes are dealt to the n users as evenly as n allows by a public random permutation, before any record is read; user i sends
one bit: chi of its set by randomised response, +-B with B = coth(epsilon/2), so E R = chi. The mean over the m >= floor(n/N) users of a set
estimates the parity of all records.

The cell of k attributes in which z = s has, with weights w_0, ..., w_t of its indicator's polynomial,

    answer(K, s) = w_0 + sum_{S in K, 1 <= |S| <= t} w_|S| s_S chi_S,        exact for t = k with all w = 2^-k.

*Derived*: the error against the answers of the polynomial on the same records is a sum of c_l f_l(x_pi(l)) over the slots l of a uniform
permutation pi, c_l = w/m, plus the independent noise of the bits. Let the slots go by falling |c_l|. Whoever takes slot l, the sum's
conditional mean has a range of at most 2|c_l| + 2 (mean of |c| over the later slots) <= 2 (1 + q)|c_l|, by swapping two users, with q the
share of users whose set lies in K; the noise of a bit has range 2 B. So by Hoeffding's lemma the error is sub-Gaussian with the variance
proxy (B^2 + (1 + q)^2) W/floor(n/N), W = sum_s C(k, s) w_s^2, whatever the records are.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.sets import Vector
from dpspec.models.door import PublicCoins
from dpspec.models.rows import Rows

_BLOCK: Final = 1 << 15

Integers = NDArray[np.int64]


def sets(d: int, k: int) -> NDArray[np.int64]:
    """All k of d attributes in lexicographic order, (C(d, k), k)."""
    flat = np.fromiter(itertools.chain.from_iterable(itertools.combinations(range(d), k)), dtype=np.int64, count=k * math.comb(d, k))
    return flat.reshape(-1, k)


def number(d: int, t: int) -> int:
    """N, how many sets of 1 to t of d attributes there are."""
    return sum(math.comb(d, s) for s in range(1, t + 1))


def starts(d: int, t: int) -> list[int]:
    """The number of the first set of each size 0, 1, ..., t (size 0 has none)."""
    return [0, *(number(d, s - 1) for s in range(1, t + 1))]


def ranks(chosen: Integers) -> Integers:
    """The place of each row (increasing numbers) among the sets of its size, in colexicographic order: sum_i C(c_i, i)."""
    out = np.zeros(len(chosen), dtype=np.int64)
    for i in range(chosen.shape[1]):
        most = int(chosen[:, i].max(initial=0)) + 1
        out += np.array([math.comb(c, i + 1) for c in range(most)], dtype=np.int64)[chosen[:, i]]
    return out


def table(d: int, t: int) -> Integers:
    """Every set, (N, t), by size and colexicographic rank, filled up with the number d."""
    out = np.full((number(d, t), t), d, dtype=np.int64)
    for s, start in enumerate(starts(d, t)):
        if s:
            chosen = sets(d, s)
            out[start + ranks(chosen), :s] = chosen
    return out


def dealt(n: int, parts: int, coins: PublicCoins) -> Integers:
    """Which of ``parts`` questions each of n users answers: each question has floor(n/parts) users or one more."""
    return np.asarray(coins.permutation(n) % parts, dtype=np.int64)


def signs(x: Any, cut: float) -> Vector:
    """1 or -1 for every attribute, and a last column of ones; an entry that is no number is -1."""
    rows = x if isinstance(x, np.ndarray) else x.toarray()
    return np.concatenate([np.where(rows > cut, 1.0, -1.0), np.ones((rows.shape[0], 1))], axis=1)


def parities(records: Rows, asked: Integers, which: Integers, cut: float) -> Vector:
    """chi of each user's own set, (n, 1): what its client randomises."""
    out, start = np.empty((len(which), 1)), 0
    for x, _ in records.blocks(_BLOCK):
        z = signs(x, cut)
        mine = asked[which[start : start + len(z)]]
        out[start : start + len(z), 0] = np.take_along_axis(z, mine, axis=1).prod(axis=1)
        start += len(z)
    return out


def unasked(n: int, parts: int) -> list[str]:
    """What the author is told where there are more questions than users."""
    if n >= parts:
        return []
    return [f"{parts} statistics are asked of n = {n} users, one each: those of nobody are uniform, and no bound holds below n = {parts}"]


def means(reports: Vector, which: Integers, parts: int) -> Vector:
    """The mean report of each question, 0 where nobody answers it."""
    total = np.bincount(which, weights=reports.reshape(-1), minlength=parts)
    return np.asarray(total / np.maximum(np.bincount(which, minlength=parts), 1))


def cells(found: Vector, d: int, k: int, weights: Vector) -> Vector:
    """The answers (C(d, k), 2^k) from the parities, shape (N,), of sets of 1 to len(weights) - 1 attributes."""
    every, t = sets(d, k), len(weights) - 1
    first = starts(d, t)
    out = np.zeros((len(every), 1 << k))
    out[:, 0] = weights[0]
    for mask in range(1, 1 << k):
        inside = [j for j in range(k) if mask >> (k - 1 - j) & 1]
        if len(inside) <= t:
            out[:, mask] = weights[len(inside)] * found[first[len(inside)] + ranks(every[:, inside])]
    return hadamard(out)[:, ::-1]


def hadamard(a: Vector) -> Vector:
    """Rows times the matrix (-1)^popcount(u & v): a cell's sign of an attribute is -1 where its bit is 0, so cells come reversed."""
    out, half = a.copy(), 1
    while half < a.shape[1]:
        pairs = out.reshape(len(a), -1, 2, half)
        out = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(a.shape)
        half *= 2
    return out


def energy(k: int, weights: Vector) -> float:
    """W: the sum of the squared weights of an answer, the constant left out."""
    return float(sum(math.comb(k, s) * w * w for s, w in enumerate(weights) if s))


def proxy(n: int, d: int, k: int, weights: Vector, scale: float) -> float:
    """The variance proxy of an answer's error, above."""
    parts, t = number(d, len(weights) - 1), len(weights) - 1
    share = min(1.0, number(k, t) * -(-n // parts) / n)
    return (scale * scale + (1 + share) ** 2) * energy(k, weights) / (n // parts)


def spread(n: int, d: int, k: int, weights: Vector, scale: float) -> float:
    """The standard deviation of an answer, about: for predictions."""
    return scale * math.sqrt(energy(k, weights) * number(d, len(weights) - 1) / n)
