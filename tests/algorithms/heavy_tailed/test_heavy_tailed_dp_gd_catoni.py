"""heavy-tailed-dp-gd-catoni: sensitivity in exact arithmetic, the bound on laws with a closed form, and what the printed numbers spend."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import lognorm, norm

from dpspec.algorithms.heavy_tailed import heavy_tailed_dp_gd_catoni as module
from dpspec.algorithms.heavy_tailed import robust_gd
from dpspec.data.records import Records
from dpspec.privacy.schedule import draws
from tests import leak
from tests.algorithms.heavy_tailed.risks import NASTY, Kept, risk, student
from tests.algorithms.sparse.exact import gaussian_epsilon
from tests.algorithms.support import plan, study, tunables


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_no_pair_of_records_moves_a_gradient_by_more_than_its_sensitivity(neighbours):
    """In exact arithmetic, over pairs of hostile records and labels; the largest movement comes close to it."""
    n, d = 3, 2
    p = risk(n, d, neighbours=neighbours)
    t = tunables(module, p, s=2, T=1)
    rest = np.array([[0.4, -1.0], [3.0, 0.2]])

    def handed_over(row: tuple[float, ...], y: float) -> np.ndarray:
        release = Kept(module.schedule(p, t))
        module.run(Records(np.vstack([[row], rest]), np.array([y, 0.3, -2.0])), p, t, release)
        return release.seen[0]

    means = [handed_over(r, y) for r in itertools.product(NASTY[::2] + NASTY[-1:], repeat=d) for y in (1.0, -1e300)]
    others = means if neighbours == "replace-one" else [handed_over((0.0, 0.0), 0.0)]
    squares = [sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(u, v, strict=True)) for u in means for v in others]
    stated = Fraction(module.sensitivity(p, t))
    assert max(squares) <= stated**2
    assert max(squares) >= (Fraction(999, 1000) * stated) ** 2


def test_the_sensitivity_is_that_of_the_least_batch():
    """n = 103 in five batches: four of 20 and one of 23."""
    p = risk(103, 3)
    t = tunables(module, p, T=10, parts=5, s=11, beta=2)
    cap = 2 * math.sqrt(2) / 3 * (2 * norm.cdf(math.sqrt(2)) - 1)
    assert module.sensitivity(p, t) == pytest.approx(2 * cap * 11 * math.sqrt(3) / 20, rel=1e-9)
    release = Kept(module.schedule(p, t))
    x, y = student(103, np.zeros(3), 0)
    module.run(Records(x, y), p, t, release)
    assert len(release.seen) == 10


@pytest.mark.parametrize(("parts", "times"), [(1, 12), (4, 3), (12, 1)])
def test_the_noise_is_that_of_the_analytic_gaussian(parts, times):
    """A record meets T/parts draws: mu = sqrt(T/parts)*sensitivity/scale."""
    p = risk(5000, 3)
    t = tunables(module, p, T=12, parts=parts)
    c = plan(module, p, t)
    assert draws(module.schedule(p, t))["gradient"].count == times
    mu = math.sqrt(times) * module.sensitivity(p, t) / c.scale("gradient")
    assert gaussian_epsilon(mu, 1e-6) == pytest.approx(1.0, rel=1e-3)


def test_batches_of_a_fixed_size_go_through_the_sampler():
    p = risk(2000, 3)
    t = tunables(module, p, T=20, b=100, batches="fixed")
    c = plan(module, p, t)
    assert module.sensitivity(p, t) == pytest.approx(20 * module.sensitivity(p, tunables(module, p, T=20, s=t.s, beta=t.beta)), rel=1e-6)
    x, y = student(2000, np.array([0.5, 0.0, -0.5]), 1)
    assert np.linalg.norm(study(module, Records(x, y), p, t, c).theta) <= 1 + 1e-9
    assert "replace-one" in str(module.accepts(risk(2000, 3, neighbours="zero-out"), t))
    assert "batches = fixed" in str(module.accepts(p, tunables(module, p, T=20, b=100)))


@pytest.mark.parametrize("df", [3.0, 2.2])
def test_the_explicit_bound_holds(df):
    """Fresh records in every step, 40 runs: no more failures than a bound of probability 0.95 may have (binomial, 1 - 3e-6), and the
    number is that of the text."""
    n, theta = 4000, np.array([0.6, -0.6])
    second = 3 * 4 + df / (df - 2)  # v = w - theta is at most 2 long
    p = risk(n, 2, epsilon=4.0, moment_bound_gradient=second)
    t = tunables(module, p, T=8, parts=8)
    c = plan(module, p, t)
    m, s, beta = n // 8, t.s, t.beta
    E = math.sqrt(2) * (second * (1 + 1 / beta) / (2 * s) + s / m * (beta / 2 + math.log(4 * 2 * 8 / 0.05)))
    E += c.scale("gradient") * (math.sqrt(2) + math.sqrt(2 * math.log(2 * 8 / 0.05)))
    bound = module.explicit_bounds(p, t, c)[module.FRESH]
    assert bound == pytest.approx(min(4 / (2 * 4) + 2 * E, (1 / 2 + 8 * 2 * E) / 4), rel=1e-9)
    excess = []
    for seed in range(40):
        x, y = student(n, theta, seed, df)
        excess.append(float(np.sum((study(module, Records(x, y), p, t, c, seed).theta - theta) ** 2)) / 2)
    assert np.mean(np.array(excess) > bound) <= 0.25


def test_the_bound_is_for_fresh_records_and_short_steps_only():
    p = risk(4000, 2)
    t = tunables(module, p, T=8)
    assert module.explicit_bounds(p, t, plan(module, p, t)) == {}
    t = tunables(module, p, T=8, parts=8, step=1.01)
    assert module.explicit_bounds(p, t, plan(module, p, t)) == {}
    p = risk(4000, 2, moment_order_x=2.0, moment_bound_x=1.0, eig_max=None)  # the trace bounds the eigenvalue: smoothness 2
    t = tunables(module, p, T=8, parts=8, step=0.6)
    assert module.explicit_bounds(p, t, plan(module, p, t)) == {}
    t = tunables(module, p, T=8, parts=8, step=0.5)
    assert module.explicit_bounds(p, t, plan(module, p, t)).keys() == {module.FRESH}


def test_no_noise_and_a_wide_kernel_are_projected_gradient_descent():
    """Against the steps written out; the ridge is added to the gradient, not truncated with it."""
    x, y = student(300, np.array([0.9, 0.9]), 2, 30.0)
    p = risk(300, 2, l2=0.5)
    t = tunables(module, p, T=6, s=1e5, beta=1e4, step=0.3)
    got = module.run(Records(x, y), p, t, Kept(module.schedule(p, t))).theta
    w, seen = np.zeros(2), []
    for _ in range(6):
        w = w - 0.3 * (x.T @ (x @ w - y) / 300 + 0.5 * w)
        w /= max(1.0, float(np.linalg.norm(w)))
        seen.append(w)
    np.testing.assert_allclose(got, np.mean(seen[-3:], axis=0), atol=1e-5)


def test_the_reference_takes_the_same_steps_without_noise():
    x, y = student(400, np.array([0.5, -0.2, 0.0]), 3)
    p = risk(400, 3)
    t = tunables(robust_gd, p, T=5, s=3, beta=2)
    ours = tunables(module, p, T=5, s=3, beta=2)
    reference = robust_gd.run(Records(x, y), p, t, None).theta
    np.testing.assert_array_equal(reference, module.run(Records(x, y), p, ours, Kept(module.schedule(p, ours))).theta)


def test_the_reference_stands_where_least_squares_falls():
    """Five records of 400 whose labels are 10^4 too large."""
    theta = np.array([0.4, -0.3])
    x, y = student(400, theta, 4)
    y[:5] += 1e4
    p = risk(400, 2, moment_bound_gradient=15.0)
    robust = robust_gd.run(Records(x, y), p, tunables(robust_gd, p), None).theta
    assert np.linalg.norm(robust - theta) < 0.35
    assert np.linalg.norm(np.linalg.lstsq(x, y, rcond=None)[0] - theta) > 5


# ------------------------------------------------------------------------------------------------ faults of the documents


def test_the_printed_budget_is_spent_several_times():
    """sigma^2 = Delta^2 T/(2 epsilon~), so T steps are sqrt(2 epsilon~)-GDP exactly; by zCDP epsilon~ + 2 sqrt(epsilon~ log(1/delta))."""
    delta, root = 1e-5, math.sqrt(math.log(1e5) + 1) - math.sqrt(math.log(1e5))
    exact = []
    for rho, by_zcdp in ((root**2, 1.0), (root, 2.72), (1.0, 7.79)):
        spent = rho + 2 * math.sqrt(rho * math.log(1 / delta))
        assert spent == pytest.approx(by_zcdp, rel=0.002)
        exact.append(gaussian_epsilon(math.sqrt(2 * rho), delta))
        assert exact[-1] <= spent
    assert exact[0] < 1 < 2 < exact[1] < 6 < exact[2]
    p = risk(5000, 3, delta=1e-5)
    t = tunables(module, p)
    from dpspec.privacy.calibrate import Budget

    safe, lost, printed = module.published(p, t, Budget(epsilon="1", delta="1/100000"))
    assert safe.epsilon < 1 < 2 < lost.epsilon < printed.epsilon
    leak.epsilon(exact[2], 1.0, delta)


def test_a_batch_with_the_noise_of_all_records_is_not_private():
    """n = 1e5, b = 1000, T = 10, nominal (1, 1e-5): how often some step is c deviations out, under a record and its opposite.
    In a batch it moves the mean by mu = (n/b) mu_1, mu_1 what it moves that of all records by."""
    delta, T, q, ratio = 1e-5, 10, 0.01, 100
    root = math.sqrt(math.log(1 / delta) + 1) - math.sqrt(math.log(1 / delta))
    mu = ratio * math.sqrt(2) * root / math.sqrt(T)
    c = 5.0
    seen = 1 - (1 - q * norm.sf(c - mu / 2)) ** T
    by_chance = T * norm.sf(c)
    assert math.log((seen - delta) / by_chance) > 7
    leak.event(seen, by_chance, stated=1.0, delta=delta)


def test_no_number_of_steps_looks_at_the_records():
    """T = B*D_0/chi from D_0 = |w*| of the records tells neighbours apart for certain; here it is a number of the plan."""
    x, y = student(200, np.array([0.5, 0.0]), 5)
    other = y.copy()
    other[0] = 1e6

    def printed(labels: np.ndarray) -> int:
        return math.ceil(float(np.linalg.norm(np.linalg.lstsq(x, labels, rcond=None)[0])) / 0.1)

    assert printed(y) != printed(other)
    p = risk(200, 2)
    t = tunables(module, p)
    counts = []
    for labels in (y, other):
        release = Kept(module.schedule(p, t))
        module.run(Records(x, labels), p, t, release)
        counts.append(len(release.seen))
    assert counts == [t.T, t.T]
    leak.certain(printed(y), printed(other))


def test_the_printed_scale_has_more_noise_than_it_saves_bias():
    """At epsilon 0.1 the error of a step at 000's scale is more than twice that at the balanced one."""
    from dpspec.privacy.calibrate import Budget

    p = risk(100_000, 10, epsilon=0.1)
    ours = tunables(module, p, T=10)
    printed = tunables(module, p, T=10, s=math.sqrt(100_000 * 20 / (2 * math.log(20))), beta=math.log(20))
    budget = Budget(epsilon="0.1", delta="0.000001")
    errors = [module.step_error(p, t, plan(module, p, t, budget).scale("gradient")) for t in (ours, printed)]
    assert errors[0] < errors[1] / 2


