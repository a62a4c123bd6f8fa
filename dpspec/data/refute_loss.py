"""Tests of assumptions about the mean loss of a law: what a sample of it refutes, as in :mod:`dpspec.data.refute`.

F is the mean over the law of phi(<w, x>, y) + lam/2 |w|^2 and of nothing else: the curvature of an l1 or group term is left out, which only
takes from what is refuted. Weights are chosen on one half of the records among directions that are drawn once and for all, and what is
declared is judged there on the other half, by the mean of a number a record: five standard errors, as for every mean.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from dpspec.data.refute import STANDARD_ERRORS, Array, Unseen, _beyond

#: Directions that weights are sought along, beside the axes.
DIRECTIONS: Final = 12
_SEED: Final = 20_261_129


@dataclass(frozen=True, slots=True)
class Curve:
    """A loss on records x (n, d), y (n,): phi and its slope in the margin (rows of margins and labels), the ridge ``lam``, the law's own
    weights ``star`` where it has them, and the ``radius`` of the set (infinite: all of R^d)."""

    phi: Callable[[Array, Any], Array]
    slope: Callable[[Array, Any], Array]
    x: Array
    y: Any
    lam: float = 0.0
    star: Array | None = None
    radius: float = math.inf

    def halves(self) -> tuple[Curve, Curve]:
        cut = [None if self.y is None else self.y[i::2] for i in (0, 1)]
        return replace(self, x=self.x[0::2], y=cut[0]), replace(self, x=self.x[1::2], y=cut[1])

    def loss(self, w: Array) -> Array:
        return np.asarray(self.phi(self.x @ w, self.y)) + self.lam / 2 * float(w @ w)

    def slope_along(self, w: Array, u: Array) -> Array:
        """<gradient of a record at w, u>, a number a record."""
        return np.asarray(self.slope(self.x @ w, self.y)) * (self.x @ u) + self.lam * float(w @ u)

    def bend(self, v: Array, w: Array) -> Array:
        """l(w) - l(v) - <l'(v), w - v>, a number a record."""
        return self.loss(w) - self.loss(v) - self.slope_along(v, w - v)

    @property
    def reach(self) -> float:
        """How far weights are looked for."""
        return self.radius if math.isfinite(self.radius) else max(1.0, 2 * (0.0 if self.star is None else float(np.linalg.norm(self.star))))

    def points(self, *, sparse: bool = False) -> Iterator[Array]:
        d = self.x.shape[1]
        directions = [sign * np.eye(d)[j] for j in range(min(d, DIRECTIONS)) for sign in (1.0, -1.0)]
        if not sparse:
            drawn = np.random.Generator(np.random.Philox(_SEED)).standard_normal((DIRECTIONS, d))
            directions += list(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
        yield np.zeros(d)
        for u, share in itertools.product(directions, (0.25, 0.99)):
            yield share * self.reach * u
        if self.star is not None and float(np.linalg.norm(self.star)) <= self.radius:
            yield self.star


def _worst(curve: Curve, value: Callable[[Curve, Array, Array], Array], pairs: list[tuple[Array, Array]], what: str) -> str | None:
    """Refuted where the mean of ``value``, which is declared not to be negative, is: at the pair of weights that looks worst."""
    first, second = curve.halves()
    with np.errstate(all="ignore"):
        scores = []
        for v, w in pairs:
            z = value(first, v, w)
            spread = float(z.std())
            scores.append(float(z.mean()) / (spread or 1e-300) if math.isfinite(spread) else math.inf)
        v, w = pairs[int(np.argmin(scores))]
        found = _beyond(value(second, v, w), below=0.0)
    return None if found is None else f"{what} by {-found:.3g} between weights of norm {np.linalg.norm(v):.3g} and {np.linalg.norm(w):.3g}"


def _pairs(curve: Curve, *, sparse: bool = False) -> list[tuple[Array, Array]]:
    points = list(curve.points(sparse=sparse))
    start = points[0]
    return [(start, w) for w in points[1:]] + [(w, start) for w in points[1:]]


def strongly_convex(curve: Curve, m: float = 0.0) -> str | None:
    """F(w) >= F(v) + <grad F(v), w - v> + m/2 |w - v|^2 between any weights"""

    def above(c: Curve, v: Array, w: Array) -> Array:
        return c.bend(v, w) - m / 2 * float((w - v) @ (w - v))

    return _worst(curve, above, _pairs(curve), "the mean loss falls short")


def weakly_convex(curve: Curve, r: float) -> str | None:
    """F + r/2 |w|^2 is convex: the same with m = -r"""
    return strongly_convex(curve, -r)


def smooth(curve: Curve, most: float) -> str | None:
    """F(w) <= F(v) + <grad F(v), w - v> + B/2 |w - v|^2 between any weights"""

    def below(c: Curve, v: Array, w: Array) -> Array:
        return most / 2 * float((w - v) @ (w - v)) - c.bend(v, w)

    return _worst(curve, below, _pairs(curve), "the mean loss bends more,")


def rsc(curve: Curve, m: float) -> str | None:
    """the bound of strong convexity along single coordinates, which are sparse for every k"""

    def above(c: Curve, v: Array, w: Array) -> Array:
        return c.bend(v, w) - m / 2 * float((w - v) @ (w - v))

    return _worst(curve, above, _pairs(curve, sparse=True), "along a coordinate the mean loss falls short")


def restricted_smooth(curve: Curve, most: float) -> str | None:
    """the bound of smoothness along single coordinates"""

    def below(c: Curve, v: Array, w: Array) -> Array:
        return most / 2 * float((w - v) @ (w - v)) - c.bend(v, w)

    return _worst(curve, below, _pairs(curve, sparse=True), "along a coordinate the mean loss bends more,")


def one_point_convex(curve: Curve, a: float, r: float) -> str | None:
    """<grad F(w), w - w*> >= a |w - w*|^2 for w within r of the law's own w*"""
    star = curve.star
    if star is None or not r > 0:
        raise Unseen
    near = [share * r * u / float(np.linalg.norm(u)) for u in curve.points() if np.linalg.norm(u) > 0 for share in (0.25, 0.99)]
    pairs = [(star, star + u) for u in near if float(np.linalg.norm(star + u)) <= curve.radius]

    def above(c: Curve, v: Array, w: Array) -> Array:
        return c.slope_along(w, w - v) - a * float((w - v) @ (w - v))

    if not pairs:
        raise Unseen
    return _worst(curve, above, pairs, "the gradient points away from the law's weights, short")


def pl(curve: Curve, m: float) -> str | None:
    """|grad F(w)|^2 >= 2 m (F(w) - F(v)) for any v, the least value being no more than F(v)"""
    first, second = curve.halves()
    points = list(curve.points())
    with np.errstate(all="ignore"):
        values = [float(first.loss(w).mean()) for w in points]
        low = points[int(np.argmin(values))]

        def gradient(c: Curve, w: Array) -> Array:
            rows: Array = np.asarray(c.slope(c.x @ w, c.y))[:, None] * c.x + c.lam * w
            return rows

        ratios = [
            float(np.linalg.norm(gradient(first, w).mean(axis=0))) ** 2 / max(value - min(values), 1e-300)
            for w, value in zip(points, values, strict=True)
        ]
        w = points[int(np.argmin([ratio if value > min(values) else math.inf for ratio, value in zip(ratios, values, strict=True)]))]
        rows = gradient(second, w)
        n = len(rows)
        # the mean gradient is this far from the law's: its expected length, and five deviations of the worst direction
        room = (math.sqrt(float(rows.var(axis=0).sum())) + STANDARD_ERRORS * math.sqrt(_largest(rows))) / math.sqrt(n)
        longest = float(np.linalg.norm(rows.mean(axis=0))) + room
        gap = second.loss(w) - second.loss(low)
        least = float(gap.mean()) - STANDARD_ERRORS * float(gap.std(ddof=1)) / math.sqrt(n)
    if not (math.isfinite(longest) and longest**2 < 2 * m * least):
        return None
    return f"at weights of norm {np.linalg.norm(w):.3g} the gradient is no longer than {longest:.3g}, {least:.3g} above a smaller risk"


def _largest(rows: Array) -> float:
    return float(np.linalg.eigvalsh(np.atleast_2d(np.cov(rows, rowvar=False)))[-1])


#: Procedures on a loss, by the names of the registry.
ON_LOSS: Final[Mapping[str, Callable[..., str | None]]] = {
    f.__name__: f for f in (strongly_convex, weakly_convex, smooth, rsc, restricted_smooth, one_point_convex, pl)
}
