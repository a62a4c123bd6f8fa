"""ldp-heavy-tailed-mean: what one user sends in exact arithmetic, the bound against laws with two moments, the printed scale."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from dpspec.algorithms.card import Problem
from dpspec.algorithms.heavy_tailed import ldp_heavy_tailed_mean as module
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.noise import keep_threshold
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, Estimate
from tests.algorithms.support import plan, study, tunables

NASTY = [0.0, 5e-324, -1e-170, 1.6e-162, 0.3, -2.0, 1e6, -1e154, 1e300, -1.7e308, math.inf, math.nan]
APPROX = {"delta": 1e-6}


def problem(n: int, d: int, epsilon: float = 1.0, **facts: float) -> Problem:
    known = {"n": n, "d": d, "epsilon": epsilon, "moment_order": 2.0, "moment_bound": 4.0}
    return Problem("nldp", "replace-one", Estimate(what="mean"), {**known, **facts})


def budget(p: Problem) -> Budget:
    e = str(Fraction(p.facts["epsilon"]))
    return Budget(epsilon=e, delta=str(Fraction(p.facts["delta"]))) if "delta" in p.facts else Budget(epsilon=e)


def planned(p: Problem, t):
    return plan(module, p, t, budget(p))


# ----------------------------------------------------------------------------------------------------------------- one message


class Silent:
    def add_gaussian(self, x, scale, *, sensitivity, dim):
        return x


def test_no_pair_of_records_moves_a_message_by_more_than_its_sensitivity():
    """Before the Gaussian noise, in exact fractions, all pairs of hostile records; the largest movement comes close, and the sensitivity is
    the derived one, 2 cap sqrt(d) s with cap = (2 sqrt(2)/3)(2 Phi(sqrt(beta)) - 1)."""
    p = problem(50, 2, **APPROX)
    t = tunables(module, p, channel="gaussian", s=2, beta=3)
    channel = module.schedule(p, t).mechanism
    cap = 2 * math.sqrt(2) / 3 * (2 * norm.cdf(math.sqrt(3)) - 1)
    assert channel.sensitivity == pytest.approx(2 * cap * math.sqrt(2) * 2, rel=1e-9)
    sent = set()
    for r in itertools.product(NASTY, repeat=2):
        (block,) = module.truncated(Records(np.array([r])), p, t)
        sent.add(tuple(Fraction(float(v)) for v in np.ravel(channel.encode(block, 1.0, Silent()))))
    largest = max(sum((a - b) ** 2 for a, b in zip(u, v, strict=True)) for u in sent for v in sent)
    assert (Fraction(999, 1000) * Fraction(channel.sensitivity)) ** 2 <= largest <= Fraction(channel.sensitivity) ** 2


@dataclass
class Told:
    """A noise source whose coins fall as told; ``chance`` is the exact probability that they do."""

    coins: list[bool]
    coordinate: int = 0
    chance: Fraction = Fraction(1)

    def _coin(self, p: Fraction) -> np.ndarray:
        falls = self.coins.pop(0)
        self.chance *= p if falls else 1 - p
        return np.array([falls])

    def bernoulli(self, p, size):
        return self._coin(Fraction(float(np.ravel(p)[0]))).reshape(size)

    def keep(self, epsilon, size):
        return self._coin(Fraction(keep_threshold(epsilon), 2**64)).reshape(size)

    def integers(self, high, size):
        self.chance /= high
        return np.full(size, self.coordinate)


def law(p: Problem, t, record) -> dict[tuple[float, ...], Fraction]:
    """The exact law of a user's message, from the code that runs."""
    channel, found = module.schedule(p, t).mechanism, {}
    (block,) = module.truncated(Records(np.array([record])), p, t)
    for j, *coins in itertools.product(range(p.d), (True, False), (True, False)):
        noise = Told(list(coins), j)
        message = tuple(float(v) for v in np.ravel(channel.encode(block, p.facts["epsilon"], noise)))
        found[message] = found.get(message, Fraction(0)) + noise.chance / (p.d if p.d == 1 else 1)
    assert sum(found.values()) == 1
    return found


