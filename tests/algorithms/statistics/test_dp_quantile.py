"""Quantiles: the joint law of all choices, enumerated on neighbours; ties; ranks."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dpspec.algorithms.card import Problem, Tunables
from dpspec.algorithms.statistics import dp_quantile as q
from dpspec.compiler.plan import make_plan
from dpspec.executor.run import run
from dpspec.lang.source import parse_text
from dpspec.models.columns import Column, Quantiles
from dpspec.privacy.mechanisms import joint_selection
from dpspec.privacy.mechanisms.joint_selection import JointSelection
from dpspec.privacy.mechanisms.row_selection import RowSelection
from dpspec.privacy.noise import SecureNoise, StudyNoise


def problem(n: int, shares: tuple[float, ...], relation: str, high: float = 2.0) -> Problem:
    facts = {"n": float(n), "d": 1.0, "value_low": 0.0, "value_high": high, "shares": float(len(shares))}
    facts |= {f"share_{i}": p for i, p in enumerate(shares, 1)}
    return Problem("central", relation, None, facts, oracle=Quantiles(Column("x", high=high), shares))


def flips(scores: np.ndarray, unit: float, epsilon: float) -> list[float]:
    """The law of permute-and-flip: a uniform head, by the exact distribution of how many other heads there are."""
    heads = [math.exp(-epsilon * (scores.max() - s) / unit) for s in scores]
    found = []
    for i, p in enumerate(heads):
        others = np.array([1.0])
        for j, r in enumerate(heads):
            if j != i:
                others = np.convolve(others, [1 - r, r])
        found.append(p * sum(o / (k + 1) for k, o in enumerate(others)))
    return found


def joint(records: tuple[float, ...], p: Problem, t: Tunables, epsilon: float) -> dict[tuple[int, ...], float]:
    """Every course of choices with its probability; each draw has ``epsilon``."""
    made, shares = q.grid(p, t), q.fractions(p)
    weights = q.running(np.bincount(q.nearest(np.array(records, dtype=float), made), minlength=made.numbers.size), made)
    table, planned, law = q.Borders(made), q.mechanisms(p, t), {}

    def go(level: int, borders: dict[int, int], path: tuple[int, ...], chance: float) -> None:
        if level == len(planned):
            law[path] = law.get(path, 0.0) + chance
            return
        parts = q.levels(len(shares))[level]
        rows = [q.scores(weights, table, borders[a.low], borders[a.high], q.relative(a, shares), leaf=a.leaf) for a in parts]
        laws = [flips(row, 2 * planned[level].sensitivity, epsilon) for row in rows]
        for choice in itertools.product(*(range(len(row)) for row in rows)):
            each = math.prod(found[c] for found, c in zip(laws, choice, strict=True))
            further = {a.at: borders[a.low] + c for a, c in zip(parts, choice, strict=True)}
            go(level + 1, {**borders, **further}, path + choice, chance * each)

    go(0, {-1: 0, len(shares): int(made.cell.size)}, (), 1.0)
    return law


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("shares", [(0.5,), (0.2,), (0.25, 0.75), (0.2, 0.5, 0.9)])
def test_the_joint_law_of_neighbours_is_within_epsilon(monkeypatch: pytest.MonkeyPatch, relation: str, shares: tuple[float, ...]) -> None:
    """All data sets of up to three records on three numbers, each number cut into two pieces."""
    monkeypatch.setattr(q, "LARGEST", 6)
    p, t, epsilon = problem(3, shares, relation), Tunables({"step": 1.0, "several": "halves"}), 1.3
    assert q.grid(p, t).copies == (2 if len(shares) > 1 else 1)
    total, worst = epsilon * len(q.levels(len(shares))), 0.0
    size = 2 if len(shares) == 3 else 3
    for some in itertools.combinations_with_replacement((0.0, 1.0, 2.0), size - 1):
        laws = [joint((*some, v), p, t, epsilon) for v in (0.0, 1.0, 2.0)]
        pairs = [(joint(some, p, t, epsilon), law) for law in laws] if relation == "add-remove" else list(itertools.combinations(laws, 2))
        for one, other in pairs:
            assert sum(one.values()) == pytest.approx(1.0)
            assert set(one) == set(other)
            worst = max(worst, max(abs(math.log(one[path] / other[path])) for path in one))
    assert worst <= total
    assert worst >= 0.4 * total  # the budget is not far from spent


def test_rows_are_charged_for_what_they_move_together() -> None:
    mechanism = RowSelection(2.0, 4, 2)
    one, _ = mechanism.blind([np.array([0.0, 1.0, 2.0]), np.array([5.0])])
    other, _ = mechanism.blind([np.array([0.5, 1.0, 1.0]), np.array([4.0])])
    assert mechanism.distance(1.0, one, other) == 1.0 + 1.0
    assert "2 rows" in str(mechanism.check([np.zeros(3)]))
    assert "allows 1 to 4" in str(mechanism.check([np.zeros(5), np.zeros(1)]))


@pytest.mark.parametrize("noise", [StudyNoise(1), SecureNoise()], ids=["study", "secure"])
@pytest.mark.parametrize("form", ["flip", "exponential"])
def test_rows_are_drawn_by_their_law(noise, form) -> None:
    scores, draws = np.array([0.0, -1.0, -3.0]), 1000
    mechanism = RowSelection(1.0, 3, 2, form)
    found = np.array([mechanism.apply([scores, scores[::-1]], 2.0, noise) for _ in range(draws)])
    weights = np.exp(scores)
    law = np.array(flips(scores, 2.0, 2.0)) if form == "flip" else weights / weights.sum()
    for i in range(3):
        for column, p in ((0, law[i]), (1, law[2 - i])):
            assert abs(np.count_nonzero(found[:, column] == i) - draws * p) < 5 * math.sqrt(draws * p) + 1


def test_the_score_is_right_on_ties_where_middle_ranks_are_not() -> None:
    """Of 100 records 30 are 0, 25 are 1, 45 are 2: the median is 1. By middle ranks (15, 42.5, 77.5) it is 1 too, but the share 0.58 is
    answered 1 (57.5 - 42.5 = 15.5 against 19.5), where 55 are at or below 1."""
    p, t = problem(100, (0.58,), "replace-one"), Tunables({"step": 1.0, "several": "halves"})
    made = q.grid(p, t)
    weights = q.running(np.array([30, 25, 45]), made)
    scores = q.scores(weights, q.Borders(made), 0, made.cell.size, Fraction(58, 100), leaf=True)
    assert list(scores) == [30 - 58, 55 - 58, 58 - 55]
    assert int(np.argmax(scores)) == 2


def test_halves_take_log2_of_the_number_of_draws_and_keep_shares() -> None:
    assert [len(q.levels(m)) for m in (1, 2, 3, 5, 7, 8)] == [1, 2, 2, 3, 3, 4]
    shares = (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(9, 10))
    for m in range(1, 12):
        assert sorted(part.at for level in q.levels(m) for part in level) == list(range(m))
    assert [q.relative(part, shares) for part in q.levels(5)[1]] == [Fraction(1, 5), Fraction(1, 2)]


@pytest.mark.parametrize("values", [[5.0] * 50, [0.0] * 49 + [10.0], list(range(11)) * 5, []])
def test_ties_and_empty_tables_do_not_fail(values: list[float]) -> None:
    """Exact at a large budget, and an answer for every table."""
    p, t = problem(50, (0.25, 0.5, 0.75), "add-remove", 10.0), Tunables({"step": 1.0, "several": "halves"})
    made, shares = q.grid(p, t), q.fractions(p)
    weights = q.running(np.bincount(q.nearest(np.array(values), made), minlength=11), made)
    borders = {-1: 0, 3: int(made.cell.size)}
    answers = [0.0] * 3
    for level in q.levels(3):
        for part in level:
            row = q.scores(weights, q.Borders(made), borders[part.low], borders[part.high], q.relative(part, shares), leaf=part.leaf)
            borders[part.at] = borders[part.low] + int(np.argmax(row))
            answers[part.at] = made.numbers[made.cell[min(borders[part.at], made.cell.size - 1)]]
    if values:
        assert answers == list(np.quantile(values, [0.25, 0.5, 0.75], method="inverted_cdf"))


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.8), (30.6, 91.4), (1e5, 9e5)])
def test_what_is_said_of_the_rank_holds_between_the_numbers_of_an_open_grid(low: float, high: float) -> None:
    """Of a number within ``rank_within`` of the answer: records that lie between two numbers of the grid are counted at the nearer one."""
    text = """analysis "a"
