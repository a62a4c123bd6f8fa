"""Linear regression from noisy moments, with a ridge that the noise chooses (central model).

Of z = (x, s y), s = r/b for |x|_2 <= r and |y| <= b, the noisy second moment is released in one draw; its blocks are A = E x x^T, s E x y
and s^2 E y^2. Then theta = (A + lambda I)^{-1} E x y, and 0 is among the candidates.

Sensitivity: |z|^2 <= r^2 + s^2 b^2 = 2 r^2, so sqrt(2) 2 r^2/n where a record is replaced, 2 r^2/n where it is there or not; how many
records there are cancels in theta.

lambda. With noise e of E x y and E of A, the excess of theta is computed with A~, b~ in the place of A, b as theta^T A~ theta - 2 b~^T
theta, which the noise makes too small by 2 <e - E theta, theta>; its mean is 2 tau^2 tr (A~ + lambda I)^{-1} to first order, tau^2 the
variance of an entry of e - E theta. The lambda of a public grid with the least corrected excess is taken, and theta = 0 where
half as much again leaves no gain or E x y is no longer than its noise is in one case of 50: where noise hides the signal the answer is
hardly ever worse than 0. (Stein 1981; AdaSSP, Wang 2018, pays a third of its budget for one eigenvalue to choose lambda; here the same
draw tells.)

Source: Wang 2018 (sufficient statistics perturbation); the choice of lambda is derived here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Card, Need, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.sets import constraint_set
from dpspec.algorithms.statistics import _symmetric as symmetric
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Draw, Tree

#: The probability at which noise alone would make E x y as long as it came out, above which the answer is 0.
UNLIKELY = 0.02

CARD = Card(
    id="dp-least-squares",
    title="Least squares from one noisy moment matrix",
    family="statistics",
    task="estimate-theta",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("literature", "Wang 2018", "AdaSSP"),),
    summary="All moments of (x, y) in one draw of symmetric noise, and a ridge of least estimated excess: 0 where noise hides the signal.",
    needs=(Need("x", "privacy", "|x|_2 <= r for every record"), Need("y", "privacy", "|y| <= b for every record")),
    no_bound="the spectrum of E x x^T decides the error; every release states its standard errors",
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "64*(d + 1)^2 + 8*1024*d"},
    reads="sums",
    spread=True,
    spec="specs/statistics/dp-least-squares.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.form != "linear":
        return "it solves linear least squares"
    if p.d > symmetric.LARGEST:
        return f"it keeps dense {p.d} x {p.d} matrices; d is at most {symmetric.LARGEST}"
    if "x_l2" not in p.facts:
        return "the enforced domain of x bounds no l2 norm (x in ball(l2, 1) by scale)"
    if "labels-only" in p.modifiers or "attribute" in p.modifiers:
        return "its noise protects whole records"
    return None


def weight(p: Problem) -> float:
    """s, which makes s |y| as long as |x| may be."""
    return p.facts["x_l2"] / max(p.facts["y_abs"], 1e-150)


def mechanism(p: Problem) -> symmetric.Mechanism:
    return symmetric.mechanism(p, p.d + 1, math.sqrt(2) * p.facts["x_l2"] * (1 + 2.0**-50))


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("moment", mechanism(p))


def augmented(x: symmetric.Matrix, y: Any, s: float, longest: float) -> symmetric.Matrix:
    return np.hstack([x, np.clip(s * np.asarray(y, dtype=np.float64), -longest, longest)[:, None]])


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    s, planned, longest = weight(p), mechanism(p), p.facts["x_l2"]
    value = symmetric.moment(records, lambda x, y: augmented(x, y, s, longest), p.d + 1, p.n)
    drawn = release.draw("moment", value, sensitivity=planned.sensitivity)
    on, off, reach = symmetric.spread(planned, release.scale("moment"))
    unit = p.facts["x_l2"] ** 2  # all of it in units of a record's largest moment
    theta, error = solved((drawn[:-1, :-1] + drawn[:-1, :-1].T) / 2 / unit, drawn[:-1, -1] / unit, on / unit, off / unit)
    theta, error = theta / s, error / s
    found = constraint_set(p.task.over, p.facts).project(theta)
    extras = {"standard_error": error, "low": theta - reach * error, "high": theta + reach * error}
    return Estimate(found, {**extras, "moment": np.asarray((drawn + drawn.T) / 2)})


def solved(a: symmetric.Matrix, b: Any, on: float, off: float) -> tuple[Any, Any]:
    """(theta, standard errors of the noise to first order), in units of s y; ``on`` and ``off``: standard deviations of an entry of
    the noise."""
    from scipy.special import chdtri

    values, vectors = np.linalg.eigh(a)
    values, turned = np.maximum(values, 0.0), vectors.T @ np.asarray(b)
    best, chosen, excess, sure = np.zeros(len(turned)), math.inf, 0.0, True
    for ridge in off * math.sqrt(len(turned)) * 2.0 ** np.arange(-6, 13):
        theta = turned / (values + ridge)
        room = off**2 * (1 + float(theta @ theta)) * float(np.sum(1 / (values + ridge)))
        found = float(theta**2 @ values - 2 * turned @ theta) + 2 * room
        if found < excess:
            best, chosen, excess, sure = theta, float(ridge), found, found + room < 0
    if not sure or float(turned @ turned) <= off**2 * float(chdtri(len(turned), UNLIKELY)):
        best, chosen = np.zeros(len(turned)), math.inf
    theta = vectors @ best
    inverse = (vectors / (values + chosen)) @ vectors.T if math.isfinite(chosen) else np.zeros((len(best), len(best)))
    moved = off**2 * (1 + float(best @ best)) + (on**2 - off**2) * theta**2
    return theta, np.sqrt(np.maximum((inverse**2) @ moved, 0.0))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error: the noise through a second moment of r^2/d I, at most that of 0."""
    _, off, _ = symmetric.spread(mechanism(p), calibrated.scale("moment"))
    least = p.facts.get("eig_min", p.facts["x_l2"] ** 2 / p.d)
    return min(math.sqrt(2 * p.d) * off / least / weight(p), p.facts["y_abs"] / p.facts["x_l2"] * math.sqrt(p.d))
