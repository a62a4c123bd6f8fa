"""Adaptive steps of hard thresholding: longer only where released gradients say so, never shorter, finite for any input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpspec.algorithms.steps import GROWTH, REACH, Steps
from dpspec.executor.study import study
from dpspec.lang.source import parse_text

SPEC = """
analysis "a flat design"
data
  n = 20_000, d = 15
  k = 3
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)
privacy central
  epsilon = 1, delta = 1/n^1.1
assume
  sparse(k)
release weights
  minimise log(1 + exp(-y*<w, x>)) + 1/1000*|w|^2 over sparse(k)
  by dp-iht with step = WORD
simulate
  theta = sparse(3) unit l2
  x ~ uniform-ball
  y ~ bernoulli-logistic(6*<theta, x>)
study
  trials 5, seed 3
"""


def test_a_step_approaches_the_inverse_of_the_curvature():
    steps, w, curvature = Steps(0.5, 1e-9, adaptive=True), np.array([1.0, 1.0, 0.0]), 0.01
    seen = []
    for _ in range(12):
        g = curvature * w
        seen.append(steps.after(w, g))
        w = w - 0.1 * g
    assert seen[0] == 0.5
    assert all(b <= GROWTH * a for a, b in itertools.pairwise(seen))
    assert seen[-1] == pytest.approx(1 / curvature, rel=1e-3)


def test_a_step_is_never_shorter_than_the_first():
    g = np.random.default_rng(0)
    steps = Steps(2.0, 0.01, adaptive=True)
    for _ in range(100):  # a curvature of 100, whose inverse is far below the first step
        w = g.normal(size=4)
        assert steps.after(w, 100 * w) == 2.0


def test_caution_keeps_a_step_short_where_gradients_are_noise():
    g = np.random.default_rng(0)
    steps = Steps(2.0, 1.0, adaptive=True, caution=6.0)
    for _ in range(200):  # points that hardly move and gradients that are noise: nothing is known about the curvature
        assert steps.after(g.normal(size=4) * 1e-3, g.normal(size=4)) == 2.0


def test_no_step_is_longer_than_the_most():
    steps = Steps(1.0, 1e-9, adaptive=True, most=3.0)
    assert max(steps.after(np.array([float(t)]), np.array([0.0])) for t in range(20)) == 3.0


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e300])
def test_steps_are_finite_whatever_was_released(size):
    steps = Steps(1.0, 1e-12, adaptive=True)
    for t in range(100):
        step = steps.after(np.full(3, size * (t + 1) / 100), np.zeros(3))
        assert 1.0 <= step <= REACH


def test_a_fixed_step_is_the_printed_one():
    steps = Steps(0.5, 1e-9, adaptive=False)
    assert {steps.after(np.array([float(t)]), np.array([0.01 * t])) for t in range(5)} == {0.5}


def test_adaptive_steps_learn_where_the_certified_step_does_not():
    """The certified step is that of records that are all alike: on a ball of 15 dimensions it moves by a fifteenth of what is needed."""
    parsed = {word: parse_text(SPEC.replace("WORD", word), surface="dps") for word in ("adaptive", "fixed")}
    errors = {word: study(spec).to_json()["points"][0]["error"]["mean"] for word, spec in parsed.items()}
    assert errors["adaptive"] < errors["fixed"] / 50
