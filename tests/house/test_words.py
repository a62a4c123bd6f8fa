"""Every word of the vocabulary has a meaning; a word that has none is refused by its name."""

from __future__ import annotations

import pytest

from dpspec.data import laws
from dpspec.lang import vocabulary
from dpspec.lang.source import parse_expr, parse_text
from dpspec.lang.validate import FUNCTIONS
from dpspec.spec.diagnostics import SpecError
from dpspec.symbolic.normal import NAMED_LOSSES, Scope, normal_form

ARGUMENTS = {"quantile": "(0.5)", "multinomial": "(3)"}
SPEC = """analysis "a"
data
  n = 1000
  d = 5
  x in ball(l2, 1) by scale
  y in {{-1, 1}}
privacy central
  epsilon = 1
release theta
  minimise {loss} over ball(l2, 1)
"""


def test_losses_and_laws_are_those_with_a_meaning():
    assert set(NAMED_LOSSES) == vocabulary.LOSSES
    assert set(laws.WORDS) - set(FUNCTIONS) <= vocabulary.LAWS
    assert set(laws.WORDS) >= vocabulary.LAWS


@pytest.mark.parametrize("word", sorted(vocabulary.LOSSES))
def test_a_loss_is_a_function(word):
    assert normal_form(parse_expr(word + ARGUMENTS.get(word, "")), Scope({})).terms


@pytest.mark.parametrize("word", sorted(vocabulary.REGULARISERS))
def test_a_regulariser_is_a_function_of_the_weights(word):
    text = {"l1": "l1(0.1)*norm", "l2": "l2(0.1)*norm", "elastic-net": "elastic-net(0.1, 0.2)", "group": "group(w, 5)"}
    text["group-lasso"] = "group-lasso(0.1, 5)"
    assert normal_form(parse_expr(text.get(word, f"{word}(0.1)")), Scope({"d": 5})).terms


@pytest.mark.parametrize("word", ["auc", "metric", "ranking", "tangent"])
@pytest.mark.parametrize("arguments", ["", "(1)"])
def test_a_loss_without_a_meaning_is_refused(word, arguments):
    with pytest.raises(SpecError) as error:
        parse_text(SPEC.format(loss=word + arguments))
    (found,) = error.value.diagnostics
    assert (found.code, f"`{word}`" in found.message) == ("DP115" if arguments else "DP116", True)


def test_the_same_text_with_a_loss_that_has_one_is_read():
    assert parse_text(SPEC.format(loss="logistic")).analysis.releases
