"""The solvers that a guarantee rests on end alike for every data set: what a plan cannot be sure of is refused, and what it accepts is
reached, by the a priori course of steps where nothing else gets there."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

import dpspec as dp
from dpspec.algorithms import proximal
from dpspec.algorithms.convex_erm import _solve
from dpspec.algorithms.convex_erm._solve import ROOM, compensated, reach, stationary
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import REALS, ConstraintSet
from dpspec.data.records import Records
from dpspec.spec.diagnostics import SpecError

SPEC = """analysis "a solver"

data
  n = 50, d = 2
  from memory target "y"
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in [-1e14, 1e14] by clip

privacy central
  epsilon = 1, delta = 1e-6

release a
  minimise huber(1) + 1e-15/2*|w|^2 over R^d
  by approximate-minima-perturbation with ridge = 1e-15
"""
LABELS = "y in {-1, 1} by map(-1 -> -1, 1 -> 1)"


def changed(**words: str) -> str:
    text = SPEC
    for old, new in words.items():
        key = {"y": "y in [-1e14, 1e14] by clip", "loss": "huber(1) + 1e-15/2*|w|^2", "over": "R^d"}.get(old, old)
        key = {"by": "approximate-minima-perturbation with ridge = 1e-15", "budget": "epsilon = 1, delta = 1e-6"}.get(key, key)
        key = {"n": "n = 50, d = 2", "relation": "replace-one"}.get(key, key)
        assert key in text
        text = text.replace(key, new)
    return text


REFUSED = {
    "the folder's": SPEC,
    "a ridge of the loss alone": changed(loss="huber(1) + 1e-12/2*|w|^2", by="approximate-minima-perturbation with ridge = 0"),
    "logistic": changed(y=LABELS, loss="logistic", by="approximate-minima-perturbation with ridge = 1e-18"),
    "an l1 ball": changed(over="ball(l1, 1e9)", loss="huber(1) + 1e-9/2*|w|^2", by="approximate-minima-perturbation with ridge = 0"),
    "a fine tolerance": changed(over="ball(l2, 1)", by="approximate-minima-perturbation with ridge = 1, tolerance = 1e-15"),
    "objective": changed(by="objective-perturbation with ridge = 0, tolerance = 1e-14"),
    "pure objective": changed(by="objective-perturbation with ridge = 0, tolerance = 1e-14", budget="epsilon = 1"),
    "a small budget, so a long linear term": changed(
        y=LABELS, loss="logistic + 1e-5/2*|w|^2", by="objective-perturbation", budget="epsilon = 1e-9", n="n = 1000, d = 2"
    ),
    "add-remove": changed(
        y=LABELS, loss="logistic", by="approximate-minima-perturbation with ridge = 1e-9, tolerance = 1e-10", relation="add-remove"
    ),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_tolerance_that_is_not_certain_is_refused_when_the_plan_is_made(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        dp.plan(dp.loads(text))
    assert {d.code for d in caught.value.diagnostics if d.severity == "error"} == {"DP407"}
    assert "for some data set" in str(caught.value)


def test_the_stated_least_tolerance_is_accepted() -> None:
    text = changed(by="approximate-minima-perturbation with ridge = 1e-6, tolerance = TOL", loss="huber(1)", n="n = 50_000_000, d = 2")
    with pytest.raises(SpecError) as caught:
        dp.plan(dp.loads(text.replace("TOL", "1e-9")))
    least = str(caught.value).split("at least ")[1].split()[0]
    dp.plan(dp.loads(text.replace("TOL", least)))
    with pytest.raises(SpecError):
        dp.plan(dp.loads(text.replace("TOL", repr(float(least) / 2))))


def test_releases_that_share_a_budget_are_judged_by_their_own_noise() -> None:
    """A small share is a long linear term: what is accepted with all of epsilon is refused with a millionth of it."""
    one = changed(y=LABELS, loss="logistic + 0.01/2*|w|^2", by="objective-perturbation with tolerance = 1e-10", budget="epsilon = 1")
    two = one.replace("release a\n", "release a\n  share SHARE\n") + (
        "\nrelease b\n  share REST\n  minimise logistic over ball(l1, 1)\n  by dp-frank-wolfe with T = 2\n"
    )
    dp.plan(dp.loads(one))
    dp.plan(dp.loads(two.replace("SHARE", "9/10").replace("REST", "1/10")))
    with pytest.raises(SpecError, match="at least"):
        dp.plan(dp.loads(two.replace("SHARE", "1/1_000_000").replace("REST", "999_999/1_000_000")))


# ------------------------------------------------------------------------------------------------------- what is reached


def huber(u: np.ndarray, y: np.ndarray) -> np.ndarray:
    r = np.abs(u - y)
    return np.where(r <= 1, r * r / 2, r - 0.5)


def logistic(u: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, -y * u)


def logistic_slope(u: np.ndarray, y: np.ndarray) -> np.ndarray:
    from scipy.special import expit

    return -y * expit(-y * u)


def hub(over: ConstraintSet = REALS, l1: float = 0.0) -> Objective:
    return Objective(huber, lambda u, y: np.clip(u - y, -1, 1), lambda u, y: (np.abs(u - y) <= 1).astype(float), l1=l1, over=over)


def log(over: ConstraintSet = REALS, l1: float = 0.0) -> Objective:
    return Objective(logistic, logistic_slope, None, l1=l1, over=over)


@pytest.fixture
def only_the_course(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Newton's and the adaptive steps never got there."""
    monkeypatch.setattr(_solve, "_newton", lambda f, records, n, ridge, linear, w, *rest: (np.full_like(w, np.nan), False))
    monkeypatch.setattr(_solve, "_accelerated", lambda f, gradient, certified, w, *rest: (np.full_like(w, np.inf), False))


