"""What every registered algorithm must do, present and future; no algorithm is named here."""

from __future__ import annotations

import json
from dataclasses import replace
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest

from dpspec.algorithms.card import Card
from dpspec.compiler.plan import make_plan
from dpspec.data.records import Records
from dpspec.executor.record import Record
from dpspec.executor.run import run
from dpspec.executor.study import study
from dpspec.lang.printer import to_yaml
from dpspec.lang.source import Parsed, parse_expr, parse_file, parse_text
from dpspec.privacy.schedule import Disjoint, Draw, Parallel, Sequence, Tree, draws
from dpspec.spec.diagnostics import SpecError
from dpspec.tasks.registry import of
from tests.conformance.cases import ALGORITHMS, IDS, ROOT, case, gallery, measured, neighbours, open_ended, resized, spec_file

each = pytest.mark.parametrize("module", ALGORITHMS, ids=IDS)


def has(module: ModuleType, name: str) -> bool:
    return name in module.CARD.tunables


@each
def test_card_is_complete(module: ModuleType) -> None:
    card: Card = module.CARD
    assert card.title
    assert card.summary
    assert card.sources
    assert all(s.document in ("000", "001", "002", "003", "004", "literature") for s in card.sources)
    assert any(n.role == "privacy" for n in card.needs)
    assert bool(card.bounds) != bool(card.no_bound), "a card has bounds, or says why there is none"
    assert all(b.theorem for b in card.bounds)
    assert module.__doc__
    assert spec_file(module).is_file()
    for tunable in card.tunables.values():
        assert tunable.source
        for alternative in tunable.formula.split(" else "):
            parse_expr(alternative)
    for formula in card.cost.values():
        parse_expr(formula)
    for fault in card.faults:
        assert fault.claim
        assert fault.truth
        assert fault.evidence


@each
def test_a_fault_of_privacy_names_a_test_that_exists(module: ModuleType) -> None:
    for fault in module.CARD.faults:
        if fault.severity != "privacy":
            continue
        file, _, name = fault.evidence.partition("::")
        assert (ROOT / file).is_file(), fault.evidence
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), fault.evidence


@each
def test_both_surfaces_of_the_gallery_spec_say_the_same(module: ModuleType) -> None:
    dps = spec_file(module)
    yaml = dps.with_name(dps.name.removesuffix(".dps") + ".dpspec.yaml")
    assert parse_file(dps).analysis == parse_file(yaml).analysis
    assert parse_text(to_yaml(parse_file(dps).analysis), surface="yaml").analysis == parse_file(dps).analysis


@each
def test_two_accountants_agree(module: ModuleType) -> None:
    plan = make_plan(gallery(module))
    g = plan.guarantee
    assert g.checked_by
    assert g.checked_by != g.accountant
    if g.kind in ("approx", "pure"):
        assert g.epsilon is not None
        assert g.checked_epsilon == pytest.approx(g.epsilon, rel=2e-3)
        stated = float(plan.draft.facts["epsilon"])
        assert g.epsilon <= stated * (1 + 1e-12)
        assert g.epsilon >= 0.99 * stated


@each
def test_the_hash_depends_on_meaning_only(module: ModuleType) -> None:
    parsed = gallery(module)
    again = parse_text("# a comment\n\n" + parsed.text, path="elsewhere.dps", surface="dps")
    assert make_plan(parsed, check=False).sha256 == make_plan(again, check=False).sha256
    assert make_plan(resized(parsed, epsilon="0.37"), check=False).sha256 != make_plan(parsed, check=False).sha256


def quickly(modules: list[ModuleType]) -> Any:
    """All modules; of the online ones, each trial of which takes seconds, the last in the fast suite."""
    slow = [m for m in modules if getattr(m, "ONLINE", False)][:-1]
    found = [pytest.param(m, id=m.CARD.id, marks=pytest.mark.slow if m in slow else ()) for m in modules]
    return pytest.mark.parametrize("module", found)


@quickly(ALGORITHMS)
def test_gallery_spec_studies(module: ModuleType) -> None:
    body = study(gallery(module), trials=2, quick=True, workers=1).to_json()
    json.dumps(body, allow_nan=False)
    assert body["points"]
    assert body["points"][0]["algorithm"] == module.CARD.id  # comparators follow
    assert all(np.isfinite(p["error"]["mean"]) for p in body["points"])


#: Fresh releases of which one must differ from the first. An algorithm that chooses among vertices has few outputs: three rounds of six
#: vertices repeat one in 1/216 of all pairs of releases. If no output is likelier than 1/2, all of these equal the first in at most
#: 2^-40 < 1e-12 of all runs; the first that differs ends the search.
RELEASES = 40


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(one[name][k], other[name][k]) for name in one for k in one[name])


