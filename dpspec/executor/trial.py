"""One cell of a study: a point's plan, executed some number of times on simulated or public records.

A pure function of its arguments. Data streams depend on (seed, trial) and noise streams on (seed, point, trial), so results do not
depend on the engine, on the number of workers or on the order of execution; points and algorithms that are compared see the same
records (common random numbers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpspec.compiler.draft import Draft, ReleaseDraft
from dpspec.compiler.files import contents
from dpspec.compiler.measures import choose
from dpspec.compiler.plan import meaning
from dpspec.executor.design import Point
from dpspec.executor.population import population
from dpspec.executor.public import Real, named_in, real_records
from dpspec.measures.measure import Measure, Population, Trial
from dpspec.spec.diagnostics import Diagnostic, SpecError
from dpspec.spec.model import as_json
from dpspec.tasks.registry import of

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
    """Errors by release name, in the order of trials. ``touched``: records that enforcement changed, summed over trials, by rule.
    ``trivial``: the error of the zero vector, which needs no data; a bound is vacuous where an estimate is no better. ``judged``: errors
    against what the bounds speak of, where that is not what ``errors`` compare with. ``enforcement``: where enforcement moved the truth,
    the share of records that it changed in a ``sample`` of the law, and trial by trial its ``bias`` and the standard ``error`` of the
    truth;
    ``unmet``: declared constants that the law contradicts, so that nothing is judged; ``broken``: those that a bound is not accused for;
    ``beside``: the errors of the references that the study names, by release and reference. ``held``: on records that were held out, the
    errors of the release, of the non-private answer of the trial and of the one without data; ``rows``: of real data, how many records
    were read, may be trained on and are held out."""

    errors: Mapping[str, tuple[float, ...]]
    reference: Mapping[str, tuple[float, ...]]
    measures: Mapping[str, str]
    touched: Mapping[str, int]
    trivial: Mapping[str, tuple[float, ...]]
    judged: Mapping[str, tuple[float, ...]]
    enforcement: Mapping[str, Mapping[str, Any]]
    beside: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    held: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    rows: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "errors": {k: list(v) for k, v in self.errors.items()},
            "reference": {k: list(v) for k, v in self.reference.items()},
            "measures": dict(self.measures),
            "touched": dict(self.touched),
            "trivial": {k: list(v) for k, v in self.trivial.items()},
            "judged": {k: list(v) for k, v in self.judged.items()},
            "enforcement": {k: dict(v) for k, v in self.enforcement.items()},
            "beside": {k: {name: list(e) for name, e in v.items()} for k, v in self.beside.items()},
            "held": {k: {name: list(e) for name, e in v.items()} for k, v in self.held.items()},
            "rows": None if self.rows is None else list(self.rows),
        }

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> CellResult:
        return CellResult(
            {k: tuple(v) for k, v in body["errors"].items()},
            {k: tuple(v) for k, v in body["reference"].items()},
            dict(body["measures"]),
            dict(body["touched"]),
            {k: tuple(v) for k, v in body["trivial"].items()},
            {k: tuple(v) for k, v in body["judged"].items()},
            {k: dict(v) for k, v in body["enforcement"].items()},
            {k: {name: tuple(e) for name, e in v.items()} for k, v in body["beside"].items()},
            {k: {name: tuple(e) for name, e in v.items()} for k, v in body["held"].items()},
            None if body["rows"] is None else tuple(body["rows"]),
        )


def compiled(point: Point) -> Draft:
    """The point's draft; raises SpecError with every finding when it has no plan (a missed target is no obstacle to a study).

    The last few are kept: the cells of a point share theirs.
    """
    key = (point.parsed.path, meaning(point.parsed.analysis), contents(point.parsed))
    draft = _DRAFTS.pop(key, None) or _compiled(point)
    if len(_DRAFTS) >= 256:
        _DRAFTS.pop(next(iter(_DRAFTS)))
    _DRAFTS[key] = draft
    return draft


_DRAFTS: dict[tuple[str, str, tuple[str, ...]], Draft] = {}


def _compiled(point: Point) -> Draft:
    from dpspec.compiler import passes

    try:
        return passes.compiled(point.parsed, least="never")
    except SpecError as error:
        blocking = [d for d in error.diagnostics if d.severity == "error" and d.code != "DP402"]
        at = ", ".join(f"{k} = {v:g}" for k, v in point.at)
        extra = [Diagnostic("DP411", "info", f"at the point {at}")] if at else []
        raise SpecError([*blocking, *extra], path=point.parsed.path, text=point.parsed.text) from None


def execute(cell: Cell, memory: Any = None) -> CellResult:
    from dpspec.executor.bind import bound_problem, in_groups, part_of
    from dpspec.executor.references import estimates

    draft = compiled(cell.point)
    errors: dict[str, list[float]] = {r.release.name: [] for r in draft.releases}
    reference: dict[str, list[float]] = {r.release.name: [] for r in draft.releases}
    trivial: dict[str, list[float]] = {r.release.name: [] for r in draft.releases}
    public = cell.point.public
    simulated = bool(draft.analysis.simulate) and public is None
    measures = {r.release.name: choose(r, simulated=simulated, held=public is not None and public.holdout > 0) for r in draft.releases}
    touched: dict[str, int] = {}
    problems = [bound_problem(draft, r) for r in draft.releases]
    real = None if simulated else real_records(draft, memory, public, cell.seed)
    size = int(draft.facts["n"]) if "n" in draft.facts else None
    fixed = real is not None and not real.sampled(size)
    held: dict[str, _Held] = {}
    solved: dict[str, Any] = {}
    judged: dict[str, list[float]] = {r.release.name: [] for r in draft.releases}
    laws = {r.release.name: _Laws() for r in draft.releases}
    beside: dict[str, dict[str, list[float]]] = {r.release.name: {} for r in draft.releases}
    theirs: dict[str, Mapping[str, Any]] = {}
    for trial in range(cell.first, cell.stop):
        if real is None:
            records, truth, counts = _simulated(draft, cell.seed, trial)
        else:
            records, truth, counts = real.training(size, 0 if fixed else trial), {}, real.counts
        drawn = (cell.seed, trial) if real is None else () if fixed else (size, trial)
        for release, problem in zip(draft.releases, problems, strict=True):
            name = release.release.name
            mine = part_of(draft, release, records)
            estimate = _release(release, problem, in_groups(draft, release, problem, mine, _tickets(cell, trial)), cell, trial)
            task = of(problem.task)
            measure = task.measure(measures[name])
            if not fixed or name not in solved:
                spared = task.spared and real is None and measure.needs != "reference" and drawn_again(mine)
                # a stationary point, whose error is 0: shown where it takes no longer than the trial
                alone = not measure.compared and measure.needs in ("records", "population") and mine.n * mine.d > _SHOWN
                solved[name] = (None, None) if spared or alone else _reference(mine, problem, release, draft, real, drawn)
            fitted, optimum = solved[name]
            t = task.trial(mine, problem, truth, fitted, optimum)
            if real is not None and real.held is not None and name not in held:
                held[name] = _held(release, problem, draft, real)
            if measure.needs == "population":
                fresh = held[name].population if real is not None else population(draft, release, problem, cell.seed, trial)
                t = replace(t, population=fresh)
            if real is None:
                t = laws[name].enforced(draft, release, problem, measure, t, (cell.seed, trial))
            t = replace(t, released={"theta": estimate.theta, **estimate.extras})
            errors[name].append(measure.of(estimate.theta, t))
            own = None if real is None or task.bounded_reference is None else task.bounded_reference(mine, release.tunables or {})
            bounded = t if release.module.CARD.centres else task.bounded(t, own)
            if bounded is not t:
                judged[name].append(measure.of(estimate.theta, bounded))
            if real is None and measure.needs == "population" and t.population is not None and hasattr(problem.oracle, "value"):
                laws[name].measured(t.population, problem.oracle.value, estimate.theta)
            nothing = task.trivial(problem)
            if nothing is not None:
                trivial[name].append(measure.of(nothing, t))
            if not fixed or name not in theirs:
                known = _shared(release, draft, real, drawn) if cell.point.beside else ({}, ())
                theirs[name] = estimates(release, problem, mine, cell.point.beside, cell.seed, *known)
            for other, found in theirs[name].items():
                told = replace(t, released={"theta": found.theta, **found.extras})
                beside[name].setdefault(other, []).append(measure.of(found.theta, told))
            shown = measure.compared or measure.needs in ("records", "population")  # abilities, for one, no reference releases
            if shown and fitted is not None and (optimum is not None or real is None):
                reference[name].append(measure.of(fitted, t))
            if name in held and measure.needs != "population":
                held[name].measured(measure, t, nothing)
        if real is None or trial == cell.first:  # generated records count as they are drawn
            for variable, count in counts.touched.items():
                touched[variable] = touched.get(variable, 0) + int(count)
    return CellResult(
        {k: tuple(v) for k, v in errors.items()},
        {k: tuple(v) for k, v in reference.items()},
        measures,
        touched,
        {k: tuple(v) for k, v in trivial.items()},
        {k: tuple(v) for k, v in judged.items() if v},
        {k: v.to_json() for k, v in laws.items()},
        {k: {other: tuple(e) for other, e in v.items()} for k, v in beside.items()},
        {k: v.to_json() for k, v in held.items() if v.errors},
        None if real is None else (real.every.n, real.available, real.every.n - real.available),
    )


@dataclass
class _Held:
    """What a release is measured against on held-out records, and the errors of the trials there."""

    trial: Trial
    population: Population
    says: bool
    errors: list[float] = field(default_factory=list)
    reference: list[float] = field(default_factory=list)
    trivial: list[float] = field(default_factory=list)

    def measured(self, measure: Measure, t: Trial, nothing: Any) -> None:
        """The same measure on the held-out records, of a trial's release, of its non-private answer and of the one without data."""
        if not (self.says and measure.transfers):
            return
        self.errors.append(measure.of(np.asarray(t.released["theta"]), replace(self.trial, released=t.released)))
        if t.reference is not None:
            self.reference.append(measure.of(t.reference, self.trial))
        if nothing is not None:
            self.trivial.append(measure.of(nothing, self.trial))

    def to_json(self) -> dict[str, tuple[float, ...]]:
        return {"errors": tuple(self.errors), "reference": tuple(self.reference), "trivial": tuple(self.trivial)}


