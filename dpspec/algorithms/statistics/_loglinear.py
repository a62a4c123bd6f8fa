"""Tables of one distribution over all columns that fit noisy residuals: a log-linear model with a ridge.

    minimise over theta   N log sum_x exp(sum_A theta_A(x_A)) - sum_A <g_A, theta_A> + (lam/2) sum_A s_A |theta_A|^2,

g_A the noisy residuals of :mod:`dpspec.algorithms.statistics._residuals`, s_A their variances, N the number of records, A the sets of at
most k columns. It is convex, and at its minimum the tables of P = N exp(...)/sum exp(...) satisfy r_A(P) = g_A - lam s_A theta_A: the
least sum_A |r_A(P) - g_A|^2/(2 s_A) + lam sum P log P over all P >= 0 with N records. As lam falls to 0 that is the nearest table that some
records could have; larger ones move cells without evidence towards what their margins say.

``lam``, or none of these tables but the nearest ones without a negative cell, is chosen from the noisy residuals alone, by Stein's
unbiased estimate of the squared error of all cells,

    sum_A c_A (|r_A - g_A|^2 - s_A dim_A + 2 s_A div_A),   div_A = sum_i d r_A,i/d g_A,i,

the divergence from one random direction of public coins (Ramani, Blu and Unser 2008). Source of the model: McKenna, Sheldon and Miklau 2019
(maximum entropy from noisy marginals); ridge and its choice are ours. All of it is post-processing of a release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.statistics._residuals import Chosen, Residuals, Workload

Array = NDArray[np.float64]

#: Cells of the table over all columns, at most; beyond it is not built.
CELLS = 2**18
#: The ridges that are tried, while the minimum is found.
RIDGES = (1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 1024)
_ITERATIONS = 200
#: A minimum is found where no slope is above this share of the noise of its residual.
_FLAT = 0.1
#: The step of a derivative, in standard deviations.
_STEP = 0.1


class Model:
    """The tables of a workload as moments of a distribution over all columns."""

    def __init__(self, w: Workload, size: float) -> None:
        self.w, self.size = w, size
        self.all = tuple(range(len(w.sizes)))
        self.parts = [a for a in w.parts if a]
        self.slices: dict[Chosen, slice] = {}
        start = 0
        for a in self.parts:
            self.slices[a] = slice(start, start + math.prod(w.shape(a)))
            start += math.prod(w.shape(a))
        self.length = start

    def joined(self, residuals: Mapping[Chosen, Any]) -> Array:
        return np.concatenate([np.ravel(residuals[a]) for a in self.parts])

    def of_each(self, values: Mapping[Chosen, float]) -> Array:
        return np.concatenate([np.full(math.prod(self.w.shape(a)), values[a]) for a in self.parts])

    def tables(self, theta: Array) -> tuple[dict[Chosen, Array], float]:
        """The tables of the distribution, and the log of its normaliser."""
        log = np.zeros(self.w.sizes)
        for b in self.w.tables:  # one pass over the cells a table: margins join the first table that has them
            one = np.zeros(self.w.shape(b))
            for a in self.parts:
                if set(a) <= set(b) and next(t for t in self.w.tables if set(a) <= set(t)) == b:
                    one += theta[self.slices[a]].reshape(self.w.shape(a))[tuple(slice(None) if j in a else None for j in b)]
            log += one[tuple(slice(None) if j in b else None for j in self.all)]
        top = float(log.max())
        np.exp(log - top, out=log)
        total = float(log.sum())
        log *= self.size / total
        return {b: log.sum(axis=tuple(j for j in self.all if j not in b)) for b in self.w.tables}, top + math.log(total)

    def residuals(self, tables: Mapping[Chosen, Array]) -> Array:
        first = {a: next(b for b in self.w.tables if set(a) <= set(b)) for a in self.parts}
        return self.joined({a: self.w.residual(tables[first[a]], first[a], a) for a in self.parts})

    def fit(self, given: Array, ridge: Array, start: Array, flat: Array) -> tuple[Array, dict[Chosen, Array]] | None:
        """theta and the tables at the minimum; None where the slope does not come below ``flat``."""
        from scipy.optimize import minimize

        def value(theta: Array) -> tuple[float, Array]:
            tables, normaliser = self.tables(theta)
            slope = self.residuals(tables) - given + ridge * theta
            return self.size * normaliser - float(given @ theta) + 0.5 * float(ridge @ (theta * theta)), slope

        found = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS, "maxcor": 30, "gtol": 1e-3})
        theta = np.asarray(found.x)
        return (theta, self.tables(theta)[0]) if bool(np.all(np.abs(found.jac) <= flat)) else None


def fitted(w: Workload, residuals: Residuals, variances: Mapping[Chosen, float], coins: Any) -> dict[Chosen, Array]:
    """Tables that some records could have, close to the noisy ones: see above. ``coins``: the signs of one random direction,
    ``coins.integers(2, size=shape)``."""
    model = Model(w, max(float(residuals[()]), 1.0))
    given, s = model.joined(residuals), model.of_each(variances)
    weights = model.of_each({a: w.copies(a) for a in model.parts})
    signs = {a: np.asarray(coins.integers(2, size=w.shape(a)), dtype=np.float64) * 2 - 1 for a in model.parts}
    for a in model.parts:
        for axis in range(len(a)):
            signs[a] = signs[a] - signs[a].mean(axis=axis, keepdims=True)
    direction, size = model.joined(signs), _STEP * np.sqrt(s)
    aside = size * direction
    free = model.of_each({a: math.prod(n - 1 for n in w.shape(a)) / math.prod(w.shape(a)) for a in model.parts})

    def risk(there: Array, moved: Array) -> float:
        return float(weights @ ((there - given) ** 2 - s * free + 2 * s * (moved - there) * direction / size))

    def nearest(of: Array) -> dict[Chosen, Array]:
        parts = {a: of[model.slices[a]].reshape(w.shape(a)) for a in model.parts}
        return w.not_negative({**residuals, **parts}, variances)

    tables = nearest(given)
    best = risk(model.residuals(tables), model.residuals(nearest(given + aside))), tables
    theta, flat = np.zeros(model.length), _FLAT * np.sqrt(s)
    for lam in RIDGES:
        one = model.fit(given, lam * s, theta, flat)
        other = None if one is None else model.fit(given + aside, lam * s, one[0], flat)
        if one is None or other is None:
            break
        theta, tables = one
        found = risk(model.residuals(tables), model.residuals(other[1]))
        if found < best[0]:
            best = found, tables
    return best[1]
