"""off-pair-str-c: the sensitivity on the spec's own ridge in exact arithmetic, and what the printed experiment would release."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpspec.algorithms.objective import optimum
from dpspec.algorithms.pairwise import off_pair_str_c as module
from dpspec.executor.bind import bound_problem
from tests.algorithms.pairwise.test_off_pair_c import RANKING, Handed, drafted, exact_average, sample


def bound(**spec: Any) -> Any:
    draft = drafted(algorithm="off-pair-str-c", **{"loss": f"{RANKING} + 0.1/2*|w|^2", **spec})
    release = draft.releases[0]
    assert release.module is module, [e.message for e in draft.diagnostics]
    return bound_problem(draft, release), release.tunables, release.calibrated


def test_the_sensitivity_is_attained_and_never_exceeded():
    """A linear loss with a ridge; the chain in fractions, every place of the differing record, extreme records."""
    n = 10
    p, t, _ = bound(n=n, d=1, loss="-(y1 - y2)*<w, x1 - x2> + 0.5/2*|w|^2", over="R^d")
    c, most = module.chain(p, t), Fraction(0)
    for place in range(n):
        ends = []
        for own in ((Fraction(a), b) for a in (-1, 1) for b in (-1, 1)):
            rows = [(Fraction(-1), -1)] * n
            rows[place] = own
            ends.append(exact_average([r[0] for r in rows], [r[1] for r in rows], lambda u, y: -y, None, c))
        most = max(most, max(ends) - min(ends))
    stated = Fraction(module.sensitivity(p, t))
    assert stated * Fraction(999, 1000) <= most <= stated


def test_a_loss_without_a_ridge_is_for_the_other():
    draft = drafted(algorithm="off-pair-str-c")
    assert any("strongly-convex" in d.message for d in draft.diagnostics if d.severity == "error")


def test_the_last_steps_need_no_logarithm():
    """Over all iterates the sum of 2 S/(alpha t) still has a logarithm; over the last quarter, weighted, it is 16/7 S/(alpha n)."""
    p, t, _ = bound(n=4000, d=5)
    S, lam = p.loss.spread, p.loss.l2
    assert module.sensitivity(p, t) == pytest.approx(16 / 7 * S / (lam * p.n), rel=0.01)
    assert 8 * p.loss.lipschitz * math.log(p.n) / (p.n * lam) > 3 * math.log(p.n) * module.sensitivity(p, t)


def test_the_printed_experiment_releases_noise():
    """alpha = 1e-3, n = 90, epsilon = 2.5, delta = 1/n, G = B = 4, as printed."""
    alpha, n, e = 1e-3, 90, 2.5
    assert 16 * 4**2 / alpha**2 > 1e6 * n
    assert 8 * math.sqrt(2) * 4 * math.log(n) * math.sqrt(math.log(1.25 * n)) / (alpha * n * e) > 1000


def test_defaults_beat_the_zero_vector_and_keep_the_bound():
    n = 1000
    p, t, calibrated = bound(n=n, d=3, loss=f"{RANKING} + 0.5/2*|w|^2", budget="epsilon = 4, delta = 1e-6")
    r = sample(n, 3)
    least = optimum(p.oracle, r)[1]
    rng, excess = np.random.default_rng(1), []
    for seed in range(1, 4):
        meter = Handed(seed=seed)
        module.run(r, p, t, meter)
        w = p.oracle.over.project(meter.seen[0] + rng.normal(size=3) * calibrated.scale("output"))
        excess.append(p.oracle.value(w, r) - least)
    assert np.mean(excess) <= (p.oracle.value(np.zeros(3), r) - least) / 2
    assert np.mean(excess) <= module.explicit_bounds(p, t, calibrated)["telescoping, stability and noise"]