@each
def test_a_release_draws_exactly_its_plan_and_keeps_nothing_unpaid(module: ModuleType) -> None:
    c = case(small(module))
    parsed = c.draft.parsed
    one, _ = neighbours(c)
    plan = make_plan(parsed, check=False)
    memory = ({"x": one.x, "y": one.y, "public_x": one.public_x}, None) if one.public_x is not None else (one.x, one.y)

    def release() -> Record:
        return run(plan, *memory)

    record = release()
    planned = draws(c.release.tree)
    assert {e["name"]: e["count"] for e in record.body["events"]} == {name: leaf.total for name, leaf in planned.items()}
    for event in record.body["events"]:
        assert event["scale"] == planned[event["name"]].draw.mechanism.scale(c.release.calibrated.levels[event["name"]])
    assert any(not same(record.outputs, release().outputs) for _ in range(RELEASES)), "releases with fresh noise are equal"
    allowed = {"plan_sha256", "mode", "started", "finished", "environment", "events", "guarantee", "schedule", "spec", "ledger", "outputs"}
    assert record.to_json().keys() == allowed
    words = json.dumps({k: v for k, v in record.to_json().items() if k not in ("outputs", "spec")}).lower()
    for word in ("error", "residual", "loss", "accuracy", "risk", "touched"):
        assert word not in words


def small(module: ModuleType, **more: float | str) -> Parsed:
    """The gallery spec with a handful of records, few rounds, and a delta at which an audit has power."""
    parsed = gallery(module)
    sizes: dict[str, float | str] = {"n": 6, "d": 3}
    if parsed.analysis.privacy.delta is not None:
        sizes["delta"] = "0.1"
    if has(module, "T"):
        sizes["T"] = 3 if "central" in module.CARD.models else 2
    if any(a.name == "sparse" for a in parsed.analysis.assume):
        sizes["k"] = 2
    if parsed.analysis.privacy.public is not None:
        sizes["m"] = 200
    return resized(parsed, **{**sizes, **more})


#: How far the noise is scaled down so that the audit must see it. One vector is released by most algorithms: a quarter.
WEAKEN = 4.0
#: Runs on each side that find the weakened release; the honest one is judged with four times as many.
TRIALS = (150, 600, 1500)


@measured(ALGORITHMS)
def test_no_violation_is_found_and_one_is_when_the_noise_shrinks(module: ModuleType) -> None:
    """The empirical audit on the nastiest pair of the public facts: silent at the plan's noise, loud at a fraction of it."""
    from dpspec.audit.empirical.release import audit_plan_release

    c = case(audited(module))
    pair = neighbours(c)
    g = c.draft.calibrated.guarantee

    def claim() -> dict[str, float | None]:
        if g.mu is not None:
            return {"claim_epsilon": None, "claim_mu": float(g.mu)}
        return {"claim_epsilon": float(g.epsilon), "claim_delta": float(g.delta or 0.0)}

    def run(which: int, seed: int, factor: float = 1.0) -> np.ndarray:
        out = c.run(pair[which], seed, weaken=factor)
        return np.pad(out, (0, 40 - out.size)) if open_ended(c) else out  # as many keys as are named: the rest is 0

    factor = getattr(module, "AUDIT_FACTOR", WEAKEN)
    assert factor <= 16
    for trials in TRIALS:
        broken = audit_plan_release(lambda seed, which: run(which, seed, factor), **claim(), trials=trials, seed=12)
        if broken.verdict == "violated":
            break
    assert broken.verdict == "violated", broken
    honest = audit_plan_release(lambda seed, which: run(which, seed), **claim(), trials=min(4 * trials, TRIALS[-1]), seed=11)
    assert honest.verdict == "not-certified", honest


def audited(module: ModuleType) -> Parsed:
    """Few records, so that the others do not drown the one that differs: one a round in a local model, two in a central one; one round
    where rounds read disjoint batches."""
    n = getattr(module, "AUDIT_RECORDS", 2)  # what two records release may be no function of them
    if "central" in module.CARD.models and not rounds_are_disjoint(case(gallery(module)).release.tree):
        return small(module, n=n)
    return small(module, n=n, **({"T": 1} if has(module, "T") and n <= 2 else {}))


def rounds_are_disjoint(tree: Tree) -> bool:
    """Whether a part of the tree reads each record once over several rounds."""
    if isinstance(tree, Disjoint):
        return tree.count > 1
    inside = tree.parts if isinstance(tree, Sequence) else () if isinstance(tree, (Draw, Parallel)) else (tree.body,)
    return any(rounds_are_disjoint(part) for part in inside)


#: Trials whose medians are compared: a few where they tell already.
TOLD_BY = (3, 9)


@measured(ALGORITHMS)
def test_error_at_a_large_budget_approaches_the_reference(module: ModuleType) -> None:
    for trials in TOLD_BY:
        tight = typical_error(modest(module, epsilon=0.5), trials)
        loose = typical_error(modest(module, epsilon=500), trials)
        if loose < tight:
            break
    assert loose < tight


