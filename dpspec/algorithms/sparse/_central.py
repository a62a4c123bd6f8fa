"""What the central sparse algorithms share: batches, clipping without densifying, and peeling.

Peeling reads a vector v of l_inf sensitivity lam. It is planned as its selections and its released entries, and the accountant
calibrates them together; chosen indices are left out of later selections. Batches are consecutive rows, fixed by the row order, so a
record that is replaced (or zeroed) touches one of them; where a record may be added or removed, all later batches shift, and the
algorithms here refuse.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Fault, Problem, Tunable, Tunables
from dpspec.algorithms.estimate import Published
from dpspec.algorithms.objective import margins
from dpspec.algorithms.sets import Vector, shrink
from dpspec.privacy.mechanisms.peeling import peeling
from dpspec.privacy.schedule import Disjoint, Tree

EVIDENCE: Final = "tests/algorithms/sparse/test_peeling.py::"
#: Words of the options of peeling; the first is the default.
PEELING: Final = {"selection": ("gumbel", "laplace"), "entries": ("laplace", "gaussian")}
WEIGHT: Final = Tunable("1/2", "share of the budget for choosing, the rest for the chosen entries", minimum=0.01, maximum=0.99)
#: Steps are computed at points whose entries are at most this many times the sensitivity: beyond, the rounding of w - eta*g would show.
#: Iterates get there only where noise, or n times the sensitivity, is 2^36 of it.
_FARTHEST: Final = 2.0**36

PEELING_FAULTS: Final = (
    Fault(
        "003 Algorithm 4, step 5: argmax over [d]",
        "over [d] without the chosen ones; else the support may be smaller than s",
        EVIDENCE + "test_chosen_indices_are_left_out",
        "utility",
    ),
    Fault(
        "003 Theorems 6 and 8: Peeling is (epsilon, delta)-DP for all epsilon and delta",
        "valid for epsilon <= 1, delta <= 0.9 (and log(1/delta) >= 2.39 epsilon); at epsilon 80, delta 0.05, s = 1000 it has "
        "delta above 0.2",
        EVIDENCE + "test_the_printed_peeling_leaks_more_than_it_states_at_a_large_epsilon",
        "privacy",
    ),
    Fault(
        "003 Algorithm 4: an entry of v may be NaN",
        "argmax over NaN returns its index and discloses the record; records are clipped, and the meter refuses what is not finite",
        "tests/algorithms/test_printed_leaks.py::test_an_entry_that_is_not_a_number_is_always_chosen",
        "privacy",
    ),
)
PUBLIC_FAULT: Final = Fault(
    "003, tuning: eta = 2/(3 gamma), s and T from gamma, mu, s*, M of the data",
    "eigenvalues and sparsity of the sample are private; here every number comes from the spec, none from a record",
    "tests/algorithms/test_printed_leaks.py::test_numbers_of_steps_and_coordinates_from_the_samples_spectrum_differ",
    "privacy",
)


def refusal(p: Problem, t: Tunables) -> str | None:
    if p.neighbours == "add-remove":
        return "a record that is added or removed shifts every later batch (neighbours replace-one or zero-out)"
    if p.n < t.T:
        return f"T = {t.T} batches need at least as many records"
    if t.kept > p.d:
        return f"kept = {t.kept} entries of {p.d} cannot be kept"
    return None


def moved(p: Problem) -> float:
    """How many summands of one record's size a neighbour moves: two when it is replaced, one when it vanishes."""
    return 2.0 if p.neighbours == "replace-one" else 1.0


def batch(p: Problem, t: Tunables) -> int:
    """The least number of records of a batch."""
    return p.n // int(t.T)


def sensitivity(p: Problem, exact: float, count: int, *, terms: int = 0, beside: float = 0.0) -> float:
    """Of (a public vector with entries up to ``beside`` and) a sum over ``count`` records divided by it, as computed: see
    :func:`dpspec.algorithms.sums.sensitivity`."""
    hidden = p.neighbours == "add-remove"
    return sums.sensitivity(exact, count, moved(p), hidden=hidden, terms=terms, beside=beside)


def farthest(exact: float) -> float:
    """The ``beside`` of steps from points in no bounded set, of exact sensitivity ``exact``: 2^-16 of it is what it costs."""
    return _FARTHEST * exact


def near(w: Vector, farthest: float) -> Vector:
    """``w``, which was released, with entries cut at ``farthest``."""
    return np.clip(w, -farthest, farthest)


