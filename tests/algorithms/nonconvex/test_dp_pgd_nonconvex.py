"""dp-pgd-nonconvex: sensitivity, bounds by simulation and by hand, what is post-processing, and the printed calibrations."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpspec.algorithms.card import Problem, Tunables
from dpspec.algorithms.nonconvex_erm import dp_pgd_nonconvex as module
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.domains.domain import finite, interval
from dpspec.executor.bind import bound_problem
from dpspec.lang.source import parse_expr, parse_text
from dpspec.measures.gradient import gradient_norm
from dpspec.privacy.noise import PublicRandomness
from dpspec.spec.expr import Num
from dpspec.spec.model import Ball, Reals
from dpspec.symbolic.certify import certify
from tests import leak

SPEC = """analysis "stationary"
data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours {neighbours}
  x in ball(l2, 1) by scale
  y in {y}
privacy central
  epsilon = {epsilon}, delta = {delta}
release r
  minimise {loss} over {over}
  by dp-pgd-nonconvex{options}
"""
SIGMOID = "1/(1 + exp(y*<w, x>))"


def drafted(
    n: int = 2000,
    d: int = 3,
    loss: str = SIGMOID,
    over: str = "R^d",
    y: str = "{-1, 1} by map(0 -> -1, 1 -> 1)",
    neighbours: str = "replace-one",
    options: str = "",
    epsilon: str = "1",
    delta: str = "1e-6",
) -> Any:
    more = f" with {options}" if options else ""
    text = SPEC.format(n=n, d=d, loss=loss, over=over, y=y, neighbours=neighbours, options=more, epsilon=epsilon, delta=delta)
    return compile_draft(parse_text(text, surface="dps"))


def bound(**spec: Any) -> tuple[Problem, Tunables, Any]:
    draft = drafted(**spec)
    release = draft.releases[0]
    assert release.module is module, [e.message for e in draft.diagnostics]
    return bound_problem(draft, release), release.tunables, release.calibrated


class Recorded:
    """A release with Gaussian noise of one seed, the same whatever it is given, that keeps what it was given."""

    def __init__(self, scale: float, seed: int, answers: list[np.ndarray] | None = None) -> None:
        self.rng, self.scale, self.seen, self.answers = np.random.default_rng(seed), scale, [], answers
        self.public = PublicRandomness(seed)

    def draw(self, name: str, value: Any, *, sensitivity: float) -> Any:
        self.seen.append(np.array(value))
        if self.answers is not None:
            return self.answers[len(self.seen) - 1]
        return value + self.rng.normal(size=value.shape) * self.scale


def sample(n: int, d: int, seed: int = 0) -> Records:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    x *= (rng.random(n) ** (1 / d) / np.linalg.norm(x, axis=1))[:, None]
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-5 * x.sum(axis=1) / math.sqrt(d))), 1.0, -1.0)
    return Records(x, y)


def spent(sigma: float, delta: float) -> float:
    """The epsilon of one Gaussian of sensitivity 1: Balle and Wang's profile, solved by SciPy in logarithms."""

    def excess(e: float) -> float:
        tail = norm.cdf(1 / (2 * sigma) - e * sigma)
        return float(tail - math.exp(e + norm.logcdf(-1 / (2 * sigma) - e * sigma)) - delta)

    return float(brentq(excess, 0, 500))


# ---------------------------------------------------------------------------------------------------------------- privacy


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_the_mean_gradient_moves_by_its_sensitivity_and_no_more(neighbours: str):
    """Along the transcripts of a run, over pairs of records, in fractions of the doubles that are handed over."""
    p, t, _ = bound(n=4, d=2, options="T = 4", neighbours=neighbours)
    assert p.neighbours == neighbours
    stated = Fraction(module.mean_sensitivity(p))
    rest = sample(4, 2)
    answers = [np.full(2, v) for v in (0.0, 0.1, -0.3, 0.2)]
    records = [(np.array(x), label) for x in ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, 0.0)) for label in (-1.0, 1.0)]
    seen = []
    for x, label in records:
        rows, labels = np.array(rest.x), np.array(rest.y)
        rows[0], labels[0] = x, label
        meter = Recorded(0.0, 3, answers)
        module.run(Records(rows, labels), p, t, meter)
        seen.append(meter.seen)
    most = Fraction(0)
    pairs = itertools.combinations(seen, 2) if neighbours == "replace-one" else [(one, seen[-1]) for one in seen]
    for one, other in pairs:
        for u, v in zip(one, other, strict=True):
            most = max(most, sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(u, v, strict=True)))
    assert most <= stated**2
    assert most >= (Fraction(98, 100) * stated) ** 2  # the slope is 1/4 at w = 0, and opposite records turn it round


