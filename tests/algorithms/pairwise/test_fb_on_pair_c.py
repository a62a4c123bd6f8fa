"""fb-on-pair-c: the sensitivity is that of the buffer that the run has, exactly; FIFO and RS-x; the coins are part of the plan."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpspec.algorithms.pairwise import _stream
from dpspec.algorithms.pairwise import fb_on_pair_c as module
from dpspec.privacy.calibrated import Budget
from tests.algorithms.pairwise.streams import Fed, bound, movement
from tests.algorithms.pairwise.test_off_pair_c import sample
from tests.algorithms.pairwise.test_on_pair_c import LINEAR


@pytest.mark.parametrize(
    "options",
    ["every = 1, T_1 = 1", "every = 2, T_1 = 4", "every = 1, T_1 = 1, buffer = rs-x", "every = 3, T_1 = 2, buffer = rs-x, coins = 9"],
)
def test_a_record_moves_a_transcript_by_the_sensitivity_and_no_more(options: str):
    p, t, _ = bound(module, n=14, d=1, loss=LINEAR, options=f"size = 3, alpha = 1, shift = 2, {options}")
    plan = _stream.blocks(p, t)
    held = list(_stream.buffers(t.buffer, p.n, plan, 3, int(t.coins)))
    most = movement(p.n, lambda u, y: Fraction(-y), [Fraction(0)] * plan.count, plan, held)
    stated = Fraction(module.sensitivity(p, t)) ** 2
    assert stated * Fraction(999, 1000) <= most <= stated


def test_first_in_first_out_costs_one_part_in_s():
    plan = _stream.Blocks(20, 1, 480)
    assert _stream._against_buffer("fifo", 500, plan, 20, 1)[0] ** 2 == pytest.approx(1 + 1 / 20)


def test_a_reservoir_keeps_some_record_for_long_and_says_so():
    """Counted again from the buffers themselves, record by record."""
    plan = _stream.Blocks(30, 5, 94)
    squares = np.zeros(500)
    squares[30:] = 1 / 25
    for held in _stream.buffers("rs-x", 500, plan, 30, 1):
        squares += (np.bincount(held, minlength=500) / 30) ** 2
    found, record = _stream._against_buffer("rs-x", 500, plan, 30, 1)
    assert found**2 == pytest.approx(squares.max())
    assert record == squares.argmax()
    assert found > 1.5 * _stream._against_buffer("fifo", 500, plan, 30, 1)[0]


def test_the_run_follows_the_buffer_that_the_plan_counted():
    p, t, _ = bound(module, n=60, d=2, options="size = 5, every = 4, T_1 = 6, buffer = rs-x, alpha = 0.5, shift = 3")
    r, plan = sample(60, 2), _stream.blocks(p, t)
    meter = Fed(np.zeros((plan.count, 2)))
    module.run(r, p, t, meter)
    for q, held in enumerate(_stream.buffers("rs-x", 60, plan, 5, 1)):
        rows = range(plan.rows(q).start, plan.rows(q).stop)
        pairs = [(r.y[k] - r.y[i]) * (r.x[k] - r.x[i]) for k in rows for i in held]
        assert meter.seen[q] == pytest.approx(-np.mean(pairs, axis=0) / 2, abs=1e-12)  # at w = 0


def test_other_coins_are_another_plan():
    one, other = (bound(module, n=300, d=2, options=f"size = 20, buffer = rs-x, coins = {c}, every = 2") for c in (1, 2))
    assert module.sensitivity(*one[:2]) != module.sensitivity(*other[:2])


def test_the_ridge_adds_alpha_to_the_smoothness():
    """phi = alpha/2 |w - w_0|^2 + log(1 + e^-u): the second derivative of the sum is at most L_s + alpha, and alpha |C| is no part of
    it."""
    u = np.linspace(-5, 5, 10_001)
    curve = np.exp(-np.logaddexp(0, u) - np.logaddexp(0, -u))
    alpha, across, smooth = 0.01, 10.0, 0.25
    assert (curve + alpha).max() == pytest.approx(smooth + alpha)
    assert smooth + alpha < smooth + alpha * across


def test_both_readings_of_the_printed_noise_are_shown():
    p, t, _ = bound(module, n=1500, d=2, options="size = 5, buffer = rs-x, every = 10, alpha = 8, shift = 2")
    back, hidden = module.published(p, t, Budget(epsilon=1.0, delta=1e-6))
    assert back.epsilon < 1 < hidden.epsilon
