"""Where objective perturbation as printed is not private: pairs of neighbouring data sets and an event, with exact probabilities.

Printed (Kifer, Smith, Thakurta 2012, Algorithm 1, as cited by 000, Tables 3.1 to 3.3): the sum of the losses plus K/2 |w|^2 + <b, w>, K >=
2 B/epsilon, b ~ N(0, s^2 I), s = L sqrt(8 log(2/delta) + 4 epsilon)/epsilon. In one dimension the exact minimiser w solves
-b = K w + g(w), g the sum of the slopes, a rising function of w, so the law of w has P(w <= a) = Phi((K a + g(a))/s).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpspec.algorithms.convex_erm import objective_perturbation
from dpspec.algorithms.convex_erm._solve import stationary
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.privacy.mechanisms.objective_gaussian import GaussianObjective
from tests import leak
from tests.algorithms.support import logistic, minimise, tunables


def printed_scale(epsilon: float, delta: float, L: float = 1.0) -> float:
    return L * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The larger of the two divergences of two laws on common cells: a delta that any event of these cells needs."""
    e = math.exp(epsilon)
    return float(max(np.maximum(p - e * q, 0).sum(), np.maximum(q - e * p, 0).sum()))


def cells(total_slope: np.ndarray, scale: float) -> np.ndarray:
    """P(w in the cell) for consecutive cells, from K w + g(w) at their ends; differences of upper tails where those are small."""
    z = total_slope / scale
    return np.where(z[:-1] > 0, norm.sf(z[:-1]) - norm.sf(z[1:]), norm.cdf(z[1:]) - norm.cdf(z[:-1]))


# ------------------------------------------------------------------------------------------------ noise for one gradient


def replaced(epsilon: float, scale: float, K: float, at: float) -> float:
    """Losses with slopes in [-1, 1] and curvatures in [0, 1]: clip(w - at, -1, 1) in the one data set, 1 in the other."""
    w = np.linspace(at - 1, at + 1, 4001)
    w = np.concatenate([[-np.inf], w, [np.inf]])
    with np.errstate(invalid="ignore"):
        one, other = K * w + np.clip(w - at, -1, 1), K * w + 1.0
    return hockey_stick(cells(one, scale), cells(other, scale), epsilon)


@pytest.mark.parametrize(("epsilon", "delta", "factor"), [(1.0, 1e-9, 50), (0.5, 1e-9, 70), (1.0, 1e-7, 4)])
def test_noise_for_one_gradient_is_not_enough_under_replace_one(epsilon, delta, factor):
    """A replaced record changes the slope by up to 2L and the curvature by B. At the printed noise for a change of L the delta of this
    pair is ``factor`` times what was asked for; our noise for the same budget meets it at every place of the kink."""
    K, printed = 2 / epsilon, printed_scale(epsilon, delta)
    places = np.arange(2.0, 8.0, 0.25) * printed / K
    assert max(replaced(epsilon, printed, K, at) for at in places) > factor * delta
    m = GaussianObjective(2, 1, 1.0, 1.0, 0.0, delta, 1e-9)
    ours, K = m.scale(epsilon), 2 * m.extra(epsilon)
    assert max(replaced(epsilon, ours, K, at * ours / K) for at in np.arange(-8.0, 8.0, 0.25)) <= delta
    leak.delta(max(replaced(epsilon, printed, 2 / epsilon, at) for at in places), delta, epsilon)


# ------------------------------------------------------------------------------------------- more than one direction


def many_directions(p: int, epsilon: float, scale: float, K: float) -> float:
    """One record with the loss sum_i huber(w_i), slopes clip(w_i, +-1/sqrt(p)) (L = 1, B = 1, convex, no function of one product <w, x>)
    against a record with none. Coordinates are independent: |w_i| <= 1/sqrt(p) has P = 2 Phi((K + 1)/(sqrt(p) s)) - 1 and
    2 Phi(K/(sqrt(p) s)) - 1; the number of such coordinates is binomial. Its divergence is a lower bound of that of w."""
    inside, inside_without = (2 * norm.cdf(k / (math.sqrt(p) * scale)) - 1 for k in (K + 1, K))
    count = np.arange(p + 1)
    return hockey_stick(binom.pmf(count, p, inside), binom.pmf(count, p, inside_without), epsilon)


