"""ldp-gradient-em: what one user sends in exact arithmetic, the bound on fresh users, the scale that is printed for one number."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from dpspec.algorithms.em import _steps as steps
from dpspec.algorithms.em import ldp_gradient_em as module
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise, keep_threshold
from tests.algorithms.em.test_dp_gradient_em_full import MODELS, NASTY, contraction, drawn, up_to_sign
from tests.algorithms.em.test_dp_gradient_em_full import problem as central
from tests.algorithms.support import plan, tunables

BETA = np.array([0.9, 0.4])


def problem(n: int, d: int, model: str = "gmm", pure: bool = False, **facts: float):
    p = central(n, d, model, **facts)
    return replace(p, model="sldp", facts={k: v for k, v in p.facts.items() if not (pure and k == "delta")})


def clients(model: str):
    """Every hostile user's block before the channel: the code that a round runs, over a group of one."""
    p = problem(50, 2, model, gradient_moment=4.0)
    t = tunables(module, p, channel="gaussian", s=2, b=3)
    for row in itertools.product([*NASTY[2:], math.inf, math.nan], repeat=2):
        for y in [None] if model == "gmm" else [0.0, -3.0, 1e300, math.inf]:
            (block,) = module.truncated(Records(np.array([row]), None if y is None else np.array([y])), p.oracle, t, BETA)
            yield p, t, block


class Silent:
    def add_gaussian(self, x, scale, *, sensitivity, dim):
        return x


@pytest.mark.parametrize("model", MODELS)
def test_no_pair_of_records_moves_a_message_by_more_than_its_sensitivity(model):
    """Before the Gaussian noise, in exact fractions, all pairs of hostile users; the largest movement comes close, and the sensitivity is
    the derived one, 2 cap sqrt(d) s with cap = (2 sqrt(2)/3)(2 Phi(sqrt(b)) - 1)."""
    sent = set()
    for p, t, block in clients(model):
        channel = module.schedule(p, t).body.mechanism
        assert np.isfinite(block).all()
        sent.add(tuple(Fraction(float(v)) for v in np.ravel(channel.encode(block, 1.0, Silent()))))
    cap = 2 * math.sqrt(2) / 3 * (2 * norm.cdf(math.sqrt(3)) - 1)
    assert channel.sensitivity == pytest.approx(2 * cap * math.sqrt(2) * 2, rel=1e-9)
    largest = max(sum((a - b) ** 2 for a, b in zip(u, v, strict=True)) for u in sent for v in sent)
    assert (Fraction(999, 1000) * Fraction(channel.sensitivity)) ** 2 <= largest <= Fraction(channel.sensitivity) ** 2


def test_a_bit_has_ratio_e_to_the_epsilon_and_no_more():
    """The two ends of a client's range make the sign + with probabilities whose ratio is that of the coin, in exact fractions."""
    p = problem(100, 2, pure=True)
    t = tunables(module, p, s=2, b=3)
    channel = module.schedule(p, t).body.mechanism
    kept = Fraction(keep_threshold(1.0), 2**64)
    assert channel.kind == "sampled-coordinate"
    assert channel.radius >= max(np.abs(block).max() for _, _, block in clients("gmm"))
    assert math.exp(1) * (1 - 1e-12) <= float(kept / (1 - kept)) <= math.exp(1) * (1 + 2.0**-52)


@pytest.mark.parametrize(("epsilon", "word"), [(1.0, "gaussian"), (9.0, "bit")])
def test_auto_takes_the_channel_of_less_noise(epsilon, word):
    p = problem(5000, 3, epsilon=epsilon, delta=0.2 if word == "gaussian" else 1e-6)
    auto = tunables(module, p)
    found = {w: module.side(p, t, plan(module, p, t, Budget(epsilon=str(epsilon), delta=str(p.facts["delta"]))).scale("report"))
             for w in ("auto", "bit", "gaussian") for t in [tunables(module, p, channel=w)]}  # fmt: skip
    other = {"bit": "gaussian", "gaussian": "bit"}[word]
    assert module.chosen(p, auto) == word
    assert found["auto"] == found[word] < found[other]


def test_what_cannot_be_is_refused_in_words():
    for p, given, words in (
        (problem(100, 2, pure=True), {"channel": "gaussian"}, "needs a delta"),
        (problem(100, 2, rho=0.5), {"channel": "bit"}, "stated in epsilon"),
        (problem(3, 2), {"T": 4}, "leave some empty"),
    ):
        assert words in str(module.accepts(p, tunables(module, p, **given)))


