"""Noise in the objective: the exact minimiser of a regularised risk with a random linear term."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspec.audit.component import Component, Context, Missing, assuming
from dpspec.audit.event import Event
from dpspec.audit.kinds import Kind
from dpspec.audit.pairs import Array

KIND = Kind(
    "the minimiser of a mean of n convex losses plus a ridge and a random linear term <b, w>/n (objective perturbation)",
    ("lipschitz", "smoothness", "strong_convexity", "n", "scale", "epsilon", "sigma"),
    (("lipschitz",), ("smoothness",), ("strong_convexity",), ("n",), ("scale", "epsilon", "sigma")),
    aliases=("perturbed_objective",),
)
EXAMPLE = {"type": "objective_perturbation", "lipschitz": 1, "smoothness": 0.25, "strong_convexity": 0.01, "n": 10000, "scale": 2}
RELATION = "replace_one"

_BOTH = math.sqrt(3.0)  # from here on the tail of (|Z1| + |Z2|)/2 is at most that of |Z|


@dataclass(frozen=True, slots=True)
class FoldedLoss:
    """A loss that is at most ``least`` + mu^2/2 + mu X in law, in both directions, where P(X > x) is at most 2 Q(x) (Q the normal tail);
    with ``two`` X is half the sum of two folded normals of any correlation, and that is 4 Q(x) up to sqrt(3), 2 Q(x) from there on."""

    mu: float
    least: float
    two: bool
    both_ways: ClassVar[bool] = True

    def _start(self) -> float:
        from scipy.special import ndtri

        return -float(ndtri(0.25)) if self.two else 0.0  # where the bound on the tail is 1

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        from scipy.special import ndtr

        def q(x: Array | float) -> Array:
            return np.asarray(ndtr(-np.asarray(x, dtype=float)), dtype=float)

        mu, base = self.mu, self.least + self.mu**2 / 2
        x = np.maximum((np.asarray(loss, dtype=float) - base) / mu, self._start())
        p_up, q_up = 2 * q(x), 2 * math.exp(-self.least) * q(x + mu)  # E e^-L on the tail
        if self.two:
            early = x < _BOTH
            atom = math.exp(-base - mu * _BOTH) * 2 * q(_BOTH)
            before = 4 * math.exp(-self.least) * (q(x + mu) - q(_BOTH + mu)) + atom + 2 * math.exp(-self.least) * q(_BOTH + mu)
            p_up, q_up = np.where(early, 4 * q(x), p_up), np.where(early, before, q_up)
        p_up, q_up = np.minimum(p_up, 1.0), np.minimum(q_up, 1.0)
        return p_up, q_up, 1 - p_up, 1 - q_up  # what Q lacks has the loss -inf

    def reach(self, tail: float) -> tuple[float, float]:
        from scipy.special import ndtri

        base = self.least + self.mu**2 / 2
        low = base + self.mu * self._start()
        return low - 1e-9 * (1 + abs(low)), base + self.mu * max(-float(ndtri(tail / 2)), _BOTH)


def model(event: Event, context: Context) -> list[Component]:
    """argmin of (1/n) sum phi(<x_i, w>, y_i) + (Lambda/2) |w|^2 + <b, w>/n (Chaudhuri, Monteleoni, Sarwate 2011, Algorithm 2; Gaussian b:
    Kifer, Smith, Thakurta 2012).

    ``lipschitz``: |phi'| |x|; ``smoothness``: phi'' |x|^2; ``strong_convexity``: Lambda, the whole weight of the ridge, what the method
    adds included. ``scale``: b of density exp(-|b|/scale); ``epsilon``: that of the linear term, scale = S/epsilon; ``sigma``: b normal.
    The sum of gradients moves by S = 2 lipschitz (by half of it where one data set lacks the record), and the Jacobians of the map from b
    to the minimiser have determinants whose ratio is at most 1 + smoothness/(n Lambda), since one rank-one term is exchanged for another
    above a common part of at least n Lambda. The print has the square of this factor.
    """
    numbers = [event.number(word) for word in ("lipschitz", "smoothness", "strong_convexity", "n")]
    if any(x is None for x in numbers):
        raise Missing("lipschitz, smoothness, strong_convexity and n")
    lipschitz, smooth, weight, n = (float(x or 0.0) for x in numbers)
    moved = (2 if context.replacing else 1) * lipschitz
    determinants = math.log1p(smooth / (n * weight)) if weight > 0 else math.inf if smooth > 0 else 0.0
    scale, epsilon, sigma = event.number("scale"), event.number("epsilon"), event.number("sigma")
    losses = [] if scale is None else [0.0 if moved == 0 else math.inf if scale == 0 else moved / scale]
    losses += [] if epsilon is None else [epsilon]
    found: list[Component] = []
    if losses:
        pure = max(losses) + determinants
        found.append(Component(event.what, pure=pure, rho=pure**2 / 2) if math.isfinite(pure) else _unbounded(event))
    if sigma is not None:
        mu = 0.0 if moved == 0 else math.inf if sigma == 0 else moved / sigma
        if mu == 0:
            found.append(Component(event.what, pure=determinants, rho=determinants**2 / 2))
        elif math.isfinite(mu) and math.isfinite(determinants):
            found.append(Component(event.what, over=FoldedLoss(mu, determinants, context.replacing)))
        else:
            found.append(_unbounded(event))
    conditions = [
        f"{event.what} gives the exact minimiser, of losses phi(<x, w>, y) with slopes of at most {lipschitz:g} and curvatures of at most"
        f" {smooth:g} along a record"
    ]
    if context.neighbouring == "add_remove":
        conditions.append(f"the n of {event.what} is a public number that does not follow the records")
    return assuming(found, *conditions)


def _unbounded(event: Event) -> Component:
    return Component(event.what, unknown=f"{event.what}: without noise or without a strongly convex part no bound is known")
