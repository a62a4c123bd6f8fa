"""dp-fw-l2 and dp-fw-l1: sensitivities exactly, bounds by simulation, the width, and the printed claims."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from dpspec.algorithms.nonconvex_erm import dp_fw_l1, dp_fw_l2
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor.bind import bound_problem
from dpspec.lang.source import parse_text
from dpspec.measures.gradient import frank_wolfe_gap
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from tests import leak
from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import SIGMOID, sample

SPEC = """analysis "gaps"
data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours {neighbours}
  x in {x}
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)
privacy central
  epsilon = {epsilon}, delta = 1e-6
release r
  minimise {loss} over {over}
  by {by}{options}
"""


def drafted(
    by: str,
    over: str,
    n: int = 2000,
    d: int = 3,
    x: str = "ball(l2, 1) by scale",
    loss: str = SIGMOID,
    neighbours: str = "replace-one",
    options: str = "",
    epsilon: str = "1",
) -> Any:
    more = f" with {options}" if options else ""
    text = SPEC.format(by=by, n=n, d=d, x=x, loss=loss, over=over, neighbours=neighbours, options=more, epsilon=epsilon)
    return compile_draft(parse_text(text, surface="dps"))


def bound(by: str, over: str, **spec: Any) -> Any:
    draft = drafted(by, over, **spec)
    release = draft.releases[0]
    assert release.module is not None, [e.message for e in draft.diagnostics]
    return bound_problem(draft, release), release.tunables, release.calibrated


def noisy(module: Any, p: Any, t: Any, calibrated: Any, records: Records, seed: int) -> np.ndarray:
    meter = Release(calibrated, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
    return np.asarray(module.run(records, p, t, meter).w)


@pytest.mark.parametrize(
    ("by", "over", "name"),
    [
        ("dp-fw-l2", "ball(l2, 3)", "descent and width"),
        ("dp-fw-l2", "box(-1, 2)", "descent and width"),
        ("dp-fw-l1", "ball(l1, 3)", "descent and Gumbel gap"),
        ("dp-fw-l1", "simplex", "descent and Gumbel gap"),
    ],
)
def test_the_mean_gap_keeps_below_the_bound_and_the_start_is_beaten(by: str, over: str, name: str):
    module = dp_fw_l2 if by == "dp-fw-l2" else dp_fw_l1
    p, t, calibrated = bound(
        by, over, options="T = 25, gamma = 1/10, tail = 1/2" + (", fall = 1" if by == "dp-fw-l2" else ""), n=4000, epsilon="4"
    )
    r = sample(4000, 3)
    trial = SimpleNamespace(problem=p, records=r)
    gaps = [frank_wolfe_gap(noisy(module, p, t, calibrated, r, s), trial) for s in range(10)]
    assert np.mean(gaps) <= module.explicit_bounds(p, t, calibrated)[name]
    if over != "simplex":
        assert np.mean(gaps) <= frank_wolfe_gap(p.oracle.over.start(3), trial)


def test_the_gap_is_the_largest_descent_over_vertices():
    p, _, _ = bound("dp-fw-l2", "ball(l1, 2)")
    r, w = sample(300, 3), np.array([0.5, -0.2, 0.1])
    g = p.oracle.gradient(w, r)
    by_hand = max(float(g @ (w - s * 2 * e)) for e in np.eye(3) for s in (-1, 1))
    assert frank_wolfe_gap(w, SimpleNamespace(problem=p, records=r)) == pytest.approx(by_hand)


@pytest.mark.parametrize(("over", "d"), [("ball(l2, 2)", 4), ("ball(l1, 2)", 6), ("ball(linf, 2)", 3), ("simplex", 5), ("box(-1, 3)", 3)])
def test_the_width_bounds_the_mean_of_the_support_function(over: str, d: int):
    p, _, _ = bound("dp-fw-l2", over, d=d)
    z = np.random.default_rng(0).normal(size=(4000, d))
    sups = [-float(v @ p.oracle.over.minimise_linear(v)) for v in z]
    assert np.mean(sups) <= dp_fw_l2.width(p) * 1.03  # 4000 draws
    assert np.mean(sups) >= 0.3 * dp_fw_l2.width(p)


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_no_record_moves_a_score_by_more_than_its_sensitivity(neighbours: str):
    """Scores at w = 0 over the corners of the cube, in fractions of the doubles that are handed over."""
    p, t, _ = bound("dp-fw-l1", "ball(l1, 2)", n=4, d=2, x="ball(linf, 1) by clip", options="T = 1", neighbours=neighbours)
    rest, seen = sample(4, 2), []
    for x in (*itertools.product((-1.0, 1.0), repeat=2), (0.0, 0.0)):
        rows, labels = np.array(rest.x), np.array(rest.y)
        rows[0], labels[0] = x, 1.0
        meter = SimpleNamespace(public=PublicRandomness(0), draw=lambda name, v, *, sensitivity: seen.append(np.array(v)) or 0)
        dp_fw_l1.run(Records(rows, labels), p, t, meter)
    pairs = itertools.combinations(seen, 2) if neighbours == "replace-one" else [(one, seen[-1]) for one in seen]
    most = max(max(abs(Fraction(float(a)) - Fraction(float(b))) for a, b in zip(u, v, strict=True)) for u, v in pairs)
    assert most <= Fraction(dp_fw_l1.sensitivity(p, t))
    assert most >= Fraction(98, 100) * Fraction(dp_fw_l1.sensitivity(p, t))


def test_unbounded_sets_and_sets_of_many_vertices_are_refused():
    assert any("unbounded" in d.message for d in drafted("dp-fw-l2", "R^d").diagnostics)
    assert any("few vertices" in d.message for d in drafted("dp-fw-l1", "ball(l2, 1)").diagnostics)


def test_an_l1_term_is_for_the_other_methods():
    for by in ("dp-fw-l1", "dp-fw-l2"):
        draft = drafted(by, "ball(l1, 1)", loss=f"{SIGMOID} + 0.01*|w|_1")
        assert any("smooth, without" in d.message for d in draft.diagnostics)


# ------------------------------------------------------------------------------------------------------- the printed claims


def test_a_step_beyond_one_leaves_the_set_and_the_lipschitz_constant():
    """gamma = sqrt(2/(T Q^2)) is 2 for T = 1/2 Q^-2, as for T = 2 over a ball of radius 1/4. The second iterate is outside, and there
    (1 - u)^2/2 has a slope beyond the largest on the set."""
    radius, T = 0.25, 2
    gamma = math.sqrt(2 / (T * (2 * radius) ** 2))
    assert gamma == 2.0
    w = 0.0 + gamma * (-radius - 0.0)
    assert abs(w) > radius
    assert abs(1 - w) > max(abs(1 - v) for v in (-radius, radius))
    draft = drafted("dp-fw-l2", "ball(l2, 0.25)", options="gamma = 2")
    assert any("gamma" in d.message for d in draft.diagnostics if d.severity == "error")
    # radius 1/100, T = 3: the third gradient is read at 16.6, of (<w, x> - y)^2/2 whose slopes on the set are at most 1.01
    radius, w = 0.01, 0.0
    gamma = math.sqrt(2 / (3 * (2 * radius) ** 2))
    for vertex in (-radius, radius):
        w += gamma * (vertex - w)
    one, other = ((w * x - y) * x for x, y in ((1.0, -1.0), (1 / (2 * w), 1.0)))
    leak.moved(abs(one - other), 2 * (1 + radius))


def test_the_printed_bound_is_too_small_for_small_sets():
    """L = S = 1, balls of radius r: what is proved at the best T and gamma, sqrt(Q G W sqrt(S DF)) with DF = r, falls as r^1.25; the
    printed (4.6) falls as r^1.5, and the one over the other is not bounded."""
    ratios = []
    for r in (1.0, 1e-2, 1e-4):
        Q, W, DF = 2 * r, r * 2.0, r
        ratios.append(math.sqrt(Q * W * math.sqrt(DF)) / (Q * (Q**2 + W**2) ** 0.25))
    assert ratios[2] > 5 * ratios[1] ** 0.5 * ratios[0] ** 0.5
    assert ratios[0] < ratios[1] < ratios[2]


def test_few_vertices_around_the_unit_ball_are_far_away():
    """A polytope of m vertices that holds the unit ball of R^d has one at a distance of about sqrt(d/(2 log m)) at least: its width is no
    less than the ball's. The cross polytope has them at sqrt(d)."""
    d = 400
    z = np.random.default_rng(1).normal(size=(2000, d))
    ball = float(np.linalg.norm(z, axis=1).mean())
    cross = math.sqrt(d) * float(np.abs(z).max(axis=1).mean())
    assert cross >= ball
    assert math.sqrt(d) >= ball / math.sqrt(2 * math.log(2 * d))


