"""sample-and-aggregate: the centre and its smooth bound against their definitions and over neighbours, the noise, and the printed bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpspec.algorithms.heavy_tailed import _centre as centre
from dpspec.algorithms.heavy_tailed import sample_and_aggregate as module
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.mechanisms.smooth_student_vector import SmoothStudentVector
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, SecureNoise, StudyNoise
from tests import leak
from tests.algorithms.heavy_tailed.risks import risk, student
from tests.algorithms.support import plan, tunables

P = 1e-6


def radius(x: np.ndarray, i: int, rank: int) -> float:
    return float(sorted(np.linalg.norm(v - x[i]) for v in x)[rank - 1])


def by_definition(x: np.ndarray, s: int, t: float, far: float) -> float:
    m = len(x)
    t0 = (m + s) // 2 + 1

    def a(k: int) -> float:
        rank = t0 + k * s
        return far if rank > m else sorted(radius(x, i, rank) for i in range(m))[k * s]

    return max(math.exp(-k * t) * (far if t0 + (k + 1) * s > m else min(far, a(k) + a(k + 1))) for k in range(m + 1))


def clustered(g: np.random.Generator, m: int, d: int) -> np.ndarray:
    """Points of the unit ball: tight, spread, or of few distinct places."""
    kind = g.integers(3)
    x = g.standard_normal((m, d)) * (0.01 if kind == 0 else 0.4) if kind < 2 else g.choice([0.0, 0.1, 0.3, 0.7], (m, d))
    return x / np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]


def test_the_bound_is_the_definition():
    g = np.random.default_rng(0)
    for _ in range(150):
        m, s, t = int(g.integers(1, 16)), int(g.integers(1, 4)), float(g.uniform(0.05, 1.5))
        x = clustered(g, m, 2)
        assert centre.smooth_bound(centre.distances(x), s, t, 2.0) == pytest.approx(by_definition(x, s, t, 2.0), rel=1e-12)


def test_neighbours_are_within_the_bound_and_the_bound_is_smooth():
    """s points move anywhere in the ball: |g - g'| <= min(S, S') and |log S/S'| <= t; the second is reached, the first nearly."""
    g = np.random.default_rng(1)
    moved, dilated = [], []
    for _ in range(1500):
        m, s, d = int(g.integers(2, 14)), int(g.integers(1, 3)), int(g.integers(1, 4))
        t = float(10 ** g.uniform(-2, 0.2))
        x = clustered(g, m, d)
        y = x.copy()
        y[g.choice(m, min(s, m), replace=False)] = g.choice([-1.0, 0.0, 0.05, 1.0]) * np.eye(d)[0]
        v, w = (centre.released(z, s, t, 2.0) for z in (x, y))
        apart = SmoothStudentVector(t, 1e-9, d).distance(1.0, v, w)
        assert apart <= t * (1 + 1e-12)
        moved.append(np.linalg.norm(v[:-1] - w[:-1]) / min(v[-1], w[-1]))
        dilated.append(abs(math.log(v[-1] / w[-1])) / t)
    assert max(moved) > 0.8  # the bound is a sum of two radii, which no one pair has both
    assert max(dilated) > 0.999


# --------------------------------------------------------------------------------------------------------------- the noise


@pytest.mark.parametrize("d", [1, 2, 7])
def test_the_noise_keeps_its_epsilon(d: int):
    """The worst log ratio of scipy's densities between T and e^(+-t) T + shift, along the shift and across it."""
    epsilon = 1.0
    mechanism = SmoothStudentVector(epsilon / (2 * (d + 2)), 1e-9, d)
    s, law = 1 / mechanism.scale(epsilon), stats.multivariate_t(np.zeros(d), np.eye(d), df=d + 2)
    along = np.concatenate([np.linspace(-40, 40, 8001), np.geomspace(40, 1e7, 500), -np.geomspace(40, 1e7, 500)])
    x = np.zeros((along.size, d))
    x[:, 0] = along
    if d > 1:
        x = np.concatenate([x, x + 2 * np.eye(d)[1]])
    worst = 0.0
    for t in (-mechanism.smoothing, 0.0, mechanism.smoothing):
        for shift in (-s, 0.0, s):
            other = law.logpdf((x - shift * np.eye(d)[0]) * math.exp(-t)) - d * t
            worst = max(worst, float(np.abs(other - law.logpdf(x)).max()))
    assert 0.6 * epsilon < worst <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("secure", [False, True])
