"""Central mechanisms: exact privacy from closed forms, enumeration or quadrature, and the sampled laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpspec.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace, gdp_parameter
from dpspec.privacy.mechanisms.exponential import Exponential
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.mechanisms.laplace import Laplace
from dpspec.privacy.mechanisms.noisy_max import NoisyMax
from dpspec.privacy.mechanisms.norm_laplace import NormLaplace, output_perturbation_sensitivity
from dpspec.privacy.mechanisms.objective import ObjectivePerturbation
from dpspec.privacy.mechanisms.peeling import Peeling, peeling
from dpspec.privacy.mechanisms.permute_and_flip import PermuteAndFlip
from dpspec.privacy.mechanisms.protocol import Central
from dpspec.privacy.mechanisms.smooth_sensitivity import SmoothStudent
from dpspec.privacy.mechanisms.smooth_student_vector import SmoothStudentVector
from dpspec.privacy.mechanisms.symmetric import (
    GaussianSymmetric,
    LaplaceSymmetric,
    second_moment_l1_sensitivity,
    second_moment_sensitivity,
)
from dpspec.privacy.mechanisms.wishart import SymmetrisedWishart, second_moment_nuclear_sensitivity, wishart_delta
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import SecureNoise, StudyNoise
from dpspec.privacy.schedule import Draw, Repeat, draws

P = 1e-6  # a sound sampler fails one test in a million: the secure source cannot be seeded

ALL = [
    Gaussian(0.5, 3),
    Laplace(0.5, 3),
    GaussianSymmetric(0.5, 3),
    LaplaceSymmetric(0.5, 3),
    Exponential(0.5, 4),
    PermuteAndFlip(0.5, 4),
    NoisyMax(0.5, 4),
    NoisyMax(0.5, 4, noise="gumbel"),
    NoisyMax(0.5, 4, noise="exponential"),
    Peeling(0.5, 4, 2),
    DiscreteLaplace(1.0),
    DiscreteGaussian(1.0),
    SymmetrisedWishart(0.5, 3),
    NormLaplace(0.5, 3),
    ObjectivePerturbation(100, 3, 1.0, 0.25, 0.01),
    SmoothStudent(0.01, 1e-6),
    SmoothStudentVector(0.01, 1e-6, 3),
]


@pytest.fixture(params=["study", "secure"])
def source(request):
    return StudyNoise(21, "mechanisms") if request.param == "study" else SecureNoise()


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.kind)
def test_every_mechanism_meets_the_protocol(mechanism):
    assert isinstance(mechanism, Central)
    assert mechanism.family in ("gaussian", "laplace", "bounded-range", "pure")
    assert mechanism.scale(0.7) > 0
    assert mechanism.reference
    for level in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="level"):
            mechanism.scale(level)
    hash(mechanism)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_sensitivities_are_positive_numbers(bad):
    for make in (Gaussian, Laplace, DiscreteLaplace, DiscreteGaussian):
        with pytest.raises(ValueError, match="sensitivity"):
            make(bad)
    for make in (Exponential, PermuteAndFlip, NoisyMax, NormLaplace, SymmetrisedWishart, GaussianSymmetric):
        with pytest.raises(ValueError, match="sensitivity"):
            make(bad, 3)


# ----------------------------------------------------------------------------------------------------------- selection

SCORES = np.array([0.3, 1.0, 0.9, -2.0])


def exponential_law(scores, scale):
    w = np.exp((scores - scores.max()) / scale)
    return w / w.sum()


def flip_law(scores, scale):
    """By enumerating the orders."""
    p = np.exp((scores - scores.max()) / scale)
    out = np.zeros(scores.size)
    orders = list(itertools.permutations(range(scores.size)))
    for order in orders:
        left = 1.0
        for i in order:
            out[i] += left * p[i] / len(orders)
            left *= 1 - p[i]
    return out


NODES, WEIGHTS = np.polynomial.legendre.leggauss(60)


def noisy_max_law(scores, scale):
    """By Gauss-Legendre quadrature over the winner's noise, piece by piece between the kinks of the densities."""
    law = stats.laplace(0, scale)
    out = []
    for i, s in enumerate(scores):
        others = np.delete(scores, i)
        kinks = {0.0, *(o - s for o in others)}
        cuts = np.array(sorted(kinks | {sign * m * scale + k for k in kinks for m in (2, 5, 10, 20, 40) for sign in (-1, 1)}))
        half = np.diff(cuts)[:, None] / 2
        z = (cuts[:-1, None] + half + half * NODES).ravel()
        wins = np.prod(law.cdf(s + z[:, None] - others), axis=1)
        out.append(float(np.sum(law.pdf(z) * wins * (half * WEIGHTS).ravel())))
    return np.array(out)