def schedule(p: Problem, t: Tunables, lam: float) -> Tree:
    """T peelings on disjoint batches."""
    return Disjoint(one(p, t, lam), t.T)


def one(p: Problem, t: Tunables, lam: float) -> Tree:
    weights = (t.selecting, 1 - t.selecting)
    return peeling("peel", lam, p.d, t.kept, selection=t.selection, values=t.entries, weights=weights)


def pieces(x: Any, y: Any, rows: int | None = None) -> Iterator[tuple[Any, Any]]:
    """(x, y) in cache-sized blocks; x dense or CSR, as it came."""
    n, d = x.shape
    step = rows or (sums.block_rows(1 << 18, d) if isinstance(x, np.ndarray) else sums.MOST)
    for start in range(0, n, step):
        yield x[start : start + step], None if y is None else y[start : start + step]


def shrunk(x: Any, tau: float) -> Any:
    """sign(v)*min(|v|, tau) entry by entry, NaN to 0; CSR stays CSR."""
    if isinstance(x, np.ndarray):
        return _finite(shrink(x, tau))
    from scipy.sparse import csr_array

    return csr_array((_finite(shrink(x.data, tau)), x.indices, x.indptr), shape=x.shape)


def _finite(v: Vector) -> Vector:
    """NaN to 0 (of an array that has no infinities); the array itself where there is none."""
    return np.nan_to_num(v) if np.isnan(v.sum()) else v


def least_squares_gradient(x: Any, y: Vector, w: Vector, clip_x: float, clip_y: float, clip_residual: float = math.inf) -> Vector:
    """(1/m) sum x_i(<x_i, w> - y_i) over one batch, coordinates of x clipped at ``clip_x``, y at ``clip_y``, the difference at
    ``clip_residual``."""
    total = sums.Sum(w.size)
    add_least_squares(total, x, y, w, clip_x, clip_y, clip_residual)
    return np.asarray(total.value / x.shape[0])


def add_least_squares(total: sums.Sum, x: Any, y: Vector, w: Vector, clip_x: float, clip_y: float, clip_residual: float) -> None:
    """The same sum, undivided, added to ``total``."""
    for a, b in pieces(x, y):
        c = shrunk(a, clip_x)
        residual = margins(c, w) - _finite(shrink(b, clip_y))
        total.add(c.T @ (residual if clip_residual == math.inf else shrink(residual, clip_residual)))


def noise_of(t: Tunables, calibrated: Any) -> float:
    """Standard deviation of one released entry."""
    return float(calibrated.scale("peel/value")) * (math.sqrt(2.0) if t.entries == "laplace" else 1.0)


def predicted(p: Problem, t: Tunables, calibrated: Any, contraction: float) -> float:
    """l2 error: the start, and per round the kept entries' noise, summed over rounds at the contraction. Entries that the selection loses
    are those below its noise, which is that of the kept entries for an equal share of the budget."""
    each = math.sqrt(t.kept) * noise_of(t, calibrated)
    return float(contraction**t.T + each / (1 - contraction))


def published(p: Problem, t: Tunables, budget: Any, lam: float, source: str) -> tuple[Published, ...]:
    """003, Algorithm 4's one scale B for selections (Laplace report-noisy-max) and values, and what it really spends."""
    if budget.kind != "approx":
        return ()
    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    b = 2 * lam * math.sqrt(3 * t.kept * math.log(1 / delta)) / e
    spent = printed_spend(p.d, t.kept, e, delta)
    remark = "" if e <= 1 and delta <= 0.9 else "proved for epsilon <= 1 only"
    return tuple(
        Published(source, f"peel/{draw}", "2*lam*sqrt(3*kept*log(1/delta))/epsilon", b, spent, remark) for draw in ("select", "value")
    )


def printed_spend(d: int, kept: int, epsilon: float, delta: float) -> float:
    """Epsilon that 003's Algorithm 4 spends at ``delta``, by the accountant of the product (an upper bound)."""
    from fractions import Fraction

    from dpspec.privacy.spent import epsilon_spent

    b = 2 * math.sqrt(3 * kept * math.log(1 / delta)) / epsilon  # for lam = 1
    tree = peeling("peel", 1.0, max(d, kept), kept, selection="laplace", values="laplace")
    return epsilon_spent(tree, {"peel/select": 2 / b, "peel/value": b}, Fraction(delta), "replace-one")
