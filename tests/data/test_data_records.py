"""Records: shapes, batches, views; and generated records against the same stream read whole."""

import numpy as np
import pytest
from scipy import sparse

from dpspec.data.records import GeneratedRecords, Records, drawing_rows, round_bounds
from dpspec.spec.diagnostics import SpecError


def test_a_vector_is_one_column_and_arrays_are_read_only():
    mine = np.array([1.0, 2.0, 3.0])
    r = Records(mine, [[0], [1], [0]])
    assert r.x.shape == (3, 1)
    assert r.y is not None
    assert r.y.shape == (3,)
    with pytest.raises(ValueError, match="read-only"):
        r.x[0, 0] = 9.0
    mine[0] = 5.0  # the caller's array stays the caller's


@pytest.mark.parametrize(
    ("x", "y", "public"),
    [(np.zeros((3, 2)), np.zeros(4), None), (np.zeros((2, 2, 2)), None, None), (np.zeros((3, 2)), None, np.zeros((5, 3)))],
)
def test_shapes_that_do_not_fit_are_refused(x, y, public):
    with pytest.raises(ValueError):
        Records(x, y, public)


def test_batches_in_the_documents_numbering():
    # n = 11, T = 3, floor(n/T) = 3: {1,2,3}, {4,5,6}, {7,...,11} counted from 1
    assert round_bounds(11, 3) == ((0, 3), (3, 6), (6, 11))
    r = Records(np.arange(1.0, 12.0))
    assert [list(x[:, 0]) for x, _ in r.rounds(3)] == [[1, 2, 3], [4, 5, 6], [7, 8, 9, 10, 11]]


def test_more_rounds_than_records():
    with pytest.raises(SpecError) as error:
        list(Records(np.zeros(4)).rounds(5))
    assert [d.code for d in error.value.diagnostics] == ["DP540"]


def test_take_and_slice():
    r = Records(np.arange(10.0).reshape(5, 2), np.arange(5.0), public_x=np.ones((1, 2)))
    assert r.take([4, 0]).x.tolist() == [[8, 9], [0, 1]]
    assert r.take(np.array([True, False, False, False, True])).y.tolist() == [0, 4]
    assert r.slice(1, 3).y.tolist() == [1, 2]
    assert r.slice(1, 3).public_x.shape == (1, 2)


def test_sparse_records_stay_sparse():
    mine = sparse.random(50, 30, density=0.1, format="csr", rng=np.random.default_rng(0))
    r = Records(mine, np.zeros(50))
    before = r.x.toarray()
    assert mine.data.flags.writeable  # ours is read-only, the caller's is untouched
    assert not r.x.data.flags.writeable
    stacked = np.vstack([x.toarray() for x, _ in r.blocks(7)])
    assert np.array_equal(stacked, before)
    assert sum(x.shape[0] for x, _ in r.rounds(4)) == 50


# ---------------------------------------------------------------------------------------------------------------- generated


def counting(calls):
    def fill(block, x, y):
        calls.append(block)
        rng = np.random.default_rng([1, block])
        x[...] = rng.random(x.shape)
        y[...] = block

    return fill


@pytest.mark.parametrize("cache_bytes", [2**40, 0], ids=["kept", "drawn again"])
def test_every_reader_sees_the_same_records(cache_bytes):
    d = 400
    rows = drawing_rows(d)
    n = 3 * rows + 17
    whole = np.vstack([np.random.default_rng([1, b]).random((min(rows, n - b * rows), d)) for b in range(4)])
    owner = np.arange(n) // rows

    def records():
        return GeneratedRecords(n, d, counting([]), cache_bytes=cache_bytes)

    assert np.array_equal(records().x, whole)
    for size in (1000, 65536, rows):
        assert np.array_equal(np.vstack([x for x, _ in records().blocks(size)]), whole)
        assert max(len(x) for x, _ in records().blocks(size)) <= size
    assert np.array_equal(np.vstack([x for x, _ in records().rounds(5)]), whole)
    assert [len(x) for x, _ in records().rounds(5)] == [n // 5] * 4 + [n - 4 * (n // 5)]
    some = np.random.default_rng(2).integers(0, n, 200)
    assert np.array_equal(records().take(some).x, whole[some])
    assert np.array_equal(records().take(some).y, owner[some])
    mask = np.random.default_rng(3).random(n) < 0.1
    assert np.array_equal(records().take(mask).x, whole[mask])
    part = records().slice(rows - 5, 2 * rows + 5)
    assert np.array_equal(part.x, whole[rows - 5 : 2 * rows + 5])
    assert np.array_equal(np.vstack([x for x, _ in part.blocks(999)]), whole[rows - 5 : 2 * rows + 5])
    assert np.array_equal(part.take([-1]).x, whole[[2 * rows + 4]])


def test_a_kept_block_is_drawn_once_and_a_pass_never_draws_a_block_twice():
    n, d = 4 * drawing_rows(100), 100
    kept, again = [], []
    r = GeneratedRecords(n, d, counting(kept))
    for _ in range(3):
        for _block in r.blocks(500):
            pass
    assert sorted(kept) == [0, 1, 2, 3]
    r = GeneratedRecords(n, d, counting(again), cache_bytes=0)
    for _ in range(3):
        for _block in r.blocks(500):
            pass
    assert again == [0, 1, 2, 3] * 3


def test_generated_records_are_read_only_and_may_lack_a_target():
    r = GeneratedRecords(100, 2, counting([]), has_y=False)
    assert r.y is None
    (x, y) = next(r.blocks())
    assert y is None
    with pytest.raises(ValueError, match="read-only"):
        x[0, 0] = 1.0
    with pytest.raises(IndexError):
        r.take([100])


def test_two_data_sets_alive_at_once_do_not_share_memory() -> None:
    """The array of a finished trial is used again, but never while anybody still holds a piece of it."""

    def made(value: float) -> GeneratedRecords:
        def fill(block: int, x: np.ndarray, y: np.ndarray) -> None:
            x[:], y[:] = value, value

        return GeneratedRecords(1000, 3, fill)

    first, second = made(1.0), made(2.0)
    a = first.x
    assert (second.x == 2.0).all()
    assert (a == 1.0).all()
    del first, second
    third = made(3.0)
    assert (third.x == 3.0).all()
    assert (a == 1.0).all()