LAWS = {
    "exponential": exponential_law,
    "noisy-max-gumbel": exponential_law,
    "permute-and-flip": flip_law,
    "noisy-max-exponential": flip_law,
    "noisy-max-laplace": noisy_max_law,
}
SELECTIONS = [
    Exponential(0.5, 4),
    NoisyMax(0.5, 4, noise="gumbel"),
    PermuteAndFlip(0.5, 4),
    NoisyMax(0.5, 4, noise="exponential"),
    NoisyMax(0.5, 4),
]


@pytest.mark.parametrize("mechanism", SELECTIONS, ids=lambda m: m.kind)
def test_selection_law(mechanism, source):
    epsilon, n = 1.5, 4000
    expected = LAWS[mechanism.kind](SCORES, 2 * 0.5 / epsilon)
    assert expected.sum() == pytest.approx(1, abs=1e-8)
    counts = np.bincount([mechanism.apply(SCORES, epsilon, source) for _ in range(n)], minlength=4)
    assert stats.chisquare(counts, n * expected).pvalue > P


@pytest.mark.parametrize("mechanism", SELECTIONS, ids=lambda m: m.kind)
def test_selection_privacy_is_exact(mechanism):
    """Worst ratio over corners of the score changes: at most e^epsilon; the exponential mechanism also has range epsilon and reaches it in
    the limit of one candidate against many."""
    epsilon, delta = 1.2, 0.5
    law = LAWS[mechanism.kind]
    worst, widest = 0.0, 0.0
    starts = [SCORES, np.zeros(4), np.array([0.0, 0.0, 0.0, 6.0])]
    for scores in starts:
        base = law(scores, 2 * delta / epsilon)
        for change in itertools.product((-delta, delta), repeat=4):
            ratio = np.log(law(scores + np.array(change), 2 * delta / epsilon) / base)
            worst = max(worst, float(np.max(np.abs(ratio))))
            widest = max(widest, float(np.ptp(ratio)))
    assert worst <= epsilon * (1 + 1e-7)
    assert worst > 0.5 * epsilon
    if mechanism.family == "bounded-range":
        assert widest <= epsilon * (1 + 1e-9)


def test_permute_and_flip_is_not_bounded_range():
    """Why it is accounted as pure: its log ratios spread over more than epsilon."""
    epsilon, widest = 1.2, 0.0
    for scores in (np.zeros(4), np.array([0.0, 0.0, 0.5, 0.5]), SCORES):
        base = flip_law(scores, 1 / epsilon)
        for change in itertools.product((-0.5, 0.5), repeat=4):
            widest = max(widest, float(np.ptp(np.log(flip_law(scores + np.array(change), 1 / epsilon) / base))))
    assert widest > epsilon * 1.05


def test_monotone_exponential():
    epsilon = 1.0
    mechanism = Exponential(1.0, 3, monotone=True)
    assert mechanism.scale(epsilon) == 1.0
    worst = 0.0
    scores = np.array([0.0, 1.0, 3.0])
    for change in itertools.product((0.0, 1.0), repeat=3):
        ratio = np.log(exponential_law(scores + np.array(change), 1.0) / exponential_law(scores, 1.0))
        worst = max(worst, np.max(np.abs(ratio)), np.ptp(ratio))
    assert worst <= epsilon * (1 + 1e-12)
    counts = np.bincount([mechanism.apply(scores, epsilon, StudyNoise(1, i)) for i in range(4000)], minlength=3)
    assert stats.chisquare(counts, 4000 * exponential_law(scores, 1.0)).pvalue > P


@pytest.mark.parametrize("mechanism", SELECTIONS, ids=lambda m: m.kind)
def test_selection_survives_extreme_scores(mechanism, source):
    for scores in (np.array([1e308, -1e308, 0.0, 1e308]), np.array([-1e300, -1e300, -1e300, -1e300])):
        assert mechanism.apply(scores, 1.0, source) in np.flatnonzero(scores == scores.max())


# ------------------------------------------------------------------------------------------------------------- peeling


