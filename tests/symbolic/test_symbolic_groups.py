"""Group norms in a loss: what is recognised, in which spellings, and what the certificate says of it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpspec.domains.domain import ball, finite
from dpspec.lang.source import parse_expr
from dpspec.symbolic.certify import certify
from dpspec.symbolic.findings import Claim
from dpspec.symbolic.groups import Groups, GroupTerm, groups, named


def go(text: str, *, d: int | None = 10, claims: tuple[Claim, ...] = (), radius: int = 1, **names: int):
    values = names if d is None else {"d": d, **names}
    return certify(parse_expr(text), over=ball("l2", radius), x=ball("l2", 1), y=finite(-1, 1), names=values, claims=claims)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("0.1*group(w, 5)", GroupTerm(0.1, Groups((5,)))),
        ("group(w, 5)/10", GroupTerm(0.1, Groups((5,)))),
        ("0.1*group(w, 5, 5)", GroupTerm(0.1, Groups((5,)))),  # one spelling for equal sizes
        ("0.1*group(w, 7, 3)", GroupTerm(0.1, Groups((7,)))),  # the last may be smaller
        ("0.1*group(w, 3, 7)", GroupTerm(0.1, Groups((3, 7)))),
        ("0.1*group(w, 3, 2, 5)", GroupTerm(0.1, Groups((3, 2, 5)))),
        ("0.1*group(w, k)", GroupTerm(0.1, Groups((4,)))),
        ("0.1*group(w, d)", GroupTerm(0.1, Groups((10,)))),
        ("group-lasso(0.1, 5)", GroupTerm(0.1, Groups((5,), True))),
        ("0.05*group(w, 5) + 0.05*group(w, 5, 5)", GroupTerm(0.1, Groups((5,)))),  # the same groups twice
        ("group-lasso(1/10, 3, 7)", GroupTerm(0.1, Groups((3, 7), True))),
    ],
)
def test_spellings(text: str, term: GroupTerm) -> None:
    got = go(f"logistic + {text}", k=4)
    assert got.group == term
    assert got.exact_regulariser
    assert (got.l1, got.l2) == (0.0, 0.0)


def test_the_groups_of_d_coordinates() -> None:
    assert Groups((4,)).blocks(10) == (4, 4, 2)
    assert Groups((4,)).blocks(3) == (3,)
    assert Groups((3, 2)).blocks(5) == (3, 2)
    assert Groups((3, 2)).weights(5) == (1.0, 1.0)
    assert Groups((4,), True).weights(9) == (2.0, 2.0, 1.0)
    with pytest.raises(ValueError, match="add up to 5"):
        Groups((3, 2)).blocks(6)
    with pytest.raises(ValueError, match="missing"):
        groups([], False, 3)


@pytest.mark.parametrize("found", [Groups((5,)), Groups((3, 2, 5)), Groups((1,), True), Groups((12, 1), True)])
def test_names_of_atoms(found: Groups) -> None:
    assert named(found.name) == found
    assert named("|w|_1") is None


def test_the_data_part_keeps_its_constants() -> None:
    """The penalty's gradient is the same for every record: it cancels in differences."""
    plain, got = go("logistic + 0.2/2*|w|^2"), go("logistic + 0.2/2*|w|^2 + 0.3*group(w, 3, 7) + 0.1*|w|_1")
    assert (got.lipschitz, got.smooth, got.strongly_convex, got.convex) == (plain.lipschitz, plain.smooth, plain.strongly_convex, True)
    assert (got.l1, got.l2, got.group) == (0.1, 0.2, GroupTerm(0.3, Groups((3, 7))))
    assert got.form == plain.form
    assert any("cancels" in e for e in got.evidence)
    assert go("logistic + 0.3*group(w, 5)").strongly_convex == 0.0  # a norm curves across its groups only


def test_an_elastic_net_written_out_is_the_named_one() -> None:
    a, b = go("logistic + 0.1*|w|_1 + 0.2/2*|w|^2"), go("logistic + elastic-net(0.1, 0.2)")
    assert (a.l1, a.l2, a.strongly_convex, a.form) == (b.l1, b.l2, b.strongly_convex, b.form)
    assert (a.l1, a.l2) == (0.1, 0.2)


@pytest.mark.parametrize(
    "text",
    [
        "exp(group(w, 5))",
        "group(w, 5)^2",
        "group(w, 5)*|w|_1",
        "group(w, 5) + group(w, 2)",  # two groupings
        "group(w, 5) + group-lasso(1, 5)",
        "0.1*|w|",
    ],
)
def test_terms_that_no_algorithm_treats(text: str) -> None:
    got = go(f"logistic + {text}")
    assert not got.exact_regulariser
    assert got.convex is None
    assert "DP215" in {f.code for f in got.findings}


@pytest.mark.parametrize(
    "text",
    ["group(w)", "group(x, 5)", "group(5, w)", "group-lasso(0.1)", "group(w, 0)", "group(w, 1/2)", "group(w, 3, 2)", "group(w, y)"],
)
def test_groups_that_are_none(text: str) -> None:
    got = go(f"logistic + 0.1*{text}")
    assert {f.code for f in got.findings} == {"DP216"}
    assert got.method == "none"


def test_a_group_norm_times_a_record_is_no_regulariser() -> None:
    assert {f.code for f in go("logistic + y*group(w, 5)").findings} == {"DP200"}


def test_a_negative_weight_is_not_convex_for_sure() -> None:
    assert go("logistic - 0.1*group(w, 5)").convex is None


def test_a_group_norm_may_make_up_for_concavity() -> None:
    """sigmoid is not convex; a norm adds curvature across its groups, so the witness of the data part decides nothing any more."""
    assert go("sigmoid", radius=10).convex is False
    assert go("sigmoid + 0.1*group(w, 5)", radius=10).convex is None
    assert go("sigmoid + 0.1*|w|_1", radius=10).convex is False  # flat almost everywhere


def test_claims_about_a_loss_with_a_kink() -> None:
    """The data part is 1/4-smooth; the whole is not smooth at w_g = 0, so smooth(1) is never "proved"."""
    claim = (Claim("smooth", Fraction(1), 0),)
    assert {f.code for f in go("logistic", claims=claim).findings} == {"DP205"}  # holds, and loosely
    assert {f.code for f in go("logistic + 0.1*group(w, 5)", claims=claim).findings} == {"DP206"}  # declared only
    strong = (Claim("strongly-convex", Fraction(5), 0),)
    assert {f.code for f in go("logistic", claims=strong).findings} == {"DP204"}  # false
    assert {f.code for f in go("logistic + 0.1*group(w, 5)", claims=strong).findings} == {"DP206"}
