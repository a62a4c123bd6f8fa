"""Every word of the vocabulary has a meaning; a word that has none is refused by its name."""

from __future__ import annotations

from typing import get_args

import pytest

from dpspec.algorithms.registry import all_modules
from dpspec.audit import words as described
from dpspec.compiler.passes import compile_draft
from dpspec.data import laws
from dpspec.lang.source import parse_expr, parse_text
from dpspec.lang.validate import FUNCTIONS
from dpspec.privacy import samplers
from dpspec.spec import words
from dpspec.spec.diagnostics import SpecError
from dpspec.symbolic.findings import CLAIMS, ClaimName
from dpspec.symbolic.normal import NAMED_LOSSES, OF_PAIRS, Scope, normal_form
from dpspec.tasks.registry import tasks

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
    assert set(NAMED_LOSSES) == words.LOSSES
    assert set(laws.WORDS) - set(FUNCTIONS) <= words.LAWS
    assert set(laws.WORDS) >= words.LAWS


@pytest.mark.parametrize("word", sorted(words.LOSSES))
def test_a_loss_is_a_function(word):
    scope = Scope({}, ("w", "x1", "x2"), ("y1", "y2")) if word in OF_PAIRS else Scope({})
    assert normal_form(parse_expr(word + ARGUMENTS.get(word, "")), scope).terms


@pytest.mark.parametrize("word", sorted(words.REGULARISERS))
def test_a_regulariser_is_a_function_of_the_weights(word):
    text = {"l1": "l1(0.1)*norm", "l2": "l2(0.1)*norm", "elastic-net": "elastic-net(0.1, 0.2)", "group": "group(w, 5)"}
    text["group-lasso"] = "group-lasso(0.1, 5)"
    assert normal_form(parse_expr(text.get(word, f"{word}(0.1)")), Scope({"d": 5})).terms


@pytest.mark.parametrize("word", ["tangent", "rank"])
@pytest.mark.parametrize("arguments", ["", "(1)"])
def test_a_loss_without_a_meaning_is_refused(word, arguments):
    with pytest.raises(SpecError) as error:
        parse_text(SPEC.format(loss=word + arguments))
    (found,) = error.value.diagnostics
    assert (found.code, f"`{word}`" in found.message) == ("DP115" if arguments else "DP116", True)


def test_the_same_text_with_a_loss_that_has_one_is_read():
    assert parse_text(SPEC.format(loss="logistic")).analysis.releases


# ----------------------------------------------------------------------------------------------------------- relations and models


def test_the_accountants_know_the_relations_of_the_language():
    assert get_args(samplers.Neighbours) == words.NEIGHBOURS  # the privacy core imports nothing of ours


@pytest.mark.parametrize("word", sorted(described.NEIGHBOUR_ALIASES))
def test_a_word_for_a_relation_means_the_same_to_the_audit(word):
    assert words.relation_of(word) == described.NEIGHBOUR_ALIASES[word].replace("_", "-")
    assert words.relation_of(word.upper().replace("_", "-")) == words.relation_of(word)


def test_relations_are_told_apart_and_others_are_none():
    assert set(words.NEIGHBOURS) < set(words.RELATIONS)
    assert [w for w, r in words.RELATIONS.items() if r.replacing] == [w.replace("_", "-") for w in described.REPLACING]
    aliases = [a for r in words.RELATIONS.values() for a in r.also]
    assert len(aliases) == len(set(aliases))
    assert words.relation_of("a person or two") is None


def test_models_of_specs_and_of_deployments_are_words():
    assert set(words.MODELS) < set(words.TRUST)
    assert set(described.MODELS) == set(words.TRUST)


# ------------------------------------------------------------------------------------------------------------------- assumptions

NEEDS = {n.name for m in all_modules() if m.CARD.role != "primitive" for n in m.CARD.needs if not n.enforced_by}
#: Needs that stand in the data section or in the card alone, not in `assume`.
ELSEWHERE = {"x", "y", "v", "public features"}
ASSUMING = """analysis "a"
data
  n = 1000, d = 5
  x in ball(l2, 1) by scale
  y in [-1, 1] by clip
privacy nldp
  epsilon = 1, delta = 1e-6
assume
  {assume}
release theta
  estimate theta in y = <theta, x> + noise
"""


def test_an_author_can_state_every_need_of_a_card():
    assert {*words.ASSUMPTIONS, *(word for task in tasks() for word in task.assumes)} >= NEEDS - ELSEWHERE


@pytest.mark.parametrize("word", sorted(words.ASSUMPTIONS))
def test_the_table_knows_which_assumptions_have_a_reader(word):
    a = words.ASSUMPTIONS[word]
    assert bool(a.facts or a.centred or (word in CLAIMS and a.loss) or word in NEEDS) == (word in words.READ)


def test_claims_about_a_loss_are_those_that_a_certificate_answers():
    assert set(get_args(ClaimName)) == set(CLAIMS) == set(words.LOSS_CLAIMS)


@pytest.mark.parametrize("word", sorted(w for w, a in words.ASSUMPTIONS.items() if a.facts))
def test_the_arguments_of_an_assumption_become_facts(word):
    names = words.ASSUMPTIONS[word].facts
    values = [2 + i for i in range(len(names))]
    text = "eigenvalues in [2, 3]" if word == "eigenvalues" else f"{word}({', '.join(map(str, values))})"
    text = "moment(order 2, bound 3)" if word == "moment" else text
    draft = compile_draft(parse_text(ASSUMING.format(assume=text), surface="dps"))
    assert {name: draft.facts[name] for name in names} == dict(zip(names, values, strict=True))
    assert "DP224" not in {d.code for d in draft.diagnostics}


@pytest.mark.parametrize(
    ("text", "need"),
    [("rsc", "rsc"), ("restricted-strongly-convex(1)", "rsc"), ("restricted-isometry", "rip"), ("bounded(3) of noise", "noise-bounded")],
)
def test_another_word_for_an_assumption_is_the_same_one(text, need):
    stated = parse_text(ASSUMING.format(assume=text), surface="dps").analysis.assume[0]
    assert words.assumed(stated.name, stated.of) == need


def test_bounded_noise_by_either_name_is_one_fact():
    both = [compile_draft(parse_text(ASSUMING.format(assume=t), surface="dps")) for t in ("bounded(3) of noise", "noise-bounded(3)")]
    assert both[0].facts["noise_bound"] == both[1].facts["noise_bound"] == 3


@pytest.mark.parametrize("word", ["self-concordant", "weakly-convex(1)", "incoherence(0.1)", "signal-to-noise(3)"])
def test_an_assumption_without_a_reader_is_named(word):
    draft = compile_draft(parse_text(ASSUMING.format(assume=word), surface="dps"))
    (found,) = [d for d in draft.diagnostics if d.code == "DP224"]
    assert found.severity == "warning"
    assert word.split("(")[0] in found.message
