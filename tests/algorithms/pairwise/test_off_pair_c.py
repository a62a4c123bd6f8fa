"""off-pair-c: the sensitivity in exact arithmetic, the spread of pairs by search, sums over pairs without pairs, and the printed claims."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpspec.algorithms.card import Problem, Tunables
from dpspec.algorithms.objective import optimum
from dpspec.algorithms.pairwise import off_pair_c as module
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.domains.domain import finite, interval
from dpspec.executor.bind import bound_problem
from dpspec.lang.source import parse_expr, parse_text
from dpspec.privacy.noise import PublicRandomness
from dpspec.spec.expr import Num
from dpspec.spec.model import Ball
from dpspec.symbolic.certify import certify
from dpspec.symbolic.pair_loss import pair_loss
from dpspec.tasks import minimise_pairwise as task
from tests import leak

RANKING = "log(1 + exp(-(y1 - y2)*<w, x1 - x2>))"
SPEC = """analysis "pairs"
data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours {neighbours}
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by {how}
privacy central{online}
  {budget}
release r
  minimise pairwise {loss} over {over}
  by {algorithm}{options}
"""


def drafted(
    n: int = 400,
    d: int = 2,
    loss: str = RANKING,
    over: str = "ball(l2, 1)",
    neighbours: str = "replace-one",
    budget: str = "epsilon = 1, delta = 1e-6",
    options: str = "",
    algorithm: str = "off-pair-c",
    online: str = "",
) -> Any:
    how = "map(0 -> -1, 1 -> 1)"
    more = f" with {options}" if options else ""
    text = SPEC.format(
        n=n, d=d, loss=loss, over=over, neighbours=neighbours, budget=budget, options=more, how=how, algorithm=algorithm, online=online
    )
    return compile_draft(parse_text(text, surface="dps"))


def bound(**spec: Any) -> tuple[Problem, Tunables, Any]:
    draft = drafted(**spec)
    release = draft.releases[0]
    assert release.module is module, [e.message for e in draft.diagnostics]
    return bound_problem(draft, release), release.tunables, release.calibrated


class Handed:
    """A release that hands back what it is given."""

    def __init__(self, order: Any = None, seed: int = 0) -> None:
        self.seen: list[np.ndarray] = []
        kept = SimpleNamespace(permutation=(lambda n: np.arange(n)) if order is None else order)
        self.public: Any = SimpleNamespace(generator=lambda name: kept) if seed == 0 else PublicRandomness(seed)

    def draw(self, name: str, value: Any, *, sensitivity: float) -> Any:
        self.seen.append(np.array(value))
        return value


def sample(n: int, d: int, seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x *= (rng.random(n) ** (1 / d) / np.linalg.norm(x, axis=1))[:, None]
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-5 * x.sum(axis=1) / math.sqrt(d))), 1.0, -1.0)
    return Records(x, y)


# ---------------------------------------------------------------------------------------------------- sensitivity, exactly


def exact_average(x: list[Fraction], y: list[int], slope: Any, reach: Fraction | None, c: Any) -> Fraction:
    """The average of the chain for one coordinate, written again from the paper's step, in fractions; ``c``: steps and start."""
    strong, shift, begin, first = Fraction(c.strong), Fraction(c.shift), c.begin, c.first
    w, total, weight = Fraction(0), Fraction(0), Fraction(0)
    for t in range(begin + 1, len(x) + 1):
        k = t - 1
        g = sum(((x[k] - x[i]) * slope(w * (x[k] - x[i]), y[k] - y[i]) for i in range(k)), Fraction(0)) / k
        w -= 2 / (strong * (t + shift)) * (g + strong * w)
        if reach is not None:
            w = max(-reach, min(reach, w))
        if t >= first:
            total, weight = total + (t + shift - 1) * w, weight + (t + shift - 1)
    return total / weight


def largest_movement(n: int, options: str, loss: str, slope: Any, over: str, reach: Fraction | None) -> tuple[Fraction, Fraction]:
    """Over every place of the record that differs, extreme records, and surroundings; beside it what the plan allows."""
    p, t, _ = bound(n=n, d=1, loss=loss, over=over, options=options)
    c = module.chain(p, t)
    records = [(Fraction(a), b) for a in (-1, 0, 1) for b in (-1, 1)]
    most = Fraction(0)
    for rest in ((Fraction(-1), -1), (Fraction(1), -1), (Fraction(1, 2), 1)):
        for place in range(n):
            ends = []
            for own in records:
                rows = [rest] * n
                rows[place] = own
                x, y = [r[0] for r in rows], [r[1] for r in rows]
                ends.append(exact_average(x, y, slope, reach, c))
            most = max(most, max(ends) - min(ends))
    return most, Fraction(module.sensitivity(p, t))