def test_the_moment_of_the_experiments_is_not_five():
    assert lognorm(s=1, scale=math.e).var() == pytest.approx((math.e - 1) * math.e**3, rel=1e-9)
    assert lognorm(s=1, scale=math.e).var() > 34.5 > 5


def test_a_smooth_risk_says_nothing_of_its_records():
    """Gradients sin(k_i w), k_i of a symmetric law: their mean is 0 for every w, as smooth as can be. At a fixed w six records average
    to 1/sqrt(12) in size; over w in [0, 1] some average is near 1 where the k_i are large."""
    g = np.random.default_rng(6)
    k = g.normal(0, 1e6, 6)
    w = np.linspace(0, 1, 200_001)
    mean = np.abs(np.sin(np.outer(w, k)).mean(axis=1))
    assert mean.max() > 0.9
    assert math.sqrt(float((mean**2).mean())) == pytest.approx(1 / math.sqrt(12), rel=0.05)


def test_the_default_step_is_one_over_the_smoothness():
    p = risk(5000, 3, eig_max=4.0, l2=0.5)
    t = tunables(module, p)
    assert t.step == pytest.approx(1 / 4.5)
    assert t.beta > 5


def test_who_is_refused():
    p = risk(100, 2)
    assert "lower order" in str(module.accepts(risk(100, 2, moment_order_gradient=1.5), tunables(module, p)))
    assert "contradicts" in str(module.accepts(p, tunables(module, p, tau=1)))
    assert "divide" in str(module.accepts(p, tunables(module, p, T=10, parts=3)))
    assert "later batch" in str(module.accepts(risk(100, 2, neighbours="add-remove"), tunables(module, p, T=10, parts=10)))
    assert module.accepts(risk(100, 2, neighbours="add-remove"), tunables(module, p, T=10)) is None
