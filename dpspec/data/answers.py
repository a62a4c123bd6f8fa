"""The long table of a crowd: one row an answer, columns ``worker``, ``item`` and ``label``, to the wide matrix of workers and tasks.

A worker is a number from 1 to n and a task one from 1 to d, or the place of a word among declared levels; both lists are public, so which
row or column an answer lands in depends on no other answer. A label is a number that is not 0, or a word, whose number is its place among
declared levels, from 1. What no row speaks of is 0: no answer. How many answers there are is not counted anywhere. Of two answers of one
worker to one task the last one in the file counts, so that a cell is always one value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from dpspec.data.problems import fail, problem
from dpspec.spec.diagnostics import Diagnostic, SpecError
from dpspec.spec.model import Encode

#: A spec that lists these columns, in this order, of a question whose entries may be missing, means the long table.
COLUMNS: Final = ("worker", "item", "label")

#: Reads a column as numbers: (name, encoding) to (n,) or None, with what is wrong noted.
Reader = Callable[[str, Encode | None], Any]


def gathered(read: Reader, encodings: Mapping[str, Encode], n: int, d: int, where: str) -> Any:
    """The answers as a CSR matrix, (n, d). Raises SpecError DP508 for a worker or task outside the declared numbers."""
    from scipy.sparse import csr_array

    columns = [read(name, encodings.get(name)) for name in COLUMNS]
    found: list[Diagnostic] = []
    for name, cells, most in zip(COLUMNS, columns, (n, d, None), strict=True):
        if cells is None or most is None:
            continue
        if not ((cells >= 1) & (cells <= most) & (cells == np.floor(cells))).all():
            what = f"column {name!r} of {where} holds something else than whole numbers from 1 to {most:,}"
            found.append(problem("DP508", what, f"number them from 1, declare {name!r} by levels(...), or correct {'nd'[name == 'item']}"))
    if found or any(cells is None for cells in columns):
        raise SpecError(found or [problem("DP505", f"{where}: the answers cannot be read", "numbers, or words with declared levels")])
    rows, items = (cells.astype(np.int64) - 1 for cells in columns[:2])
    labels = np.nan_to_num(columns[2], nan=0.0)
    cell = rows * d + items
    _, last = np.unique(cell[::-1], return_index=True)
    kept = len(cell) - 1 - last
    matrix = csr_array((labels[kept], (rows[kept], items[kept])), shape=(n, d))
    matrix.eliminate_zeros()
    return matrix


def sizes(n: int | None, d: int | None) -> tuple[int, int]:
    if n is None or d is None:
        fail("DP517", "a long table of answers without a declared n or d", "declare the number of workers, n, and of tasks, d")
    return n, d