def test_the_sensitivity_is_attained_and_never_exceeded():
    """A linear loss, whose pairs all pull one way: the replaced record moves every step by all that it may."""
    most, stated = largest_movement(10, "alpha = 0.5", "-(y1 - y2)*<w, x1 - x2>", lambda u, y: -y, "R^d", None)
    assert most <= stated
    assert most >= stated * Fraction(999, 1000)


def test_with_curvature_a_set_and_shifted_steps_it_is_not_exceeded():
    """A squared loss on an interval, with fewer records than a start phase would need."""
    most, stated = largest_movement(
        8, "alpha = 2, tail = 1", "(1 - (y1 - y2)*<w, x1 - x2>)^2/2", lambda u, y: -y * (1 - y * u), "ball(l2, 0.125)", Fraction(1, 8)
    )
    assert stated / 20 <= most <= stated


def test_without_a_shift_it_is_a_sum_of_harmonic_numbers():
    """Iterates are 2 S/(A t) apart: sum over the averaged t of (t - 1)/t, over that of t - 1."""
    p, t, _ = bound(n=3000, d=3)
    c = module.chain(p, t)
    assert c.shift == 0
    kept = range(c.first, p.n + 1)
    value = 2 * Fraction(p.loss.spread) / Fraction(c.strong) * sum(Fraction(k - 1, k) for k in kept) / sum(k - 1 for k in kept)
    assert module.sensitivity(p, t) == pytest.approx(float(value), rel=1e-6)
    assert module.sensitivity(p, t) >= float(value)


def test_doubles_follow_the_exact_chain():
    """The run and the chain in fractions, to the planned rounding."""
    p, t, _ = bound(n=9, d=1, loss="(1 - (y1 - y2)*<w, x1 - x2>)^2/2", over="ball(l2, 0.5)", options="alpha = 2, tail = 1/2")
    c = module.chain(p, t)
    x, y = [Fraction(k - 4, 8) for k in range(9)], [1, -1, -1, 1, 1, 1, -1, 1, -1]
    exact = exact_average(x, y, lambda u, v: -v * (1 - v * u), Fraction(1, 2), c)
    meter = Handed()
    module.run(Records(np.array([[float(v)] for v in x]), np.array(y, dtype=float)), p, t, meter)
    assert abs(Fraction(float(meter.seen[0][0])) - exact) <= Fraction(module.rounding(p, c)) / 2


def test_the_noise_is_the_analytic_gaussian_of_that_sensitivity():
    p, t, calibrated = bound()
    s, e, delta = module.sensitivity(p, t), 1.0, 1e-6

    def spent(mu: float) -> float:
        return float(norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)) - delta

    assert calibrated.scale("output") == pytest.approx(s / brentq(spent, 1e-3, 5), rel=1e-4)


def test_under_zero_out_a_record_of_zeros_is_a_record():
    """y in {-1, 1} has no zero, so the plan is replace-one; with labels 0 and 1 it stays zero-out, with the same sensitivity."""
    p, t, _ = bound()
    loss = p.loss
    other = Problem("central", "zero-out", p.task, p.facts, loss=loss, oracle=p.oracle)
    assert module.accepts(other, t) is None
    assert module.sensitivity(other, t) == module.sensitivity(p, t)
    hidden = Problem("central", "add-remove", p.task, p.facts, loss=loss, oracle=p.oracle)
    assert "private" in (module.accepts(hidden, t) or "")


@pytest.mark.parametrize(
    ("loss", "word"),
    [
        ("max(0, 1 - (y1 - y2)*<w, x1 - x2>)", "smooth"),
        ("1/(1 + exp((y1 - y2)*<w, x1 - x2>))", "convex"),
        ("(1 - (y1 - y2)*<w, x1 - x2>)^2", ""),
    ],
)
def test_losses_without_contraction_are_refused(loss: str, word: str):
    draft = drafted(loss=loss)
    messages = " ".join(d.message + (d.help or "") for d in draft.diagnostics if d.severity == "error")
    assert (word in messages) if word else not messages


# ------------------------------------------------------------------------------------------------------------ the spread


