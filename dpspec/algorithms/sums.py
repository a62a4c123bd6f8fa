"""Sums of records' contributions in doubles: how they are added, and what rounding does to their sensitivity.

Neighbours' sums are rounded differently, so the doubles that the meter gets are further apart than the two contributions. Every central
algorithm adds as this module says, and takes its sensitivity from it.

How it is added. A block holds at most ``MOST`` rows; inside it a BLAS product, a CSR one or a reduction adds in an order of its own. Block
sums are added by :class:`Sum`, with the rounding errors of the additions collected beside them. What is proved, u = 2^-53, for m vectors
c_1, c_2, ... of doubles, each of norm at most a:

1. *A block.* A sum of R products in any order, fused or not, is off by at most g = R*u/(1 - R*u) of the sum of their magnitudes, coordinate
   by coordinate (Higham 2002, section 3.1 and Lemma 3.1), thus in every norm that grows with magnitudes, and over all blocks together, by
   at most g*m*a.
2. *Block after block.* With the errors of k additions collected, the sum of the block sums is off by at most u of itself and (k*u)^2 of
   their magnitudes (Ogita, Rump and Oishi 2005, Proposition 4.5), at most 2u*m*a for k up to 2^26. Nothing grows with k.
3. *Afterwards.* A division by the public n, by a share, a factor sqrt(2) or eta: u of the value each, at most ``AFTER`` with 2 and what
   the first order leaves out. Products that underflow are off by 2^-1074 each, far below u*a for every a of
   :mod:`dpspec.numeric.norms`.

So what is handed over, for a divisor n, is within (R + AFTER)u*m*a/n of (1/n) sum c_i, and neighbours are apart by at most what they move
the exact sum and twice that: :func:`apart` and :func:`rounding`. m = n records under replace-one and zero-out. Under add-remove how
many there are is private and n a public guess, and 8 times as many are counted. Relative to a/n, at R = 2^15: 7.3e-6 at a million records,
7.3e-4 at a hundred million; under add-remove 5.8e-5 and 5.8e-3.

It is not used that a block that neighbours share has the same sum in both runs (threads and alignment may change the order), but that
the c_i are the same doubles in both: that a record's own contribution depends on the record and on released numbers alone.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.sets import Vector

#: Rows of a block are at most this many.
MOST: Final = 2**15
#: Rounding errors after the sum, in u of m*a/n, with room.
AFTER: Final = 32
#: Times the public number of records that may be there when theirs is private.
HIDDEN: Final = 8
_U: Final = 2.0**-53


def block_rows(numbers: int, width: int, least: int = 256) -> int:
    """How many rows of ``width`` numbers make a block of about ``numbers``: at least ``least``, at most MOST."""
    return max(least, min(MOST, numbers // max(width, 1)))


class Sum:
    """A sum of arrays of one shape, the rounding errors of its additions kept beside it (2 of the module's text)."""

    __slots__ = ("_rest", "_total")

    def __init__(self, shape: int | tuple[int, ...]) -> None:
        self._total, self._rest = np.zeros(shape), np.zeros(shape)

    def add(self, part: Any) -> None:
        part = np.asarray(part)
        total = self._total + part
        back = total - self._total
        self._rest += (self._total - (total - back)) + (part - back)
        self._total = total

    @property
    def value(self) -> Vector:
        return np.asarray(self._total + self._rest)


def apart(m: float, a: float, n: float, *, hidden: bool = False, rows: int = MOST) -> float:
    """By how much rounding alone moves (1/n) times a sum of ``m`` contributions of norm at most ``a`` between neighbours: twice
    (R + AFTER)u*m*a/n. ``hidden``: how many records there are is private (add-remove). ``rows``: of a block."""
    m = HIDDEN * m if hidden else m
    return 2 * (min(m, rows) + AFTER) * _U * m * a / n * (1 + 2.0**-30)


def rounding(m: float, moved: float, *, hidden: bool = False, rows: int = MOST) -> float:
    """The factor by which a sensitivity of moved*a/n grows when a sum of ``m`` contributions, each at most a, is computed in doubles.

    ``moved``: by how many lengths a neighbour moves the exact sum (2 where a record is replaced, 1 where it vanishes).
    """
    return 1.0 + apart(m, 1 / moved, 1.0, hidden=hidden, rows=rows)


def sensitivity(
    exact: float, m: float, moved: float, *, hidden: bool = False, rows: int = MOST, terms: int = 0, beside: float = 0.0
) -> float:
    """The sensitivity of what is handed over, rounded up; ``exact`` = moved*a/n is that of real numbers, computed in a few steps.

    ``terms``: a record's contribution is a product of computed numbers, one of them an inner product of so many terms, and so may exceed a
    by (terms + 16)u of it. ``beside``: the value handed over is a public vector of entries (or norm) at most this minus the sum: the
    subtraction rounds by u of the result, that is by u*beside and u*a*m/n (one of AFTER), in both runs.
    """
    own = (terms + 16) * _U
    return math.nextafter((exact * (rounding(m, moved, hidden=hidden, rows=rows) + own) + 2 * _U * beside) * (1 + 2.0**-40), math.inf)
