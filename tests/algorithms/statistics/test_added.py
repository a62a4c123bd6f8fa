"""Sums of whole steps in few passes: the integers that each record alone gives, added without an error, whatever the records hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpspec.algorithms.statistics import _moments as moments
from dpspec.algorithms.statistics import _noise as noise
from dpspec.models.columns import NEAR, Column, numbers

ODD = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e308, -1e308, 0.5, -0.5]
COLUMNS = [
    Column("c", high=100.0),
    Column("c", low=-1.0, high=1.0, offset=50.0, factor=33.3),
    Column("c", low=0.0, high=1.0, offset=17.0, factor=73.0),
    Column("c", low=-1e-9, high=1e-9, factor=1e9),
    Column("c", low=1e16, high=1e16 + 2),
    Column("c", low=-1e140, high=1e140),
    Column("c", low=0.0, high=0.0),
]
#: With ends that are not multiples of the step, too.
STEPS = [1.0, 0.25, 0.1, 3.0, 2.0**-20, 7e138, 2.0**440]


def hostile(column: Column, size: int, seed: int) -> np.ndarray:
    r = np.random.default_rng(seed)
    inside = r.uniform(column.low, column.high, size) if math.isfinite(column.high - column.low) else np.zeros(size)
    near = np.nextafter(r.choice([column.low, column.high], size), r.choice([-np.inf, np.inf], size))
    return np.where(r.uniform(size=size) < 0.2, r.choice(ODD, size), np.where(r.uniform(size=size) < 0.3, near, inside))[:, None]


@pytest.mark.parametrize("column", COLUMNS, ids=range(len(COLUMNS)))
@pytest.mark.parametrize("step", STEPS)
def test_sums_are_those_of_the_steps_one_by_one(column: Column, step: float) -> None:
    low, high = math.ceil(column.value_low / step - 1e-9), math.floor(column.value_high / step + 1e-9)
    if not low < high or max(abs(low), abs(high)) > 2**52:
        pytest.skip("no such sum is planned")
    for size in (1, 7, NEAR + 3):
        x = hostile(column, size, size)
        one_by_one = noise.steps(numbers(column, x, None), step, low, high)
        assert one_by_one.min() >= low
        assert one_by_one.max() <= high
        assert noise.added(column, x, None, step, low, high) == sum(int(v) for v in one_by_one)


@pytest.mark.parametrize("column", COLUMNS, ids=range(len(COLUMNS)))
@pytest.mark.parametrize("k", [2**4, 2**27, 2**30])
def test_moments_are_sums_of_bounded_functions_of_one_record(column: Column, k: int) -> None:
    x = hostile(column, NEAR + 5, k % 97)
    alone = np.array([moments.added(column, row[None, :], None, k, 2) for row in x[:200]])
    assert (alone[:, 0] == k).all()
    assert np.abs(alone[:, 1:]).max() <= k  # the sensitivity rests on it
    middle, half = (column.low + column.high) / 2, (column.high - column.low) / 2
    if half > 1e-200:  # and the numbers are what they are called
        c = np.clip((np.nan_to_num(column.entries(x[:200], None)) - middle) / half, -1, 1)
        assert np.abs(alone[:, 1] - k * c).max() <= 0.5 + k * 2.0**-50
        assert np.abs(alone[:, 2] - k * (2 * (alone[:, 1] / k) ** 2 - 1)).max() <= 0.5 + k * 2.0**-49
    whole = np.array([moments.added(column, x[i : i + 1], None, k, 2) for i in range(len(x) - 300, len(x))]).sum(axis=0)
    both = moments.added(column, x, None, k, 2), moments.added(column, x[:-300], None, k, 2)
    assert tuple(whole) == tuple(a - b for a, b in zip(*both, strict=True))  # adding is exact, in pieces or not
    assert both[0][:2] == moments.added(column, x, None, k, 1)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=8))
def test_any_doubles(values: list[float]) -> None:
    column, x = Column("c", low=-1.0, high=3.0, offset=2.0, factor=0.3), np.array(values)[:, None]
    expected = sum(int(v) for v in noise.steps(numbers(column, x, None), 0.01, 170, 290))
    assert noise.added(column, x, None, 0.01, 170, 290) == expected


@pytest.mark.parametrize("k", [16, 64, 256])
def test_two_moments_move_by_their_stated_length(k: int) -> None:
    """Every pair of values that a record can have."""
    column, ends = Column("c", low=-1.0, high=1.0), np.arange(-k, k + 1) / k
    both = np.array([moments.added(column, np.array([[v]]), None, k, 2)[1:] for v in ends])
    assert (both[:, 0] == np.arange(-k, k + 1)).all()
    apart = np.sqrt(((both[:, None, :] - both[None, :, :]) ** 2).sum(axis=2)).max()
    assert k * moments.REPLACED - 2 <= apart <= k * moments.REPLACED + 2