def test_peeling_privacy_by_quadrature():
    """kept = 1, dim = 2: joint law of (index, value) of neighbours; the ratio is at most 3*sensitivity/B = epsilon."""
    epsilon, sensitivity = 0.9, 0.4
    mechanism = Peeling(sensitivity, 2, 1)
    b = mechanism.scale(epsilon)
    assert b == pytest.approx(3 * 0.4 / 0.9)
    worst = 0.0
    v = np.array([1.0, 0.8])
    for change in itertools.product((-0.4, 0.4), repeat=2):
        u = v + np.array(change)
        chosen = np.log(noisy_max_law(np.abs(u), b) / noisy_max_law(np.abs(v), b))
        value = np.abs(np.array(change)) / b  # the sup of the Laplace log ratio
        worst = max(worst, float(np.max(np.abs(chosen) + value)))
    assert worst <= epsilon * (1 + 1e-9)
    assert worst > 0.6 * epsilon


def test_peeling_keeps_distinct_large_entries(source):
    v = np.zeros(50)
    v[[3, 7, 20]] = [100.0, -90.0, 80.0]
    out = Peeling(0.01, 50, 3).apply(v, 5.0, source)
    assert set(np.flatnonzero(out)) == {3, 7, 20}
    assert np.allclose(out, v, atol=0.3)


@pytest.mark.parametrize("selection", ["laplace", "gumbel", "permute-and-flip"])
@pytest.mark.parametrize("values", ["laplace", "gaussian"])
def test_peeling_as_a_tree(selection, values):
    tree = Repeat(peeling("top", 0.01, 50, 3, selection=selection, values=values), 2)
    counts = {name: leaf.total for name, leaf in draws(tree).items()}
    assert counts == {"top/select": 6, "top/value": 6 if values == "laplace" else 2}
    release = Release(_plan(tree, {"top/select": 5.0, "top/value": 2.0}), StudyNoise(3), mode="study")
    v = np.zeros(50)
    v[[3, 7, 20]] = [100.0, -90.0, 80.0]
    for _ in range(2):
        out = release.peel("top", v, sensitivity=0.01, kept=3)
        assert set(np.flatnonzero(out)) == {3, 7, 20}
        assert np.allclose(out, v, atol=1.0)
    assert [e["count"] for e in release.close()] == list(counts.values())


def _plan(tree, levels):
    class Plan:
        pass

    plan = Plan()
    plan.tree, plan.levels = tree, levels
    return plan


def test_a_pure_peeling_draw_through_the_meter():
    release = Release(_plan(Draw("top", Peeling(0.1, 4, 2)), {"top": 1.0}), StudyNoise(3), mode="study")
    assert np.count_nonzero(release.peel("top", np.array([50.0, 40.0, 0, 0]), sensitivity=0.1)) == 2
    release.close()


# ------------------------------------------------------------------------------------------------------------ discrete


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_discrete_gaussian_is_gdp(sigma, shift):
    """Hockey-stick divergence of the discrete law against that of mu-GDP, at many epsilon, by direct summation."""
    parameter = gdp_parameter(sigma)
    mu = shift / sigma
    reach = int(14 * parameter) + 5 * shift + 20
    z = np.arange(-reach, reach + 1, dtype=float)
    p = np.exp(-0.5 * (z / parameter) ** 2)
    p /= p.sum()
    q = np.exp(-0.5 * ((z - shift) / parameter) ** 2)
    q /= np.exp(-0.5 * ((np.arange(-reach - shift, reach + 1)) / parameter) ** 2).sum()
    for epsilon in np.linspace(0, min(mu**2 / 2 + 5 * mu, 30), 60):
        exact = np.sum(np.maximum(q - np.exp(epsilon) * p, 0.0))
        claim = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        assert exact <= claim * (1 + 1e-7) + 1e-15


def test_the_nominal_discrete_gaussian_is_not_gdp():
    """Why the parameter is inflated: at sigma 1 the uninflated law breaks 1-GDP."""
    z = np.arange(-40, 41, dtype=float)
    p = np.exp(-0.5 * z**2)
    p /= p.sum()
    q = np.roll(p, 1)
    excess = max(
        np.sum(np.maximum(q - np.exp(e) * p, 0)) - (stats.norm.cdf(0.5 - e) - math.exp(e) * stats.norm.cdf(-0.5 - e))
        for e in np.linspace(0, 5, 51)
    )
    assert excess > 1e-4


