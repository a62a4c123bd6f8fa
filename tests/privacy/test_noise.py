"""The laws of every sampler, the grid, and what each source refuses."""

from __future__ import annotations

import math
import secrets
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpspec.privacy import exact as exact_module
from dpspec.privacy import noise as noise_module
from dpspec.privacy.noise import PublicRandomness, SecureNoise, StudyNoise, grid_exponent, keep_threshold

P = 1e-6  # a sound sampler fails one test in a million: the secure source cannot be seeded

N = 5000


@pytest.fixture(params=["study", "secure"])
def source(request):
    return StudyNoise(11, 4, "test") if request.param == "study" else SecureNoise()


def test_continuous_laws(source):
    for sample, law in (
        (source.gaussian(2.5, N), stats.norm(0, 2.5)),
        (source.laplace(1.5, N), stats.laplace(0, 1.5)),
        (source.gumbel(0.7, N), stats.gumbel_r(0, 0.7)),
        (source.exponential(0.4, N), stats.expon(0, 0.4)),
        (source.uniform(N), stats.uniform(0, 1)),
        (source.add_gaussian(np.full(N, 7.0), 2.0, sensitivity=0.1, dim=1), stats.norm(7, 2)),
        (source.add_laplace(np.full(N, -3.0), 2.0, sensitivity=5.0, dim=10), stats.laplace(-3, 2)),
    ):
        assert stats.kstest(sample, law.cdf).pvalue > P


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_discrete_laws(source, scale):
    """Chi-square against the normalised weights."""
    z = np.arange(-60, 61)
    for sample, weights in (
        (source.discrete_gaussian(scale, N), np.exp(-(z**2) / (2 * scale**2))),
        (source.discrete_laplace(scale, N), np.exp(-np.abs(z) / scale)),
    ):
        expected = N * weights / weights.sum()
        big = expected > 5
        observed = np.array([np.sum(sample == value) for value in z])
        statistic = np.sum((observed[big] - expected[big]) ** 2 / expected[big])
        rest, rest_expected = N - observed[big].sum(), N - expected[big].sum()
        if rest_expected > 1e-6:
            statistic += (rest - rest_expected) ** 2 / rest_expected
        assert stats.chi2.sf(statistic, max(1, big.sum())) > P


def test_coins(source):
    n = 40_000
    for p in (0.0, 0.1, 0.5, Fraction(2, 3), 1.0):
        mean = source.bernoulli(p, n).mean()
        assert abs(mean - float(p)) <= 5 * math.sqrt(float(p) * (1 - float(p)) / n)
    t = np.array([0.0, 0.01, 1.0, 30.0])
    for value, mean in zip(t, source.bernoulli_exp(np.tile(t, (n, 1))).mean(axis=0), strict=True):
        assert abs(mean - math.exp(-value)) <= 5 * math.sqrt(math.exp(-value) * -math.expm1(-value) / n) + 1e-9
    assert abs(source.keep(1.0, n).mean() - math.e / (1 + math.e)) < 5 * 0.45 / math.sqrt(n)
    assert abs(source.sign(n).mean()) < 5 / math.sqrt(n)
    assert set(np.unique(source.sign(100))) == {-1.0, 1.0}
    chances = np.tile([0.2, 0.7], (n, 1))
    assert np.allclose(source.bernoulli(chances, chances.shape).mean(axis=0), [0.2, 0.7], atol=5 * 0.5 / math.sqrt(n))
    counts = np.bincount(source.integers(7, n), minlength=7)
    assert stats.chisquare(counts).pvalue > P
    assert sorted(source.permutation(50)) == list(range(50))


def test_permutations_are_uniform(source):
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(6000):
        key = tuple(source.permutation(3).tolist())
        seen[key] = seen.get(key, 0) + 1
    assert len(seen) == 6
    assert stats.chisquare(list(seen.values())).pvalue > P


