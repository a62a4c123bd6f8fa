"""One policy for NaN and infinities, whatever the rule and however the records are stored (docs/data.md).

Loading refuses them before any rule is asked, in the same words for every rule; whatever reaches the rules all the same (synthetic
records, callers of ``enforce``) counts as zeros: the outcome is that of the same records with zeros in their place.
"""

import numpy as np
import pytest
from scipy import sparse

from dpspec.data.enforce import enforce
from dpspec.data.records import GeneratedRecords, Records
from dpspec.data.sources import load
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, Box, Data, Domain, Enforcement, Finite, MemorySource, Reals

NOT_FINITE = [np.nan, np.inf, -np.inf]
BITS = Finite(values=(num(0), num(1)))


def rule(variable, set_, how, **more):
    return Domain(variable=variable, set=set_, by=Enforcement(how=how, **more))


def interval(low, high):
    return Box(low=num(low), high=num(high))


def sets(variable):
    """Every word with every kind of set that it takes; the flag says whether zeros stay zeros (CSR records need that)."""
    swap = (("1", num(0)), ("0", num(1)))
    return {
        "scale l2": (rule(variable, Ball(norm="l2", radius=num(1)), "scale"), True),
        "scale l1": (rule(variable, Ball(norm="l1", radius=num(1)), "scale"), True),
        "scale linf": (rule(variable, Ball(norm="linf", radius=num(1)), "scale"), True),
        "scale interval": (rule(variable, interval(-1, 1), "scale"), True),
        "clip linf": (rule(variable, Ball(norm="linf", radius=num(1)), "clip"), True),
        "clip interval": (rule(variable, interval(-1, 2), "clip"), True),
        "clip interval without zero": (rule(variable, interval(1, 2), "clip"), False),
        "clip finite": (rule(variable, BITS, "clip"), True),
        "shrink": (rule(variable, Reals(), "shrink", tau=num("1/2")), True),
        "shrink l2": (rule(variable, Ball(norm="l2", radius=num(4)), "shrink", tau=num("1/2")), True),
        "reject l2": (rule(variable, Ball(norm="l2", radius=num(1)), "reject"), True),
        "reject l1": (rule(variable, Ball(norm="l1", radius=num(1)), "reject"), True),
        "reject linf": (rule(variable, Ball(norm="linf", radius=num(1)), "reject"), True),
        "reject interval": (rule(variable, interval(-1, 2), "reject"), True),
        "reject finite": (rule(variable, BITS, "reject"), True),
        "map": (rule(variable, BITS, "map", mapping=swap), False),
        "map of zero to itself": (rule(variable, BITS, "map", mapping=(("1", num(1)), ("0", num(0)))), True),
        "map of the unlisted to zero": (rule(variable, BITS, "map", mapping=(("no", num(0)), ("1", num(1)))), True),
        "declared only": (Domain(variable=variable, set=Ball(norm="l2", radius=num(1))), True),
    }


def test_every_word_is_here():
    words = {name.split()[0] for name in sets("x")} - {"declared"}
    assert words == set(Enforcement.model_fields["how"].annotation.__args__)


def x_of(spoiled, seed=3):
    """Six records of five coordinates; ``spoiled`` replaces one coordinate of record 2."""
    x = np.random.default_rng(seed).standard_normal((6, 5)) * 2
    x[np.abs(x) < 0.4] = 0.0
    x[2, 1] = spoiled
    return x


def zeroed():
    x = x_of(1.0)
    x[2] = 0.0
    return x


@pytest.mark.parametrize("spoiled", NOT_FINITE)
@pytest.mark.parametrize("name", sorted(sets("x")))
def test_a_dense_record_that_is_not_finite_is_one_of_zeros(name, spoiled):
    rules = Data(domains=(sets("x")[name][0],))
    out, counts = enforce(Records(x_of(spoiled)), rules)
    plain, _ = enforce(Records(zeroed()), rules)
    assert out.x.tobytes() == plain.x.tobytes()
    assert counts.not_finite == {"x": 1}


