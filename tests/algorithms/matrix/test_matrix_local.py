"""The local matrix algorithms: what their documents promise, what the noise allows, and the pure channel."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.algorithms.matrix import ldp_pca_gaussian, ldp_precision, ldp_sparse_pca_fantope, ldp_thresholding
from dpspec.algorithms.matrix._deviation import gaussian_operator
from dpspec.data.covariances import spiked
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.channels.wishart_outer import WishartOuter, bartlett
from dpspec.privacy.noise import StudyNoise
from dpspec.privacy.schedule import draws
from tests.algorithms import support
from tests.algorithms.matrix.helpers import ball, one_run, problem


def symmetric_normal(rng: np.random.Generator, d: int, sd: float) -> np.ndarray:
    g = np.triu(rng.standard_normal((d, d))) * sd
    return g + np.triu(g, 1).T


def distance(sigma: np.ndarray, noisy: np.ndarray, k: int) -> float:
    v, w = (np.linalg.eigh(a)[1][:, -k:] for a in (sigma, noisy))
    return math.sqrt(max(0.0, k - np.linalg.norm(v.T @ w) ** 2))


def test_the_printed_pca_bound_is_too_small() -> None:
    """p = 40, k = 5, lambda_1 = 1/200: at n = 1e10 the squared error is about 0.2; (6.2) without its constant says 3e-6, and the corrected
    order 0.12. The sampling error is negligible there, so the noise alone is simulated."""
    p, k, n, epsilon, delta = 40, 5, 1e10, 0.5, 1e-4
    top, gap = 1 / 200, 1 / 400
    rng = np.random.default_rng(0)
    sigma = spiked(p, k, 1.0, rng).matrix() / 400
    sd = math.sqrt(2 * math.log(1.25 / delta)) / epsilon  # as printed; ours has twice the variance
    errors = [distance(sigma, sigma + symmetric_normal(rng, p, sd / math.sqrt(n)), k) ** 2 for _ in range(10)]
    mean = float(np.mean(errors))
    assert mean == pytest.approx(0.2, rel=0.25)
    corrected = k * p * math.log(1 / delta) / (gap**2 * n * epsilon**2)
    assert corrected == pytest.approx(0.118, rel=0.01)
    assert top**2 * corrected < 1e-4 * mean
    assert 0.2 < mean / corrected < 5


def test_the_printed_experiment_is_below_the_noise() -> None:
    """n = 1e5, p = 40, epsilon = 0.5: the error is that of a random subspace, about sqrt(2 k (1 - k/p)) for |VV' - WW'|_F."""
    rng = np.random.default_rng(1)
    p = 40
    sd = math.sqrt(2 * math.log(1.25e4)) / 0.5 / math.sqrt(1e5)
    assert gaussian_operator(sd, p, 0.5, isotropic=False) > 100 * (1 / 400)
    for k, printed in ((5, 2.99), (10, 3.88), (20, 4.45)):
        sigma = spiked(p, k, 1.0, rng).matrix() / 400
        errors = [math.sqrt(2) * distance(sigma, sigma + symmetric_normal(rng, p, sd), k) for _ in range(10)]
        assert np.mean(errors) == pytest.approx(printed, rel=0.05)
        assert np.mean(errors) == pytest.approx(math.sqrt(2 * k * (1 - k / p)), rel=0.06)


def test_the_printed_tables_are_out_of_reach() -> None:
    """Colon, n = 60, p = 2000, epsilon = 2 (delta 1e-4 assumed): entry noise 0.28, and no spectrum of unit records has lambda_10 > 0.1."""
    sd = math.sqrt(2 * math.log(1.25e4)) / 2 / math.sqrt(60)
    assert sd == pytest.approx(0.28, abs=0.005)
    assert 2 * sd * math.sqrt(2000) > 24
    assert 2 * sd * math.sqrt(2000) > 100 * 0.1


def test_the_penalty_dominates_the_deviation() -> None:
    """lambda >= |S~ - E x x'|_max in at least 95% of runs, and the printed lambda_1 sqrt(log p/(n eps^2)) in none."""
    n, d = 4000, 8
    p = problem("subspace", n, d, model="nldp", rank=2.0)
    t = support.tunables(ldp_sparse_pca_fantope, p)
    c = support.plan(ldp_sparse_pca_fantope, p, t)
    lam = ldp_sparse_pca_fantope.penalty(p, t, c.scale("moment"))
    assert lam < 0.5
    rng = np.random.default_rng(2)
    population = np.diag(np.full(d, 1 / d))
    printed = (1 / d) * math.sqrt(math.log(d) / n)
    deviations = []
    for seed in range(60):
        z = rng.standard_normal((n, d))
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        moment = support.study(ldp_sparse_pca_fantope, Records(z), p, t, c, seed).extras["moment"]
        deviations.append(np.abs(moment - population).max())
    assert np.mean(np.array(deviations) > lam) <= 0.05
    assert np.mean(np.array(deviations) > printed) == 1.0
    assert lam < 4 * np.median(deviations)