def test_directions(source):
    for dim in (1, 2, 5):
        u = source.directions(N, dim)
        assert u.shape == (N, dim)
        assert np.allclose(np.linalg.norm(u, axis=1), 1)
        if dim == 1:
            assert abs(u.mean()) < 5 / math.sqrt(N)
        else:  # (1 + <u, v>)/2 is Beta((dim - 1)/2, (dim - 1)/2)
            v = np.ones(dim) / math.sqrt(dim)
            assert stats.kstest((1 + u @ v) / 2, stats.beta((dim - 1) / 2, (dim - 1) / 2).cdf).pvalue > P


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-9, 1e-3, 0.1, 1.0, 5.0, 20.0, 40.0, 800.0])
def test_keep_never_exceeds_its_epsilon(epsilon):
    """p/(1 - p) <= e^epsilon in ball arithmetic, and close to it."""
    from flint import arb, ctx

    before, ctx.prec = ctx.prec, 400
    try:
        t = keep_threshold(epsilon)
        p = arb(t) / arb(2) ** 64
        assert 2**63 <= t < 2**64
        assert (p / (1 - p)).log() <= arb(epsilon) or t == 2**63
        if 1e-3 <= epsilon <= 20:
            assert float((p / (1 - p)).log()) > epsilon * (1 - 1e-5)
    finally:
        ctx.prec = before


def test_bernoulli_rounds_toward_one_half(monkeypatch):
    """With p = 1/3 the threshold must be ceil(2^64/3); with p = 2/3 it must be floor(2*2^64/3)."""
    source = SecureNoise()
    third = (2**64 + 2) // 3
    for word, p, expected in (
        (third - 1, Fraction(1, 3), True),
        (third, Fraction(1, 3), False),
        (2 * 2**64 // 3 - 1, Fraction(2, 3), True),
        (2 * 2**64 // 3, Fraction(2, 3), False),
        (2**64 - 1, Fraction(1), True),
        (0, Fraction(0), False),
    ):
        monkeypatch.setattr(exact_module, "words", lambda n, word=word: np.full(n, word, dtype=np.uint64))
        assert source.bernoulli(p, 1)[0] == expected


def test_bernoulli_exp_decides_close_calls_exactly(monkeypatch):
    """The 53 leading bits equal those of exp(-t): the digits that follow decide, and the tail of tiny probabilities is reachable."""
    from flint import arb, ctx

    t = 0.7
    before, ctx.prec = ctx.prec, 300
    try:
        exact = int((arb.exp(-arb(t)) * arb(2) ** 117).floor().unique_fmpz())
    finally:
        ctx.prec = before
    lead, rest = exact >> 64, exact & (2**64 - 1)
    monkeypatch.setattr(exact_module, "words", lambda n: np.full(n, lead << 11, dtype=np.uint64))
    for digits, expected in ((rest - 1, True), (rest + 1, False)):
        monkeypatch.setattr(secrets, "randbits", lambda k, digits=digits: digits)
        assert SecureNoise().bernoulli_exp(np.array([t]))[0] == expected
    # exp(-60) = 8.8e-27 < 2^-53: only a zero word followed by small digits says yes
    monkeypatch.setattr(exact_module, "words", lambda n: np.zeros(n, dtype=np.uint64))
    limit = math.exp(-60) * 2**117
    for digits, expected in ((int(limit * 0.999), True), (int(limit * 1.001), False)):
        monkeypatch.setattr(secrets, "randbits", lambda k, digits=digits: digits)
        assert SecureNoise().bernoulli_exp(np.array([60.0]))[0] == expected


def opendp(kind: str, scale: float, n: int):
    """OpenDP's own samplers of the same laws."""
    dp = pytest.importorskip("opendp.prelude", reason="a development dependency: pip install -e '.[dev]'")
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    make, metric = (dp.m.make_gaussian, dp.l2_distance) if kind == "gaussian" else (dp.m.make_laplace, dp.l1_distance)
    return np.array(make(domain, metric(T="f64"), scale=scale)([0] * n))


@pytest.mark.parametrize("scale", [0.3, 1, 1.7, 3, 5.999, 2**40, 2.0**40 / 3])
def test_vectorised_exact_samplers(scale):
    """Chi-square on bins of the exact law, small, broken and huge scales; and OpenDP's own sampler as a second opinion."""
    n = 20_000
    for ours, theirs, weight in (
        (exact_module.discrete_gaussian(scale, n), opendp("gaussian", float(scale), 3000), lambda z: -(z**2) / 2),
        (exact_module.discrete_laplace(scale, n), opendp("laplace", float(scale), 3000), lambda z: -np.abs(z)),
    ):
        assert ours.shape == (n,)
        if scale < 10:
            z = np.arange(-50, 51)
            p = np.exp(weight(z / scale))
            p /= np.exp(weight(np.arange(-400, 401) / scale)).sum()
            observed = np.array([np.sum(ours == value) for value in z])
            big = n * p > 8
            statistic = np.sum((observed[big] - n * p[big]) ** 2 / (n * p[big]))
            rest = n * (1 - p[big].sum())
            statistic += (n - observed[big].sum() - rest) ** 2 / max(rest, 1e-3)
            assert stats.chi2.sf(statistic, big.sum()) > P
        assert stats.ks_2samp(ours, theirs).pvalue > P


@pytest.mark.parametrize("scale", [2.0**-55, 1e-5, 1 / 513, 1 / 300])
def test_scales_so_small_that_all_is_zero(scale):
    """P(z != 0) is about 2 exp(-1/scale), below e^-299 here."""
    for sampler in (exact_module.discrete_laplace, exact_module.discrete_gaussian):
        assert not sampler(scale, 300).any()


@pytest.mark.parametrize("sampler", [exact_module.discrete_laplace, exact_module.discrete_gaussian])
@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**56, 2.0**-56])
def test_scales_beyond_the_samplers(sampler, scale):
    with pytest.raises(ValueError, match="must lie between"):
        sampler(scale, 1)