def choice(scores: list[float], epsilon: float, sensitivity: float) -> list[float]:
    weights = [math.exp(epsilon * s / (2 * sensitivity)) for s in scores]
    return [w / sum(weights) for w in weights]


def test_the_printed_sensitivity_of_a_score_is_divided_by_epsilon():
    """At epsilon = 4 a choice with 2 G R/(n epsilon) for the sensitivity 2 G R/n = 1 spends 16: a candidate that is far behind comes nearer
    by 1, the other one falls by 1."""
    one, other = [-20.0, 1.0], [-19.0, 0.0]
    assert math.log(choice(other, 4.0, 1 / 4)[0] / choice(one, 4.0, 1 / 4)[0]) == pytest.approx(16, abs=0.01)
    assert math.log(choice(other, 4.0, 1.0)[0] / choice(one, 4.0, 1.0)[0]) == pytest.approx(4, abs=0.01)
    leak.chosen(one, other, sensitivity=1 / 4, stated=4.0)


def test_half_of_the_sensitivity_doubles_the_loss_of_a_choice():
    """A vertex that is far behind comes nearer by 2 G R/n = 1 and the best one falls by as much."""
    assert math.log(choice([-39.0, 0.0], 1.0, 0.5)[0] / choice([-40.0, 1.0], 1.0, 0.5)[0]) == pytest.approx(2.0, abs=0.01)
    leak.chosen([-40.0, 1.0], [-39.0, 0.0], sensitivity=0.5)


