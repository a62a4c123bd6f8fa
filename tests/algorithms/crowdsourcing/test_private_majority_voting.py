"""private-majority-voting: what one cell and one row cost, by counting outcomes in exact fractions; its bounds against exact laws of
votes."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from mpmath import mp
from scipy.sparse import csr_array
from scipy.stats import binom, norm

from dpspec.algorithms.card import Problem
from dpspec.algorithms.crowdsourcing import _answers as answers
from dpspec.algorithms.crowdsourcing import private_majority_voting as module
from dpspec.compiler.passes import compile_draft
from dpspec.data.enforce import enforce
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.privacy.calibrate import Budget, calibrate
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise, keep_threshold
from dpspec.tasks.truth import NONE, TASK, Votes, advantage
from tests import leak
from tests.algorithms.support import tunables

CELLS = (-1, 0, 1)


def problem(n: int, d: int, *, attribute: bool = True, labels: tuple[float, ...] = (-1.0, 1.0), **facts: float) -> Problem:
    known = {"n": n, "d": d, "epsilon": 1.0, "classes": len(labels), **facts}
    modifiers = frozenset(["attribute"] if attribute else [])
    return Problem("nldp", "replace-one", SimpleNamespace(kind="infer"), known, modifiers=modifiers, oracle=Votes(labels))


def planned(p: Problem, epsilon: str = "1", **given: str):
    t = tunables(module, p, **given)
    assert module.accepts(p, t) is None
    return t, calibrate(module.schedule(p, t), Budget(epsilon=epsilon))


def labelled(x: np.ndarray, p: Problem, epsilon: str = "1", seed: int = 0, *, per_user: bool = False, **given: str):
    t, c = planned(p, epsilon, **given)
    release = Release(c, StudyNoise(seed), mode="study", public=PublicRandomness(seed), per_user=per_user)
    estimate = module.run(Records(x), p, t, release)
    release.close()
    return estimate


# ------------------------------------------------------------------------------------------------------------------ privacy


def of_a_report(cell: int, coin: int, epsilon: float) -> dict[int, Fraction]:
    """The exact law of one report by the secure client's own threshold: the client keeps the bit with probability t/2^64."""
    bit = coin if cell == 0 else (cell + 1) // 2
    keep = Fraction(keep_threshold(epsilon), 2**64)
    return {bit: keep, 1 - bit: 1 - keep}


@pytest.mark.parametrize("epsilon", [0.01, 0.7, 1.0, 5.0])
def test_any_two_cells_are_told_apart_by_epsilon_at_most_even_with_the_coin_known(epsilon):
    with mp.workdps(40):
        limit = Fraction(str(mp.exp(mp.mpf(epsilon)))) * (1 + Fraction(1, 10**35))
    worst = max(
        of_a_report(one, coin, epsilon)[r] / of_a_report(other, coin, epsilon)[r]
        for coin, one, other, r in itertools.product((0, 1), CELLS, CELLS, (0, 1))
    )
    assert worst <= limit
    assert float(worst) == pytest.approx(math.exp(epsilon), rel=1e-9)