@pytest.mark.parametrize("scale", [2.0**-54, 0.3, 3, 2**55])
def test_quotients_are_exact_for_any_number_of_successes(scale):
    """floor((u + t v)/s) beside integers of any length, at counts that no run will ever see."""
    t, s = Fraction(scale).as_integer_ratio()
    for v in (0, 1, 44, 255, 256, 600, 2000):
        if (t - 1 + t * v) // s >= 2**63:
            continue
        u = np.array([0, t // 2, t - 1], dtype=np.int64)
        expected = [(int(a) + t * v) // s for a in u]
        assert exact_module._quotients(u, t, np.full(3, v, dtype=np.int64), s).tolist() == expected


def test_geometric_counts():
    """P(v = k) = e^-k (1 - 1/e)."""
    n = 50_000
    v = exact_module.geometric(n)
    k = np.arange(9)
    expected = n * np.append(np.exp(-k) * (1 - math.exp(-1)), math.exp(-9.0))
    observed = np.append([(v == j).sum() for j in k], (v >= 9).sum())
    assert stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), 9) > P


def test_geometric_counts_at_the_digits_of_a_power(monkeypatch):
    """U agrees with e^-k in 64 digits: the next ones decide, as mpmath has them. U = 0 to 64 digits goes on below e^-44."""
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.prec = 400
    for k in (1, 2, 20, 44):
        lead, rest = divmod(int(mpmath.floor(mpmath.exp(-k) * mpmath.mpf(2) ** 128)), 2**64)
        monkeypatch.setattr(exact_module, "words", lambda n, lead=lead: np.full(n, lead, dtype=np.uint64))
        for nudge, expected in ((-1, k), (1, k - 1)):
            monkeypatch.setattr(exact_module, "random_bytes", lambda n, more=rest + nudge: more.to_bytes(8, "little"))
            assert exact_module.geometric(1)[0] == expected, (k, nudge)
        for nudge, expected in ((-1, k), (1, k - 1)):  # one away in the 64th digit: no more are drawn
            monkeypatch.setattr(exact_module, "words", lambda n, w=lead + nudge: np.full(n, w, dtype=np.uint64))
            if lead + nudge > 1:
                assert exact_module.geometric(1)[0] == expected
    monkeypatch.setattr(exact_module, "words", lambda n: np.zeros(n, dtype=np.uint64))
    lead = int(mpmath.floor(mpmath.exp(-60) * mpmath.mpf(2) ** 128))
    monkeypatch.setattr(exact_module, "random_bytes", lambda n: (lead - 1).to_bytes(8, "little"))
    assert exact_module.geometric(1)[0] == 60


@pytest.mark.parametrize("sigma", [1, 2, 7])
def test_the_discrete_gaussian_of_a_whole_scale(sigma):
    """Against its law, and against the sampler that goes by the Laplace law, which scales that are not whole take."""
    n = 60_000
    z = exact_module.discrete_gaussian(float(sigma), n)
    k = np.arange(-4 * sigma, 4 * sigma + 1)
    law = np.exp(-(np.arange(-40 * sigma, 40 * sigma + 1) ** 2) / (2 * sigma**2))
    expected = n * np.exp(-(k**2) / (2 * sigma**2)) / law.sum()
    observed = np.array([(z == j).sum() for j in k])
    assert stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), k.size) > P
    near = exact_module.discrete_gaussian(sigma * (1 + 2.0**-40), n)
    both = np.array([observed, [(near == j).sum() for j in k]])[:, (np.abs(k) <= 2 * sigma)]
    assert stats.chi2_contingency(both).pvalue > P


