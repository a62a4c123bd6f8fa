"""The noise of a gradient step follows how far apart gradients can be at the iterate: never too little, and no more than that asks for."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest

from dpspec.algorithms.convex_erm._common import mean_sensitivity, noisy_gradient, steepness, summed
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor.bind import bound_problem
from dpspec.lang.source import parse_text

SPEC = """analysis "near"
data
  n = {n}, d = 2
  from memory
  private, unit person, neighbours {neighbours}
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by reject
privacy central
  epsilon = 1, delta = 1e-3
release weights
  minimise {loss} + 0.01/2*|w|^2
  by dp-gd
"""


def problem(neighbours="replace-one", loss="log(1 + exp(-y*<w, x>))", n=4):
    draft = compile_draft(parse_text(SPEC.format(neighbours=neighbours, loss=loss, n=n), surface="dps"))
    (release,) = draft.releases
    return bound_problem(draft, release)


class Answers:
    """A meter that adds nothing and keeps what it was given."""

    def draw(self, name, value, *, sensitivity):
        self.seen, self.sensitivity = np.array(value), sensitivity
        return np.array(value)


def given(p, w, x, y):
    meter = Answers()
    back = noisy_gradient(meter, Records(np.asarray(x), np.asarray(y)), p, w)
    return meter, back


def pair(norm):
    """The records of the unit disk with y = -1 whose gradients at w = (norm, 0) are farthest apart: mirror images, by a search."""
    angle = np.linspace(0, np.pi, 20_001)
    best = angle[np.argmax(np.sin(angle) / (1 + np.exp(-norm * np.cos(angle))))]
    return np.array([np.cos(best), np.sin(best)]), np.array([np.cos(best), -np.sin(best)])


@pytest.mark.parametrize("norm", [0.0, 0.2, 1.0, 3.0, 8.0, 40.0])
def test_a_replaced_record_moves_the_draw_by_no_more_than_planned_and_nearly_by_that(norm):
    p, w = problem(), np.array([norm, 0.0])
    one, other = pair(norm)
    rest = np.array([[0.3, 0.1], [-0.5, 0.5], [0.0, 1.0]])
    y = np.array([-1.0, 1.0, -1.0, 1.0])
    (a, _), (b, _) = given(p, w, np.vstack([one, rest]), y), given(p, w, np.vstack([other, rest]), y)
    moved = float(np.linalg.norm(a.seen - b.seen))
    assert 0.95 * a.sensitivity <= moved <= a.sensitivity
    assert a.sensitivity == b.sensitivity == pytest.approx(2 / 4, rel=1e-3)


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out", "add-remove"])
def test_random_neighbours_stay_within_the_plan(neighbours):
    """Random weights, records at the edge of the disk, both labels; the neighbour lacks or replaces the first record."""
    p, rng = problem(neighbours), np.random.default_rng(5)
    for _ in range(300):
        w = rng.standard_normal(2) * rng.choice([0.01, 0.3, 2.0, 10.0])
        x = rng.standard_normal((5, 2))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        y = rng.choice([-1.0, 1.0], 5)
        gone = {"replace-one": x[1], "zero-out": np.zeros(2)}  # in the place of x[0]
        first = (x[2:], y[2:]) if neighbours == "add-remove" else (np.vstack([gone[neighbours], x[2:]]), y[1:])
        second = (np.vstack([x[0], x[2:]]), np.append(y[0], y[2:]))
        (a, _), (b, _) = given(p, w, *first), given(p, w, *second)
        assert np.linalg.norm(a.seen - b.seen) <= a.sensitivity


def test_the_noise_is_half_at_the_origin_and_whole_far_away():
    """A logistic gradient at w = 0 is x/2 long and two are at most 1 apart, against 1 and 2 in general."""
    p = problem()
    assert steepness(p, np.zeros(2)) == pytest.approx(0.5, rel=1e-6)
    assert steepness(problem("add-remove"), np.zeros(2)) == pytest.approx(0.5, rel=1e-6)
    assert 0.97 < steepness(p, np.array([1e4, 0.0])) <= 1.0
    assert steepness(replace(p, loss=replace(p.loss, local=None)), np.zeros(2)) == 1.0


def test_what_comes_back_is_the_gradient_itself():
    """Scaling up and down leaves the mean gradient, by hand at w = (1, 0)."""
    p, w = problem(), np.array([1.0, 0.0])
    x, y = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.6, 0.8]]), np.array([1.0, -1.0, 1.0, -1.0])
    by_hand = np.mean([-b * a / (1 + np.exp(b * a[0])) for a, b in zip(x, y, strict=True)], axis=0)
    _, back = given(p, w, x, y)
    assert back == pytest.approx(by_hand, rel=1e-12)
    assert mean_sensitivity(p) == pytest.approx(float(F(2, 4)), rel=1e-6)


@pytest.mark.parametrize("norm", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("n", [1000, 10**6])
def test_sums_of_close_gradients_leave_room_for_their_rounding(n, norm):
    """q = summed - 1 bounds the rounding of two sums of gradients of length l by 2 l q. With s the spread, (s + 2 l q)/share is what the
    scaled sums may differ by, and the plan allows 2 L (1 + q): the rounding does not shrink when the gradients come closer together."""
    p = problem(n=n)
    q, share = summed(p) - 1.0, steepness(p, np.array([norm, 0.0]))
    s, length = p.loss.spread_at(norm), p.loss.lipschitz_at(norm)
    assert s < 1.9 * length
    assert (s + 2 * length * q) / share <= 2 * p.loss.lipschitz * (1 + q)
    assert share <= s / (2 * p.loss.lipschitz) + q + 1e-8


@pytest.mark.parametrize("size", [0.0, 1e-320, 1e-170, 1e-150, 1e-9])
def test_a_kink_at_the_origin_is_seen_however_short_the_weights(size):
    """The slope of max(0, -y<w, x>) is -y or 0 at any w but 0, where the derivative that is taken is 0: x against 0."""
    p, w = problem(loss="max(0, -y*<w, x>)"), np.array([size, 0.0])
    rest = np.array([[0.3, 0.1], [-0.5, 0.5], [0.0, 1.0]])
    y = np.array([-1.0, 1.0, -1.0, 1.0])
    seen = [given(p, w, np.vstack([[np.cos(a), np.sin(a)], rest]), y)[0] for a in (1.5, -1.5, 3.0)]
    moved = max(float(np.linalg.norm(a.seen - b.seen)) for a in seen for b in seen)
    assert moved <= seen[0].sensitivity
    assert size == 0.0 or moved >= 0.9 * seen[0].sensitivity


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out", "add-remove"])
@pytest.mark.parametrize("big", [1e200, np.inf, np.nan])
def test_weights_out_of_the_range_of_doubles_get_the_whole_noise(neighbours, big):
    """Their norm is infinite or no number: a diverging run is refused by the meter for its value, not by the bound of its noise."""
    assert steepness(problem(neighbours), np.array([big, 1.0])) == 1.0


@pytest.mark.parametrize("neighbours", ["zero-out", "add-remove"])
def test_a_record_that_appears_moves_the_draw_by_its_own_length(neighbours):
    """Not by half of the distance of two, which is less: the record -w/|w| with y = 1 has a gradient of 1/(1 + exp(-3)) = 0.953."""
    p, w = problem(neighbours), np.array([3.0, 0.0])
    rest, y = np.array([[0.3, 0.1], [-0.5, 0.5], [0.0, 1.0]]), np.array([1.0, -1.0, 1.0])
    without = (np.vstack([np.zeros(2), rest]), np.append(0.0, y)) if neighbours == "zero-out" else (rest, y)
    a, _ = given(p, w, *without)
    b, _ = given(p, w, np.vstack([[-1.0, 0.0], rest]), np.append(1.0, y))
    assert p.loss.spread_at(3.0) / 2 < 0.75
    assert 0.95 * a.sensitivity <= np.linalg.norm(a.seen - b.seen) <= a.sensitivity
