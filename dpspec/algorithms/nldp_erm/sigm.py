"""Stochastic intermediate gradient method: minimise a convex function that an oracle knows up to noise and bias.

A (gamma, beta, sigma) oracle answers at x with a vector G whose mean g has  0 <= f(v) - f_(g,b)(x) - <g, v - x> <= beta |v - x|^2/2 + gamma
for all v, and E|G - g|^2 <= sigma^2. What servers of noisy reports have is one: the gradient of a polynomial near the loss is its g, the
distance of the polynomial its gamma, the noise of the reports its sigma. With a parameter q in [1, 2], d(x) = |x - x0|^2/2 and steps

    a = 2^((2q-1)/2),  b = 2^((5-2q)/4) q^((1-2q)/2),  alpha_i = ((i+q)/q)^(q-1)/a,  B_i = a alpha_i^2,
    beta_i = beta + (b sigma/R)(i+q+1)^((2q-1)/2),  A_k = sum_(i<=k) alpha_i,  eta_k = alpha_(k+1)/B_(k+1):

    y_0 = P(x_0 - alpha_0 G_0/beta_0);  z_k = P(x_0 - sum_(i<=k) alpha_i G_i/beta_k);  x_(k+1) = eta_k z_k + (1 - eta_k) y_k;
    x' = P(z_k - alpha_(k+1) G_(k+1)/beta_k);  w = eta_k x' + (1 - eta_k) y_k;  y_(k+1) = ((A_(k+1) - B_(k+1)) y_k + B_(k+1) w)/A_(k+1)

E f(y_k) - min f is of the order beta R^2/k^q + sigma R/sqrt(k) + k^(q-1) gamma: q = 1 does not let the bias grow, and is what one pass
over reports takes; q = 2 is acceleration. The condition of the proof, alpha_i^2 beta_i <= B_i beta_(i-1), is a >= beta_i/beta_(i-1); the
printed a = 2^((q-1)/2) breaks it where noise dominates. Post-processing: it sees what the oracle says and nothing else.

Source: 000, section 5.1.8, Algorithm 5.1.38, Lemmas 5.1.5, 5.1.16; 001, section 4, Lemma 10 (Dvurechensky and Gasnikov 2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Source
from dpspec.algorithms.sets import Vector

_EVIDENCE = "tests/algorithms/nldp_erm/test_sigm.py::"

CARD = Card(
    id="sigm",
    title="Stochastic intermediate gradient method",
    family="nldp_erm",
    task="primitive",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(
        Source("000", "5.1.8", "Algorithm 5.1.38", ("Lemma 5.1.5", "Lemma 5.1.16")),
        Source("001", "4", "used by Algorithm 6", ("Lemma 10",)),
    ),
    summary="Gradient steps on an inexact stochastic oracle, between dual averaging (q = 1) and acceleration (q = 2).",
    needs=(
        Need("convex", "utility", "the function is convex"),
        Need("smooth", "utility", "the oracle's beta, sigma and gamma are right"),
    ),
    bounds=(
        Bound(
            "f(y_k) - min f",
            "order",
            "upper",
            "C*(beta*R^2/k^q + sigma*R/sqrt(k) + k^(q - 1)*gamma)",
            "claimed",
            "000 Lemma 5.1.16",
            conditions="in expectation; R covers the distance of x0 to a minimiser",
            where={
                "beta": "smoothness",
                "R": "distance of the start",
                "sigma": "noise of a gradient",
                "gamma": "error of the oracle",
                "k": "steps",
                "q": "between 1 and 2",
            },
        ),
        Bound(
            "f(y_k) - min f",
            "order",
            "upper",
            "C*(beta*sigma*R^2/sqrt(k) + gamma)",
            "claimed",
            "000 Lemma 5.1.5",
            conditions="q = 1; the product is the sum above only if beta and sigma are at least 1",
            when=("q = 1",),
            where={
                "beta": "smoothness",
                "R": "distance of the start",
                "sigma": "noise of a gradient",
                "gamma": "error of the oracle",
                "k": "steps",
            },
        ),
    ),
    faults=(
        Fault(
            "000 Algorithm 5.1.38: a = 2^((q-1)/2)",
            "the step condition needs a >= beta_i/beta_(i-1), up to 1.22 at q = 1 and 1.54 at q = 2; 2^((2q-1)/2) satisfies it",
            _EVIDENCE + "test_the_printed_a_breaks_the_step_condition",
            "utility",
        ),
        Fault(
            "001 Lemma 10: sigma/sqrt(k) + gamma",
            "beta R^2/k is missing, and the factor R",
            _EVIDENCE + "test_without_noise_the_error_is_that_of_the_curvature",
            "utility",
        ),
        Fault(
            "000 Algorithm 5.1.38: A_k sums to n, V(x, z) without its definition",
            "to k; V(x, z) = |x - z|^2/2 for this d",
            _EVIDENCE + "test_two_steps_by_hand",
            "text",
        ),
        Fault(
            "001 Algorithm 6 line 10: the gradient is taken at w_s, which is also SIGM's y_k",
            "oracles are asked at x_k, and y_n is returned",
            _EVIDENCE + "test_two_steps_by_hand",
            "utility",
        ),
    ),
    role="primitive",
)

#: A point and the number of the question to a vector.
Oracle = Callable[[Vector, int], Vector]


@dataclass(frozen=True, slots=True)
class Steps:
    """The step sequences. ``beta``, ``sigma``: of the oracle; ``reach``: R > 0; ``q`` in [1, 2]; ``a``: 0 stands for 2^((2q-1)/2)."""

    beta: float
    sigma: float
    reach: float
    q: float = 1.0
    a: float = 0.0

    def __post_init__(self) -> None:
        if not (self.beta >= 0 and self.sigma >= 0 and self.beta + self.sigma > 0 and self.reach > 0 and 1 <= self.q <= 2):
            raise ValueError("beta and sigma are not negative and not both 0, the reach is positive, and 1 <= q <= 2")
        if self.a == 0.0:
            object.__setattr__(self, "a", 2.0 ** ((2 * self.q - 1) / 2))

    def alpha(self, i: int) -> float:
        return float(((i + self.q) / self.q) ** (self.q - 1) / self.a)

    def heavy(self, i: int) -> float:
        """B_i."""
        return float(self.a * self.alpha(i) ** 2)

    def curve(self, i: int) -> float:
        """beta_i."""
        b = 2.0 ** ((5 - 2 * self.q) / 4) * self.q ** ((1 - 2 * self.q) / 2)
        return float(self.beta + b * self.sigma / self.reach * (i + self.q + 1) ** ((2 * self.q - 1) / 2))


def sigm(oracle: Oracle, start: Vector, project: Callable[[Vector], Vector], steps: Steps, count: int) -> Vector:
    """y_count. ``start``: x_0, shape (d,), in the set; ``oracle`` is asked ``count`` + 1 times, at x_0, ..., x_count.

    Raises ValueError for a negative count.
    """
    if count < 0:
        raise ValueError(f"the number of steps is not negative; it is {count}")
    total = steps.alpha(0) * oracle(start, 0)
    mass = steps.alpha(0)
    y = project(start - total / steps.curve(0))
    for k in range(count):
        z = project(start - total / steps.curve(k))
        alpha, heavy = steps.alpha(k + 1), steps.heavy(k + 1)
        eta = min(alpha / heavy, 1.0)
        g = oracle(eta * z + (1 - eta) * y, k + 1)
        total = total + alpha * g
        mass += alpha
        w = eta * project(z - alpha * g / steps.curve(k)) + (1 - eta) * y
        y = ((mass - heavy) * y + heavy * w) / mass
    return np.asarray(y)


def rate(steps: Steps, gamma: float, k: int) -> float:
    """beta R^2/k^q + sigma R/sqrt(k) + k^(q-1) gamma, the order of the error after k steps."""
    return float(steps.beta * steps.reach**2 / k**steps.q + steps.sigma * steps.reach / math.sqrt(k) + k ** (steps.q - 1) * gamma)