def test_discrete_laplace_ratio(source):
    mechanism = DiscreteLaplace(2.0, size=2)
    assert mechanism.scale(0.5) == 4.0
    out = mechanism.apply(np.array([5, -3]), 0.5, source)
    assert out.dtype == np.int64
    z = np.arange(-300, 301)
    p = np.exp(-np.abs(z) / 4.0)
    assert np.max(np.abs(np.log(p[2:] / p[:-2]))) == pytest.approx(0.5)
    assert mechanism.check(np.array([0.5, 1.0])) is not None
    assert DiscreteGaussian(1.0).check(1.5) is not None
    assert DiscreteGaussian(1.0).apply(np.array(3), 2.0, source).shape == ()


# ------------------------------------------------------------------------------------------------------------ matrices


def _ball_pairs(rng, dim, count=4000):
    x = rng.normal(size=(count, 2, dim))
    return x / np.linalg.norm(x, axis=2, keepdims=True)


@pytest.mark.parametrize("dim", [1, 2, 3, 8])
def test_second_moment_sensitivities(dim):
    """No pair of records does better than the claim, in three norms; the claimed extremes are attained where the docstring says so."""
    rng = np.random.default_rng(5)
    pairs = _ball_pairs(rng, dim)
    pairs = np.concatenate([pairs, [[np.eye(dim)[0], np.eye(dim)[min(1, dim - 1)]]], pairs * rng.uniform(size=(4000, 2, 1))])
    diff = np.einsum("ni,nj->nij", pairs[:, 0], pairs[:, 0]) - np.einsum("ni,nj->nij", pairs[:, 1], pairs[:, 1])
    upper = diff[:, *np.triu_indices(dim)]
    n, r = 50, 2.0
    scale = r**2 / n
    assert np.max(np.linalg.norm(diff, axis=(1, 2))) * scale <= second_moment_sensitivity(r, n, dim) * (1 + 1e-12)
    assert np.max(np.linalg.norm(upper, axis=1)) * scale <= second_moment_sensitivity(r, n, dim) * (1 + 1e-12)
    assert np.max(np.sum(np.abs(upper), axis=1)) * scale <= second_moment_l1_sensitivity(r, n, dim) * (1 + 1e-12)
    assert np.max(np.sum(np.abs(np.linalg.eigvalsh(diff)), axis=1)) * scale <= second_moment_nuclear_sensitivity(r, n) * (1 + 1e-12)
    if dim > 1:
        e = np.diag([1.0, -1.0] + [0.0] * (dim - 2))
        assert np.linalg.norm(e) * scale == pytest.approx(second_moment_sensitivity(r, n, dim))
        assert np.sum(np.abs(np.linalg.eigvalsh(e))) * scale == pytest.approx(second_moment_nuclear_sensitivity(r, n))
    single = np.outer(np.ones(dim), np.ones(dim)) / dim
    assert np.sum(single[np.triu_indices(dim)]) * scale == pytest.approx(second_moment_l1_sensitivity(r, n, dim, "add-remove"))
    if dim == 2:
        assert np.max(np.sum(np.abs(upper), axis=1)) > 0.99 * math.sqrt(5)


def test_symmetric_gaussian_noise(source):
    dim, level, n = 3, 2.0, 1500
    for shape, off in (("isotropic", 1 / math.sqrt(2)), ("upper", 1.0)):
        mechanism = GaussianSymmetric(0.5, dim, shape=shape)
        value = np.arange(9.0).reshape(3, 3)
        value = value + value.T
        out = np.array([mechanism.apply(value, level, source) for _ in range(n)])
        assert np.array_equal(out, np.swapaxes(out, 1, 2))
        noise = out - value
        assert stats.kstest(noise[:, 0, 0], stats.norm(0, 1.0).cdf).pvalue > P
        assert stats.kstest(noise[:, 0, 1], stats.norm(0, off).cdf).pvalue > P
        assert abs(np.corrcoef(noise[:, 0, 0], noise[:, 1, 2])[0, 1]) < 0.13
    # isotropic: the privacy loss depends on the Frobenius norm alone, mu = |D|_F/scale
    d = np.array([[0.1, 0.3, 0], [0.3, -0.2, 0.1], [0, 0.1, 0]])
    mu2 = np.sum(np.diag(d) ** 2) / 1.0 + 2 * np.sum(np.triu(d, 1) ** 2) / 1.0  # diagonal variance 1, off-diagonal 1/2
    assert math.sqrt(mu2) == pytest.approx(np.linalg.norm(d))