@pytest.mark.usefixtures("only_the_course")
@pytest.mark.parametrize("share", [1, 7, ROOM])
@pytest.mark.parametrize("mu", [1.0, 1e-2, 1e-4])
def test_the_course_reaches_a_known_minimiser(mu: float, share: int) -> None:
    """Records e1 with responses out of reach: every slope is -1 up to the minimiser share/mu*e1 (by hand)."""
    n = 3
    records = Records(np.tile([[1.0, 0.0]], (share * n, 1)), np.full(share * n, 1e9))
    known = reach(REALS, 2, share, 1.0, 1.0, mu, 0.0, 1e-4)
    tolerance = max(known.least, 1e-9)
    w = stationary(hub(), records, n, 1.0, 1.0, np.zeros(2), mu, tolerance)
    assert np.linalg.norm(w - [share / mu, 0.0]) <= tolerance / mu


@pytest.mark.usefixtures("only_the_course")
def test_the_course_needs_no_more_steps_than_the_plan_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the certificate that may end it sooner, on records that turn the slopes over and over, at the least tolerance."""
    steps = []
    follow = proximal.follow

    def counted(c: proximal.Course, gradient, prox, start, done=None) -> np.ndarray:
        def step(w: np.ndarray) -> np.ndarray:
            steps.append(1)
            return gradient(w)

        return follow(c, step, prox, start)

    monkeypatch.setattr(_solve, "follow", counted)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 3))
    x /= np.linalg.norm(x, axis=1)[:, None]
    records = Records(x, rng.choice([-1e9, 1e9, 0.0, 0.5], 20))
    for over in (REALS, ConstraintSet("l2", radius=0.5), ConstraintSet("l1", radius=2.0), ConstraintSet("box", low=0.1, high=3.0)):
        for mu in (0.5, 1e-3):
            known = reach(over, 3, 1.0, 1.0, 1.0, mu, 0.0, 1e-6)
            steps.clear()
            w = stationary(hub(over), records, 20, 1.0, 1.0, np.zeros(3), mu, 1e-6)
            assert known.course is not None
            assert len(steps) == known.course.steps <= 8 * math.sqrt(1 + 1 / mu) * (2 + math.log2(2 * 10**9))
            fine = np.array([math.fsum(c) for c in (x * np.clip(x @ w - records.y, -1, 1)[:, None]).T]) / 20 + mu * w
            # the distance to the minimiser, from below, by a step of length 1/(1 + mu): it cannot move farther than twice that distance
            assert np.linalg.norm(over.project(w - fine / (1 + mu)) - w) <= 2 * 1e-6 / mu


@pytest.mark.usefixtures("only_the_course")
@pytest.mark.parametrize("l1", [0.0, 0.05])
@pytest.mark.parametrize("over", [REALS, ConstraintSet("l2", radius=2.0), ConstraintSet("simplex"), ConstraintSet("l1", radius=1.0)])
def test_the_course_agrees_with_the_quick_way(over: ConstraintSet, l1: float, request: pytest.FixtureRequest) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((30, 4))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    records, linear, mu = Records(x, rng.choice([-1.0, 1.0], 30)), 0.1 * rng.standard_normal(4), 0.01
    f = log(over, l1)
    slow = stationary(f, records, 30, 0.25, 1.0, linear, mu, 1e-8, at_zero=math.log(2))
    request.getfixturevalue("monkeypatch").undo()
    quick = stationary(f, records, 30, 0.25, 1.0, linear, mu, 1e-8, at_zero=math.log(2))
    assert np.linalg.norm(slow - quick) <= 2 * 1e-8 / mu


HOSTILE = {
    "nothing": (0.0, 0.0),
    "one huge response": (1.0, 1e14),
    "tiny records": (5e-324, 1e14),
    "small records": (1e-160, -1e14),
    "steep": (1.0, -1e14),
}


@pytest.mark.parametrize("by", ["approximate-minima-perturbation with ridge = 1e-3", "objective-perturbation"])
@pytest.mark.parametrize("over", ["R^d", "ball(l2, 3)", "ball(l1, 3)"])
def test_an_accepted_plan_ends_alike_on_hostile_neighbours(by: str, over: str) -> None:
    plan = dp.plan(dp.loads(changed(by=by, over=over, loss="huber(1) + 1e-3/2*|w|^2")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one, y in HOSTILE.values():
            for others in (np.zeros((50, 2)), np.tile([[0.6, 0.8]], (50, 1))):
                x, responses = others.copy(), np.full(50, 1e14) * others[:, 0]
                x[0], responses[0] = (one, 0.0), y
                assert plan.run(x, responses).outputs["a"]["theta"].shape == (2,)


def test_a_curvature_that_cannot_be_inverted_is_no_failure() -> None:
    """A ridge that is lost beside the curvature: Newton's matrix is singular in doubles for these records and regular for others."""
    x = np.ones((4, 2)) / math.sqrt(2)
    f, mu = hub(), 1e-18
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.solve(f.data_hessian(np.zeros(2), Records(x, np.zeros(4)), 4) + mu * np.eye(2), np.ones(2))
    w, reached = _solve._newton(f, Records(x, np.full(4, 0.5)), 4, mu, np.zeros(2), np.zeros(2), lambda w: np.ones(2), lambda w: 0.0, 1e-9)
    assert not reached
    assert w.shape == (2,)


