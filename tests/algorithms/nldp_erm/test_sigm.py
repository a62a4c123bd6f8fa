"""sigm: two steps by hand, the step condition, and the three terms of its rate on quadratics with noise and bias."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.algorithms.nldp_erm.sigm import Steps, rate, sigm
from dpspec.algorithms.sets import project_l2


def free(v: np.ndarray) -> np.ndarray:
    return v


def test_two_steps_by_hand():
    """f(x) = x^2/2 from x_0 = 1 without noise, beta = 2, q = 1: a = sqrt(2), every alpha and B is 1/a, eta = 1, x_(k+1) = z_k, and y is the
    running average of x'. A sums to k."""
    asked = []

    def oracle(x: np.ndarray, k: int) -> np.ndarray:
        asked.append(float(x[0]))
        return x

    got = sigm(oracle, np.array([1.0]), free, Steps(2.0, 0.0, 1.0), 2)
    a = 1 / math.sqrt(2)
    y0 = z0 = 1 - a / 2  # x_0 = 1, G = 1
    y1 = (y0 + (z0 - a * z0 / 2)) / 2
    z1 = 1 - a * (1 + z0) / 2
    y2 = (2 * y1 + (z1 - a * z1 / 2)) / 3
    assert asked == pytest.approx([1, z0, z1])
    assert got[0] == pytest.approx(y2)


@pytest.mark.parametrize("q", [1.0, 1.5, 2.0])
def test_the_printed_a_breaks_the_step_condition(q):
    """alpha_i^2 beta_i <= B_i beta_(i-1) for noise alone, over 2,000 steps; and B_k <= A_k, alpha_0 <= 1."""

    def holds(steps: Steps) -> bool:
        return all(steps.alpha(i) ** 2 * steps.curve(i) <= steps.heavy(i) * steps.curve(i - 1) * (1 + 1e-12) for i in range(1, 2000))

    ours, printed = Steps(0.0, 1.0, 1.0, q), Steps(0.0, 1.0, 1.0, q, a=2 ** ((q - 1) / 2))
    assert holds(ours)
    assert not holds(printed)
    total = 0.0
    for i in range(2000):
        total += ours.alpha(i)
        assert ours.heavy(i) <= total * (1 + 1e-9)
    assert ours.alpha(0) <= 1


def quadratic(steps: Steps, count: int, *, noise: float = 0.0, bias: float = 0.0, seed: int = 0) -> float:
    """f(x) = sum_j h_j x_j^2/2, curvatures from beta down to beta/1000, on the unit ball from a point of its boundary."""
    h = steps.beta * np.geomspace(1e-3, 1, 20)
    g = np.random.default_rng(seed)
    start = np.full(20, 1 / math.sqrt(20))

    def oracle(x: np.ndarray, k: int) -> np.ndarray:
        return h * x + noise * g.normal(size=20) / math.sqrt(20) + bias * np.sign(x + 1e-300) / math.sqrt(20)

    y = sigm(oracle, start, lambda v: project_l2(v, 1.0), steps, count)
    return float(h @ y**2 / 2)


def test_without_noise_the_error_is_that_of_the_curvature():
    """Not 0, as Lemma 10 of 001 would have it: beta R^2/k at q = 1 and beta R^2/k^2 at q = 2, up to the constant."""
    for q in (1.0, 2.0):
        errors = [quadratic(Steps(5.0, 0.0, 1.0, q), k) for k in (20, 200)]
        assert errors[0] > 0
        for error, k in zip(errors, (20, 200), strict=True):
            assert error <= 4 * rate(Steps(5.0, 0.0, 1.0, q), 0.0, k)
    assert quadratic(Steps(5.0, 0.0, 1.0, 2.0), 200) < quadratic(Steps(5.0, 0.0, 1.0, 1.0), 200) / 5


def test_with_noise_the_error_falls_with_the_root():
    steps = Steps(1.0, 4.0, 1.0)
    errors = [np.mean([quadratic(steps, k, noise=4.0, seed=s) for s in range(8)]) for k in (50, 5000)]
    for error, k in zip(errors, (50, 5000), strict=True):
        assert error <= rate(steps, 0.0, k)
    assert errors[1] < errors[0] / 4


def test_a_bias_does_not_grow_at_q_1():
    small = quadratic(Steps(1.0, 0.0, 1.0), 2000, bias=0.01)
    assert small <= rate(Steps(1.0, 0.0, 1.0), 0.02, 2000)


def test_what_it_refuses():
    for wrong in ((-1.0, 0.0, 1.0), (1.0, -1.0, 1.0), (0.0, 0.0, 1.0), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0, 3.0)):
        with pytest.raises(ValueError, match="reach is positive"):
            Steps(*wrong)
    with pytest.raises(ValueError, match="it is -1"):
        sigm(lambda x, k: x, np.zeros(1), free, Steps(1.0, 0.0, 1.0), -1)