def test_every_user_reports_once():
    """The witness: what the server is handed of a user. Each row is in one group; asked in every round, T reports of the whole budget would
    spend T of it."""
    p = problem(23, 2)
    t = tunables(module, p, T=3)
    seen = []

    class Door:
        public = PublicRandomness(0)

        def mean_blocks(self, name, blocks):
            seen.append(np.concatenate(list(blocks)))
            return np.zeros(2)

    x = np.arange(1.0, 24.0)[:, None] * np.array([1.0, 0.0])
    module.run(Records(x), p, t, Door())
    assert [len(rows) for rows in seen] == [7, 7, 9]
    (block,) = module.truncated(Records(x), p.oracle, t, steps.start(p, t, Door()))
    np.testing.assert_array_equal(np.concatenate(seen), block)  # blind rounds of 0 leave beta where it started
    c = plan(module, p, t, Budget(epsilon="1", delta="0.000001"))
    assert c.guarantee.epsilon <= 1


def test_the_bound_holds(monkeypatch):
    """d = 1; tau by quadrature at the ends of the ball of radius |beta*|/4."""
    n, beta, sigma = 60_000, np.array([1.5]), 0.5
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    x, weights = (1.5 + sigma * nodes)[:, None], weights / weights.sum()
    moment = max(weights @ MODELS["gmm"](sigma).gradients(np.array([1.5 * f]), x, None)[:, 0] ** 2 for f in (0.75, 1.25))
    p = problem(n, 1, pure=True, epsilon=4.0, gradient_moment=moment, contraction=contraction(3.0, 1 / 8), start_within=1 / 8)
    t = tunables(module, p, T=2, s=3)
    c = plan(module, p, t, Budget(epsilon="4"))
    (bound,) = module.explicit_bounds(p, t, c).values()
    tail, length, m = math.log(4 * 2 / 0.05), c.scale("report"), n / 2
    one = moment * (1 + 1 / t.b) / (2 * t.s) + t.s * (t.b / 2 + tail) / m + length * math.sqrt(2 * tail / m)
    g = p.facts["contraction"]
    assert bound == pytest.approx(g**2 * 1.5 / 8 + one / (1 - g))
    assert length == pytest.approx(module.half(t) / math.tanh(2))
    monkeypatch.setattr(steps, "start", lambda p, t, release: beta * 9 / 8)
    found = []
    for seed in range(6):
        release = Release(c, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
        found.append(up_to_sign(module.run(Records(*drawn("gmm", n, beta, sigma, seed)), p, t, release).theta, beta))
        release.close()
    assert bound / 60 < np.median(found) <= max(found) <= bound


def test_the_printed_scale_is_not_balanced():
    """(21)'s scale for a round of n/T users at d = 10, delta 1e-6, by the bound that both have: sqrt(A/B) gives a quarter less."""
    p = problem(10**6, 10, gradient_moment=4.0)
    first = tunables(module, p, channel="gaussian", T=5)
    noise = plan(module, p, first).scale("report") / first.s  # of s = 1
    m, tail = p.n // 5, math.log(4 * 10 * 5 / 0.05)

    def deviation(s: float) -> float:
        t = tunables(module, p, channel="gaussian", T=5, s=s)
        return module.deviation(p, t, noise * s)

    balanced = math.sqrt(4.0 * (1 + 1 / first.b) / 2 / ((first.b / 2 + tail) / m + noise * math.sqrt(2 * tail / m)))
    printed = m**0.25 * 2 / (math.log(1 / 0.05) * math.log(1e6) ** 0.25)
    assert deviation(balanced) <= min(deviation(balanced * f) for f in (0.5, 0.8, 1.25, 2))
    assert deviation(printed) > 1.25 * deviation(balanced)


def test_defaults_find_the_components():
    """60,000 users at epsilon 4, without a delta, from a random public start."""
    beta = np.array([0.9, -1.2])
    p = problem(60_000, 2, pure=True, epsilon=4.0)
    t = tunables(module, p)
    c = plan(module, p, t, Budget(epsilon="4"))
    errors = []
    for seed in range(3):
        release = Release(c, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
        errors.append(up_to_sign(module.run(Records(*drawn("gmm", 60_000, beta, 0.5, seed)), p, t, release).theta, beta))
        release.close()
    assert np.median(errors) < 0.05