def test_the_released_iterate_is_a_function_of_the_draws():
    """Two data sets, one transcript of answers: the same iterate under every rule, best-noisy too."""
    answers = [np.random.default_rng(k).normal(size=3) * 0.1 for k in range(12)]
    for output in ("random", "best-noisy", "last"):
        p, t, _ = bound(options=f"T = 12, output = {output}")
        found = [module.run(sample(2000, 3, seed), p, t, Recorded(0, 5, answers)).w for seed in (0, 1)]
        assert np.array_equal(found[0], found[1])


def test_the_best_noisy_iterate_has_the_shortest_step_of_the_last_half():
    p, t, _ = bound(options="T = 8, output = best-noisy, fall = 1, tail = 1/2")
    answers = [np.array([v, 0.0, 0.0]) for v in (0.01, 0.9, 0.9, 0.9, 0.5, 0.2, 0.4, 0.3)]
    w = module.run(sample(2000, 3), p, t, Recorded(0, 5, answers)).w
    assert w[0] == pytest.approx(-t.eta * sum(a[0] for a in answers[:5]))  # where the sixth was measured


def test_steps_and_noise_are_the_same_for_all_data():
    """T, eta and the noise of a plan are decided before a record is read: the plan has no data. The document's T needs F(w_1) - F*."""
    p, t, calibrated = bound()
    for seed in (0, 1):
        meter = Recorded(calibrated.scale("gradient"), 2)
        module.run(sample(2000, 3, seed), p, t, meter)
        assert len(meter.seen) == t.T
    assert t.gap == p.loss.at_zero == 0.5
    least = [min(float(p.oracle.value(s * np.ones(3), r)) for s in np.linspace(0, 30, 31)) for r in (sample(400, 3), flipped())]
    printed = [math.ceil(2000 * math.sqrt(0.1 * (0.5 - f) / 3) / 0.25) for f in least]
    assert printed[0] > 1.5 * printed[1]  # as a number of the data it would tell these two apart


def flipped() -> Records:
    r = sample(400, 3)
    return Records(r.x, np.random.default_rng(1).choice([-1.0, 1.0], size=400))


def test_a_line_search_on_the_data_tells_neighbours_apart():
    """Backtracking for a sufficient decrease of F under one noise: the numbers of halvings differ for two neighbours, with certainty."""
    p, _, _ = bound(n=2, d=1)

    def halvings(label: float) -> int:
        r, w, step, count = Records(np.array([[1.0], [1.0]]), np.array([label, 1.0])), np.zeros(1), 64.0, 0
        g = p.oracle.gradient(w, r) + 0.3  # the same noise in both
        while p.oracle.value(w - step * g, r) > p.oracle.value(w, r) - step / 2 * float(g @ g) and count < 60:
            step, count = step / 2, count + 1
        return count

    assert halvings(1.0) != halvings(-1.0)
    leak.certain(halvings(1.0), halvings(-1.0), given="the noisy gradient")


def test_delta_above_one_over_n_publishes_records():
    """Each record is published with probability delta on its own: (0, delta)-DP, and for delta = 1e-4 at n = 5e4 five records are out."""
    n, delta = 50_000, 1e-4
    assert n * delta == pytest.approx(5)
    assert 1 - (1 - delta) ** n > 0.99


# ----------------------------------------------------------------------------------------------- the printed calibrations


def rho(e: float, delta: float) -> float:
    return (math.sqrt(math.log(1 / delta) + e) - math.sqrt(math.log(1 / delta))) ** 2