def test_the_gradient_of_a_squared_residual_has_its_factor_of_two():
    """(sigma(<w, x>) - y)^2 with sigma(s) = s, unit balls: C_sigma (B + 1) = 2 is printed for its Lipschitz constant, which is 4, and two
    records move the sum of gradients by 5.2, beyond 2 times the print."""
    p, _, _ = bound("dp-fw-l2", "ball(l2, 1)", n=2, d=2, loss="(<w, x> - y)^2", options="T = 1")
    assert p.loss.lipschitz == pytest.approx(4.0, rel=1e-6)
    w = np.array([-1.0, 0.0])
    assert np.linalg.norm(p.objective.data_gradient(w, Records(np.array([[1.0, 0.0]]), np.ones(1)))) == pytest.approx(4.0)
    sides = [np.array([[0.5, side * math.sqrt(0.75)]]) for side in (1, -1)]
    one, other = (p.objective.data_gradient(w, Records(x, np.ones(1))) for x in sides)
    assert 2 * 2 < 5.19 < np.linalg.norm(one - other) <= 2 * p.loss.lipschitz
    assert np.linalg.norm(one - other) / 2 <= dp_fw_l2.mean_sensitivity(p)
    leak.moved(float(np.linalg.norm(one - other)), 2 * 2)


def test_a_score_of_a_squared_residual_moves_by_four_times_the_print():
    """Features in the cube, l1 ball of radius 1: C_sigma (B + 1)/n = 2/n is printed up to a constant, and a score moves by 8/n: with the
    print for the sensitivity a choice of epsilon_0 spends four times as much."""
    p, t, _ = bound("dp-fw-l1", "ball(l1, 1)", n=1, d=2, x="ball(linf, 1) by clip", loss="(<w, x> - y)^2", options="T = 1")
    w = np.array([-1.0, 0.0])
    one, other = (p.objective.data_gradient(w, Records(np.array([[1.0, side]]), np.ones(1))) for side in (1.0, -1.0))
    assert abs(one - other).max() == pytest.approx(8.0)
    assert 8.0 <= dp_fw_l1.sensitivity(p, t) <= 8.0 * (1 + 1e-5)
    # far behind by 160 sensitivities of the print, then nearer by 8/n while the best one falls by as much
    assert math.log(choice([-152.0, -8.0], 1.0, 2.0)[0] / choice([-160.0, 0.0], 1.0, 2.0)[0]) == pytest.approx(4.0, abs=0.01)
    leak.chosen([-160.0, 0.0], [-152.0, -8.0], sensitivity=2.0)