@measured(ALGORITHMS)
def test_error_decreases_in_n(module: ModuleType) -> None:
    parsed = modest(module, epsilon=8)
    draft = make_plan(parsed, check=False).draft
    n, release = float(draft.facts["n"]), draft.releases[0]
    least = int(max(n / 30, 60))
    if of(draft.analysis.releases[0].task).total(release.problem):
        # Counts and sums, whose error does not fall: as a share of the records. Whole ones are often exact at epsilon 8. A key that is
        # not named has no noise, so epsilon has to be enough to name some of ``n`` records.
        parsed = modest(module, epsilon=1)
        few, many = (mean_error(resized(parsed, n=size)) / size for size in (least, int(n)))
        assert many < few
        return
    for trials in TOLD_BY:
        few, many = (typical_error(resized(parsed, n=size), trials) for size in (least, int(n)))
        if many < few:
            break
    assert many < few


def modest(module: ModuleType, **numbers: float | str) -> Parsed:
    """The gallery spec without its sweep; central algorithms at a size whose every trial is quick, local ones at their own."""
    parsed = gallery(module)
    parsed = replace(parsed, analysis=parsed.analysis.model_copy(update={"study": None}))
    if "central" in module.CARD.models:
        # the best fixed point of a stream takes n^2/2 losses a step to find
        numbers = {"n": 300 if getattr(module, "ONLINE", False) else 2000, **numbers}
    return resized(parsed, **numbers)


def errors(parsed: Parsed, trials: int) -> list[dict[str, float]]:
    """Of each point. Without the plan that a report shows: its second accountant takes longer than all trials at a budget of 500."""
    with mock.patch("dpspec.executor.study._plan", return_value={}):
        return [p["error"] for p in study(parsed, trials=trials, workers=1).to_json()["points"]]


def mean_error(parsed: Parsed) -> float:
    return float(np.mean([e["mean"] for e in errors(parsed, 20)]))


def typical_error(parsed: Parsed, trials: int) -> float:
    return float(np.median([e["median"] for e in errors(parsed, trials)]))


@each
def test_data_that_contradict_the_plan_are_refused(module: ModuleType) -> None:
    c = case(small(module))
    plan = make_plan(c.draft.parsed, check=False)
    one, _ = neighbours(c)
    _n, d = one.x.shape

    def codes(x: np.ndarray, y: np.ndarray) -> set[str]:
        memory = (x, y) if one.public_x is None else ({"x": x, "y": y, "public_x": one.public_x}, None)
        with pytest.raises(SpecError) as caught:
            run(plan, *memory)
        return {dd.code for dd in caught.value.diagnostics}

    bad = np.array(one.x)
    task = c.release.problem.task
    bad[0, 0] = np.inf if of(task).missing(task) else np.nan
    damaged = (
        (one.x[:-1], one.y[:-1]),
        (np.hstack([one.x, one.x]), one.y),
        (one.x[:, : d - 1], one.y),
        (one.x[:0], one.y[:0]),
        (one.x[:1], one.y[:1]),
        (bad, one.y),
    )
    for x, y in damaged:
        assert all(code.startswith("DP5") for code in codes(x, y))


@each
def test_output_has_a_public_shape(module: ModuleType) -> None:
    c = case(small(module))
    one, other = neighbours(c)
    outputs = [c.run(r, seed) for r, seed in ((one, 1), (other, 2))]
    assert open_ended(c) or outputs[0].shape == outputs[1].shape
    assert outputs[0].dtype == np.float64
    assert all(np.isfinite(o).all() for o in outputs)


@each
def test_the_algorithm_draws_through_the_meter_only(module: ModuleType) -> None:
    """Its file names no generator and no noise source."""
    import inspect

    source = inspect.getsource(module)
    for word in ("default_rng", "np.random", "numpy.random", "import random", "secrets", "StudyNoise", "SecureNoise", "os.urandom"):
        assert word not in source


@each
def test_records_reach_the_algorithm_enforced(module: ModuleType) -> None:
    """Records far outside every domain give the same guarantee: the run neither fails nor releases anything infinite."""
    c = case(small(module))
    n, d = int(c.draft.facts["n"]), int(c.draft.facts["d"])
    public = np.random.default_rng(0).normal(size=(200, d)) if c.draft.analysis.privacy.public is not None else None
    wild = Records(np.full((n, d), 1e300), np.full(n, -1e300), public)
    assert np.isfinite(c.run(wild, 3)).all()


def test_small_specs_are_small() -> None:
    """The audit's power rests on few records: no case may silently keep its gallery size."""
    for module in ALGORITHMS:
        assert float(case(audited(module)).draft.facts["n"]) == getattr(module, "AUDIT_RECORDS", 2) <= 40
        replaced = replace(gallery(module))
        assert replaced == gallery(module)
