"""dp-sgd under add-remove and zero-out: Poisson batches, their accounting and their bound."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpspec.algorithms.convex_erm import dp_sgd
from dpspec.compiler.plan import make_plan
from dpspec.lang.source import parse_text
from dpspec.privacy.schedule import draws

TEXT = """analysis "t"
data
  n = 2000, d = 4
  private, unit person, neighbours RELATION
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)
privacy central
  epsilon = 1, delta = 1e-6
release w
  minimise logistic over ball(l2, 1)
  by dp-sgd with T = 100, b = 40
"""


def planned(relation: str):
    return make_plan(parse_text(TEXT.replace("RELATION", relation), surface="dps"))


@pytest.mark.parametrize(
    ("relation", "method", "moved"), [("replace-one", "fixed", 2), ("add-remove", "poisson", 1), ("zero-out", "poisson", 1)]
)
def test_the_sampler_goes_with_the_relation(relation, method, moved):
    """The sensitivity is that of (1/b) times a sum of gradients of norm L, and two accountants agree on the sampled schedule."""
    plan = planned(relation)
    (release,) = plan.draft.releases
    leaf = draws(release.tree)["gradient"]
    assert (leaf.sampling.method, leaf.sampling.rate, leaf.sampling.n) == (method, 40 / 2000, 2000)
    assert leaf.draw.mechanism.sensitivity == pytest.approx(
        moved * release.problem.loss.lipschitz / 40, rel=1e-9
    )  # and the rounding of sums
    assert plan.guarantee.epsilon <= 1
    assert plan.guarantee.checked_epsilon == pytest.approx(plan.guarantee.epsilon, rel=2e-3)


def test_the_variance_of_a_poisson_mean_is_what_the_bound_adds():
    """By enumeration of all batches: n like gradients g of norm L, each in with probability b/n: E|(1/b) sum|^2 = L^2 + L^2/b - L^2/n."""
    n, b, g = 5, 2.0, np.array([0.6, -0.8])
    second = 0.0
    for batch in itertools.product((0, 1), repeat=n):
        chance = math.prod(b / n if inside else 1 - b / n for inside in batch)
        second += chance * float(((sum(batch) * g / b) ** 2).sum())
    assert second == pytest.approx(1.0 + (1 / b - 1 / n), rel=1e-12)
    for relation in ("zero-out", "replace-one"):
        release = planned(relation).draft.releases[0]
        p, t = release.problem, release.tunables
        scale = release.calibrated.levels["gradient"] * draws(release.tree)["gradient"].draw.mechanism.sensitivity
        kept, L = t.T - t.T // 2, p.loss.lipschitz
        extra = L**2 * (1 / 40 - 1 / 2000) if relation == "zero-out" else 0.0
        bound = 4 / (2 * t.eta * kept) + t.eta * (L**2 + extra + 4 * scale**2) / 2  # diameter 2, d = 4
        assert dp_sgd.explicit_bounds(p, t, release.calibrated) == {"projected descent": pytest.approx(bound, rel=1e-9)}


def test_a_run_reads_a_coin_a_record():
    """Under add-remove the batches of 3n records are three times as large on average as those of n."""
    from types import SimpleNamespace

    from dpspec.data.records import Records
    from dpspec.privacy.meter import Release
    from dpspec.privacy.noise import StudyNoise

    release = planned("add-remove").draft.releases[0]
    sizes = {}
    for m in (0, 2000, 6000):
        seen: list[int] = []
        objective = SimpleNamespace(
            over=SimpleNamespace(start=np.zeros),
            l2=0.0,
            data_gradient=lambda w, batch, n, seen=seen, **_: (seen.append(batch.n), np.zeros(4))[1],
            prox=lambda v, step: v,
        )
        p = SimpleNamespace(objective=objective, d=4, n=2000, neighbours="add-remove", loss=release.problem.loss)
        meter = Release(release.calibrated, StudyNoise(m), mode="study")
        dp_sgd.run(Records(np.zeros((m, 4)), np.ones(m)), p, release.tunables, meter)
        meter.close()
        sizes[m] = np.mean(seen)
    assert sizes[0] == 0
    assert abs(sizes[2000] - 40) < 5 * math.sqrt(40 / 100)
    assert abs(sizes[6000] - 120) < 5 * math.sqrt(120 / 100)