def _held(release: ReleaseDraft, problem: Any, draft: Draft, real: Real) -> _Held:
    """The held-out records with the non-private answer that they give themselves: what estimates of a mean, a quantile or a least value
    compare with."""
    task, records = of(problem.task), real.held
    fitted, optimum = _reference(records, problem, release, draft, real, ("held",))
    trial = task.trial(records, problem, {}, fitted, optimum)
    return _Held(trial, Population(records, lambda: (fitted, optimum)), not task.total(problem))


#: Records times coordinates up to which the non-private answer is found where its error is 0 in any case.
_SHOWN = 1 << 17


@dataclass
class _Laws:
    """The enforced laws of one release, trial by trial."""

    changed: float = 0.0
    sample: int = 0
    bias: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)
    unmet: dict[str, None] = field(default_factory=dict)
    broken: dict[str, None] = field(default_factory=dict)
    fresh: tuple[int, float] | None = None
    _last: tuple[Any, tuple[float, float]] | None = None

    def measured(self, sample: Any, value: Any, w: Any) -> None:
        """The fresh records that a population risk is measured on, and the largest standard error of these trials; none of a risk that is
        known in closed form."""
        if sample.quadratic is not None:
            self.fresh = self.fresh or (0, 0.0)
            return
        error = sample.error(value, w)
        if error is not None:
            self.fresh = sample.records.n, max(error, 0.0 if self.fresh is None else self.fresh[1])

    def enforced(self, draft: Draft, release: ReleaseDraft, problem: Any, measure: Measure, t: Trial, drawn: tuple[int, int]) -> Trial:
        """The trial with the truth of its enforced law."""
        from dpspec.executor.enforced import ROOM, distances, enforced_law

        task = of(problem.task)
        law = enforced_law(draft, release, problem, *drawn, t.truth) if measure.of_a_law else None
        if law is None:
            if measure.of_a_law:
                self.unmet.update(dict.fromkeys(task.unmet(problem, t.truth)))
                self.broken.update(dict.fromkeys(task.broken(release, problem, t.truth, t.records)))
            self.bias.append(0.0)
            self.error.append(0.0)
            return t
        if self._last is None or self._last[0] is not law:
            self.unmet.update(dict.fromkeys(task.unmet(problem, law.truth, law.parts, ROOM)))
            self.broken.update(dict.fromkeys(task.broken(release, problem, law.truth, t.records, law.parts, ROOM)))
            self._last = law, distances(law, measure, t.truth, lambda truth: replace(t, truth=truth))
        bias, error = self._last[1]
        self.bias.append(bias)
        self.error.append(error)
        self.changed, self.sample = max(self.changed, law.changed), max(self.sample, law.sample)
        return replace(t, truth=law.truth)

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"unmet": list(self.unmet), "broken": list(self.broken)}
        if self.fresh is not None:
            told["fresh"] = list(self.fresh)
        return {"changed": self.changed, "sample": self.sample, "bias": self.bias, "error": self.error, **told}