def test_symmetric_laplace_noise(source):
    mechanism = LaplaceSymmetric(0.5, 2)
    out = np.array([mechanism.apply(np.zeros((2, 2)), 3.0, source) for _ in range(1500)])
    assert np.array_equal(out, np.swapaxes(out, 1, 2))
    for i, j in ((0, 0), (0, 1), (1, 1)):
        assert stats.kstest(out[:, i, j], stats.laplace(0, 1.5).cdf).pvalue > P
    assert mechanism.check(np.zeros(4)) is not None
    assert mechanism.check(np.zeros((2, 2))) is None


def test_symmetrised_wishart_in_dimension_one_is_laplace(source):
    """W_1(2, t) is t times a chi-square with 2 degrees, exponential of mean 2t; a difference of two is Laplace(2t)."""
    mechanism = SymmetrisedWishart(0.6, 1)
    out = np.array([mechanism.apply(np.array([[2.0]]), 1.5, source)[0, 0] for _ in range(2000)])
    assert stats.kstest(out, stats.laplace(2.0, 0.6 / 1.5).cdf).pvalue > P


def test_symmetrised_wishart_ratio_in_dimension_two():
    """Density of N = W1 - W2 (d = 2, t = 1) at a point and its shift, on a grid over W: the log ratio is within |Delta|_*/(2t).

    With m = d + 1 the Wishart density is exp(-tr W/2) on the cone, so f(N) is an integral of exp(-(2 tr W - tr N)/2) over W > 0, W > N.
    """

    def density(shift):
        a = np.linspace(0.0, 30.0, 241)
        w11, w22 = np.meshgrid(a, a, indexing="ij")
        total = 0.0
        for w12 in np.linspace(-12.0, 12.0, 241):
            inside = (w11 * w22 > w12**2) & ((w11 - shift[0, 0]) > 0) & ((w22 - shift[1, 1]) > 0)
            inside &= (w11 - shift[0, 0]) * (w22 - shift[1, 1]) > (w12 - shift[0, 1]) ** 2
            total += np.sum(np.exp(-(2 * (w11 + w22) - np.trace(shift)) / 2) * inside)
        return total

    rng = np.random.default_rng(6)
    worst = 0.0
    for _ in range(4):
        n, d = rng.normal(size=(2, 2, 2))
        n, d = n + n.T, 0.5 * (d + d.T)
        nuclear = np.sum(np.abs(np.linalg.eigvalsh(d)))
        worst = max(worst, abs(math.log(density(n) / density(n + d))) / (nuclear / 2))
    assert 0.1 < worst <= 1.02  # 2% for the grid


def test_symmetrised_wishart_moments():
    """Each W has covariance t^2*m*(delta_ik delta_jl + delta_il delta_jk), so Var N_ij = 2 t^2 (d + 1), twice that on the diagonal."""
    mechanism = SymmetrisedWishart(1.0, 4)
    t = mechanism.scale(0.5)
    out = np.array([mechanism.apply(np.zeros((4, 4)), 0.5, StudyNoise(4, i)) for i in range(6000)])
    assert np.var(out[:, 0, 1]) == pytest.approx(2 * t**2 * 5, rel=0.08)
    assert np.var(out[:, 2, 2]) == pytest.approx(4 * t**2 * 5, rel=0.08)
    assert abs(out[:, 2, 2].mean()) < 5 * math.sqrt(20) * t / math.sqrt(6000)


@pytest.mark.parametrize(
    ("epsilon", "delta", "q"), [(0.5, 0.01, 14.4), (1.0, 0.01, 9.7), (1.5, 0.01, 8.3), (0.5, 1e-4, 46.6), (1.0, 1e-4, 25.0)]
)
def test_one_sided_wishart_delta(epsilon, delta, q):
    """The least q = m - d + 1 of the catalogue (computed there by noncentral tails) brackets delta."""
    assert wishart_delta(q + 3 - 1 - 0.1, 3, epsilon) > delta
    assert wishart_delta(q + 3 - 1 + 0.1, 3, epsilon) < delta


def test_the_printed_pure_wishart_claim_is_false():
    """000 Lemma 6.3.2: for m = d + 1 (q = 2) the supports differ with probability P(chi2_2 <= 1) = 1 - e^(-1/2), whatever epsilon."""
    assert wishart_delta(6, 5, 50.0) == pytest.approx(1 - math.exp(-0.5), rel=1e-6)


