"""ldp-sgll: how far a report moves, the unbiased gradient and its variance by quadrature, degrees, the bound, and the printed scheme."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.polynomial import chebyshev

from dpspec.algorithms.nldp_erm import ldp_sgll as module
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.spec.expr import Name
from dpspec.symbolic.margin import margin_functions
from tests import leak
from tests.algorithms.nldp_erm.test_ldp_l1_mean import exact_epsilon
from tests.algorithms.nldp_erm.test_ldp_mean import Silent
from tests.algorithms.support import study, tunables

SPEC = """analysis "weights"
data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {y}
privacy nldp
  epsilon = {epsilon}, delta = 1e-6
release w
  minimise {loss} over ball(l2, {radius})
  by {by}
"""
SIGNS = "{-1, 1} by map(-1 -> -1, 1 -> 1)"


def compiled(**given: object):
    values = {"n": 20_000, "d": 3, "y": SIGNS, "epsilon": 8, "loss": "logistic", "radius": 2, "by": "ldp-sgll", **given}
    return compile_draft(parse_text(SPEC.format(**values), surface="dps"), least="missed")


@pytest.fixture(scope="module")
def release():
    return compiled().releases[0]


LOGISTIC = module.Slopes(margin_functions(Name("logistic")), -1.0, 1.0)


def quadrature(fit: module.Fit, w: np.ndarray, x: np.ndarray, y: float, s: float, sy: float) -> tuple[np.ndarray, float]:
    """E g and E|g|^2 over z = x + s N (two coordinates) and y^ = y + sy N, exact for polynomials: Gauss-Hermite in three variables."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(10)
    weights = weights / weights.sum()
    mean, square = np.zeros(2), 0.0
    for (i, a), (j, b) in itertools.product(enumerate(nodes), repeat=2):
        for c, part in zip((-1.0, 1.0), (0.5, 0.5), strict=True):  # two points are enough for degree 2 in the label's noise
            g = module.gradient(fit, (x + s * np.array([a, b]))[None, :], np.array([y + sy * c]), w, s)
            mean += weights[i] * weights[j] * part * g
            square += weights[i] * weights[j] * part * float(g @ g)
    return mean, square


# ------------------------------------------------------------------------------------------------------------------ privacy


def test_no_record_moves_a_report_by_more_than_its_sensitivity(release):
    """Before the noise in exact fractions: hostile records and labels; 2 sqrt(2) r is attained by both parts together."""
    t, p = release.tunables, release.problem
    channel = module.schedule(p, t).mechanism
    nasty = [0.0, 1.0, -1e6, 1.7e308, math.inf, math.nan]
    rows = [*itertools.product(nasty, repeat=2)]
    x, y = np.array([(*r, 0.0) for r in rows for _ in range(3)]), np.array([v for _ in rows for v in (1e9, -1e9, math.nan)])
    sent = {tuple(Fraction(float(v)) for v in row) for b in module.held(Records(x, y), t) for row in channel.encode(b, 1e-200, Silent())}
    ends = [u for u in sent if abs(u[3]) == 1] or list(sent)
    largest = max(sum((a - b) ** 2 for a, b in zip(u, v, strict=True)) for u in ends for v in ends)
    assert largest <= Fraction(channel.sensitivity) ** 2
    assert largest >= Fraction(999, 1000) * Fraction(channel.sensitivity) ** 2
    far = np.array([6.0, 8.0])  # as printed nothing is clipped: a record of length 10 against its opposite, noise for the unit ball
    leak.moved(float(np.linalg.norm(far + far)), 2.0)


def test_the_report_has_the_exact_profile(release):
    mu = 2 * math.sqrt(2) * (1 + 2.0**-40) / release.calibrated.scale("record")
    assert exact_epsilon(mu, 1e-6) == pytest.approx(8.0, rel=1e-3)


