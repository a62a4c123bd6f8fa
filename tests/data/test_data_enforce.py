"""Enforcement: the declared domain holds, exactly, for every record that a float64 array can contain."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from dpspec.data.enforce import enforce
from dpspec.data.records import GeneratedRecords, Records
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import Call, Name, Num, num
from dpspec.spec.model import Ball, Box, Data, Domain, Enforcement, Finite, Reals, Simplex


def data(*domains):
    return Data(domains=domains)


def domain(variable, set_, how, **more):
    return Domain(variable=variable, set=set_, by=Enforcement(how=how, **more))


def ball(norm, r):
    return Ball(norm=norm, radius=num(r) if not isinstance(r, float) else Num(Fraction(r)))


def exact_norm_at_most(row, norm, r):
    """Whether the real norm of the doubles in ``row`` is at most r, in rational arithmetic."""
    v = [abs(Fraction(float(a))) for a in row]
    r = Fraction(r)
    if norm == "linf":
        return max(v, default=0) <= r
    if norm == "l1":
        return sum(v) <= r
    return sum(a * a for a in v) <= r * r


def computed_norms(row, norm):
    """The norm as different programs compute it."""
    order = {"l2": 2, "l1": 1, "linf": np.inf}[norm]
    found = [float(np.linalg.norm(row, ord=order)), float(np.linalg.norm(row[::-1], ord=order))]
    if norm == "l2":
        found += [math.sqrt(float(np.dot(row, row))), math.hypot(*row), math.sqrt(sum(float(a) * float(a) for a in row))]
    if norm == "l1":
        found += [math.fsum(abs(row)), sum(abs(float(a)) for a in row)]
    return found


anything = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
nasty = st.one_of(
    anything, st.sampled_from([5e-324, -5e-324, 2.2e-308, 1e-200, 1e-160, 1.0, -1.0, 1e154, 1.4e154, 1e200, 1e308, -1.7976931348623157e308])
)


@pytest.mark.parametrize("how", ["scale", "reject"])
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@settings(max_examples=150, deadline=None)
@given(
    rows=arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 9)), elements=nasty),
    r=st.sampled_from([1.0, 0.1, 3e-9, 1e-240, 1e140]),
)
def test_balls_hold_exactly_for_any_input(how, norm, rows, r):
    rules = data(domain("x", ball(norm, r), how))
    for x in (rows, sparse.csr_array(rows)):
        out, _ = enforce(Records(x), rules)
        dense = out.x.toarray() if sparse.issparse(out.x) else out.x
        for before, after in zip(rows, dense, strict=True):
            assert exact_norm_at_most(after, norm, r)
            for size in computed_norms(after, norm):
                assert size <= r
            if not np.isfinite(before).all():
                assert not after.any()
            elif exact_norm_at_most(before, norm, Fraction(r) * (1 - Fraction(1, 10**12))):
                assert np.array_equal(before, after)
        again, counts = enforce(Records(dense), rules)
        assert np.array_equal(again.x, dense)
        assert counts.touched == {"x": 0}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), d=st.sampled_from([1, 2, 3, 50, 1000]), exponent=st.integers(-249, 149))
def test_scaled_records_point_the_same_way_and_reach_the_radius(seed, d, exponent):
    x = np.random.default_rng(seed).standard_normal((20, d))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    out, counts = enforce(Records(unit * 10.0**exponent * 1.5), data(domain("x", ball("l2", Fraction(10) ** exponent), "scale")))
    assert counts.touched["x"] == 20
    assert np.linalg.norm(out.x / 10.0**exponent, axis=1) == pytest.approx(np.ones(20), rel=1e-9)
    assert out.x / 10.0**exponent == pytest.approx(unit, rel=1e-9, abs=1e-12)


def test_rounding_never_leaves_unit_vectors_outside():
    # plain x/|x| leaves hundreds of these vectors with a computed norm above 1: the test would see it
    x = np.random.default_rng(0).standard_normal((20_000, 17))
    plain = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert (np.linalg.norm(plain, axis=1) > 1).sum() > 100
    out, _ = enforce(Records(x), data(domain("x", ball("l2", 1), "scale")))
    assert (np.linalg.norm(out.x, axis=1) <= 1).all()
    assert (np.sqrt((out.x**2).sum(axis=1)) <= 1).all()
    long = np.linalg.norm(x, axis=1) > 1
    assert np.linalg.norm(out.x[long], axis=1).min() > 1 - 1e-13


def test_counts_are_of_records_outside_and_not_of_rounding():
    x = np.array([[1.0, 0.0], [0.6, 0.8], [3.0, 4.0], [np.nan, 1.0], [np.inf, 0.0], [0.0, 0.0]])
    out, counts = enforce(Records(x), data(domain("x", ball("l2", 1), "scale")))
    assert counts.touched == {"x": 1}
    assert counts.not_finite == {"x": 2}
    assert out.x[2] == pytest.approx([0.6, 0.8], rel=1e-13)
    assert not out.x[3:].any()


def test_a_radius_that_is_no_double_is_rounded_down():
    # 1/10 lies below the double 0.1
    out, _ = enforce(Records([[1.0], [-1.0]]), data(domain("x", ball("linf", "1/10"), "clip")))
    assert Fraction(float(out.x.max())) <= Fraction(1, 10)
    assert float(out.x.max()) == math.nextafter(0.1, 0)
    out, _ = enforce(Records([[1.0], [-1.0]]), data(domain("x", Box(low=num("-1/3"), high=num("1/10")), "clip")))
    assert Fraction(-1, 3) <= Fraction(float(out.x.min()))


@settings(max_examples=100, deadline=None)
@given(rows=arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=nasty))
@pytest.mark.parametrize("how", ["clip", "reject"])
def test_boxes_hold(how, rows):
    out, counts = enforce(Records(rows), data(domain("x", Box(low=num(-2), high=num("1e-320")), how)))
    assert ((out.x >= -2) & (out.x <= 1e-320)).all()
    finite = np.isfinite(rows).all(axis=1)
    inside = ((rows >= -2) & (rows <= 1e-320)).all(axis=1)
    assert np.array_equal(out.x[inside], rows[inside])
    assert not out.x[~finite].any()
    assert counts.touched["x"] == int((finite & ~inside).sum())
    assert counts.not_finite["x"] == int((~finite).sum())
    if how == "reject":
        assert not out.x[~inside].any()


def test_a_box_without_zero_takes_non_finite_records_to_its_edge():
    out, counts = enforce(Records([[0.0], [np.nan], [5.0]]), data(domain("x", Box(low=num(1), high=num(2)), "clip")))
    assert out.x[:, 0].tolist() == [1, 1, 2]
    assert (counts.touched["x"], counts.not_finite["x"]) == (2, 1)  # a record is counted once


def test_shrink_clamps_each_coordinate():
    x = np.array([[3.0, -0.5], [-7.0, 1e300]])
    out, counts = enforce(Records(x), data(domain("x", Reals(), "shrink", tau=num(2))))
    assert out.x.tolist() == [[2, -0.5], [-2, 2]]
    assert counts.touched == {"x": 2}


@pytest.mark.parametrize(("norm", "smallest"), [("l2", 2), ("l1", 4), ("linf", 1)])
def test_shrink_needs_a_set_that_holds_the_cube(norm, smallest):
    x = np.full((3, 4), 9.0)
    out, _ = enforce(Records(x), data(domain("x", ball(norm, smallest), "shrink", tau=num(1))))
    assert exact_norm_at_most(out.x[0], norm, smallest)
    assert out.x == pytest.approx(np.ones((3, 4)), rel=1e-12)
    with pytest.raises(SpecError, match="DP520"):
        enforce(Records(x), data(domain("x", ball(norm, Fraction(smallest) - Fraction(1, 10**9)), "shrink", tau=num(1))))


# ------------------------------------------------------------------------------------------------------------ finite targets

SIGNS = Finite(values=(num(-1), num(1)))


def test_map_labels():
    y = np.array([0, 1, 1, 0, 2, np.nan, np.inf, -1])
    rules = data(domain("y", SIGNS, "map", mapping=(("0", num(-1)), ("1", num(1)))))
    out, counts = enforce(Records(np.zeros(8), y), rules)
    assert out.y.tolist() == [-1, 1, 1, -1, -1, -1, -1, -1]  # anything else becomes the first listed image
    assert (counts.touched["y"], counts.not_finite["y"]) == (2, 2)  # 2 and -1; NaN and infinity become 0 first, which is a key here
    again, _ = enforce(out, rules)
    assert again.y.tolist() == out.y.tolist()


def test_map_that_swaps_is_applied_once():
    rules = data(domain("y", SIGNS, "map", mapping=(("-1", num(1)), ("1", num(-1)))))
    once, _ = enforce(Records(np.zeros(2), [-1.0, 1.0]), rules)
    twice, _ = enforce(once, rules)
    assert once.y.tolist() == twice.y.tolist() == [1, -1]


def test_clip_to_a_finite_set_takes_the_nearest_and_the_first_of_two():
    y = np.array([0.0, 1.0, 0.2, -3, np.nan, 1e308])
    out, _ = enforce(Records(np.zeros(6), y), data(domain("y", SIGNS, "clip")))
    other, _ = enforce(Records(np.zeros(6), y), data(domain("y", Finite(values=(num(1), num(-1))), "clip")))
    assert other.y.tolist() == [1, 1, 1, -1, 1, 1]
    assert out.y.tolist() == [-1, 1, 1, -1, -1, 1]


def test_reject_from_a_finite_set():
    rules = data(domain("y", Finite(values=(num(0), num(1), num("1/3"))), "reject"))
    out, counts = enforce(Records(np.zeros(4), [0.5, 1, 1 / 3, 0]), rules)
    assert out.y.tolist() == [0, 1, 1 / 3, 0]
    assert counts.touched == {"x": 0, "y": 1}


# ----------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("d", "code"),
    [
        (domain("x", ball("l2", 1), "clip"), "DP520"),
        (domain("x", Box(low=num(0), high=num(1)), "scale"), "DP520"),
        (domain("x", Box(low=num(1), high=num(2)), "reject"), "DP520"),
        (domain("y", SIGNS, "reject"), "DP520"),
        (domain("y", SIGNS, "scale"), "DP520"),
        (domain("y", SIGNS, "map", mapping=(("0", num(0)),)), "DP520"),
        (domain("x", Simplex(), "scale"), "DP520"),
        (domain("x", ball("l2", 0), "scale"), "DP521"),
        (domain("x", ball("l2", -1), "scale"), "DP521"),
        (domain("x", ball("l2", "1e-300"), "scale"), "DP521"),
        (domain("x", ball("l2", "1e200"), "scale"), "DP521"),
        (domain("x", Ball(norm="l2", radius=Name("r")), "scale"), "DP521"),
        (domain("x", Ball(norm="l2", radius=Call("log", (num(0),))), "scale"), "DP521"),
        (domain("x", Box(low=num(2), high=num(1)), "clip"), "DP521"),
        (domain("z", ball("l2", 1), "scale"), "DP523"),
    ],
)
def test_rules_that_cannot_hold_are_refused(d, code):
    with pytest.raises(SpecError) as error:
        enforce(Records(np.zeros((3, 2)), np.ones(3)), data(d))
    assert [x.code for x in error.value.diagnostics] == [code]


def test_a_domain_of_a_target_that_is_not_there():
    with pytest.raises(SpecError, match="DP523"):
        enforce(Records(np.zeros((3, 2))), data(domain("y", SIGNS, "clip")))


def test_two_domains_must_not_undo_each_other():
    both = data(domain("x", ball("linf", 1), "clip"), domain("x", ball("l2", 1), "scale"))
    x = np.array([[5.0, 0.1], [0.3, 0.2], [1.0, 1.0]])
    out, _ = enforce(Records(x), both)
    assert (np.abs(out.x) <= 1).all()
    assert (np.linalg.norm(out.x, axis=1) <= 1).all()
    with pytest.raises(SpecError, match="DP520"):
        enforce(Records(x), data(domain("x", Box(low=num(1), high=num(2)), "clip"), domain("x", ball("l2", 1), "scale")))


def test_a_declared_domain_changes_nothing_but_not_finite_values():
    x = np.array([[50.0, 1.0], [np.nan, 2.0]])
    out, counts = enforce(Records(x), data(Domain(variable="x", set=ball("l2", 1))))
    assert out.x.tolist() == [[50, 1], [0, 0]]
    assert counts.touched == {"x": 0}


def test_the_size_of_a_domain_may_depend_on_n_and_d():
    radius = Call("sqrt", (Name("d"),))
    out, _ = enforce(Records(np.full((5, 9), 100.0)), data(domain("x", Ball(norm="l2", radius=radius), "scale")))
    assert np.linalg.norm(out.x, axis=1) == pytest.approx(np.full(5, 3.0), rel=1e-12)
    assert (np.linalg.norm(out.x, axis=1) <= 3).all()


# ------------------------------------------------------------------------------------------------- sparse, public, generated


@pytest.mark.parametrize(
    "how_set",
    [("scale", ball("l2", "1/2")), ("scale", ball("l1", 1)), ("clip", Box(low=num(-1), high=num("0.3"))), ("reject", ball("linf", "0.9"))],
)
def test_sparse_and_dense_agree(how_set):
    how, s = how_set
    x = sparse.random(300, 40, density=0.08, format="csr", rng=np.random.default_rng(5), data_rvs=np.random.default_rng(6).standard_normal)
    rules = data(domain("x", s, how))
    a, ca = enforce(Records(x), rules)
    b, cb = enforce(Records(x.toarray()), rules)
    assert sparse.issparse(a.x)
    assert a.x.toarray() == pytest.approx(b.x, rel=1e-12)
    assert ca.touched == cb.touched
    assert (np.diff(x.indptr) == 0).any()  # empty rows are part of the test


def test_sparse_records_are_not_densified():
    x = sparse.random(2000, 1_000_000, density=1e-5, format="csr", rng=np.random.default_rng(5))
    out, _ = enforce(Records(x), data(domain("x", ball("l2", 1), "scale")))  # dense it would be 16 GB
    assert out.x.nnz == x.nnz
    with pytest.raises(SpecError, match="DP522"):
        enforce(Records(x), data(domain("x", Box(low=num(1), high=num(2)), "clip")))


def test_public_records_are_enforced_too():
    out, _ = enforce(Records(np.zeros((2, 2)), public_x=np.array([[3.0, 4.0]])), data(domain("x", ball("l2", 1), "scale")))
    assert out.public_x[0] == pytest.approx([0.6, 0.8], rel=1e-12)


@pytest.mark.parametrize("cache_bytes", [2**40, 0])
def test_generated_records_are_enforced_as_they_are_drawn(cache_bytes):
    def fill(block, x, y):
        rng = np.random.default_rng(block)
        x[...] = rng.standard_t(2, x.shape)
        y[...] = rng.integers(0, 2, y.shape)

    n, d = 30_000, 64
    rules = data(domain("x", ball("l2", 5), "scale"), domain("y", SIGNS, "map", mapping=(("0", num(-1)), ("1", num(1)))))
    generated, counts = enforce(GeneratedRecords(n, d, fill, cache_bytes=cache_bytes), rules)
    memory, expected = enforce(GeneratedRecords(n, d, fill).in_memory(), rules)
    assert counts.touched == {}
    for _ in range(2):  # a second pass must not count twice
        assert np.array_equal(np.vstack([x for x, _ in generated.blocks()]), memory.x)
    assert np.array_equal(generated.y, memory.y)
    assert counts.touched == expected.touched
    assert counts.touched["x"] > n // 2


def test_one_record_moves_only_itself():
    rng = np.random.default_rng(11)
    for (norm, how), _ in itertools.product((("l2", "scale"), ("l1", "scale"), ("linf", "reject"), ("linf", "clip")), range(3)):
        x = rng.standard_normal((40, 6)) * 3
        other = x.copy()
        other[17] = [1e308, -1e308, 0, 1, 1, 1]
        rules = data(domain("x", ball(norm, 1), how))
        a, b = enforce(Records(x), rules)[0].x, enforce(Records(other), rules)[0].x
        keep = np.arange(40) != 17
        assert np.array_equal(a[keep], b[keep])
