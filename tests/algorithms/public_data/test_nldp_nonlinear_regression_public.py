"""nldp-nonlinear-regression-public: links by an independent fit, links that fall or say nothing, and a range that the document derives."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.special import erf
from scipy.stats import norm

from dpspec.algorithms.card import Problem
from dpspec.algorithms.public_data import _scaled as scaled
from dpspec.algorithms.public_data import nldp_nonlinear_regression_public as module
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.schedule import draws
from dpspec.spec.model import EstimateTheta
from tests import leak
from tests.algorithms.support import Silent, plan, study, tunables

BUDGET = Budget(epsilon="1", delta="0.00001")
SPEC = """
analysis "a"
data
  n = 10, d = 2, a = 3
  from memory
  private, unit person, neighbours replace-one
privacy nldp
  epsilon = 1
release theta
  estimate theta in y = {link} + noise
"""


def task(link: str) -> EstimateTheta:
    node = parse_text(SPEC.format(link=link), surface="dps").analysis.releases[0].task
    assert isinstance(node, EstimateTheta)
    return node


def problem(n: int, d: int, link: str = "tanh(<theta, x>)", **facts: float) -> Problem:
    known = {"n": n, "d": d, "m": 40_000, "epsilon": 1.0, "delta": 1e-5, "x_l2": 4.0, "y_low": -1.5, "y_high": 1.5, "y_abs": 1.5}
    return Problem("nldp", "replace-one", task(link), {**known, **facts}, modifiers=frozenset({"public"}))


LINKS = {
    "tanh(<theta, x>)": np.tanh,
    "1 - tanh(2*<theta, x>)": lambda u: 1 - np.tanh(2 * u),
    "<theta, x>^3/3": lambda u: u**3 / 3,
    "3 + erf(<theta, x>)": lambda u: 3 + erf(u),
    "<theta, x> + sin(<theta, x>)/2": lambda u: u + np.sin(u) / 2,
}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("root", ["score", "stein"])
def test_without_noise_it_finds_what_least_squares_through_the_link_finds(link, root):
    """60,000 Gaussian records, f written out here: within 0.05 of SciPy's least squares from the truth, which ends at the truth."""
    f, theta = LINKS[link], np.array([0.6, -0.4, math.sqrt(0.64 - 0.52)])
    g = np.random.default_rng(0)
    x = g.normal(size=(100_000, 3))
    y = f(x[:60_000] @ theta) + 0.1 * g.normal(size=60_000)
    records = Records(x[:60_000], y, x[60_000:])
    p = problem(60_000, 3, link, x_l2=30.0, y_low=-40.0, y_high=40.0, y_abs=40.0)
    t = tunables(module, p, moment="public", root=root, y0=3 if link.startswith("3") else 0)
    assert module.accepts(p, t) is None
    got = module.run(records, p, t, Silent(module.schedule(p, t)))
    fitted = least_squares(lambda w: f(x[:6000] @ w) - y[:6000], theta).x
    assert got.extras["scale_found"] == 1
    assert np.linalg.norm(got.theta - theta) < 0.05
    assert np.linalg.norm(got.theta - fitted) < 0.06


def test_a_link_and_its_slope_are_those_of_the_spec():
    u = np.linspace(-2, 2, 41)
    for link, f in LINKS.items():
        mean, slope = module.functions(problem(10, 2, link))
        assert np.allclose(mean(u) - mean(np.zeros(1)), f(u) - f(0.0), atol=1e-12)
        assert np.allclose(slope(u), (f(u + 1e-5) - f(u - 1e-5)) / 2e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("link", "words"), [("cos(<theta, x>)", "f is even"), ("<theta, x>^2", "f is even"), ("log(<theta, x>)", "no finite value")]
)
def test_links_that_say_nothing_are_refused_in_words(link, words):
    p = problem(100, 2, link)
    assert words in str(module.accepts(p, tunables(module, p)))
    linear = Problem("nldp", "replace-one", EstimateTheta(form="linear"), p.facts, modifiers=p.modifiers)
    assert "no known non-linear link" in str(module.accepts(linear, tunables(module, linear)))


def test_a_constant_of_the_spec_enters_the_link():
    p = problem(100, 2, "tanh(a*<theta, x>)", a=3.0)
    mean, slope = module.functions(p)
    u = np.array([0.1, -0.4])
    assert np.allclose(mean(u), np.tanh(3 * u))
    assert np.allclose(slope(u), 3 / np.cosh(3 * u) ** 2)


def test_a_response_outside_the_model_stays_within_the_sensitivity():
    """The message of any response, in exact fractions: y of 1e300 moves x (y - y0) by at most 2 r tau, and attains it."""
    p = problem(10, 2, y_low=-1.0, y_high=3.0)
    t = tunables(module, p, moment="private")
    assert (t.y0, t.tau) == (1.0, 2.0)
    channel = draws(module.schedule(p, t))["xy"].draw.mechanism
    sent = []
    for a, y in itertools.product([0.0, 0.5, -4.0, 1e300, math.inf], [0.0, 3.0, -1.0, 1e300, -1e300, math.nan]):
        ((x, centred),) = scaled.blocks(Records(np.array([[a, 0.0]]), np.array([y])), t.y0)
        sent.append([Fraction(float(v)) for v in channel.encode((x, centred), 1.0, NoNoise())[0]])
    largest = max(sum((a - b) ** 2 for a, b in zip(u, v, strict=True)) for u in sent for v in sent)
    assert largest <= Fraction(channel.sensitivity) ** 2
    assert largest >= (Fraction(999, 1000) * Fraction(channel.sensitivity)) ** 2
    # as printed y is not clipped: y = 100 against -100 at |x| = 1/2, noise for |x (y - y0)| <= r tau
    leak.moved(0.5 * 200, channel.sensitivity)


