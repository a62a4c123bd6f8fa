"""rs-x: places are uniform and independent, lifetimes, the printed first branch, and coins that stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from dpspec.algorithms.pairwise.rs_x import rs_x
from dpspec.numeric.coins import coins

EMPTY = np.empty(0, dtype=np.int64)


def test_a_place_is_uniform_and_places_are_independent():
    """20 records, 3 places, 4000 seeds: every record in every place, and every pair of records in two places."""
    held = np.array([rs_x(EMPTY, 0, 20, 3, seed) for seed in range(4000)])
    for place in range(3):
        counts = np.bincount(held[:, place], minlength=20)
        assert ((counts - 200) ** 2 / 200).sum() < 50  # chi squared of 19 degrees, 1e-4
    pairs = np.bincount(held[:, 0] * 20 + held[:, 1], minlength=400)
    assert ((pairs - 10) ** 2 / 10).sum() < 520  # 399 degrees, 1e-4


def test_block_by_block_or_at_once_it_holds_the_same():
    at_once = rs_x(EMPTY, 0, 300, 8, 5)
    held, seen = EMPTY, 0
    for stop in (3, 8, 9, 10, 57, 300):
        held, seen = rs_x(held, seen, stop, 8, 5), stop
    assert np.array_equal(held, at_once)


def test_a_record_stays_with_probability_i_over_t():
    kept = 0
    for seed in range(1500):
        early = rs_x(EMPTY, 0, 50, 2, seed)
        kept += int((rs_x(early, 50, 100, 2, seed) == early).sum())
    assert kept / 3000 == pytest.approx(0.5, abs=0.04)


def test_the_printed_first_branch_leaves_the_buffer_empty():
    printed: list[int] = []
    for record in range(10):
        if len(printed) < 4:
            temporary = [*printed, record]  # line 3 assigns to TMP, and B is what is returned
    assert printed == []
    assert len(temporary) == 1
    assert list(rs_x(EMPTY, 0, 3, 4, 1)) == [0, 1, 2]


def test_coins_are_what_they_were():
    """splitmix64's first output of the seed 0 (Steele, Lea, Flood 2014, and Vigna's reference) as the generator's check."""
    from dpspec.numeric.coins import _GOLDEN, _mixed

    assert int(_mixed(np.array([_GOLDEN], dtype=np.uint64))[0]) == 0xE220A8397B1DCDAF
    table = coins(3, np.arange(1000), 7)
    assert np.array_equal(table[100:103], coins(3, np.arange(100, 103), 7))
    assert table.mean() == pytest.approx(0.5, abs=0.02)
    assert not np.array_equal(table, coins(4, np.arange(1000), 7))
