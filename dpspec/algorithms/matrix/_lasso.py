"""The graphical lasso with a penalised diagonal, solved to a certified accuracy.

    min over Theta > 0 of  -log det Theta + <S, Theta> + rho*sum_ij |Theta_ij|          (000, equation (6.83))

The dual is max log det(S + U) + d over |U_ij| <= rho. Primal and dual points give a gap g, and F is strongly convex on {|Theta|_2 <= b}
with
constant 1/b^2, so |Theta - Theta*|_F <= b*sqrt(2 g) with b bounding both norms (d/rho serves for positive semi-definite S).

Where a guarantee rests on the accuracy, :func:`within` reaches it for every S: the eigenvalues of Theta* lie in a public band [a, b], so
-log may be continued outside it by parabolas of curvature 1/a^2 below and 1/b^2 above without moving the minimiser. Then the smooth part
is 1/a^2-smooth and 1/b^2-strongly convex on all symmetric matrices, nothing has to stay positive definite, and the number of steps of
:mod:`dpspec.algorithms.proximal` is known beforehand. Its rounding (u = 2^-53): an eigendecomposition is that of a matrix at most 8 d u
|Z|_F away (backward stability of LAPACK's symmetric solvers, with room), a product V f V' is off by at most (d + 2) d u max |f|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from dpspec.algorithms.proximal import ERRORS, Course, course, follow
from dpspec.algorithms.sets import Vector, soft_threshold
from dpspec.numeric.norms import length

_U: Final = 2.0**-53


@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """``theta``: (d, d), positive definite, sparse where the penalty makes it so; ``gap``: the certified duality gap; ``steps``."""

    theta: Vector
    gap: float
    steps: int


def graphical_lasso(s: Vector, rho: float, *, gap: float | None = None, steps: int = 20_000) -> Precision:
    """ADMM (Boyd et al. 2011, section 6.5) until the duality gap is at most ``gap`` (1e-7*d unless given).

    ``s``: symmetric positive semi-definite (project it first: on an indefinite S the objective can be unbounded below, and then the
    dual is empty); rho > 0. Returns the best certified point after ``steps`` at the latest, its own gap with it. Raises ValueError
    when no certified point is found.
    """
    if not rho > 0:
        raise ValueError("the penalty must be positive")
    d = len(s)
    goal = 1e-7 * d if gap is None else gap
    z = np.diag(1 / (np.diag(s) + rho))
    w, weight = np.linalg.inv(z) - s, 1.0  # w: weight times the scaled multiplier
    w = np.clip(w, -rho, rho)
    weight = max(float(np.linalg.norm(w)) / max(float(np.linalg.norm(z)), 1e-300), rho / max(float(np.abs(z).max()), 1e-300))
    best, best_gap = z, math.inf
    for step in range(1, steps + 1):
        values, vectors = np.linalg.eigh(weight * z - w - s)
        values = (values + np.sqrt(values**2 + 4 * weight)) / (2 * weight)
        x = (vectors * values) @ vectors.T
        x = (x + x.T) / 2
        previous, z = z, soft_threshold(x + w / weight, rho / weight)
        w = w + weight * (x - z)  # in [-rho, rho] entry by entry: what the soft threshold cut off
        if step <= 10 or step % 5 == 0:
            point, reached = _certified(s, rho, x, z, w)
            if reached < best_gap:
                best, best_gap = point, reached
            if best_gap <= goal:
                return Precision(best, best_gap, step)
        if step <= 500 and step % 10 == 0:
            primal, dual = float(np.linalg.norm(x - z)), weight * float(np.linalg.norm(z - previous))
            scale = max(float(np.linalg.norm(z)), 1e-300), max(float(np.linalg.norm(w)), 1e-300)
            ratio = (primal / scale[0]) / max(dual / scale[1], 1e-300)
            weight *= 2.0 if ratio > 5 else 0.5 if ratio < 0.2 else 1.0
    if not math.isfinite(best_gap):
        raise ValueError("the graphical lasso found no dual point: the matrix is not positive semi-definite")
    return Precision(best, best_gap, steps)


@dataclass(frozen=True, slots=True)
class Band:
    """Where the eigenvalues of Theta* lie for every S with eigenvalues in [0, ``norm``], rho the penalty, and what follows from it."""

    d: int
    rho: float
    norm: float
    high: float

    @property
    def low(self) -> float:
        return 1 / (self.norm + self.rho * self.d)

    def slope(self, s: Vector, z: Vector) -> Vector:
        """The gradient of <S, Z> - log det Z, continued beyond the band; (d, d)."""
        values, vectors = np.linalg.eigh(z)
        inside = np.clip(values, self.low, self.high)
        found = (vectors * ((values - inside) / inside**2 - 1 / inside)) @ vectors.T
        return np.asarray(s + (found + found.T) / 2)

    def rounding(self, size: float) -> float:
        """Of a step from a matrix of Frobenius norm ``size`` or less, as an error of its gradient."""
        steep = size / self.low**2
        pull = 1 / self.low + steep
        data = self.norm + self.rho * self.d
        return _U * ((self.d + 2) * self.d * pull + 8 * self.d * steep + 8 * (2 * steep + pull + data) + 4 * self.d * data)

    def reach(self, tolerance: float) -> tuple[float, Course | None]:
        """The least tolerance, in the Frobenius norm, that is reached for every S, and the steps to ``tolerance`` from low*I. |Theta*|_F
        is at most |Theta*|_1 <= d/rho, and so is its distance from low*I."""
        far, strong = self.d / self.rho, self.high**-2
        longest = 2 * far + tolerance
        least = ERRORS * self.rounding(longest) / strong
        return least, course(self.low**-2, strong, far, tolerance * strong)


def within(s: Vector, band: Band, tolerance: float, steps: int = 5000) -> Vector:
    """A symmetric matrix within ``tolerance`` of Theta* in the Frobenius norm, whatever positive semi-definite S is (eigenvalues up to
    the band's norm).

    ADMM for a start; then steps of the band's course, until the subgradient v at one shows |Theta - Theta*|_F <= high^2 |v|, or to the
    end of the course. Raises ``ValueError`` when doubles are not certain to get there, which plans exclude.
    """
    with np.errstate(all="ignore"):
        least, known = band.reach(tolerance)
        if known is None or not tolerance >= least:
            raise ValueError("the accuracy that the guarantee needs is not certain to be reached")
        steep, strong = band.low**-2, band.high**-2

        def certified(z: Vector, g: Vector, w: Vector) -> float:
            v = length((z - w) * steep - g + band.slope(s, w))
            size = max(length(z), length(w))
            return (v + 2 * band.rounding(size)) / strong

        def prox(v: Vector, step: float) -> Vector:
            return soft_threshold(v, step * band.rho)

        def done(z: Vector, g: Vector, w: Vector) -> bool:
            near = length(z - w) * steep <= 0.5 * tolerance * strong
            return near and certified(z, g, w) <= tolerance

        start = band.low * np.eye(band.d)
        try:
            fine = tolerance / 4 * (band.low / band.high) ** 2  # from there one step's subgradient is short enough
            z = graphical_lasso(s, band.rho, gap=max((fine / band.high) ** 2 / 2, 1e-13 * band.d), steps=steps).theta
            g = band.slope(s, z)
            w = prox(z - g / steep, 1 / steep)
            away = certified(z, g, w)
            if away <= tolerance:
                return w
            if away <= band.d / band.rho:  # the course counts on no more than that
                start = w
        except (ValueError, np.linalg.LinAlgError):
            pass
        return follow(known, lambda v: band.slope(s, v), prox, start, done)


def _certified(s: Vector, rho: float, x: Vector, z: Vector, w: Vector) -> tuple[Vector, float]:
    """The sparse iterate when it is positive definite, else the dense one, and its gap against the dual point S + clip(w)."""
    dual = _logdet(s + np.clip(w, -rho, rho))
    if dual is None:
        return x, math.inf
    found = _logdet(z)
    theta, log = (z, found) if found is not None else (x, _logdet(x))
    if log is None:
        return theta, math.inf
    value = -log + float(np.vdot(s, theta)) + rho * float(np.abs(theta).sum())
    return theta, max(value - dual - len(s), 0.0)


def _logdet(a: Vector) -> float | None:
    """log det of a positive definite matrix, None for another one."""
    try:
        return 2 * float(np.log(np.diag(np.linalg.cholesky(a))).sum())
    except np.linalg.LinAlgError:
        return None