@pytest.mark.parametrize("spoiled", NOT_FINITE)
@pytest.mark.parametrize("name", sorted(sets("x")))
def test_a_sparse_record_too_and_it_gives_the_dense_values(name, spoiled):
    found, keeps_zero = sets("x")[name]
    rules = Data(domains=(found,))
    records = Records(sparse.csr_array(x_of(spoiled)))
    if not keeps_zero:
        with pytest.raises(SpecError, match="DP522"):
            enforce(records, rules)
        return
    out, counts = enforce(records, rules)
    plain, _ = enforce(Records(sparse.csr_array(zeroed())), rules)
    dense, _ = enforce(Records(x_of(spoiled)), rules)
    assert sparse.issparse(out.x)
    assert not out.x.toarray()[2].any()
    assert np.array_equal(out.x.toarray(), plain.x.toarray())
    assert out.x.toarray() == pytest.approx(dense.x, rel=1e-14)
    assert counts.not_finite == {"x": 1}


@pytest.mark.parametrize("spoiled", NOT_FINITE)
@pytest.mark.parametrize("name", sorted(sets("y")))
def test_a_target_that_is_not_finite_is_zero(name, spoiled):
    rules = Data(domains=(sets("y")[name][0],))
    y = np.array([0.0, 1.0, spoiled, -3.0, 0.7, 5.0])
    for x in (np.ones((6, 1)), sparse.csr_array(np.eye(6))):
        out, counts = enforce(Records(x, y), rules)
        plain, _ = enforce(Records(x, np.where(np.isfinite(y), y, 0.0)), rules)
        assert out.y.tobytes() == plain.y.tobytes()
        assert counts.not_finite == {"x": 0, "y": 1}


@pytest.mark.parametrize("name", sorted(sets("x")))
def test_generated_records_follow_it_as_they_are_drawn(name):
    rules = Data(domains=(sets("x")[name][0],))

    def fill(spoiled):
        def draw(block, x, y):
            x[...] = x_of(1.0) if spoiled is None else x_of(spoiled)
            if spoiled is None:
                x[2] = 0.0
            y[...] = 0.0

        return draw

    plain, _ = enforce(GeneratedRecords(6, 5, fill(None)), rules)
    for spoiled in NOT_FINITE:
        out, _ = enforce(GeneratedRecords(6, 5, fill(spoiled)), rules)
        assert out.x.tobytes() == plain.x.tobytes()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", sorted(sets("x")))
def test_loading_refuses_in_the_same_words_whatever_the_rule_and_the_record(name, form):
    """Private data: one code for missing and one for infinite, and no word of which record or how many."""

    def refusal(domains, x):
        with pytest.raises(SpecError) as caught:
            load(Data(n=num(6), source=MemorySource(), domains=domains), memory=form(x), private=True)
        return [(d.code, d.message, d.help) for d in caught.value.diagnostics]

    chosen = (sets("x")[name][0],)
    for spoiled, code in zip(NOT_FINITE, ("DP504", "DP506", "DP506"), strict=True):
        found = refusal(chosen, x_of(spoiled))
        assert [d[0] for d in found] == [code]
        assert found == refusal((), x_of(spoiled))
        more = x_of(spoiled)
        more[[0, 4], 1] = spoiled
        assert found == refusal(chosen, more)
        assert found == refusal(chosen, x_of(spoiled)[::-1])


@pytest.mark.parametrize(("first", "second"), [(np.nan, np.inf), (np.inf, np.nan)])
def test_missing_comes_before_infinite_in_both_forms(first, second):
    x = x_of(1.0)
    x[1, 0], x[4, 3] = first, second
    codes = []
    for form in (np.asarray, sparse.csr_array):
        with pytest.raises(SpecError) as caught:
            load(Data(n=num(6), source=MemorySource()), memory=form(x), private=True)
        codes.append([d.code for d in caught.value.diagnostics])
    assert codes == [["DP504"], ["DP504"]]