@pytest.mark.parametrize(
    ("loss", "value"),
    [
        (RANKING, lambda u, a, b: -(a - b) / (1 + np.exp((a - b) * u))),
        ("log(1 + exp(-y1*y2*<w, x1 - x2>))", lambda u, a, b: -a * b / (1 + np.exp(a * b * u))),
        ("(1 - (y1 - y2)*<w, x1 - x2>)^2/2", lambda u, a, b: -(a - b) * (1 - (a - b) * u)),
        ("sqrt(1 + <w, x1 - x2>^2)", lambda u, a, b: u / np.sqrt(1 + u * u)),
    ],
)
def test_the_spread_bounds_pairs_that_share_a_record(loss: str, value: Any):
    """A search over w, three records of a line and their labels, sharing the first or the second record, comes close and never beyond."""
    ball = Ball(norm="l2", radius=Num(Fraction(1)))
    c = certify(parse_expr(loss), over=ball, x=ball, y=finite(-1, 1), names={"d": Fraction(1)}, pairwise=True)
    grid = np.linspace(-1, 1, 9)
    w, x, a, b = (v.ravel() for v in np.meshgrid(grid, grid, grid, grid, indexing="ij"))
    most = 0.0
    for one, two, three in itertools.product((-1.0, 1.0), repeat=3):
        first = value(w * (x - a), one, two) * (x - a) - value(w * (x - b), one, three) * (x - b)
        second = value(w * (a - x), two, one) * (a - x) - value(w * (b - x), three, one) * (b - x)
        most = max(most, float(np.abs(first).max()), float(np.abs(second).max()))
    assert most <= c.spread <= 2 * c.lipschitz * (1 + 1e-12)
    assert most >= 0.49 * c.spread
    if loss == RANKING:  # labels decide the sign of a record's slopes
        assert c.spread == c.lipschitz
        assert most >= 0.98 * c.spread


# ----------------------------------------------------------------------------------------------------- sums over all pairs


def by_hand(w: np.ndarray, r: Records) -> tuple[float, np.ndarray]:
    value, gradient, n = 0.0, np.zeros(len(w)), len(r.y)
    for i, j in itertools.permutations(range(n), 2):
        u, y = (r.x[i] - r.x[j]) @ w, r.y[i] - r.y[j]
        value += math.log1p(math.exp(-y * u))
        gradient += -y / (1 + math.exp(y * u)) * (r.x[i] - r.x[j])
    return value / (n * (n - 1)), gradient / (n * (n - 1))


def test_values_and_gradients_are_those_of_a_loop_over_pairs():
    p, _, _ = bound(n=40)
    r, w = sample(40, 2), np.array([0.3, -0.8])
    value, gradient = by_hand(w, r)
    assert p.oracle.value(w, r) == pytest.approx(value, rel=1e-12)
    assert p.oracle.gradient(w, r) == pytest.approx(gradient, rel=1e-9)


@pytest.mark.parametrize("loss", [RANKING, "(1 - (y1 - y2)*<w, x1 - x2>)^2", "max(0, 1 - (y1 - y2)*<w, x1 - x2>)"])
def test_polynomials_give_what_all_pairs_give(loss: str, monkeypatch: pytest.MonkeyPatch):
    """Smooth losses to twelve digits; the kink of a hinge is not smooth, and then pairs are run through."""
    ball = Ball(norm="l2", radius=Num(Fraction(2)))
    draft = drafted(n=700, loss=loss, over="ball(l2, 2)")

    c = certify(parse_expr(loss), over=ball, x=Ball(norm="l2", radius=Num(Fraction(1))), y=finite(-1, 1), names=draft.facts, pairwise=True)
    f = pair_loss(c.name, c.form, finite(-1, 1))
    oracle, r, w = task.PairObjective(f.value, f.slope), sample(700, 2), np.array([1.3, 0.8])
    quick, slope = oracle.data_value(w, r), oracle.data_gradient(w, r)
    monkeypatch.setattr(task, "_FEW", 10**9)
    assert quick == pytest.approx(oracle.data_value(w, r), rel=1e-11)
    assert slope == pytest.approx(oracle.data_gradient(w, r), rel=1e-9)


def test_residuals_of_real_labels_are_summed_as_margins(monkeypatch: pytest.MonkeyPatch):
    """(y1 - y2 - u)^2/2 with labels of every size: its own closed form, by variances of the residuals, and by all pairs."""
    ball = Ball(norm="l2", radius=Num(Fraction(1)))
    c = certify(parse_expr("(y1 - y2 - <w, x1 - x2>)^2/2"), over=ball, x=ball, y=interval(-1, 1), names={"d": Fraction(2)}, pairwise=True)
    f = pair_loss(c.name, c.form, interval(-1, 1))
    oracle, w, n = task.PairObjective(f.value, f.slope, residual=f.residual), np.array([0.4, -0.1]), 900
    rng = np.random.default_rng(5)
    r = Records(sample(n, 2).x, rng.uniform(-1, 1, size=n))
    s = r.y - r.x @ w
    assert f.residual
    assert oracle.data_value(w, r) == pytest.approx(s.var(ddof=1), rel=1e-9)
    assert oracle.data_gradient(w, r) == pytest.approx(-2 * np.cov(r.x.T, s)[:2, 2], rel=1e-7)


