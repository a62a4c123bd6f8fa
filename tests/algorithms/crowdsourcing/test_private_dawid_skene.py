"""private-dawid-skene and its reference: EM against Bayes by enumeration, what the server may read, and the printed conditions in
numbers."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import xlogy
from scipy.stats import binom

from dpspec.algorithms.card import Problem
from dpspec.algorithms.crowdsourcing import _one_coin as one_coin
from dpspec.algorithms.crowdsourcing import dawid_skene as reference
from dpspec.algorithms.crowdsourcing import private_dawid_skene as module
from dpspec.algorithms.crowdsourcing import private_majority_voting as majority
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget, calibrate
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.tasks.truth import TASK, Votes
from tests import leak
from tests.algorithms.support import tunables


def problem(n: int, d: int, *, labels: tuple[float, ...] = (-1.0, 1.0), **facts: float) -> Problem:
    known = {"n": n, "d": d, "epsilon": 1.0, "classes": len(labels), **facts}
    return Problem("nldp", "replace-one", SimpleNamespace(kind="infer"), known, modifiers=frozenset(["attribute"]), oracle=Votes(labels))


def labelled(x: np.ndarray, p: Problem, epsilon: str, algorithm=module, **given: str | float):
    t = tunables(algorithm, p, **given)
    assert algorithm.accepts(p, t) is None
    release = Release(calibrate(algorithm.schedule(p, t), Budget(epsilon=epsilon)), StudyNoise(1), mode="study", public=PublicRandomness(1))
    estimate = algorithm.run(Records(x), p, t, release)
    release.close()
    return estimate


def crowd(abilities: np.ndarray, d: int, seed: int = 0, rate: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    truth = g.integers(0, 2, d) * 2.0 - 1
    x = np.where(g.random((len(abilities), d)) < abilities[:, None], truth, -truth)
    return np.where(g.random(x.shape) < rate, x, 0.0), truth


# ------------------------------------------------------------------------------------------------------------------ privacy


class Fixed:
    """Answers every question with reports of its own, whatever the workers hold."""

    public = PublicRandomness(0)

    def __init__(self) -> None:
        self.stream = np.random.default_rng(5)

    def scale(self, name: str) -> float:
        return 2.0

    def reports(self, name: str, values: np.ndarray) -> np.ndarray:
        return self.stream.integers(0, 2, len(values))


def test_a_step_on_raw_answers_shows_them(monkeypatch):
    """The witness: with reports that are the same whatever the workers hold, ours gives the same labels and abilities for any answers;
    the step of (7.10) on raw answers gives the answers away."""
    p = problem(40, 30)
    t = tunables(module, p)
    crowds = [crowd(np.full(40, 0.9), 30, seed)[0] for seed in (1, 2)]

    def outputs():
        found = [module.run(Records(x), p, t, Fixed()) for x in crowds]
        return [np.array_equal(found[0].theta, found[1].theta), np.array_equal(found[0].extras["abilities"], found[1].extras["abilities"])]

    assert outputs() == [True, True]
    raw = iter([p.oracle.codes(Records(x)) for x in crowds])
    plain = one_coin.named
    monkeypatch.setattr(one_coin, "named", lambda reports, classes: plain(next(raw), classes))
    assert outputs() == [False, False]
    # one task that 200 others answer alike, at epsilon 1: the label is theirs but for `wrong`, and the ability of the first worker is the
    # share of its raw answers that agree with the label: 1 or 0
    keep = math.e / (1 + math.e)
    wrong = float(binom.cdf(101, 200, keep))  # of the majority, whatever the first worker's report is
    leak.event(1 - wrong, wrong, stated=1.0)


# ----------------------------------------------------------------------------------------------------------------------- EM


def test_posteriors_are_those_of_bayes_by_enumeration():
    """Three labels, four workers, one of whom says nothing: the product of the chances of what was said, written out."""
    q = np.array([0.7, 0.5, 0.9, 0.4])
    said = np.array([[0, 1, 1, -1], [2, 2, 2, 0]])
    got = one_coin.posterior(one_coin.named(said, 3), q)
    for row, codes in zip(got, said, strict=True):
        weights = [math.prod(q[i] if c == k else (1 - q[i]) / 2 for i, c in enumerate(codes) if c >= 0) for k in range(3)]
        np.testing.assert_allclose(row, np.array(weights) / sum(weights), rtol=1e-12)


def test_posteriors_of_ten_thousand_workers_are_numbers():
    said = np.zeros((2, 10_000), dtype=int)
    said[1, :5000] = 1
    got = one_coin.posterior(one_coin.named(said, 2), np.full(10_000, 1 - 1e-9))
    np.testing.assert_allclose(got, [[1.0, 0.0], [0.5, 0.5]])


def test_half_steps_never_lower_the_objective():
    """F(p, y) of (7.4) with (1 - y_j), in plain loops' algebra; 000 prints (1 - y_i), which is not even of the right shape."""
    x, _ = crowd(np.random.default_rng(3).beta(3, 2, 25), 40)
    ones = (x.T > 0).astype(float)  # tasks, workers

    def objective(p: np.ndarray, y: np.ndarray) -> float:
        entropy = -(xlogy(y, y) + xlogy(1 - y, 1 - y)).sum()
        say = ones @ np.log(p) + (1 - ones) @ np.log(1 - p)
        deny = ones @ np.log(1 - p) + (1 - ones) @ np.log(p)
        return float(y @ say + (1 - y) @ deny + entropy)

    matrices = one_coin.named(np.where(x.T > 0, 1, 0), 2)
    y, values = one_coin.start(matrices), []
    for _ in range(8):
        p = np.clip(one_coin.shares(matrices, y), 1e-9, 1 - 1e-9)
        values.append(objective(p, y[:, 1]))
        y = one_coin.posterior(matrices, p)
        values.append(objective(p, y[:, 1]))
    assert np.diff(values).min() > -1e-9
    assert values[-1] > values[0] + 1


