"""Losses as vectorised functions of the margin and the label."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpspec.symbolic.jets import Outer, jet
from dpspec.symbolic.normal import Poly, text

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MarginLoss:
    """phi(u, y) and its derivatives in u. Arguments broadcast; results are float64 arrays of the broadcast shape.

    At a kink ``derivative`` is the derivative from the left for max(0, z) as a function of z (zero at z = 0) and zero for |z|; both
    are subgradients. ``second`` leaves the kink out. Values that overflow are infinite, without a warning.
    """

    name: str
    form: Poly

    def value(self, u: ArrayLike, y: ArrayLike = 0.0) -> Vector:
        return self._order(u, y, 0)

    def derivative(self, u: ArrayLike, y: ArrayLike = 0.0) -> Vector:
        return self._order(u, y, 1)

    def second(self, u: ArrayLike, y: ArrayLike = 0.0) -> Vector:
        return self._order(u, y, 2)

    def _order(self, u: ArrayLike, y: ArrayLike, order: int) -> Vector:
        a, b = np.asarray(u, dtype=np.float64), np.asarray(y, dtype=np.float64)
        with np.errstate(all="ignore"):
            out = jet(self.form, {"u": a, "y": b}, _ARRAYS, order).d[order]
        return np.asarray(np.broadcast_to(out, np.broadcast_shapes(a.shape, b.shape)), dtype=np.float64)

    def __str__(self) -> str:
        return f"{self.name}: {text(self.form)}"


def expit(z: Vector) -> Vector:
    """1/(1 + exp(-z)) without overflow."""
    e = np.exp(-np.abs(z))
    out: Vector = np.where(z >= 0, 1.0, e) / (1.0 + e)
    return out


class _Arrays:
    """The array algebra of :mod:`dpspec.symbolic.jets`. Signs and flags matter only to enclosures and are left out."""

    def number(self, value: Fraction) -> float:
        return float(value)

    def pi(self) -> float:
        return math.pi

    def sign(self, value: Any) -> int:
        return 2

    def square(self, value: Any) -> Any:
        return value * value

    def power(self, z: Any, exponent: Fraction) -> Outer:
        e = float(exponent)
        if exponent.denominator == 1 and exponent >= 0:
            k = int(exponent)
            g = [math.prod(range(k - i + 1, k + 1)) * z ** (k - i) if k >= i else z * 0.0 for i in range(4)]
            return Outer((g[0], g[1], g[2], g[3]))
        base = np.sqrt(z) if exponent == Fraction(1, 2) else z**e
        return Outer((base, e * base / z, e * (e - 1) * base / z**2, e * (e - 1) * (e - 2) * base / z**3))

    def unary(self, name: str, params: tuple[Fraction, ...], z: Any) -> Outer:
        return Outer(_unary(name, params, z))


def _unary(name: str, params: tuple[Fraction, ...], z: Any) -> tuple[Any, Any, Any, Any]:
    zero = z * 0.0
    if name == "softplus":
        s = expit(z)
        return np.logaddexp(0.0, z), s, s * expit(-z), zero
    if name == "expit":
        s = expit(z)
        p = s * expit(-z)
        return s, p, -p * np.tanh(z / 2), p * (1 - 6 * p)
    if name == "exp":
        e = np.exp(z)
        return e, e, e, e
    if name == "log":
        return np.log(z), 1 / z, -1 / z**2, 2 / z**3
    if name in ("pos", "abs"):
        k = int(params[0]) if params else 1
        side = (z > 0) * 1.0 if name == "pos" else np.sign(z)
        m = np.maximum(z, 0.0) if name == "pos" else np.abs(z)
        g = [
            math.prod(range(k - i + 1, k + 1)) * m ** (k - i) if k > i else (math.factorial(k) + zero if k == i else zero) for i in range(4)
        ]
        if name == "pos":
            return g[0], g[1] * side, g[2] * side, g[3] * side
        return g[0], g[1] * side, g[2], g[3] * side
    if name == "huber":
        c = float(params[0])
        m = np.minimum(np.abs(z), c)
        return m * (np.abs(z) - m / 2), np.clip(z, -c, c), (np.abs(z) <= c) * 1.0, zero
    if name == "biweight":
        c = float(params[0])
        q2 = np.minimum((z / c) ** 2, 1.0)
        r = 1 - q2
        return c * c / 6 * (1 - r**3), z * r**2, r * (1 - 5 * q2), zero
    if name == "tanh":
        t = np.tanh(z)
        s = 1 - t * t
        return t, s, -2 * t * s, s * (6 * t * t - 2)
    if name in ("sin", "cos"):
        s, c = np.sin(z), np.cos(z)
        return (s, c, -s, -c) if name == "sin" else (c, -s, -c, s)
    if name in ("erf", "erfc"):
        from scipy import special

        g1 = 2 / math.sqrt(math.pi) * np.exp(-z * z)
        sign = 1.0 if name == "erf" else -1.0
        return getattr(special, name)(z), sign * g1, sign * -2 * z * g1, sign * (4 * z * z - 2) * g1
    raise TypeError(f"unknown function {name}")


_ARRAYS = _Arrays()
