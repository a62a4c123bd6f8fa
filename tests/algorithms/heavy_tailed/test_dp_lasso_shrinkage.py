"""dp-lasso-shrinkage: scores in exact arithmetic, the bound on a law with a closed form, what the printed steps and choices do."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpspec.algorithms.heavy_tailed import dp_lasso_shrinkage as module
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from tests import leak
from tests.algorithms.heavy_tailed.risks import NASTY, risk, student
from tests.algorithms.heavy_tailed.test_dp_fw_heavy_tailed import Chosen
from tests.algorithms.support import plan, study, tunables


def lasso(n: int, d: int, **more):
    moments = {"moment_order_x": 4.0, "moment_bound_x": 3.0, "moment_order_y": 4.0, "moment_bound_y": 60.0}
    return risk(n, d, norm="l1", **{"w_l1": more.get("radius", 1.0), **moments, **more})


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_no_pair_of_records_moves_a_score_by_more_than_its_sensitivity(neighbours):
    """In exact arithmetic, radius 2, at 0 and at a vertex after it: records and labels of every size, NaN among them."""
    p = lasso(3, 2, radius=2.0, neighbours=neighbours)
    t = tunables(module, p, K=2, T=2)
    rest, labels = np.random.default_rng(0).normal(size=(2, 2)), np.array([0.5, -1.0])

    def scores(row: tuple[float, ...], y: float) -> list[np.ndarray]:
        release = Chosen(module.schedule(p, t))
        release.answers = [0, 0]
        module.run(Records(np.vstack([[row], rest]), np.array([y, *labels])), p, t, release)
        return release.seen

    seen = [scores(r, y) for r in itertools.product(NASTY[::2] + NASTY[-1:], repeat=2) for y in (1.0, -1e300, 1e300, math.nan)]
    others = seen if neighbours == "replace-one" else [scores((0.0, 0.0), 0.0)]
    stated = Fraction(module.sensitivity(p, t))
    ends = [
        (np.max([u[step] for u in seen], axis=0), np.min([v[step] for v in others], axis=0), np.max([v[step] for v in others], axis=0))
        for step in (0, 1)
    ]
    gaps = [abs(Fraction(float(a)) - Fraction(float(b))) for high, low, _ in ends for a, b in zip(high, low, strict=True)]
    assert Fraction(999, 1000) * stated <= max(gaps) <= stated  # reached at the vertex, where |<x, w>| = r K


def test_the_explicit_bound_holds():
    """20 runs: E x_j^4 = 3, the excess is |w - theta|^2/2; the number is that of the text."""
    n, theta = 5000, np.array([0.8, 0.0, -0.1])
    p = lasso(n, 3)
    t = tunables(module, p)
    c = plan(module, p, t)
    x = math.log(4 * 16 / 0.05)
    D = math.sqrt(2) * 60 / t.K**2 + math.sqrt(120 * x / n) + 2 * t.K**2 * x / (3 * n)
    choice = c.scale("vertex") * (math.log(6) + math.log(2 * t.T / 0.05))
    bound = module.explicit_bounds(p, t, c)[module.UNIFORM]
    averaged = t.T - math.ceil(t.T / 6) + 1  # the number of the first point that is averaged
    assert bound == pytest.approx(8 * math.sqrt(60) / (averaged + 2) + 4 * D + choice, rel=1e-9)
    excess = []
    for seed in range(20):
        data = Records(*student(n, theta, seed, 5.0))
        excess.append(float(np.sum((study(module, data, p, t, c, seed).theta - theta) ** 2)) / 2)
    assert max(excess) <= bound
    assert np.mean(excess) < float(theta @ theta) / 2


def test_shrunk_entries_move_a_second_moment_by_at_most_sqrt_2_M_over_K_squared():
    """Two points, P(|z| = b) = M/b^4, both coordinates together: the largest bias over b against the bound, and its order is right."""
    K, M = 2.0, 1.0
    found = [M / b**4 * (b**2 - min(b, K) ** 2) for b in np.geomspace(1.0, 40, 2000)]
    assert 0.1 * math.sqrt(2) * M / K**2 < max(found) <= math.sqrt(2) * M / K**2


def test_sparse_records_give_the_gradients_of_dense_ones():
    g = np.random.default_rng(1)
    x = np.where(g.random((200, 4)) < 0.4, 5 * g.standard_t(3, (200, 4)), 0.0)
    y, w, p = g.standard_t(3, 200), np.array([0.3, 0.0, -0.5, 0.1]), lasso(200, 4)
    t = tunables(module, p, K=2)
    dense = module.shrunk_gradient(Records(x, y), w, p, t)
    z, v = np.clip(x, -2, 2), np.clip(y, -2, 2)
    np.testing.assert_allclose(dense, z.T @ (z @ w - v) / 200, atol=1e-12)
    np.testing.assert_allclose(module.shrunk_gradient(Records(csr_array(x), y), w, p, t), dense, atol=1e-12)


# ------------------------------------------------------------------------------------------------ faults of the documents


def test_a_step_beyond_one_leaves_the_ball_and_the_sensitivity():
    """eta = 3: w = -2 v_0 + 3 v_1 has |w|_1 = 5, and a record of entries +-K may move a mean gradient by more than 8 K^2/n."""
    K, n = 1.5, 10
    w = -2 * np.array([1.0, 0.0]) + 3 * np.array([0.0, 1.0])
    one, other = np.array([-K, K]), np.array([K, K])
    apart = 2 * one * (one @ w + K) / n - 2 * other * (other @ w - K) / n
    assert np.abs(apart).max() > 8 * K**2 / n
    p = lasso(50, 2)
    t = tunables(module, p)
    release = Chosen(module.schedule(p, t))
    assert np.abs(module.run(Records(*student(50, np.zeros(2), 1)), p, t, release).theta).sum() <= 1 + 1e-12
    # scores of the four vertices, all other records being such that the one that gains lies far behind
    gain = apart.max()
    far, near = np.array([-60.0, 0.0]) * gain, np.array([-59.0, -1.0]) * gain
    leak.chosen(far, near, sensitivity=8 * K**2 / n)


def test_a_missing_entry_passes_the_printed_shrinkage():
    assert math.isnan(float(np.sign(math.nan) * np.minimum(abs(math.nan), 2.0)))
    scores = np.array([0.1, math.nan, 0.3])
    assert int(np.argmax(scores)) == 1  # for certain, whatever the noise
    assert module.shrunk(np.array([math.nan, math.inf, -math.inf, 0.5]), 2.0).tolist() == [0.0, 2.0, -2.0, 0.5]
    leak.event(1.0, 1 / 1000, stated=1.0)  # of 1000 equal scores with noise of one law, each is chosen with probability 1/1000


def test_the_printed_choices_spend_a_fraction():
    """Nominal (1, 1e-5), T = 50: advanced composition 0.511, bounded range 0.251, and half again as the diameter is no sensitivity."""
    delta, T = 1e-5, 50
    each = 1 / (2 * math.sqrt(2 * T * math.log(1 / delta)))
    advanced = each * math.sqrt(2 * T * math.log(1 / delta)) + T * each * math.expm1(each)
    assert advanced == pytest.approx(0.511, abs=0.002)
    spent = []
    for e in (each, each / 2):
        rho = T * e**2 / 8
        spent.append(rho + 2 * math.sqrt(rho * math.log(1 / delta)))
    assert spent == pytest.approx([0.251, 0.125], abs=0.002)
    p = lasso(5000, 3, delta=1e-5)
    t = tunables(module, p, T=50)
    (entry,) = module.published(p, t, Budget(epsilon="1", delta="1/100000"))
    assert entry.epsilon <= spent[1] * 1.01


def test_the_logarithm_of_the_choices_is_under_no_root():
    """1/T against K^2 sqrt(T) log(dT)/(n eps) at K^4 = n eps/sqrt(T): the least over T grows with the power 4/5 of the logarithm."""

    def least(choices: float) -> float:
        T = np.geomspace(1, 1e9, 20_000)
        K2 = np.sqrt(1e12 / np.sqrt(T))
        return float(np.min(1 / T + K2 * np.sqrt(T) * choices / 1e12))

    assert math.log(least(80.0) / least(10.0)) / math.log(8) == pytest.approx(0.8, abs=0.02)


def test_who_is_refused():
    p = lasso(100, 2)
    t = tunables(module, p)
    assert "least squares" in str(module.accepts(replace(p, loss=replace(p.loss, name="logistic")), t))  # type: ignore[type-var]
    assert "l1 ball" in str(module.accepts(risk(100, 2), t))
    assert "fourth" in str(module.accepts(lasso(100, 2, moment_order_y=2.0), t))
    assert "contradicts" in str(module.accepts(p, tunables(module, p, M=1)))
    assert module.accepts(lasso(100, 2, neighbours="add-remove"), t) is None
