"""marginals-fourier-ldp: the exact law of a client's bit, the transform against counting, the bound by simulation and by enumeration."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpspec.algorithms.card import Problem
from dpspec.algorithms.nldp_erm import _parities as shared
from dpspec.algorithms.nldp_erm import marginals_fourier_ldp as module
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.spec.expr import num
from dpspec.spec.model import Answer
from dpspec.tasks.marginals import exact
from tests.algorithms.nldp_erm.test_ldp_mean import Told, budget
from tests.algorithms.support import plan, tunables

HOSTILE = [0.0, 1.0, 5e-324, -1.7e308, math.inf, math.nan]


def problem(n: int, d: int, k: int, epsilon: float = 1.0, **facts: float) -> Problem:
    known = {"n": n, "d": d, "epsilon": epsilon, "order": float(k), "answers": float(math.comb(d, k) << k), "cut": 0.5}
    return Problem("nldp", "replace-one", Answer(queries="marginals", args=(num(k),)), {**known, **facts})


def run(p: Problem, t, x: np.ndarray, seed: int) -> np.ndarray:
    release = Release(plan(module, p, t, budget(p)), StudyNoise(seed), mode="study", public=PublicRandomness(seed))
    table = module.run(Records(x), p, t, release).theta
    release.close()
    return table


def law(p: Problem, t, record: list[float], question: int) -> dict[float, Fraction]:
    """The exact law of the message of one user to whom a question was dealt, from the code that runs."""
    way, records, which = module.method(p, t), Records(np.array([record])), np.array([question])
    value = module._cells(records, p, which) if way == "cells" else shared.parities(records, shared.table(p.d, 2), which, 0.5)
    found: dict[float, Fraction] = {}
    for told in itertools.product((True, False), range(4) if way == "cells" else (True, False)):
        noise = Told([bool(told[0])], int(told[1])) if way == "cells" else Told([bool(c) for c in told])
        message = float(np.ravel(module.channel(p, way).encode(value, p.facts["epsilon"], noise))[0])
        found[message] = found.get(message, Fraction(0)) + noise.chance
    assert sum(found.values()) == 1
    return found


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("way", ["parities", "cells"])
def test_a_message_has_ratio_e_to_the_epsilon_and_no_more(way, epsilon):
    """Exact fractions, every question, all pairs of hostile records of two attributes."""
    p = problem(1, 2, 2, epsilon)
    t = tunables(module, p, method=way)
    for question in range(module._parts(p, way)):
        laws = [law(p, t, list(r), question) for r in itertools.product(HOSTILE, repeat=2)]
        ratio = max(one[m] / other[m] for one in laws for other in laws for m in one)
        assert float(ratio) <= math.exp(epsilon) * (1 + 2.0**-52)
        assert float(ratio) >= math.exp(epsilon) * (1 - 1e-9)


def test_which_question_a_user_answers_is_drawn_without_a_record():
    which = shared.dealt(100, 7, np.random.default_rng(0))
    assert sorted(np.bincount(which)) == [14] * 5 + [15] * 2


@pytest.mark.parametrize(("d", "t"), [(1, 1), (5, 2), (6, 6), (7, 3)])
def test_every_set_is_numbered_once(d, t):
    """Against itertools: all sets of 1 to t attributes, each at its size and colexicographic rank."""
    found = [tuple(int(j) for j in row if j < d) for row in shared.table(d, t)]
    assert len(found) == shared.number(d, t)
    assert set(found) == {c for s in range(1, t + 1) for c in itertools.combinations(range(d), s)}
    for row, s in zip(found, [len(c) for c in found], strict=True):
        assert found.index(row) == shared.starts(d, t)[s] + sum(math.comb(c, i + 1) for i, c in enumerate(row))


@pytest.mark.parametrize(("d", "k"), [(1, 1), (4, 2), (5, 3), (4, 4)])
def test_exact_parities_give_exact_tables(d, k):
    """The table counted by hand, and the transform of the exact parities."""
    x = (np.random.default_rng(1).random((60, d)) < np.linspace(0.2, 0.8, d)).astype(float)
    wanted = np.array(
        [
            [np.mean((x[:, list(c)] == v).all(axis=1)) for v in itertools.product((0, 1), repeat=k)]
            for c in itertools.combinations(range(d), k)
        ]
    )
    assert exact(Records(x), d, k, 0.5) == pytest.approx(wanted)
    found = np.array([np.prod(2 * x[:, [j for j in row if j < d]] - 1, axis=1).mean() for row in shared.table(d, k)])
    assert shared.cells(found, d, k, module.weights(k)) == pytest.approx(wanted)
    assert shared.sets(d, k).tolist() == [list(c) for c in itertools.combinations(range(d), k)]


def test_the_reports_are_unbiased_over_coins_and_deals():
    """Every permutation of four users over three questions and every coin: the mean of an answer before its clip is the share."""
    x = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 0.0]])
    asked, b = shared.table(2, 2), 1 / math.tanh(0.5)
    total = np.zeros((1, 4))
    perms = list(itertools.permutations(range(4)))
    for order in perms:  # the expected report of a user is its parity
        which = np.array(order) % 3
        values = shared.parities(Records(x), asked, which, 0.5)
        up = (b + 1) / (2 * b)
        total += shared.cells(shared.means(values * (up * b - (1 - up) * b), which, 3), 2, 2, module.weights(2))
    assert total / len(perms) == pytest.approx(exact(Records(x), 2, 2, 0.5))


@pytest.mark.parametrize(("way", "epsilon"), [("parities", 1.0), ("cells", 4.0)])
def test_the_error_is_as_predicted_and_within_its_bound(way, epsilon):
    p = problem(6000, 6, 3, epsilon)
    t = tunables(module, p, method=way)
    c = plan(module, p, t, budget(p))
    x = (np.random.default_rng(2).random((p.n, 6)) < 0.5).astype(float)
    wanted = exact(Records(x), 6, 3, 0.5)
    errors = [run(p, t, x, seed) - wanted for seed in range(12)]
    largest, bounds = [float(np.abs(e).max()) for e in errors], module.explicit_bounds(p, t, c)
    assert max(largest) < bounds[module.LARGEST]
    assert 0.7 < np.mean(largest) / module.predicted(p, t, c) < 1.05  # the largest of correlated errors, some of them clipped
    assert math.sqrt(np.mean(np.square(errors))) < bounds[module.MEAN]
    assert math.sqrt(np.mean(np.square(errors))) == pytest.approx(module._spread(p, way, c.scale("report")), rel=0.1)


def test_the_proxy_covers_a_tail_by_enumeration():
    """d = k = 2 and six users, two a question: the moment generating function of an answer's error over all deals and coins, exactly, on
    the records where parities differ most."""
    n, b = 6, 1 / math.tanh(0.5)
    x = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    chi = np.stack([2 * x[:, 0] - 1, 2 * x[:, 1] - 1, (2 * x[:, 0] - 1) * (2 * x[:, 1] - 1)], axis=1)
    v = shared.proxy(n, 2, 2, module.weights(2), b)
    deals = [w for w in itertools.product(range(3), repeat=n) if [w.count(g) for g in range(3)] == [2, 2, 2]]
    for lam in (0.5, 2.0, 8.0):
        for s in itertools.product((-1, 1), repeat=2):
            c = np.array([s[0], s[1], s[0] * s[1]]) / 4 / 2
            target = 2 * float((c * chi.mean(axis=0)).sum())
            total = 0.0
            for w in deals:
                up = 0.5 + chi[np.arange(n), w] / (2 * b)
                total += float(np.prod(up * np.exp(lam * c[list(w)] * b) + (1 - up) * np.exp(-lam * c[list(w)] * b)))
            assert math.log(total / len(deals)) - lam * target <= lam * lam * v / 2


def test_cells_are_for_large_budgets():
    assert module.method(problem(10_000, 8, 3, 1.0), tunables(module, problem(10_000, 8, 3))) == "parities"
    p = problem(10_000, 8, 3, 6.0)
    assert module.method(p, tunables(module, p)) == "cells"


def test_more_questions_than_users_have_no_bound_and_say_so():
    p = problem(91, 8, 3)
    t = tunables(module, p, method="parities")
    c = plan(module, p, t, budget(p))
    assert module.explicit_bounds(p, t, c) == {}
    (said,) = module.warnings(p, t, c)
    assert "92 statistics are asked of n = 91 users" in said
    for way in ("parities", "cells"):
        q = problem(1, 8, 3)
        u = tunables(module, q, method=way)
        got = run(q, u, np.ones((1, 8)), 0)
        assert got.shape == (56, 8)


SPEC = """analysis "tables"
data
  n = 50_000, d = {d}
  from memory
  private, unit person, neighbours replace-one
  x in {domain}
privacy nldp
  epsilon = 1
release tables
  answer marginals({k})
  by auto
"""


def compiled(**given: object):
    values = {"d": 8, "k": 3, "domain": "{0, 1} by map(0 -> 0, 1 -> 1)", **given}
    return compile_draft(parse_text(SPEC.format(**values), surface="dps"), least="missed")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"domain": "ball(l2, 1) by scale"}, "does not list two"),
        ({"k": 9}, "marginals(9) of 8 attributes"),
        ({"d": 60, "k": 5}, "1.748e+08 numbers, more than 4194304"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_number(given, said):
    found = compiled(**given).diagnostics
    assert any(said in d.message for d in found), [d.message for d in found]


def test_auto_takes_the_exact_transform_for_three_attributes_and_a_polynomial_for_many():
    few, many = compiled(), compiled(d=16, k=8)
    assert few.releases[0].module.CARD.id == "marginals-fourier-ldp"
    assert many.releases[0].module.CARD.id == "local-chebyshev-marginals"