@pytest.mark.parametrize(("degree", "spent"), [(1, 0.857), (2, 0.559), (3, 0.463), (5, 0.395), (10, 0.355)])
def test_the_printed_copies_spend_otherwise_than_they_say(degree, spent):
    """All copies composed exactly at nominal 1, delta 1e-5; one call at (1/4, delta/4) spends 0.366; p = 1 and epsilon 5: more."""
    assert exact_epsilon(module.synopsis(1.0, 1e-5, degree), 1e-5) == pytest.approx(spent, abs=1e-3)
    assert exact_epsilon(2 * 0.25 / math.sqrt(2 * math.log(5e5)), 2.5e-6) == pytest.approx(0.366, abs=2e-3)
    assert exact_epsilon(module.synopsis(5.0, 1e-5, 1), 1e-5) > 5
    leak.epsilon(exact_epsilon(module.synopsis(5.0, 1e-5, 1), 1e-5), 5.0, 1e-5)


# ---------------------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("degree", [1, 3, 4])
def test_the_gradient_of_a_report_is_that_of_the_polynomial(degree):
    """E g = (P_A(<w, x>) + y P_B(<w, x>)) x, a loss with both parts, by exact quadrature."""
    f = module.Slopes(margin_functions(Name("logistic")), 0.0, 1.0)  # labels 0 and 1: B is not constant
    fit = module.fitted(f, 2.0, degree, 1.0)
    w, x = np.array([1.2, -0.7]), np.array([0.6, 0.5])
    u = float(w @ x)
    for y in (0.0, 1.0):
        mean, _ = quadrature(fit, w, x, y, 0.8, 0.5)
        wanted = (np.polynomial.polynomial.polyval(u / fit.span, fit.a) + y * np.polynomial.polynomial.polyval(u / fit.span, fit.b)) * x
        assert mean == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("degree", [1, 3])
def test_the_variance_is_bounded_and_grows_with_d(degree):
    """E|g|^2 by quadrature at 12 points of the set and the ball, at most V and once above a twentieth of it; V is linear in d."""
    fit, s = module.fitted(LOGISTIC, 2.0, degree, 1.0), 1.5
    v = module.variance(fit, 2, s, 1.0, 1.0)
    g, largest = np.random.default_rng(0), 0.0
    for i in range(12):
        w, x = g.normal(size=2), g.normal(size=2)
        w, x = w / np.linalg.norm(w) * (2.0 if i % 2 else g.random()), x / np.linalg.norm(x)
        x = w / np.linalg.norm(w) if i % 4 == 1 else x
        largest = max(largest, quadrature(fit, w, x, 1.0 if i % 3 else -1.0, s, s)[1])
    assert v / 20 < largest <= v
    steps = np.diff([module.variance(fit, d, s, 1.0, 1.0) for d in (2, 3, 4)])
    assert steps[1] == pytest.approx(steps[0])
    assert steps[0] > 0


def test_one_report_is_better_than_copies():
    """The power 3 of u = 1/2, |w| = 1, epsilon 1, delta 1e-5: the product of three copies against H_3, by exact variances."""
    u, m = 0.5, 3 * 4
    copy = m * math.sqrt(2 * math.log(1.25 * m / 1e-5)) * 2  # corrected for sensitivity 2
    product = (u * u + copy * copy) ** 3 - u**6
    scale = 2.0
    while exact_epsilon(2 * math.sqrt(2) / scale, 1e-5) > 1:
        scale *= 1.01
    hermite = sum(math.comb(3, j) ** 2 * math.factorial(j) * scale ** (2 * j) * u ** (6 - 2 * j) for j in range(1, 4))
    assert product > 1e3 * hermite


# ------------------------------------------------------------------------------------------------------------------ polynomials


def test_measured_degrees_are_small():
    """Logistic slope, odd part tanh(u/2)/2: p = 1 is within 0.01 at r = 1, p = 5 within 0.01 at r = 4; Lemma 8 asks for 12 and 35. gamma
    covers a lattice that it has not seen. Coefficients of T_100 exceed 10 * 2^100."""
    for span, degree in ((1.0, 1), (4.0, 5)):
        fit = module.fitted(LOGISTIC, span, degree, 1.0)
        u = np.linspace(-span, span, 7777)
        values = np.polynomial.polynomial.polyval(u / fit.span, fit.a) + np.polynomial.polynomial.polyval(u / fit.span, fit.b)
        error = np.abs(values - (-1 / (1 + np.exp(u)))).max()
        assert error <= fit.gamma < 0.015
        assert fit.gamma < 1.1 * error
    assert max(abs(float(c)) for c in chebyshev.cheb2poly([0] * 100 + [1])) > 10 * 2.0**100