def test_the_solver_refuses_what_neither_proof_covers() -> None:
    """Below what plans accept: no point is handed out whose distance is not proved."""
    records = Records(np.tile([[1.0, 0.0]], (3, 1)), np.full(3, 1e14))
    with pytest.raises(ValueError, match="not certain"):
        stationary(hub(), records, 3, 1.0, 1.0, np.zeros(2), 1e-15, 1e-9, limit=5)


def test_margins_are_summed_in_twice_the_precision() -> None:
    """Against exact rationals, where plain products lose most digits."""
    x = np.array([[1e8, 1.0, -1e8, 3e-9], [0.1, 0.2, 0.3, 0.7], [1e150, 1.0, -1e150, 1e-3]])
    w = np.array([1e8, 0.123456789, 1e8, 1e9])
    exact = [sum(Fraction(a) * Fraction(b) for a, b in zip(row.tolist(), w.tolist(), strict=True)) for row in x]
    found = compensated(x, w)
    assert abs(x[0] @ w - float(exact[0])) > 0.01 * abs(float(exact[0]))
    for got, right, row in zip(found, exact, x, strict=True):
        size = sum(abs(Fraction(a) * Fraction(b)) for a, b in zip(row.tolist(), w.tolist(), strict=True))
        assert abs(Fraction(float(got)) - right) <= abs(right) * Fraction(1, 2**52) + size * Fraction(16, 2**106)


@pytest.mark.parametrize(("smooth", "strong"), [(1.0, 1.0), (1.0, 0.1), (3.0, 1e-5)])
def test_a_course_halves_the_distance_in_every_round(smooth: float, strong: float) -> None:
    """On a quadratic with both extreme curvatures, in exact enough arithmetic, and with gradients off by e in the worst direction."""
    H, e = np.array([smooth, strong]), 1e-6
    c = proximal.course(smooth, strong, 1.0, strong * 1e-3)
    assert c is not None
    assert c.length + 1 >= 4 * math.sqrt(smooth / strong) > c.length * (1 - 1e-6)
    assert 2.0**-c.rounds <= 0.5e-3
    for wrong in (np.zeros(2), np.array([0.0, e]), np.array([e, e]) / math.sqrt(2)):
        w = np.array([0.6, 0.8])
        for _ in range(c.rounds):
            following = proximal.follow(proximal.Course(c.smooth, c.length, 1), lambda v, b=wrong: H * v + b, lambda v, step: v, w)
            assert np.linalg.norm(following) <= np.linalg.norm(w) / 2 + 8 * float(np.linalg.norm(wrong)) / strong + 1e-15
            w = following
    assert proximal.course(1.0, 1e-20, 1.0, 1e-9) is None