def test_a_loss_without_labels_needs_none():
    text = SPEC.replace("  y in {{-1, 1}} by {how}\n", "").format(
        n=50,
        d=2,
        loss="sqrt(1 + <w, x1 - x2>^2)",
        over="ball(l2, 1)",
        neighbours="replace-one",
        budget="epsilon = 1, delta = 1e-6",
        options="",
        algorithm="off-pair-c",
        online="",
    )
    draft = compile_draft(parse_text(text, surface="dps"))
    release = draft.releases[0]
    assert release.module is module, [e.message for e in draft.diagnostics]
    p = bound_problem(draft, release)
    assert module.run(Records(sample(50, 2).x, None), p, release.tunables, Handed()).w.shape == (2,)


def test_nothing_holds_all_pairs():
    n = 1500
    p, t, _ = bound(n=n)
    r = sample(n, 2)
    tracemalloc.start()
    module.run(r, p, t, Handed())
    p.oracle.value(np.ones(2) / 2, r)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * n / 4


def test_the_auc_error_counts_pairs():
    r, w = sample(60, 2), np.array([1.0, 0.2])
    m = np.round(r.x @ w, 1)
    wrong = [0.5 if a == b else float(a < b) for a in m[r.y > 0] for b in m[r.y < 0]]
    trial = SimpleNamespace(records=Records(m[:, None], r.y))
    assert task.auc_error(np.ones(1), trial) == pytest.approx(np.mean(wrong))
    assert task.auc_error(np.zeros(1), trial) == 0.5


# ------------------------------------------------------------------------------------------------------------- what it gives


def test_defaults_beat_the_zero_vector_and_keep_the_bound_on_a_sorted_file():
    """Over the public order: the rows come sorted by label, so that in file order the first half has no pair to learn from."""
    n = 1000
    p, t, calibrated = bound(n=n, d=3)
    r = sample(n, 3)
    order = np.argsort(r.y, kind="stable")
    r = Records(r.x[order], r.y[order])
    least = optimum(p.oracle, r)[1]
    rng, excess = np.random.default_rng(1), []
    for seed in range(1, 4):
        meter = Handed(seed=seed)
        module.run(r, p, t, meter)
        w = p.oracle.over.project(meter.seen[0] + rng.normal(size=3) * calibrated.scale("output"))
        excess.append(p.oracle.value(w, r) - least)
    assert np.mean(excess) <= (p.oracle.value(np.zeros(3), r) - least) / 2
    assert np.mean(excess) <= module.explicit_bounds(p, t, calibrated)["telescoping, stability and noise"]


def test_the_bound_without_noise_holds_where_steps_are_few():
    """At a budget that buys no noise the bound is the added ridge, the forgotten start and the exchange of pairs."""
    p, t, calibrated = bound(n=300, d=2, budget="epsilon = 100, delta = 1e-6", options="alpha = 0.5")
    r = sample(300, 2)
    least = optimum(p.oracle, r)[1]
    found = []
    for seed in range(1, 5):
        meter = Handed(seed=seed)
        module.run(r, p, t, meter)
        found.append(p.oracle.value(meter.seen[0], r) - least)
    assert np.mean(found) <= module.explicit_bounds(p, t, calibrated)["telescoping, stability and noise"]


# ------------------------------------------------------------------------------------------------------- the printed claims


def printed_sensitivity(p: Problem, alpha: float, across: float) -> float:
    return 8 * (4 + alpha * across) * math.log(p.n) / (p.n * alpha)


