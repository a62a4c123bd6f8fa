"""dp-tr: two releases a step, the test on noisy quantities, the bound re-derived and held, escapes from a saddle point."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.algorithms import second_order
from dpspec.algorithms.nonconvex_erm import _saddles as saddles
from dpspec.algorithms.nonconvex_erm import dp_tr as module
from dpspec.data.records import Records
from dpspec.measures.second_order import second_order_stationarity
from dpspec.privacy.schedule import draws
from tests import leak
from tests.algorithms.nonconvex.saddles import answered, mixed, planned, spent_by, still, trial
from tests.algorithms.nonconvex.test_dp_gld import metered
from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import SIGMOID, sample

LABELS = "{-1, 1} by map(0 -> -1, 1 -> 1)"


def sums_to(found, T: int, c, p) -> float:
    """The epsilon of all draws of the plan."""
    s = [found["gradient"].draw.mechanism.sensitivity, found["hessian"].draw.mechanism.sensitivity]
    return spent_by(s * T, [c.scale("gradient"), c.scale("hessian")] * T, 1e-6)


def test_all_gradients_and_hessians_are_in_the_plan():
    p, t, c = planned(module)
    found = draws(module.schedule(p, t))
    assert {name: leaf.total for name, leaf in found.items()} == {"gradient": t.T, "hessian": t.T}
    assert found["gradient"].draw.mechanism.sensitivity == pytest.approx(2 * p.loss.lipschitz / 20_000, rel=1e-6)
    # biweight: phi'' in [-4/5, 1], so 9/5 for opposite curvatures and not sqrt(2)
    assert found["hessian"].draw.mechanism.sensitivity == pytest.approx(1.8 / 20_000, rel=1e-6)
    assert sums_to(found, t.T, c, p) == pytest.approx(1, rel=1e-6)


def test_hessians_that_are_not_counted_double_what_is_spent():
    """Calibrated for T gradients alone, with Hessians of the same noise multiplier beside them: the epsilon of sqrt(2) times the mu."""
    p, t, c = planned(module)
    found = draws(module.schedule(p, t))
    T = t.T
    s = found["gradient"].draw.mechanism.sensitivity
    alone = c.scale("gradient") / math.sqrt(2)  # the plan halves the budget
    assert spent_by([s] * T, [alone] * T, 1e-6) == pytest.approx(1, rel=1e-6)
    assert spent_by([s] * 2 * T, [alone] * 2 * T, 1e-6) > 1.45
    leak.epsilon(spent_by([s] * 2 * T, [alone] * 2 * T, 1e-6), 1.0, 1e-6)


def test_a_stop_by_exact_quantities_tells_neighbours_apart():
    """Two records, one replaced: the exact gradient at 0 passes a test of |grad| <= 0.1 with one, and with the other does not."""
    p, _, _ = planned(module, loss=SIGMOID, y=LABELS, n=2, d=1)
    lengths = [
        abs(float(p.oracle.gradient(np.zeros(1), Records(np.array([[1.0], [1.0]]), np.array([label, 1.0])))[0])) for label in (-1, 1)
    ]
    assert (lengths[0] <= 0.1) != (lengths[1] <= 0.1)
    leak.certain(lengths[0] <= 0.1, lengths[1] <= 0.1)


def test_the_released_point_is_a_function_of_the_draws():
    p, t, _ = planned(module, options="T = 5")
    rng = np.random.default_rng(0)
    answers = []
    for _ in range(5):
        N = rng.normal(size=(2, 2))
        answers += [rng.normal(size=2), N + N.T]
    found = [module.run(sample(500, 2, seed), p, t, answered(list(answers))) for seed in (0, 1)]
    assert np.array_equal(found[0].w, found[1].w)
    assert found[0].extras == found[1].extras


def test_the_first_small_multiplier_is_released():
    """Hand-made gradients and Hessians: lam = |g|/r - 1 for H = I and long g; the third is the first of at most sqrt(alpha rho)."""
    p, t, _ = planned(module, options="T = 4, alpha = 0.01, output = first")
    r, enough, eye = math.sqrt(0.01 / t.bend), math.sqrt(0.01 * t.bend), np.eye(2)
    lams = [3 * enough, 1.01 * enough, 0.99 * enough, 0.1 * enough]
    answers = []
    for lam in lams:
        answers += [np.array([-(1 + lam) * r, 0.0]), eye]
    found = module.run(sample(50, 2), p, t, answered(answers))
    assert found.extras["found"] == 1
    assert found.w == pytest.approx([3 * r, 0.0], rel=1e-6)
    p, t, _ = planned(module, options="T = 4, alpha = 0.01")
    least = module.run(sample(50, 2), p, t, answered(answers))
    assert (least.extras["found"], least.w[0]) == (1, pytest.approx(4 * r))
    p, t, _ = planned(module, options="T = 2, alpha = 0.01, output = first")
    found = module.run(sample(50, 2), p, t, answered(answers[:4]))
    assert found.extras["found"] == 0
    assert found.w == pytest.approx([2 * r, 0.0], rel=1e-6)


def test_the_plan_is_the_same_for_all_data():
    p, t, _ = planned(module)
    assert t.gap == p.loss.at_zero == pytest.approx(0.25 / 6)
    runs = []
    for seed in (0, 1):
        release = still()
        module.run(mixed(200, 2, seed) if seed else sample(200, 2), p, t, release)
        runs.append([name for name, _ in release.seen])
    assert runs[0] == runs[1] == ["gradient", "hessian"] * t.T


def test_the_printed_noise_levels_leave_no_decrease():
    """kappa of the text at alpha/6 and sqrt(alpha rho)/3, and at half of them."""
    alpha, rho = 0.02, 3.0
    curve = math.sqrt(alpha * rho)
    assert pytest.approx(0, abs=1e-15) == 1 / 3 - 1 / 6 - 1 / 6
    assert math.isinf(saddles.reached(alpha, rho, 10**9, 1.0, alpha / 6 * (1 + 1e-9), curve / 3 * (1 + 1e-9)))
    T = math.ceil(6 * math.sqrt(rho) / alpha**1.5)
    a = saddles.reached(alpha, rho, T, 1.0, alpha / 12, curve / 6)
    assert a == pytest.approx(max(1.75, (13 / 6) ** 2) * alpha)
    assert math.isinf(saddles.reached(alpha, rho, T - 2, 1.0, alpha / 12, curve / 6))
    # a step of the text: a cubic with the worst remainder, noise at the printed level against the step, does not fall
    r = math.sqrt(alpha / rho)
    assert -curve * r**2 / 2 + alpha / 6 * r + curve / 3 * r**2 / 2 + rho * r**3 / 6 >= -1e-12


def test_the_noise_is_as_large_as_the_tails_say():
    """Simulated norms of vectors and of symmetric matrices: beyond the bound no more often than stated, and not far below it."""
    rng = np.random.default_rng(0)
    for d in (2, 22):
        vectors = np.linalg.norm(rng.normal(size=(4000, d)), axis=1)
        assert np.mean(vectors > saddles.vector_noise(1.0, d, 0.05)) <= 0.05
        assert saddles.vector_noise(1.0, d, 0.05) < 1.6 * np.quantile(vectors, 0.95)
        N = rng.normal(size=(600, d, d))
        upper = np.triu(N, 1) / math.sqrt(2)
        H = upper + upper.transpose(0, 2, 1) + N * np.eye(d)
        norms = np.abs(np.linalg.eigvalsh(H)).max(axis=1)
        assert np.mean(norms > saddles.matrix_noise(1.0, d, 0.05)) <= 0.05
        assert saddles.matrix_noise(1.0, d, 0.05) < 2.2 * np.quantile(norms, 0.95)


def test_it_leaves_the_saddle_point_where_gradient_descent_stays():
    """Mixed regressions, exactly symmetric: all runs end far from 0; steps along the exact gradient never move."""
    n = 20_000
    p, t, c = planned(module, n=n, epsilon="2")
    r = mixed(n)
    stay = np.zeros(2)
    for _ in range(50):
        stay = stay - p.oracle.gradient(stay, r)
    assert np.linalg.norm(stay) < 1e-6
    at_zero = second_order_stationarity(np.zeros(2), trial(p, r))
    for seed in range(3):
        w = metered(module, r, p, t, c, seed)
        assert abs(w[0]) > 0.3
        assert second_order_stationarity(w, trial(p, r)) < at_zero


def test_the_bound_holds_at_its_defaults():
    p, t, c = planned(module, loss=SIGMOID, y=LABELS, n=20_000, d=2)
    (bound,) = module.explicit_bounds(p, t, c).values()
    each = 0.05 / (2 * t.T)
    e1 = c.scale("gradient") * (math.sqrt(2) + math.sqrt(2 * math.log(1 / each)))
    e2 = c.scale("hessian") * (2 + math.sqrt(2 * math.log(2 / each)))
    a, rho = t.alpha, 0.125
    kappa = 1 / 3 - e1 / a - e2 / (2 * math.sqrt(a * rho))
    assert math.sqrt(rho) * 0.5 / (kappa * a**1.5) <= t.T
    assert bound == pytest.approx(max(1.5 * a + e1 + e2 * math.sqrt(a / rho), (2 * math.sqrt(a * rho) + e2) ** 2 / rho))
    for seed in range(2):
        r = sample(20_000, 2, seed)
        assert second_order_stationarity(metered(module, r, p, t, c, seed), trial(p, r)) <= bound


def test_the_measure_has_the_proved_constant_where_a_larger_one_tunes():
    """bend = 4 rho is a Hessian-Lipschitz constant too, and an a-second-order point by it is one of up to 4 a by rho."""
    p, t, c = planned(module, loss=SIGMOID, y=LABELS, n=200_000, d=2, options="bend = 1/2")
    (value,) = module.explicit_bounds(p, t, c).values()
    each = 0.05 / (2 * t.T)
    e2 = saddles.matrix_noise(c.scale("hessian"), 2, each)
    assert value >= (2 * math.sqrt(t.alpha / 2) + e2) ** 2 / 0.125 * (1 - 1e-9)


def test_what_it_refuses():
    from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import bound as pgd

    p, _, _ = pgd(over="ball(l2, 2)")
    assert "dp-gd-so" in str(module.accepts(p, None))
    p, _, _ = pgd(loss=f"{SIGMOID} + 0.1*|w|_1")
    assert "no Hessian" in str(module.accepts(p, None))
    p, _, _ = pgd(d=2500, n=3000)
    assert "2000" in str(module.accepts(p, None))
    assert second_order.refused(p, large=True) is None