def test_a_loss_of_many_directions_breaks_the_dimension_free_noise():
    """The determinants of p-dimensional Hessians differ by (1 + B/K)^p, not by 1 + B/K: noise without p is not private, not even at twice
    the printed scale, for replace-one, nor at that of our mechanism, which is for generalised linear losses and says so."""
    epsilon, delta = 1.0, 1e-5
    found = {p: many_directions(p, epsilon, 2 * printed_scale(epsilon, delta), 2 / epsilon) for p in (40, 1000, 100_000)}
    assert found[40] > 30 * delta
    assert found[1000] > 0.02
    assert found[100_000] > 0.4
    m = GaussianObjective(1, 1000, 1.0, 1.0, 0.0, delta, 1e-9)
    assert many_directions(1000, epsilon, m.scale(epsilon), m.extra(epsilon)) > 1000 * delta
    # along one direction (p = 1) the same losses are generalised linear, and the same noise is enough
    assert many_directions(1, epsilon, m.scale(epsilon), m.extra(epsilon)) <= delta
    leak.delta(found[1000], delta, epsilon)


def test_a_loss_that_is_no_function_of_one_product_is_refused():
    text = """analysis "not generalised linear"
data
  n = 100, d = 3
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in [-1, 1] by clip
privacy central
  epsilon = 1, delta = 1e-5
release weights
  minimise sqrt(1 + |w - x|^2) + 0.1/2*|w|^2 over ball(l2, 1)
  by objective-perturbation
"""
    codes = {d.code for d in compile_draft(parse_text(text, surface="dps")).diagnostics if d.severity == "error"}
    assert codes == {"DP210"}  # nothing is proved of such a loss


# ----------------------------------------------------------------------------------------------------------- the solver


def early(b: float, curvatures: tuple[float, float], K: float, tolerance: float) -> float:
    """Gradient descent with the step 1/(K + 2) on K/2 w^2 + b w + two losses huber(w), slopes clip(h w, -1, 1), stopped as soon as the
    gradient is at most ``tolerance``."""
    w = 0.0
    for _ in range(10_000):
        g = K * w + b + sum(np.clip(h * w, -1.0, 1.0) for h in curvatures)
        if abs(g) <= tolerance:
            return w
        w -= g / (K + 2)
    raise AssertionError


def test_an_early_stopped_solver_leaks():
    """Two squared losses (Huber's, slopes up to L = 1), x = 1 and 1, against x = 1 and 0, y = 0; the noise is safe for exact minimisers.
    The one solver stops after one step, at w = -b/(K + 2), for every b; the other after one step when |b| is at most K + 2 tolerances,
    else after two, so there are points that it never returns: an event of probability 0 on the one side and 0.02 on the other."""
    epsilon, delta = 1.0, 1e-5
    s, K, tolerance = 2 * printed_scale(epsilon, delta), 2 / math.expm1(epsilon / 4), 0.6
    left = 1 / (K + 2)  # of the gradient, after one step without the second record
    low, high = tolerance / left, tolerance / left + tolerance  # b: one step up to low; two steps put it beyond high
    assert high / (K + 2) < 1.0  # where Huber's loss is still a square
    event = 2 * (norm.cdf(high / s) - norm.cdf(low / s))
    assert event > 1000 * delta

    def inside(w: float) -> bool:
        return low < abs(w) * (K + 2) < high * (1 - 1e-9)

    rng = np.random.default_rng(0)
    draws = s * rng.standard_normal(4000)
    one = np.mean([inside(early(b, (1.0, 1.0), K, tolerance)) for b in draws])
    assert one == pytest.approx(event, abs=5 * math.sqrt(event / 4000))
    fine = np.concatenate([draws, np.linspace(-high * 2, high * 2, 20_001)])
    assert not any(inside(early(b, (1.0, 0.0), K, tolerance)) for b in fine)

    # exact minimisers, w = -b/(K + 2) and -b/(K + 1) there, at the same noise
    ends = np.linspace(-1, 1, 2001)
    assert hockey_stick(cells((K + 2) * ends, s), cells((K + 1) * ends, s), epsilon) <= delta
    p = minimise(2, 1, logistic(l2=0.1))
    with pytest.raises(ValueError, match="tolerance"):  # ours certifies a tolerance far below one record's share, and pays for it
        stationary(logistic(l1=0.1), Records(np.ones((2, 1)), np.ones(2)), 2, 0.25, 1.0, np.array([3.0]), 0.1, 1e-12, limit=1)
    assert tunables(objective_perturbation, p).tolerance <= 1.0 / 2 / 1000
    leak.delta(event, delta, epsilon)  # 0 on the other side