def test_blocks_of_the_gaussian_at_the_digits_of_a_bound(monkeypatch):
    """U agrees with P(block >= k) in 64 digits: the next ones decide, as mpmath has them. U = 0 to 64 digits goes on."""
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.prec = 400

    def tail(k):
        return mpmath.nsum(lambda j: mpmath.exp(-j * j / 2), [k, 60]) / mpmath.nsum(lambda j: mpmath.exp(-j * j / 2), [0, 60])

    for k in (1, 2, 9):
        lead, rest = divmod(int(mpmath.floor(tail(k) * mpmath.mpf(2) ** 128)), 2**64)
        low, high = exact_module._tail(k, 128)
        assert low <= (lead << 64) + rest <= high <= low + 4
        monkeypatch.setattr(exact_module, "words", lambda n, lead=lead: np.full(n, lead, dtype=np.uint64))
        for nudge, expected in ((-4, k), (4, k - 1)):
            monkeypatch.setattr(exact_module, "random_bytes", lambda n, more=rest + nudge: more.to_bytes(8, "little"))
            assert exact_module._blocks_of_gaussian(1)[0] == expected, (k, nudge)
        for nudge, expected in ((-1, k), (1, k - 1)):
            monkeypatch.setattr(exact_module, "words", lambda n, w=lead + nudge: np.full(n, w, dtype=np.uint64))
            assert exact_module._blocks_of_gaussian(1)[0] == expected
    monkeypatch.setattr(exact_module, "words", lambda n: np.zeros(n, dtype=np.uint64))
    lead = int(mpmath.floor(tail(11) * mpmath.mpf(2) ** 128))
    monkeypatch.setattr(exact_module, "random_bytes", lambda n: (lead - 1).to_bytes(8, "little"))
    assert exact_module._blocks_of_gaussian(1)[0] == 11