def test_the_printed_square_of_rho_overspends():
    """Noise over sensitivity, 2 G/n in all T draws together: sqrt(1/(2 rho^2)) for sqrt(1/(2 rho)); delta = 1e-4."""
    for e, real in ((10.0, 12.2), (20.0, 60.3)):
        assert spent(1 / (math.sqrt(2) * rho(e, 1e-4)), 1e-4) == pytest.approx(real, rel=5e-3)
        assert spent(1 / math.sqrt(2 * rho(e, 1e-4)), 1e-4) < e
    assert spent(1 / (math.sqrt(2) * rho(1.0, 1e-4)), 1e-4) < 0.2  # for rho < 1 it adds too much
    leak.epsilon(spent(1 / (math.sqrt(2) * rho(10.0, 1e-4)), 1e-4), 10.0, 1e-4)


def test_smoothness_in_the_place_of_the_lipschitz_constant_overspends():
    ball = Ball(norm="l2", radius=Num(Fraction(1)))
    c = certify(parse_expr(SIGMOID), over=Reals(), x=ball, y=finite(-1, 1), names={"d": Fraction(2)})
    assert (c.lipschitz, c.smooth) == (0.25, pytest.approx(math.sqrt(3) / 18))
    assert spent(c.smooth / c.lipschitz / math.sqrt(2 * rho(2.0, 1e-4)), 1e-4) == pytest.approx(4.5, abs=0.1)
    leak.epsilon(spent(c.smooth / c.lipschitz / math.sqrt(2 * rho(2.0, 1e-4)), 1e-4), 2.0, 1e-4)


def test_the_printed_root_is_epsilon_itself():
    assert spent(1 / (math.sqrt(2) * 1.0), 1e-4) == pytest.approx(5.77, rel=2e-3)
    leak.epsilon(spent(1 / math.sqrt(2), 1e-4), 1.0, 1e-4)


def test_the_expansion_for_small_epsilon_overspends_at_ten():
    """s^2 = 8 G^2 T log(1/delta)/(n epsilon)^2 is sqrt(2 log(1/delta))/epsilon of the sensitivity 2 G/n and T = 1."""
    for e, real in ((5.0, 4.57), (10.0, 10.8)):
        assert spent(math.sqrt(2 * math.log(1e4)) / e, 1e-4) == pytest.approx(real, rel=5e-3)
    leak.epsilon(spent(math.sqrt(2 * math.log(1e4)) / 10, 1e-4), 10.0, 1e-4)


def test_no_constant_serves_every_epsilon():
    """s^2 = c G^2 T log(1/delta)/(n epsilon)^2: c = 12 is too little at epsilon = 50; 8 + 4 epsilon/log(1/delta) never is."""
    log = math.log(1e4)
    assert spent(math.sqrt(12 * log) / 2 / 50, 1e-4) == pytest.approx(79.8, rel=5e-3)
    for e in (0.1, 1.0, 10.0, 50.0):
        assert spent(math.sqrt((8 + 4 * e / log) * log) / 2 / e, 1e-4) <= e
    leak.epsilon(spent(math.sqrt(12 * log) / 2 / 50, 1e-4), 50.0, 1e-4)


# ------------------------------------------------------------------------------------------------------------- the bounds


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({"options": "T = 20, fall = 1, tail = 1/2"}, "plain"),
        ({"options": "T = 60, fall = 3/2, eta = 10"}, "plain"),
        ({"options": "T = 20", "loss": "biweight(2) + 0.01*|w|_1", "y": "[-3, 3] by clip"}, "mapping"),
        ({"options": "T = 10, eta = 2", "over": "ball(l2, 2)"}, "mapping"),
    ],
)
def test_the_mean_gradient_norm_keeps_below_the_bound(spec: dict[str, str], name: str):
    p, t, calibrated = bound(**spec)
    r = sample(2000, 3)
    promised = module.explicit_bounds(p, t, calibrated)[name]
    trial = SimpleNamespace(problem=p, records=r)
    found = [gradient_norm(module.run(r, p, t, Recorded(calibrated.scale("gradient"), s)).w, trial) for s in range(20)]
    assert np.mean(found) <= promised


def test_the_plain_bound_is_the_one_derived():
    S = math.sqrt(3) / 18
    p, t, calibrated = bound(n=10**6, options="T = 40, eta = 3, tail = 1/4, fall = 1")
    s = calibrated.scale("gradient")
    assert module.explicit_bounds(p, t, calibrated)["plain"] == pytest.approx(math.sqrt(2 * 0.5 / 30 + S * 9 * s**2 * 4), rel=1e-6)
    # three hundred steps of 3, a hundred of 1, of which the last eighty are averaged: each of those falls by at least 1/2 |grad F|^2
    p, t, calibrated = bound(n=10**6, options="T = 400, eta = 3, tail = 1/5, fall = 3, late = 1/4")
    s = calibrated.scale("gradient")
    value = math.sqrt((2 * 0.5 + S * 3 * s**2 * (300 * 9 + 100)) / 80)
    assert module.explicit_bounds(p, t, calibrated)["plain"] == pytest.approx(value, rel=1e-6)


