"""What rounding does to a sum of records' contributions, and so to its sensitivity.

Neighbours' sums are rounded differently from the changed record on, so they may be further apart than the two contributions. A sum of m
vectors of length at most a, added in blocks of R rows in any order within a block and block after block, is off by at most
(R + m/R)*u*m*a, u = 2^-53 (Higham 2002, section 4.2; in l2 as in every coordinate, a then bounding each). R lies between ``LEAST`` and
``MOST`` rows for every block size that algorithms here use.
"""

from __future__ import annotations

from typing import Final

LEAST: Final = 64
MOST: Final = 2**18


def rounding(m: float, moved: float, *, hidden: bool = False) -> float:
    """The factor by which a sensitivity of moved*a grows when a sum of ``m`` contributions, each at most a, is computed in doubles.

    ``moved``: by how many lengths a neighbour moves the exact sum (2 where a record is replaced, 1 where it vanishes). ``hidden``: how many
    records there are is private (add-remove), and 8 times the public number are allowed for. 3e-5 above 1 at a million records.
    """
    m = 8 * m if hidden else m
    return 1.0 + 2 / moved * m * (min(m, MOST) + m / LEAST) * 2.0**-53
