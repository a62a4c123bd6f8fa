"""How workers send their answers in this family: one randomised report a worker and task, no answer protected like any other."""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np

from dpspec.algorithms.card import Fault, Need, Problem, Tunables
from dpspec.privacy.channels.randomized_response import BinaryResponse, KaryResponse
from dpspec.privacy.schedule import Attributes, Draw, Repeat, Tree

_EVIDENCE = "tests/algorithms/crowdsourcing/test_private_majority_voting.py::"

NEED: Final = Need("x", "privacy", "an answer is one of the listed labels, or none")
#: What is sent where there is no answer: a public uniform label through the response, or one more symbol.
ABSTAIN: Final = ("coin", "symbol")
FAULTS: Final = (
    Fault(
        "000 section 7.1.2: a randomised bit an answer makes the whole of what a worker sends epsilon-LADP",
        "only if everybody answers everything: a worker who skips a task shows that it did. Here no answer is a value of the cell",
        _EVIDENCE + "test_a_skipped_task_shows_in_the_clear_when_only_answers_are_sent",
        "privacy",
    ),
    Fault(
        "000 Definition 7.1.1: `is epsilon-locally differentially private`",
        "epsilon is of one answer; a worker's whole row of d answers costs d epsilon, and the plan says which of the two it states",
        _EVIDENCE + "test_a_whole_row_costs_d_times_one_answer",
        "privacy",
    ),
)


class Answers(Protocol):
    """What is asked of the votes."""

    @property
    def labels(self) -> tuple[float, ...]: ...

    def codes(self, records: Any) -> Any:
        """The answers as numbers of labels, below 0 where there is none, (tasks, workers)."""

    def named(self, winners: Any) -> Any:
        """The labels of these numbers."""


def refusal(p: Problem) -> str | None:
    """What stands against a plan. Where the unit is one answer, enforcement must not carry a change of one cell into others: `map` treats
    every cell alone, `reject` makes zeros of a whole row for one bad cell."""
    rule = p.domains["x"].by if "x" in p.domains else None
    if "attribute" in p.modifiers and rule is not None and rule.how != "map":
        return f"under `attribute` one answer must not change how others are read, and `by {rule.how}` reads a row whole (write `by map`)"
    if "labels-only" in p.modifiers:
        return "the answers are x, and `labels only` protects y alone (write `attribute` for one answer at a time)"
    if p.facts.get("classes", 0) < 2:
        return "the domain of x lists fewer than two labels"
    return None


def response(p: Problem, t: Tunables) -> BinaryResponse | KaryResponse:
    """The client of one cell: as many symbols as labels, and one more for no answer with ``abstain = symbol``."""
    symbols = int(p.facts["classes"]) + int(t.abstain == "symbol")
    return BinaryResponse() if symbols == 2 else KaryResponse(symbols)


def symbols(p: Problem, t: Tunables) -> int:
    return getattr(response(p, t), "k", 2)


def schedule(p: Problem, t: Tunables) -> Tree:
    """d reports a worker. Under `attribute` a neighbour changes one cell, thus one column: parallel composition; else they compose."""
    one = Draw("answer", response(p, t), per="user")
    return Attributes(one, p.d) if "attribute" in p.modifiers else Repeat(one, p.d)


def filled(answers: Any, classes: int, symbols: int, coins: Any) -> Any:
    """What the workers hand to their clients for one task: the number of the label, and where there is none a public uniform label (drawn
    for every worker, whatever it holds) or the last symbol."""
    stand_in = coins.integers(0, classes, len(answers)) if symbols == classes else classes
    return np.where(answers < 0, stand_in, answers)
