"""dp-em: sensitivities of every sum in exact arithmetic for hostile records, the bound on fresh ones, K components, what is printed."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from dpspec.algorithms.card import Problem
from dpspec.algorithms.em import _clusters as clusters
from dpspec.algorithms.em import _steps as steps
from dpspec.algorithms.em import dp_em as module
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.privacy.schedule import draws
from dpspec.tasks.mixture import matched
from tests import leak
from tests.algorithms.em.test_dp_gradient_em_full import MIXTURES, NASTY, contraction, drawn, problem, unique, up_to_sign
from tests.algorithms.sparse.exact import gaussian_delta
from tests.algorithms.support import plan, tunables
from tests.conformance.cases import case
from tests.conformance.replay import movements, worst

HOSTILE = [*NASTY, math.inf, math.nan]
RELATIONS = ("replace-one", "zero-out", "add-remove")


def two(n: int, d: int, model: str = "gmm", neighbours: str = "replace-one", **facts: float) -> Problem:
    more = {"step_sd": 0.5, "step_moment": 2.5} if model == "gmm" else {"step_sd": 2.2, "step_moment": 7.0, "tails": 4.0}
    return problem(n, d, model, neighbours, **{**more, **facts})


def several(n: int, d: int, k: int = 3, diagonal: bool = False, neighbours: str = "replace-one", public=None, **facts: float) -> Problem:
    known = {"n": n, "d": d, "epsilon": 1.0, "delta": 1e-6, "sigma": 1.0, "components": k, "diagonal": float(diagonal)}
    task = SimpleNamespace(kind="fit", model="gmm")
    more = {"cluster_radius": 6.0, "kappa": 0.25, "tails": 2.0, **facts}
    return Problem("central", neighbours, task, {**known, **more}, oracle=clusters.Clusters(k, d, diagonal), public=public or {})


def squared_distance(u, v) -> Fraction:
    return sum(((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(np.ravel(u), np.ravel(v), strict=True)), Fraction(0))


def released(p: Problem, t, c, records: Records, seed: int):
    release = Release(c, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
    found = module.run(records, p, t, release).theta
    release.close()
    return found


# ------------------------------------------------------------------------------------------------------------------ privacy


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("model", MIXTURES)
def test_no_pair_of_records_moves_the_step_by_more_than_its_sensitivity(model, neighbours):
    """In exact arithmetic, over all pairs of hostile records; under replace-one the largest movement comes close to it."""
    p = two(3, 2, model, neighbours)
    t = tunables(module, p)
    beta = np.array([0.9, 0.4])

    def mean(row):
        x = np.array([*([] if row is None else [row[0]]), [0.4, -1.0], [3.0, 0.2]], dtype=float)
        y = None if model == "gmm" else np.array([*([] if row is None else [row[1]]), 0.5, -2.0])
        return module.robust_step(Records(x, y), p.oracle, t, beta, beta, p.n)

    heights = [None] if model == "gmm" else [0.0, -3.0, 1e300, math.inf]
    means = unique([mean(row) for row in itertools.product(itertools.product(HOSTILE, repeat=2), heights)])
    assert all(np.isfinite(m).all() for m in means)
    zero = ((0.0, 0.0), None if model == "gmm" else 0.0)
    others = means if neighbours == "replace-one" else [mean(None if neighbours == "add-remove" else zero)]
    largest, stated = max(squared_distance(u, v) for u in means for v in others), Fraction(module.sensitivity(p, t, p.n))
    assert largest <= stated**2
    if neighbours == "replace-one":
        assert largest >= (Fraction(999, 1000) * stated) ** 2


CENTRES = np.array([[2.0, 0.0], [-2.0, 1.0], [0.0, 0.3]])


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("diagonal", [False, True])
def test_no_pair_of_records_moves_a_sum_by_more_than_its_sensitivity(diagonal, neighbours):
    """Weights, means and spreads of three components, in exact arithmetic over pairs of hostile records; under replace-one the largest
    movements come close to the stated ones, sqrt(2)/n, 2 C/n and sqrt(2) G^2/n."""
    p = several(3, 2, 3, diagonal, neighbours)
    t = tunables(module, p, G=1.5, C=1.2)
    q = clusters.Parameters(np.array([0.5, 0.3, 0.2]), CENTRES, np.full((3, 2 if diagonal else 1), 0.04))

    def means(row):
        x = np.array([*([] if row is None else [row]), [0.4, -1.0], [3.0, 0.2]], dtype=float)
        return clusters.statistics(Records(x), p.oracle, q, t.G, clusters.FAR * t.radius, t.C)

    rows = [*itertools.product(HOSTILE, repeat=2), *(tuple(m + s * 1.49 * e) for m in CENTRES for s in (-1, 1) for e in np.eye(2))]
    found = [means(row) for row in rows]
    assert all(np.isfinite(v).all() for sums_ in found for v in sums_)
    stated = module.sensitivities(p, t, p.n)
    for i, (name, derived) in enumerate((("weights", math.sqrt(2)), ("means", 2.4), ("spreads", math.sqrt(2) * 1.5**2))):
        values = unique([np.ravel(sums_[i]) for sums_ in found])
        others = values if neighbours == "replace-one" else [means(None if neighbours == "add-remove" else (0.0, 0.0))[i]]
        largest = max(squared_distance(u, v) for u in values for v in others) / p.n**2
        assert largest <= Fraction(stated[name]) ** 2
        if neighbours == "replace-one":
            assert stated[name] == pytest.approx(derived / 3, rel=1e-6)
            assert largest >= (Fraction(9, 10) * Fraction(stated[name])) ** 2
        elif neighbours == "add-remove":
            assert stated[name] == pytest.approx(derived / (3 * (2 if name == "means" else math.sqrt(2))), rel=1e-6)


def test_a_record_is_counted_in_one_cell():
    p = several(5, 2)
    points = np.random.default_rng(0).standard_normal((7, 2))
    rest = np.array([[0.1, 0.2], [-1.0, 0.4], [2.0, 2.0], [0.0, -0.7]])
    found = [clusters.counts(Records(np.vstack([row, rest])), points, 6e6) for row in itertools.product(HOSTILE, repeat=2)]
    assert max(float(((u - v) ** 2).sum()) for u in found for v in found) == 2
    assert {float(u.sum()) for u in found} == {5.0}
    assert module.sensitivities(p, tunables(module, p), p.n)["cells"] == pytest.approx(math.sqrt(2) / 5, rel=1e-6)


@pytest.mark.parametrize("words", [{}, {"records": "fresh"}, {"start": "random"}])
def test_the_draws_together_spend_the_budget_exactly(words):
    """mu of every draw from its own noise, squared and summed: rounds add up on the same records and count once on fresh ones."""
    p = several(50_000, 2)
    t = tunables(module, p, **words)
    c = plan(module, p, t)
    again = 1 if words.get("records") == "fresh" else t.T
    found = draws(c.tree)
    assert ("cells" in found) == (words.get("start") != "random")
    square = sum((leaf.draw.mechanism.sensitivity / c.scale(name)) ** 2 * (1 if name == "cells" else again) for name, leaf in found.items())
    assert gaussian_delta(math.sqrt(square), 1.0) == pytest.approx(1e-6, rel=1e-3)


def test_fresh_records_are_used_once_and_refused_where_neighbours_shift_them():
    p = two(6001, 2)
    t = tunables(module, p, records="fresh", T=4)
    assert module.sensitivity(p, t, 1500) == pytest.approx(4 * module.sensitivity(p, t, 6000), rel=1e-6)
    read = []

    class Watched(Records):
        def blocks(self, size=1 << 15):
            for x, y in Records.blocks(self, size):
                read.extend(x[:, 0].tolist())
                yield x, y

        def slice(self, start, stop):
            return Watched(self.x[start:stop])

    x = np.arange(6001.0)[:, None] * np.ones(2)
    released(p, t, plan(module, p, t), Watched(x), 0)
    assert sorted(read) == x[:, 0].tolist()
    text = SPEC.format(n=4000, task="gmm(2)", by="dp-em with records = fresh", more="").replace("replace-one", "add-remove")
    assert "DP306" in {d.code for d in compile_draft(parse_text(text, surface="dps")).diagnostics if d.severity == "error"}


@pytest.mark.parametrize("task", ["gmm(3)", "gmm(2, diagonal)", "mixture-of-regressions(2)"])
def test_the_other_models_replay_as_the_gallery_s_does(task):
    """The shared replay on the models that dp-em's gallery spec has not: every pair of extreme records."""
    more = "" if task.startswith("gmm") else "assume\n  signal-to-noise(3)"
    text = SPEC.format(n=6, task=task, by="dp-em with T = 2", more=more).replace("delta = 1e-6", "delta = 0.1")
    found = movements(case(parse_text(text, surface="dps")), "replace-one", surroundings=1)
    assert 0.3 < max(worst(found).values()) <= 1 + 1e-9


