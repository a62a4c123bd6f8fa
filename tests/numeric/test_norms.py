"""Norms, clipping and directions for every kind of double, against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from dpspec.numeric.norms import (
    Entries,
    OutOfRange,
    clip_rows,
    directions,
    group_lengths,
    length,
    lengths,
    project,
    scale_into,
)

MAGNITUDES = (0.0, 5e-324, 1e-310, 1e-170, 1.6e-162, 1e-162, 2.3e-154, 1e-140, 1.0, 1e140, 1.4e154, 1e300, 1.7e308)
ROWS = np.array(list(product(MAGNITUDES, repeat=3)))[::2] * np.array([1.0, -1.0, 1.0])
RADII = (1e-250, 1e-200, 1e-162, 3e-136, 1e-12, 1.0, 1e16, 1e150)
UNIT = Fraction(1, 2**53)


def square(row: np.ndarray) -> Fraction:
    return sum((Fraction(float(v)) ** 2 for v in row), Fraction(0))


def exact(row: np.ndarray, norm: str) -> Fraction:
    """The norm (of l2 the square)."""
    if norm == "l2":
        return square(row)
    sizes = [abs(Fraction(float(v))) for v in row]
    return sum(sizes, Fraction(0)) if norm == "l1" else max(sizes, default=Fraction(0))


def within(row: np.ndarray, radius: float, norm: str) -> bool:
    return exact(row, norm) <= Fraction(radius) ** (2 if norm == "l2" else 1)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_part_and_power_are_the_norm_to_a_few_roundings(norm: str) -> None:
    found = lengths(ROWS, norm)
    for i, row in enumerate(ROWS):
        value = Fraction(float(found.part[i])) * Fraction(2) ** int(found.power[i])
        true = exact(row, norm)
        got = value**2 if norm == "l2" else value
        assert abs(got - true) <= 2 * (3 + 2) * UNIT * true, row
        assert Fraction(float(found.upper[i])) >= value if math.isfinite(found.upper[i]) else value > Fraction(1.7e308)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("radius", RADII)
def test_a_clipped_row_is_in_the_ball_exactly_and_lost_no_more_than_the_margin(radius: float, norm: str) -> None:
    v, outside = scale_into(Entries(ROWS.copy()), radius, norm)
    again, _ = scale_into(Entries(v.copy()), radius, norm)
    assert np.array_equal(v, again)
    for before, after, out in zip(ROWS, v, outside, strict=True):
        assert within(after, radius, norm), (before, after)
        assert within(before, radius * (1 + 1e-14), norm) or out
        power = 2 if norm == "l2" else 1
        least = min(exact(before, norm), Fraction(radius) ** power)  # scaled no further than needed
        assert exact(after, norm) >= least * (1 - Fraction(1, 10**13))
        top = int(np.argmax(np.abs(before)))  # and not turned
        for j in range(3):
            turned = Fraction(float(after[j])) * Fraction(float(before[top])) - Fraction(float(after[top])) * Fraction(float(before[j]))
            assert abs(turned) <= abs(Fraction(float(before[top]))) * (Fraction(radius) * 4 * UNIT + Fraction(1, 2**1073))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("radius", RADII)
def test_dense_and_csr_rows_with_all_entries_stored_agree(radius: float, norm: str) -> None:
    dense, _ = scale_into(Entries(ROWS.copy()), radius, norm)
    flat, _ = scale_into(Entries(ROWS.ravel().copy(), np.arange(0, ROWS.size + 1, 3)), radius, norm)
    assert np.allclose(flat.reshape(-1, 3), dense, rtol=1e-14, atol=0)


@pytest.mark.parametrize("radius", RADII)
def test_limits_keep_every_multiple_in_the_ball(radius: float) -> None:
    found = lengths(ROWS)
    for row, limit in zip(ROWS, found.limits(radius), strict=True):
        c = min(limit, 1.7976931348623157e308)
        assert Fraction(c) ** 2 * square(row) <= Fraction(radius) ** 2
        if row.any() and 1e-290 < limit < math.inf:  # and the limit is used up
            assert Fraction(c) ** 2 * square(row) >= Fraction(radius) ** 2 * (1 - Fraction(1, 10**13))


def test_rejection_keeps_rows_of_the_ball_and_zeroes_the_others() -> None:
    v, outside = scale_into(Entries(ROWS.copy()), 1e-162, "l2", reject=True)
    for before, after, out in zip(ROWS, v, outside, strict=True):
        assert out == (not within(before, 1e-162 * (1 + 1e-14), "l2"))
        assert np.array_equal(after, np.zeros(3)) if out else np.allclose(after, before, rtol=1e-14, atol=0)


def test_a_direction_has_length_one_to_rounding() -> None:
    unit, found = directions(ROWS)
    for row, u in zip(ROWS, unit, strict=True):
        if not row.any():
            assert not u.any()
            continue
        assert abs(square(u) - 1) <= 2 * (3 / 2 + 4) * UNIT
        top = int(np.argmax(np.abs(row)))
        assert np.sign(u[top]) == np.sign(row[top])
    assert all(0 <= s <= 1 for s in found.shares(1e-162))
    assert lengths(np.array([[3e-170, 4e-170]])).shares(1e-169)[0] == pytest.approx(0.5, rel=1e-15)


def test_rows_that_are_not_finite_become_zero_and_touch_no_other() -> None:
    x = np.array([[np.nan, 1.0], [np.inf, 0.0], [3.0, 4.0], [-np.inf, np.nan], [0.0, 0.0]])
    assert np.allclose(clip_rows(x.copy(), 1.0), [[0, 0], [0, 0], [0.6, 0.8], [0, 0], [0, 0]], atol=1e-14)
    assert np.array_equal(directions(x)[0], [[0, 0], [0, 0], [0.6, 0.8], [0, 0], [0, 0]])
    assert lengths(x).limits(1.0)[[0, 1, 3]].tolist() == [0.0, 0.0, 0.0]
    assert lengths(x).finite.tolist() == [False, False, True, False, True]


def test_single_vectors_groups_and_projection() -> None:
    assert length(np.array([3e-170, 4e-170])) == pytest.approx(5e-170, rel=1e-15)
    assert length(np.array([3e300, -4e300])) == pytest.approx(5e300, rel=1e-15)
    assert length(np.array([1.7e308, 1.7e308])) == math.inf
    assert length(np.array([5e-324, 0.0])) == 5e-324
    assert length(np.zeros(0)) == 0.0
    assert length(np.array([[3.0, 4.0], [0.0, 12.0]])) == 13.0
    assert group_lengths(np.array([3e-170, 4e-170, 5.0, 12.0, 0.0]), np.array([0, 2, 4])).tolist() == pytest.approx([5e-170, 13.0, 0.0])
    v = np.array([3e200, 4e200])
    assert np.allclose(project(v, 1.0), [0.6, 0.8], rtol=1e-15)
    inside = np.array([1e-170, 0.0])
    assert project(inside, 1.0) is inside
    assert np.allclose(project(inside, 1e-200), [1e-200, 0.0], rtol=1e-15, atol=0)


@pytest.mark.parametrize("radius", [0.0, 5e-324, 1e-251, 1.1e150, math.inf, math.nan, -1.0])
def test_a_radius_out_of_range_is_refused(radius: float) -> None:
    with pytest.raises(OutOfRange):
        clip_rows(np.ones((1, 2)), radius)
    with pytest.raises(OutOfRange):
        lengths(np.ones((1, 2))).limits(radius)


def test_empty_rows_and_blocks() -> None:
    m = csr_array((np.array([1e-170, 2e300]), np.array([0, 1]), np.array([0, 0, 2, 2])), shape=(3, 4))
    assert lengths(m).values.tolist() == [0.0, 2e300, 0.0]
    assert lengths(np.zeros((0, 3))).values.shape == (0,)
    assert lengths(np.zeros((2, 0))).values.tolist() == [0.0, 0.0]


any_double = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)


@settings(max_examples=300, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 7)), elements=any_double), st.floats(1e-250, 1e150))
def test_any_doubles_and_any_radius(x: np.ndarray, radius: float) -> None:
    for row in clip_rows(x.copy(), radius):
        assert square(row) <= Fraction(radius) ** 2
    for row, limit in zip(x, lengths(x).limits(radius), strict=True):
        assert Fraction(min(limit, 1.7976931348623157e308)) ** 2 * square(row) <= Fraction(radius) ** 2
    k = x.shape[1]
    for row, u in zip(x, directions(x)[0], strict=True):
        assert not row.any() or abs(square(u) - 1) <= 2 * (k / 2 + 4) * UNIT


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(1000, 5000), st.floats(-300, 300))
def test_long_rows(seed: int, k: int, exponent: float) -> None:
    """The margins grow with the number of entries; rows at the border of the ball are those that rounding could push out."""
    row = np.random.default_rng(seed).normal(size=(1, k)) * 10.0**exponent
    radius = float(np.clip(length(row), 1e-250, 1e150))
    assert square(clip_rows(row.copy(), radius)[0]) <= Fraction(radius) ** 2
