"""What is computed in one pass over a stream: regrets by running sums of polynomials, and buffers by their changes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.algorithms.pairwise._stream import Blocks, _against_buffer, buffers, runs, shares
from dpspec.data.records import Records
from dpspec.tasks import minimise_pairwise as pairs

LOSSES = {
    "squared": (
        lambda u, a, b: (a != b) * (1 - u * (a - b) / 2) ** 2 / 2,
        lambda u, a, b: (a != b) * (u * (a - b) / 2 - 1) * (a - b) / 2,
    ),
    "logistic": (lambda u, a, b: np.logaddexp(0, -u * (a - b) / 2), lambda u, a, b: -(a - b) / 2 / (1 + np.exp(u * (a - b) / 2))),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_regret_s_value_and_gradient_are_those_of_a_loop(name: str, monkeypatch: pytest.MonkeyPatch):
    """700 records in blocks of 90: value and gradient against the sum over pairs, written out."""
    phi, slope = LOSSES[name]
    g = np.random.default_rng(0)
    n = 700
    x, y, w = g.standard_normal((n, 3)), np.where(g.random(n) < 0.3, 1.0, -1.0), g.standard_normal(3)
    f = pairs.PairObjective(phi, slope, online=True)
    monkeypatch.setattr(pairs, "_BLOCK", 90 * 24)
    assert f._running(phi, w, Records(x, y), gradient=False) is not None
    value, gradient, m = 0.0, np.zeros(3), x @ w
    for t in range(1, n):
        value += float(phi(m[t] - m[:t], y[t], y[:t]).mean())
        gradient += (slope(m[t] - m[:t], y[t], y[:t])[:, None] * (x[t] - x[:t])).mean(axis=0)
    assert f.data_value(w, Records(x, y)) == pytest.approx(value / (n - 1), rel=1e-11)
    np.testing.assert_allclose(f.data_gradient(w, Records(x, y)), gradient / (n - 1), rtol=1e-9, atol=1e-12)


def test_losses_with_a_kink_run_through_all_pairs():
    hinge = lambda u, a, b: np.maximum(0.0, 1 - u * (a - b) / 2)  # noqa: E731
    g = np.random.default_rng(1)
    x, y = g.standard_normal((700, 2)), np.where(g.random(700) < 0.5, 1.0, -1.0)
    f = pairs.PairObjective(hinge, hinge, online=True)
    assert f._running(hinge, np.array([1.0, 2.0]), Records(x, y), gradient=False) is None


@pytest.mark.parametrize("policy", ["reservoir", "fifo"])
@pytest.mark.parametrize(
    ("n", "every", "begin", "size"), [(600, 1, 7, 50), (600, 3, 9, 20), (601, 5, 51, 50), (300, 1, 100, 20), (300, 4, 4, 60)]
)
def test_what_a_buffer_holds_is_that_of_every_block(policy: str, n: int, every: int, begin: int, size: int):
    plan = Blocks(begin, every, (n - begin) // every)
    squares, held = np.zeros(n), list(buffers(policy, n, plan, size, 3))
    squares[begin : begin + every * plan.count] = 1 / every**2
    for b in held:
        which, copies = np.unique(b, return_counts=True)
        squares[which] += (copies / len(b)) ** 2
    most, record = _against_buffer(policy, begin + every * plan.count, plan, size, 3)
    assert most == pytest.approx(math.sqrt(squares.max()), rel=1e-12)
    np.testing.assert_allclose(shares(policy, n, plan, size, 3, record), [(b == record).mean() for b in held], rtol=1e-12)
    if policy == "reservoir":
        again = [b for b, count in runs(policy, n, plan, size, 3) for _ in range(count)]
        assert len(again) == len(held)
        assert all(np.array_equal(a, b) for a, b in zip(again, held, strict=True))
