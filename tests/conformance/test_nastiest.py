"""The pair that the empirical audit runs on where a task names none: it moves what a fixed pair would not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpspec.algorithms.estimate import Estimate
from dpspec.lang.source import parse_text
from tests.conformance.cases import Case, case
from tests.conformance.replay import blind_run, enforced, moved, nastiest, with_row

SPEC = """analysis "a"

data
  n = 4, d = 3
  from memory
  private, unit person, neighbours replace-one
  x in {domain}

privacy {privacy}
  epsilon = 1{delta}

release r
  estimate mean(x)
  by dp-catoni-mean with tau = 1
"""


def prepared(domain: str, privacy: str = "central", delta: str = ", delta = 1e-4") -> Case:
    return case(parse_text(SPEC.format(domain=domain, privacy=privacy, delta=delta), surface="dps"))


def even(c: Case, power: int = 2) -> Any:
    """The mean of x^2, or of another power, well within the planned sensitivity: a record and its opposite give the same."""
    (sensitivity,) = (leaf.mechanism.sensitivity for leaf in [c.release.tree])

    def run(records: Any, p: Any, t: Any, release: Any) -> Estimate:
        value = np.mean(np.clip(np.asarray(records.x), -1, 1) ** power, axis=0)
        return Estimate(release.draw("mean", value * sensitivity / 4, sensitivity=sensitivity))

    return SimpleNamespace(run=run)


@pytest.mark.parametrize("domain", ["ball(l2, 1) by scale", "box(-1, 1) by clip", "{-1, 0, 1} by map(-1 -> -1, 0 -> 0, 1 -> 1)"])
def test_an_even_function_of_a_record_is_moved(domain: str) -> None:
    c = prepared(domain)
    module, base = even(c), (np.zeros((4, 3)), np.zeros(4), 0)
    opposites = [blind_run(c, with_row(c, base, ((v, 0.0, 0.0), 0.0)), module)[1] for v in (1.0, -1.0)]
    assert moved(c, *opposites).apart == 0.0
    pair = nastiest(c, "replace-one", module)
    assert moved(c, *(blind_run(c, records, module)[1] for records in pair)).shares["mean"] >= 0.05


def test_neighbours_of_an_attribute_differ_in_one_cell_of_a_finite_domain() -> None:
    c = prepared("{0, 1} by map(0 -> 0, 1 -> 1)")
    module = even(c, 1)
    one, other = nastiest(c, "attribute", module)
    (x, y), (u, v) = enforced(c, one), enforced(c, other)
    assert int((x != u).sum()) == 1
    assert np.array_equal(y, v)
    assert moved(c, blind_run(c, one, module)[1], blind_run(c, other, module)[1]).apart > 0


def test_a_function_that_no_record_moves_is_seen_to_be_one() -> None:
    c = prepared("ball(l2, 1) by scale")
    module = even(c, 0)
    pair = nastiest(c, "replace-one", module)
    assert moved(c, *(blind_run(c, records, module)[1] for records in pair)).apart == 0.0


def test_an_unknown_relation_has_no_neighbours() -> None:
    with pytest.raises(ValueError, match="somehow"):
        nastiest(prepared("ball(l2, 1) by scale"), "somehow")
