"""The cards of the family that are no algorithms, and what the compiler says of them."""

from __future__ import annotations

import pytest

from dpspec.algorithms.registry import cards, get
from dpspec.compiler.passes import compile_draft
from dpspec.executor.study import study
from dpspec.lang.source import parse_text

FAMILY = {c.id: c for c in cards() if c.family == "matrix"}
LOCAL = """\
analysis "t"

data
  n = 20_000, d = 6, rank = 2
  from memory
  private, unit person, neighbours replace-one

privacy nldp
  epsilon = 4, delta = 1e-6

release out
  estimate subspace(x, rank)
  by ldp-pca-gaussian

simulate
  x ~ normal(0, spiked(2, 20)/100)

study
  trials 2, seed 1
"""


def codes(text: str) -> dict[str, str]:
    return {d.code: d.message for d in compile_draft(parse_text(text, surface="dps")).diagnostics if d.severity == "error"}


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("pca", "non-private reference"),
        ("covariance-thresholding", "non-private reference"),
        ("graphical-lasso", "non-private reference"),
        ("wishart", "is a mechanism"),
        ("symmetric-matrix-noise", "is a mechanism"),
        ("private-pca-comparators", "only cited"),
    ],
)
def test_cards_without_a_release_are_refused_in_by(id: str, words: str) -> None:
    found = codes(LOCAL.replace("by ldp-pca-gaussian", f"by {id}"))
    assert words in found["DP407"]


def test_roles_of_the_family() -> None:
    roles = {id: c.role for id, c in FAMILY.items()}
    assert list(roles.values()).count("algorithm") == 9
    assert roles["private-pca-comparators"] == "cited"
    assert all(b.status == "claimed" for b in FAMILY["private-pca-comparators"].bounds)
    assert not hasattr(get("private-pca-comparators"), "run")


def test_the_unproved_lower_bound_is_claimed_only() -> None:
    lower = [b for b in FAMILY["ldp-thresholding"].bounds if b.type == "lower"]
    assert [b.status for b in lower] == ["claimed"]
    assert "6.2.7" in lower[0].theorem
    assert "Corollary 6.2.3" in lower[0].theorem


def test_an_algorithm_of_another_task_is_refused_with_a_reason() -> None:
    found = codes(LOCAL.replace("by ldp-pca-gaussian", "by ldp-thresholding"))
    assert "it serves the task covariance, not subspace" in found["DP407"]
    found = codes(LOCAL.replace("by ldp-pca-gaussian", "by ldp-iht"))
    assert "it serves the task estimate-theta" in found["DP407"]
    found = codes(LOCAL.replace("rank = 2", "rank = 6"))
    assert "from 1 to d - 1" in found["DP407"]


@pytest.mark.parametrize("what", ["covariance(x)", "precision(x)", "subspace(x, rank)"])
def test_auto_finds_an_algorithm_for_every_matrix_task(what: str) -> None:
    draft = compile_draft(parse_text(LOCAL.replace("subspace(x, rank)", what).replace("by ldp-pca-gaussian", "by auto"), surface="dps"))
    assert not [d for d in draft.diagnostics if d.severity == "error"]
    assert draft.releases[0].module.CARD.family == "matrix"


def test_rates_reach_the_study_and_lower_bounds_of_other_budgets_do_not() -> None:
    text = LOCAL.replace("trials 2", "vary n in [20_000, 80_000, 320_000]\n  trials 4").replace("rank = 2", "rank = 2, gap = 0.1")
    text = text.replace("release out", "assume\n  eigenvalues in [0.01, 0.21] of x\n\nrelease out")
    body = study(parse_text(text, surface="dps"), workers=1).to_json()
    assert not any(p["lower_bounds"] for p in body["points"])  # of pure budgets at epsilon <= 1/2
    assert all(p["reference_error"]["mean"] < p["error"]["mean"] for p in body["points"])
    assert all(p["bound"]["holds"] is not False for p in body["points"])
    assert body["rates"][0]["measured"] == pytest.approx(-0.5, abs=0.15)
