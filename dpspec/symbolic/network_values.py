"""Networks of two layers over arrays: the value, the first and the second derivatives in margins and output weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.symbolic.margin import array_power, array_unary
from dpspec.symbolic.network import Apply, Input, Label, Network, Node, Number, Product, Sum

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Values:
    """Over arrays (rows,): the value, the partial derivatives by place, and the second ones by pairs of places i <= j that are not 0."""

    value: Any
    first: Mapping[int, Any]
    second: Mapping[tuple[int, int], Any]


def values(node: Node, inputs: Sequence[Any], y: Vector, order: int) -> Values:
    """``node`` at ``inputs``, an array (rows,) or a number each, and labels (rows,), with derivatives up to ``order`` (0, 1, 2)."""
    match node:
        case Number(value=v):
            return Values(float(v), {}, {})
        case Label():
            return Values(y, {}, {})
        case Input(place=k):
            return Values(inputs[k], {k: 1.0} if order else {}, {})
        case Sum(terms=terms, constant=c):
            total: Any = float(c)
            first: dict[int, Any] = {}
            second: dict[tuple[int, int], Any] = {}
            for part, factor in terms:
                own, f = values(part, inputs, y, order), float(factor)
                total = total + f * own.value
                for k, g in own.first.items():
                    first[k] = first[k] + f * g if k in first else f * g
                for ij, h in own.second.items():
                    second[ij] = second[ij] + f * h if ij in second else f * h
            return Values(total, first, second)
        case Product(left=a, right=b):
            return _product(values(a, inputs, y, order), values(b, inputs, y, order), order)
        case Apply(name=name, inner=inner, params=params):
            return _applied(name, params, values(inner, inputs, y, order), order)


def _product(a: Values, b: Values, order: int) -> Values:
    first: dict[int, Any] = {k: g * b.value for k, g in a.first.items()}
    for k, g in b.first.items():
        first[k] = first[k] + a.value * g if k in first else a.value * g
    second: dict[tuple[int, int], Any] = {}
    if order == 2:
        second = {ij: h * b.value for ij, h in a.second.items()}
        for ij, h in b.second.items():
            second[ij] = second[ij] + a.value * h if ij in second else a.value * h
        for i, f in a.first.items():
            for j, g in b.first.items():
                ij, h = (min(i, j), max(i, j)), f * g * (2.0 if i == j else 1.0)
                second[ij] = second[ij] + h if ij in second else h
    return Values(a.value * b.value, first, second)


def _applied(name: str, params: tuple[Fraction, ...], z: Values, order: int) -> Values:
    g = _outer(name, params, np.asarray(z.value), order)
    first = {k: g[1] * f for k, f in z.first.items()} if order else {}
    second: dict[tuple[int, int], Any] = {}
    if order == 2:
        second = {ij: g[1] * h for ij, h in z.second.items()}
        keys = sorted(z.first)
        for a, i in enumerate(keys):
            for j in keys[a:]:
                h = g[2] * (z.first[i] * z.first[j])
                second[i, j] = second[i, j] + h if (i, j) in second else h
    return Values(g[0], first, second)


def _outer(name: str, params: tuple[Fraction, ...], z: Any, order: int) -> tuple[Any, ...]:
    """The value and the derivatives up to ``order`` (the common functions without those that are not asked for)."""
    if name == "power":
        if params[0] == 2:
            return z * z, 2.0 * z, 2.0
        return array_power(z, params[0])
    if order < 2:  # without the derivatives that are not asked for
        if name == "tanh":
            t = np.tanh(z)
            return t, 1.0 - t * t
        if name == "expit":
            s = 1.0 / (1.0 + np.exp(-z))
            return s, s * (1.0 - s)
        if name == "softplus":
            return np.logaddexp(0.0, z), 1.0 / (1.0 + np.exp(-z)) if order else None
    return array_unary(name, params, z)


def function(net: Network, order: int) -> Any:
    """phi (order 0), the partial derivatives (variables, rows) or the second ones (variables, variables, rows) as a function of the
    margins, (rows,) each, the output weights, numbers or (rows,), and the labels (rows,). What overflows is infinite or no number,
    without a warning."""

    def of(inputs: Sequence[Any], y: Vector) -> Vector:
        with np.errstate(all="ignore"):
            found = values(net.form, inputs, y, order)
        m, rows = net.variables, len(y)
        if order == 0:
            return np.array(np.broadcast_to(found.value, rows))
        if order == 1:
            out = np.zeros((m, rows))
            for k, g in found.first.items():
                out[k] = g
            return out
        square = np.zeros((m, m, rows))
        for (i, j), h in found.second.items():
            square[i, j] = square[j, i] = h
        return square

    return of
