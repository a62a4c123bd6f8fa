"""Peeling: the printed scale against independent accounting, ours below it, and what the meter refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from dpspec.algorithms.sparse import _central, dp_iht_truncated
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget, calibrate
from dpspec.privacy.mechanisms.peeling import peeling
from dpspec.privacy.meter import PrivacyError, Release
from dpspec.privacy.noise import StudyNoise
from tests import leak
from tests.algorithms.support import plan, sparse_regression, tunables


def printed_scale(kept: int, epsilon: float, delta: float) -> float:
    """003, Algorithm 4, for a vector of sensitivity 1."""
    return 2 * math.sqrt(3 * kept * math.log(1 / delta)) / epsilon


def google_epsilon(kept: int, select: float, values: float, delta: float) -> float:
    """``kept`` worst-case pure selections and ``kept`` Laplace releases of scale ``values``, by dp_accounting (an upper bound)."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    p = 1 / (1 + math.exp(select))
    one = pld.from_randomized_response(2 * p, 2, value_discretization_interval=1e-4)
    two = pld.from_laplace_mechanism(values, value_discretization_interval=1e-4)
    return float(one.self_compose(kept).compose(two.self_compose(kept)).get_epsilon_for_delta(delta))


def test_a_selection_costs_2_lam_over_b_and_no_less():
    """P(index 1 wins) among two scores (v, 0) with Laplace noise of scale 1, by quadrature, at (v, w) against (v + 1, w - 1): the log
    ratio tends to 2 where the first score is far below."""

    def wins(gap: float) -> float:  # P(gap + A > B), A, B Laplace(1)
        tail = lambda t: 0.5 * math.exp(-abs(t)) if t < 0 else 1 - 0.5 * math.exp(-t)  # noqa: E731
        return quad(lambda a: 0.5 * math.exp(-abs(a)) * tail(gap + a), -60, 60, points=[-gap, 0.0], limit=400)[0]

    ratios = [math.log(wins(g + 2) / wins(g)) for g in (-20.0, -10.0, -5.0, 0.0, 5.0)]
    assert max(ratios) <= 2 + 1e-6
    assert ratios[0] > 1.88  # (2 + x) e^-x/4 tails approach the bound from below


@pytest.mark.parametrize(("epsilon", "delta", "kept"), [(10.0, 0.05, 20), (5.0, 0.5, 5), (20.0, 1e-6, 100)])
def test_the_printed_peeling_scale_fails_above_epsilon_1(epsilon, delta, kept):
    """The accountant that composes the parts tightly finds more than was stated (003 has no other argument); ours stays within it."""
    b = printed_scale(kept, epsilon, delta)
    assert google_epsilon(kept, 2 / b, b, delta) > 1.05 * epsilon
    assert _central.printed_spend(kept, kept, epsilon, delta) > 1.05 * epsilon
    c = calibrate(peeling("peel", 1.0, 200, kept), Budget(epsilon=str(epsilon), delta=str(delta)))
    assert google_epsilon(kept, 2 / c.scale("peel/select"), c.scale("peel/value"), delta) <= epsilon * 1.001


@pytest.mark.parametrize(("epsilon", "delta", "kept"), [(1.0, 1e-6, 10), (0.5, 1e-5, 3), (1.0, 1e-6, 40)])
def test_the_printed_scale_is_valid_below_epsilon_1(epsilon, delta, kept):
    b = printed_scale(kept, epsilon, delta)
    theirs = google_epsilon(kept, 2 / b, b, delta)
    assert theirs <= epsilon
    assert _central.printed_spend(kept, kept, epsilon, delta) == pytest.approx(theirs, rel=5e-3)
    if kept == 10:
        assert theirs == pytest.approx(0.636, abs=2e-3)


@pytest.mark.parametrize("kept", [2, 8, 30, 100])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.000001"), ("0.2", "0.00001"), ("1", "0.001")])
def test_our_noise_is_below_the_printed_one(kept, epsilon, delta):
    """Same selections (Laplace), same budget: the accountant never needs more than the document's composition, and Gumbel selections
    need about half."""
    b = printed_scale(kept, float(epsilon), float(delta))
    budget = Budget(epsilon=epsilon, delta=delta)
    equal = calibrate(peeling("peel", 1.0, 500, kept, selection="laplace"), budget)
    assert max(equal.scale("peel/select"), equal.scale("peel/value")) < b
    ours = calibrate(peeling("peel", 1.0, 500, kept), budget)
    assert ours.scale("peel/value") < 0.75 * b


