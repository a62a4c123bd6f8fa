"""Correlations: NumPy's without noise, intervals that cover, and 0 where noise hides a variance."""

from __future__ import annotations

import numpy as np
import pytest

from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor import bind
from dpspec.lang.source import parse_text
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.tasks.registry import of

SPEC = """analysis "together"
data
  n = {n}, d = 3
  from memory
  private, unit person, neighbours {relation}
  x in ball(l2, 1) by scale
privacy central
  {budget}
release r
  estimate correlation(x)
"""


def released(x: np.ndarray, budget: str, relation: str, seeds: range):
    draft = compile_draft(parse_text(SPEC.format(n=len(x), relation=relation, budget=budget), surface="dps"))
    release = draft.releases[0]
    problem, records = bind.bound_problem(draft, release), Records(x)
    truth = of(problem.task).reference(records, problem, {})[0]
    runs = [
        release.module.run(
            records, problem, release.tunables, Release(release.calibrated, StudyNoise(s), mode="study", public=PublicRandomness(0))
        )
        for s in seeds
    ]
    return truth, runs


def table(n: int) -> np.ndarray:
    z = np.random.default_rng(0).normal(size=(n, 2))
    x = np.column_stack([z[:, 0], 0.8 * z[:, 0] + 0.6 * z[:, 1], -z[:, 1]]) * 0.25 + 0.1
    return x / np.maximum(1, np.linalg.norm(x, axis=1))[:, None]


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_intervals_cover_numpys_correlations(relation: str) -> None:
    """40 runs of three correlations: at least 100 of 120 intervals of 95 % cover (one in 10^6 if they were independent)."""
    x = table(20_000)
    truth, runs = released(x, "rho = 0.5", relation, range(40))
    assert truth == pytest.approx(np.corrcoef(x.T), abs=1e-9)
    upper = np.triu_indices(3, 1)
    covered = sum(int(((r.extras["low"] <= truth) & (truth <= r.extras["high"]))[upper].sum()) for r in runs)
    assert covered >= 100
    for r in runs:
        assert np.abs(r.theta - truth).max() < 0.05
        assert (np.diag(r.theta) == 1).all()
        assert np.linalg.eigvalsh(r.theta).min() > -1e-9


def test_a_variance_that_noise_hides_gives_no_correlation() -> None:
    _, runs = released(table(50), "epsilon = 0.01", "replace-one", range(3))
    for r in runs:
        assert np.abs(r.theta).max() <= 1
        hidden = (r.theta == 0) & ~np.eye(3, dtype=bool)
        assert hidden.any()
        assert (r.extras["low"][hidden] == -1).all()
        assert (r.extras["high"][hidden] == 1).all()
