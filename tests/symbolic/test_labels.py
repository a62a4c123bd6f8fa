"""Labels that a loss is not written for: said by every check, and of no loss that goes with them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpspec import api
from dpspec.lang.source import parse_expr
from dpspec.symbolic.labels import unfit
from dpspec.symbolic.normal import NAMED_LOSSES, OF_PAIRS, Scope, named_loss, normal_form

SPEC = """analysis "labels"

data
  n = 200, d = 2
  from memory target "y"
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {set} by {rule}

privacy central
  epsilon = 1, delta = 1e-6

release a
  minimise {loss} over ball(l2, 1)
  by dp-gd
"""
PRODUCTS = ["logistic", "hinge", "squared-hinge", "smoothed-hinge(1/2)", "sigmoid", "savage", "probit", "exponential", "linear"]
WRITTEN = ["log(1 + exp(-y*<w, x>))", "max(0, 1 - y*<w, x>)^2", "exp(-y*<w, x>)", "sqrt(1 + (y*<w, x>)^2)", "y*(<w, x> - 1)^2"]


def codes(loss: str, labels: str, rule: str = "") -> list[str]:
    kept = ", ".join(f"{v} -> {v}" for v in labels[1:-1].split(", "))
    rule = rule or (f"map({kept})" if labels[0] == "{" else "clip")
    return [d.code for d in api.check(api.loads(SPEC.format(loss=loss, set=labels, rule=rule)))]


@pytest.mark.parametrize("loss", [*PRODUCTS, *WRITTEN])
def test_label_zero_has_no_say(loss: str) -> None:
    assert "DP223" in codes(loss, "{0, 1}", "map(0 -> 0, 1 -> 1)")
    assert "DP223" not in codes(loss, "{-1, 1}", "map(0 -> -1, 1 -> 1)")


FIT = [("squared", "{0, 1}"), ("huber", "{0, 1, 2}"), ("logistic-glm", "{0, 1}"), ("poisson", "{0, 1, 2}"), ("absolute", "{0, 1}")]


@pytest.mark.parametrize(("loss", "labels"), [*FIT, ("logistic", "[-1, 1]"), ("logistic", "[0, 1]")])
def test_losses_that_go_with_their_labels(loss: str, labels: str) -> None:
    assert "DP223" not in codes(loss, labels)


@pytest.mark.parametrize(
    ("loss", "labels"), [("logistic", "{1, 2}"), ("hinge", "{-2, -1}"), ("logistic-glm", "{-1, 1}"), ("poisson", "{-1, 1}")]
)
def test_labels_that_push_one_way(loss: str, labels: str) -> None:
    assert "DP223" in codes(loss, labels)


@pytest.mark.parametrize("name", [name for name, (least, _) in NAMED_LOSSES.items() if least == 0 and name not in OF_PAIRS])
def test_what_is_said_is_true_of_the_values(name: str) -> None:
    """Against the loss itself, evaluated: a label is silent exactly where a dozen margins give one value."""
    form = named_loss(name, ())
    from dpspec.symbolic.margin import MarginLoss

    loss = MarginLoss(name, form)
    margins = [-3.0, -1.5, -0.5, 0.0, 0.25, 1.0, 2.0, 5.0]
    for label in (-1, 0, 1, 2):
        values = {round(float(loss.value(u, float(label))), 12) for u in margins}
        said = unfit(form, [Fraction(label), Fraction(-label), Fraction(3), Fraction(-3)]) or ""
        assert (len(values) == 1) == ("no say" in said and f"y = {label} " in said), (name, label)


def test_a_label_in_the_middle_of_an_expression() -> None:
    form = normal_form(parse_expr("(y - 2)*<w, x>^2 + y"), Scope({}))
    assert "y = 2" in (unfit(form, [Fraction(1), Fraction(2)]) or "")
