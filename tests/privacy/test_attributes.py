"""Schedules that go attribute by attribute: parallel for the unit, n times d draws by the users, never where whole records are meant."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from dpspec.algorithms.crowdsourcing import private_majority_voting as majority
from dpspec.audit import audit
from dpspec.compiler.passes import compile_draft
from dpspec.compiler.plan import make_plan
from dpspec.lang.source import parse_file, parse_text
from dpspec.privacy.calibrate import Budget, calibrate
from dpspec.privacy.channels.randomized_response import BinaryResponse
from dpspec.privacy.forms import from_json, to_json
from dpspec.privacy.schedule import Attributes, Disjoint, Draw, Repeat, Sequence, has_attributes, leaves
from dpspec.privacy.second import recheck

SPEC = Path(__file__).parents[2] / "specs/crowdsourcing/private-majority-voting.dps"
ONE = Draw("answer", BinaryResponse(), per="user")


def test_a_record_meets_it_once_and_a_user_draws_for_every_attribute():
    (leaf,) = leaves(Repeat(Attributes(ONE, 500), 3))
    assert (leaf.count, leaf.total, leaf.each) == (3, 1500, 1500)
    (leaf,) = leaves(Repeat(Disjoint(ONE, 500), 3))
    assert (leaf.count, leaf.total, leaf.each) == (3, 1500, 3)
    assert has_attributes(Sequence((ONE, Repeat(Attributes(ONE, 2), 3))))
    assert not has_attributes(Disjoint(ONE, 2))


@pytest.mark.parametrize("budget", [Budget(epsilon="1"), Budget(epsilon="1", delta="0.000001")])
def test_both_accountants_count_it_as_disjoint_parts(budget):
    found = [calibrate(tree, budget) for tree in (Attributes(ONE, 500), Disjoint(ONE, 500))]
    assert found[0].levels == found[1].levels
    assert recheck(found[0]) == recheck(found[1])
    assert recheck(found[0]).epsilon <= 1 + 1e-9


def test_it_keeps_its_form():
    tree = Attributes(ONE, 7)
    again, _, _ = from_json(json.loads(json.dumps(to_json(tree))))
    assert again == tree
    assert again != Disjoint(ONE, 7)


@pytest.fixture(scope="module")
def planned():
    return make_plan(parse_file(SPEC))


def test_a_plan_counts_the_answers_of_all_workers(planned):
    (release,) = planned.to_json()["releases"]
    assert release["cost"]["noise_draws"] == 301 * 500
    (row,) = release["noise"]
    assert (row["count"], row["per_record"], row["each"]) == (500, 1, 500)


def test_an_audit_refuses_attributes_as_parts_of_whole_records(planned):
    body = json.loads(json.dumps(planned.to_json()))
    changed = copy.deepcopy(body)
    changed["guarantee"]["protects"] = changed["schedule"]["protects"] = "records"
    assert "parts are attributes" not in findings(body)
    assert "parts are attributes" in findings(changed)


def findings(body) -> str:
    return " ".join(f.message for f in audit(body).findings)


def test_an_algorithm_that_goes_by_attributes_without_the_word_is_a_mistake(monkeypatch):
    monkeypatch.setattr(majority, "schedule", lambda p, t: Attributes(ONE, p.d))
    text = SPEC.read_text(encoding="utf-8").replace("nldp, attribute", "nldp")
    with pytest.raises(ValueError, match="the unit here is a record"):
        compile_draft(parse_text(text, surface="dps"))
