"""dp-gradient-em-clipped: its sensitivity in exact arithmetic for hostile records, its bound, and what the printed algorithm would do."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpspec.algorithms.em import _steps as steps
from dpspec.algorithms.em import dp_gradient_em_clipped as module
from dpspec.algorithms.em import dp_gradient_em_full as robust
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from tests import leak
from tests.algorithms.em.test_dp_gradient_em_full import MODELS, NASTY, contraction, drawn, problem, unique, up_to_sign
from tests.algorithms.sparse.exact import gaussian_delta
from tests.algorithms.support import plan, tunables


def released(algorithm, n, beta, p, t, c, seed):
    release = Release(c, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
    found = algorithm.run(Records(*drawn("gmm", n, beta, 0.5, seed)), p, t, release).theta
    release.close()
    return up_to_sign(found, beta)


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out", "add-remove"])
@pytest.mark.parametrize("model", MODELS)
def test_no_pair_of_records_moves_the_gradient_by_more_than_its_sensitivity(model, neighbours):
    """In exact arithmetic, over all pairs of hostile records; under replace-one the largest movement comes close to it."""
    p = problem(3, 2, model, neighbours)
    t = tunables(module, p, G=0.75)
    beta = np.array([0.9, 0.4])
    heights = [None] if model == "gmm" else [0.0, -3.0, 1e300, math.inf]
    entries = [*NASTY, math.nan] if model == "regression-with-missing" else [*NASTY, math.inf, math.nan]

    def mean(row):
        x = np.array([*([] if row is None else [row[0]]), [0.4, -1.0], [3.0, 0.2]], dtype=float)
        y = None if model == "gmm" else np.array([*([] if row is None else [row[1]]), 0.5, -2.0])
        return module.clipped_gradient(Records(x, y), p.oracle, t, beta, p.n)

    means = unique([mean(row) for row in itertools.product(itertools.product(entries, repeat=2), heights)])
    assert all(np.isfinite(m).all() for m in means)
    if neighbours == "replace-one":
        others = means
    else:
        others = [mean(None) if neighbours == "add-remove" else mean(((0.0, 0.0), None if model == "gmm" else 0.0))]
    squares = [sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(u, v, strict=True)) for u in means for v in others]
    stated = Fraction(module.sensitivity(p, t))
    assert max(squares) <= stated**2
    if neighbours == "replace-one":
        assert max(squares) >= (Fraction(99, 100) * stated) ** 2


def test_the_sensitivity_and_the_budget_are_the_derived_ones():
    """2 G/n and half of it where a record leaves; G = sigma sqrt(d) by default; T rounds spend (1, 1e-6) exactly."""
    p = problem(5000, 3)
    t = tunables(module, p)
    assert pytest.approx(0.5 * math.sqrt(3)) == t.G
    assert module.sensitivity(p, t) == pytest.approx(2 * t.G / 5000, rel=1e-7)
    assert module.sensitivity(problem(5000, 3, neighbours="add-remove"), t) == pytest.approx(t.G / 5000, rel=1e-6)
    mu = math.sqrt(t.T) * module.sensitivity(p, t) / plan(module, p, t).scale("gradient")
    assert gaussian_delta(mu, 1.0) == pytest.approx(1e-6, rel=1e-3)
    assert "cannot" not in str(module.accepts(p, t))
    assert "out of the range" in str(module.accepts(p, tunables(module, p, G=1e-120)))


def test_the_bound_holds(monkeypatch):
    """Signal-to-noise 6; the bound written out; 6 runs from a start on the rim of the ball."""
    n, sigma, beta = 20_000, 0.5, np.array([3.0, 0.0])
    moment = (math.hypot(3.0, sigma) + 1.25 * 3.0) ** 2
    facts = {"gradient_moment": moment, "contraction": contraction(6.0, 1 / 8), "start_within": 1 / 8, "signal_to_noise": 6.0}
    p = problem(n, 2, sigma=sigma, **facts)
    t = tunables(module, p, G=80, T=3)
    c = plan(module, p, t, Budget(epsilon="20", delta="0.000001"))
    error = 2 * moment / (4 * 80) + math.sqrt(4 * moment * math.log(4 * 3 / 0.05) / n) + 2 * 80 * math.log(4 * 3 / 0.05) / n
    error += c.scale("gradient") * (math.sqrt(2) + math.sqrt(2 * math.log(2 * 3 / 0.05)))
    (bound,) = module.explicit_bounds(p, t, c).values()
    assert bound == pytest.approx(facts["contraction"] ** 3 * 3 / 8 + error / (1 - facts["contraction"]))
    assert module.explicit_bounds(p, tunables(module, p, G=8, T=3), c) == {}  # the bias may take the iterates out of the ball
    monkeypatch.setattr(steps, "start", lambda p, t, release: beta * 7 / 8)
    found = [released(module, n, beta, p, t, c, seed) for seed in range(6)]
    assert bound / 200 < np.median(found) <= max(found) <= bound


# ------------------------------------------------------------------------------------------------------------ as it is printed


def test_the_printed_clip_lets_a_gradient_that_is_no_number_through():
    """q/max(1, |q|/C) of an infinite entry is NaN, and so is every release of its mean; here such a record is as good as absent."""
    q = np.array([[math.inf, 1.0], [0.3, 0.4]])
    with np.errstate(invalid="ignore"):
        printed = q / np.maximum(1.0, np.linalg.norm(q, axis=1) / 1.0)[:, None]
    assert np.isnan(printed).any()
    p = problem(2, 2, "mixture-of-regressions")
    t = tunables(module, p, G=1)
    x, y = np.array([[1e200, 1e200], [1.0, 0.0]]), np.array([-3e200, 2.0])
    assert not np.isfinite(p.oracle.gradients(np.array([0.5, 0.5]), x, y)[0]).all()
    np.testing.assert_allclose(
        module.clipped_gradient(Records(x, y), p.oracle, t, np.array([0.5, 0.5]), 2),
        module.clipped_gradient(Records(x[1:], y[1:]), p.oracle, t, np.array([0.5, 0.5]), 2),
    )
    with np.errstate(invalid="ignore"):
        alone = q[1:] / np.maximum(1.0, np.linalg.norm(q[1:], axis=1) / 1.0)[:, None]
    leak.certain(np.isnan(printed.mean(axis=0)).any(), np.isnan(alone.mean(axis=0)).any())


@pytest.mark.parametrize(("epsilon", "delta"), [("0.2", "0.001"), ("0.5", "0.00001"), ("1", "0.00001")])
def test_a_constant_of_two_is_too_little(epsilon, delta):
    """The noise multiplier of c = 2 on the replace-one sensitivity, by the analytic Gaussian curve; c = 8 and exact noise are enough."""
    p = problem(5000, 3, epsilon=float(epsilon), delta=float(delta))
    t = tunables(module, p, T=10)
    two, _ = module.published(p, t, Budget(epsilon=epsilon, delta=delta))
    assert two.epsilon > float(epsilon)
    mu = 2 * float(epsilon) / math.sqrt(2 * math.log(1 / float(delta)))  # 2 C sqrt(T)/n over C sqrt(2 T log(1/delta))/(n epsilon)
    assert gaussian_delta(mu, two.epsilon) == pytest.approx(float(delta), rel=1e-3)
    leak.epsilon(two.epsilon, float(epsilon), float(delta))


def test_the_best_of_four_clips_tells_about_a_record():
    """Four releases, fixed here. The one of least log loss on the records changes with one record, for certain: what has probability 1 in
    one world has probability 0 in the other, and the choice alone has no finite epsilon."""
    candidates = np.array([0.5, 1.0, 2.0, 3.0])

    def chosen(x) -> int:
        lean = np.logaddexp(-((x[:, None] - candidates) ** 2) / 2, -((x[:, None] + candidates) ** 2) / 2)
        return int(np.argmax(lean.sum(axis=0)))

    records = np.array([1.0, -1.2, 2.0, -1.9, 1.5])
    assert chosen(records) == 1
    assert chosen(np.append(records[:4], 3.5)) == 2
    leak.certain(chosen(records), chosen(np.append(records[:4], 3.5)), given="the four releases, which are shown")


def test_clipping_beats_the_printed_robust_scale():
    """One data law, one budget, exact noise for both: 000's s makes the robust mean noisier than the clip by an order of magnitude."""
    n, beta = 10_000, np.array([1.5, 0.0, 0.0])
    p = problem(n, 3, gradient_moment=2.0)
    ours, theirs = tunables(module, p, T=8), tunables(robust, p, T=8, s=math.sqrt(n * 2.0 / (2 * math.log(3 / 0.05))))
    errors = [
        np.median([released(algorithm, n, beta, p, t, plan(algorithm, p, t), seed) for seed in range(5)])
        for algorithm, t in ((module, ours), (robust, theirs))
    ]
    assert errors[0] < errors[1] / 3
    assert errors[0] < 0.03