# ----------------------------------------------------------------------------------------------- output and objective


def test_norm_laplace(source):
    dim, n = 3, 1500
    mechanism = NormLaplace(0.5, dim)
    value = np.array([1.0, 2.0, 3.0])
    z = np.array([mechanism.apply(value, 2.0, source) for _ in range(n)]) - value
    assert stats.kstest(np.linalg.norm(z, axis=1), stats.gamma(dim, scale=0.25).cdf).pvalue > P
    u = z[:, 0] / np.linalg.norm(z, axis=1)
    assert stats.kstest(u, stats.uniform(-1, 2).cdf).pvalue > P  # a coordinate of the 2-sphere is uniform
    # the log ratio of two centres is (|z - h| - |z|)/b <= |h|/b, attained along h
    assert 0.5 / mechanism.scale(2.0) == 2.0


def test_output_perturbation_sensitivity_bounds_real_minimisers():
    """Ridge-regularised logistic regression with unit rows: neighbours' minimisers by Newton's method."""
    rng = np.random.default_rng(7)
    n, dim, mu = 30, 3, 0.1
    x = rng.normal(size=(n + 1, dim))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = rng.choice([-1.0, 1.0], size=n + 1)

    def solve(rows, signs):
        w = np.zeros(dim)
        for _ in range(60):
            p = 1 / (1 + np.exp(signs * (rows @ w)))
            g = -(rows * (signs * p)[:, None]).mean(axis=0) + mu * w
            h = (rows.T * (p * (1 - p))) @ rows / n + mu * np.eye(dim)
            w -= np.linalg.solve(h, g)
        return w

    base = solve(x[:n], y[:n])
    worst = 0.0
    for i in range(n):
        for sign in (-1.0, 1.0):
            a, b = x[:n].copy(), y[:n].copy()
            a[i], b[i] = x[n], sign
            worst = max(worst, np.linalg.norm(solve(a, b) - base))
    claim = output_perturbation_sensitivity(1.0, n, mu)
    assert claim == pytest.approx(2 / (30 * 0.1))
    assert 0.05 * claim < worst <= claim
    assert output_perturbation_sensitivity(1.0, n, mu, tolerance=0.01) == pytest.approx(claim + 0.2)
    assert output_perturbation_sensitivity(1.0, n, mu, neighbours="add-remove") == pytest.approx(claim / 2)


@pytest.mark.parametrize(("epsilon", "l2"), [(0.3, 0.0), (1.0, 0.001), (1.0, 0.2), (3.0, 0.0)])
def test_objective_perturbation_ratio_in_one_dimension(epsilon, l2):
    """Logistic loss, x, y in [-1, 1]: the density of the output w is f(b(w))*|db/dw| in closed form; worst log ratio over neighbours."""
    n = 10
    mechanism = ObjectivePerturbation(n, 1, 1.0, 0.25, l2)
    rate, total = 1 / mechanism.scale(epsilon), l2 + mechanism.extra(epsilon)
    assert mechanism.linear_epsilon(epsilon) >= epsilon / 2 * (1 - 1e-9)
    w = np.linspace(-30, 30, 4001)

    def log_density(x, y):
        m = np.outer(w, x * y)
        p = 1 / (1 + np.exp(m))
        b = -(-(p * (x * y)).sum(axis=1) + n * total * w)
        jacobian = (p * (1 - p) * x**2).sum(axis=1) + n * total
        return -rate * np.abs(b) + np.log(jacobian)

    rng = np.random.default_rng(8)
    worst = 0.0
    for trial in range(150):
        x, y = rng.choice([-1.0, 1.0, 0.0, 0.5], size=n), rng.choice([-1.0, 1.0], size=n)
        if trial % 3 == 0:
            x = np.zeros(n)
        a, c = x.copy(), y.copy()
        a[0], c[0] = rng.choice([-1.0, 0.0, 1.0]), -y[0]
        worst = max(worst, float(np.max(np.abs(log_density(x, y) - log_density(a, c)))))
    assert 0.4 * epsilon < worst <= epsilon * (1 + 1e-9)


