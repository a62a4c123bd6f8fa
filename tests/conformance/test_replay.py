"""Every registered algorithm, run against a meter that answers without looking at the records. No algorithm is named here."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dpspec.algorithms.estimate import Estimate
from dpspec.compiler.passes import compile_draft
from dpspec.data.enforce import enforce
from dpspec.data.records import Records
from dpspec.executor.bind import bound_problem, values
from dpspec.lang.source import Parsed
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.privacy.schedule import draws
from tests.conformance.cases import ALGORITHMS, IDS, Case, case, labels
from tests.conformance.replay import Blind, rows
from tests.conformance.test_conformance import small

each = pytest.mark.parametrize("module", ALGORITHMS, ids=IDS)
RELATIONS = ("replace-one", "zero-out", "add-remove")


def with_neighbours(parsed: Parsed, relation: str) -> Parsed:
    data = parsed.analysis.data.model_copy(update={"neighbours": relation})
    return replace(parsed, analysis=parsed.analysis.model_copy(update={"data": data}))


def blind_run(c: Case, records: Records, module: Any = None, removed: int | None = None) -> tuple[Estimate, Blind]:
    """``removed``: the place of the record that these ``records`` lack, for Poisson coins."""
    r = c.release
    enforced, _ = enforce(records, c.draft.analysis.data, values(c.draft))
    meter = Release(r.calibrated, StudyNoise(5), mode="study", public=PublicRandomness(0), per_user=True)
    found = {name: leaf.sampling for name, leaf in draws(r.tree).items() if leaf.sampling is not None}
    blind = Blind(meter, poisson={name: s.rate for name, s in found.items() if s.method == "poisson"}, removed=removed)
    estimate = (module or r.module).run(enforced, bound_problem(c.draft, r), r.tunables, blind)
    blind.meter.close()
    return estimate, blind


def records_of(c: Case, seed: int, size: float) -> Records:
    """Random records of a typical size, some of them zero, some far outside every domain."""
    rng = np.random.default_rng(seed)
    n, d = int(c.draft.facts["n"]), int(c.draft.facts["d"])
    visible = np.random.default_rng(9) if labels_only(c) else rng  # then x is not protected, and stays as it is
    x = visible.normal(size=(n, d)) * (1.0 if labels_only(c) else size)
    x[visible.random(n) < 0.2] = 0.0
    y = rng.choice(labels(c), size=n)
    public = np.random.default_rng(0).normal(size=(200, d)) if c.draft.analysis.privacy.public is not None else None
    return Records(x, y, public)


def labels_only(c: Case) -> bool:
    return "labels-only" in c.release.problem.modifiers


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
    planned = draws(c.release.tree)
    for seed in range(12):
        one = records_of(c, seed, (1e-2, 0.3, 1.0, 1e4)[seed % 3 + seed % 2])
        other = neighbour(c, one, relation, seed)
        removed = touched(one, seed) if relation == "add-remove" else None
        before, after = blind_run(c, one)[1].seen, blind_run(c, other, removed=removed)[1].seen
        assert [name for name, _ in before] == [name for name, _ in after]
        moved = dict.fromkeys(planned, 0)
        for (name, u), (_, v) in zip(before, after, strict=True):
            if u is None:
                continue
            leaf = next(planned[k] for k in (name, f"{name}/select", f"{name}/value") if k in planned)
            if leaf.draw.per == "user":
                moved[name] += int((rows(u) != rows(v)).any(axis=1).sum())
                continue
            level = c.release.calibrated.levels[leaf.draw.name]
            distance = leaf.draw.mechanism.distance(level, u, v, float(c.release.tunables.get("tolerance", 0.0)))
            assert distance <= leaf.draw.mechanism.sensitivity * (1 + 1e-9) + 1e-12, (name, relation)
            if name in moved:
                moved[name] += int(distance > 0)
        assert all(moved[name] <= leaf.count for name, leaf in planned.items()), moved


def touched(records: Records, seed: int) -> int:
    """The record in which the neighbour differs."""
    return int(np.random.default_rng(100 + seed).integers(records.n))


def neighbour(c: Case, records: Records, relation: str, seed: int) -> Records:
    i = touched(records, seed)
    if relation == "add-remove":
        return records_without(records, i)
    x, y = np.array(records.x), np.array(records.y)
    if not labels_only(c) and not (relation == "replace-one" and seed % 4 == 3):
        x[i] = 0.0 if relation == "zero-out" else -np.sign(x[i] + 1e-300) * 1e3
    if relation == "replace-one" and (seed % 2 or labels_only(c)):  # (-x, -y) is the same record to a loss of y*<w, x>: not always both
        low, high = labels(c)
        y[i] = low if y[i] == high else high
    return Records(x, y, records.public_x)


def records_without(records: Records, i: int) -> Records:
    return Records(np.delete(records.x, i, axis=0), np.delete(records.y, i), records.public_x)
