"""The length of a weight vector whose direction is known: a root on public records.

v is a direction that was released, u_j = <x_j, v> over m public records, f the mean function of y (the derivative of a cumulant, or a known
link). The weights are c*v with c the root of one of

    score:   mean(u (f(c u) - f(0))) = mean(u^2)          Stein, as printed:   c*mean(f'(c u)) = 1.

If v = A^{-1} E x y with A = E x x^T and E x = 0, then <v, A v> = E u y: the score equation says that the fit of c*v has no gradient along
v, so it is right for every law of x whose direction is right. Where f increases so does its left side, and the root is unique. Stein's form
is the same for Gaussian x; for others it errs by a share that no number of records removes, and it may have several roots.

In place of mean(u^2) a caller may state what it knows of E u y, with the noise of v taken off. Nothing here sees a private record. The
search starts from no statistic of labels: c runs up a geometric grid, the first crossing from below is bracketed and closed by Brent's
method. Without a crossing the largest value is refined, for a root between two points of the grid; if there is none the maximiser is
returned with ``found`` false. Newton's iteration, as printed, is not used: it depends on its start where the function is not monotone,
and diverges where there is no root.

Source: 000, section 5.2.3, Algorithm 5.2.39, steps 7 to 10, Algorithm 5.2.40, steps 6 to 9, Lemmas 5.2.11 to 5.2.13.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Source
from dpspec.algorithms.sets import Vector

_EVIDENCE = "tests/algorithms/public_data/test_newton_scale_root.py::"

CARD = Card(
    id="newton-scale-root",
    title="Length of a weight vector from public records",
    family="public_data",
    task="primitive",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("000", "5.2.3, 5.2.4", "Algorithms 5.2.39, 5.2.40", ("Lemma 5.2.11", "Lemma 5.2.12", "Lemma 5.2.13")),),
    summary="The least c > 0 with mean(u (f(c u) - f(0))) = mean(u^2), or c*mean(f'(c u)) = 1, bracketed, then by Brent's method.",
    needs=(
        Need("public", "utility", "the records are public, and of the law of the private ones"),
        Need("root", "utility", "the equation exceeds its right side somewhere"),
    ),
    bounds=(
        Bound(
            "error of the scale",
            "order",
            "upper",
            "C*cbar^2*G*|x|^2*|dv|/M + C*L*G*|v|*sqrt(d/m)/M",
            "claimed",
            "000 Lemma 5.2.12 (5.50), its private term by |dv|, the error of the direction",
            probability="1 - 4*exp(-d)",
            conditions="|f'| <= L, f' G-Lipschitz, the derivative of the equation at least M up to the root",
            where={
                "cbar": "the root",
                "G": "Lipschitz constant of f'",
                "M": "least derivative of the equation",
                "L": "bound of f'",
                "v": "the direction",
                "dv": "its private error",
                "x": "a record, |x| its length",
            },
        ),
    ),
    faults=(
        Fault(
            "000 Algorithms 5.2.39 and 5.2.40: Newton from an initial value that is not given",
            "the usual start, 2/Var(y), is a statistic of private labels; a grid from a constant needs none",
            "tests/algorithms/test_printed_leaks.py::test_a_start_from_the_labels_variance_differs_and_stays",
            "privacy",
        ),
        Fault(
            "000 steps 7 to 10: there is a root and Newton finds it",
            "of the logistic model c*f'(c u) <= 0.2239/|u|: no root for large |u|, and Newton then leaves every bound",
            _EVIDENCE + "test_without_a_root_newton_diverges_and_the_search_returns_the_maximiser",
            "utility",
        ),
        Fault(
            "000 Lemma 5.2.11: the root is the scale of the model for sub-Gaussian x",
            "for Gaussian x; on the sphere of 8 dimensions Stein's root is off by a few percent for any m, the score's is not",
            _EVIDENCE + "test_the_score_is_exact_on_a_sphere_where_stein_is_not",
            "utility",
        ),
        Fault("000 Lemma 5.2.11, part 1: f(cbar) = 0", "the intermediate value theorem gives 1", "docs/faults.md#value-of-a-root", "text"),
        Fault("000 steps 7 to 9: sums over m + 1 rows divided by m", "m public rows", "docs/faults.md#number-of-public-rows", "text"),
    ),
    role="primitive",
)

Function = Callable[[Vector], Vector]

#: The grid of c: every half octave, wide enough for predictions u of any usual size.
LOWEST: Final = 2.0**-20
STEPS: Final = 81
HIGHEST: Final = 2.0**20


@dataclass(frozen=True, slots=True)
class Scale:
    """``c``; ``found``: whether it solves the equation, else it is where the left side comes closest; ``value``: left over right side."""

    c: float
    found: bool
    value: float


def score(u: Vector, f: Function, energy: float | None = None) -> Function:
    """c -> mean(u (f(c u) - f(0)))/energy, shape (k,) to (k,), for public predictions u, shape (m,). ``energy``: what is known of E u y,
    mean(u^2) where v solves A v = E x y exactly and nothing is given."""
    with np.errstate(all="ignore"):
        f0 = f(np.zeros(1))[0]
        energy = float(_along(u, u[None, :])[0]) if energy is None else energy

    def left(c: Vector) -> Vector:
        if not 0.0 < energy < math.inf:
            return np.full_like(c, math.nan)
        with np.errstate(all="ignore"):
            return np.asarray(_along(u, f(np.multiply.outer(c, u)) - f0) / energy)

    return left


def _along(u: Vector, values: Vector) -> Vector:
    """mean(u v) for each row v, shape (k, m) to (k,)."""
    return np.asarray(values @ u / u.size)


def stein(u: Vector, slope: Function) -> Function:
    """c -> c*mean(f'(c u)), shape (k,) to (k,), for public predictions u, shape (m,)."""

    def left(c: Vector) -> Vector:
        with np.errstate(all="ignore"):
            return np.asarray(c * slope(np.multiply.outer(c, u)).mean(axis=1))

    return left


def points() -> Vector:
    """The grid of c, (STEPS,)."""
    return np.asarray(LOWEST * np.sqrt(2.0) ** np.arange(STEPS))


def solve(left: Function, together: int = 1) -> Scale:
    """The first c on the way up from :data:`LOWEST` with ``left(c) = 1``; ``left`` takes and gives arrays, ``together`` points of the grid
    at a time. Never raises, whatever it gives: a value that is not a number ends the search."""
    from scipy.optimize import brentq

    grid = points()
    seen: list[tuple[float, float]] = []
    for start in range(0, STEPS, together):
        some = grid[start : start + together]
        values = left(some)
        ends = np.flatnonzero(~(values < 1.0))  # a root before it, or no number
        last = int(ends[0]) if ends.size else len(some) - 1
        seen += [(float(c), float(v)) for c, v in zip(some[: last + 1], values, strict=False) if not math.isnan(v)]
        if ends.size:
            break
    if not seen:
        return Scale(LOWEST, False, math.nan)
    if seen[-1][1] < 1.0:
        seen = sorted([*seen, _refined(left, seen)])
    upper = next((i for i, (_, value) in enumerate(seen) if value >= 1.0), None)
    if upper is None or upper == 0:
        c, value = max(seen, key=lambda point: point[1]) if upper is None else seen[0]
        return Scale(c, False, value)
    low, high = seen[upper - 1][0], seen[upper][0]

    def gap(point: float) -> float:
        return min(_at(left, point), 1e300) - 1.0

    root = float(brentq(gap, low, high, xtol=1e-12 * low, rtol=1e-12, maxiter=200, disp=False))
    return Scale(root, True, _at(left, root))


def _at(left: Function, c: float) -> float:
    return float(left(np.array([c]))[0])


def _refined(left: Function, seen: list[tuple[float, float]]) -> tuple[float, float]:
    """The maximum between the neighbours of the largest point of the grid, by grids of 17 points around the best of the last; that point
    where it is an end."""
    i = max(range(len(seen)), key=lambda k: seen[k][1])
    if i in (0, len(seen) - 1):
        return seen[i]
    low, high, best = seen[i - 1][0], seen[i + 1][0], seen[i]
    for _ in range(5):
        points = np.linspace(low, high, 17)
        values = np.nan_to_num(left(points), nan=-math.inf)
        k = int(np.argmax(values))
        best = max(best, (float(points[k]), float(values[k])), key=lambda point: point[1])
        low, high = float(points[max(k - 1, 0)]), float(points[min(k + 1, 16)])
    return best
