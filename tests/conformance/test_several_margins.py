"""Every algorithm that says it serves losses of several margins, on the multinomial loss of three classes or, where its losses are of two
records, on a Mahalanobis matrix. No algorithm is named here, but for the one whose noise the empirical audit has to see."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest

from dpspec.algorithms.registry import get
from dpspec.compiler.passes import compile_draft
from dpspec.compiler.plan import make_plan
from dpspec.executor.run import run
from dpspec.executor.study import study
from dpspec.lang.source import Parsed, parse_text
from dpspec.privacy.schedule import draws
from tests.conformance.cases import ALGORITHMS, case, gallery, neighbours, of_a_matrix, of_three_classes, resized
from tests.conformance.replay import blind_run
from tests.conformance.test_conformance import WEAKEN, audited, small
from tests.conformance.test_replay import RELATIONS, neighbour, records_of, same, touched, with_neighbours

SEVERAL = [m for m in ALGORITHMS if m.CARD.margins == "several"]
CLASSES = [m for m in SEVERAL if m.CARD.task == "minimise"]
each = pytest.mark.parametrize("module", SEVERAL, ids=[m.CARD.id for m in SEVERAL])


def test_there_are_algorithms_of_every_kind() -> None:
    assert len(SEVERAL) >= 10


@each
def test_a_plan_has_a_matrix_of_weights_and_two_accountants(module: ModuleType) -> None:
    plan = make_plan(of_a_matrix(small(module)))
    assert plan.guarantee.checked_by
    assert plan.guarantee.checked_epsilon == pytest.approx(plan.guarantee.epsilon, rel=2e-3)
    (release,) = plan.releases
    assert release.problem.shape == (3, 3)
    for leaf in draws(release.tree).values():
        if leaf.draw.mechanism.kind == "gaussian":
            assert leaf.draw.mechanism.size == 9
    one, _ = neighbours(case(of_a_matrix(small(module))))
    assert run(plan, one.x, one.y).outputs[release.release.name]["theta"].shape == (3, 3)


@each
def test_the_output_is_a_function_of_the_draws_alone(module: ModuleType) -> None:
    c = case(of_a_matrix(small(module)))
    outputs = [blind_run(c, records_of(c, seed, size))[0] for seed, size in ((1, 1.0), (2, 1e-3), (3, 1e6))]
    assert same(outputs[0], outputs[1])
    assert same(outputs[0], outputs[2])


@each
@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_move_each_draw_by_its_sensitivity(module: ModuleType, relation: str) -> None:
    """Along one transcript of answers, with the noise that moves the weights about."""
    parsed = with_neighbours(of_a_matrix(small(module)), relation)
    if {d.code for d in compile_draft(parsed).diagnostics if d.severity == "error"} & {"DP306", "DP407"}:
        assert relation != "replace-one"
        return
    c = case(parsed)
    planned, furthest = draws(c.release.tree), 0.0
    for seed in range(8):
        one = records_of(c, seed, (0.3, 1.0, 1e4)[seed % 3])
        other = neighbour(c, one, relation, seed)
        removed = touched(one, seed) if relation == "add-remove" else None
        before, after = blind_run(c, one)[1].seen, blind_run(c, other, removed=removed)[1].seen
        for (name, u), (_, v) in zip(before, after, strict=True):
            mechanism = planned[name].draw.mechanism
            share = mechanism.distance(c.release.calibrated.levels[name], u, v, float(c.release.tunables.get("tolerance", 0.0)))
            furthest = max(furthest, share / mechanism.sensitivity)
    assert 0.0 < furthest <= 1 + 1e-9


def test_the_audit_sees_weak_noise_and_no_other() -> None:
    """Noisy gradient descent on the nastiest pair: one record with the labels 0 and 2."""
    from dpspec.audit.empirical.release import audit_plan_release

    c = case(of_three_classes(audited(get("dp-gd"))))
    pair = neighbours(c)
    g = c.draft.calibrated.guarantee
    claim = {"claim_epsilon": float(g.epsilon), "claim_delta": float(g.delta)}
    honest = audit_plan_release(lambda seed, which: c.run(pair[which], seed), **claim, trials=1500, seed=11)
    assert honest.verdict == "not-certified", honest
    broken = audit_plan_release(lambda seed, which: c.run(pair[which], seed, weaken=WEAKEN), **claim, trials=1500, seed=12)
    assert broken.verdict == "violated", broken


@pytest.mark.slow
@pytest.mark.parametrize("module", CLASSES, ids=[m.CARD.id for m in CLASSES])
def test_a_large_budget_approaches_the_reference(module: ModuleType) -> None:
    """Excess risk over the least of the same objective: smaller at a large budget, never negative, below that of the zero matrix."""
    loose, tight = (study(modest(module, epsilon), trials=3, workers=1).to_json()["points"][0] for epsilon in (200, 0.5))
    assert all(v > -1e-8 for v in (*loose["error"]["values"], *tight["error"]["values"]))
    assert loose["error"]["median"] < tight["error"]["median"]
    assert loose["error"]["median"] < 0.5 * loose["trivial_error"]


def modest(module: ModuleType, epsilon: float) -> Parsed:
    """Records of three classes, of which the matrix of zeros knows nothing."""
    parsed = resized(of_three_classes(gallery(module)), n=3000, d=3, epsilon=epsilon)
    text = """analysis "laws"
data
  n = 9
privacy central
  epsilon = 1
release r
  estimate mean(x)
simulate
  a = dense unit l2
  b = dense unit l2
  x ~ uniform-ball
  y ~ categorical-logistic(6*<x, a>, 6*<x, b>, 0)
"""
    simulate = parse_text(text, surface="dps").analysis.simulate
    return replace(parsed, analysis=parsed.analysis.model_copy(update={"simulate": simulate}))
