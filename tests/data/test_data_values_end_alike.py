"""One finite number in the place of another never decides how a run ends, whichever way it is stored or encoded; what is no number, or
none of the doubles, is refused in the documented words (docs/data.md), and never by a library's exception."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpspec as dp
from dpspec.data.frames import doubles
from dpspec.data.sources import load
from dpspec.spec.diagnostics import SpecError

N = 6
SPEC = """analysis "values"

data
  n = 6, d = 3
  from SOURCE target "y"
  private, unit person, neighbours replace-one
ENCODE  x in ball(l2, 1) by scale
  y in [-1, 1] by clip

privacy central
  epsilon = 1, delta = 1e-6

release a
  minimise huber(1) over ball(l2, 1)
  by dp-gd with T = 2
"""
FINITE = [
    0,
    1,
    -3,
    2**63,
    2**64,
    -(2**64),
    10**300,
    0.1,
    5e-324,
    1.7e308,
    Fraction(1, 3),
    Decimal("0.1"),
    Decimal("1e300"),
    True,
    np.int8(3),
]
FINITE += [np.float32(1e38), np.uint64(2**64 - 1), np.longdouble(2)]
BEYOND = [10**400, -(10**400), Fraction(10**400), Decimal("1e500"), float("inf"), float("-inf")]
MISSING = [None, float("nan"), Decimal("NaN"), pd.NA]
WORDS = ["abc", [1], (1, 2), 1j, datetime.date(2020, 1, 1), b"x", {"a": 1}]


def text(source: str = "memory", encode: str = "") -> str:
    return SPEC.replace("SOURCE", source).replace("ENCODE", encode)


def rows(v: Any) -> Any:
    return [[v, 1.0, 2.0], *([[1.0, 2.0, 3.0]] * (N - 1))], [0.5] * N


def objects(v: Any) -> Any:
    x = np.empty((N, 3), dtype=object)
    x[:] = 1.0
    x[0, 0] = v
    return x, [0.5] * N


def frame(v: Any) -> Any:
    column = pd.Series([v, *[1] * (N - 1)], dtype=object)
    return pd.DataFrame({"a": column, "b": 1.0, "c": 2.0, "y": 0.5}), None


def mapping(v: Any) -> Any:
    return {"a": [v, *[1] * (N - 1)], "b": [1.0] * N, "c": [2.0] * N, "y": [0.5] * N}, None


def target(v: Any) -> Any:
    return np.ones((N, 3)), [v, *[1] * (N - 1)]


def target_frame(v: Any) -> Any:
    return pd.DataFrame({"a": 1.0, "b": 1.0, "c": 2.0, "y": pd.Series([v, *[1] * (N - 1)], dtype=object)}), None


SHAPES = [rows, objects, frame, mapping, target, target_frame]


@pytest.fixture(scope="module")
def plan() -> Any:
    return dp.plan(dp.loads(text()))


def codes(plan: Any, memory: Any) -> set[str]:
    try:
        plan.run(*memory)
    except SpecError as error:
        return {d.code for d in error.diagnostics}
    return set()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_finite_number_is_taken_however_it_is_stored(shape: Any, plan: Any) -> None:
    assert {repr(v): codes(plan, shape(v)) for v in FINITE} == {repr(v): set() for v in FINITE}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_number_beyond_the_doubles_is_an_infinite_value(shape: Any, plan: Any) -> None:
    assert {repr(v): codes(plan, shape(v)) for v in BEYOND} == {repr(v): {"DP506"} for v in BEYOND}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_missing_value_is_one_however_it_is_stored(shape: Any, plan: Any) -> None:
    assert {repr(v): codes(plan, shape(v)) for v in MISSING} == {repr(v): {"DP504"} for v in MISSING}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_no_number_is_refused_by_a_finding(shape: Any, plan: Any) -> None:
    for v in WORDS:
        assert codes(plan, shape(v)) <= {"DP505", "DP515", "DP510"}, v


def test_doubles_are_the_nearest_ones() -> None:
    a = np.array([10**17 + 1, Fraction(1, 3), Decimal("0.1"), True, None, 10**400, -(10**400)], dtype=object)
    assert np.array_equal(doubles(a), [1e17, 1 / 3, 0.1, 1.0, np.nan, np.inf, -np.inf], equal_nan=True)
    assert doubles(np.array([1, "2"], dtype=object)) is None


@pytest.mark.parametrize("cell", ["0", "1", "-1e10", "1e300", "-1.7e308", "5e-324", "0." + "0" * 400 + "1", "1" + "0" * 300])
@pytest.mark.parametrize("encode", ["standard(0, 1e-300)", "standard(1e290, 1e-12)", "range(0, 1)", "range(-1e299, 1e299)"])
def test_an_encoding_keeps_finite_numbers_finite(cell: str, encode: str, tmp_path: Path) -> None:
    """(v - m)/s may be beyond the doubles; then it is the largest of its sign, and the domain's rule has the last word."""
    lines = ["a,b,c,y", f"{cell},1,2,0", *["1,1,2,0"] * (N - 1)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    made = dp.loads(text('"t.csv"', f"  encode a as {encode}\n"), path=str(tmp_path / "a.dps"))
    x = load(made.analysis.data, base_dir=tmp_path).records.x
    assert np.isfinite(x).all()
    if encode.startswith("standard"):
        m, s = (Fraction(v) for v in encode[9:-1].split(", "))
        exact = (Fraction(cell) - m) / s
        assert x[0, 0] == pytest.approx(
            float(min(max(exact, -(Fraction(2) ** 1024) * (1 - Fraction(1, 2**53))), Fraction(2) ** 1024 * (1 - Fraction(1, 2**53)))),
            rel=1e-12,
        )
    assert dp.plan(made).run().outputs["a"]["theta"].shape == (3,)