data
  n = 2000, d = 1
  from memory columns [age]
  private, unit person, neighbours replace-one
  x in box(0, 1000000) by clip
privacy central
  epsilon = 1
release r
  estimate median(age)
"""
    x = np.random.default_rng(1).uniform(low, high, 2000)
    plan = make_plan(parse_text(text, surface="dps"), check=False)
    for _ in range(3):
        out = run(plan, x[:, None]).outputs["r"]
        near, answer, off = (float(out[word][0]) for word in ("rank_within", "value", "rank_error"))
        assert 0 < near < 100
        assert max(np.mean(x < answer - near) - 0.5, 0.5 - np.mean(x <= answer + near)) <= off < 0.05


# ------------------------------------------------------------------------------------------------------------- in one choice


def chances(mechanism: JointSelection, w: np.ndarray, gaps: tuple[float, ...], level: float) -> dict[tuple[int, ...], float]:
    """The logarithm of the chance of every tuple, of the doubles that choose: what the mechanism hands to each exact choice, along every
    course of choices."""
    found, paths = {}, [()]
    with pytest.MonkeyPatch.context() as patch:
        while paths:
            forced, told = paths.pop(), [0.0]

            def choose(exponents, noise, forced=forced, told=told):
                i = len(told) - 1
                at = forced[i] if i < len(forced) else 0
                paths.extend((*forced, *[0] * (i - len(forced)), v) for v in range(1, exponents.size) if i >= len(forced))
                told.append(-exponents[at] - math.log(math.fsum(np.exp(-exponents))))
                return at

            patch.setattr(joint_selection, "choose_exponential", choose)
            out = mechanism.apply((w, gaps), level, StudyNoise(0))
            found[tuple(out)] = math.fsum(told)
    return found


def on_paper(w: np.ndarray, shares: tuple[Fraction, ...], unit: float) -> dict[tuple[int, ...], float]:
    """The same by enumeration of tuples, utilities in exact fractions."""
    last, found = w.size - 1, {}
    for c in itertools.combinations_with_replacement(range(w.size), len(shares)):
        borders, ends = (0, *c, last), (Fraction(0), *shares, Fraction(1))
        u = -sum(abs(int(w[b] - w[a]) - (q - p) * int(w[-1])) for (a, b), (p, q) in zip(pairwise(borders), pairwise(ends), strict=True))
        found[c] = float(u) / unit
    total = math.log(math.fsum(math.exp(v) for v in found.values()))
    return {c: v - total for c, v in found.items()}


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("shares", [(0.25, 0.75), (0.2, 0.5), (0.2, 0.5, 0.9)])
def test_the_law_of_a_joint_choice_is_within_epsilon(monkeypatch: pytest.MonkeyPatch, relation: str, shares: tuple[float, ...]) -> None:
    """All data sets of up to three records on three numbers in two pieces each; the law itself, and its ratio on neighbours."""
    monkeypatch.setattr(q, "COPIES", 2)
    p, t, epsilon = problem(3, shares, relation), Tunables({"step": 1.0, "several": "joint"}), 1.3
    made, mechanism, laws = q.grid(p, t), q.selection(p, q.grid(p, t)), {}
    assert made.copies == 2
    for size in range(4):
        for some in itertools.combinations_with_replacement((0.0, 1.0, 2.0), size):
            w = q.running(np.bincount(q.nearest(np.array(some), made), minlength=3), made)
            laws[some] = chances(mechanism, w, q.gaps(p), epsilon)
            paper = on_paper(w, q.fractions(p), 2 * mechanism.sensitivity / epsilon)
            assert set(laws[some]) == set(paper)
            assert max(abs(laws[some][c] - paper[c]) for c in paper) < 1e-8
    worst = 0.0
    for some in (s for s in laws if len(s) < 3):
        more = [tuple(sorted((*some, v))) for v in (0.0, 1.0, 2.0)]
        pairs = [(some, m) for m in more] if relation == "add-remove" else list(itertools.combinations(more, 2))
        worst = max(worst, *(abs(laws[a][c] - laws[b][c]) for a, b in pairs for c in laws[a]))
    assert worst <= epsilon
    assert worst >= 0.4 * epsilon


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_how_far_u_moves(relation: str) -> None:
    """Over random tables, by the mechanism's own maximum over tuples: at most the sensitivity, and it is attained."""
    p, t = problem(40, (0.1, 0.25, 0.5, 0.75, 0.9), relation, 6.0), Tunables({"step": 1.0, "several": "joint"})
    made, mechanism, most = q.grid(p, t), q.selection(p, q.grid(p, t)), 0.0
    for a, b in itertools.combinations(range(7), 2):
        one, other = np.zeros(7, dtype=np.int64), np.zeros(7, dtype=np.int64)
        one[a], other[b] = 1, 1
        before = q.running(one if relation == "replace-one" else 0 * one, made)
        seen = [mechanism.blind((w, q.gaps(p)))[0] for w in (before, q.running(other, made))]
        most = max(most, mechanism.distance(1.0, *seen))
    assert most <= mechanism.sensitivity
    assert most == pytest.approx(mechanism.sensitivity, rel=1e-9)
    assert mechanism.sensitivity == pytest.approx(made.copies * (1.8 if relation == "add-remove" else 2.0))


