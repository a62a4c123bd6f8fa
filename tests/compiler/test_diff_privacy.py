"""A diff must call a weaker guarantee weaker, whatever words it is written in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpspec.compiler.diff import compare
from dpspec.compiler.plan import make_plan, write
from dpspec.lang.source import parse_text
from tests.cli.call import call
from tests.compiler.specs import CLASSIFY

ONE = "epsilon = 1, delta = 1e-6"


def body(text: str) -> dict[str, object]:
    return make_plan(parse_text(text, path="t.dps", surface="dps"), check=False).to_json()


def privacy(old: str, new: str) -> set[str]:
    return {c.direction for c in compare(body(old), body(new)) if c.area == "privacy"}


@pytest.mark.parametrize(
    ("budget", "worse"),
    [
        ("rho = 5", True),  # (epsilon, 1e-6): about 21.6 by rho + 2 sqrt(rho log(1/delta)), and at least 5 in expectation
        ("mu = 3", True),  # delta(1) of mu = 3 is Phi(3/2 - 1/3) - e Phi(-3/2 - 1/3) = 0.79
        ("rho = 1/1000", False),  # epsilon at 1e-6 is at most 0.001 + 2 sqrt(0.001*13.8) = 0.24
        ("mu = 1/20", False),  # delta(1) of mu = 0.05 is below Phi(0.025 - 20) < 1e-80
        ("epsilon = 1, delta = 1e-5", True),
        ("epsilon = 1/2, delta = 1e-6", False),
    ],
)
def test_budgets_of_two_kinds_are_compared(budget: str, worse: bool) -> None:
    assert ("weaker" in privacy(CLASSIFY, CLASSIFY.replace(ONE, budget))) is worse
    assert ("weaker" in privacy(CLASSIFY.replace(ONE, budget), CLASSIFY)) is not worse


@pytest.mark.parametrize("relation", ["add-remove", "zero-out"])
def test_replacing_a_record_at_the_same_epsilon_is_neither_weaker_nor_stronger(relation: str) -> None:
    """A replacement is two steps of the others, so at one epsilon they promise half of it; and a replacement says nothing of a record that
    is not there."""
    other = CLASSIFY.replace("replace-one", relation)
    assert privacy(CLASSIFY, other) == {"incomparable"}
    assert privacy(other, CLASSIFY) == {"incomparable"}
    half = other.replace(ONE, "mu = 1/10")  # a group of two is mu 1/5, and CLASSIFY promises a mu of 0.2367 and (1, 1e-6)
    assert privacy(CLASSIFY, half) == {"stronger"}
    assert privacy(half, CLASSIFY) == {"weaker"}


def test_public_data_and_labels_only_are_weaker() -> None:
    assert privacy(CLASSIFY, CLASSIFY.replace("  private,", "  public,")) == {"weaker"}
    assert privacy(CLASSIFY, CLASSIFY.replace("privacy central", "privacy central labels only")) == {"weaker"}


def test_equal_plans_give_no_change_and_another_analysis_gives_one() -> None:
    assert compare(body(CLASSIFY), body(CLASSIFY)) == ()
    assert compare(body(CLASSIFY), body(CLASSIFY.replace("y in {-1, 1} by map(0 -> -1, 1 -> 1)", "y in {-1, 1} by map(1 -> 1, 0 -> -1)")))


@pytest.mark.parametrize("field", ["epsilon", "scale"])
def test_a_lock_file_that_was_edited_no_longer_matches(field: str, tmp_path: Path) -> None:
    spec, lock = tmp_path / "a.dps", tmp_path / "a.json"
    spec.write_text(CLASSIFY)
    write(make_plan(parse_text(CLASSIFY, path=str(spec), surface="dps")), lock)
    assert call("plan", str(spec), "--against", str(lock)).code == 0
    stored = json.loads(lock.read_text())
    if field == "epsilon":
        stored["guarantee"]["epsilon"] = 0.1
    else:
        stored["releases"][0]["noise"][0]["scale"] *= 2
    lock.write_text(json.dumps(stored))
    assert call("plan", str(spec), "--against", str(lock)).code == 1


PLAYERS = """\
analysis "players"

data
  n = 5000, d = 6
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale

privacy central
  epsilon = 1, delta = 1e-5

release precision_matrix
  estimate precision(x)
  by distributed-precision-wishart with server = {server}
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("secure-aggregation", "trusted", False),  # a message of rank 2 shows the server the record
        ("secure-aggregation, colluding = 100", "secure-aggregation", False),
        ("secure-aggregation, colluding = 100", "secure-aggregation, colluding = 101", False),
        ("trusted", "trusted, centre = off", True),
        ("secure-aggregation", "secure-aggregation, centre = off", True),
    ],
)
def test_from_whom_a_release_is_hidden_is_part_of_the_promise(old: str, new: str, same: bool) -> None:
    """The numbers of the guarantee are equal, and they are about readers of the output."""
    a, b = PLAYERS.format(server=old), PLAYERS.format(server=new)
    assert privacy(a, b) - {"changed"} == (set() if same else {"incomparable"})
    assert privacy(b, a) - {"changed"} == (set() if same else {"incomparable"})


def test_a_trusted_curator_is_one_whatever_the_algorithm_is_called() -> None:
    curator = PLAYERS.replace("distributed-precision-wishart with server = {server}", "dp-precision-covariance")
    shared = "secure-aggregation, noise = symmetrised-wishart"
    trusted, hidden = PLAYERS.format(server="trusted"), PLAYERS.format(server=shared)

    def told(old: str, new: str) -> bool:
        return any(c.what == "whom it is hidden from" for c in compare(body(old), body(new)))

    assert not told(trusted, curator)
    assert told(hidden, curator)
    assert told(curator, hidden)
    mixed = hidden.replace("release", "release second\n  estimate precision(x)\n  by dp-precision-covariance\n  share 1\n\nrelease", 1)
    assert told(hidden, mixed + "  share 1\n")  # a second release that the server computes


def test_an_algorithm_that_this_version_does_not_know_hides_from_nobody_that_it_knows() -> None:
    old, new = body(CLASSIFY), json.loads(json.dumps(body(CLASSIFY)))
    new["releases"][0]["algorithm"] = "dp-gd-by-the-server"
    assert {c.direction for c in compare(old, new) if c.area == "privacy"} == {"incomparable"}


def test_a_unit_written_in_capitals_is_the_same_unit() -> None:
    assert privacy(CLASSIFY, CLASSIFY.replace("unit person", "unit Person")) == {"changed"}
