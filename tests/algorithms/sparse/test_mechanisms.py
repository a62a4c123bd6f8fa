"""The mechanism cards: faults of the clipped Gaussian vector, and that `by` takes no mechanism."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.algorithms.registry import get
from dpspec.compiler.passes import compile_draft
from dpspec.lang.source import parse_text
from dpspec.privacy.calibrate import Budget, calibrate
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.noise import StudyNoise
from dpspec.privacy.schedule import Draw
from tests import leak
from tests.algorithms.sparse.exact import gaussian_delta, gaussian_epsilon

MECHANISMS = ("dp-peeling", "hemisphere", "basic-private-vector")


@pytest.mark.parametrize(("stated", "spent"), [(0.5, 0.751), (1.0, 1.610), (2.0, 3.511), (5.0, 10.39)])
def test_the_printed_scale_is_a_factor_two_too_small(stated, spent):
    """001, Algorithm 1 on the unit ball; witness e_1 against -e_1."""
    delta = 1e-5
    sigma = math.sqrt(2 * math.log(1.25 / delta)) / stated
    assert gaussian_epsilon(2 / sigma, delta) == pytest.approx(spent, rel=1e-3)
    c = calibrate(Draw("vector", GaussianVector(3, 1.0), per="user"), Budget(epsilon=str(stated), delta="0.00001"))
    assert 0.99 * delta <= gaussian_delta(2 / c.scale("vector"), stated) <= delta * (1 + 1e-9)
    if stated == 1.0:
        assert c.scale("vector") == pytest.approx(7.461, abs=1e-3)
        assert gaussian_delta(2 / sigma, 1.0) == pytest.approx(1.7e-3, rel=0.03)
    leak.epsilon(gaussian_epsilon(2 / sigma, delta), stated, delta)


@pytest.mark.parametrize(("epsilon", "delta", "holds"), [(1.0, 1e-5, True), (4.0, 1e-5, True), (10.0, 1e-5, False), (12.0, 1e-6, False)])
def test_the_classical_scale_fails_at_large_epsilon(epsilon, delta, holds):
    mu = epsilon / math.sqrt(2 * math.log(1.25 / delta))
    assert (gaussian_delta(mu, epsilon) <= delta) is holds
    if not holds:
        leak.delta(gaussian_delta(mu, epsilon), delta, epsilon)


@pytest.mark.parametrize("bad", [[math.nan, 0.5], [math.inf, math.inf], [1.0, -math.inf]])
def test_a_vector_that_is_not_finite_is_reported_like_zero(bad):
    """Same noise, same report: with the printed clip x/|x| of an infinite vector, and a NaN, come out as NaN."""
    with np.errstate(all="ignore"):
        x = np.array(bad)
        printed = x / np.linalg.norm(x) if np.linalg.norm(x) > 1 else x
    assert np.isnan(printed).any()
    channel = GaussianVector(2, 1.0)
    assert np.array_equal(channel.encode(np.array(bad), 1.0, StudyNoise(3)), channel.encode(np.zeros(2), 1.0, StudyNoise(3)))
    leak.certain(bool(np.isnan(printed).any()), False)  # NaN plus noise is NaN, and no finite record gives one


def test_vectors_are_scaled_into_the_ball():
    noise = GaussianVector(2, 2.0).encode(np.zeros(2), 1e-9, StudyNoise(3))
    assert np.allclose(GaussianVector(2, 2.0).encode(np.array([30.0, 40.0]), 1e-9, StudyNoise(3)) - noise, [1.2, 1.6], atol=1e-6)


@pytest.mark.parametrize("id", MECHANISMS)
def test_by_takes_no_mechanism(id):
    assert get(id).CARD.role == "mechanism"
    text = (
        'analysis "a"\n\ndata\n  n = 1000, d = 4\n  from memory\n  private, unit person, neighbours replace-one\n\n'
        "privacy nldp\n  epsilon = 1, delta = 1e-6\n\nassume\n  sparse(2)\n  sub-gaussian(1) of x\n\n"
        f"release theta\n  estimate theta in y = <theta, x> + noise\n  by {id}\n"
    )
    found = [d for d in compile_draft(parse_text(text, surface="dps")).diagnostics if d.severity == "error"]
    assert [d.code for d in found] == ["DP407"]
    assert "mechanism" in found[0].message


@pytest.mark.parametrize("id", MECHANISMS)
def test_faults_of_privacy_name_tests(id):
    from pathlib import Path

    root = Path(__file__).parents[3]
    for fault in get(id).CARD.faults:
        if fault.severity == "privacy":
            file, _, name = fault.evidence.partition("::")
            assert f"def {name}(" in (root / file).read_text(encoding="utf-8")
