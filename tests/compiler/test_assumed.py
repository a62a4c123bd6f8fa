"""Assumptions against the spec's own law, needs of cards by word and target, and words that nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from dpspec.compiler.draft import Chosen, Draft
from dpspec.compiler.passes import compile_draft
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from dpspec.spec.assumptions import ASSUMPTIONS, gives
from dpspec.spec.diagnostics import SpecError

SPEC = """analysis "a"
data
  n = 20_000, d = 3
  from memory
  private, unit person, neighbours replace-one
{domains}
privacy nldp
  epsilon = 4, delta = 1e-6
assume
  sparse(2)
{assume}
release theta
  estimate theta in y = <theta, x> + noise
  by nldp-sparse-linear-regression
simulate
  theta = sparse(2) unit l2
  x ~ normal(0, I)
  y = <theta, x> + uniform(-0.5, 0.5)
"""
STATED = ("sub-gaussian(1) of x", "sub-gaussian(1.1) of y", "eigenvalues in [1, 1] of x")


def drafted(*assume: str, domains: str = "") -> Draft[Any]:
    text = SPEC.replace("  sparse(2)\n", "", 1) if any(a in ("sparse(1)", "sparse(1/2)") for a in assume) else SPEC
    return compile_draft(parse_text(text.format(assume="\n".join(f"  {a}" for a in assume), domains=domains), surface="dps"))


def beside(stated: str) -> tuple[str, ...]:
    """What the other tests state, without another statement of the same word and target."""
    return tuple(s for s in STATED if s.split("(")[0].split()[0] != stated.split("(")[0].split()[0] or s.split()[-1] != stated.split()[-1])


def codes(draft: Draft[Any]) -> set[str]:
    return {d.code for d in draft.diagnostics}


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ("eigenvalues in [5, 5] of x", "variance"),
        ("sub-gaussian(1/2) of x", "second moment"),
        ("sub-gaussian(1/2) of y", "second moment"),
        ("moment(order 4, bound 2) of x", "order 4"),
        ("noise-bounded(0.4)", "noise"),
        ("bounded(0.4) of noise", "noise"),
        ("sparse(1)", "2 entries"),
        ("small-ball(0.9, 1)", "reach 1"),
    ],
)
def test_what_the_law_refutes_is_an_error_in_check_and_study(stated: str, reason: str) -> None:
    draft = drafted(*beside(stated), stated)
    (found,) = [d for d in draft.diagnostics if d.code == "DP225"]
    assert found.severity == "error"
    assert reason in found.message
    with pytest.raises(SpecError) as raised:
        study(draft.parsed, trials=2, workers=1)
    assert "DP225" in {d.code for d in raised.value.diagnostics}


@pytest.mark.parametrize(
    "stated", ["noise-bounded(0.5)", "isotropic", "moment(order 4, bound 3.1) of x", "small-ball(0.3, 1)", "centred of y"]
)
def test_what_the_law_has_is_let_through(stated: str) -> None:
    assert not codes(drafted(*beside(stated), stated)) & {"DP226", "DP224", "DP225"}


def test_an_assumption_of_the_enforced_records_is_as_good_as_one_of_the_law() -> None:
    """Scaled into a small ball the records have other eigenvalues: either is what an author may speak of."""
    domain = "  x in ball(l2, 1) by scale"
    assert "DP225" not in codes(drafted("eigenvalues in [1, 1] of x", domains=domain))
    assert "DP225" not in codes(drafted("eigenvalues in [0.2, 0.4] of x", domains=domain))
    assert "DP225" in codes(drafted("eigenvalues in [0.6, 0.7] of x", domains=domain))


def statuses(draft: Draft[Any]) -> dict[str, tuple[str, str]]:
    (release,) = draft.releases
    assert isinstance(release, Chosen)
    return {s.name: (s.status, s.evidence) for s in release.assumptions}


def test_what_was_not_refuted_is_tested_and_a_bound_still_says_that_it_holds_if() -> None:
    draft = drafted(*STATED)
    found = statuses(draft)
    assert found["sub-gaussian"][0] == found["eigenvalues"][0] == found["sparse"][0] == "tested"
    assert "draws of the law" in found["eigenvalues"][1]
    (release,) = draft.releases
    assert any("well conditioned" in h for b in release.bounds for h in b.holds_if)


def test_the_word_for_x_is_none_for_y() -> None:
    """dp-iht-subgaussian needs both; sub-gaussian of x alone says nothing of y."""
    text = SPEC.replace("privacy nldp", "privacy central").replace("nldp-sparse-linear-regression", "dp-iht-subgaussian")
    one, both = (
        "  sub-gaussian(1) of x\n  eigenvalues in [1, 1]",
        "  sub-gaussian(1) of x\n  sub-gaussian(1.1) of y\n  eigenvalues in [1, 1]",
    )
    found = [statuses(compile_draft(parse_text(text.format(assume=a, domains=""), surface="dps"))) for a in (one, both)]
    assert (found[0]["sub-gaussian"][0], found[1]["sub-gaussian"][0]) == ("declared", "tested")
    assert found[0]["sub-gaussian"][1].startswith("not stated of y")


@pytest.mark.parametrize(
    ("stated", "of", "need", "targets", "is_"),
    [
        ("restricted-strongly-convex", None, "rsc", (), True),
        ("bounded", "noise", "noise-bounded", (), True),
        ("sub-gaussian", "x", "sub-gaussian", ("y",), False),
        ("sub-gaussian", None, "sub-gaussian", ("x",), True),
        ("sub-gaussian", "y", "moment", ("y",), True),
        ("moment", "gradient", "moment", ("gradient",), True),
        ("moment", "x", "moment", ("gradient",), False),
        ("isotropic", None, "eigenvalues", (), True),
        ("eigenvalues", None, "isotropic", (), False),
        ("eigen-gap", "x", "eigengap", (), True),
    ],
)
def test_statements_meet_needs_by_word_and_target(stated: str, of: str | None, need: str, targets: tuple[str, ...], is_: bool) -> None:
    assert gives(stated, of, need, targets) is is_


def test_words_are_in_the_registry_once_and_implications_are_words() -> None:
    spellings = [s for word, a in ASSUMPTIONS.items() for s in (word, *a.also)]
    assert len(spellings) == len(set(spellings))
    assert all(w in ASSUMPTIONS for a in ASSUMPTIONS.values() for w in a.implies)
    assert all(a.test or a.shown for a in ASSUMPTIONS.values())


@pytest.mark.parametrize(("stated", "help"), [("my-own-word", "one of"), ("heavy-tailed of y", ""), ("bounded(2) of x", "")])
def test_a_word_that_nobody_knows_is_an_error(stated: str, help: str) -> None:
    found = [d for d in drafted(stated).diagnostics if d.code in ("DP107", "DP226")]  # the reader names near misses itself
    assert found
    assert found[0].severity == "error"
    assert help in found[0].help


def test_a_target_that_a_word_cannot_have_is_an_error() -> None:
    (found,) = [d for d in drafted("eigenvalues in [1, 1] of y").diagnostics if d.code == "DP226"]
    assert "not of `y`" in found.message


@pytest.mark.parametrize(
    ("stated", "code", "message"),
    [
        (("centred(3) of x",), "DP226", "takes no constants, and has 1"),
        (("sub-gaussian(1, 2) of x",), "DP226", "takes 1 constant, and has 2"),
        (("sub-gaussian(proxy 1) of x",), "DP226", "has no constant `proxy`"),
        (("moment(order 2, bound 5, extra 7) of x",), "DP226", "has no constant `extra`"),
        (("moment(bound 5) of x",), "DP226", "without `order`"),
        (("moment(2, order 2) of x",), "DP226", "`order` twice"),
        (("eigenvalues in [2, 1] of x",), "DP411", "is empty"),
        (("monotone(2, 1)",), "DP411", "is empty"),
        (("sparse(1/2)",), "DP411", "entries are counted"),
        (("moment(order 0, bound 1) of x",), "DP411", "must be positive"),
        (("sub-gaussian(1) of x", "sub-gaussian(2) of x"), "DP226", "stated twice"),
        (("sub-gaussian(1)", "subgaussian(2) of x"), "DP226", "stated twice"),
        (("moment(order 2, bound 3) of x", "moment(order 4, bound 9) of x"), "DP226", "stated twice"),
    ],
)
def test_constants_that_a_word_does_not_take_are_refused(stated: tuple[str, ...], code: str, message: str) -> None:
    found = [d for d in drafted(*stated).diagnostics if d.code == code]
    assert any(message in d.message for d in found)


def test_constants_by_name_may_stand_in_any_order() -> None:
    """The bound before the order, once read as a moment of order 3.2 below 4."""
    one, other = (drafted(s).facts for s in ("moment(order 4, bound 3.2) of x", "moment(bound 3.2, order 4) of x"))
    assert one == other
    assert other["moment_order_x"] == 4
    assert "DP225" in codes(drafted("moment(bound 2, order 4) of x"))


def test_a_restricted_eigenvalue_is_a_lower_bound_and_no_isometry() -> None:
    """E <w, x>^2 = |w|^2 for N(0, I): at least 1/10 of |w|^2 is true, within 1/10 of it for N(0, 2 I) would not be."""
    assert gives("rip", None, "restricted-eigenvalue", ())
    assert not gives("restricted-eigenvalue", None, "rip", ())
    assert "DP225" not in codes(drafted("restricted-eigenvalue(0.1)"))
    assert "DP225" in codes(drafted("restricted-eigenvalue(1.1)"))


@pytest.mark.parametrize("stated", ["margin(0.1)", "one-point-convex(1, 1)", "sparse(1) of covariance", "centred of gradient"])
def test_what_no_sample_shows_is_declared_and_not_tested(stated: str) -> None:
    """There is no loss, no label, and theta is no margin's; the draws of the law are no test of any of it."""
    assert drafted(*STATED, stated).tested.keys() == {0, 1, 2, 3}
