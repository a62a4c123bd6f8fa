"""Conversions between notions of privacy, Renyi divergence, and the few quadratures that the auditor needs."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpspec.audit.pairs import Array


def bisect_down(fn: Callable[[float], float], target: float, low: float = 0.0, high: float = 1.0) -> float:
    """The least x >= low at which the falling function ``fn`` is at most ``target``."""
    if fn(low) <= target:
        return low
    while fn(high) > target:
        low, high = high, 2 * high
        if high > 1e15:
            return math.inf
    for _ in range(200):
        mid = (low + high) / 2
        if fn(mid) > target:
            low = mid
        else:
            high = mid
        if high - low <= 1e-13 * high:
            break
    return high


def zcdp_delta(rho: float, epsilon: float) -> float:
    """The least delta of the optimal conversion of rho-zCDP (Canonne, Kamath, Steinke 2020, Proposition 12), rounded up."""
    import flint

    if rho <= 0:
        return 0.0
    before = flint.ctx.prec
    flint.ctx.prec = 160
    try:
        r, e = flint.arb(rho), flint.arb(epsilon)

        def log_delta(a: Any) -> Any:
            return (a - 1) * (a * r - e) + a * (1 - 1 / a).log() - (a - 1).log()

        low, high = flint.arb(1) + flint.arb("1e-20"), flint.arb(max((epsilon + 1) / rho + 2, 4.0))
        share = flint.arb("0.381966011250105151795413165634361882279690820194237")
        for _ in range(240):  # golden section: log_delta is convex in the order, and every order gives a valid delta
            third = ((high - low) * share).mid()
            left, right = (low + third).mid(), (high - third).mid()
            if log_delta(left).mid() < log_delta(right).mid():
                high = right
            else:
                low = left
        top = log_delta(low.mid()).exp().upper()
        near = float(top)
        while near < 1 and not flint.arb(near) >= top:
            near = math.nextafter(near, 2.0)
        return min(near, 1.0)
    finally:
        flint.ctx.prec = before


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The epsilon of the optimal conversion of rho-zCDP at ``delta``."""
    if rho <= 0:
        return 0.0
    if not math.isfinite(rho) or delta <= 0:
        return math.inf
    goal = math.log(1 / delta)

    # epsilon(a) = a rho + (ln(1/delta) + (a-1) ln(1-1/a) - ln a)/(a-1)
    def at(log_gap: float) -> float:
        g = math.exp(log_gap)
        a = 1 + g
        return a * rho + (goal + g * math.log1p(-1 / a) - math.log(a)) / g

    low, high = math.log(1e-4), math.log(1e8)
    for _ in range(200):
        left, right = low + (high - low) * 0.382, high - (high - low) * 0.382
        if at(left) < at(right):
            high = right
        else:
            low = left
    return max(at((low + high) / 2), 0.0)


def renyi(p: Array, q: Array, orders: Array) -> Array:
    """D_order(P || Q) of two mass vectors for each of ``orders``, none of them 1 but by 1e-9, where it is the Kullback-Leibler divergence;
    infinite when q vanishes where p does not."""
    keep = p > 0
    if np.any(q[keep] <= 0):
        return np.full(orders.size, math.inf)
    lp, lq = np.log(p[keep]), np.log(q[keep])
    x = orders[:, None] * lp + (1 - orders)[:, None] * lq
    top = x.max(axis=1)
    first = np.abs(orders - 1) < 1e-9
    found: Array = (top + np.log(np.exp(x - top[:, None]).sum(axis=1))) / np.where(first, 1.0, orders - 1)
    return np.where(first, np.sum(p[keep] * (lp - lq)), found)


@functools.lru_cache(maxsize=8)
def gauss_legendre(order: int) -> tuple[Array, Array]:
    """Nodes and weights on [-1, 1]."""
    x, w = np.polynomial.legendre.leggauss(order)
    return x, w


def quadrature(fn: Callable[[Array], Array], points: Sequence[float], order: int = 64) -> float:
    """Gauss-Legendre on each interval between consecutive ``points``."""
    x, w = gauss_legendre(order)
    total = 0.0
    for a, b in itertools.pairwise(points):
        if b > a:
            total += float(np.sum(w * fn((a + b) / 2 + (b - a) / 2 * x))) * (b - a) / 2
    return total


def laplace_cdf(x: Array, scale: float) -> Array:
    z = np.abs(x) / scale
    tail = np.exp(-z) / 2
    return np.where(x < 0, tail, 1 - tail)
