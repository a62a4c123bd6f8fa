"""Losses as vectorised functions of the margin and the label."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpspec.numeric.slopes import SLOPES, bump
from dpspec.numeric.slopes import expit as expit
from dpspec.spec.expr import Expr
from dpspec.symbolic import softmax
from dpspec.symbolic.certificate import Certificate
from dpspec.symbolic.jets import Outer, jet
from dpspec.symbolic.losses import drop_free, recognise
from dpspec.symbolic.normal import NoNormalForm, Poly, Scope, normal_form, text
from dpspec.symbolic.parts import split
from dpspec.symbolic.stable import stable

Vector: TypeAlias = NDArray[np.float64]
_LARGEST = float(np.finfo(np.float64).max)
#: A function of u and y, elementwise.
Direct: TypeAlias = Callable[[Vector, Vector], Vector]


@dataclass(frozen=True, slots=True)
class MarginLoss:
    """phi(u, y) and its derivatives in u. Arguments broadcast; results are float64 arrays of the broadcast shape.

    At a kink ``derivative`` is a subgradient (for max(0, z) the one from the left, zero at z = 0; for |z| zero), and ``second`` leaves
    the kink out. Values that overflow are infinite, without a warning. Pairwise losses with two labels take the second as ``y2``.

    What is evaluated is a direct formula, or the form of :mod:`dpspec.symbolic.stable`. Neither is the real function: where terms cancel or
    overflow, results may be off by more than the function itself, or no number at all. With ``limit`` and ``curve``, certified bounds of
    the first and the second derivative, the results keep to them (:func:`bounded`); how far they may be from the real ones is said by
    :func:`dpspec.symbolic.running.slope_error`.
    """

    name: str
    form: Poly
    limit: float = math.inf
    curve: float = math.inf
    #: The direct formulas of the value and the derivatives, None where there is none: looked up once, called once a block of records.
    direct: tuple[Direct | None, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "direct", tuple(_short(self.form, order) for order in range(3)))

    def value(self, u: ArrayLike, y: ArrayLike = 0.0, y2: ArrayLike = 0.0) -> Vector:
        return self._order(u, y, y2, 0)

    def derivative(self, u: ArrayLike, y: ArrayLike = 0.0, y2: ArrayLike = 0.0) -> Vector:
        return self._order(u, y, y2, 1) if self.limit == math.inf else bounded(self._order(u, y, y2, 1), self.limit)

    def second(self, u: ArrayLike, y: ArrayLike = 0.0, y2: ArrayLike = 0.0) -> Vector:
        return self._order(u, y, y2, 2) if self.curve == math.inf else bounded(self._order(u, y, y2, 2), self.curve)

    def _order(self, u: ArrayLike, y: ArrayLike, y2: ArrayLike, order: int) -> Vector:
        a, b, c = (np.asarray(v, dtype=np.float64) for v in (u, y, y2))
        shape = a.shape if a.shape == b.shape and not c.shape else np.broadcast_shapes(a.shape, b.shape, c.shape)
        short = self.direct[order]
        with np.errstate(all="ignore"):
            out = short(a, b) if short else self._general(a, b, c, order)
        return out if out.shape == shape else np.array(np.broadcast_to(out, shape))

    def _general(self, u: Vector, y: Vector, y2: Vector, order: int) -> Vector:
        written = stable(self.form, order)
        env = {"u": u - y} if written.residual else {"u": u, "y": y, "y1": y, "y2": y2}
        out: Vector = jet(written.form, env, _ARRAYS, order).d[order]
        return out

    def __str__(self) -> str:
        return f"{self.name}: {text(self.form)}"


def bounded(v: Vector, cap: float) -> Vector:
    """The entries in [-cap, cap]: one beyond goes to the end, one that is not finite to 0, each by itself. ``v`` where nothing changes."""
    cap = min(cap, _LARGEST)
    if v.size == 0 or (v.min() >= -cap and v.max() <= cap):  # a NaN fails both
        return v
    return np.clip(np.where(np.isfinite(v), v, 0.0), -cap, cap)


def margin_functions(loss: Expr, names: Mapping[str, Fraction | int | float] | None = None) -> MarginLoss:
    """The data part of a loss in w, x, y as vectorised functions, the regulariser left out. Raises
    :class:`dpspec.symbolic.normal.NoNormalForm` when it is no function of the margin and the label."""
    form = split(normal_form(loss, Scope(names or {}))).data
    if softmax.recognise(form) is not None:
        raise NoNormalForm("multinomial(K) has one margin a class")
    named = recognise(form)
    return MarginLoss("expression" if named is None else named.name, form)


def margin_loss(certificate: Certificate) -> MarginLoss:
    """The certified data part as vectorised functions, whose derivatives keep to ``slope`` and ``curve`` of the certificate whatever
    doubles make of the expression. Raises ValueError when the loss has no normal form."""
    if certificate.form is None:
        raise ValueError(f"the loss {certificate.name} has no normal form")
    return MarginLoss(certificate.name, certificate.form, certificate.slope, certificate.curve)


#: f'' of the named losses in their own argument, as f' in :mod:`dpspec.numeric.slopes`.
_CURVES: dict[str, Callable[..., Vector]] = {
    "logistic": lambda z: bump(z),
    "sigmoid": lambda z: bump(z) * np.tanh(z / 2),
    "hinge": lambda z, m=1.0: np.zeros_like(z),
    "squared-hinge": lambda z, m=1.0: 2.0 * (z < m),
    "smoothed-hinge": lambda z, b, m: b * b / 2 / ((z - m) ** 2 + b * b) ** 1.5,
    "squared": lambda s: np.ones_like(s),
    "absolute": lambda s: np.zeros_like(s),
    "huber": lambda s, c: (np.abs(s) <= c) * 1.0,
    "biweight": lambda s, c: np.maximum(1 - (s / c) ** 2, 0.0) * (1 - 5 * (s / c) ** 2),
    "cauchy": lambda s, c: (1 - (s / c) ** 2) / (1 + (s / c) ** 2) ** 2,
}


def _one_less_expit(z: Vector) -> Vector:
    """expit(-z) without turning a sign twice, in the place of ``z`` where that is an array."""
    with np.errstate(over="ignore"):
        e = np.asarray(np.exp(z, out=z) if z.ndim else np.exp(z))
    e += 1.0
    out: Vector = np.reciprocal(e, out=e)
    return out


#: f of the named losses whose values are asked for at many points, as f' in :mod:`dpspec.numeric.slopes`. Their argument is nobody else's
#: and may be overwritten.
_VALUES: dict[str, Callable[..., Vector]] = {
    "logistic": lambda z: np.logaddexp(0.0, -z),
    "sigmoid": lambda z: _one_less_expit(z),
    "squared": lambda s: s * s / 2,
    "biweight": lambda s, c: c * c / 6 * (1.0 - (1.0 - np.minimum((s / c) ** 2, 1.0)) ** 3),
    "cauchy": lambda s, c: c * c / 2 * np.log1p((s / c) ** 2),
}


@lru_cache(maxsize=256)
def _short(form: Poly, order: int) -> Direct | None:
    """The direct formula of the value or a derivative of a recognised loss; None where there is none."""
    named = recognise(form)
    known = (_VALUES, SLOPES, _CURVES)[order]
    if named is None or named.name not in known or (order == 0 and drop_free(form) != form):
        return None
    g = known[named.name]
    params, factor = [float(p) for p in named.params], float(named.factor)
    if named.family == "residual":
        return lambda u, y: factor * g(u - y, *params)
    if order == 0:
        return (lambda u, y: g(y * u, *params)) if factor == 1.0 else (lambda u, y: factor * g(y * u, *params))
    if order == 1:
        return lambda u, y: (y if factor == 1.0 else factor * y) * g(y * u, *params)
    return lambda u, y: factor * (y * y) * g(y * u, *params)


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
            g = [math.prod(range(k - i + 1, k + 1)) * _whole_power(z, k - i) if k >= i else z * 0.0 for i in range(4)]
            return Outer((g[0], g[1], g[2], g[3]))
        base = np.sqrt(z) if exponent == Fraction(1, 2) else z**e
        return Outer((base, e * base / z, e * (e - 1) * base / z**2, e * (e - 1) * (e - 2) * base / z**3))

    def unary(self, name: str, params: tuple[Fraction, ...], z: Any) -> Outer:
        return Outer(_unary(name, params, z))


def _whole_power(z: Any, k: int) -> Any:
    """z^k, k >= 0. Of an array by products from k = 3 on: a tenth of the time of the power function, and a rounding more a product."""
    if k < 3 or not isinstance(z, np.ndarray):
        return z**k
    half = _whole_power(z, k // 2)
    return half * half * z if k % 2 else half * half


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
    if name == "cauchy":
        c = float(params[0])
        q = z / c
        r = 1 / (1 + q * q)
        return c * c / 2 * np.log1p(q * q), z * r, r * (2 * r - 1), 2 * q * (q * q - 3) * r**3 / c
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


def array_power(z: Vector, exponent: Fraction) -> tuple[Any, Any, Any, Any]:
    """A power and its three derivatives over an array."""
    return _ARRAYS.power(z, exponent).g


def array_unary(name: str, params: tuple[Fraction, ...], z: Vector) -> tuple[Any, Any, Any, Any]:
    """A function of the normal form and its three derivatives over an array; ``erfc`` with two."""
    return _unary(name, params, z)