def test_explicit_subspace_bounds_hold_and_supports_are_found() -> None:
    rng = np.random.default_rng(3)
    d, k, rows, n = 10, 2, 4, 3_000_000
    c = spiked(d, k, 20.0, rng, rows)
    x = rng.standard_normal((20_000, d))
    c.colour(x)
    x /= 10
    x *= np.minimum(1, 1 / np.linalg.norm(x, axis=1))[:, None]
    sigma = x.T @ x / len(x)  # the law is the empirical one of these records: the sampling error is that of the repetition below
    values = np.linalg.eigvalsh(sigma)[::-1]
    gap = float(values[k - 1] - values[k])
    p = problem("subspace", n, d, model="nldp", rank=float(k), gap=gap, k_x=float(rows), eig_max=float(values[0]), delta=1e-7)
    for module in (ldp_pca_gaussian, ldp_sparse_pca_fantope):
        t = support.tunables(module, p)
        calibrated = support.plan(module, p, t, Budget(epsilon="4", delta="0.0000001"))
        (bound,) = module.explicit_bounds(p, t, calibrated).values()
        assert 0 < bound < math.sqrt(2)
        channel = draws(module.schedule(p, t))["moment"].draw.mechanism
        for seed in range(3):
            sd = channel.scale(calibrated.levels["moment"]) / math.sqrt(n)
            noisy = sigma + symmetric_normal(np.random.default_rng(seed), d, sd)

            class Fixed:
                def __init__(self, answer: np.ndarray) -> None:
                    self.answer = answer

                def scale(self, name: str) -> float:
                    return calibrated.scale(name)  # noqa: B023

                def mean_blocks(self, name: str, blocks: object) -> np.ndarray:
                    return self.answer

            got = module.run(Records(x[:2]), p, t, Fixed(noisy))
            v = np.linalg.eigh(sigma)[1][:, -k:]
            assert math.sqrt(max(0.0, k - np.linalg.norm(v.T @ got.theta) ** 2)) <= bound
            np.testing.assert_allclose(got.theta.T @ got.theta, np.eye(k), atol=1e-9)
            if module is ldp_sparse_pca_fantope:
                truth = np.linalg.norm(c.directions, axis=1) > 0
                assert not (got.extras["support"].astype(bool) & ~truth).any()


def test_sparse_covariance_bound_holds() -> None:
    """4 (s + 1) tau in the spectral norm, against the second moment of the law, here uniform on +-e_i +- e_{i+1} pairs."""
    d, n = 4, 200_000
    rng = np.random.default_rng(4)
    x = np.zeros((n, d))
    pair, sign = rng.integers(0, 2, n), rng.choice([-1.0, 1.0], n)
    x[np.arange(n), 2 * pair] = sign / math.sqrt(2)
    x[np.arange(n), 2 * pair + 1] = sign / math.sqrt(2)
    sigma = np.kron(np.eye(2), np.full((2, 2), 0.25))
    p = problem("covariance", n, d, model="nldp", k=1.0)
    t = support.tunables(ldp_thresholding, p)
    got, c = one_run(ldp_thresholding, x, p, Budget(epsilon="4", delta="0.000001"))
    (bound,) = ldp_thresholding.explicit_bounds(p, t, c).values()
    assert np.linalg.norm(got.theta - sigma, 2) <= bound
    assert ((got.extras["thresholded"] != 0) == (sigma != 0)).all()
    assert ldp_thresholding.explicit_bounds(p, support.tunables(ldp_thresholding, p, gamma=0.1), c) == {}


# ------------------------------------------------------------------------------------------------------- the pure channel


