"""Dominating pairs: the worst two output laws of one use of a mechanism, by the law of their privacy loss.

A pair (P, Q) is given by the tails of L = log dP/dQ under both laws. All mechanisms here are symmetric (swapping P and Q gives the
same pair), so before sampling one law of the loss is enough.

=================  ==================================================================================================
Gaussian           N(mu, 1) against N(0, 1): L ~ N(mu^2/2, mu^2) under P, N(-mu^2/2, mu^2) under Q; mu = 1/level
Laplace            Lap(0, b) against Lap(1, b), b = level: exact for sensitivity 1 in one dimension, and for vectors with l1
                   sensitivity 1, because the coordinates' losses are dominated by those of one coordinate that moves by 1
pure               randomised response with probability e^eps/(1 + e^eps): dominates every epsilon-DP mechanism (Kairouz, Oh,
                   Viswanath 2015)
bounded range      the upper envelope over t of two-point losses {t, t - eps} (Dong, Durfee, Rogers 2020): with
                   u = e^((x - eps)/2), P(L > x) = (1 - u)/(1 - e^-eps) and Q(L > x) = (1/u - 1)/(e^eps - 1)
=================  ==================================================================================================

The envelope of the bounded-range mechanisms: a two-point loss at t has P(L = t) = (1 - e^(t - eps))/(1 - e^-eps), so its profile at x is
(1 - e^(t - eps))(1 - e^(x - t))/(1 - e^-eps); the best t is (x + eps)/2, the profile (1 - u)^2/(1 - e^-eps), and minus its derivative in
e^x is Q(L > x). A pair that dominates each step, whatever its inputs, dominates the adaptive composition (Zhu, Dong, Wang 2022,
Theorem 10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pair:
    """``parameter``: mu of a Gaussian, epsilon of the others."""

    kind: Literal["gaussian", "laplace", "pure", "bounded-range"]
    parameter: float


def above(pair: Pair, loss: Array) -> tuple[Array, Array]:
    """P(L > loss) and Q(L > loss), accurate where they are small."""
    match pair.kind:
        case "gaussian":
            from scipy.special import ndtr

            mu = pair.parameter
            return ndtr(mu / 2 - loss / mu), ndtr(-mu / 2 - loss / mu)
        case "laplace":
            return _laplace_above(pair.parameter, loss)
        case "pure":
            e = pair.parameter
            big, small = 1 / (1 + math.exp(-e)), math.exp(-e) / (1 + math.exp(-e))
            middle = (loss >= -e) & (loss < e)
            return np.where(middle, big, np.where(loss < -e, 1.0, 0.0)), np.where(middle, small, np.where(loss < -e, 1.0, 0.0))
        case "bounded-range":
            e = pair.parameter
            half = (np.clip(loss, -e, e) - e) / 2
            return np.expm1(half) / math.expm1(-e), np.expm1(-half) / math.expm1(e)


def below(pair: Pair, loss: Array) -> tuple[Array, Array]:
    """P(L <= loss) and Q(L <= loss), accurate where they are small for the Gaussian."""
    if pair.kind == "gaussian":
        from scipy.special import ndtr

        mu = pair.parameter
        return ndtr(loss / mu - mu / 2), ndtr(loss / mu + mu / 2)
    p, q = above(pair, loss)
    return 1 - p, 1 - q


def _laplace_above(e: float, loss: Array) -> tuple[Array, Array]:
    """P = Lap(0, 1/e), Q = Lap(1, 1/e), L(x) = e(|x - 1| - |x|): e for x <= 0, e(1 - 2x) between, -e for x >= 1."""
    inside = np.clip(loss, -e, e)
    where = (1 - inside / e) / 2  # L > loss exactly when x < where
    p = np.where(loss < -e, 1.0, np.where(loss >= e, 0.0, 1 - np.exp(-e * where) / 2))
    q = np.where(loss < -e, 1.0, np.where(loss >= e, 0.0, np.exp(-e * (1 - where)) / 2))
    return p, q


def top(pair: Pair, tail: float) -> float:
    """A loss above which P has mass at most ``tail`` (the largest loss when it is bounded)."""
    if pair.kind != "gaussian":
        return pair.parameter
    mu = pair.parameter
    return mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / tail))


def bottom(pair: Pair, tail: float) -> float:
    """A loss below which P has mass at most ``tail``."""
    if pair.kind != "gaussian":
        return -pair.parameter
    mu = pair.parameter
    return mu * mu / 2 - mu * math.sqrt(2 * math.log(1 / tail))
