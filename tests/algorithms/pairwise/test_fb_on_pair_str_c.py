"""fb-on-pair-str-c: the printed guarantee of the hidden chain fails, with public coins and with secret ones."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from dpspec.algorithms.pairwise import _printed, _stream
from dpspec.algorithms.pairwise import fb_on_pair_str_c as module
from tests import leak
from tests.algorithms.pairwise.streams import RANKING, bound
from tests.algorithms.pairwise.test_off_pair_c import drafted

#: A loss that is linear but for its ridge has L_s = alpha, so the printed start phase is 16; G = 1, so S = 2.
BEGIN, ALPHA, G = 16, 1.0, 1.0


def test_a_loss_without_a_ridge_is_for_the_other():
    draft = drafted(algorithm="fb-on-pair-str-c")
    assert any("strongly-convex" in d.message or "fb-on-pair-c" in d.message for d in draft.diagnostics if d.severity == "error")


def test_the_sensitivity_is_that_of_the_convex_one():
    p, t, _ = bound(module, n=200, d=2, loss=f"{RANKING} + 1/2*|w|^2", options="size = 10, every = 5, T_1 = 10")
    assert module.influence(p, t) ** 2 == pytest.approx(1 / 25 + 2 / 100)
    assert module.sensitivity(p, t) == pytest.approx(p.loss.spread * module.influence(p, t), rel=1e-6)


def chain_by_hand(own: int, copies: list[Fraction], begin: int) -> list[Fraction]:
    """|w_t - w'_t| for phi = +-G x, all other records at 0: run twice, in fractions, w_t = w_{t-1} - eta_t (g_t + alpha w_{t-1})."""
    one, other, found = Fraction(0), Fraction(0), []
    for k, share in enumerate(copies):
        t = begin + 1 + k
        eta = Fraction(t - 1, t - 2) * Fraction(2, t)
        pull = Fraction(1) if t == own else share
        one, other = one - eta * (pull + one), other - eta * (-pull + other)
        found.append(abs(one - other))
    return found


def test_the_recursion_is_attained_by_two_runs():
    own, copies = 18, [Fraction(0), Fraction(0), Fraction(1, 3), Fraction(2, 3), Fraction(1, 3), Fraction(0)]
    exact = chain_by_hand(own, copies, BEGIN)
    assert _printed.hidden(own, [float(c) for c in copies], BEGIN, ALPHA, 2 * G) == pytest.approx([float(v) for v in exact], rel=1e-12)


def test_the_hidden_chain_breaks_its_guarantee():
    """Given the buffer the transcript of a linear loss is exactly a Gaussian mechanism; epsilon = 1, delta = 1e-6, n = 1000, s = 5."""
    n, size, epsilon, delta = 1000, 5, 1.0, 1e-6
    plan = _stream.Blocks(BEGIN, 1, n - BEGIN)
    record = _stream._against_buffer("rs-x", n, plan, size, 1)[1]
    copies = [float((held == record).mean()) for held in _stream.buffers("rs-x", n, plan, size, 1)]
    times = np.arange(BEGIN + 1, n + 1, dtype=float)
    sigma = _printed.noise(times, G, ALPHA, n - BEGIN, _printed.zcdp(epsilon, delta))
    mu = math.sqrt(((_printed.hidden(record + 1, copies, BEGIN, ALPHA, 2 * G) / sigma) ** 2).sum())
    spent = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert spent > 1000 * delta
    leak.delta(spent, delta, epsilon)


def test_secret_coins_do_not_save_the_hidden_chain():
    """A lower bound without simulation. All other records pull nowhere, so without the record the transcript is N(0, sigma_t^2) whatever
    the
    buffer holds, and with it every place that it takes only adds to the shift. Record T_1 takes a given place when it arrives and keeps
    it up to time m with probability 1/m; then the statistic sum_t a_t w_t/sigma_t exceeds a threshold at least as often as with one place
    of
    s."""
    n, size, epsilon, delta = 4000, 1, 1.0, 1e-6
    stays = n
    copies = [1.0 / size if t <= stays else 0.0 for t in range(BEGIN + 1, n + 1)]
    times = np.arange(BEGIN + 1, n + 1, dtype=float)
    sigma = _printed.noise(times, G, ALPHA, n - BEGIN, _printed.zcdp(epsilon, delta))
    mu = math.sqrt(((_printed.hidden(BEGIN, copies, BEGIN, ALPHA, G) / sigma) ** 2).sum())
    threshold = 6.0  # without the record the statistic exceeds it with probability 1e-9
    with_it, without = norm.cdf(mu - threshold) / stays, norm.sf(threshold)
    assert with_it - math.exp(epsilon) * without > 100 * delta
    leak.delta(with_it - math.exp(epsilon) * without, delta, epsilon)


def test_the_lemma_fails_for_a_first_in_first_out_buffer():
    """s = 1: record 17 moves w_18 by more than 8 G/(alpha t), so that release costs more than rho/(n - T_1). All releases together do
    not."""
    moved = chain_by_hand(17, [Fraction(0), Fraction(1)] + [Fraction(0)] * 400, BEGIN)
    ratio = [m * (BEGIN + 1 + k) / 8 for k, m in enumerate(moved)]
    assert ratio[1] > 1
    assert sum(r**2 for r in ratio) < len(ratio)
    for size in (2, 3, 10):
        copies = [Fraction(0)] + [Fraction(1, size)] * size + [Fraction(0)] * 50
        assert max(m * (BEGIN + 1 + k) / 8 for k, m in enumerate(chain_by_hand(17, copies, BEGIN))) < 1


def test_with_the_point_fed_back_the_printed_noise_is_ample():
    plan = _stream.Blocks(BEGIN, 1, 984)
    moved = _stream._against_buffer("rs-x", 1000, plan, 5, 1)[0]
    rho = _printed.zcdp(1.0, 1e-6)
    mu = 2 * G * moved * 16 / 15 / math.sqrt(8 * 984 / rho)
    assert mu**2 / 2 < rho / 10