def test_the_reference_finds_the_experts():
    """One worker in twenty is always right, the others guess: majority errs on a tenth and more, EM on none."""
    abilities = np.where(np.arange(200) < 10, 1.0, 0.5)
    x, truth = crowd(abilities, 1000, rate=0.9)
    p = problem(200, 1000)
    found = reference.run(Records(x), p, tunables(reference, p), None)
    assert np.mean(np.sign(x.sum(axis=0)) != truth) > 0.1
    assert np.mean(found.theta != truth) < 0.005
    np.testing.assert_array_equal(TASK.reference(Records(x), p, {})[0], found.theta)
    answered = np.where(x != 0, x == truth, np.nan)
    np.testing.assert_allclose(found.extras["abilities"], np.nanmean(answered, axis=1), atol=0.01)


# ----------------------------------------------------------------------------------------------------------------- accuracy


@pytest.mark.parametrize("epsilon", ["2", "3"])
def test_experts_among_spammers_are_heard(epsilon):
    """000's instance, 15 experts of 400: majority errs on a quarter (exact: 0.29, 0.25), EM on the same reports' law on nearly none."""
    x, truth = crowd(np.where(np.arange(400) < 15, 1.0, 0.5), 1500)
    p = problem(400, 1500)
    votes = np.mean(labelled(x, p, epsilon, majority).theta != truth)
    weighed = np.mean(labelled(x, p, epsilon).theta != truth)
    assert votes > 0.2
    assert weighed < 0.02


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_abilities_keep_the_bound_of_the_theorem(epsilon):
    """max |p - p*| <= 2 coth(eps/2) sqrt(log(d)/d), 7.1.3 in its form for every epsilon, once the labels are right."""
    d = 3000
    abilities = np.linspace(0.55, 1.0, 150)
    x, truth = crowd(abilities, d)
    found = labelled(x, problem(150, d), str(epsilon))
    assert np.mean(found.theta != truth) < 0.02
    assert np.abs(found.extras["abilities"] - abilities).max() <= 2 / math.tanh(epsilon / 2) * math.sqrt(math.log(d) / d)


def test_a_projected_share_would_hide_experts():
    """At epsilon 4 an expert's reports are right 98 % of the time: cut at 1 - 1/8, 0.89 would come back. Ours says 1."""
    d, epsilon = 3000, 4.0
    a = math.tanh(epsilon / 2)
    assert (1 - 1 / 8 - (1 - a) / 2) / a < 0.9
    x, _ = crowd(np.where(np.arange(60) < 20, 1.0, 0.7), d)
    assert labelled(x, problem(60, d), "4").extras["abilities"][:20].mean() > 0.99
    low, high = module.margins(a, 2, 1 / 8, d)
    assert (low, high) == (pytest.approx((1 - a) / 2), pytest.approx((1 + a) / 2))