def test_a_whole_row_costs_d_times_one_answer():
    """All outcomes of d = 3 reports: rows that differ in one cell are e^eps apart, any two rows e^(3 eps); the plan for rows gives eps/3
    a cell."""
    epsilon, coins = 0.7, (0, 1, 1)

    def law(row: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
        each = [of_a_report(cell, coin, epsilon) for cell, coin in zip(row, coins, strict=True)]
        return {
            out: math.prod((p[r] for p, r in zip(each, out, strict=True)), start=Fraction(1)) for out in itertools.product((0, 1), repeat=3)
        }

    laws = {row: law(row) for row in itertools.product(CELLS, repeat=3)}
    loss = {(u, v): max(math.log(laws[u][o] / laws[v][o]) for o in laws[u]) for u, v in itertools.combinations(laws, 2)}
    one = max(value for (u, v), value in loss.items() if sum(a != b for a, b in zip(u, v, strict=True)) == 1)
    assert one == pytest.approx(epsilon, rel=1e-9)
    assert max(loss.values()) == pytest.approx(3 * epsilon, rel=1e-9)

    _, an_answer = planned(problem(9, 3))
    _, a_row = planned(problem(9, 3, attribute=False))
    assert an_answer.levels["answer"] == pytest.approx(1.0)
    assert a_row.levels["answer"] == pytest.approx(1 / 3)
    leak.epsilon(max(loss.values()), epsilon)


def test_a_skipped_task_shows_in_the_clear_when_only_answers_are_sent():
    """The witness: as 000 has it a worker sends a bit an answer. Two rows that differ in whether task 1 was answered are then told apart
    with certainty by what is sent at all, whatever epsilon is. Ours sends one report a worker and task for either."""

    def sent_as_printed(row: tuple[int, ...]) -> set[int]:
        return {j for j, cell in enumerate(row) if cell != 0}

    assert sent_as_printed((1, 1)) != sent_as_printed((1, 0))

    class Counting:
        public = PublicRandomness(0)

        def __init__(self) -> None:
            self.sent: list[int] = []

        def scale(self, name: str) -> float:
            return 2.0

        def mean(self, name: str, values: np.ndarray) -> np.ndarray:
            assert set(np.unique(values)) <= {0, 1}
            self.sent.append(len(values))
            return np.array([0.5])

    p = problem(4, 2)
    for x in ([[1, 1]] * 4, [[1, 0]] * 4, [[0, 0]] * 4):
        counting = Counting()
        module.run(Records(np.array(x)), p, tunables(module, p), counting)
        assert counting.sent == [4, 4]
    leak.certain(len(sent_as_printed((1, 1))), len(sent_as_printed((1, 0))))


def test_a_symbol_for_no_answer_is_one_more_category_of_the_response():
    p = problem(30, 2)
    assert answers.response(p, tunables(module, p)).kind == "binary-response"
    assert answers.response(p, tunables(module, p, abstain="symbol")).k == 3
    with pytest.raises(AssertionError, match="protects y"):
        planned(replace(p, modifiers=frozenset(["labels-only"])))


# ----------------------------------------------------------------------------------------------------------------- accuracy


def votes_for_the_truth(chances: np.ndarray) -> np.ndarray:
    """The exact law of a sum of independent coins."""
    law = np.ones(1)
    for q in chances:
        law = np.convolve(law, [1 - q, q])
    return law


def exact_error(abilities: np.ndarray, epsilon: float) -> float:
    """Of the majority on randomised answers, half of ties counted."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    law = votes_for_the_truth(abilities * keep + (1 - abilities) * (1 - keep))
    n = len(abilities)
    below = law[: (n + 1) // 2].sum()
    return float(below + (law[n // 2] / 2 if n % 2 == 0 else 0.0))


@pytest.mark.parametrize("seed", range(6))
def test_the_upper_bounds_hold_for_any_abilities(seed):
    """Exact errors of random crowds, experts, spammers and adversaries, ties counted whole: below both bounds, and the sharper one is
    close for equal abilities."""
    g = np.random.default_rng(seed)
    n = int(g.integers(20, 150))
    p = [g.beta(4, 2, n), np.where(np.arange(n) < n // 2, 1.0, 0.5), np.where(np.arange(n) % 4 == 0, 0.05, 0.95), np.full(n, 0.8)][seed % 4]
    facts = problem(n, 5, advantage=float(np.mean(2 * p - 1)))
    t, c = planned(facts, "2")
    bound = module.explicit_bounds(facts, t, c)
    hoeffding, binomial = (
        bound["Hoeffding on the difference of votes"],
        bound["Binomial tail (Hoeffding 1956, Theorem 4), by the expression at most"],
    )
    keep = math.exp(2) / (1 + math.exp(2))
    with_ties = votes_for_the_truth(p * keep + (1 - p) * (1 - keep))[: n // 2 + 1].sum()
    assert with_ties <= binomial * (1 + 1e-9)
    assert binomial <= (1 - (np.mean(2 * p - 1) * math.tanh(1)) ** 2) ** (n / 2) <= hoeffding * (1 + 1e-9)
    if seed % 4 == 3:
        assert with_ties == pytest.approx(binomial, rel=1e-6)


def test_the_error_of_a_run_is_the_exact_one():
    """1500 tasks, 51 workers who answer 8 of 10 tasks: the share of wrong labels is within four standard errors of the convolution's."""
    g = np.random.default_rng(1)
    n, d, rate = 51, 1500, 0.8
    ability = g.beta(5, 2, n)
    truth = g.integers(0, 2, d) * 2.0 - 1
    right = g.random((n, d)) < ability[:, None]
    x = np.where(g.random((n, d)) < rate, np.where(right, truth, -truth), 0.0)
    wrong = float(np.mean(labelled(x, problem(n, d), "1").theta != truth))
    expected = exact_error(0.5 + rate * (ability - 0.5), 1.0)
    assert abs(wrong - expected) <= 4 * math.sqrt(expected * (1 - expected) / d)


def test_reports_one_by_one_and_their_law_agree():
    """The same task 800 times: the estimated share of the label has the mean 0.7 by both routes."""
    x = np.where(np.arange(10)[:, None] < 7, 1.0, -1.0) * np.ones((10, 800))
    for per_user in (False, True):
        shares = labelled(x, problem(10, 800), "2", per_user=per_user).extras["shares"]
        assert shares.shape == (800, 2)
        assert abs(shares[:, 1].mean() - 0.7) < 4 * shares[:, 1].std() / math.sqrt(800)
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)


