"""Regression where one label in ten is an outlier: losses that are not convex against squares under the same budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor.bind import bound_problem
from dpspec.lang.source import parse_text
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise

SPEC = """analysis "outliers"
data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in [-4, 4] by clip
privacy central
  epsilon = {epsilon}, delta = 1e-4
release weights
  minimise {loss} over ball(l2, 3)
  by {by}
"""
CONVEX = ("squared", "dp-gd")
ROBUST = (
    ("biweight(1)", "dp-pgd-nonconvex with output = last, fall = 1"),
    ("cauchy(1/2)", "dp-pgd-nonconvex with output = last, fall = 1"),
)
OUTLIER = 4.0


def fits(loss: str, by: str, x: Any, labels: list[Any], epsilon: str) -> list[Any]:
    """One private fit for each vector of labels."""
    n, d = x.shape
    draft = compile_draft(parse_text(SPEC.format(n=n, d=d, loss=loss, by=by, epsilon=epsilon), surface="dps"))
    (release,) = draft.releases
    problem, found = bound_problem(draft, release), []
    for seed, y in enumerate(labels):
        meter = Release(release.calibrated, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
        found.append(release.module.run(Records(x, y), problem, release.tunables, meter).theta)
        meter.close()
    return found


def spoiled(y: Any, seed: int) -> Any:
    out = np.array(y)
    out[np.random.default_rng(seed).choice(len(y), len(y) // 10, replace=False)] = OUTLIER
    return out


@pytest.mark.parametrize("robust", [pytest.param(ROBUST[0], marks=pytest.mark.slow), ROBUST[1]])
def test_on_the_diabetes_data_of_scikit_learn_with_outliers(robust: tuple[str, str]):
    """442 people, ten features, epsilon 2: the mean square on the labels without outliers."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    x, y = x / np.linalg.norm(x, axis=1).max(), (y - y.mean()) / np.abs(y - y.mean()).max()
    labels = [spoiled(y, seed) for seed in range(5)]
    errors = [[float(np.mean((y - x @ w) ** 2)) for w in fits(*by, x, labels, "2")] for by in (CONVEX, robust)]
    convex, other = np.array(errors)
    least = float(np.mean((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2))
    assert other.mean() + 2 * other.std() < convex.mean()
    assert (other < convex).all()
    assert other.mean() < (least + float(np.mean(y**2))) / 2  # beyond half the way from the zero vector to least squares


@pytest.mark.slow
@pytest.mark.parametrize("robust", ROBUST)
def test_on_a_linear_law_with_outliers(robust: tuple[str, str]):
    rng = np.random.default_rng(3)
    n, d = 5000, 5
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[:, 0] = np.abs(x[:, 0])  # outliers pull in one direction
    theta = np.array([0.5, -0.5, 0.5, 0.0, 0.0])
    y = x @ theta + rng.normal(0, 0.1, n)
    labels = [spoiled(y, seed) for seed in range(4)]
    convex, other = (np.array([np.linalg.norm(w - theta) for w in fits(*by, x, labels, "1")]) for by in (CONVEX, robust))
    assert other.max() < convex.min() / 3
