"""Ability error: what it compares with, for answers that are missing, and for algorithms without abilities."""

from __future__ import annotations

import numpy as np
import pytest

from dpspec.data.records import Records
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from dpspec.measures.measure import Trial
from dpspec.spec.diagnostics import SpecError
from dpspec.tasks.truth import TASK, ability_error
from tests.algorithms.crowdsourcing.test_private_dawid_skene import problem

SPEC = """
analysis "how good are the workers"
data
  n = 150, d = 400
  from memory
  private, unit worker, neighbours replace-one
  x in {{{domain}}} by map({by})
privacy nldp, attribute
  epsilon = {epsilon}
release labels
  infer truth from labels
  by {algorithm}
  expect ability-error <= 0.1
simulate
  {law}
study
  trials 2, seed 3
"""
TWO = {"domain": "-1, 0, 1", "by": "0 -> 0, -1 -> -1, 1 -> 1"}
THREE = {"domain": "0, 1, 2, 3", "by": "0 -> 0, 1 -> 1, 2 -> 2, 3 -> 3"}
LAWS = {
    "beta": (TWO, "truth ~ rademacher\n  x ~ one-coin(truth, beta(6, 2))"),
    "spammers and adversaries": (TWO, "truth ~ rademacher\n  x ~ one-coin(truth, mixture(0.7, 0.85, 0.2, 0.5, 0.1, 0.1), 0.8)"),
    "three labels": (
        THREE,
        "label ~ categorical-logistic(0, 0, 0)\n  truth = label + 1\n  x ~ one-coin(truth, mixture(0.8, beta(8, 2), 0.2, 0.3333), 0.9, 3)",
    ),
}


def measured(law: str, epsilon: float, algorithm: str) -> float:
    domain, text = LAWS[law]
    spec = SPEC.format(**domain, epsilon=epsilon, algorithm=algorithm, law=text)
    (point,) = study(parse_text(spec, surface="dps")).to_json()["points"]
    assert point["error"]["measure"] == "ability-error"
    assert point["reference_error"] is None  # what is measured is the released abilities, which the reference has none of
    return float(point["error"]["mean"])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("abstain", ["coin", "symbol"])
def test_abilities_come_near_with_the_budget(law, abstain):
    """At epsilon 8 a report is an answer, and what is left is that of the labels: 0.03. At epsilon 1 the deviation of a share of 400
    reports, sqrt(1/(4 400))/a = 0.054 for two labels (0.1 for three, and more with a symbol), times sqrt(2/pi)."""
    near = measured(law, 8, f"private-dawid-skene with abstain = {abstain}")
    far = measured(law, 1, f"private-dawid-skene with abstain = {abstain}")
    assert near < 0.03
    assert 0.02 < far < 0.3
    assert far > 2 * near


def test_no_abilities_are_refused_by_name():
    with pytest.raises(SpecError, match="releases none"):
        measured("beta", 1, "private-majority-voting")


def trial(x: np.ndarray, truth: np.ndarray, **released: np.ndarray) -> Trial:
    p = problem(*x.shape)
    return Trial(Records(x), p, {"truth": truth}, None, estimand=TASK.truth, released=released)


def test_by_hand():
    truth = np.array([1.0, 1.0, -1.0, -1.0])
    x = np.array([[1.0, 1.0, 1.0, -1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    ours = np.array([0.5, 0.5, 0.9])
    # a missing answer is half right: 3/4, (1 + 2/2)/4, (4/2)/4
    assert ability_error(truth, trial(x, truth, abilities=ours)) == pytest.approx((0.25 + 0.0 + 0.4) / 3)
    # among answers: 3/4 and 1/2; the third worker has none
    assert ability_error(truth, trial(x, truth, abilities=ours, answered=np.zeros(3))) == pytest.approx((0.25 + 0.0) / 2)
    # nobody answers anything
    assert ability_error(truth, trial(0 * x, truth, abilities=ours, answered=np.zeros(3))) == 0.0
