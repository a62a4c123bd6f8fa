"""Staircase and cube-norm noise: the laws of their samplers, enumerated, against the densities, the likelihood ratios and the known
optima."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpspec.privacy.mechanisms import cube_norm
from dpspec.privacy.mechanisms.cube_norm import CubeNorm
from dpspec.privacy.mechanisms.staircase import Staircase, mean_error, tread
from dpspec.privacy.noise import SecureNoise, StudyNoise


def staircase(d: int, epsilon: float, top: int) -> dict[int, float]:
    """The law of the sampler: a geometric number of steps, a place kept by weight, a fair sign, -0 drawn again."""
    r, q = tread(d, epsilon), math.exp(-epsilon)
    half = {g * d + place: q**g * (1 if place < r else q) for g in range(top) for place in range(d)}
    total = 2 * sum(half.values()) - half[0]
    return {s * v: w / total for v, w in half.items() for s in (1, -1)}


@pytest.mark.parametrize(("d", "epsilon"), [(1, 1.0), (2, 0.5), (7, 1.0), (7, 3.0), (10, 0.1)])
def test_staircase_ratios_are_at_most_e_to_epsilon(d: int, epsilon: float) -> None:
    law = staircase(d, epsilon, 40)
    inside = [z for z in law if abs(z) < 30 * d]
    worst = max(abs(math.log(law[z] / law[z + shift])) for z in inside for shift in range(1, d + 1))
    assert worst == pytest.approx(epsilon, rel=1e-9)  # never more, and attained
    beyond = max(abs(math.log(law[z] / law[z + d + 1])) for z in inside)
    assert d == 1 or beyond > epsilon * (1 + 1e-9)  # D + 1 would cost more: the sensitivity is not slack


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_staircase_has_the_error_of_the_continuous_optimum(epsilon: float) -> None:
    """Geng and Viswanath 2014, equation (46): least E|z| = D e^(epsilon/2)/(e^epsilon - 1); Laplace noise has D/epsilon."""
    d = 10**6
    assert mean_error(d, epsilon, tread(d, epsilon)) == pytest.approx(d * math.exp(epsilon / 2) / math.expm1(epsilon), rel=1e-5)
    assert mean_error(1, epsilon, 1) == pytest.approx(2 * math.exp(-epsilon) / (1 - math.exp(-2 * epsilon)), rel=1e-12)


def test_staircase_tread_is_the_best_of_all() -> None:
    for d, epsilon in itertools.product((1, 2, 3, 10, 57), (0.01, 0.3, 1.0, 2.5, 6.0)):
        assert mean_error(d, epsilon, tread(d, epsilon)) == pytest.approx(min(mean_error(d, epsilon, r) for r in range(1, d + 1)))


@pytest.mark.parametrize("noise", [StudyNoise(3), SecureNoise()], ids=["study", "secure"])
def test_staircase_draws_follow_the_law(noise: StudyNoise | SecureNoise) -> None:
    d, epsilon, draws = 3, 1.0, 1500
    law = staircase(d, epsilon, 40)
    found = [int(Staircase(float(d)).apply(np.array([0]), epsilon, noise)[0]) for _ in range(draws)]
    for z in range(-4, 5):  # each of nine counts within 5 standard errors: 5e-6 of all runs fail
        expected = draws * law[z]
        assert abs(found.count(z) - expected) < 5 * math.sqrt(expected) + 1


def cube(b: Fraction, size: int, reach: int, q: float) -> dict[tuple[int, ...], float]:
    """The law of the sampler in its own steps: T of weight C(t + size, size) q^t, kept with prod (2t + 1)/(2(t + j)), then uniform."""
    weight = {}
    for t in range(400):
        kept = math.prod(Fraction(2 * t + 1, 2 * (t + j)) for j in range(1, size + 1))
        weight[t] = float(math.comb(t + size, size) * kept) * q**t
    total = sum(weight.values())
    each = {t: w / total / (2 * t + 1) ** size for t, w in weight.items()}
    tail = {r: sum(each[t] for t in range(r, 400)) for r in range(reach + 1)}
    return {z: tail[max(map(abs, z))] for z in itertools.product(range(-reach, reach + 1), repeat=size)}


@pytest.mark.parametrize(("moved", "size", "epsilon"), [(1, 1, 1.0), (2, 2, 0.7), (1, 3, 1.5)])
def test_cube_norm_ratios_are_at_most_e_to_epsilon(moved: int, size: int, epsilon: float) -> None:
    reach = 6
    law = cube(Fraction(moved), size, reach, math.exp(-epsilon / moved))
    for z, p in law.items():
        assert p == pytest.approx(law[(0,) * size] * math.exp(-max(map(abs, z)) * epsilon / moved), rel=1e-9)
    worst = 0.0
    for z in law:
        if max(map(abs, z)) <= reach - moved:
            for shift in itertools.product((-moved, 0, moved), repeat=size):
                worst = max(worst, abs(math.log(law[z] / law[tuple(a + b for a, b in zip(z, shift, strict=True))])))
    assert worst == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("noise", [StudyNoise(4), SecureNoise()], ids=["study", "secure"])
def test_cube_norm_draws_follow_the_law(noise: StudyNoise | SecureNoise) -> None:
    draws, size, scale = 1500, 2, 1.5
    law = cube(Fraction(1), size, 2, math.exp(-1 / scale))
    found = [tuple(int(v) for v in cube_norm.sample(scale, size, noise)) for _ in range(draws)]
    for z, p in law.items():
        assert abs(found.count(z) - draws * p) < 5 * math.sqrt(draws * p) + 1


def test_cube_norm_has_half_the_error_of_laplace_noise() -> None:
    """E|z_j| = (size + 1) b/2 in the limit of fine steps, against size*b for independent Laplace noise of the same l1 sensitivity."""
    noise, size = StudyNoise(5), 3
    drawn = np.array([CubeNorm(1000.0, size).apply(np.zeros(size, dtype=np.int64), 1.0, noise) for _ in range(1500)])
    assert np.abs(drawn).mean() == pytest.approx(1000 * (size + 1) / 2, rel=0.08)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="whole number"):
        Staircase(1.5)
    assert "integers" in str(Staircase(2.0).check(np.array([0.5])))
    assert "planned" in str(CubeNorm(1.0, 2).check(np.array([1, 2, 3]))) or "releases 2" in str(CubeNorm(1.0, 2).check(np.array([1, 2, 3])))
