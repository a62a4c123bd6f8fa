"""Every registered algorithm, run against a meter that answers without looking at the records. No algorithm is named here."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from dpspec.algorithms.estimate import Estimate
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import Parsed
from dpspec.tasks.registry import of
from tests.conformance.cases import ALGORITHMS, IDS, Case, case, labels, protected, public_of
from tests.conformance.extremes import listed, made, moved_coordinates, opposite
from tests.conformance.replay import blind_run, moved, movements, worst
from tests.conformance.test_conformance import small

each = pytest.mark.parametrize("module", ALGORITHMS, ids=IDS)
RELATIONS = ("replace-one", "zero-out", "add-remove")


def with_neighbours(parsed: Parsed, relation: str) -> Parsed:
    data = parsed.analysis.data.model_copy(update={"neighbours": relation})
    return replace(parsed, analysis=parsed.analysis.model_copy(update={"data": data}))


def records_of(c: Case, seed: int, size: float) -> Records:
    """Random records of a typical size, some of them zero, some far outside every domain."""
    rng = np.random.default_rng(seed)
    n, d = int(c.draft.facts["n"]), int(c.draft.facts["d"])
    visible = np.random.default_rng(9) if labels_only(c) else rng  # then x is not protected, and stays as it is
    x = visible.normal(size=(n, d)) * (1.0 if labels_only(c) else size)
    x[visible.random(n) < 0.2] = 0.0
    if allowed := listed(c.draft, "x"):
        x = visible.choice(allowed, size=(n, d))
    return made(c.draft, x, rng.choice(labels(c), size=n), public_of(c))


def labels_only(c: Case) -> bool:
    return protected(c.draft) == "labels-only"


def flat(estimate: Estimate) -> dict[str, np.ndarray]:
    return {"theta": np.asarray(estimate.theta), **{k: np.asarray(v) for k, v in estimate.extras.items()}}


def same(one: Estimate, other: Estimate) -> bool:
    a, b = flat(one), flat(other)
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


@each
def test_the_output_is_a_function_of_the_draws_alone(module: ModuleType) -> None:
    """Same answers, other records: the same output to the last bit, extras included."""
    c = case(small(module))
    outputs = [blind_run(c, records_of(c, seed, size))[0] for seed, size in ((1, 1.0), (2, 1e-3), (3, 1e6))]
    assert same(outputs[0], outputs[1])
    assert same(outputs[0], outputs[2])


@each
@pytest.mark.parametrize("relation", RELATIONS)
def test_neighbours_move_each_draw_by_its_sensitivity_and_no_more_draws_than_planned(module: ModuleType, relation: str) -> None:
    """Along one transcript of answers, one changed record changes at most ``count`` values of a draw, each by at most its sensitivity."""
    if relation != "replace-one" and "central" not in module.CARD.models:
        pytest.skip("a local model protects each record against every other value")
    parsed = with_neighbours(small(module), relation)
    refused = {d.code for d in compile_draft(parsed).diagnostics if d.severity == "error"} & {"DP306", "DP407"}
    if refused:  # an algorithm may refuse a relation, as those with batches of rows do under add-remove
        assert relation != "replace-one"
        return
    c = case(parsed)
    for seed in range(8):
        one = records_of(c, seed, (1e-2, 0.3, 1.0, 1e4)[seed % 3 + seed % 2])
        other = neighbour(c, one, relation, seed)
        removed = touched(one, seed) if relation == "add-remove" else None
        moved(c, blind_run(c, one)[1], blind_run(c, other, removed=removed)[1])


def with_modifier(parsed: Parsed, name: str) -> Parsed:
    """The spec with ``attribute`` or ``labels-only`` in its privacy line."""
    privacy = parsed.analysis.privacy.model_copy(update={name.replace("-", "_"): True})
    return replace(parsed, analysis=parsed.analysis.model_copy(update={"privacy": privacy}))


def variant(module: ModuleType, kind: str) -> Parsed | None:
    """The small spec under a relation or a modifier, or None where the compiler refuses it."""
    privacy = small(module).analysis.privacy
    if (privacy.attribute and kind != "attribute") or (privacy.labels_only and kind == "replace-one"):
        return None
    parsed = with_neighbours(small(module), kind) if kind in RELATIONS else with_modifier(small(module), kind)
    errors = {d.code for d in compile_draft(parsed).diagnostics if d.severity == "error"}
    return None if errors & {"DP306", "DP407"} else parsed


#: The worst pair moves some draw by at least this share of its sensitivity: a replay in which nothing moves shows nothing.
FLOOR = 0.05


@each
@pytest.mark.parametrize("kind", [*RELATIONS, "attribute", "labels-only"])
def test_no_pair_of_extreme_records_moves_a_draw_further_than_planned_and_the_worst_moves_it_far(module: ModuleType, kind: str) -> None:
    """Opposite, orthogonal, zero against extreme, equal but for the label, one coordinate: whatever is a neighbour under the relation."""
    if kind in RELATIONS[1:] and "central" not in module.CARD.models:
        pytest.skip("a local model protects each record against every other value")
    parsed = variant(module, kind)
    if parsed is None:  # as above; algorithms that protect a part of a record refuse to protect more
        privacy = small(module).analysis.privacy
        assert kind != "replace-one" or privacy.labels_only or privacy.attribute
        return
    c = case(parsed)
    found = movements(c, kind, surroundings=2 if kind == "replace-one" else 1)
    furthest = max(worst(found).values())
    if kind == "labels-only" and not of(c.release.problem.task).labelled(c.release.problem.task):
        assert furthest == 0, "what has no response moved with one"
    else:
        assert furthest >= FLOOR, worst(found)


def touched(records: Records, seed: int) -> int:
    """The record in which the neighbour differs."""
    return int(np.random.default_rng(100 + seed).integers(records.n))


def neighbour(c: Case, records: Records, relation: str, seed: int) -> Records:
    i = touched(records, seed)
    if relation == "add-remove":
        return records_without(records, i)
    x, y = np.array(records.x), np.array(records.y)
    if protected(c.draft) == "attribute":
        x[i] = moved_coordinates(c.draft, x[i], seed % x.shape[1])[1 if seed % 2 else -1]
        return made(c.draft, x, y, records.public_x)
    if not labels_only(c) and not (relation == "replace-one" and seed % 4 == 3):
        x[i] = 0.0 if relation == "zero-out" else opposite(c.draft, "x", x[i]) if listed(c.draft, "x") else -np.sign(x[i] + 1e-300) * 1e3
    if relation == "replace-one" and (seed % 2 or labels_only(c)):  # (-x, -y) is the same record to a loss of y*<w, x>: not always both
        low, high = labels(c)
        y[i] = low if y[i] == high else high
    return made(c.draft, x, y, records.public_x)


def records_without(records: Records, i: int) -> Records:
    return Records(np.delete(records.x, i, axis=0), np.delete(records.y, i), records.public_x, records.mapped)
