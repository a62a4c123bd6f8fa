"""The privacy loss of the probabilities that really run, doubles and 64-bit coins, against the stated epsilon: exact arithmetic throughout.

Nothing here calls the code's own accounting: likelihood ratios are written down from what a client draws, in fractions, and compared
with epsilon by balls (flint), for epsilon from 1e-9 to 50 and up to a million categories or coordinates.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from dpspec.privacy.calibrate import Budget, calibrate
from dpspec.privacy.channels.genprot import GenProt, base_epsilon, window
from dpspec.privacy.channels.priv_unit import PrivUnit, best_cap
from dpspec.privacy.channels.randomized_response import KaryResponse
from dpspec.privacy.channels.subset_selection import SubsetSelection
from dpspec.privacy.channels.unary_encoding import UnaryEncoding
from dpspec.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpspec.privacy.mechanisms.laplace import Laplace
from dpspec.privacy.mechanisms.noisy_max import NoisyMax
from dpspec.privacy.mechanisms.peeling import Peeling
from dpspec.privacy.mechanisms.permute_and_flip import PermuteAndFlip
from dpspec.privacy.mechanisms.smooth_sensitivity import SmoothStudent
from dpspec.privacy.noise import SecureNoise, StudyNoise, keep_threshold
from dpspec.privacy.samplers import CalibrationError
from dpspec.privacy.schedule import Draw, Repeat

EPSILONS = [*np.geomspace(1e-9, 50, 60).tolist(), 1e-6, math.log(2), 1.0, math.nextafter(1.0, 2), 33.3, 37.0, 50.0]
SIZES = [2, 3, 10, 1000, 65537, 10**6]


@pytest.fixture(autouse=True)
def _precision():
    before, ctx.prec = ctx.prec, 320
    yield
    ctx.prec = before


def ball(x):
    x = Fraction(x)
    return arb(x.numerator) / arb(x.denominator)


def at_most(ratio, epsilon):
    """|log ratio| <= epsilon, proved."""
    return bool(abs(ball(ratio).log()) <= ball(epsilon))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_kept_coins(epsilon):
    """Randomised response, one-bit, Hadamard, sampled coordinates, the cube and the hemisphere all rest on this coin."""
    keep = Fraction(keep_threshold(epsilon), 2**64)
    assert Fraction(1, 2) <= keep < 1
    assert at_most(keep / (1 - keep), epsilon)


@pytest.mark.parametrize("k", SIZES)
def test_categories(k):
    for epsilon in EPSILONS:
        a = KaryResponse(k).truth(epsilon)
        assert a * 2**64 == int(a * 2**64)  # the coin is used as it is
        assert at_most((a + (1 - a) / k) / ((1 - a) / k), epsilon)
        for form in ("optimised", "symmetric"):
            p, q = UnaryEncoding(k, form).chances(epsilon)
            assert at_most(p * (1 - q) / (q * (1 - p)), epsilon)
        channel = SubsetSelection(k)
        p, w = channel.truth(epsilon), channel.width(epsilon)
        # one set with the record against one without: p/C(k-1, w-1) against (1-p)/C(k-1, w)
        assert at_most(p / (1 - p) * Fraction(k - w, w), epsilon)


def test_subsets_are_uniform_where_keys_collide():
    """Keys of two values only: nearly all rows have ties, which an order by position would favour."""

    class Coarse:
        def integers(self, high, size):
            return np.random.default_rng(self.turn()).integers(0, 6, size)

        def turn(self):
            self.count = getattr(self, "count", 0) + 1
            return self.count

    order = SubsetSelection(4)._others(np.zeros(6000, dtype=np.int64), Coarse())
    counts = np.unique(order[:, :3], axis=0, return_counts=True)[1]
    assert counts.size == 6
    assert (order[:, 3] == 0).all()
    assert np.abs(counts - 1000).max() < 5 * math.sqrt(1000 * 5 / 6)


def index_chance(own, rest, length):
    """P(the own index is sent): the mean of 1/(1 + heads among the others) when it is accepted, 1/length when none is."""
    others = length - 1
    heads = sum((math.comb(others, h) * rest**h * (1 - rest) ** (others - h) / (1 + h) for h in range(length)), 0 * rest)
    return own * heads + (1 - own) * (1 - rest) ** others / length


@pytest.mark.parametrize("length", [2, 3, 5, 32, 200])
def test_genprot(length):
    for epsilon in EPSILONS:
        low, high = (Fraction(p) for p in window(base_epsilon(epsilon, length) / 2))
        assert 0 < low <= high < 1
        for p in (low, high):  # the coin of an array of probabilities has steps of 2^-53
            assert p * 2**53 == int(p * 2**53)
        a, b = (p if length < 10 else ball(p) for p in (low, high))
        ratio = index_chance(b, a, length) / index_chance(a, b, length)
        loss = (ball(ratio) if isinstance(ratio, Fraction) else ratio).log()
        assert loss <= ball(epsilon)
        if 1e-8 < epsilon < 0.5:
            assert loss > ball(epsilon) * 0.999  # nothing is given away


@pytest.mark.parametrize("length", [4, 32, 4096])
def test_genprot_client_draws_inside_its_window(length, monkeypatch):
    seen = []
    noise = SecureNoise()

    class Seen(StudyNoise):
        def bernoulli(self, p, size):
            seen.append(p)
            return noise.bernoulli(p, size)

    for epsilon in (1e-9, 1e-6, 0.1, 3.0):
        GenProt(2.0, length=length).encode(np.array([-2.0, 2.0, 0.3, 1e300]), epsilon, Seen(1))
        low, high = window(base_epsilon(epsilon, length) / 2)
        assert seen[-1].min() >= low
        assert seen[-1].max() <= high


@pytest.mark.parametrize("dim", [2, 3, 10, 1000, 10**6])
def test_priv_unit(dim):
    for epsilon in (1e-12, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 4.0, 9.0):
        cap = best_cap(dim, epsilon)
        shape = arb(dim - 1) / 2
        mass = ((1 - arb(cap.height)) / 2).beta_lower(shape, shape, 1)  # of the sphere, by ball arithmetic
        inside = ball(cap.inside)
        loss = (inside / (1 - inside)).log() - (mass / (1 - mass)).log()
        assert abs(loss) <= ball(epsilon)


def test_priv_unit_at_small_epsilon_is_a_choice_between_two_ends():
    """Below 2^-10 the record decides between u and -u by a coin, whatever the rounding of <u, v>: also where it is 0."""
    u = StudyNoise(1).directions(2000, 3)
    u[:, 0] = 0.0

    class Fixed(StudyNoise):
        secure = True

        def directions(self, count, dim):
            return u.copy()

    v = np.zeros((2000, 3))
    v[:, 0] = 1.0
    inside = np.arange(2000) % 2 == 0
    out = PrivUnit(3, 1.0)._reject(v, inside, best_cap(3, 1e-6), Fixed(2))
    assert np.array_equal(out, np.where(inside[:, None], u, -u))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_discrete_noise(epsilon):
    for sensitivity in (1.0, 3.0, 1000.0):
        b = math.nextafter(DiscreteLaplace(sensitivity).scale(epsilon), math.inf)  # what `apply` hands to the sampler
        assert Fraction(sensitivity) / Fraction(b) <= Fraction(epsilon)
        level = 257 / epsilon
        sigma = Fraction(DiscreteGaussian(sensitivity).scale(level))
        nominal = Fraction(level) * Fraction(sensitivity)
        assert sigma >= nominal + 1 / (24 * nominal)


def test_smooth_student_keeps_its_sum():
    """epsilon = s*(nu + 1)/(2*sqrt(nu)) + nu*t with the doubles s = 1/scale and t, also where nearly all is spent on smoothing."""
    for level in (1e-6, 0.7, 1.0, 12.3):
        for left in (0.5, 1e-3, 1e-9, 1e-13):
            for nu in (3, 5):
                smoothing = level * (1 - left) / nu
                scale = SmoothStudent(smoothing, 1e-6, nu).scale(level)
                spent = ball(nu + 1) / (2 * arb(nu).sqrt() * ball(scale)) + nu * ball(smoothing)
                assert spent <= ball(level)


def test_coins_of_gaps_too_small_for_doubles():
    """Selections flip coins of probability exp(-t): exact for every double t, so a score that is best by 1e-300 changes nothing."""
    assert PermuteAndFlip(1.0, 2).apply(np.array([1e-300, 0.0]), 1e-9, SecureNoise()) in (0, 1)


@pytest.mark.parametrize("mechanism", [NoisyMax(1.0, 5), Peeling(1.0, 9, 3)])
def test_noise_that_64_bits_do_not_hold_is_refused_before_a_run(mechanism):
    """At epsilon 1e-9 Laplace noise of 2^59 steps would pass 2^63 once in 10^7 draws and wrap around to the other end."""
    with pytest.raises(CalibrationError, match="64-bit"):
        calibrate(Repeat(Draw("select", mechanism), 10), Budget(epsilon="1e-8"))
    levels = calibrate(Draw("select", mechanism), Budget(epsilon="1e-5")).levels
    assert mechanism.scale(levels["select"]) > 0


@pytest.mark.parametrize("epsilon", ["1e-9", "1e-12", "1e-300"])
def test_noise_beyond_the_grid_is_refused_before_a_run(epsilon):
    with pytest.raises(CalibrationError, match="grid") as error:
        calibrate(Draw("sum", Laplace(1.0, size=2)), Budget(epsilon=epsilon))
    assert error.value.code == "DP308"


@pytest.mark.parametrize("channel", [KaryResponse(10**6), SubsetSelection(10**6)])
def test_an_epsilon_below_the_coins_is_refused(channel):
    with pytest.raises(CalibrationError, match="2\\^-40"):
        calibrate(Draw("report", channel, per="user"), Budget(epsilon="1e-13"))
    assert channel.scale(2.0**-40) > 0
