"""The set after `over` is the question's: another set, and the release lies inside it or the plan is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dpspec.compiler.passes import compile_draft
from dpspec.executor import bind
from dpspec.executor.bind import bound_problem
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.spec.expr import Num
from dpspec.spec.model import Ball, Box, Simplex, Sparse
from dpspec.tasks.registry import of
from tests.conformance.cases import ALGORITHMS, Case, neighbours
from tests.conformance.test_conformance import small

MEAN = """analysis "a mean far from a set"

data
  n = 20_000, d = 2
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale

privacy nldp
  epsilon = 4

release centre
  estimate mean(x) over {over}
  by ldp-mean
  expect l2-error <= 1 with probability 0.95

simulate
  theta = dense unit l2
  x = 0.5*theta + normal(0, 0.02)

study
  trials 2, seed 1
"""

#: Small sets, of which two do not hold 0, to which sparse answers shrink, and membership in plain words.
SETS: dict[str, tuple[Any, Callable[[np.ndarray], bool]]] = {
    "box": (
        Box(low=Num(Fraction(1, 16)), high=Num(Fraction(1, 8))),
        lambda v: bool(v.min() >= 0.0625 - 1e-12 and v.max() <= 0.125 + 1e-12),
    ),
    "simplex": (Simplex(), lambda v: bool(abs(v.sum() - 1) <= 1e-9 and v.min() >= -1e-12)),
    "l2": (Ball(norm="l2", radius=Num(Fraction(1, 8))), lambda v: float(np.linalg.norm(v)) <= 0.125 + 1e-9),
    "l1": (Ball(norm="l1", radius=Num(Fraction(1, 8))), lambda v: float(np.abs(v).sum()) <= 0.125 + 1e-9),
    "linf": (Ball(norm="linf", radius=Num(Fraction(1, 8))), lambda v: float(np.abs(v).max()) <= 0.125 + 1e-12),
    "sparse": (Sparse(k=Num(Fraction(1))), lambda v: int((v != 0).sum()) <= 1),
}
ASKED = [m for m in ALGORITHMS if hasattr(small(m).analysis.releases[0].task, "over")]
PAIRS = [pytest.param(m, name, id=f"{m.CARD.id}-{name}", marks=() if name == "box" else pytest.mark.slow) for m in ASKED for name in SETS]


def over(module: ModuleType, name: str, **options: float) -> Case | str:
    """The gallery spec with another set; the code of its refusal where there is one."""
    parsed = small(module)
    a = parsed.analysis
    release = a.releases[0]
    task = release.task.model_copy(update={"over": SETS[name][0]})
    given = (*release.by.options, *((word, Num(Fraction(value))) for word, value in options.items()))
    changed = release.model_copy(update={"task": task, "expect": None, "by": release.by.model_copy(update={"options": given})})
    draft = compile_draft(replace(parsed, analysis=a.model_copy(update={"releases": (changed, *a.releases[1:]), "study": None})))
    errors = [d for d in draft.diagnostics if d.severity == "error" and d.code != "DP402"]
    return errors[0].code if errors else Case(draft)


def estimates(c: Case, seeds: range) -> list[np.ndarray]:
    records, _ = bind.enforced(c.draft, neighbours(c)[0])
    found = []
    for seed in seeds:
        meter = Release(c.release.calibrated, StudyNoise(seed), mode="study", public=PublicRandomness(seed), per_user=False)
        found.append(np.ravel(c.release.module.run(records, bound_problem(c.draft, c.release), c.release.tunables, meter).theta))
    return found


@pytest.mark.parametrize(("module", "name"), PAIRS)
def test_a_release_lies_in_the_set_of_its_question(module: ModuleType, name: str) -> None:
    c = over(module, name)
    if isinstance(c, str):
        assert c in ("DP407", "DP409")
        return
    assert all(SETS[name][1](v) for v in estimates(c, range(2)))


INSIDE = [m for m in ASKED if of(small(m).analysis.releases[0].task).inside]


@pytest.mark.parametrize("module", INSIDE, ids=lambda m: m.CARD.id)
def test_a_bound_of_a_mean_holds_if_the_mean_lies_in_the_set(module: ModuleType) -> None:
    """What is projected into a set that does not hold the truth is far from it, however many records there are."""
    c = over(module, "l1" if module.CARD.id == "ldp-l1-mean" else "l2")
    if isinstance(c, str):
        return
    for b in c.release.bounds:
        assert any(h.endswith("lies in the set after `over`") for h in b.holds_if)


def test_a_set_that_holds_every_record_needs_no_such_word_and_a_study_accuses_no_bound() -> None:
    parsed = parse_text(MEAN.format(over="ball(l2, 1)"), surface="dps")
    assert not any("`over`" in h for b in compile_draft(parsed).releases[0].bounds for h in b.holds_if)
    small_ball = parse_text(MEAN.format(over="ball(l2, 1/100)"), surface="dps")
    assert all(any("`over`" in h for h in b.holds_if) for b in compile_draft(small_ball).releases[0].bounds)
    (point,) = study(small_ball, trials=2, workers=1).to_json()["points"]
    assert point["error"]["median"] > point["bound"]["value"]
    assert point["bound"]["holds"] is None
    assert any("outside of the set" in why for why in point["bound"]["unmet"])


#: Tuning parameters that say where an estimate is kept, and in which set.
KEPT = {"ball": "l2", "Lambda": "l1"}


@pytest.mark.parametrize(("module", "word"), [pytest.param(m, w, id=m.CARD.id) for m in ASKED for w in KEPT if w in m.CARD.tunables])
def test_a_tuning_parameter_does_not_widen_the_set(module: ModuleType, word: str) -> None:
    assert over(module, KEPT[word], **{word: 1}) == "DP407"
    assert isinstance(over(module, KEPT[word]), Case)
