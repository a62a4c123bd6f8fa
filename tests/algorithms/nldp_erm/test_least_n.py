"""The least n that a plan names is enough: the target is proved at it, missed below it, and a study at that n stays within the target.

Explicit bounds alone, each of another kind: a variance, one pass of descent, and the largest of many answers with its probability."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from dpspec.compiler.passes import compile_draft
from dpspec.executor.study import study
from dpspec.lang.source import parse_text

MEAN = """\
analysis "least n: a mean"

data
  n = 1_000, d = 8
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale

privacy nldp
  epsilon = 1

release centre
  estimate mean(x) over ball(l2, 1)
  by ldp-mean
  expect squared-l2-error <= 0.002

simulate
  x ~ sphere

study
  trials 100, seed 5
"""

DESCENT = """\
analysis "least n: a logistic model"

data
  n = 1_000, d = 4
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(-1 -> -1, 1 -> 1)

privacy sldp
  epsilon = 4

release weights
  minimise logistic over ball(l2, 2)
  by interactive-ldp-sgd with T = 200
  expect excess-population-risk <= 0.05

simulate
  theta = dense unit l2
  x = sphere
  y ~ bernoulli-logistic(2*<theta, x>)

study
  trials 6, seed 5
"""

TABLES = """\
analysis "least n: three-way tables"

data
  n = 1_000, d = 6
  from memory
  private, unit person, neighbours replace-one
  x in {0, 1} by map(0 -> 0, 1 -> 1)

privacy nldp
  epsilon = 2

release tables
  answer marginals(3)
  by marginals-fourier-ldp
  expect max-query-error <= 0.1 with probability 0.95

simulate
  x = bernoulli(0.3)

study
  trials 40, seed 5
"""


def at(text: str, n: int) -> str:
    return re.sub(r"n = [\d_]+", f"n = {n}", text, count=1)


def target(text: str) -> Any:
    draft = compile_draft(parse_text(text, surface="dps"))
    (release,) = draft.releases
    return release.target


@pytest.mark.slow
@pytest.mark.parametrize("text", [MEAN, DESCENT, TABLES], ids=["ldp-mean", "interactive-ldp-sgd", "marginals-fourier-ldp"])
def test_a_run_at_the_least_n_meets_the_target(text: str) -> None:
    far = target(text)
    assert not far.met
    assert far.least_n > 1_000
    assert target(at(text, far.least_n)).met
    assert not target(at(text, int(far.least_n * 0.97))).met
    (point,) = study(parse_text(at(text, far.least_n), surface="dps"), workers=1).to_json()["points"]
    error, trials = point["error"], len(point["error"]["values"])
    assert point["bound"]["holds"] is not False
    assert error["mean"] <= far.at_most + 5 * error["std"] / math.sqrt(
        trials
    )  # the mean's bound is an equation, so half of such means are above
    if far.probability is not None:
        assert point["bound"]["within"] / trials >= 0.95
