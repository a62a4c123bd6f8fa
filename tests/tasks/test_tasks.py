"""Kinds of question: every node of the language has one task, and what an algorithm, a study and a release get from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dpspec.compiler.measures import choose
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor.bind import bound_problem, part_of
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from dpspec.measures.measure import Measure, Trial
from dpspec.spec.diagnostics import SpecError
from dpspec.tasks import registry
from dpspec.tasks.protocol import Task

SPEC = """analysis "a"

data
  n = 40, d = 2{more}
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-4

release r
  {task}
{rest}"""
TASKS = {
    "minimise logistic over ball(l2, 1)": "minimise",
    "minimise multinomial(3) over ball(l2, 1)": "minimise",
    "minimise pairwise (1 - (y1 - y2)*<w, x1 - x2>)^2 over ball(l2, 1)": "minimise-pairwise",
    "estimate mean(x)": "mean",
    "estimate covariance(x)": "covariance",
    "estimate second-moment(x)": "covariance",
    "estimate precision(x)": "precision",
    "estimate subspace(x, 1)": "subspace",
    "estimate theta in y = <theta, x> + noise": "theta",
    "estimate theta in y ~ glm(logistic)": "theta",
    "estimate theta in y = tanh(<theta, x>) + noise": "theta",
    "regress y on kernel(rbf, 1)": "kernel-regression",
    "answer marginals(2)": "marginals",
}


def parsed(task: str, rest: str = "", more: str = ""):
    return parse_text(SPEC.format(task=task, rest=rest, more=more), surface="dps")


def node(task: str):
    return parsed(task).analysis.releases[0].task


@pytest.mark.parametrize(("text", "name"), TASKS.items())
def test_one_task_serves_a_question(text: str, name: str) -> None:
    assert [task.name for task in registry.tasks() if task.serves(node(text))] == [name]
    assert registry.of(node(text)).name == name


@pytest.mark.parametrize("text", ["regress y on kernel(rbf, 1)", "answer marginals(2)"])
def test_a_question_without_a_task_is_refused_and_no_study_guesses_a_measure(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node of the language is served; without the file that serves it the question is refused by its name."""
    rest = tuple(task for task in registry.tasks() if not task.serves(node(text)))
    monkeypatch.setattr(registry, "tasks", lambda: rest)
    task = registry.of(node(text))
    assert task.measures == ()
    found = [d for d in compile_draft(parsed(text)).diagnostics if d.severity == "error"]
    assert [d.code for d in found] == ["DP401"]
    assert task.words[0] in found[0].message
    with pytest.raises(SpecError, match="DP413"):
        choose(SimpleNamespace(release=parsed(text).analysis.releases[0], bounds=()))


def test_two_tasks_for_one_question_are_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = (*registry.tasks(), replace(registry.tasks()[0], name="again", serves=lambda node: True))
    monkeypatch.setattr(registry, "tasks", lambda: twice)
    with pytest.raises(RuntimeError, match="both serve"):
        registry.of(node("estimate mean(x)"))


def test_a_file_beside_the_measures_adds_to_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ``FOR``; the task's own measure stays the first."""
    from dpspec.measures import vector

    added = Measure("zero", lambda w, trial: 0.0, "records")
    monkeypatch.setattr(vector, "FOR", {"mean": (added,)}, raising=False)
    registry.tasks.cache_clear()
    try:
        (mean,) = (t for t in registry.tasks() if t.name == "mean")
        assert mean.measurable == (*(m.name for m in vector.DISTANCES), "support-error", "zero")
        assert mean.measure("zero") is added
    finally:
        registry.tasks.cache_clear()


def test_a_target_reaches_the_algorithm() -> None:
    """Its measure by its one spelling, its error also as ``alpha`` unless the spec has a constant of that name."""
    text, rest = "minimise logistic over ball(l2, 1)", "  by dp-gd\n  expect l2 <= 1/4 with probability 0.9\n"
    for more, alpha in (("", 0.25), (", alpha = 3", 3.0)):
        p = compile_draft(parsed(text, rest, more)).releases[0].problem
        assert (p.goal.measure, p.goal.at_most, p.goal.probability) == ("l2-error", 0.25, 0.9)
        assert p.facts["alpha"] == alpha
    p = compile_draft(parsed(text)).releases[0].problem
    assert p.goal is None
    assert "alpha" not in p.facts


def test_domains_and_arguments_reach_the_algorithm() -> None:
    draft = compile_draft(parsed("estimate subspace(x, 2 - 1)"))
    p = draft.releases[0].problem
    assert p.facts["rank"] == 1.0
    assert p.domains["x"].enforced.l2 == 1
    assert p.domains["y"].enforced.values == (-1, 1)
    assert bound_problem(draft, draft.releases[0]).oracle is None
    bound = compile_draft(parsed("minimise logistic over ball(l2, 1)"))
    assert bound.releases[0].problem.oracle is None  # not before records may be read
    objective = bound_problem(bound, bound.releases[0]).oracle
    x, y, w = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0]), np.array([0.5, 0.25])
    want = -(np.array([1 / (1 + np.exp(0.5)), 0.0]) - np.array([0.0, 1 / (1 + np.exp(-0.25))])) / 2
    assert objective.gradient(w, Records(x, y)) == pytest.approx(want)


def test_a_question_about_y_without_y_is_refused() -> None:
    draft = compile_draft(parsed("minimise logistic over ball(l2, 1)", "  by dp-gd\n"))
    with pytest.raises(SpecError, match="DP523"):
        part_of(draft, draft.releases[0], Records(np.zeros((40, 2))))
    mean = compile_draft(parsed("estimate mean(x)"))
    assert part_of(mean, mean.releases[0], Records(np.zeros((40, 2)))).n == 40


def test_a_mean_of_public_records_is_measured_against_their_own(tmp_path: Path) -> None:
    """Before, no truth and no reference: a traceback."""
    rows = np.random.default_rng(0).uniform(0.1, 0.5, size=(40, 2))
    text = SPEC.replace("  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)\n", "").replace("private, unit", "public, unit")
    made = parse_text(text.format(task="estimate mean(x)", rest="  by dp-catoni-mean with tau = 1\n", more=""), surface="dps")
    body = study(made, trials=20, seed=1, workers=1, memory=rows).to_json()
    (task,) = (t for t in registry.tasks() if t.name == "mean")
    fitted, _ = task.reference(Records(rows), made, {})
    assert fitted == pytest.approx(rows.mean(axis=0))
    (point,) = body["points"]
    assert point["error"]["mean"] > 0
    assert task.trial(Records(rows), made, {}, fitted).true is not None


def test_a_task_of_its_own_says_little() -> None:
    task = Task(name="mode", serves=lambda node: False, words=("mode",))
    assert task.trivial(SimpleNamespace(d=3)).tolist() == [0, 0, 0]
    with pytest.raises(LookupError):
        _ = task.trial(None, None, {}, None).true
    assert task.trial(None, None, {"theta": [1.0]}, None).true.tolist() == [1.0]
    assert isinstance(task.trial(None, None, {}, [2.0]), Trial)
    assert task.trial(None, None, {}, [2.0]).true.tolist() == [2.0]