# ----------------------------------------------------------------------------------------------------------------- accuracy


@pytest.mark.parametrize("model", MIXTURES)
def test_defaults_find_the_two_components(model):
    beta = np.array([0.9, -1.2])
    p = two(8000, 2, model)
    t = tunables(module, p)
    c = plan(module, p, t, Budget(epsilon="2", delta="0.000001"))
    errors = [up_to_sign(released(p, t, c, Records(*drawn(model, 8000, beta, 0.5, seed)), seed), beta) for seed in range(3)]
    assert np.median(errors) < (0.06 if model == "gmm" else 0.12)


def ellipsoids(n: int, seed: int, diagonal: bool):
    g = np.random.default_rng(seed)
    true = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 3.0]])
    spread = np.array([[0.8, 0.3], [0.3, 0.5], [0.5, 0.5]]) if diagonal else np.array([[0.5], [0.7], [0.4]])
    which = g.choice(3, n, p=[0.5, 0.3, 0.2])
    return true[which] + spread[which] * g.standard_normal((n, 2)), true, spread


@pytest.mark.parametrize("diagonal", [False, True])
def test_defaults_find_three_components(diagonal):
    """Means, weights and standard deviations, from the paid start."""
    p = several(20_000, 2, 3, diagonal)
    t = tunables(module, p)
    c = plan(module, p, t, Budget(epsilon="2", delta="0.000001"))
    x, true, spread = ellipsoids(20_000, 0, diagonal)
    q = p.oracle.unpack(released(p, t, c, Records(x), 1))
    order = [int(((q.means - m) ** 2).sum(axis=1).argmin()) for m in true]
    assert sorted(order) == [0, 1, 2]
    assert np.abs(q.means[order] - true).max() < 0.1
    np.testing.assert_allclose(q.weights[order], [0.5, 0.3, 0.2], atol=0.02)
    np.testing.assert_allclose(np.sqrt(q.variances[order]), spread, atol=0.15)


