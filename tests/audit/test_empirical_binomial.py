"""The two-binomial bound, against enumeration, SciPy's own intervals and the one-sided level it promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpspec.audit.empirical.binomial import (
    Counts,
    clopper_pearson_epsilon,
    delta_lower,
    dp_curve,
    epsilon_lower,
    evidence,
    gdp_curve,
    lower_bound,
    mu_lower,
    refutes,
    upper_bound,
    upper_tail,
)


@pytest.mark.parametrize(("k", "n"), [(0, 12), (1, 12), (7, 12), (12, 12), (31, 400)])
def test_clopper_pearson_matches_scipy(k, n):
    interval = stats.binomtest(k, n).proportion_ci(confidence_level=0.98, method="exact")
    assert lower_bound(k, n, 0.01) == pytest.approx(interval.low, abs=1e-12)
    assert upper_bound(k, n, 0.01) == pytest.approx(interval.high, abs=1e-12)


def test_upper_tail_is_the_binomial_survival_function():
    k = np.arange(-1, 12)
    assert upper_tail(k, 10, 0.3) == pytest.approx(stats.binom.sf(k - 1, 10, 0.3), abs=1e-14)


def _region(counts: Counts, e) -> np.ndarray:
    """R as a table over all (k_p, k_q); below the window of k_q every k_p counts, beyond it as at its end."""
    j = np.arange(counts.n_q + 1)
    least = np.where(j < e.first, 0, e.least[np.clip(j - e.first, 0, len(e.least) - 1)])
    return np.arange(counts.n_p + 1)[:, None] >= least[None, :]


@pytest.mark.parametrize(("n_p", "n_q", "delta"), [(14, 14, 0.0), (18, 9, 0.0), (12, 16, 0.1)])
def test_the_order_of_the_counts_is_monotone_and_total(n_p, n_q, delta):
    """Regions are nested, hold their own counts, and grow in k_p and shrink in k_q."""
    regions = {}
    for i in range(n_p + 1):
        for j in range(n_q + 1):
            c = Counts(i, n_p, j, n_q)
            r = _region(c, evidence(c, alpha=0.05, order_delta=delta))
            assert r[i, j]
            assert np.all(r[1:] >= r[:-1])
            regions[i, j] = r
    for (i, j), r in regions.items():
        if i < n_p:
            assert regions[i + 1, j].sum() <= r.sum()
        if j < n_q:
            assert regions[i, j + 1].sum() >= r.sum()


@pytest.mark.parametrize("epsilon", [0.3, 0.7, 1.2])
@pytest.mark.parametrize("delta", [0.0, 0.05])
@pytest.mark.parametrize(("n_p", "n_q"), [(20, 20), (31, 13)])
def test_level_by_enumeration(epsilon, delta, n_p, n_q):
    """P[epsilon_lower > epsilon] <= alpha at every point of the boundary p = e^eps q + delta, summed over all outcomes."""
    alpha = 0.05
    rejected = np.zeros((n_p + 1, n_q + 1))
    for i in range(n_p + 1):
        for j in range(n_q + 1):
            e = evidence(Counts(i, n_p, j, n_q), alpha=alpha, order_delta=delta)
            rejected[i, j] = refutes(e, dp_curve(epsilon, delta))
    assert rejected.any()  # the test could fail: some outcomes do reject
    for q in np.linspace(0, (1 - delta) * math.exp(-epsilon), 60):
        p = math.exp(epsilon) * q + delta
        chance = stats.binom.pmf(np.arange(n_p + 1), n_p, p) @ rejected @ stats.binom.pmf(np.arange(n_q + 1), n_q, q)
        assert chance <= alpha


def test_joint_coverage_of_epsilon_and_delta_by_simulation():
    """Both bounds come from one region: they fail together at most alpha of the time. 3 standard errors of slack on 80 trials at alpha =
    0.1."""
    rng = np.random.default_rng(0)
    p, q, n = 0.4, 0.4 / math.e, 300
    wrong = 0
    for _ in range(80):
        e = evidence(Counts(rng.binomial(n, p), n, rng.binomial(n, q), n), alpha=0.1, order_delta=0.0)
        wrong += epsilon_lower(e, 0.0) > math.log(p / q) or delta_lower(e, 0.5) > p - math.exp(0.5) * q
    assert wrong / 80 <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 80)


@pytest.mark.parametrize("counts", [Counts(2500, 5000, 823, 5000), Counts(300, 1000, 0, 1000), Counts(30, 10_000, 3, 10_000)])
def test_tighter_than_one_interval_each(counts):
    e = evidence(counts, alpha=0.01, order_delta=0.0)
    assert epsilon_lower(e, 0.0) > clopper_pearson_epsilon(counts, 0.0, 0.01)


def test_close_to_the_normal_limit():
    n, p, q = 80_000, 0.5, 0.1646
    counts = Counts(int(n * p), n, int(n * q), n)
    normal = math.log(counts.k_p / counts.k_q) - stats.norm.ppf(0.99) * math.sqrt((1 - p) / p / n + (1 - q) / q / n)
    assert epsilon_lower(evidence(counts, alpha=0.01, order_delta=0.0), 0.0) == pytest.approx(normal, abs=4e-3)


def test_mu_is_a_lower_bound_close_to_the_truth():
    """q = Phi(-1), p = Phi(-1 + 0.8): the counts lie on the curve of mu = 0.8."""
    n = 50_000
    counts = Counts(round(n * stats.norm.cdf(-0.2)), n, round(n * stats.norm.cdf(-1.0)), n)
    slope = stats.norm.pdf(-0.2) / stats.norm.pdf(-1.0)  # the tangent of the curve there, as the order of the counts
    e = evidence(counts, alpha=0.01, order_delta=stats.norm.cdf(-0.2) - slope * stats.norm.cdf(-1.0))
    found = mu_lower(e, start=0.8)
    error = math.sqrt((0.4207 * 0.5793 / 0.391**2 + 0.1587 * 0.8413 / 0.242**2) / n)  # delta method
    assert found == pytest.approx(0.8 - 2.326 * error, abs=3e-3)
    assert not refutes(e, gdp_curve(0.8))


def test_nothing_is_refuted_by_equal_counts():
    e = evidence(Counts(50, 100, 50, 100), alpha=0.01, order_delta=0.0)
    assert epsilon_lower(e, 0.0) == 0.0
    assert delta_lower(e, 0.0) == 0.0


@pytest.mark.parametrize(("n", "k"), [(400, 3), (300_000, 60_000)])
def test_the_law_of_the_rarer_count_is_never_understated(n, k):
    e = evidence(Counts(n // 2, n, k, n), alpha=0.01, order_delta=0.0)
    j = e.first + np.arange(e.mass.shape[1])
    expected = stats.binom.pmf(j[None, :], n, e.left[::37, None])
    assert np.all(e.mass[::37] >= expected * (1 - 1e-12))
    assert np.all(e.mass[::37, :-1] <= expected[:, :-1] * (1 + 1e-5) + 1e-300)
    assert np.all(e.mass.sum(axis=1) + e.below >= 1 - 1e-12)
    assert e.left[0] <= lower_bound(k, n, 0.01 / 40)
    assert e.right[-1] >= upper_bound(k, n, 0.01 / 40)


@pytest.mark.parametrize("bad", [(5, 4, 0, 4), (-1, 4, 0, 4), (0, 0, 0, 4)])
def test_impossible_counts_are_refused(bad):
    with pytest.raises(ValueError, match="impossible"):
        Counts(*bad)