@pytest.mark.parametrize("abstain", ["coin", "symbol"])
def test_abilities_are_debiased_for_missing_answers(abstain):
    """7 of 10 questions are answered: a coin counts the others as guesses, the symbol leaves them out."""
    abilities = np.array([0.6, 0.8, 1.0] * 40)
    x, truth = crowd(abilities, 4000, rate=0.7)
    found = labelled(x, problem(120, 4000), "3", abstain=abstain)
    assert np.mean(found.theta != truth) < 0.01
    expected = abilities if abstain == "symbol" else 0.7 * abilities + 0.3 / 2
    for k in range(3):
        assert found.extras["abilities"][k::3].mean() == pytest.approx(expected[k], abs=0.015)


def test_three_labels():
    g = np.random.default_rng(4)
    labels, d = (1.0, 2.0, 3.0), 800
    truth = g.choice(labels, d)
    abilities = np.repeat([0.95, 0.35], 60)
    x = np.where(g.random((120, d)) < abilities[:, None], truth, (truth + g.integers(1, 3, (120, d)) - 1) % 3 + 1)
    p = problem(120, d, labels=labels)
    weighed = labelled(x, p, "2")
    assert np.mean(weighed.theta != truth) <= np.mean(labelled(x, p, "2", majority).theta != truth) + 0.005
    assert np.mean(weighed.theta != truth) < 0.01
    assert weighed.extras["abilities"][:60].mean() == pytest.approx(0.95, abs=0.02)
    assert weighed.extras["abilities"][60:].mean() == pytest.approx(0.35, abs=0.02)


# ------------------------------------------------------------------------------------------------------- the printed conditions


def step(n: float, m: float, v: float, lam: float) -> float:
    """The exponent of (7.33)."""
    return 4 * n / lam * math.sqrt(math.log(m) / m) + 4 * math.log(1 / lam) * math.sqrt(n * math.log(m)) - n * v


def test_the_printed_condition_does_not_give_the_bound():
    """log(m)/n <= vhat holds fifty times over, (7.15) is not empty, and at no lam of it the exponent is below +600."""
    n, m, v = 2000.0, 1e8, 0.5
    root = math.sqrt(math.log(m) / m)
    assert math.log(n) <= math.log(m) <= n
    assert math.log(m) / n < v / 50
    low, high = 16 / v * root, 1 / 8 - root / 2
    assert low < high
    assert min(step(n, m, v, lam) for lam in np.linspace(low, high, 200)) > 600 > -n * v / 2


def test_the_interval_of_the_theorem_is_empty_below_millions_of_tasks():
    """Experts only, epsilon 1: 16/vhat root <= 1/8 - root/2 with root = sqrt(log(m)/m) solved for m."""

    def room(log10: float) -> float:
        m = 10**log10
        root = math.sqrt(math.log(m) / m)
        return 1 / 8 - root / 2 - 16 / math.tanh(0.5) ** 2 * root

    assert 10 ** brentq(room, 3, 12) == pytest.approx(5.7e6, rel=0.02)


def test_bounds_are_given_where_their_conditions_hold_and_nowhere_else():
    def bounds(n: float, d: float, ability: float, epsilon: str):
        p = problem(int(n), int(d), ability=ability)
        t = tunables(module, p)
        return module.explicit_bounds(p, t, SimpleNamespace(scale=lambda name: 1 / math.tanh(float(epsilon) / 2)))

    assert bounds(400, 1000, 0.06, "3") == {}
    assert bounds(2000, 1e8, 0.5, "20") == {}  # the counterexample above
    v, lam = 0.9 * math.tanh(1) ** 2, 1 / (math.exp(2) + 1)
    near = bounds(6400, 1e10, 0.9, "2")
    assert near.keys() == {"000 (7.33)"}
    assert 1e-30 < near["000 (7.33)"] == pytest.approx(math.exp(step(6400, 1e10, v, lam)), rel=1e-9)
    far = bounds(2e6, 1e10, 0.9, "2")  # where the theorem is certified its exponent is beyond -128 Lam^2 log(d): no double holds it
    assert far == {"000 (7.33)": 0.0, "000 Theorem 7.1.2 under the repaired condition": 0.0}