@pytest.mark.parametrize(("d", "epsilon"), [(1, 0.1), (1, 3.0), (2, 1.0)])
def test_a_bit_has_ratio_e_to_the_epsilon_and_no_more(d, epsilon):
    """Exact fractions over all pairs of hostile records. Two far ones come close: the closed form at its cut, a = 1e3, is off by
    some units of a^3/6 in doubles, 2e8*2^-53 = 2e-8 each, and the rarer message, of chance 1/(1 + e^epsilon), feels it e^epsilon times."""
    p = problem(100, d, epsilon)
    t = tunables(module, p, s=2, beta=3)
    laws = [law(p, t, r) for r in itertools.product(NASTY if d == 1 else NASTY[4:], repeat=d)]
    ratio = max(one[m] / other[m] for one in laws for other in laws for m in one)
    assert float(ratio) <= math.exp(epsilon) * (1 + 2.0**-52)
    assert float(ratio) >= math.exp(epsilon) * (1 - 1e-6 * math.exp(epsilon))


def test_a_client_sends_an_end_of_its_range_or_nothing_for_what_is_no_number():
    p = problem(100, 1)
    t = tunables(module, p, s=1, beta=3)
    (sent,) = module.truncated(Records(np.array([[1e200], [math.inf], [-1.7e308], [math.nan], [5e-324]])), p, t)
    cap = 2 * math.sqrt(2) / 3 * (2 * norm.cdf(math.sqrt(3)) - 1)
    np.testing.assert_allclose(np.ravel(sent), [cap, cap, -cap, 0.0, 0.0], rtol=1e-6, atol=1e-300)


def test_a_bit_is_unbiased_for_the_smoothed_record():
    """E R from the exact law against s E phi(x (1 + eta)/s) by quadrature."""
    p = problem(100, 1, 0.7)
    t = tunables(module, p, s=2, beta=3)
    for x in (-5.0, -1.0, 0.2, 2.5):
        mean = sum(float(chance) * message[0] for message, chance in law(p, t, [x]).items())
        assert mean == pytest.approx(2 * smoothed(x / 2, 3.0), abs=1e-7)


def smoothed(a: float, beta: float) -> float:
    """E phi(a (1 + eta)), eta ~ N(0, 1/beta), by quadrature, a != 0."""
    b, r = abs(a) / math.sqrt(beta), math.sqrt(2)
    inner = quad(lambda v: (v - v**3 / 6) * norm.pdf(v, a, b), -r, r, points=[max(-r, min(a, r))], limit=200)[0]
    return inner + 2 * r / 3 * (norm.sf(r, a, b) - norm.cdf(-r, a, b))


def test_the_noise_is_that_of_the_analytic_gaussian():
    p = problem(5000, 3, **APPROX)
    t = tunables(module, p, channel="gaussian")
    c = planned(p, t)
    mu = c.tree.mechanism.sensitivity / c.scale("report")
    delta = norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu)
    assert delta == pytest.approx(1e-6, rel=1e-3)
    assert delta <= 1e-6 * (1 + 1e-9)


# ------------------------------------------------------------------------------------------------------------------- the error

LAWS = {
    "student-t(2.5)": (lambda g, size: g.standard_t(2.5, size), 0.0, 5.0),
    "pareto(2.2)": (lambda g, size: g.pareto(2.2, size), 1 / 1.2, 2 / (1.2 * 0.2)),  # Lomax: mean 1/(a-1), second moment 2/((a-1)(a-2))
    "two points": (lambda g, size: np.where(g.random(size) < 1e-3, 30.0, 0.0), 0.03, 0.9),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("d", "channel"), [(1, "bit"), (3, "bit"), (2, "gaussian")])