def test_the_distance_is_the_greatest_change_over_tuples() -> None:
    mechanism, gaps = JointSelection(1.0, 6, 2, 100.0), (0.2, 0.5, 0.3)
    moved = np.array([0.0, 1.0, 1.0, -1.0, 2.0, 3.0])
    every = itertools.combinations_with_replacement(range(6), 2)
    most = max(sum(abs(moved[b] - moved[a] - s * 3) for (a, b), s in zip(pairwise((0, *c, 5)), gaps, strict=True)) for c in every)
    zero = np.concatenate([gaps, np.zeros(6)])
    assert mechanism.distance(1.0, zero, np.concatenate([gaps, moved])) == pytest.approx(most)


def test_sums_of_the_joint_choice_round_by_less_than_epsilon_pays() -> None:
    """Each F_j against sums of fifty digits, over weights so large that logarithms cancel."""
    mpmath = pytest.importorskip("mpmath")
    r, k = np.random.default_rng(1), 3
    for span in (1.0, 1e3, 1e6):
        w = np.concatenate([[0.0], np.cumsum(r.random(40) * (r.random(40) < 0.5))])
        w, gaps = w * span / w[-1], (0.2, 0.3, 0.4, 0.1)
        with mpmath.workdps(50):
            exact = [mpmath.exp(-abs(mpmath.mpf(v) - mpmath.mpf(gaps[0]) * mpmath.mpf(w[-1]))) for v in w]
            found = -np.abs(w - gaps[0] * w[-1])
            for j in range(1, k):
                found = joint_selection._further(found, w, gaps[j] * w[-1])
                exact = [
                    sum(exact[b] * mpmath.exp(-abs(mpmath.mpf(w[c]) - w[b] - mpmath.mpf(gaps[j]) * w[-1])) for b in range(c + 1))
                    for c in range(w.size)
                ]
            off = max(abs(float(mpmath.log(v) - f)) for v, f in zip(exact, found, strict=True))
        deep = math.ceil(math.log2(w.size))
        assert off <= k * (2 * deep + 8) * 2.0**-52 * (4 * span + k * math.log(w.size) + 8)