def drawn_again(records: Any) -> bool:
    """Whether generated records do not fit their memory limit, so that another pass draws them once more."""
    from dpspec.data.records import CACHE_BYTES

    return bool(8 * records.n * (records.d + 1) > CACHE_BYTES)


def _reference(records: Any, problem: Any, release: ReleaseDraft, draft: Draft, real: Real | None, drawn: tuple[Any, ...]) -> Any:
    """The non-private reference: the same for every budget and algorithm, and for those that share a trial's data (``drawn``: the seed and
    the number of simulated ones; which sample of real ones, nothing where all are taken). It is solved once a process."""
    asked = of(problem.task)
    tunables: Mapping[str, Any] = release.tunables or {}
    known, key = _shared(release, draft, real, drawn)
    key = (*key, tuple(tunables.get(name) for name in asked.settings))
    if key not in known:
        known[key] = asked.reference(records, problem, tunables)
    return known[key]


def _shared(release: ReleaseDraft, draft: Draft, real: Real | None, drawn: tuple[Any, ...]) -> tuple[dict[Any, Any], tuple[Any, ...]]:
    """Where what was found on these records is kept, and under which name."""
    task = as_json(release.release.task)
    if real is not None:
        while len(real.solved) >= _MOST_SOLVED:
            real.solved.pop(next(iter(real.solved)))
        return real.solved, (task, str(release.release.part), named_in(task, draft), drawn)
    a = draft.analysis
    text = "\n".join([task, as_json(a.data), str(a.privacy.public), *(as_json(x) for x in (*a.simulate, *a.assume))])
    public = tuple(sorted((k, v) for k, v in draft.facts.items() if k not in ("epsilon", "delta", "rho", "mu")))
    while len(_SOLVED) >= _MOST_SOLVED:
        _SOLVED.pop(next(iter(_SOLVED)))
    return _SOLVED, (text, str(release.release.part), public, named_in(text, draft), drawn)