def test_advanced_composition_serves_small_budgets_only():
    """epsilon_0 = epsilon/sqrt(8 T log(1/delta)); what advanced composition then states is sqrt(2 T log(1/delta)) e0 + T e0 (exp(e0) -
    1)."""
    log = math.log(1e4)
    for e, T, stated in ((40.0, 1000, 43.0), (40.0, 10, 70.0)):
        each = e / math.sqrt(8 * T * log)
        assert math.sqrt(2 * T * log) * each + T * each * math.expm1(each) == pytest.approx(stated, rel=0.02)
    each = 1 / math.sqrt(8 * 100 * log)
    assert math.sqrt(2 * 100 * log) * each + 100 * each * math.expm1(each) < 1
    # T = 100,000 choices between two candidates that are equal but for the record, at epsilon 600: a binomial on either side
    T, e = 100_000, 600.0
    each = e / math.sqrt(8 * T * log)
    k = np.arange(T + 1)
    p, q = (binom.logpmf(k, T, 1 / (1 + math.exp(-side * each / 2))) for side in (1, -1))
    leak.delta(float((np.exp(p) * -np.expm1(np.minimum(e - (p - q), 0))).sum()), 1e-4, e)


def test_a_laplace_choice_is_no_eighth_of_a_square():
    """Three candidates at epsilon_0 = 1 whose scores move by 1, noise Lap(2): the law of the winner, integrated. Its Renyi divergence over
    the order exceeds 1/8 at some order; with Gumbel noise it stays below."""

    def laplace(scores: list[float]) -> np.ndarray:
        def cdf(v: float) -> float:
            return 0.5 * math.exp(v / 2) if v < 0 else 1 - 0.5 * math.exp(-v / 2)

        def wins(k: int) -> float:
            others = [s for j, s in enumerate(scores) if j != k]
            points = sorted({-60.0, *scores, 60.0})
            inside = lambda v: 0.25 * math.exp(-abs(v - scores[k]) / 2) * math.prod(cdf(v - s) for s in others)  # noqa: E731
            return sum(quad(inside, a, b)[0] for a, b in itertools.pairwise(points))

        return np.array([wins(k) for k in range(len(scores))])

    def worst(p: np.ndarray, q: np.ndarray) -> float:
        return max(float(np.log((p**a * q ** (1 - a)).sum()) / (a - 1) / a) for a in (1.001, 1.5, 2.0, 4.0, 16.0))

    def largest(law: Any) -> float:
        pairs = [([b - 0.5, 0.5, 0.5], [b + 0.5, -0.5, -0.5]) for b in np.linspace(-6, 6, 25)]
        return max(max(worst(law(u), law(v)), worst(law(v), law(u))) for u, v in pairs)

    assert largest(laplace) > 1 / 8
    assert largest(lambda s: np.array(choice(s, 1.0, 1.0))) <= 1 / 8 + 1e-9