def test_the_explicit_bounds_hold_and_say_something(name, d, channel):
    """60 runs at n = 2000: a bound of probability 0.95 fails at most 12 times (binomial, 1 - 1e-4)."""
    draw, centre, second = LAWS[name]
    p = problem(2000, d, 2.0, moment_bound=second, **(APPROX if channel == "gaussian" else {}))
    t = tunables(module, p, channel=channel)
    c, g = planned(p, t), np.random.default_rng(3)
    bounds = module.explicit_bounds(p, t, c)
    errors = np.array([study(module, Records(draw(g, (2000, d))), p, t, c, seed).theta - centre for seed in range(60)])
    assert np.count_nonzero(np.abs(errors).max(axis=1) > bounds[module.COORDINATE]) <= 12
    assert np.count_nonzero(np.linalg.norm(errors, axis=1) > bounds[module.LENGTH]) <= 12
    assert np.median(np.abs(errors).max(axis=1)) > bounds[module.COORDINATE] / 30


def test_the_bound_by_hand():
    """d = 1, epsilon 1, beta 4, s 5: a bit is cap s coth(1/2) long. Gaussian reports of d = 2 by the plan's own noise."""
    p = problem(10_000, 1)
    t = tunables(module, p, s=5, beta=4)
    tail, cap = math.log(80), 2 * math.sqrt(2) / 3 * (2 * norm.cdf(2) - 1)
    expected = 4 * 1.25 / 10 + 5 * (2 + tail) / 1e4 + cap * 5 / math.tanh(0.5) * math.sqrt(2 * tail / 1e4)
    assert module.explicit_bounds(p, t, planned(p, t))[module.COORDINATE] == pytest.approx(expected, rel=1e-9)
    p = problem(10_000, 2, **APPROX)
    t = tunables(module, p, s=5, beta=4, channel="gaussian")
    c, tail = planned(p, t), math.log(160)
    expected = 4 * 1.25 / 10 + 5 * (2 + tail) / 1e4 + c.scale("report") * math.sqrt(2 * tail / 1e4)
    assert module.explicit_bounds(p, t, c)[module.LENGTH] == pytest.approx(math.sqrt(2) * expected, rel=1e-9)


def test_a_tunable_that_only_tunes_cannot_shrink_the_bound():
    p = problem(10_000, 1)
    chosen = module.explicit_bounds(p, t := tunables(module, p), planned(p, t))[module.COORDINATE]
    for name, value in (("load", Fraction(1, 10)), ("load", 10**6), ("strength", 100), ("strength", Fraction(1, 100))):
        t = tunables(module, p, **{name: value})
        if module.accepts(p, t) is None:
            assert module.explicit_bounds(p, t, planned(p, t))[module.COORDINATE] > chosen


def test_a_constraint_set_is_kept_to():
    p = problem(2000, 2)
    p = replace(p, task=Estimate(what="mean", over=Ball(norm="l2", radius=num(1))))
    t = tunables(module, p)
    got = study(module, Records(np.full((2000, 2), 50.0)), p, t, planned(p, t))
    assert np.linalg.norm(got.theta) <= 1 + 1e-12
    assert module.explicit_bounds(p, t, planned(p, t)).keys() == {module.LENGTH}


def test_sparse_records_are_dense_ones():
    from scipy.sparse import csr_array

    g = np.random.default_rng(1)
    x = np.where(g.random((400, 3)) < 0.3, g.standard_normal((400, 3)), 0.0)
    p = problem(400, 3)
    t = tunables(module, p)
    np.testing.assert_array_equal(*(np.vstack(list(module.truncated(Records(r), p, t))) for r in (x, csr_array(x))))


def test_what_cannot_be_sent_is_refused_in_words():
    pure, zcdp = problem(100, 3), problem(100, 3, rho=0.5, **APPROX)
    assert "needs a delta" in str(module.accepts(pure, tunables(module, pure, channel="gaussian")))
    assert "under rho and mu" in str(module.accepts(zcdp, tunables(module, zcdp, channel="bit")))
    assert module.chosen(zcdp, tunables(module, zcdp)) == "gaussian"
    low = problem(100, 1, moment_order=1.5)
    assert "second moment" in str(module.accepts(low, tunables(module, low)))


