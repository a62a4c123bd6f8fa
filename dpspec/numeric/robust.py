"""A robust mean with bounded influence: scaling, soft truncation and multiplicative Gaussian smoothing.

    phi(a) = a - a^3/6 for |a| <= sqrt(2), sign(a)*2 sqrt(2)/3 beyond;     kernel(a) = E phi(a + b Z), b = |a|/sqrt(beta), Z ~ N(0, 1);
    mean of x_1..x_n at scale s: (s/n) sum kernel(x_i/s).

Source: 003, section 4, equations (1) to (5); the explicit form stands in an appendix that the document lacks and was derived again
(checked against quadrature in the tests). As printed it cancels: terms of size |a|^3 leave nothing but rounding from |a| about 1e6, and
it is NaN for tiny, infinite and NaN arguments. Here the argument is cut at 1e3 first (phi is flat long before), NaN counts as 0, and every
single term is clipped to the exact supremum (2 sqrt(2)/3)(2 Phi(sqrt(beta)) - 1), on which the sensitivity rests: it holds for every
64-bit pattern, however inexact the rest is.

An erf and an exponential twice an entry would be most of what a robust round costs. kernel(a)/a is a smooth function of u = |a|/(1 + |a|)
in [0, 1), so it is read between two of 2^16 + 1 values, computed once for each beta: within 1e-8 of the kernel for beta up to 1e4, orders
of magnitude below every noise that is added to it. What is left are sums, products, a quotient and two look-ups, which are rounded the
same wherever in a block a number stands: a record's part is a function of the record alone to the last bit.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np

from dpspec.numeric.norms import Vector

_FAR: Final = 1e3
#: Below this the first two terms of the series are the kernel; from _FLAT on the closed form cancels.
_NEAR, _FLAT = 1e-3, 8.0
#: Cells of the table in u.
_CELLS: Final = 1 << 16
#: Entries that are worked on at a time: few enough to stay in the cache beside the table.
_AT_ONCE: Final = 1 << 14


def supremum(beta: float) -> float:
    """sup |kernel|, rounded up: the influence of one record is at most twice this, times s/n."""
    return _top(beta) * (1 + 2.0**-40)


def _top(beta: float) -> float:
    return 2 * math.sqrt(2) / 3 * math.erf(math.sqrt(beta / 2))


def _phi(z: Vector) -> Vector:
    """The standard normal distribution function, by the C library: devices, which read the table, have NumPy alone."""
    return np.array([math.erfc(v) for v in (-math.sqrt(0.5) * z).tolist()]) / 2


def closed_form(r: Vector, beta: float) -> Vector:
    """E phi(r + r Z/sqrt(beta)) for r in [1e-3, 1e3], elementwise, as derived: terms of size r^3 cancel, 1e-7 is left of them at 1e3."""
    b = r / math.sqrt(beta)
    low, high = (math.sqrt(2) - r) / b, (math.sqrt(2) + r) / b
    f_low, f_high = _phi(-low), _phi(-high)
    with np.errstate(under="ignore"):
        e_low, e_high = np.exp(-low * low / 2), np.exp(-high * high / 2)
    root = math.sqrt(2 * math.pi)
    value = r * (1 - b * b / 2) - r**3 / 6
    value += 2 * math.sqrt(2) / 3 * (f_low - f_high) - (r - r**3 / 6) * (f_low + f_high)
    value += b / root * (1 - r * r / 2) * (e_high - e_low)
    value += r * b * b / 2 * (f_high + f_low + (high * e_high + low * e_low) / root)
    value += b**3 / (6 * root) * ((2 + low * low) * e_low - (2 + high * high) * e_high)
    return np.asarray(value)


def _far(r: Vector, beta: float) -> Vector:
    """The same for large r, where nothing may cancel: the cubic piece by Gauss-Legendre, the flat ones by the normal distribution."""
    b = r / math.sqrt(beta)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    t = math.sqrt(2) * nodes
    with np.errstate(under="ignore"):
        density = np.exp(-(((t - r[:, None]) / b[:, None]) ** 2) / 2) / (b[:, None] * math.sqrt(2 * math.pi))
    middle = density @ (math.sqrt(2) * weights * (t - t**3 / 6))
    return np.asarray(middle + 2 * math.sqrt(2) / 3 * (_phi((r - math.sqrt(2)) / b) - _phi((-math.sqrt(2) - r) / b)))


@functools.lru_cache(maxsize=8)
def _table(beta: float) -> tuple[Vector, Vector]:
    """kernel(r)/r at u = i/2^16, r = u/(1 - u), and the steps from each to the next; 1 MB."""
    r = np.arange(_CELLS) / np.arange(_CELLS, 0, -1)
    near, flat = int(np.searchsorted(r, _NEAR)), int(np.searchsorted(r, _FLAT))
    values = np.zeros(_CELLS + 1)
    values[:near] = 1 - r[:near] ** 2 * (1 / 6 + 1 / (2 * beta))
    values[near:flat] = closed_form(r[near:flat], beta) / r[near:flat]
    values[flat:-1] = _far(r[flat:], beta) / r[flat:]
    steps = np.append(np.diff(values), 0.0)
    for shared in (values, steps):
        shared.flags.writeable = False
    return values, steps


class _Room:
    """Arrays that a block is worked on in."""

    __slots__ = ("a", "cell", "gone", "slope", "u")

    def __init__(self, size: int) -> None:
        self.a, self.u, self.slope = np.empty(size), np.empty(size), np.empty(size)
        self.cell, self.gone = np.empty(size, dtype=np.intp), np.empty(size, dtype=bool)


def _in_place(room: _Room, m: int, beta: float) -> Vector:
    """The kernel of the first ``m`` entries of ``room.a``, in their place."""
    values, steps = _table(beta)
    top = _top(beta)
    a, u, slope, cell, gone = room.a[:m], room.u[:m], room.slope[:m], room.cell[:m], room.gone[:m]
    np.isnan(a, out=gone)
    np.copyto(a, 0.0, where=gone)
    np.clip(a, -_FAR, _FAR, out=a)
    np.abs(a, out=u)
    np.add(u, 1.0, out=slope)
    np.divide(u, slope, out=u)
    np.multiply(u, _CELLS, out=u)
    np.floor(u, out=slope)
    np.copyto(cell, slope, casting="unsafe")  # at most 1000/1001 of the cells
    np.subtract(u, slope, out=u)
    np.take(steps, cell, out=slope, mode="clip")
    np.multiply(slope, u, out=slope)
    np.take(values, cell, out=u, mode="clip")
    np.add(u, slope, out=u)
    np.multiply(a, u, out=a)
    np.clip(a, -top, top, out=a)
    return a


def kernel(a: Vector, beta: float) -> Vector:
    """E phi(a + |a| Z/sqrt(beta)), elementwise, in [-supremum, supremum] whatever ``a`` holds; NaN counts as 0."""
    a = np.asarray(a, dtype=np.float64)
    flat, found = a.ravel(), np.empty(a.size)
    room = _Room(min(a.size, _AT_ONCE))
    for i in range(0, a.size, _AT_ONCE):
        m = min(a.size - i, _AT_ONCE)
        room.a[:m] = flat[i : i + m]
        found[i : i + m] = _in_place(room, m, float(beta))
    return found.reshape(a.shape)


def column_sums(x: Any, factor: Vector | None, scale: float, beta: float) -> Vector:
    """s * sum over rows of kernel(factor_i*x_ij/s), shape (d,). ``factor``: (rows,), None for ones. CSR: zeros have kernel 0, so only the
    non-zeros are read."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(x, np.ndarray):
            return np.asarray(scale * _dense_sums(x, None if factor is None else factor / scale, scale, float(beta)))
        rows = np.repeat(np.full(x.shape[0], 1 / scale) if factor is None else factor / scale, np.diff(x.indptr))
        return np.asarray(scale * np.bincount(x.indices, kernel(x.data * rows, beta), minlength=x.shape[1]))


def _dense_sums(x: Vector, factor: Vector | None, scale: float, beta: float) -> Vector:
    """Blocks of rows one after another: their number is at most that of the rows, so that it is one sum of them in some order."""
    n, d = x.shape
    rows = max(_AT_ONCE // max(d, 1), 1)
    room, total = _Room(min(rows, n) * d), np.zeros(d)
    for i in range(0, n, rows):
        part = x[i : i + rows]
        m = part.size
        a = room.a[:m].reshape(part.shape)
        if factor is None:
            np.multiply(part, 1 / scale, out=a)
        else:
            np.multiply(part, factor[i : i + rows, None], out=a)
        _in_place(room, m, beta)
        total += np.ones(len(part)) @ a
    return total