@pytest.mark.parametrize("abstain", ["coin", "symbol"])
def test_four_labels_keep_the_bound(abstain):
    g = np.random.default_rng(2)
    labels, n, d = (1.0, 2.0, 5.0, 7.0), 400, 300
    truth = g.choice(labels, d)
    x = np.where(g.random((n, d)) < 0.6, truth, g.choice(labels, (n, d)))
    x = np.where(g.random((n, d)) < 0.9, x, 0.0)
    p = problem(n, d, labels=labels, advantage=0.9 * 0.6)
    t, c = planned(p, "1.5", abstain=abstain)
    bound = module.explicit_bounds(p, t, c)
    assert bound.keys() == {"Hoeffding on the difference of votes"}
    wrong = np.mean(labelled(x, p, "1.5", abstain=abstain).theta != truth)
    assert wrong <= bound["Hoeffding on the difference of votes"] + 4 * math.sqrt(0.25 / d)
    assert wrong < 0.2


def test_ties_to_one_label_err_more_on_the_other():
    """n = 10, every count of votes with its exact probability: to the last label (>= n/2 of 000) the two labels' errors differ by the
    probability of a tie; a coin makes them equal."""
    n, q = 10, 0.6
    counts = np.arange(n + 1)
    votes = {1: np.stack([n - counts, counts], axis=1), 0: np.stack([counts, n - counts], axis=1)}  # counts: votes for the truth
    weight = binom.pmf(counts, n, q)

    def error(true: int, ties: str) -> float:
        coins = [np.full(n + 1, c) for c in (0.25, 0.75)]  # each side of a fair coin once
        return float(np.mean([weight @ (module.elect(votes[true], ties, c) != true) for c in coins]))

    assert error(0, "last") - error(1, "last") == pytest.approx(binom.pmf(5, n, q))
    assert error(0, "coin") == pytest.approx(error(1, "coin")) == pytest.approx(binom.cdf(4, n, q) + binom.pmf(5, n, q) / 2)
    assert error(1, "first") - error(0, "first") == pytest.approx(binom.pmf(5, n, q))


def test_the_coin_of_a_tie_is_fair_among_the_best():
    coins = (np.arange(3000) + 0.5) / 3000
    votes = np.tile([4, 9, 9, 2, 9], (3000, 1))
    assert np.bincount(module.elect(votes, "coin", coins), minlength=5).tolist() == [0, 1000, 1000, 0, 1000]


@pytest.mark.parametrize("scale", [1.05, 2.164, 200.0, 2e6])
def test_votes_are_counted_back_exactly(scale):
    """Unbiased shares of every count of a crowd give back the whole numbers, so that a tie is one."""
    for n in (2, 7, 300):
        ones = np.arange(n + 1)
        for k in ones:
            share = np.array([0.5 + scale * (k / n - 0.5)])
            assert module.reported(share, scale, 2, n).tolist() == [n - k, k]
    counts = np.array([3, 0, 4])
    shares = (counts / 7 - (1 - 1 / scale) / 3) * scale
    assert module.reported(shares, scale, 3, 7).tolist() == counts.tolist()


# --------------------------------------------------------------------------------------------------------- the instance of 7.1.4


@pytest.mark.parametrize(("n", "experts"), [(1000, 23), (10_000, 64)])
def test_the_repaired_lower_bound_is_below_the_exact_error_and_far_above_the_printed_one(n, experts):
    """The exact error: experts' reports are Binomial(k, keep), the spammers' Binomial(n - k, 1/2)."""
    p = problem(n, 5, experts=experts)
    for epsilon in (0.5, 1.0, 2.0):
        keep = math.exp(epsilon) / (1 + math.exp(epsilon))
        right = np.arange(experts + 1)
        needed = n / 2 - right  # votes of spammers for the truth that make half of all
        wrong = binom.cdf(np.ceil(needed) - 1, n - experts, 0.5) + np.where(needed % 1 == 0, binom.pmf(needed, n - experts, 0.5) / 2, 0.0)
        exact = float(binom.pmf(right, experts, keep) @ wrong)
        t, c = planned(p, str(epsilon))
        bound = module.explicit_bounds(p, t, c)
        repaired, printed = bound["000 Theorem 7.1.4 with the repaired proof"], bound["000 (7.37)"]
        assert printed == pytest.approx(keep**experts / 8, rel=1e-6)
        assert printed < repaired / 20
        assert 0.2 < repaired < exact


