"""Records cut to [-tau, tau] a coordinate are the same records whatever larger set the spec writes around them."""

from __future__ import annotations

from typing import Any

import pytest

from dpspec.compiler.plan import make_plan
from dpspec.lang.source import parse_text

SPEC = """\
analysis "t"
data
  n = 1000, d = 4
  from memory
  private, unit person, neighbours {relation}
  x in {x}
  y in {y}
privacy central
  epsilon = 1, delta = 1e-6
release a
  minimise {loss} over ball(l2, 1)
  by {algorithm}
"""


def noise(**options: Any) -> list[tuple[float, float]]:
    known = {"relation": "replace-one", "x": "ball(linf, 0.1) by clip", "y": "[-1/2, 1/2] by clip", "loss": "squared", "algorithm": "dp-gd"}
    plan = make_plan(parse_text(SPEC.format(**{**known, **options}), path="t.dps", surface="dps"), check=False)
    return [(row["sensitivity"], row["scale"]) for row in plan.to_json()["releases"][0]["noise"]]


@pytest.mark.parametrize(
    "wide", ["ball(linf, 5)", "ball(linf, 0.1)", "ball(l2, 5)", "ball(l2, 1/5)", "ball(l1, 3)", "box(-5, 5)", "box(-0.1, 7)"]
)
@pytest.mark.parametrize("loss", ["squared", "huber(1)"])
def test_shrunk_records_are_clipped_records(wide: str, loss: str) -> None:
    got = noise(x=f"{wide} by shrink(0.1)", loss=loss)
    assert got == noise(loss=loss)


@pytest.mark.parametrize("wide", ["[-5, 5]", "[-1/2, 9]"])
def test_shrunk_labels_are_clipped_labels(wide: str) -> None:
    assert noise(y=f"{wide} by shrink(1/2)") == noise()


def test_the_sensitivity_is_that_of_the_cut_records() -> None:
    """|x|_2 <= 0.1*sqrt(4) = 0.2, so |<w, x>| <= 0.2 and |<w, x> - y| <= 0.7: replacing a record moves the mean gradient by at most
    2*0.7*0.2/n (times the factor of the loss)."""
    ((sensitivity, _),) = noise(x="ball(linf, 5) by shrink(0.1)", loss="(y - <w, x>)^2/2")
    assert 2 * 0.7 * 0.2 / 1000 * 0.4 <= sensitivity <= 2 * 0.7 * 0.2 / 1000 * 1.001