def test_objective_perturbation_hands_over_a_linear_term():
    mechanism = ObjectivePerturbation(50, 2, 1.0, 0.25, 0.1)
    seen = []
    lengths = []
    for i in range(1500):
        out = mechanism.apply(lambda linear, extra: seen.append(extra) or -linear, 1.0, StudyNoise(9, i))
        lengths.append(50 * np.linalg.norm(out))
    assert stats.kstest(lengths, stats.gamma(2, scale=mechanism.scale(1.0)).cdf).pvalue > P
    assert set(seen) == {mechanism.extra(1.0)}
    with pytest.raises(ValueError, match="solver"):
        mechanism.apply(lambda linear, extra: np.array([np.nan, 0.0]), 1.0, StudyNoise(1))


# ------------------------------------------------------------------------------------------------------- smooth bounds


@pytest.mark.parametrize(("epsilon", "freedom"), [(0.5, 3), (1.0, 3), (1.0, 5), (3.0, 10)])
def test_smooth_student_privacy(epsilon, freedom):
    """Worst log ratio between T and e^(+-t) T + shift over a fine set, by scipy's density."""
    t = epsilon / (2 * freedom)
    mechanism = SmoothStudent(t, 1e-9, freedom)
    s = 1 / mechanism.scale(epsilon)
    x = np.concatenate([np.linspace(-60, 60, 60_001), np.geomspace(60, 1e8, 2000), -np.geomspace(60, 1e8, 2000)])
    law = stats.t(freedom)
    worst = 0.0
    for dilation in (-t, 0.0, t):
        for shift in (-s, 0.0, s):
            other = law.logpdf((x - shift) * math.exp(-dilation)) - dilation
            worst = max(worst, float(np.max(np.abs(other - law.logpdf(x)))))
    assert 0.7 * epsilon < worst <= epsilon * (1 + 1e-9)


def test_smooth_student_law_and_resolution(source):
    mechanism = SmoothStudent(0.05, 2.0**-20)
    out = np.array([mechanism.apply((4.0, 0.5), 1.0, source) for _ in range(2000)])
    assert stats.kstest((out - 4.0) / (0.5 * mechanism.scale(1.0)), stats.t(3).cdf).pvalue > P
    if source.secure:
        assert np.array_equal(np.rint(out * 2.0**20), out * 2.0**20)
    with pytest.raises(ValueError, match="spends"):
        SmoothStudent(0.4, 1e-6).scale(1.0)
    assert SmoothStudent(0.05, 1e-6).check((1.0, 0.0)) is not None


def test_the_meter_draws_every_method():
    plan = {
        "smooth": (SmoothStudent(0.05, 1e-6), 1.0),
        "norm": (NormLaplace(0.5, 3), 1.0),
        "objective": (ObjectivePerturbation(100, 3, 1.0, 0.25, 0.01), 1.0),
        "wishart": (SymmetrisedWishart(0.5, 2), 1.0),
        "exponential": (Exponential(0.5, 4), 1.0),
        "flip": (PermuteAndFlip(0.5, 4), 1.0),
        "noisy": (NoisyMax(0.5, 4), 1.0),
        "matrix": (GaussianSymmetric(0.5, 2), 1.0),
        "entries": (LaplaceSymmetric(0.5, 2), 1.0),
        "count": (DiscreteGaussian(1.0), 1.0),
    }
    from dpspec.privacy.schedule import Sequence

    tree = Sequence(tuple(Draw(name, mechanism) for name, (mechanism, _) in plan.items()))
    for mode, noise in (("study", StudyNoise(1)), ("release", SecureNoise())):
        release = Release(_plan(tree, {name: level for name, (_, level) in plan.items()}), noise, mode=mode)
        assert isinstance(release.draw("smooth", (1.0, 0.1), sensitivity=0.05), float)
        assert release.draw("norm", np.zeros(3), sensitivity=0.5).shape == (3,)
        assert release.draw("objective", lambda linear, extra: linear, sensitivity=2.0).shape == (3,)
        assert release.draw("wishart", np.eye(2), sensitivity=0.5).shape == (2, 2)
        for name in ("exponential", "flip", "noisy"):
            assert release.draw(name, SCORES, sensitivity=0.5) in range(4)
        assert release.draw("matrix", np.eye(2), sensitivity=0.5).shape == (2, 2)
        assert release.draw("entries", np.eye(2), sensitivity=0.5).shape == (2, 2)
        assert float(release.draw("count", 3, sensitivity=1.0)).is_integer()
        assert len(release.close()) == len(plan)
