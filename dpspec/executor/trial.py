"""One cell of a study: a point's plan, executed some number of times on simulated or public records.

A pure function of its arguments. Data streams depend on (seed, trial) and noise streams on (seed, point, trial), so results do not
depend on the engine, on the number of workers or on the order of execution; points and algorithms that are compared see the same
records (common random numbers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpspec.compiler.draft import Draft, ReleaseDraft
from dpspec.executor.design import Point
from dpspec.spec.diagnostics import Diagnostic, SpecError
from dpspec.spec.model import MemorySource

#: First word of a noise stream's path. The data laws have streams of their own.
NOISE = 1


@dataclass(frozen=True)
class Cell:
    """Trials ``first, ..., stop-1`` of one point."""

    point: Point
    seed: int
    first: int
    stop: int


@dataclass(frozen=True)
class CellResult:
    """Errors by release name, in the order of trials. ``touched``: records that enforcement changed, summed over trials, by rule."""

    errors: Mapping[str, tuple[float, ...]]
    reference: Mapping[str, tuple[float, ...]]
    measures: Mapping[str, str]
    touched: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        return {
            "errors": {k: list(v) for k, v in self.errors.items()},
            "reference": {k: list(v) for k, v in self.reference.items()},
            "measures": dict(self.measures),
            "touched": dict(self.touched),
        }

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> CellResult:
        return CellResult(
            {k: tuple(v) for k, v in body["errors"].items()},
            {k: tuple(v) for k, v in body["reference"].items()},
            dict(body["measures"]),
            dict(body["touched"]),
        )


def compiled(point: Point) -> Draft:
    """The point's draft; raises SpecError with every finding when it has no plan (a missed target is no obstacle to a study)."""
    from dpspec.compiler.passes import compile_draft

    draft = compile_draft(point.parsed)
    blocking = [d for d in draft.diagnostics if d.severity == "error" and d.code != "DP402"]
    if blocking or draft.calibrated is None:
        at = ", ".join(f"{k} = {v:g}" for k, v in point.at)
        extra = [Diagnostic("DP411", "info", f"at the point {at}")] if at else []
        raise SpecError([*blocking, *extra], path=point.parsed.path, text=point.parsed.text)
    return draft


def execute(cell: Cell, memory: Any = None) -> CellResult:
    from dpspec.executor import measures as m
    from dpspec.executor.bind import bound_problem, part_of

    draft = compiled(cell.point)
    errors: dict[str, list[float]] = {r.release.name: [] for r in draft.releases}
    reference: dict[str, list[float]] = {r.release.name: [] for r in draft.releases}
    measures = {r.release.name: m.choose(r) for r in draft.releases}
    touched: dict[str, int] = {}
    problems = [bound_problem(draft, r) for r in draft.releases]
    fixed = None if draft.analysis.simulate else _real(draft, memory)
    solved: dict[str, Any] = {}
    for trial in range(cell.first, cell.stop):
        if fixed is not None:
            records, truth, counts = fixed
        else:
            records, truth, counts = _simulated(draft, cell.seed, trial)
        for release, problem in zip(draft.releases, problems, strict=True):
            name = release.release.name
            mine = part_of(draft, release, records)
            estimate = _release(release, problem, mine, cell, trial)
            if fixed is None or name not in solved:
                needs = measures[name] == "excess-empirical-risk" or not truth or fixed is not None
                solved[name] = m.reference(mine, problem) if needs else (_reference_theta(m, mine, problem), None)
            fitted, optimum = solved[name]
            t = m.Trial(mine, problem, truth, fitted, optimum)
            errors[name].append(m.MEASURES[measures[name]](estimate.theta, t))
            if fitted is not None and (truth or optimum is not None):
                reference[name].append(m.MEASURES[measures[name]](fitted, t))
        if fixed is None or trial == cell.first:  # generated records count as they are drawn
            for variable, count in counts.touched.items():
                touched[variable] = touched.get(variable, 0) + int(count)
    return CellResult(
        {k: tuple(v) for k, v in errors.items()},
        {k: tuple(v) for k, v in reference.items()},
        measures,
        touched,
    )


def _reference_theta(m: Any, records: Any, problem: Any) -> Any:
    return m.reference(records, problem)[0]


def _release(release: ReleaseDraft, problem: Any, records: Any, cell: Cell, trial: int) -> Any:
    from dpspec.privacy.meter import Release
    from dpspec.privacy.noise import PublicRandomness, StudyNoise

    noise = StudyNoise(cell.seed, NOISE, cell.point.index, trial, release.index)
    meter = Release(release.calibrated, noise, mode="study", public=PublicRandomness(cell.seed))
    estimate = release.module.run(records, problem, release.tunables, meter)
    meter.close()
    return estimate


def _real(draft: Draft, memory: Any) -> tuple[Any, dict[str, Any], Any]:
    from dpspec.data.enforce import enforce
    from dpspec.data.sources import load
    from dpspec.executor.bind import base_dir, values
    from dpspec.executor.run import public_records

    data = draft.analysis.data
    if data.status != "public":
        raise SpecError(
            [
                Diagnostic(
                    "DP410",
                    "error",
                    "the data are private, and a study measures true errors, which is a release of its own",
                    "add a `simulate` block with a data law, or mark the data `public` if they are",
                    draft.span("data"),
                )
            ],
            path=draft.parsed.path,
            text=draft.parsed.text,
        )
    if data.source is None or (isinstance(data.source, MemorySource) and memory is None):
        raise SpecError(
            [Diagnostic("DP410", "error", "there is neither a data law nor data", "add a `simulate` block", draft.span("data"))],
            path=draft.parsed.path,
            text=draft.parsed.text,
        )
    raw = load(data, memory=memory, base_dir=base_dir(draft.parsed.path), values=values(draft), private=False)
    records, counts = enforce(public_records(draft, raw, base_dir(draft.parsed.path)), data, values(draft))
    return records, {}, counts


def _simulated(draft: Draft, seed: int, trial: int) -> tuple[Any, Mapping[str, Any], Any]:
    from dpspec.data.enforce import enforce
    from dpspec.data.laws import Simulation
    from dpspec.executor.bind import values

    m = int(draft.facts.get("m", 0)) if draft.analysis.privacy.public is not None else 0
    records, truth = Simulation(draft.analysis.simulate, draft.facts).trial(seed, trial, m=m)
    records, counts = enforce(records, draft.analysis.data, values(draft))
    return records, truth.parameters, counts
