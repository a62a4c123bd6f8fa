"""Which records of one unit count, where a unit has several: so many rows at most, and so many groups of a `group by`.

Both are drawn for each unit on its own, from tickets that look at no other unit's records. So for neighbours, which differ in all records
of one unit, the choices for all others have the same law, and can be taken to be the same ones: what is handed on differs in the chosen
records of that unit alone, at most so many rows in at most so many groups. A mechanism that bounds what these move is as private over the
random choice, since no divergence of a mixture exceeds the largest of its parts'.

A record without an identifier is of nobody, and does not count. In a release tickets come from the cryptographic source.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpspec.privacy.noise import NoiseSource

Codes = NDArray[np.int64]
_TICKETS: Final = 2**62


def _first(owner: Codes, most: int, noise: NoiseSource) -> Codes:
    """Of the entries with one owner, ``most`` at random: their places, rising."""
    tickets = np.asarray(noise.integers(_TICKETS, owner.size), dtype=np.int64)
    order = np.lexsort((tickets, owner))
    sorted_ = owner[order]
    starts = np.flatnonzero(np.r_[True, sorted_[1:] != sorted_[:-1]]) if owner.size else np.empty(0, dtype=np.int64)
    rank = np.arange(owner.size) - np.repeat(starts, np.diff(np.r_[starts, owner.size]))
    return np.sort(order[rank < most])


def rows(units: Codes, most: int, noise: NoiseSource) -> Codes:
    """The places of the records that count, in their order: at most ``most`` of each unit, none of nobody (-1)."""
    there = np.flatnonzero(units >= 0)
    return np.asarray(there[_first(units[there], most, noise)], dtype=np.int64)


def groups(units: Codes, keys: Codes, most: int, noise: NoiseSource) -> Codes:
    """The same of the records in at most ``most`` groups of each unit, each group alike however many records it has; a record without a
    key (-1) is in none."""
    there = np.flatnonzero((units >= 0) & (keys >= 0))
    many = int(keys.max(initial=0)) + 1
    pairs, at = np.unique(units[there] * many + keys[there], return_inverse=True)
    kept = np.zeros(len(pairs), dtype=bool)
    kept[_first(pairs // many, most, noise)] = True
    return np.asarray(there[kept[np.ravel(at)]], dtype=np.int64)