def test_raw_features_break_the_printed_sensitivity():
    """Raw features, a record of length 2000 with the other label in the place of one as all others: no iterate leaves |w| <= 1, and the
    average moves beyond what is printed for G = 4."""
    n = 400
    p, _, _ = bound(n=n, d=1, loss="-(y1 - y2)*<w, x1 - x2>", over="R^d")
    t = Tunables({"alpha": 40.0, "T_1": 1, "tail": 1.0})
    ends = []
    for own in ((2000.0, 1.0), (-1.0, -1.0)):
        x, y = np.full((n, 1), -1.0), np.full(n, -1.0)
        x[n // 2], y[n // 2] = own
        meter = Handed()
        oracle = task.PairObjective(p.oracle.phi, p.oracle.slope)  # nothing is brought into a certified range
        module.run(Records(x, y), Problem("central", "replace-one", p.task, p.facts, loss=p.loss, oracle=oracle), t, meter)
        ends.append(float(meter.seen[0][0]))
    assert 2 * 2 * 2001 / (40 * n / 2 + 40) < 1  # 2 S/(A t) at the first step that reads it
    assert abs(ends[0] - ends[1]) > printed_sensitivity(p, 40.0, 2.0)
    leak.moved(abs(ends[0] - ends[1]), printed_sensitivity(p, 40.0, 2.0))


def test_the_classical_calibration_fails_at_large_epsilon():
    e, delta, sigma = 10.0, 1e-5, math.sqrt(2 * math.log(1.25 / 1e-5)) / 10
    assert norm.cdf(1 / (2 * sigma) - e * sigma) - math.exp(e) * norm.cdf(-1 / (2 * sigma) - e * sigma) > delta
    leak.delta(leak.gaussian_delta(1 / sigma, e), delta, e)


def test_delta_of_one_over_n_publishes_a_record():
    """Publishing one record of n at random: neighbours differ in one outcome of probability 1/n, so delta = 1/n holds at epsilon = 0."""
    n = 350
    one = dict.fromkeys(range(n), Fraction(1, n))
    other = {**dict.fromkeys(range(1, n), Fraction(1, n)), -1: Fraction(1, n)}
    assert sum(max(q - other.get(k, Fraction(0)), Fraction(0)) for k, q in one.items()) == Fraction(1, n)


def test_the_first_case_of_the_lemma_is_short_by_two():
    """z_t = (1, y) against (1, -y) beside z_i = (-1, 1), loss log(1 + exp(-y1 y2 u)): at w = 0 the gradients are -1 and 1, of length 1."""
    slopes = [-y / 2 * 2 for y in (1.0, -1.0)]
    assert abs(slopes[0] - slopes[1]) == 2 * abs(slopes[0])
    c = certify(
        parse_expr("log(1 + exp(-y1*y2*<w, x1 - x2>))"),
        over=Ball(norm="l2", radius=Num(Fraction(1))),
        x=Ball(norm="l2", radius=Num(Fraction(1))),
        y=finite(-1, 1),
        names={"d": Fraction(1)},
        pairwise=True,
    )
    assert c.spread == pytest.approx(2 * c.lipschitz)


def test_the_printed_sensitivity_is_loose():
    p, t, _ = bound(n=4000, d=5)
    ratio = printed_sensitivity(p, t.alpha, 2.0) / module.sensitivity(p, t)
    assert ratio > 3 * math.log(4000)


def test_the_printed_start_phase_takes_no_step():
    n, B = 10_000, 4.0
    for c in (1.0, 4.0, 15.9):
        assert math.ceil(16 * B**2 / (c / math.sqrt(n)) ** 2) >= n
    draft = drafted(n=n, options=f"alpha = {1 / math.sqrt(n)}, T_1 = {math.ceil(16 * B**2 * n)}")
    assert any("start phase" in d.message for d in draft.diagnostics)
    assert 1 + 2 * B * math.sqrt(n) < n / 10


def test_random_points_in_the_average_cost_what_the_bound_leaves_out():
    """With alpha = c/sqrt(n), c = 4 sqrt(2) B, half of all iterates are the T_1 points of the start, whatever n is: an average with -u for
    that half is at 0 at best, and a linear loss stays |u| above its least value, while (3.119) without R_t falls as 1/sqrt(n)."""
    B, u = 4.0, 1.0
    lost = []
    for n in (10**3, 10**5, 10**7):
        T_1 = 16 * B**2 / (4 * math.sqrt(2) * B / math.sqrt(n)) ** 2
        average = (T_1 * -u + (n - T_1) * u) / n
        lost.append(u - average)
    assert lost == pytest.approx([1.0, 1.0, 1.0])


def test_records_kept_by_label_give_the_gradients_of_all_earlier_ones() -> None:
    """Pairs of equal labels have no slope and are left out; labels are met as slices."""
    p, _, _ = bound(n=400, d=3)
    f, records = p.objective, sample(400, 3)
    order = np.random.default_rng(3).permutation(400)
    kept, plain = f.ordered(records, order), task.Ordered(f, records.x[order], records.y[order])
    assert isinstance(kept, task.ByLabel)
    assert f.silent == {(1.0, 1.0), (-1.0, -1.0)}
    w = np.array([0.5, -0.2, 0.1])
    for k in (1, 2, 3, 77, 399):
        assert np.allclose(kept.gradient(w, k), plain.gradient(w, k), rtol=1e-12, atol=1e-15)
