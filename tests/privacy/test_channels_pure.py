"""The pure channels: the exact law of the code by enumeration of its coins, then ratio, bias and variance against closed forms.

``Enumerate`` plays every outcome of every coin of one call of a client, with exact probabilities, so what is checked is the code that runs.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy import integrate, special, stats

from dpspec.privacy.channels.cube import Cube
from dpspec.privacy.channels.genprot import GenProt, base_epsilon, public_uniform, window_epsilon
from dpspec.privacy.channels.hadamard_response import HadamardResponse
from dpspec.privacy.channels.hemisphere import Hemisphere
from dpspec.privacy.channels.laplace_vector import LaplaceVector
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.channels.priv_unit import PrivUnit, best_cap
from dpspec.privacy.channels.protocol import Channel
from dpspec.privacy.channels.randomized_response import BinaryResponse, KaryResponse
from dpspec.privacy.channels.sampled_coordinate import SampledCoordinate
from dpspec.privacy.channels.subset_selection import SubsetSelection
from dpspec.privacy.channels.unary_encoding import UnaryEncoding
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import SecureNoise, StudyNoise, keep_threshold
from dpspec.privacy.schedule import Draw

P = 1e-6  # a sound sampler fails one test in a million: the secure source cannot be seeded


class Enumerate:
    """A source that follows a list of choices and notes where more choices exist."""

    secure = False

    def __init__(self, path):
        self.path, self.step, self.branches, self.probability = path, 0, [], Fraction(1)

    def _choose(self, outcomes):
        outcomes = [(value, p) for value, p in outcomes if p > 0]
        i = self.path[self.step] if self.step < len(self.path) else 0
        self.branches.append(len(outcomes))
        self.step += 1
        self.probability *= outcomes[i][1]
        return outcomes[i][0]

    def bernoulli(self, p, size):
        chances = np.broadcast_to(np.array(p, dtype=object), size)
        return np.array([self._choose([(False, 1 - Fraction(c)), (True, Fraction(c))]) for c in chances.ravel()]).reshape(size)

    def keep(self, epsilon, size):
        return self.bernoulli(Fraction(keep_threshold(epsilon), 2**64), size)

    def sign(self, size):
        return np.where(self.bernoulli(Fraction(1, 2), size), 1.0, -1.0)

    def integers(self, high, size):
        if high == 2**62 and isinstance(size, tuple):  # keys that order the columns
            orders = list(itertools.permutations(range(size[1])))
            return np.array([self._choose([(order, Fraction(1, len(orders))) for order in orders])], dtype=np.int64)
        if high == 2**62:  # a public salt: any fixed one
            return np.full(size, 12345, dtype=np.int64)
        return np.array([self._choose([(v, Fraction(1, high)) for v in range(high)]) for _ in range(math.prod(np.atleast_1d(size)))])


def law(channel, record, level):
    """{report: exact probability} of one record."""
    out, path = {}, []
    while True:
        noise = Enumerate(path)
        report = np.asarray(channel.encode(record, level, noise))
        key = tuple(np.ravel(report).tolist())
        out[key] = out.get(key, Fraction(0)) + noise.probability
        path = path[: noise.step] + [0] * (noise.step - len(path))
        while path and path[-1] + 1 == noise.branches[len(path) - 1]:
            path.pop()
        if not path:
            assert sum(out.values()) == 1
            return out
        path[-1] += 1


CUBE3 = [np.array(c) * s for c in itertools.product((-1.0, 1.0), repeat=3) for s in (1.0, 0.3)] + [np.array([0.5, -2.0, 7.0]), np.zeros(3)]
CUBE2 = [np.array(c) for c in itertools.product((-1.0, 0.0, 0.4, 1.0), repeat=2)]
NUMBERS = [np.array([v]) for v in (-5.0, -1.0, -0.2, 0.0, 0.7, 1.0, math.nan, math.inf)]
CASES = [
    (OneBitMean(1.0), NUMBERS, 1),
    (SampledCoordinate(3, 1.0), CUBE3, 3),
    (Cube(1, 1.0), NUMBERS, 1),
    (Cube(2, 1.0), CUBE2, 2),
    (Cube(3, 1.0), CUBE3, 3),
    (BinaryResponse(), [0, 1], None),
    (KaryResponse(2), range(2), None),
    (KaryResponse(5), range(5), None),
    (UnaryEncoding(3), range(3), None),
    (UnaryEncoding(4, form="symmetric"), range(4), None),
    (HadamardResponse(3), range(3), None),
    (HadamardResponse(6), range(6), None),
    (SubsetSelection(4), range(4), None),
    (SubsetSelection(5), range(5), None),
]
IDS = [f"{c.kind}-{getattr(c, 'k', '') or getattr(c, 'dim', '')}" for c, _, _ in CASES]


def worst_ratio(laws):
    support = set().union(*laws)
    return max(max(one[r] for one in laws) / min(one[r] for one in laws) for r in support)


@pytest.mark.parametrize(("channel", "records", "dim"), CASES, ids=IDS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_ratio_is_exactly_e_to_the_epsilon(channel, records, dim, epsilon):
    ratio = worst_ratio([law(channel, record, epsilon) for record in records])
    before, ctx.prec = ctx.prec, 300
    try:
        loss = (arb(ratio.numerator) / arb(ratio.denominator)).log()
        assert loss <= arb(epsilon)  # never above, in ball arithmetic on the exact law of the code
        assert float(loss) > epsilon * (1 - 1e-9)  # and it is used up
    finally:
        ctx.prec = before


def clipped(record, dim):
    x = np.array(record, dtype=float)
    return np.zeros(dim) if not np.isfinite(x).all() else np.clip(x, -1, 1)


@pytest.mark.parametrize(("channel", "records", "dim"), CASES, ids=IDS)
def test_unbiased_with_the_stated_variance(channel, records, dim):
    epsilon = 1.3
    for record in records:
        exact = law(channel, record, epsilon)
        estimates = {r: channel.aggregate(np.array([r]) if len(r) > 1 else np.array(r), epsilon) for r in exact}
        mean = sum(float(p) * estimates[r] for r, p in exact.items())
        if dim is not None:
            truth = clipped(record, dim)
        elif channel.kind == "binary-response":
            truth = np.array([float(record)])
        else:
            truth = np.eye(channel.k)[record]
        assert np.allclose(mean, truth, atol=1e-9)
        spread = sum(float(p) * np.sum((estimates[r] - truth) ** 2) for r, p in exact.items())
        norm = float(np.linalg.norm(truth))
        p, q = math.e**1.3 / (1 + math.e**1.3), 1 / (1 + math.e**1.3)
        if channel.kind in ("one-bit-mean", "sampled-coordinate", "cube"):
            assert spread == pytest.approx(channel.variance(epsilon, norm), rel=1e-9)
        elif channel.kind == "binary-response":
            assert spread == pytest.approx(channel.variance(epsilon), rel=1e-9)
            assert spread == pytest.approx(p * q / (p - q) ** 2, rel=1e-9)
        elif channel.kind == "hadamard-response":
            assert spread <= channel.k * channel.variance(epsilon)
        elif channel.kind == "optimised-unary-encoding":  # Wang et al. 2017: 4 e^eps/(e^eps - 1)^2 for a zero, plus 1 for the set bit
            zero = 4 * math.e**1.3 / (math.e**1.3 - 1) ** 2
            assert spread == pytest.approx(channel.k * zero + 1, rel=1e-9)
        elif channel.kind == "kary-response":  # n = 1: category j has a Bernoulli report scaled by 1/a
            a = (math.e**1.3 - 1) / (math.e**1.3 - 1 + channel.k)
            hit, miss = a + (1 - a) / channel.k, (1 - a) / channel.k
            assert spread == pytest.approx((hit * (1 - hit) + (channel.k - 1) * miss * (1 - miss)) / a**2, rel=1e-9)


ALL = [
    *((c, records) for c, records, _ in CASES),
    (LaplaceVector(2, 1.0), CUBE2),
    (LaplaceVector(2, 1.0, ball="linf"), CUBE2),
    (Hemisphere(2, 1.0), CUBE2),
    (PrivUnit(3, 1.0), CUBE3),
    (GenProt(1.0, length=6), NUMBERS),
]
ALL_IDS = [f"{c.kind}-{getattr(c, 'k', '') or getattr(c, 'dim', '')}-{i}" for i, (c, _) in enumerate(ALL)]


@pytest.mark.parametrize(("channel", "records"), ALL, ids=ALL_IDS)
def test_the_aggregate_has_the_law_of_the_clients(channel, records):
    assert isinstance(channel, Channel)
    level = 1.2
    values = np.array(list(records)[-3:])
    a = np.array([channel.aggregate(channel.encode(values, level, StudyNoise(31, i)), level) for i in range(1500)])
    b = np.array([channel.sample_mean(values, level, StudyNoise(32, i)) for i in range(1500)])
    assert a.shape == b.shape
    for j in range(a.shape[1]):
        # discrete estimates: compare frequencies of values; continuous ones: two-sample test
        if len(np.unique(np.round(a[:, j], 9))) < 60:
            x, y = np.round(a[:, j], 7), np.round(b[:, j], 7)
            table = np.array([[np.sum(x == v), np.sum(y == v)] for v in np.unique(np.concatenate([x, y]))])
            table = table[table.sum(axis=1) >= 10]
            assert table.shape[0] == 1 or stats.chi2_contingency(table).pvalue > P
        else:
            assert stats.ks_2samp(a[:, j], b[:, j]).pvalue > P
        spread = b[:, j].std() + 1e-12
        assert abs(a[:, j].mean() - b[:, j].mean()) < 5 * spread * math.sqrt(2 / 1500)


@pytest.mark.parametrize(("channel", "records"), ALL, ids=ALL_IDS)
@pytest.mark.parametrize("secure", [False, True])
def test_large_groups_are_estimated(channel, records, secure):
    level, n = 1.5, 4000 if secure else 20_000
    source = SecureNoise() if secure else StudyNoise(33)
    values = np.array(list(records))[np.arange(n) % len(records)]
    if getattr(channel, "k", 0) or channel.kind == "binary-response":
        k = getattr(channel, "k", 2)
        truth = np.bincount(values, minlength=k) / n
        truth = truth[1:2] if channel.kind == "binary-response" else truth
    else:
        finite = np.where(np.isfinite(values), values, 0.0).astype(float)
        if channel.kind in ("hemisphere", "priv-unit"):
            finite = finite / np.maximum(1.0, np.linalg.norm(finite, axis=1, keepdims=True))
        elif channel.kind == "laplace-vector" and channel.ball == "l1":
            finite = finite / np.maximum(1.0, np.abs(finite).sum(axis=1, keepdims=True))
        truth = np.clip(finite, -1, 1).mean(axis=0)
    runs = [channel.aggregate(channel.encode(values, level, source), level)]
    if not secure:
        runs.append(channel.sample_mean(values, level, source))
    for out in runs:
        assert out.shape == truth.shape
        assert np.all(np.abs(out - truth) < 5 * (2 * channel.scale(level) + 1) / math.sqrt(n))


@pytest.mark.parametrize(("channel", "records"), ALL, ids=ALL_IDS)
def test_single_records_stream(channel, records):
    record = list(records)[-1]
    one = np.asarray(channel.encode(record, 1.0, StudyNoise(34)))
    many = np.asarray(channel.encode(np.array([record]), 1.0, StudyNoise(34)))
    assert many.shape[0] == 1 or one.shape == many.shape
    assert np.array_equal(np.ravel(one), np.ravel(many))


@pytest.mark.parametrize("channel", [KaryResponse(3), UnaryEncoding(3), HadamardResponse(3), SubsetSelection(3)], ids=lambda c: c.kind)
def test_odd_categories_are_the_first_one(channel):
    """NaN, fractions and values out of range must look exactly like category 0."""
    odd = [-1, 3, 1.5, math.nan, math.inf, 1e300]
    for value in odd:
        assert law(channel, value, 1.0) == law(channel, 0, 1.0)


# ----------------------------------------------------------------------------------------------------------- PrivUnit


@pytest.mark.parametrize("dim", [2, 3, 10, 200])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0])
def test_priv_unit_cap(dim, epsilon):
    """Mass, ratio and mean by quadrature of the law of one coordinate of the sphere."""
    cap = best_cap(dim, epsilon)
    log_c = math.lgamma(dim / 2) - math.lgamma((dim - 1) / 2) - 0.5 * math.log(math.pi)

    def density(a):  # of the angle: t = cos(a)
        return math.exp(log_c + (dim - 2) * math.log(max(math.sin(a), 1e-300)))

    edge = math.acos(cap.height)
    points = [math.pi / 2] if edge < math.pi / 2 else None
    mass = integrate.quad(density, 0, edge)[0]
    inside_mean = integrate.quad(lambda a: math.cos(a) * density(a), 0, edge)[0]
    outside_mean = integrate.quad(lambda a: math.cos(a) * density(a), edge, math.pi, points=points)[0]
    assert cap.mass == pytest.approx(mass, rel=1e-6)
    p = float(cap.inside)
    loss = math.log(p / mass * (1 - mass) / (1 - p))
    assert loss == pytest.approx(epsilon, rel=1e-5)
    assert math.log(p / cap.mass * (1 - cap.mass) / (1 - p)) <= epsilon
    assert cap.mean == pytest.approx(p * inside_mean / mass + (1 - p) * outside_mean / (1 - mass), rel=1e-5)
    # no other cap on a grid does better
    grid = np.linspace(0.0, 0.999, 2000)
    masses = special.betainc((dim - 1) / 2, (dim - 1) / 2, (1 - grid) / 2)
    means = np.exp(log_c + (dim - 1) / 2 * np.log1p(-(grid**2))) / (dim - 1) * np.expm1(epsilon) / (1 + np.expm1(epsilon) * masses)
    assert cap.mean >= means.max() * (1 - 1e-9)


def test_priv_unit_beats_the_hemisphere():
    for dim, epsilon, gain in ((100, 0.2, 1.0), (100, 4.0, 2.0), (100, 8.0, 4.0)):
        assert PrivUnit(dim, 1.0).variance(epsilon) * gain <= Hemisphere(dim, 1.0).variance(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("secure", [False, True])
def test_priv_unit_law(secure):
    """<u, v> has the mixture law; every report has length B; both samplers."""
    channel, epsilon, n = PrivUnit(4, 2.0), 2.0, 6000
    source = SecureNoise() if secure else StudyNoise(35)
    v = np.array([0.0, 2.0, 0.0, 0.0])  # on the sphere: v = x/|x| surely
    out = channel.encode(np.tile(v, (n, 1)), epsilon, source) / channel.scale(epsilon)
    assert np.allclose(np.linalg.norm(out, axis=1), 1, atol=1e-9)
    cap = best_cap(4, epsilon)
    t = out[:, 1]
    p = float(cap.inside)

    def cdf(s):
        below = stats.beta(1.5, 1.5).cdf((1 + np.minimum(s, cap.height)) / 2) / (1 - cap.mass)
        above = np.maximum(stats.beta(1.5, 1.5).cdf((1 + s) / 2) - (1 - cap.mass), 0) / cap.mass
        return (1 - p) * below + p * above

    assert stats.kstest(t, cdf).pvalue > P
    u = out[:, 0] / np.sqrt(1 - t**2)
    assert stats.kstest(u, stats.uniform(-1, 2).cdf).pvalue > P  # the orthogonal part is uniform on the 2-sphere


def test_priv_unit_refuses_caps_that_it_cannot_draw_exactly():
    with pytest.raises(ValueError, match="smaller epsilon"):
        PrivUnit(50, 1.0).encode(np.zeros((1, 50)), 14.0, SecureNoise())
    with pytest.raises(ValueError, match="dimension"):
        PrivUnit(1, 1.0)


# ------------------------------------------------------------------------------------------------------------- GenProt


def _index_law(p):
    """P(g = t) by summing over all acceptance patterns."""
    length = len(p)
    out = np.zeros(length)
    for pattern in itertools.product((0, 1), repeat=length):
        chance = math.prod(p[t] if pattern[t] else 1 - p[t] for t in range(length))
        chosen = [t for t in range(length) if pattern[t]] or list(range(length))
        for t in chosen:
            out[t] += chance / len(chosen)
    return out


@pytest.mark.parametrize("length", [2, 3, 5])
def test_window_epsilon_is_the_worst_case(length):
    half = 0.3
    low, high = 0.5 * math.exp(-half), 0.5 * math.exp(half)
    corners = [_index_law(p) for p in itertools.product((low, high), repeat=length)]
    worst = max(float(np.max(np.log(a / b))) for a in corners for b in corners)
    assert window_epsilon(half, length) == pytest.approx(worst, rel=1e-12)
    rng = np.random.default_rng(0)
    inside = [_index_law(rng.uniform(low, high, size=length)) for _ in range(100)]
    assert max(float(np.max(np.log(a / b))) for a in inside for b in inside) < worst


def test_window_epsilon_of_the_documents_window():
    """000 section 5.1.7: the window e^(+-2 eps) with T = 20 gives 7.997 eps at eps = 1/4 by an independent computation."""
    assert window_epsilon(0.5, 20) / 0.25 == pytest.approx(7.997, abs=0.01)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_genprot_client_is_within_its_epsilon(epsilon):
    """Exact law of the index that the code sends, for one salt, over records; records at the ends use up most of the budget."""
    channel = GenProt(1.0, length=4, seed=3)
    laws = [law(channel, v, epsilon) for v in NUMBERS]
    ratio = worst_ratio(laws)
    assert math.log(ratio) <= epsilon
    assert math.log(ratio) > 0.2 * epsilon
    assert window_epsilon(base_epsilon(epsilon, 4) / 2, 4) <= epsilon


def test_genprot_decodes_to_the_laplace_law():
    channel, epsilon, n = GenProt(1.0, length=24), 1.0, 20_000
    reports = channel.encode(np.full((n, 1), 0.6), epsilon, StudyNoise(36))
    assert stats.kstest(channel.decode(reports, epsilon), stats.laplace(0.6, channel.scale(epsilon)).cdf).pvalue > P
    assert reports[:, 1].max() < 24


def test_genprot_factor_with_a_short_list():
    """T = 2: a quarter of the clients accept nothing and send a rejected sample of mean -v; the estimate stays unbiased."""
    channel, epsilon, n = GenProt(1.0, length=2), 1.0, 400_000
    estimate = channel.aggregate(channel.encode(np.full((n, 1), 1.0), epsilon, StudyNoise(37)), epsilon)[0]
    spread = 2 * math.sqrt(2) * channel.scale(epsilon) / math.sqrt(n)
    assert abs(estimate - 1.0) < 4 * spread
    assert spread < 0.02


def test_public_samples_are_uniform_and_reproducible():
    salt = StudyNoise(38).integers(2**62, 5000)
    u = public_uniform(9, salt, 8)
    assert np.array_equal(u, public_uniform(9, salt, 8))
    assert not np.array_equal(u, public_uniform(10, salt, 8))
    for t in range(8):
        assert stats.kstest(u[:, t], stats.uniform.cdf).pvalue > P
    assert np.max(np.abs(np.corrcoef(u.T) - np.eye(8))) < 0.08


# ------------------------------------------------------------------------------------------------------------- Laplace


@pytest.mark.parametrize("ball", ["l1", "linf"])
def test_laplace_vector_clips_and_is_calibrated(ball):
    channel = LaplaceVector(3, 2.0, ball=ball)
    rng = np.random.default_rng(1)
    x, _ = channel.clip(10 * rng.standard_cauchy(size=(4000, 3)))
    distance = np.abs(x[:2000] - x[2000:]).sum(axis=1)
    assert distance.max() <= channel.sensitivity * (1 + 1e-12)
    assert distance.max() > 0.9 * channel.sensitivity
    assert channel.sensitivity == (4.0 if ball == "l1" else 12.0)
    huge, _ = channel.clip(np.array([[1e308, -1e308, 1e308], [np.nan, 0, 0], [0, 0, 0]]))
    assert np.isfinite(huge).all()
    assert np.allclose(np.abs(huge[0]).sum(), 2.0 if ball == "l1" else 6.0)
    assert not huge[1:].any()


def test_categorical_channels_through_the_meter():
    class Plan:
        tree, levels = Draw("colour", KaryResponse(3), per="user"), {"colour": 1.0}

    values = np.array([0, 1, 2, 1] * 5000)
    for per_user in (False, True):
        release = Release(Plan(), StudyNoise(40, int(per_user)), mode="study", per_user=per_user)
        assert np.allclose(release.mean("colour", values), [0.25, 0.5, 0.25], atol=0.05)
        release.close()
