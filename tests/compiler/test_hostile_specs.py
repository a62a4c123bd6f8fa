"""Specs that try to get a guarantee which is not true."""

from __future__ import annotations

import pytest

from dpspec.compiler.passes import compile_draft
from dpspec.compiler.plan import make_plan
from dpspec.lang.source import parse_text
from dpspec.report.terminal import plan_text
from dpspec.spec.diagnostics import SpecError

COVARIANCE = """\
analysis "moments"
data
  n = 1000, d = 4{constants}
  from memory
  private, unit person, neighbours {neighbours}
  x {domain}
privacy {privacy}
  epsilon = 1, delta = 1e-6
release s
  estimate covariance(x)
"""

PARTS = """\
analysis "two halves"
data
  n = 1000, d = 3
  private, unit person, neighbours {neighbours}
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)
privacy central
  epsilon = 1, delta = 1e-6
release a
  minimise logistic over ball(l2, 1)
  part 1/2
release b
  minimise logistic over ball(l2, 1)
  part {second}
"""


def text(constants: str = "", neighbours: str = "replace-one", domain: str = "in ball(l2, 1) by scale", privacy: str = "central") -> str:
    return COVARIANCE.format(constants=constants, neighbours=neighbours, domain=domain, privacy=privacy)


def errors(spec: str) -> set[str]:
    try:
        parsed = parse_text(spec, path="test.dps", surface="dps")
    except SpecError as error:
        return {d.code for d in error.diagnostics}
    return {d.code for d in compile_draft(parsed).diagnostics if d.severity == "error"}


@pytest.mark.parametrize(
    "name", ["x_l2", "x_l1", "x_linf", "y_abs", "w_l1", "w_l2", "w_linf", "w_radius", "L", "B", "strongly_convex", "l1_weight"]
)
def test_a_constant_cannot_take_the_place_of_a_bound_that_is_enforced_or_proved(name: str) -> None:
    assert errors(text()) == set()
    assert "DP107" in errors(text(constants=f", {name} = 1/1000"))


def test_words_in_a_finite_set_have_a_length() -> None:
    """x in {0, 1}^4: |x|_2 <= 2, so one replaced record moves the second moment by at most sqrt(2)*2^2/n in the Frobenius norm."""
    spec = text(domain="in {0, 1} by map(0 -> 0, 1 -> 1)").replace("covariance(x)", "second-moment(x)")
    plan = make_plan(parse_text(spec, path="t.dps", surface="dps"))
    (noise,) = plan.to_json()["releases"][0]["noise"]
    assert noise["sensitivity"] == pytest.approx(2**0.5 * 4 / 1000, rel=1e-12)


@pytest.mark.parametrize("domain", ["in simplex by reject", "in sparse(2) by reject", "in ball(l2, 1) by shrink(1)", "in R^d by reject"])
def test_a_rule_that_the_executor_does_not_have_is_refused_by_the_compiler(domain: str) -> None:
    assert "DP520" in errors(text(domain=domain))


def test_parts_by_row_number_are_not_disjoint_when_a_record_may_be_missing() -> None:
    """Without record 1 every later row moves up: the first part loses it and gains another, the second part loses that one."""
    assert errors(PARTS.format(neighbours="replace-one", second="1/2")) == set()
    assert errors(PARTS.format(neighbours="zero-out", second="1/2")) == set()
    assert errors(PARTS.format(neighbours="add-remove", second="1/2")) == {"DP306"}


def test_batches_of_rows_are_not_disjoint_when_a_record_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler refuses the tree, whatever the algorithm's own `accepts` says."""
    from dpspec.algorithms.matrix import dp_covariance_gaussian as module
    from dpspec.privacy.schedule import Disjoint

    plain = module.schedule
    monkeypatch.setattr(module, "schedule", lambda p, t: Disjoint(plain(p, t), 2))
    spec = text().replace("estimate covariance(x)", "estimate covariance(x)\n  by dp-covariance-gaussian")
    assert errors(spec) == set()
    assert errors(spec.replace("replace-one", "zero-out")) == set()
    assert errors(spec.replace("replace-one", "add-remove")) == {"DP306"}


def test_a_part_without_records_is_refused() -> None:
    assert "DP414" in errors(PARTS.format(neighbours="replace-one", second="1/5000"))


def test_a_local_model_does_not_hide_that_a_user_takes_part() -> None:
    assert errors(text(privacy="nldp")) == set()
    assert errors(text(privacy="nldp", neighbours="add-remove")) == {"DP306"}
    assert errors(text(privacy="nldp", neighbours="zero-out")) == set()


def test_the_relation_of_the_spec_reaches_the_accountants() -> None:
    """A sampler is checked against the relation: the calibration must know it."""
    for relation in ("replace-one", "add-remove", "zero-out"):
        draft = compile_draft(parse_text(text(neighbours=relation), path="t.dps", surface="dps"))
        assert draft.calibrated.neighbours == relation


def test_an_algorithm_that_needs_all_records_at_once_does_not_serve_an_online_release() -> None:
    assert errors(text(privacy="central online")) == {"DP401"}


@pytest.mark.parametrize(("words", "protects"), [("nldp labels only", "labels"), ("nldp", "records"), ("nldp attribute", "attributes")])
def test_the_guarantee_says_what_it_protects(words: str, protects: str) -> None:
    spec = text(privacy=words) if "labels" not in words else LABELS
    body = make_plan(parse_text(spec, path="t.dps", surface="dps")).to_json()
    assert body["guarantee"]["protects"] == protects
    assert (f"protects {protects} only" in plan_text(body)) == (protects != "records")


LABELS = """\
analysis "labels"
data
  n = 1000, d = 4
  from memory target "y"
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in [-1, 1] by clip
privacy nldp labels only
  epsilon = 1, delta = 1e-6
assume
  sparse(2)
release s
  estimate theta in y = <theta, x> + noise
"""