#: References of simulated trials, and what the study names beside them, oldest first: points that vary a budget or compare algorithms see
#: the same records.
_SOLVED: dict[Any, Any] = {}
_MOST_SOLVED = 256


def _release(release: ReleaseDraft, problem: Any, records: Any, cell: Cell, trial: int) -> Any:
    from dpspec.privacy.meter import Release
    from dpspec.privacy.noise import PublicRandomness, StudyNoise

    noise = StudyNoise(cell.seed, NOISE, cell.point.index, trial, release.index)
    meter = Release(release.calibrated, noise, mode="study", public=PublicRandomness(cell.seed))
    estimate = release.module.run(records, problem, release.tunables, meter)
    meter.close()
    return estimate


def _tickets(cell: Cell, trial: int) -> Any:
    """By which groups of a unit are chosen: of the study's own seed."""
    from dpspec.privacy.noise import StudyNoise

    return StudyNoise(cell.seed, "groups", trial)


def _simulated(draft: Draft, seed: int, trial: int) -> tuple[Any, Mapping[str, Any], Any]:
    from dpspec.data.laws import Simulation
    from dpspec.executor.bind import enforced, missing

    m = int(draft.facts.get("m", 0)) if draft.analysis.privacy.public is not None else 0
    drawn, truth = Simulation(draft.analysis.simulate, draft.facts, missing=missing(draft)).trial(seed, trial, m=m)
    records, counts = enforced(draft, drawn)
    return records, truth, counts