@pytest.mark.parametrize(("n", "d", "epsilon"), [(2, 1, 1.0), (100, 3, 0.1), (10**6, 50, 4.0), (50, 1, 50.0)])
def test_the_central_scale_is_refused_and_the_default_never_reaches_it(n, d, epsilon):
    p = problem(n, d, epsilon)
    assert module.accepts(p, tunables(module, p)) is None
    printed = math.sqrt(n * 4 / (2 * math.log(20)))
    assert "does not fall with n" in str(module.accepts(p, tunables(module, p, s=printed)))


# ---------------------------------------------------------------------------------------------------------------------- faults


def test_the_bias_at_the_printed_scale_outgrows_the_printed_bound():
    """Two points, P(x = b) = tau/b^2, b twice the scale: the bias (tau/s)(a - kernel(a))/a^2, a = 2, over (22) without its
    constant. With L = log(1/zeta) from 4 to 64 the printed bound grows like sqrt(L) and the bias like L: their ratio by 4, less what
    beta = sqrt(L) saves."""

    def ratio(tail: float, n: float = 1e12, ld: float = math.log(1e6)) -> float:
        s = n**0.25 / (tail * ld**0.25)
        bias = (2 - smoothed(2.0, math.sqrt(tail))) / 4 / s
        return bias / math.sqrt(math.sqrt(ld) * tail / math.sqrt(n))

    assert ratio(64) > 3 * ratio(4)


def mu_by_root(epsilon: float, delta: float) -> float:
    return float(brentq(lambda m: norm.cdf(m / 2 - epsilon / m) - math.exp(epsilon) * norm.cdf(-m / 2 - epsilon / m) - delta, 1e-3, 50))


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
def test_a_bit_has_less_noise_than_the_printed_report(epsilon):
    """Variances at the record 0: of a bit by its exact law, of the exact Gaussian report by the root of its profile. The printed constant
    adds more still where it is valid, epsilon <= 1."""
    p = problem(10_000, 1, epsilon, **APPROX)
    t = tunables(module, p, s=5, beta=4)
    assert module.chosen(p, t) == "bit"
    bit = sum(float(chance) * message[0] ** 2 for message, chance in law(p, t, [0.0]).items())
    t = tunables(module, p, s=5, beta=4, channel="gaussian")
    cap = 2 * math.sqrt(2) / 3 * (2 * norm.cdf(2) - 1)
    gaussian = (2 * cap * 5 / mu_by_root(epsilon, 1e-6)) ** 2
    assert planned(p, t).scale("report") ** 2 == pytest.approx(gaussian, rel=1e-4)
    assert bit == pytest.approx((cap * 5 / math.tanh(epsilon / 2)) ** 2, rel=1e-9)
    assert bit < gaussian / 2
    (printed,) = module.published(p, t, budget(p))
    assert printed.scale == pytest.approx(4 * math.sqrt(2) * 5 / 3 * math.sqrt(2 * math.log(1.25e6)) / epsilon)
    assert epsilon > 1 or printed.scale**2 > gaussian


def test_a_gaussian_report_is_taken_where_it_has_less_noise():
    for epsilon in (6.0, 9.0, 14.0):
        p = problem(10_000, 3, epsilon, **APPROX)
        less = mu_by_root(epsilon, 1e-6) > 2 * math.tanh(epsilon / 2)
        assert module.chosen(p, tunables(module, p)) == ("gaussian" if less else "bit")


def test_a_bit_attains_the_known_rate():
    """The bound over (tau^2/(n epsilon^2))^(1/4) stays where it is while n grows 10,000-fold and epsilon falls 10-fold."""
    shares = []
    for n, epsilon in itertools.product((10**6, 10**8, 10**10), (1.0, 0.1)):
        p = problem(n, 1, epsilon)
        t = tunables(module, p)
        shares.append(module.explicit_bounds(p, t, planned(p, t))[module.COORDINATE] / (16 / (n * epsilon**2)) ** 0.25)
    assert max(shares) < 1.25 * min(shares)
    assert max(shares) < 2 * math.sqrt(2 * math.sqrt(2 * math.log(80)))