def test_late_steps_are_short():
    p, t, _ = bound(options="T = 8, output = last, eta = 4, fall = 2, late = 1/4")
    w = module.run(sample(2000, 3), p, t, Recorded(0, 5, [np.array([1.0, 0.0, 0.0])] * 8)).w
    assert w[0] == pytest.approx(-(6 * 4 + 2 * 2))


def test_the_noisy_step_may_be_shorter_than_the_true_mapping():
    """At a point whose gradient the noise cancels the noisy step has length 0, the true one |e|."""
    p, t, _ = bound(n=50, options="T = 1, output = last, eta = 1")
    r = sample(50, 3)
    true = p.oracle.gradient(np.zeros(3), r)
    w = module.run(r, p, t, Recorded(0, 1, [np.zeros(3)])).w
    assert np.array_equal(w, np.zeros(3))
    assert np.linalg.norm(true) > 0


def test_the_gap_is_a_bound_of_what_can_be_gained():
    """At zero above any other value: the sigmoid from 1/2 to 0, biweight(c) from c^2/6, a user's loss from its range."""
    assert bound()[0].loss.at_zero == 0.5
    p = bound(loss="biweight(2) + 0.01*|w|_1", y="[-3, 3] by clip")[0]
    assert p.loss.at_zero == pytest.approx(4 / 6)
    ball = Ball(norm="l2", radius=Num(Fraction(3)))
    one = Ball(norm="l2", radius=Num(Fraction(1)))
    c = certify(parse_expr("1 - exp(-(y - <w, x>)^2/2)"), over=ball, x=one, y=finite(-1, 1), names={"d": Fraction(2)})
    assert c.at_zero == pytest.approx(1 - math.exp(-0.5), rel=1e-4)
    assert c.at_zero >= 1 - math.exp(-0.5)
    c = certify(parse_expr("tanh(y - <w, x>)"), over=ball, x=one, y=interval(-1, 1), names={"d": Fraction(2)})
    worst = max(math.tanh(y) - math.tanh(y - 3) for y in np.linspace(-1, 1, 201))
    assert worst <= c.at_zero <= 2


def test_defaults_beat_the_zero_vector():
    p, t, calibrated = bound(n=5000, d=5, options="output = random")
    r = sample(5000, 5)
    trial = SimpleNamespace(problem=p, records=r)
    found = [gradient_norm(module.run(r, p, t, Recorded(calibrated.scale("gradient"), s)).w, trial) for s in range(2)]
    assert np.mean(found) <= gradient_norm(np.zeros(5), trial) / 4


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"loss": "hinge", "over": "ball(l2, 1)"}, "smooth"),
        ({"loss": "(y - <w, x>)^2"}, "lipschitz"),
        ({"over": "sparse(2)"}, "convex set"),
    ],
)
def test_what_it_cannot_serve_is_refused(spec: dict[str, str], word: str):
    draft = drafted(**spec)
    assert any(word in d.message for d in draft.diagnostics if d.severity == "error"), [d.message for d in draft.diagnostics]


@pytest.mark.parametrize("penalty", ["- 0.05*|w|_1", "- 0.05*group(w, 2)"])
def test_a_penalty_with_a_negative_weight_is_refused(penalty: str) -> None:
    """Its prox map moves (0.1, 0) and (-0.1, 0) further apart: by 0.2 + 2*step*0.05. The bound's proof needs that they come no further."""
    loss, values = f"1/(1 + exp(y*<w, x>)) {penalty}", "{-1, 1} by map(0 -> -1, 1 -> 1)"
    text = SPEC.format(n=100, d=4, loss=loss, over="R^d", y=values, neighbours="replace-one", options="", epsilon=1, delta="1e-3")
    found = [d.message for d in compile_draft(parse_text(text, surface="dps")).diagnostics if d.severity == "error"]
    assert len(found) == 1
    assert "negative weight" in found[0]