def test_what_rounding_costs_is_taken_from_epsilon() -> None:
    small, large = JointSelection(2.0, 6465, 5, 8e3), JointSelection(2.0, 6465, 5, 8e8)
    assert 1 - 1e-8 < small.effective(1.0) < 1
    assert large.effective(1.0) < small.effective(1.0)
    assert small.effective(1e-12) == 0.0  # below its own rounding it does not look
    with pytest.raises(ValueError, match="too many"):
        JointSelection(2.0, 6465, 5, 1e15)


@pytest.mark.parametrize("noise", [StudyNoise(1), SecureNoise()], ids=["study", "secure"])
def test_tuples_are_drawn_by_their_law(noise) -> None:
    w, gaps, draws = np.array([0.0, 2.0, 3.0, 7.0]), (0.25, 0.5, 0.25), 700
    mechanism = JointSelection(2.0, 4, 2, 100.0)
    law = on_paper(w, (Fraction(1, 4), Fraction(3, 4)), 4.0 / 2.0)
    found = [tuple(mechanism.apply((w, gaps), 2.0, noise)) for _ in range(draws)]
    for c, chance in law.items():
        assert abs(found.count(c) - draws * math.exp(chance)) < 5 * math.sqrt(draws * math.exp(chance)) + 1


def test_what_is_no_value_of_a_joint_choice_is_refused() -> None:
    mechanism, gaps = JointSelection(2.0, 4, 2, 100.0), (0.25, 0.5, 0.25)
    good = np.array([0.0, 1.0, 1.0, 4.0])
    assert mechanism.check((good, gaps)) is None
    for value in (good, (good[1:], gaps), (good[::-1], gaps), (good + 0.5, gaps), (good, gaps[1:]), (good, (0.5, 0.5, 0.5))):
        assert mechanism.check(value) is not None


