"""random-fourier-features: norms in exact arithmetic, inner products against the kernels, and the two other scales."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpspec.algorithms.nldp_erm import random_fourier_features as module
from dpspec.algorithms.nldp_erm.ldp_kernel_ridge_rff import RADIUS
from tests import leak


@pytest.mark.parametrize(("kernel", "gamma"), [("rbf", 0.7), ("laplacian", 0.4)])
def test_inner_products_are_near_the_kernel(kernel, gamma):
    """40 pairs, 4,000 frequencies, within the explicit bound at zeta = 1e-3; and unbiased over 200 draws of few frequencies."""
    g = np.random.default_rng(0)
    x, z = g.normal(size=(40, 3)), g.normal(size=(40, 3))
    far = ((x - z) ** 2).sum(axis=1) if kernel == "rbf" else np.abs(x - z).sum(axis=1)
    wanted = np.exp(-gamma * far)
    s = module.frequencies(kernel, gamma, 4000, 3, np.random.default_rng(1))
    found = (module.features(x, s) * module.features(z, s)).sum(axis=1)
    assert np.abs(found - wanted).max() <= math.sqrt(2 * math.log(2 * 40 / 1e-3) / 4000)
    few = [module.frequencies(kernel, gamma, 5, 3, np.random.default_rng(k)) for k in range(200)]
    means = np.mean([(module.features(x, s) * module.features(z, s)).sum(axis=1) for s in few], axis=0)
    assert np.abs(means - wanted).max() < 5 / math.sqrt(2 * 1000)  # a cosine has variance below 1/2


def test_shifted_cosines_are_longer_than_one_and_pairs_never():
    """Pairs: |phi|^2 = 1 within 2^-40 in exact fractions, records up to 1e154; sqrt(2/D) cos(<s, x> + b): above 1 for about half."""
    g = np.random.default_rng(2)
    x = g.normal(size=(60, 2)) * 10 ** g.uniform(-3, 10, size=(60, 1))
    s = module.frequencies("rbf", 1.0, 7, 2, g)
    for row in module.features(x, s):
        assert abs(sum(Fraction(float(v)) ** 2 for v in row) - 1) < Fraction(RADIUS) ** 2 - 1
    shifted = math.sqrt(2 / 7) * np.cos(x @ s.T + g.uniform(0, 2 * math.pi, 7))
    lengths = np.linalg.norm(shifted, axis=1)
    assert 0.25 < np.mean(lengths > 1) < 0.75
    alone = math.sqrt(2) * np.abs(np.cos(np.linspace(0, math.pi, 1001)))
    assert alone.max() == pytest.approx(math.sqrt(2))  # D = 1: two records at sqrt(2) and -sqrt(2)
    leak.moved(2 * alone.max(), 2.0)


def test_the_printed_scale_estimates_half_of_the_kernel():
    g = np.random.default_rng(3)
    x, z = g.normal(size=2) / 2, g.normal(size=2) / 2
    s, b = module.frequencies("rbf", 0.5, 200_000, 2, g), g.uniform(0, 2 * math.pi, 200_000)
    printed = float(np.mean(np.cos(s @ x + b) * np.cos(s @ z + b)))
    k = math.exp(-0.5 * float(((x - z) ** 2).sum()))
    assert printed == pytest.approx(k / 2, abs=0.01)


def test_a_bandwidth_of_the_data_is_a_function_of_the_data():
    """Two data sets that differ in one record have other median distances: a release that is a function of the records alone."""
    x = np.array([[0.0], [1.0], [3.0]])
    y = np.array([[0.0], [1.0], [9.0]])

    def median(records: np.ndarray) -> float:
        return float(np.median([abs(a - b) for i, a in enumerate(records[:, 0]) for b in records[:i, 0]]))

    assert median(x) != median(y)
    leak.certain(median(x), median(y))


def test_the_frequencies_are_those_of_the_seed_and_the_kernel():
    one, other = (module.frequencies("rbf", 2.0, 10_000, 1, np.random.default_rng(4)) for _ in range(2))
    assert np.array_equal(one, other)
    assert one.std() == pytest.approx(2.0, rel=0.05)  # sqrt(2 gamma)
    half = np.mean(np.abs(module.frequencies("laplacian", 3.0, 10_000, 1, np.random.default_rng(5))) < 3.0)
    assert half == pytest.approx(0.5, abs=0.03)  # the quartiles of a Cauchy law are its scale
    with pytest.raises(ValueError, match="rbf or laplacian"):
        module.frequencies("cubic", 1.0, 2, 1, np.random.default_rng(0))
