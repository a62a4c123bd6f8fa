"""Where a bound begins: the least n of its theorem, from the card, in plans, reports and studies."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpspec.algorithms.registry import cards
from dpspec.compiler.passes import compile_draft
from dpspec.compiler.plan import make_plan
from dpspec.executor.study import study
from dpspec.lang.source import parse_expr, parse_text
from dpspec.report.html import page
from dpspec.report.terminal import plan_text
from dpspec.spec.expr import names
from tests.executor.specs import SPARSE

PCA = """\
analysis "a"

data
  n = {n}, d = 40, gap = 0.5
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale

privacy nldp
  epsilon = 1, delta = 1e-6

release v
  estimate subspace(x, 1)
  by ldp-pca-gaussian
"""


def bounds(text: str) -> dict[str, dict[str, Any]]:
    return {b["theorem"]: b for b in make_plan(parse_text(text, surface="dps")).to_json()["releases"][0]["bounds"]}


def test_every_regime_is_an_expression_in_public_names() -> None:
    known = {"C", "n", "d", "k", "epsilon", "delta", "sigma", "sigma_x", "eig_min", "eig_max", "kappa_inf", "B", "lam"}
    stated = 0
    for card in cards():
        for b in card.bounds:
            for part in b.regime.split(" else ") if b.regime else []:
                assert names(parse_expr(part)) <= known | set(card.tunables), (card.id, part)
                stated += 1
    assert stated >= 8


def test_where_bounds_begin_by_hand() -> None:
    """n = 20,000, d = 5, epsilon = 4, sigma = 1, k = 1: the covariance needs d^3/epsilon^2 = 125/16 records, in order; with the smallest
    eigenvalue and the inf-norm constant declared, max(d^4/(epsilon^2 kappa^2), d^3/(epsilon^2 eig^2)) = 625/(16/4), kappa = 1/2."""
    assert bounds(SPARSE)["004 Theorem 3"]["least_n"] == pytest.approx(125 / 16)
    declared = SPARSE.replace("d = 5", "d = 5, kappa_inf = 1/2").replace("  sparse(1)\n", "  sparse(1)\n  eigenvalues in [1, 1]\n")
    assert bounds(declared)["004 Theorem 3"]["least_n"] == pytest.approx(625 / (16 * 0.25))
    sldp = SPARSE.replace("privacy nldp\n  epsilon = 4, delta = 1e-5", "privacy sldp\n  epsilon = 4")
    sldp = sldp.replace("nldp-sparse-linear-regression with r = 8, tau2 = 5", "ldp-iht with T = 3").replace(
        "sub-gaussian(1) of x", "sub-gaussian(2) of x"
    )
    assert bounds(sldp)["004 Theorem 7"]["least_n"] == pytest.approx(3 * 2**4 * 1 * (1 + math.log(5)))
    assert "least_n" not in bounds(sldp)["004 Theorem 6"]


@pytest.mark.parametrize(("n", "early"), [(39, True), (40, False)])
def test_a_plan_before_the_regime_says_so(n: int, early: bool) -> None:
    """000 Theorem 6.1.2 is for n >= d = 40: no unknown constant, so it is a warning, at n."""
    parsed = parse_text(PCA.format(n=n), surface="dps")
    found = [d for d in compile_draft(parsed).diagnostics if d.code == "DP412" and "begins" in d.message]
    assert len(found) == early
    if early:
        assert found[0].severity == "warning"
        assert "begins at n = 40" in found[0].message
        assert (found[0].span.line, found[0].span.column) == (4, 7)
    body = make_plan(parsed, check=False).to_json()
    assert ", from n 40" in plan_text(body)
    assert ", from n 40" in page(body)


def test_an_unknown_constant_makes_it_a_remark() -> None:
    text = SPARSE.replace("n = 20_000, d = 5", "n = 100, d = 40").replace("sparse(1)", "sparse(1)")
    found = [d for d in compile_draft(parse_text(text, surface="dps")).diagnostics if d.code == "DP412" and "begins" in d.message]
    assert [d.severity for d in found] == ["info"]
    assert "of the order of 4,000 (its constant is not known), and n = 100" in found[0].message  # 40^3/4^2


def test_a_study_says_whether_it_got_there() -> None:
    result = study(parse_text(SPARSE, surface="dps"), trials=1, vary={"n": ("20000",), "epsilon": ("4",)}, workers=1).to_json()
    assert result["points"][0]["regime_starts"] == pytest.approx(125 / 16)
    assert result["regimes"][0]["text"] == "every point lies in the regime of the theorem if its constant is 1"


DESCENT = """\
analysis "a"

data
  n = 20_000, d = 5
  private, unit person, neighbours replace-one

privacy central
  epsilon = 1, delta = 1/n^1.1

assume
  moment(order 2, bound 2)
  eigenvalues in [1.6, 1.7] of x

release weights
  minimise 1/2*(<w, x> - y)^2 over ball(l2, 1)
  by heavy-tailed-dp-gd-catoni{zeta}
"""


def test_a_bound_of_no_probability_says_nothing() -> None:
    """1 - 2 zeta T of the printed theorem is negative at the default zeta and T."""
    printed = bounds(DESCENT.format(zeta=""))["000 Theorem 3.2.8"]
    assert printed["probability"] < 0
    assert any("it holds with probability 1 - 2*zeta*T, which is -" in why for why in printed["outside"])
    kept = bounds(DESCENT.format(zeta=" with zeta = 1/1000"))["000 Theorem 3.2.8"]
    assert 0 < kept["probability"] < 1
    assert not any("it holds with probability" in why for why in kept.get("outside", ()))