def test_what_happens_without_a_start():
    """The same records, budget and rounds: the paid start finds all three of ten seeds' components, random public means often do not."""
    p = several(20_000, 2)
    x, true, _ = ellipsoids(20_000, 1, False)
    missed = {}
    for word in ("cells", "random"):
        t = tunables(module, p, start=word)
        c = plan(module, p, t)
        found = [p.oracle.unpack(released(p, t, c, Records(x), seed)).means for seed in range(10)]
        missed[word] = sum(matched(means, true).max() > 1 for means in found)
    assert missed["cells"] == 0
    assert missed["random"] >= 3


def test_public_centres_are_the_start():
    start = ((3.5, 0.0), (-2.5, 0.5), (0.0, 2.0))
    p = several(20_000, 2, public={"centres": start})
    t = tunables(module, p)
    assert module.start_of(p, t) == "centres"
    x, true, _ = ellipsoids(20_000, 2, False)
    q = p.oracle.unpack(released(p, t, plan(module, p, t), Records(x), 0))
    assert matched(q.means, true).max() < 0.1
    assert np.array_equal(((q.means[:, None] - true) ** 2).sum(axis=2).argmin(axis=1), [0, 1, 2])


def test_the_bound_on_fresh_records_holds(monkeypatch):
    n, beta = 60_000, np.array([1.5, 0.0])
    p = two(n, 2, contraction=contraction(3.0, 1 / 8), start_within=1 / 8)
    t = tunables(module, p, T=2, records="fresh", centre="zero", s=40)
    c = plan(module, p, t, Budget(epsilon="20", delta="0.000001"))
    error = math.sqrt(2) * (2.5 * (1 + 1 / t.b) / (2 * t.s) + t.s * (t.b / 2 + math.log(4 * 2 * 2 / 0.05)) / (n / 2))
    error += c.scale("step") * (math.sqrt(2) + math.sqrt(2 * math.log(2 * 2 / 0.05)))
    g = p.facts["contraction"]
    assert module.explicit_bounds(p, t, c) == {module.FRESH: pytest.approx(g**2 * 1.5 / 8 + error / (1 - g))}
    assert list(module.explicit_bounds(p, tunables(module, p, T=2, centre="zero", s=40), c)) == [module.ALL]
    monkeypatch.setattr(steps, "start", lambda p, t, release: beta * 9 / 8)
    found = [up_to_sign(released(p, t, c, Records(*drawn("gmm", n, beta, 0.5, seed)), seed), beta) for seed in range(6)]
    assert max(found) <= g**2 * 1.5 / 8 + error / (1 - g)