class NoNoise:
    def add_gaussian(self, x, scale, *, sensitivity, dim):
        return x


def test_the_messages_together_spend_the_budget_exactly():
    p = problem(1000, 3)
    t = tunables(module, p, moment="private")
    c = plan(module, p, t, BUDGET)
    mu = math.hypot(*(leaf.draw.mechanism.sensitivity / c.scale(name) for name, leaf in draws(c.tree).items()))
    delta = norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu)
    assert 0.999e-5 < delta <= 1e-5 * (1 + 1e-9)


def test_the_range_of_a_bounded_link_is_smaller_than_printed():
    """L r + C of tanh at r = 4, C = 1/2 is 4.5; the responses lie in 1.5."""
    p = problem(1000, 3, noise_bound=0.5)
    t = tunables(module, p, moment="public")
    (printed,) = module.published(p, t, BUDGET)
    assert printed.scale == pytest.approx(math.sqrt(32 * math.log(2.5e5)) * 4 * 4.5)
    assert t.tau == 1.5
    undeclared = {k: v for k, v in p.facts.items() if not k.startswith("y_")}
    bare = Problem("nldp", "replace-one", p.task, {**undeclared, "slope_max": 1.0}, modifiers=p.modifiers)
    assert tunables(module, bare).tau == 4.5


def test_the_cubic_experiment_is_noise_at_its_printed_scale():
    """x = +-1/d, theta = 1/sqrt(d), f(u) = u^3/3, d = 10, n = 290,000, epsilon 10: E x y is below a hundredth of the printed noise's mean,
    whose deviation is sqrt(32 log(2.5 n)) r (L r + C)/(epsilon sqrt(n)) with L = r^2 = 1."""
    g = np.random.default_rng(0)
    n, d = 290_000, 10
    x = g.choice([-1.0, 1.0], size=(20_000, d)) / d
    signal = np.abs((x * ((x @ np.full(d, d**-0.5)) ** 3 / 3)[:, None]).mean(axis=0)).max()
    noise = math.sqrt(32 * math.log(2.5 * n)) * (1 + 1e-3) / 10 / math.sqrt(n)
    assert signal < noise / 50


def test_the_settings_of_the_gallery_beat_the_zero_vector_by_far():
    """n = 120,000, d = 5, epsilon 4, delta 1e-8, radius 4: the mean error of six runs is below 0.4 of |theta| = 1, as predicted."""
    theta = np.ones(5) / math.sqrt(5)
    g = np.random.default_rng(4)
    x = g.normal(size=(140_000, 5))
    records = Records(x[:120_000], np.tanh(x[:120_000] @ theta) + 0.1 * g.normal(size=120_000), x[120_000:])
    p = problem(120_000, 5, epsilon=4.0, delta=1e-8, m=20_000, eig_min=0.9)
    t = tunables(module, p)
    c = plan(module, p, t, Budget(epsilon="4", delta="0.00000001"))
    errors = [np.linalg.norm(study(module, records, p, t, c, seed).theta - theta) for seed in range(6)]
    assert np.mean(errors) < 0.4
    assert module.predicted(p, t, c) / 4 < np.mean(errors) < 2 * module.predicted(p, t, c)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1, 0.01])
def test_the_length_along_a_direction_that_noise_has_turned(share):
    """The cube, Gaussian predictions: |theta| kappa, kappa^2 the share of <b, v> that is not noise, where the score equation alone has
    |theta| kappa^(1/3). By Stein's identity E u y = |v| |theta|^3 kappa for v at that angle."""
    u = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    u /= (float(np.mean(u**4)) / 3) ** 0.25  # the fourth moment that the equation sees, exactly
    f, slope = (lambda v: v**3 / 3), (lambda v: v**2)
    t, size = SimpleNamespace(root="score"), 0.7
    energy = size**3 * math.sqrt(share)
    product = energy / share
    assert scaled.scale_of(u, t, f, slope, energy).c == pytest.approx(size * share ** (1 / 6), rel=1e-6)
    assert scaled.length(u, t, f, slope, product, product - energy).c == pytest.approx(size * math.sqrt(share), rel=1e-6)


def test_a_bounded_link_gives_no_length_that_noise_alone_decides():
    """tanh levels out: E u y within a ten-thousandth of its largest value, or beyond it, has a root of thousands or none. The length is at
    most twice that of a standard error less, and where f does not level out nothing changes."""
    u = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    tanh, slope = np.tanh, lambda v: 1 / np.cosh(np.minimum(np.abs(v), 300.0)) ** 2
    t = SimpleNamespace(root="score")
    most = scaled.largest(u, tanh)
    assert most == pytest.approx(np.abs(u).mean(), rel=1e-6)
    for energy in (0.9999 * most, 1.1 * most):
        product = 1.02 * energy
        assert scaled.scale_of(u, t, tanh, slope, energy).c > 50
        bent = scaled.scale_of(u, t, tanh, slope, 0.95 * most).c
        assert scaled.length(u, t, tanh, slope, product, product - energy, 0.01 * energy).c == pytest.approx(2 * bent, rel=1e-6)
        less = scaled.scale_of(u, t, tanh, slope, 0.8 * min(energy, most)).c
        assert scaled.length(u, t, tanh, slope, product, product - energy, energy - 0.8 * min(energy, most)).c <= 2 * less + 1e-9
    line, flat = (lambda v: v), np.ones_like
    for energy in (0.1, 5.0):
        whole = scaled.length(u, t, line, flat, 2 * energy, energy).c
        assert scaled.length(u, t, line, flat, 2 * energy, energy, 1e9).c == pytest.approx(whole, rel=1e-9)
