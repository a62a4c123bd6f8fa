"""A release without noise that still checks names, counts and sensitivities, and the exact Gaussian privacy curve by scipy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from dpspec.privacy.schedule import draws


@dataclass
class Exact:
    tree: Any
    done: dict[str, int] = field(default_factory=dict)

    def _next(self, name: str, times: int = 1) -> Any:
        leaf = draws(self.tree)[name]
        self.done[name] = self.done.get(name, 0) + times
        assert self.done[name] <= leaf.total
        return leaf.draw.mechanism

    def scale(self, name: str) -> float:
        return 0.0

    def draw(self, name: str, value: Any, *, sensitivity: float) -> Any:
        assert sensitivity == self._next(name).sensitivity
        return value

    def reports(self, name: str, values: Any) -> Any:
        radius = self._next(name).radius
        return np.clip(values, -radius, radius)

    def peel(self, name: str, value: Any, *, sensitivity: float, kept: int) -> Any:
        assert sensitivity == self._next(f"{name}/select", kept).sensitivity
        self._next(f"{name}/value", kept)
        out = np.zeros_like(value)
        top = np.argsort(-np.abs(value), kind="stable")[:kept]
        out[top] = value[top]
        return out

    def mean_blocks(self, name: str, blocks: Any) -> Any:
        mechanism = self._next(name)
        rows = np.concatenate(list(blocks))
        return (rows * np.minimum(1.0, mechanism.radius / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))[:, None]).mean(axis=0)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018, Theorem 5, in scipy; the second term through logarithms so that large epsilons do not overflow."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    return float(brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, mu * mu + 20 * mu + 20))


def wide(n: int = 2000, d: int = 20_000, each: int = 10) -> Any:
    """n records with ``each`` non-zeros of d, CSR: the dense matrix would take 8 n d bytes (320 MB)."""
    from scipy.sparse import csr_array

    g = np.random.default_rng(1)
    stride = d // each
    columns = g.integers(0, stride, (n, each)) + stride * np.arange(each)
    return csr_array((g.normal(size=n * each), columns.reshape(-1), each * np.arange(n + 1)), shape=(n, d))