def test_the_printed_berry_esseen_distance_is_exceeded():
    """Fair coins, n = 16: half of the probability of a tie is a distance to the normal law at 0; 000 prints n^(-1/2)/16."""
    distance = abs(binom.cdf(8, 16, 0.5) - norm.cdf(0))
    assert 0.4748 / 4 > distance > 1 / (16 * 4)


def test_the_instance_loses_the_wisdom_that_the_other_proof_needs():
    """a^2 n^(delta0 - 1) against 16 log(8) sqrt(log(m)/n), m = n, delta0 = 0.45, no noise at all: the share falls below 1 and goes to 0."""
    share = [n ** (0.45 - 1) / (16 * math.log(8) * math.sqrt(math.log(n) / n)) for n in (1e3, 1e6, 1e12, 1e24)]
    assert share == sorted(share, reverse=True)
    assert share[0] < 1 / 50


# ------------------------------------------------------------------------------------------------------------------ the task


def test_answers_are_read_the_same_dense_and_sparse_and_anything_else_is_none():
    x = np.array([[1.0, 0.0, -1.0], [0.3, np.nan, 1.0]])
    votes = Votes((-1.0, 1.0))
    codes = votes.codes(Records(x))
    assert codes.tolist() == [[1, NONE], [NONE, NONE], [0, 1]]
    assert np.array_equal(codes, votes.codes(Records(csr_array(x))))
    assert votes.named([1, 0]).tolist() == [1.0, -1.0]
    assert advantage(votes, codes, np.array([1.0, 1.0, -1.0]))[0] == pytest.approx((1 + 0 + 1 - 1) / 6)


def spec(domain: str, assume: str = "advantage(0.25) of workers", expect: str = "") -> str:
    return f"""
analysis "a"
data
  n = 301, d = 20
  from memory
  private, unit worker, neighbours replace-one
  x in {domain}
privacy nldp, attribute
  epsilon = 1
assume
  {assume}
release truth
  infer truth from labels
  by private-majority-voting
  {expect}
"""


def test_a_plan_states_its_unit_and_the_bound_of_its_own_noise():
    draft = compile_draft(
        parse_text(spec("{-1, 0, 1} by map(0 -> 0, no -> -1, yes -> 1)", expect="expect label-error <= 0.05"), surface="dps")
    )
    assert [d.code for d in draft.diagnostics if d.severity != "info"] == ["DP525"]  # a word that is not listed is no answer
    (release,) = draft.releases
    assert release.calibrated.levels["answer"] == pytest.approx(1.0)
    assert release.calibrated.guarantee.epsilon == pytest.approx(1.0)
    value = {b.theorem: b.value for b in release.bounds}["Binomial tail (Hoeffding 1956, Theorem 4), by the expression at most"]
    assert value == pytest.approx(binom.cdf(150, 301, (1 + 0.25 * math.tanh(0.5)) / 2), rel=1e-6)
    assert release.target is not None
    assert release.target.met is True


@pytest.mark.parametrize(
    ("domain", "assume", "words"),
    [
        ("{0, 1} by map(0 -> 0, 1 -> 1)", "one-coin", "1 label"),
        ("ball(l2, 1) by scale", "one-coin", "not listed"),
        ("{-1, 1}", "one-coin", "not listed"),
        ("{-1, 1} by map(0 -> -1, 1 -> 1)", "advantage(1.5) of workers", "at most 1"),
        ("{-1, 0, 1} by reject", "one-coin", "reads a row whole"),
    ],
)
def test_what_is_no_vote_is_refused_in_words(domain, assume, words):
    found = compile_draft(parse_text(spec(domain, assume), surface="dps")).diagnostics
    assert any(words in d.message for d in found if d.severity == "error"), [d.message for d in found]


def test_one_bad_cell_rejects_a_row_and_maps_alone():
    """Why `reject` is refused where the unit is one answer: the enforced neighbours differ in every cell, not in one."""

    def enforced(rule: str, row: list[float]) -> np.ndarray:
        data = parse_text(spec("{-1, 0, 1} by " + rule), surface="dps").analysis.data
        return np.asarray(enforce(Records(np.array([row])), data, {"n": 1, "d": 3})[0].x)[0]

    good, bad = [1.0, 1.0, -1.0], [1.0, 7.0, -1.0]
    apart = {rule: int((enforced(rule, good) != enforced(rule, bad)).sum()) for rule in ("reject", "map(0 -> 0, -1 -> -1, 1 -> 1)")}
    assert list(apart.values()) == [3, 1]


def test_the_measure_is_the_share_of_wrong_labels():
    measure = TASK.measures[0]
    trial = SimpleNamespace(true=np.array([1.0, -1.0, 1.0, 1.0]))
    assert measure.of(np.array([1.0, 1.0, 1.0, -1.0]), trial) == 0.5