@pytest.mark.parametrize("values", [[5.0] * 50, [0.0] * 49 + [10.0], list(range(11)) * 5, []])
def test_a_joint_choice_has_an_answer_for_every_table(values: list[float]) -> None:
    """And ranks within what is said of them."""
    p, t = problem(50, (0.25, 0.5, 0.75), "add-remove", 10.0), Tunables({"step": 1.0, "several": "joint"})
    made, mechanism = q.grid(p, t), q.selection(p, q.grid(p, t))
    weights = q.running(np.bincount(q.nearest(np.array(values), made), minlength=11), made)
    for seed, level in itertools.product(range(5), (1e-3, 1.0, 100.0)):
        c = mechanism.apply((weights, q.gaps(p)), level, StudyNoise(seed))
        answers = made.numbers[made.cell[np.minimum(c, made.cell.size - 1)]]
        assert (np.diff(answers) >= 0).all()
        for answer, share in zip(answers, (0.25, 0.5, 0.75), strict=True):
            below, at, wanted = np.sum(np.array(values) < answer), np.sum(np.array(values) <= answer), share * len(values)
            assert max(below - wanted, wanted - at, 0) <= q.joint_error(p, mechanism.scale(level), made)


def test_more_records_than_n_says_are_cut_number_by_number() -> None:
    """Under add-remove anything may come: what is drawn from stays below what the rounding was proved for, and moves as before."""
    p, t = problem(5, (0.25, 0.75), "add-remove", 3.0), Tunables({"step": 1.0, "several": "joint"})
    made, handed = q.grid(p, t), []

    class Door:
        def draw(self, name, value, *, sensitivity):
            handed.append(value)
            return np.zeros(2, dtype=np.int64)

    mechanism = q.selection(p, made)
    for counts in ([1000, 9, 10, 3], [1000, 10, 10, 3], [1000, 10, 11, 3], [10**6] * 4):
        q.jointly(np.array(counts), p, made, Door(), {})
    seen = [mechanism.blind(value)[0] for value in handed]
    assert all(mechanism.check(value) is None and value[0][-1] <= mechanism.most for value in handed)
    assert 0 < mechanism.distance(1.0, seen[0], seen[1]) <= mechanism.sensitivity
    assert mechanism.distance(1.0, seen[1], seen[2]) == 0.0
    assert seen[3][-1] == mechanism.most


def test_which_of_the_two_is_taken_is_public() -> None:
    """Little noise on many records: halves, whose answers inside ties do not lean on each other; otherwise one choice."""
    for n, epsilon, step, taken in ((1000, 1.0, 1.0, "joint"), (1000, 0.1, 0.0, "joint"), (10**7, 1.0, 1.0, "halves")):
        p, t = problem(n, (0.25, 0.5, 0.75), "replace-one", 100.0), Tunables({"step": step, "several": "auto"})
        p.facts["epsilon"] = epsilon
        assert q.resolved_options(p, t) == {"several": taken}
    p = problem(10**6, (0.25, 0.5, 0.75), "add-remove", 100.0)
    p.facts["epsilon"] = 0.01
    assert "doubles" in str(q.no_joint(p, Tunables({"step": 0.0, "several": "auto"})))
    asked = Tunables({"step": 1.0, "several": "joint"})
    assert "2 to 16" in str(q.accepts(problem(9, (0.5,), "replace-one"), asked))
    assert "16,384" in str(q.accepts(problem(9, (0.2, 0.5), "replace-one", 1e5), asked))
    assert q.accepts(problem(9, (0.2, 0.5), "replace-one"), asked) is None
