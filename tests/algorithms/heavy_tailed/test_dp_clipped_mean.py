"""dp-clipped-mean and median-of-means, the comparators: movement over hostile records, the best clip, and their bounds on three laws."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dpspec.algorithms.card import Problem
from dpspec.algorithms.heavy_tailed import dp_clipped_mean as module
from dpspec.algorithms.heavy_tailed import median_of_means as median
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.spec.model import Estimate
from tests.algorithms.support import plan, study, tunables

LAWS: dict[str, tuple[Any, float]] = {
    "t(3)": (lambda g, shape: g.standard_t(3, shape), 3.0),
    "lognormal": (lambda g, shape: g.lognormal(0, 1, shape) - math.exp(0.5), math.e**2 - math.e),
    "pareto(2.5)": (lambda g, shape: g.pareto(2.5, shape) - 1 / 1.5, 2.5 / (1.5**2 * 0.5)),
}


def problem(n: int, d: int, neighbours: str = "replace-one", tau: float = 4.0, **facts: float) -> Problem:
    known = {"n": n, "d": d, "epsilon": 1.0, "delta": 1e-6, "moment_order_x": 2.0, "moment_bound_x": tau, **facts}
    return Problem("central", neighbours, Estimate(what="mean"), {k: v for k, v in known.items() if v is not None})


class Given:
    """Keeps what would be drawn, and answers with it."""

    seen: Any

    def draw(self, name: str, value: Any, *, sensitivity: float) -> Any:
        self.seen = np.array(value)
        return value


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_no_record_moves_the_mean_further_than_stated(neighbours: str) -> None:
    p = problem(6, 2, neighbours)
    t, most = tunables(module, p, C=3.0), 0.0
    hostile = [[0.0, 0.0], [3.0, 0.0], [-3.0, 0.0], [1e300, -1e300], [math.inf, 0.0], [math.nan, 1.0], [5e-324, 0.0]]
    for a, b in itertools.product(hostile, hostile if neighbours == "replace-one" else hostile[:1]):
        seen = []
        for record in (a, b):
            x = np.tile([1.0, 1.0], (6, 1))
            x[2] = record
            release: Any = Given()
            module.run(Records(x, None), p, t, release)
            seen.append(release.seen)
        assert np.isfinite(seen).all()
        most = max(most, float(np.linalg.norm(seen[0] - seen[1])))
    assert most <= module.sensitivity(p, t) <= most * (1 + 1e-6)


@pytest.mark.parametrize("pure", [False, True])
def test_the_default_clip_is_near_the_best_of_the_bound(pure: bool) -> None:
    """Within 2 % of the least bound over C."""
    budget = Budget(epsilon="1") if pure else Budget(epsilon="1", delta="1e-6")
    p = problem(20_000, 3)
    if pure:
        p = Problem("central", "replace-one", Estimate(what="mean"), {k: v for k, v in p.facts.items() if k != "delta"})

    def value(C: float | None) -> float:
        t = tunables(module, p) if C is None else tunables(module, p, C=C)
        return module.explicit_bounds(p, t, plan(module, p, t, budget))[module.LENGTH]

    best = minimize_scalar(lambda u: value(math.exp(u)), bounds=(0, 8), method="bounded", options={"maxiter": 25}).fun
    assert value(None) <= 1.02 * best


@pytest.mark.parametrize("law", LAWS)
def test_the_bounds_hold_on_three_laws(law: str) -> None:
    """Means over 40 runs of the private one; the reference once a run, with room for zeta."""
    draw, var = LAWS[law]
    n, d = 2000, 3
    p = problem(n, d, tau=var)
    t = tunables(module, p)
    c = plan(module, p, t, Budget(epsilon="1", delta="1e-6"))
    k = tunables(median, p)
    g, far, off = np.random.default_rng(1), [], []
    for seed in range(40):
        records = Records(draw(g, (n, d)), None)
        far.append(float(np.linalg.norm(study(module, records, p, t, c, seed).theta)))
        off.append(float(np.abs(median.run(records, p, k, None).theta).max()))
    assert np.mean(far) <= module.explicit_bounds(p, t, c)[module.LENGTH]
    assert sum(v > 2 * math.sqrt(var * k.k / (n - k.k)) for v in off) <= 12  # P(binomial(40, 1/20) > 12) < 1e-6


def test_the_median_of_means_is_that_of_blocks() -> None:
    x = np.random.default_rng(2).standard_cauchy((35, 2))
    p = problem(35, 2)
    found = median.run(Records(x, None), p, tunables(median, p, k=4), None).theta
    blocks = [x[8 * i : 8 * i + 8].mean(axis=0) for i in range(4)]
    assert found == pytest.approx(np.median(blocks, axis=0))