def test_the_pure_channel_is_private_and_unbiased() -> None:
    """Counts of events under two records: every ratio within e^epsilon up to sampling; and the mean of the reports is x x'."""
    channel, epsilon = WishartOuter(2, 1.0), 1.0
    n = 60_000
    one, other = (channel.encode(np.tile(e, (n, 1)), epsilon, StudyNoise(s)) for s, e in ((1, [1.0, 0.0]), (2, [0.0, 1.0])))
    np.testing.assert_allclose(one.mean(axis=0), [1, 0, 0], atol=5 * math.sqrt(channel.variance(epsilon) / n))
    spread = ((one - [1, 0, 0]) ** 2).sum(axis=1)
    assert spread.mean() == pytest.approx(channel.variance(epsilon), rel=0.05)
    largest = 0.0
    for direction in ([1.0, 0.0, -1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, -1.0]):
        a, b = one @ direction, other @ direction
        for cut in np.quantile(np.concatenate([a, b]), [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]):
            for u, v in (((a > cut).sum(), (b > cut).sum()), ((b > cut).sum(), (a > cut).sum())):
                assert u <= math.exp(epsilon) * v + 6 * math.sqrt(u + math.exp(2 * epsilon) * v + 1)
                largest = max(largest, math.log(max(u, 1) / max(v, 1)))
    assert largest > 0.3  # the events do tell the records apart: the check has power


def test_the_aggregate_of_the_pure_channel_has_the_law_of_its_reports() -> None:
    channel, n = WishartOuter(3, 1.0), 5
    x = ball(np.random.default_rng(0), n, 3)
    reports = np.array([channel.aggregate(channel.encode(x, 2.0, StudyNoise(1, s)), 2.0) for s in range(1500)])
    drawn = np.array([channel.sample_mean(x, 2.0, StudyNoise(2, s)) for s in range(1500)])
    assert np.abs(reports.mean(axis=0) - drawn.mean(axis=0)).max() < 0.12
    np.testing.assert_allclose(reports.std(axis=0), drawn.std(axis=0), rtol=0.1)
    w = np.array([bartlett(7, 3, StudyNoise(3, s)) for s in range(3000)])
    np.testing.assert_allclose(w.mean(axis=0), 7 * np.eye(3), atol=0.3)
    assert w[:, 0, 0].var() == pytest.approx(14, rel=0.12)
    assert w[:, 0, 1].var() == pytest.approx(7, rel=0.12)


def test_ldp_precision_chooses_its_noise_by_the_budget() -> None:
    x = ball(np.random.default_rng(0), 400, 3)
    p = problem("precision", 400, 3, model="nldp", delta=math.nan)
    got, c = one_run(ldp_precision, x, p, Budget(epsilon="50"))
    assert c.guarantee.kind == "pure"
    assert np.linalg.eigvalsh(got.theta)[0] > 0
    p = problem("precision", 400, 3, model="nldp")
    _, c = one_run(ldp_precision, x, p, Budget(epsilon="2", delta="0.000001"))
    assert c.guarantee.kind == "approx"
    t = support.tunables(ldp_precision, p)
    (bound,) = ldp_precision.explicit_bounds(p, t, c).values()
    assert bound == pytest.approx((3 / 0.01) ** 2 * math.sqrt(2) * c.scale("moment") / 20 * (math.sqrt(6) + math.sqrt(2 * math.log(20))))


def test_blocks_that_are_kept_are_not_drawn_over() -> None:
    """Records that are drawn at every pass reuse buffers, but never one that somebody still holds."""
    from dpspec.data.records import GeneratedRecords

    def fill(block: int, x: np.ndarray, y: np.ndarray) -> None:
        x[...] = block

    records = GeneratedRecords(600_000, 8, fill, has_y=False, cache_bytes=0)
    kept = [x for x, _ in records.blocks()]
    assert len(kept) > 5
    assert [float(x[0, 0]) for x in kept] == [float(x[-1, -1]) for x in kept] == list(range(len(kept)))


def test_the_mean_of_clipped_outer_products_is_exact() -> None:
    """Rows inside, just outside and far outside the ball, against a direct clip."""
    from dpspec.privacy.channels.gaussian_outer import GaussianOuter

    rng = np.random.default_rng(0)
    for reach in (0.5, 5.0, 1e6, 1e200):
        x = ball(rng, 300, 4) * np.where(rng.random(300) < 0.1, reach, 1.0)[:, None]
        got = GaussianOuter(4, 1.0).sample_mean(x, 1e-12, StudyNoise(0))
        with np.errstate(over="ignore"):
            big = np.abs(x).max(axis=1)
            norms = big * np.linalg.norm(x / big[:, None], axis=1)
        clipped = x * np.minimum(1, 1 / norms)[:, None]
        np.testing.assert_allclose(got, clipped.T @ clipped / 300, atol=1e-9)