def test_the_series_has_no_constant_one_half():
    """a_0 of h2' = tanh(u/2)/2 is 0, and the label's part is -1/2, of degree 0."""
    fit = module.fitted(LOGISTIC, 2.0, 5, 1.0)
    assert fit.a[0] == pytest.approx(0.0, abs=1e-12)
    assert fit.b == pytest.approx([-0.5, 0, 0, 0, 0, 0])


def test_the_printed_scale_is_applied_twice():
    """Coefficients of tanh(r u/2)/2 on [-1, 1], r = 2, p = 3, used at r u with factors r^k: off by 0.27; once: by 0.02."""
    r, u = 2.0, np.linspace(-1, 1, 2001)
    c = chebyshev.cheb2poly(chebyshev.chebinterpolate(lambda v: np.tanh(r * v / 2) / 2, 60)[:4])
    truth = np.tanh(r * u / 2) / 2
    twice = np.abs(sum(c[k] * (r * u) ** k for k in range(4)) - truth).max()
    once = np.abs(sum(c[k] * u**k for k in range(4)) - truth).max()
    assert twice == pytest.approx(0.27, abs=0.03)
    assert once < 0.02


# ------------------------------------------------------------------------------------------------------------------- answers


def test_the_risk_is_within_the_bound(release):
    """Excess over fresh records of the same law, six runs: the mean below the bound and below that of the zero vector."""
    p, t = release.problem, release.tunables
    (bound,) = module.explicit_bounds(p, t, release.calibrated).values()
    g, theta = np.random.default_rng(1), np.array([2.0, 0.0, 0.0])

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        x = g.normal(size=(n, 3))
        x /= np.linalg.norm(x, axis=1)[:, None]
        return x, np.where(g.random(n) < 1 / (1 + np.exp(-2 * x @ theta)), 1.0, -1.0)

    fresh = draw(50_000)

    def risk(w: np.ndarray) -> float:
        return float(np.logaddexp(0, -fresh[1] * (fresh[0] @ w)).mean())

    excesses = [risk(study(module, Records(*draw(p.n)), p, t, release.calibrated, seed).theta) - risk(theta) for seed in range(6)]
    assert np.mean(excesses) < bound
    assert np.mean(excesses) < (risk(np.zeros(3)) - risk(theta)) / 2


def test_the_degree_grows_with_the_budget_and_n(release):
    p, t = release.problem, release.tunables
    chosen = [module.choose(p, t, s).degree for s in (10.0, 1.0, 0.1, 0.001)]
    assert chosen == sorted(chosen)
    assert chosen[0] == 1
    assert chosen[-1] > 3
    fixed = tunables(module, p, degree=4)
    assert module.choose(p, fixed, 1.0).degree == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"loss": "hinge", "y": "[-1, 1] by clip"}, "is not linear in y"),
        ({"loss": "logistic + 0.1*|w|_1"}, "no l1 or group term"),
        ({"n": 500_000_000}, "= 2e+09 numbers of reports; the limit is 1e+09"),
        ({"loss": "squared", "y": "[-1, 1] by clip"}, None),
        ({"loss": "logistic-glm", "y": "{0, 1} by map(0 -> 0, 1 -> 1)"}, None),
    ],
)
def test_which_losses_are_served(given, said):
    draft = compiled(**given)
    messages = [d.message for d in draft.diagnostics if d.severity == "error"]
    assert any(said in m for m in messages) if said else not messages, messages


def test_an_unbounded_set_is_refused(release):
    p = replace(release.problem, task=release.problem.task.model_copy(update={"over": None}))
    assert "bounded and convex" in str(module.accepts(p, release.tunables))


def test_a_slope_is_linear_in_y_on_the_whole_range_of_y():
    """huber(10) is the square for |<w, x> - y| <= 10, so linear in y between -1 and 2, and clipped for y up to 100."""
    wide = compiled(loss="huber(10)", y="[-100, 100] by clip", radius=1)
    assert any("not linear in y" in d.message for d in wide.diagnostics)
    narrow = compiled(loss="huber(10)", y="[-9, 9] by clip", radius=1)
    assert not any("not linear in y" in d.message for d in narrow.diagnostics)