def test_the_noise_has_its_law(secure: bool):
    mechanism, source = SmoothStudentVector(0.05, 2.0**-20, 3), SecureNoise() if secure else StudyNoise(5, "vector")
    out = np.array([mechanism.apply([1.0, 2.0, 3.0, 0.5], 1.0, source) for _ in range(1500)]) - [1.0, 2.0, 3.0]
    unit = out / (0.5 * mechanism.scale(1.0))
    assert stats.kstest((unit**2).sum(axis=1) / 3, stats.f(3, 5).cdf).pvalue > P
    assert stats.kstest(unit[:, 1], stats.t(5).cdf).pvalue > P
    if secure:
        assert np.array_equal(np.rint(out * 2.0**20), out * 2.0**20)
    assert mechanism.check([0.0, 0.0, 0.0, 0.0]) is not None
    assert mechanism.check([0.0, 0.0, 1.0]) is not None
    with pytest.raises(ValueError, match="spends"):
        SmoothStudentVector(0.2, 1e-6, 3).scale(1.0)


# ------------------------------------------------------------------------------------------------------------ the algorithm


def study(records: Records, p, t, c, seed: int) -> np.ndarray:
    release = Release(c, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
    w = module.run(records, p, t, release).theta
    release.close()
    return w


class Given:
    """Keeps what is handed over, and answers with the centre."""

    class public:
        @staticmethod
        def generator(name: str) -> np.random.Generator:
            return np.random.default_rng(7)

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []

    def draw(self, name: str, value: np.ndarray, *, sensitivity: float) -> np.ndarray:
        self.seen.append(np.array(value))
        return np.array(value[:-1])


@pytest.mark.parametrize("record", [[1e300, -1e300], [math.nan, 0.0], [math.inf, math.inf], [1e-310, 0.0], [0.0, 0.0]])
def test_a_record_changes_one_point_whatever_it_holds(record: list[float]):
    p = risk(120, 2, epsilon=4.0, delta=None)
    t = tunables(module, p, m=12, T=30)
    x, y = student(120, np.array([0.5, 0.0]), 0)
    other = x.copy()
    other[17] = record
    rows = [module.minimisers(p.objective, v.reshape(12, 10, 2), y.reshape(12, 10), 30, 1.0) for v in (x, other)]
    assert np.array_equal(np.flatnonzero((rows[0] != rows[1]).any(axis=1)), [1]) or np.array_equal(rows[0], rows[1])
    assert all(np.isfinite(v).all() for v in rows)
    seen = []
    for v in (x, other):
        release = Given()
        module.run(Records(v, y), p, t, release)
        seen.append(release.seen[0])
    apart = module.mechanism(p, t).distance(1.0, *seen)
    assert apart <= t.smoothing * (1 + 1e-12)


def test_points_are_minimisers_of_their_blocks():
    """Least squares with a ridge in the interior of the ball: the normal equations, block by block."""
    p = risk(400, 2, epsilon=4.0, delta=None)
    x, y = student(400, np.array([0.3, -0.2]), 3)
    x, y = x.reshape(4, 100, 2), y.reshape(4, 100)
    lam = p.objective.l2
    exact = np.stack([np.linalg.solve(a.T @ a / 100 + lam * np.eye(2), a.T @ b / 100) for a, b in zip(x, y, strict=True)])
    inside = np.linalg.norm(exact, axis=1) < 0.99
    assert inside.any()
    np.testing.assert_allclose(module.minimisers(p.objective, x, y, 300, 1.0)[inside], exact[inside], atol=1e-8)


def test_a_run_is_better_than_the_start():
    p = risk(20_000, 2, epsilon=8.0, delta=None, moment_bound_gradient=15.0)
    t = tunables(module, p)
    c = plan(module, p, t, Budget(epsilon="8"))
    theta = np.array([0.8, -0.4])
    found = [study(Records(*student(20_000, theta, seed)), p, t, c, seed) for seed in range(7)]
    assert np.median([np.linalg.norm(w - theta) for w in found]) < 0.5 * np.linalg.norm(theta)


def test_who_is_refused():
    p = risk(100, 2, epsilon=1.0, delta=None)
    assert "blocks" in str(module.accepts(p, tunables(module, p, m=101)))
    assert "2^-16" in str(module.accepts(p, tunables(module, p, smoothing=1e-6)))
    t = tunables(module, p, m=5, smoothing=0.3)
    assert "below epsilon/(d + 2)" in str(module.uncertain(p, t, type("C", (), {"levels": {"centre": 1.0}})))


# ------------------------------------------------------------------------------------------------ faults of the documents


def printed(x: np.ndarray, s: int, beta: float, far: float, top: str, past: bool = True) -> float:
    """2 max_k rho(t0 + (k + 1) s) e^(-beta k), rho the mean of ceil(s/beta) of the radii; ``past``: r_i(t) is the diameter beyond m."""
    m = len(x)
    t0, count = math.ceil((m + s) / 2 + 1), min(m, math.ceil(s / beta))
    radii = np.sort(centre.distances(x), axis=1)
    best, k = 0.0, 0
    while (rank := t0 + (k + 1) * s) <= m:
        r = np.sort(radii[:, rank - 1])
        best = max(best, 2 * math.exp(-beta * k) * float((r[-count:] if top == "largest" else r[:count]).mean()))
        k += 1
    return max(best, 2 * far * math.exp(-beta * k)) if past else best


def test_the_mean_of_the_largest_radii_is_not_smooth():
    """400 equal points, 20 of which one record moves to the far end, beta = 1: the logarithm of the printed S moves by seven times beta. At
    the printed beta of (1, 1e-5), d = 1 and 10^6 blocks it moves by ln of more than 100, and a hundred times epsilon is spent."""
    x = np.zeros((400, 1))
    y = x.copy()
    y[:20] = 1.0
    assert abs(math.log(printed(y, 20, 1.0, 1.0, "largest") / printed(x, 20, 1.0, 1.0, "largest"))) > 5.0
    low, high = (centre.smooth_bound(centre.distances(v), 20, 1.0, 1.0) for v in (x, y))
    assert abs(math.log(high / low)) <= 1 + 1e-12
    witness = module.printed_witness(400, 1.0)
    assert witness == pytest.approx((printed(x, 20, 1.0, 1.0, "largest"), printed(y, 20, 1.0, 1.0, "largest")), rel=1e-12)
    beta = 1 / (4 * (1 + math.log(2e5)))
    low, high = module.printed_witness(10**6, beta)
    assert high / low > 50
    spent = module.spent_by_dilation(math.log(high / low), 1, 1e-5)
    assert spent > 50
    c = stats.norm.isf(1e-5 / 2)  # an event by hand: the output is beyond c of the smaller noise
    assert math.log(2 * stats.norm.sf(c * low / high) / 1e-5) > 10
    leak.event(2 * stats.norm.sf(c * low / high), 1e-5, stated=1.0, delta=1e-5)


def test_the_mean_of_the_smallest_radii_is_steeper_than_beta():
    g, worst = np.random.default_rng(2), 0.0
    for _ in range(1200):
        m, t = int(g.integers(30, 60)), float(g.uniform(0.1, 0.6))
        s = math.isqrt(m)
        x = np.clip(g.standard_normal((m, 1)) * 0.01 if g.random() < 0.5 else g.choice([0, 0.1, 0.3, 1.0], (m, 1)), 0, 1)
        y = x.copy()
        y[g.choice(m, s, replace=False)] = g.choice([0, 1.0, 0.5, 0.1])
        worst = max(worst, abs(math.log(printed(x, s, t, 1.0, "smallest") / printed(y, s, t, 1.0, "smallest"))) / t)
        ours = [centre.smooth_bound(centre.distances(v), s, t, 1.0) for v in (x, y)]
        assert abs(math.log(ours[0] / ours[1])) <= t * (1 + 1e-12)
    assert 1.2 < worst <= 2.0


def test_without_the_diameter_equal_points_have_no_noise():
    x = np.zeros((30, 2))
    y = x.copy()
    y[:5] = [1.0, 0.0]
    for top in ("largest", "smallest"):
        assert printed(x, 5, 0.5, 2.0, top, past=False) == 0
    assert printed(y, 5, 0.5, 2.0, "largest", past=False) > 0
    assert centre.released(x, 5, 0.5, 2.0)[-1] > 0.1
    p = risk(20_000, 2, epsilon=1.0, delta=1e-5)
    lines = module.published(p, tunables(module, p), Budget(epsilon="1", delta="0.00001"))
    assert lines[0].scale == 0
    assert lines[0].epsilon == math.inf
    leak.certain(*(printed(v, 5, 0.5, 2.0, "largest", past=False) == 0 for v in (x, y)))  # no noise at all, or some


def test_the_printed_number_of_blocks_has_too_few_radii():
    """epsilon = 1, d = 2, delta = 1e-5: m just above (2 d/epsilon)^2 = 16 has s/beta = 227 of 16 radii; at the corrected m it has m."""
    beta = 1 / (4 * (2 + math.log(2e5)))
    assert math.ceil(math.sqrt(17) / beta) > 10 * 17
    enough = math.ceil(16 * (2 + math.log(2e5)) ** 2)
    assert math.sqrt(enough) / beta <= enough * (1 + 1e-9)
    assert enough > 3000


def test_the_union_of_two_failures_leaves_less_than_three_quarters():
    left = {factor: 1 - 1 / factor - 1 / 6 for factor in (10, 12)}  # Markov at factor * the mean square, and 5/6 of strong convexity
    assert left[10] == pytest.approx(0.7333, abs=1e-4)
    assert left[12] == pytest.approx(0.75)


def test_the_explicit_bound_holds_where_it_speaks():
    """A ridge, least squares with Student noise: the excess of a run is at most the stated number, and without a ridge none is stated."""
    p = risk(200_000, 1, epsilon=8.0, delta=None, moment_bound_gradient=6.0, l2=1.0)
    t = tunables(module, p, m=60)
    c = plan(module, p, t, Budget(epsilon="8"))
    (bound,) = module.explicit_bounds(p, t, c).values()
    assert 0 < bound < 1.0
    theta = np.array([0.6])  # the minimiser is theta/2, and F(w) - F* = |w - theta/2|^2
    excess = [float((study(Records(*student(200_000, theta, s)), p, t, c, s)[0] - 0.3) ** 2) for s in range(5)]
    assert max(excess) <= bound
    assert module.explicit_bounds(risk(200_000, 1, epsilon=8.0, delta=None), t, c) == {}


@pytest.mark.parametrize(("n", "warned"), [(25_000, True), (400_000, False)])
def test_a_plan_says_where_the_noise_fills_the_set(n: int, warned: bool) -> None:
    """At 25,000 records the noise is longer than the radius; the number of blocks follows from public facts alone."""
    p = risk(n, 2, epsilon=2.0, delta=None, moment_bound_gradient=4.0, eig_max=1.0)
    t = tunables(module, p)
    c = plan(module, p, t, Budget(epsilon="2"))
    assert (module.warnings(p, t, c) != []) is warned
    left = 2 * math.exp(-t.smoothing * t.m / 2)  # of the diameter, 2; one all records leave is sqrt(d tau/n) over the smoothness
    assert left == pytest.approx(2 * math.sqrt(2 * 4 / n) / module.heavy.smoothness(p), rel=0.2)
