"""Tests of assumptions about a mean loss: silent of what is true (level), at the limit of it, and not of what is false (power)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpspec.compiler.passes import compile_draft
from dpspec.data.refute import Unseen
from dpspec.data.refute_loss import ON_LOSS, Curve
from dpspec.lang.source import parse_text
from dpspec.spec.assumptions import ASSUMPTIONS

N = 8_000
VARIANCES = np.array([0.5, 1.0, 2.0])
STAR = np.array([1.0, 0.0, 0.0])


def squares(seed: int, variances: Any = VARIANCES, **changes: Any) -> Curve:
    """(y - <w, x>)^2/2, x ~ N(0, S), y = <w*, x> + noise: F is quadratic with Hessian S, and F's gradient points at w*."""
    g = np.random.default_rng(seed)
    x = g.standard_normal((N, len(variances))) * np.sqrt(variances)
    y = x @ STAR + 0.3 * g.standard_normal(N)
    return Curve(lambda u, y: (u - y) ** 2 / 2, lambda u, y: u - y, x, y, star=STAR, **changes)


def waves(seed: int) -> Curve:
    """1 - cos(u - y), y = <w*, x>: F(w) = 1 - exp(-|w - w*|^2/2) for x ~ N(0, I), with slope |w - w*| exp(-|w - w*|^2/2)."""
    g = np.random.default_rng(seed)
    x = g.standard_normal((N, 3))
    return Curve(lambda u, y: 1 - np.cos(u - y), lambda u, y: np.sin(u - y), x, x @ STAR, star=STAR)


#: (procedure, constants that hold at their limit, constants that do not, the loss)
CASES = [
    ("strongly_convex", (0.5,), (0.7,), squares),
    ("smooth", (2.0,), (1.5,), squares),
    ("rsc", (0.5,), (0.7,), squares),
    ("restricted_smooth", (2.0,), (1.5,), squares),
    ("weakly_convex", (0.446,), (0.02,), waves),  # F'' along w - w* is at least -2 exp(-3/2)
    ("one_point_convex", (math.exp(-0.5), 1.0), (0.9, 1.0), waves),
    ("pl", (0.5,), (3.0,), squares),  # |S u|^2 >= least eigenvalue * <u, S u>
]


def test_every_procedure_of_the_registry_has_a_case_and_the_other_way_round() -> None:
    assert {name for name, *_ in CASES} == set(ON_LOSS)
    assert set(ON_LOSS) <= {a.test for a in ASSUMPTIONS.values()}


@pytest.mark.parametrize(("name", "holds", "fails", "loss"), CASES)
def test_what_is_true_is_not_refuted_and_what_is_false_is(name: str, holds: Any, fails: Any, loss: Any) -> None:
    for seed in range(4):
        assert ON_LOSS[name](loss(seed), *holds) is None
        assert ON_LOSS[name](loss(100 + seed), *fails) is not None


def test_convexity_without_a_constant() -> None:
    assert ON_LOSS["strongly_convex"](squares(1)) is None
    assert ON_LOSS["strongly_convex"](waves(1)) is not None


def test_no_case_is_decided_where_the_law_has_no_weights() -> None:
    from dataclasses import replace

    with pytest.raises(Unseen):
        ON_LOSS["one_point_convex"](replace(waves(1), star=None), 0.9, 1.0)


SPEC = """analysis "a"
data
  n = 20_000, d = 3
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in [-1, 1] by clip
privacy central
  epsilon = 1, delta = 1e-6
assume
  {assume}
release w
  minimise (y - <w, x>)^2/2 over ball(l2, 1)
  by dp-gd
simulate
  theta = dense unit l2
  x ~ uniform-ball
  y = <theta, x> + uniform(-0.1, 0.1)
"""


@pytest.mark.parametrize(
    ("stated", "refuted"),
    [
        ("pl(0.1)", False),
        ("pl(5)", True),
        ("rsc(0.15)", False),
        ("restricted-strongly-convex(0.5)", True),
        ("strongly-convex(0.15) of population", False),
        ("strongly-convex(0.5) of population", True),
        ("smooth(0.1) of population", True),
        ("one-point-convex(0.15, 1)", False),
        ("one-point-convex(0.5, 1)", True),
        ("weakly-convex(0)", False),
        ("incoherence(0.1)", False),
        ("rip(0.5)", True),
    ],
)
def test_the_law_of_a_spec_is_held_against_its_loss(stated: str, refuted: bool) -> None:
    """x uniform in the unit ball of R^3 has the covariance I/5, and squared loss the Hessian I/5."""
    draft = compile_draft(parse_text(SPEC.format(assume=stated), surface="dps"))
    assert ("DP225" in {d.code for d in draft.diagnostics}) == refuted
    assert bool(draft.tested) != refuted