def test_chosen_indices_are_left_out():
    """003 prints argmax over all indices. One large entry: with replacement it would be chosen every time."""
    tree = peeling("peel", 1e-6, 6, 4)
    c = calibrate(tree, Budget(epsilon="1", delta="0.00001"))
    for seed in range(50):
        out = Release(c, StudyNoise(seed), mode="study").peel("peel", np.array([100.0, 3.0, -2.0, 1.0, 0.0, 0.0]), sensitivity=1e-6, kept=4)
        assert np.count_nonzero(out) == 4
        assert set(np.flatnonzero(out)[:4]) == {0, 1, 2, 3}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_vector_with_a_nan_is_refused(bad):
    c = calibrate(peeling("peel", 1.0, 3, 2), Budget(epsilon="1", delta="0.00001"))
    with pytest.raises(PrivacyError, match="DP325"):
        Release(c, StudyNoise(0), mode="study").peel("peel", np.array([1.0, bad, 0.0]), sensitivity=1.0, kept=2)


def test_no_tunable_looks_at_the_records():
    """Events (draws, scales, counts) are the same for ordinary records, for zeros and for records of another scale and spectrum, and
    equal the plan made without any."""
    g = np.random.default_rng(0)
    n, d = 400, 6
    x = g.normal(size=(n, d))
    p = sparse_regression(n, d, model="central", eig_max=2.0)
    t = tunables(dp_iht_truncated, p)
    assert t.eta == pytest.approx(1 / 3)
    c = plan(dp_iht_truncated, p, t)
    found = []
    for records in (Records(x, x[:, 0]), Records(0 * x, np.zeros(n)), Records(100 * x * np.arange(1, d + 1), x[:, 1] ** 3)):
        release = Release(c, StudyNoise(1), mode="study")
        dp_iht_truncated.run(records, p, t, release)
        found.append(release.close())
    assert found[0] == found[1] == found[2]
    assert {e["name"]: e["scale"] for e in found[0]} == {name: c.scale(name) for name in c.levels}


def test_the_options_reach_the_tree():
    p = sparse_regression(400, 6, model="central")
    for entries, family in (("laplace", "laplace"), ("gaussian", "gaussian")):
        for selection, kind in (("gumbel", "exponential"), ("laplace", "noisy-max-laplace")):
            t = tunables(dp_iht_truncated, p, entries=entries, selection=selection)
            select, value = dp_iht_truncated.schedule(p, t).body.parts
            assert select.body.mechanism.kind == kind
            leaf = value if entries == "gaussian" else value.body
            assert leaf.mechanism.family == family
            c = plan(dp_iht_truncated, p, t)
            release = Release(c, StudyNoise(1), mode="study")
            g = np.random.default_rng(0).normal(size=(400, 6))
            dp_iht_truncated.run(Records(g, g[:, 0]), p, t, release)
            release.close()


def test_the_printed_peeling_leaks_more_than_it_states_at_a_large_epsilon() -> None:
    """A lower bound on the printed version: epsilon = 80, delta = 0.05, s = 1000 coordinates far above the others, so that all of them are
    selected for both data sets, each moved by lambda. The values alone are 1000 Laplace draws at the printed scale: with P(the sum of
    their losses exceeds epsilon + 3) = q, delta(epsilon) >= (1 - e^-3) q. Losses are rounded down, so q is too small if anything."""
    epsilon, delta, s = 80.0, 0.05, 1000
    ratio = 1 / printed_scale(s, epsilon, delta)
    step, half = ratio / 200, 200
    # loss of one draw z ~ Laplace(1) at 0 against a centre at ratio: |z - ratio| - |z|, from -ratio to ratio
    edges = np.arange(-half, half + 1) * step
    z = (ratio - edges) / 2  # P(loss >= edge) is P(z <= this)
    beyond = np.where(z <= 0, 0.5 * np.exp(z), 1 - 0.5 * np.exp(-z))
    beyond[0] = 1.0
    mass = beyond - np.append(beyond[1:], 0.0)
    assert mass.sum() == pytest.approx(1.0)
    assert mass[-1] == pytest.approx(0.5)
    size = 1 << 20
    whole = np.fft.irfft(np.fft.rfft(mass, size) ** s, size)
    losses = (np.arange(size) - s * half) * step
    q = float(whole[losses >= epsilon + 3].sum())
    assert (1 - math.exp(-3)) * q > 4 * delta
    leak.delta((1 - math.exp(-3)) * q, delta, epsilon)
