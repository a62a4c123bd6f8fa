"""`expect` in a study: the verdict, and measures that nobody can measure."""

from __future__ import annotations

import pytest

from dpspec.compiler.draft import Target
from dpspec.executor.summary import target_json
from dpspec.tasks.registry import tasks
from tests.cli.call import call

SPEC = """analysis "a"

data
  n = 6, d = 2
  from "a.csv" target "y"
  public
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 0.01, delta = 1e-2

release a
  {task}
  expect {expect}
"""
CSV = "a,b,y\n0.9,0.1,1\n0.1,0.9,0\n0.8,0.3,1\n0.2,0.7,0\n0.7,0.2,0\n0.3,0.8,1\n"
LOGISTIC = "minimise logistic over ball(l2, 5)\n  by dp-gd with T = 2"


def study(tmp_path, expect, task=LOGISTIC):
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "a.dps").write_text(SPEC.format(task=task, expect=expect))
    return call("study", str(tmp_path / "a.dps"), "--trials", "4", "--workers", "1")


def test_no_task_has_two_measures_of_one_name():
    assert all(len(set(task.measurable)) == len(task.measures) for task in tasks())


# Errors of labels and distances within ball(l2, 5): a label error is at most 1, a distance at most 10.
@pytest.mark.parametrize(
    ("expect", "code", "word"),
    [
        ("label-error <= 0.01", 1, "MISSED"),
        ("label-error <= 1", 0, "met"),
        ("l1-error <= 1e-9", 1, "MISSED"),
        ("l2 <= 10", 0, "met"),
        ("label-error <= 0.01 with probability 0.5", 0, "undecided"),  # 4 of 4 trials: 2^-4 is no proof at 0.05
        ("label-error <= 0.01 with probability 0.9", 1, "MISSED"),
        ("linf-error <= 10 with probability 0.4", 0, "met"),
    ],
)
def test_a_target_gets_a_verdict(tmp_path, expect, code, word):
    got = study(tmp_path, expect)
    assert got.code == code, got
    assert word in got.stdout


@pytest.mark.parametrize(
    ("expect", "near"), [("labl-error", "label-error"), ("l2-eror", "l2-error"), ("suport-error", "support-error"), ("operator-error", "")]
)
def test_a_measure_that_nobody_knows_is_an_error(tmp_path, expect, near):
    got = study(tmp_path, f"{expect} <= 0.01")
    assert got.code in (1, 2)
    assert "DP413" in got.stderr
    assert (f"did you mean {near!r}" in got.stderr) == bool(near)
    assert "mean excess" not in got.stdout


def test_a_study_says_which_share_of_the_records_enforcement_changed(tmp_path):
    got = study(tmp_path, "label-error <= 1")
    assert "Enforcing the domain of x changed" in got.stdout


def test_verdicts_of_numbers():
    def met(errors, p=None):
        found = target_json(Target("l2-error", 1.0, p, None), errors)
        return found["met"], found["sure"]

    assert met([0.5, 0.5]) == (True, True)
    assert met([2.0, 2.0]) == (False, True)
    assert met([2.0]) == (False, False)
    assert met([0.1, 1.8]) == (True, False)
    assert met([float("nan"), 0.1])[0] is False
    assert met([float("inf"), 0.1])[0] is False
    assert met([0.5] * 9 + [2.0], 0.9) == (True, False)
    assert met([0.5] * 5, 0.5) == (True, True)  # 2^-5 = 0.031
    assert met([2.0] * 4, 0.5) == (False, False)  # 2^-4 = 0.0625
    assert met([2.0] * 5, 0.5) == (False, True)
    found = target_json(Target("l2-error", 1.0, 0.5, None), [0.5] * 5)
    assert found["verdict"] == "met"
    assert found["interval"] == pytest.approx([0.025 ** (1 / 5), 1.0])  # Clopper and Pearson: all of five
    assert target_json(Target("l2-error", 1.0, None, None), [0.1, 1.8])["verdict"] == "undecided"