def test_block_and_rest_have_the_exponent_of_the_gaussian():
    """k^2/2 + (k + u/(2s)) u/s = (k s + u)^2/(2 s^2), in fractions, and the float of its second part is within what the coin allows."""
    for s in (1, 7, 2**27 + 5, 2**53 - 1):
        for k in (0, 1, 3, 9):
            for u in {0, s // 3, s - 1}:
                part = (k + Fraction(u, 2 * s)) * Fraction(u, s)
                assert Fraction(k * k, 2) + part == Fraction((k * s + u) ** 2, 2 * s * s)
                share = u / s
                assert abs(Fraction((0.5 * share + k) * share) - part) <= part * Fraction(1, 2**50)


def test_numbers_drawn_ahead_are_handed_out_once():
    from dpspec.privacy.entropy import drawn_ahead

    source, scale = SecureNoise(), 2.0**30
    found = np.concatenate([source.discrete_laplace(scale, 700) for _ in range(20)])
    assert np.unique(found).size > 13_990  # of 14,000, a pair alike is unlikely
    assert stats.kstest(found / scale, stats.laplace.cdf).pvalue > P
    ahead, _ = drawn_ahead()["laplace", scale]
    assert not np.isin(ahead, found).any()
    for k in range(200):
        source.discrete_gaussian(1.0 + k, 1)
    assert len(drawn_ahead()) <= noise_module._LAWS


def test_vectorised_laplace_at_a_large_scale():
    scale = 2**45
    assert stats.kstest(exact_module.discrete_laplace(scale, 20_000) / scale, stats.laplace.cdf).pvalue > P
    assert stats.kstest(exact_module.discrete_gaussian(scale, 20_000) / scale, stats.norm.cdf).pvalue > P


def test_bulk_noise_takes_the_same_grid():
    values = np.full(5000, 0.1)
    out = SecureNoise().add_gaussian(values, 2.0, sensitivity=1.0, dim=10)
    e = grid_exponent(2.0, 1.0, math.sqrt(10))
    assert np.array_equal(np.rint(out / 2.0**e) * 2.0**e, out)
    assert stats.kstest(out, stats.norm(0.1, 2.0).cdf).pvalue > P


@pytest.mark.parametrize("t", [Fraction(1, 3), Fraction(7, 2)])
def test_exact_exponents_decide_where_their_floats_cannot(monkeypatch, t):
    """The uniform number agrees with exp(-t) in 117 digits; the float of t, off by 2^-51 of itself, would decide it the other way."""
    from flint import arb, ctx

    before, ctx.prec = ctx.prec, 400
    try:
        digits = int((arb.exp(-arb(t.numerator) / arb(t.denominator)) * arb(2) ** 117).floor().unique_fmpz())
    finally:
        ctx.prec = before
    lead, rest = digits >> 64, digits & (2**64 - 1)
    monkeypatch.setattr(exact_module, "words", lambda n: np.full(n, lead << 11, dtype=np.uint64))
    for nudge, expected in ((-1, True), (1, False)):
        monkeypatch.setattr(secrets, "randbits", lambda k, nudge=nudge: rest + nudge)
        for wrong in (1 + 2.0**-51, 1 - 2.0**-51):
            assert exact_module.bernoulli_exp(np.array([float(t) * wrong]), lambda i: t)[0] == expected


def test_secure_values_lie_on_the_public_grid():
    scale, sensitivity, dim = 3.3, 0.7, 25
    e = grid_exponent(scale, sensitivity, math.sqrt(dim))
    assert 2.0**e * math.sqrt(dim) <= 2.0**-26 * sensitivity
    assert 2.0**e * math.sqrt(dim) > 2.0**-28 * sensitivity
    out = SecureNoise().add_gaussian(np.random.default_rng(0).normal(size=25) * 1e3, scale, sensitivity=sensitivity, dim=dim)
    assert np.array_equal(np.rint(out / 2.0**e) * 2.0**e, out)


@pytest.mark.parametrize("scale", [0.01, 1.0, 37.5, 2.0**12])
@pytest.mark.parametrize(("add", "spread"), [("add_gaussian", math.sqrt), ("add_laplace", float)])
@pytest.mark.parametrize("dim", [1, 25, 10_000])
def test_the_noise_is_never_below_its_scale_and_pays_for_the_rounding(monkeypatch, scale, add, spread, dim):
    """What the integer sampler is asked for, in units of the grid, against the sensitivity after rounding."""
    asked = []
    monkeypatch.setattr(
        noise_module, "_grid_noise", lambda kind, steps, shape: asked.append((kind, steps)) or np.zeros(shape, dtype=np.int64)
    )
    sensitivity = 0.7
    getattr(SecureNoise(), add)(np.zeros(3), scale, sensitivity=sensitivity, dim=dim)
    ((kind, steps),) = asked
    assert kind == add.removeprefix("add_")
    g = Fraction(2) ** grid_exponent(scale, sensitivity, spread(dim))
    rounded = (Fraction(sensitivity) + g * Fraction(spread(dim))) / (steps * g)
    assert rounded <= Fraction(sensitivity) / Fraction(scale)
    assert steps * g <= Fraction(scale) * (1 + Fraction(1, 2**22))


def test_the_sum_is_formed_before_it_is_rounded(monkeypatch):
    """A value far above the grid: the integer sum must be exact, so noise of one step shows although it is below the value's ulp."""
    monkeypatch.setattr(noise_module, "_exact_noise", lambda kind, scale, size: np.full(size, 1, dtype=np.int64))
    e = grid_exponent(1.0, 1.0, 1.0)
    value = 2.0 ** (e + 61.5)
    out = SecureNoise().add_gaussian(np.array([value]), 1.0, sensitivity=1.0, dim=1)
    assert out[0] == float(Fraction(value) / Fraction(2.0**e) + 1) * 2.0**e


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_secure_refuses_values_that_are_not_finite(bad):
    with pytest.raises(ValueError, match="not finite"):
        SecureNoise().add_laplace(np.array([bad]), 1.0, sensitivity=1.0, dim=1)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_scales_are_positive(source, scale):
    for draw in (source.gaussian, source.laplace, source.discrete_gaussian, source.discrete_laplace, source.gumbel, source.exponential):
        with pytest.raises(ValueError, match="scale"):
            draw(scale, 3)


def test_study_streams_depend_on_seed_and_path_alone():
    a = StudyNoise(5, 1, 2, "release")
    a.gaussian(1.0, 17)
    b = StudyNoise(5, 1, 2, "release")
    assert np.array_equal(b.gaussian(1.0, 17), StudyNoise(5, 1, 2, "release").gaussian(1.0, 17))
    assert np.array_equal(a.child(3).uniform(4), b.child(3).uniform(4))
    first = StudyNoise(5, 1, 2, "release").uniform(4)
    for other in (
        StudyNoise(5, 1, 2, "data"),
        StudyNoise(5, 1, 3, "release"),
        StudyNoise(6, 1, 2, "release"),
        StudyNoise(5, 12, "release"),
    ):
        assert not np.array_equal(first, other.uniform(4))


def test_a_known_stream():
    """Pins the definition of the stream: numpy's Philox under SeedSequence(seed, spawn_key=path)."""
    expected = np.random.Generator(np.random.Philox(np.random.SeedSequence(9, spawn_key=(4, 2)))).standard_normal(5) * 3.0
    assert np.array_equal(StudyNoise(9, 4, 2).gaussian(3.0, 5), expected)


def test_secure_takes_no_seed_and_does_not_repeat():
    with pytest.raises(TypeError):
        SecureNoise(7)  # type: ignore[call-arg]
    assert not np.array_equal(SecureNoise().uniform(8), SecureNoise().uniform(8))


def test_public_randomness_is_recorded_and_rebuilt():
    public = PublicRandomness(3)
    a = public.gaussian_matrix("projection", 4, 2)
    signs = public.sign_matrix("hash", 3, 3)
    assert set(np.unique(signs)) <= {-1.0, 1.0}
    assert np.array_equal(a, PublicRandomness(3).gaussian_matrix("projection", 4, 2))
    assert not np.array_equal(a, PublicRandomness(3).gaussian_matrix("other", 4, 2))
    assert [entry["name"] for entry in public.record()] == ["projection", "hash"]
    assert public.record()[0]["seed"] == 3


@pytest.mark.parametrize("size", [1.0, 1e12, 1e15, 1e150])
def test_a_value_far_above_its_sensitivity_is_rounded_like_any_other(size: float) -> None:
    """No error at some size of a private value: whether it is reached would tell. The sum is exact on the grid, as with small values."""
    from fractions import Fraction

    from dpspec.privacy.noise import add_rounded

    step = 0.3
    grid = Fraction(2) ** (math.frexp(step)[1] - 1 - 26)
    values, draw = np.array([size, -size / 3, 0.1]), np.array([0.25, 1e3, -size])
    found = add_rounded(values, draw, step, SecureNoise())
    for a, b, c in zip(values, draw, found, strict=True):
        exact = (round(Fraction(a) / grid) + round(Fraction(b) / grid)) * grid
        assert c == float(exact)


def test_the_integer_enclosure_of_an_exponential_holds_it_and_is_narrow() -> None:
    """Against ball arithmetic of another library, at 400 more digits."""
    from fractions import Fraction

    from flint import arb, ctx

    from dpspec.privacy.exact import enclosed_exp

    rng = np.random.default_rng(1)
    cases = [Fraction(0), Fraction(1, 2**80), Fraction(745), *(Fraction(float(v)) for v in rng.exponential(20, 40)), Fraction(10**6)]
    before = ctx.prec
    ctx.prec = 3000
    try:
        for t in cases:
            for digits in (64, 117, 500):
                low, high = enclosed_exp(t, digits)
                exact = arb.exp(-(arb(t.numerator) / arb(t.denominator))) * arb(2) ** digits
                assert not arb(low) > exact
                assert not arb(high) < exact
                assert 0 <= high - low <= 2
    finally:
        ctx.prec = before