# ------------------------------------------------------------------------------------------------------------ as it is printed


def test_the_printed_correction_is_unbounded_in_a_record():
    """(7.68) at s = 30, b = 3: s times the polynomial part, plus the correction *without* s. One record of 1000 moves it by 1e5 and more;
    with s on both, by at most 2 cap s."""
    s, b, base = 30.0, 3.0, np.linspace(-20, 20, 10)

    def cap_terms(x):  # the closed form in two parts, by the smoothed kernel itself
        from dpspec.numeric import robust

        a = x / s
        polynomial = a * (1 - a**2 / (2 * b)) - a**3 / 6
        return polynomial, robust.kernel(a, b) - polynomial

    def printed(x) -> float:
        polynomial, rest = cap_terms(x)
        return float((s * polynomial + rest).sum())

    def repaired(x) -> float:
        polynomial, rest = cap_terms(x)
        return float((s * (polynomial + rest)).sum())

    other = base.copy()
    other[0] = 1000.0
    cap = 2 * math.sqrt(2) / 3 * (2 * norm.cdf(math.sqrt(b)) - 1)
    assert abs(repaired(other) - repaired(base)) <= 2 * cap * s
    assert abs(printed(other) - printed(base)) > 1e5
    leak.moved(abs(printed(other) - printed(base)), 2 * cap * s)


@pytest.mark.parametrize("ratio", [0.5, 3.0])
def test_the_moment_of_a_term_has_the_constant_one(ratio):
    """E f^2 <= beta*^2 + sigma^2 by quadrature at d = 1, sigma = 1, and nearly all of it where the components are far apart."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    model = problem(2, 1, sigma=1.0).oracle
    second = weights / weights.sum() @ model.terms(np.array([ratio]), (ratio + nodes)[:, None], None)[:, 0] ** 2
    assert second <= ratio**2 + 1
    if ratio == 3.0:
        assert second >= 0.99 * (ratio**2 + 1)


# --------------------------------------------------------------------------------------------------------------- the plan

SPEC = """
analysis "a"
data
  n = {n}, d = 2
  sigma = 0.5
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 6) by scale
privacy central
  epsilon = 1, delta = 1e-6
{more}
release m
  fit {task}
  by {by}
"""


def errors(task: str, by: str = "dp-em", more: str = "") -> str:
    found = compile_draft(parse_text(SPEC.format(n=4000, task=task, by=by, more=more), surface="dps")).diagnostics
    return " ".join(d.message for d in found if d.severity == "error")


@pytest.mark.parametrize(
    ("task", "by", "words"),
    [
        ("mixture-of-regressions(2)", "dp-em", "assume signal-to-noise"),
        ("gmm(3)", "dp-gradient-em-full", "by dp-em"),
        ("gmm(3)", "dp-em with start = diagonal", "one vector"),
        ("gmm(3)", "dp-em with least_sigma = 2", "least_sigma"),
        ("gmm(3)", "dp-em with records = fresh, T = 5000", "leave some empty"),
        ("regression-with-missing(0.1)", "dp-em", "no mean of terms"),
    ],
)
def test_what_is_not_fitted_is_refused_in_words(task, by, words):
    assert words in errors(task, by)


def test_a_plan_for_k_components_states_no_bound_of_two_opposite_ones():
    draft = compile_draft(parse_text(SPEC.format(n=4000, task="gmm(3, diagonal)", by="auto", more=""), surface="dps"))
    assert [d.code for d in draft.diagnostics if d.severity == "error"] == []
    (release,) = draft.releases
    assert (release.module.CARD.id, release.bounds) == ("dp-em", ())
    assert {name: leaf.draw.mechanism.size for name, leaf in draws(release.tree).items()} == {
        "cells": 300,
        "weights": 3,
        "means": 6,
        "spreads": 6,
    }
    assert release.calibrated.guarantee.epsilon <= 1
