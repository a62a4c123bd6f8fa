"""Formulas, bounds against targets, regimes, least values and attackers, each against a number by hand."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from dpspec.privacy.guarantees import Guarantee
from dpspec.theory import attackers, bounds, formulas
from dpspec.theory.bounds import BoundValue
from dpspec.theory.least import ABOUT_BUDGET, EPSILON, RECORDS, Range, least


def bound(value: float | None, *, probability: float | None = None, kind="explicit", type="upper", status="proved", least_n=None):
    return BoundValue("l2-error", kind, type, "", value, probability, status, "a theorem", least_n=least_n)


# ------------------------------------------------------------------------------------------------------------- formulas


def test_the_first_alternative_with_values_is_taken():
    text = "a*b else a^2 else 7"
    assert formulas.value(text, {"a": 3.0, "b": 5.0}) == 15
    assert formulas.value(text, {"a": 3.0}) == 9
    assert formulas.value(text, {}) == 7
    assert formulas.choose(text, {"a": 1})[1] == "a^2"


@pytest.mark.parametrize("text", ["a", "1/0", "log(0)", "exp(1e6)"])
def test_what_has_no_number_is_none(text):
    assert formulas.value(text, {}) is None


def test_positive_is_finite_and_above_zero():
    assert formulas.positive("2*a", {"a": 1.5}) == 3
    assert formulas.positive("a", {"a": -1.0}) is None
    assert formulas.positive("a", {"a": 0.0}) is None


# --------------------------------------------------------------------------------------------------------------- bounds


def test_a_mean_answers_a_probability_by_markov():
    """E err <= 0.1 gives P(err <= 0.1/(1 - 0.9)) >= 0.9; a bound at 0.99 serves 0.9 as it is, one at 0.5 does not."""
    assert bounds.guaranteed([bound(0.1)], "l2-error", 0.9) == pytest.approx(1.0)
    assert bounds.guaranteed([bound(0.1), bound(0.4, probability=0.99)], "l2-error", 0.9) == 0.4
    assert bounds.guaranteed([bound(0.2, probability=0.5)], "l2-error", 0.9) is None
    assert bounds.guaranteed([bound(0.1)], "l2-error", None) == 0.1
    assert bounds.guaranteed([bound(0.1)], "l2-error", 1.0) == math.inf


@pytest.mark.parametrize("other", [bound(0.1, status="claimed"), bound(0.1, kind="order"), bound(0.1, type="lower"), bound(None)])
def test_only_a_proved_explicit_upper_bound_promises(other):
    assert bounds.guaranteed([other], "l2-error", None) is None


def test_a_regime_with_an_open_constant_is_taken_at_one():
    assert bounds.begins("C*d^2/epsilon", {"d": 10.0, "epsilon": 0.5}) == 200
    assert bounds.begins("", {}) is None
    assert bounds.begins("C*d^2/kappa", {"d": 10.0}) is None
    assert bounds.open_constant("C*d^2")
    assert not bounds.open_constant("4*d^2")


def test_n_lies_before_a_regime_only_if_before_every_one():
    early, late = bound(None, kind="order", least_n=100.0), bound(1.0, least_n=1000.0)
    assert bounds.before([late, early], 50) is early
    assert bounds.before([late, early], 500) is None
    assert bounds.before([bound(1.0)], 1) is None


# ---------------------------------------------------------------------------------------------------------- least values


@pytest.mark.parametrize("start", [1.0, 10.0, 999.0, 1000.0, 1e6, 1e20])
def test_the_least_number_of_records(start):
    """1/n <= 0.001 from n = 1000 on."""
    seen = []

    def meets(n: float) -> bool:
        seen.append(n)
        return 1 / n <= 0.001

    found = least(meets, start, RECORDS)
    assert 1000 <= found <= 1000.5
    assert len(seen) < 60
    assert len(seen) == len(set(seen))  # a probe compiles an analysis: none is made twice


def test_the_least_budget_is_one_that_was_seen_to_do():
    seen = {}

    def meets(e: float) -> bool:
        seen[e] = e >= 0.3
        return seen[e]

    found = least(meets, 5.0, EPSILON)
    assert seen[found]
    assert 0.3 <= found <= 0.3 * 1.0005


def test_ends_of_the_range():
    assert least(lambda n: False, 10, RECORDS) is None
    assert least(lambda n: True, 10, RECORDS) == 2.0
    assert least(lambda e: e >= 1e3, 1.0, ABOUT_BUDGET) == 1e3
    assert least(lambda v: v >= 7, 3.0, Range(1.0, 10.0, 1.0, whole=True)) == 7


# ------------------------------------------------------------------------------------------------------------- attackers


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
def test_detections_against_a_gaussian_statement(mu):
    """Neyman and Pearson: Phi(Phi^-1(a) + mu)."""
    n = NormalDist()
    rates = [1e-4, 0.01, 0.1, 0.5]
    found = attackers.detections(attackers.read({"kind": "approx", "epsilon": 1.0, "delta": 1e-5, "rho": None, "mu": mu}), rates)
    assert found == pytest.approx([n.cdf(n.inv_cdf(a) + mu) for a in rates], rel=1e-9)


def test_detections_against_epsilon_and_delta():
    """Both lines by hand: min(delta + e^eps a, 1 - e^-eps (1 - delta - a))."""
    e, d = math.exp(1.0), 0.01
    found = attackers.detections(Guarantee("approx", 1.0, d), [0.01, 0.9])
    assert found == pytest.approx([d + e * 0.01, 1 - (1 - d - 0.9) / e], rel=1e-12)


def test_a_zcdp_statement_is_read_with_all_its_conversions():
    """At each rate no worse than the one (epsilon, delta) that the plan prints beside rho."""
    rates = [0.001, 0.01, 0.1]
    stated = {"kind": "zcdp", "epsilon": 5.76, "delta": 1e-5, "rho": 0.5, "mu": None}
    whole = attackers.detections(attackers.read(stated), rates)
    one = attackers.detections(Guarantee("approx", 5.76, 1e-5), rates)
    assert all(a <= b for a, b in zip(whole, one, strict=True))
    assert whole[0] < one[0]


@pytest.mark.parametrize("stated", [{}, {"kind": "pure"}, {"epsilon": "1"}, {"epsilon": -1.0}, {"epsilon": math.inf}, {"epsilon": True}])
def test_what_says_nothing_is_refused(stated):
    with pytest.raises(ValueError):
        attackers.detections(attackers.read(stated), [0.1])
