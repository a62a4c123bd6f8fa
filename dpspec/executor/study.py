"""Study mode: execute the design, summarise against the theory.

Finished cells are written to ``out/cells`` as they finish, each file whole or not at all; the same study started again resumes from
them. The result does not depend on how often it was interrupted or on the number of workers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpspec.compiler.draft import Draft
from dpspec.compiler.files import contents
from dpspec.compiler.plan import meaning
from dpspec.executor.design import Design, Point, design, refuse, substitute
from dpspec.executor.public import CONSTANT, Public, forget_real, private_known, real_records
from dpspec.executor.record import StudyResult, environment, write_json
from dpspec.executor.trial import Cell, CellResult, compiled
from dpspec.executor.workers import Execute, alone, cores, processes
from dpspec.lang.source import Parsed, parse_expr
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.model import SqlSource
from dpspec.tasks.registry import of as task_of
from dpspec.theory.bounds import BoundValue, best
from dpspec.theory.bounds import order as order_of
from dpspec.theory.formulas import UNKNOWN, positive

Progress = Callable[[str, int, int], None]

#: Work is cut into cells of at most this many trials, so that an interrupt loses little and workers stay busy.
TRIALS_A_CELL = 10
#: With ``until`` no point stops before this many trials: a lucky start must not end it.
LEAST_TRIALS = 20
#: With ``until`` and no stated number of trials, no point has more.
MOST_TRIALS = 1000

Done = dict[str, CellResult]
#: A cell and the name of its file.
Named = tuple[str, Cell]


class Interrupted(Exception):
    """Ctrl-C during a study. ``result`` holds the points whose every trial had finished; ``done`` of ``total`` trials were."""

    def __init__(self, result: StudyResult, done: int, total: int) -> None:
        super().__init__("interrupted")
        self.result = result
        self.done = done
        self.total = total


def study(
    parsed: Parsed,
    *,
    trials: int | None = None,
    seed: int | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    compare: Sequence[str] = (),
    quick: bool = False,
    until: float | None = None,
    out: Path | str | None = None,
    workers: int | None = None,
    engine: str = "local",
    scheduler: str | None = None,
    memory: Any = None,
    data: Path | str | None = None,
    holdout: Fraction | float | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Measure the error of every point of the design.

    ``trials``, ``seed``, ``vary`` (numbers or expression text by name) and ``compare`` override the spec's ``study`` block.
    ``until``: go on at each point until half the 95% interval of its mean error is at most this share of the mean, for at least 20
    trials and at most ``trials`` (1000 when left out). ``scheduler``: its address (``engine="dask"``).
    ``out``: where finished cells are kept. ``memory``: (x, y) for a spec ``from memory``. ``progress(what, done, total)`` after each cell.
    ``data``: a file of public records of the same form, in the place of those of the spec and of its ``simulate`` block; ``holdout``: the
    share of real records, in (0, 1), that no trial trains on and that errors are measured on too.

    Raises SpecError when a point has no plan, or the data are private (DP410); :class:`Interrupted` on Ctrl-C.
    """
    words = {name: tuple(str(v) for v in values) for name, values in (vary or {}).items()}
    if until is not None and trials is None and not quick:
        trials = MOST_TRIALS
    if memory is not None:
        from dpspec.data.frames import gathered
        from dpspec.data.tables import Wanted

        memory = gathered(memory, Wanted(private=False))  # a stream can be read once
    public = _public(parsed, data, holdout, memory)
    d = design(parsed, trials=trials, seed=seed, vary=words, compare=compare, quick=quick, public=public)
    forget_real()
    stated: float | None = None
    if public is not None:
        stated = float(compiled(d.points[0]).facts.get("n", 0)) or None
        d = _as_many(d, memory)
    drafts = [compiled(p) for p in d.points]  # every point must have a plan before anything runs
    from dpspec.compiler.measures import choose
    from dpspec.executor.references import check

    for made, release in ((draft, r) for draft in drafts for r in draft.releases):
        simulated = bool(made.analysis.simulate) and public is None
        choose(release, simulated=simulated, held=public is not None and public.holdout > 0)  # every target must be measurable too
    file = None if public is None else public.path
    if file is not None or (memory is not None and parsed.analysis.data.status == "public" and not parsed.analysis.simulate):
        _held_against(memory, file, drafts)
    for p, made in zip(d.points, drafts, strict=True):
        check(made, p.beside)
    content = _data_digest(parsed, memory, public)
    points = [_cells(d, point, content) for point in d.points]
    folder = None if out is None else Path(out) / "cells"
    done: Done = {}
    total = sum(len(cells) for cells in points)
    interrupted = False
    try:
        with _engine(engine, workers, total, memory, scheduler) as execute:
            while wanted := _wanted(points, done, folder, until):
                for i, result in execute([cell for _, cell in wanted]):
                    name, _ = wanted[i]
                    done[name] = result
                    if folder is not None:
                        folder.mkdir(parents=True, exist_ok=True)
                        write_json(result.to_json(), folder / f"{name}.json", exact=True)
                    if progress is not None:
                        progress("", len(done), total)
    except KeyboardInterrupt:
        interrupted = True
    finished = [_finished(cells, done, until) for cells in points]
    summary = _result(d, drafts, finished, until, stated)
    if interrupted:
        ran = sum(cell.stop - cell.first for cells in points for name, cell in cells if name in done)
        raise Interrupted(summary, ran, len(points) * d.trials)
    return summary


def _held_against(memory: Any, file: str | None, drafts: Sequence[Draft]) -> None:
    """Raise SpecError where public records that were handed over, in memory or as a ``file`` that is not the private one, refute an
    assumption (DP225): plans are made before they are there."""
    from dpspec.compiler.assumed import held_against_samples

    for draft in drafts:
        held = held_against_samples(draft, memory, file)
        if found := [d for d in held.diagnostics if d.code == "DP225"]:
            raise SpecError(found, path=draft.parsed.path, text=draft.parsed.text)


def _engine(engine: str, workers: int | None, cells: int, memory: Any, scheduler: str | None) -> AbstractContextManager[Execute]:
    count = min(workers or cores(), cells)
    if engine == "dask":
        from dpspec.executor.clusters import dask_tasks

        return dask_tasks(memory, workers, scheduler)
    return alone(memory) if count <= 1 or memory is not None else processes(count, at_once=workers is not None)


def _cells(d: Design, point: Point, data: str) -> list[Named]:
    """The cells of a point. A name holds all that the result depends on: this version, the meaning of the analysis, the data, the
    point's place in the design (noise streams), the seed and the trials."""
    from dpspec.version import __version__

    head = f"{__version__}|{meaning(point.parsed.analysis)}|{data}|{point.index}|{d.seed}|{','.join(point.beside)}"
    found = []
    for first in range(0, d.trials, TRIALS_A_CELL):
        cell = Cell(point, d.seed, first, min(first + TRIALS_A_CELL, d.trials))
        found.append((hashlib.sha256(f"{head}|{cell.first}|{cell.stop}".encode()).hexdigest()[:32], cell))
    return found


def _public(parsed: Parsed, data: Path | str | None, holdout: Fraction | float | None, memory: Any) -> Public | None:
    """What the study runs on in the place of the spec's own records; None where nothing was said."""
    from dpspec.data.files import local

    if data is None and holdout is None:
        return None
    try:
        share = Fraction(0) if holdout is None else Fraction(str(holdout))
    except ValueError:  # a NaN or an infinity
        share = Fraction(0)
    if holdout is not None and not 0 < share < 1:
        refuse(f"{holdout} is no share of the records to hold out", "a number between 0 and 1: --holdout 0.2")
    if data is None and parsed.analysis.simulate:
        refuse(
            "--holdout is for real records: each trial of a data law has fresh ones",
            "expect a measure on fresh records, as excess-population-risk, or add --data FILE",
        )
    if data is not None and memory is not None:
        refuse("the records come twice: from a file, and from memory", "leave one of them out")
    return Public(None if data is None else str(local(data).resolve()), share)


def _as_many(d: Design, memory: Any) -> Design:
    """The design at sizes that there are records for: the spec's own n gives way to how many may be trained on, a varied one does not."""
    points = []
    for p in d.points:
        draft = compiled(p)
        real = real_records(draft, memory, p.public, d.seed)
        n, most = draft.facts.get("n"), real.available
        if most < 2:
            refuse(f"{real.every.n:,} records with {real.every.n - most:,} held out leave {most}", "more records, or a smaller share")
        if n is not None and n > most and "n" in d.varied:
            refuse(f"the study varies n up to {int(n):,}, and there are {most:,} public records to train on", f"n of at most {most}")
        if n is None or n > most:
            smaller = substitute(p.parsed.analysis, "n", parse_expr(str(most)))
            p = replace(p, parsed=replace(p.parsed, analysis=smaller))
        points.append(p)
    return replace(d, points=tuple(points))


def _data_digest(parsed: Parsed, memory: Any, public: Public | None) -> str:
    """The content of real data and of public files, so that kept cells are not taken for those of others."""
    from dpspec.data.files import digest

    there = [] if public is None or public.path is None else [digest(Path(public.path), fresh=True)[0]]
    said = [] if public is None else [str(public.holdout), *there]
    return "|".join([_data(parsed, memory, public), *contents(parsed), *said])


def _bytes(part: Any) -> bytes:
    """The content of an array, a sparse matrix, or a table: an array of objects holds addresses, which tell nothing of their content."""
    import numpy as np

    from dpspec.data.frames import from_memory

    if part is None:  # no labels
        return b""
    found = part.toarray() if hasattr(part, "toarray") else part
    if isinstance(found, np.ndarray) and found.dtype.kind in "fiub":
        return np.ascontiguousarray(found).tobytes()
    if isinstance(found, (np.ndarray, list)):
        return repr(np.asarray(found).tolist()).encode()
    table = from_memory(found).table
    return repr({name: table.column(name).to_pylist() for name in table.column_names}).encode()


def _data(parsed: Parsed, memory: Any, public: Public | None) -> str:
    from dpspec.compiler.files import base_dir
    from dpspec.data.files import digest, local

    if memory is not None:
        content = hashlib.sha256()
        for part in memory if isinstance(memory, tuple) else (memory,):
            content.update(_bytes(part))
        return content.hexdigest()
    elsewhere = public is not None and public.path is not None  # then the spec's own source, which may be private, is not opened
    if isinstance(parsed.analysis.data.source, SqlSource) and not parsed.analysis.simulate and not elsewhere:
        from dpspec.data.sql import fingerprint

        try:
            return fingerprint(parsed.analysis.data.source, base_dir(parsed.path))
        except SpecError:
            return ""  # as for files
    path = getattr(parsed.analysis.data.source, "path", None)
    if parsed.analysis.simulate or path is None or elsewhere:
        return ""
    try:
        return digest(local(path, base_dir(parsed.path)), fresh=True)[0]
    except SpecError:
        return ""  # the loader says what is wrong with it


def _wanted(points: Sequence[Sequence[Named]], done: Done, folder: Path | None, until: float | None) -> list[Named]:
    """The cells to run next: all that are not done; with ``until`` the next one of each point that is not yet precise."""
    wanted: list[Named] = []
    for cells in points:
        for i, (name, cell) in enumerate(cells):
            if until is not None and _precise(cells[:i], done, until):
                break
            if name in done:
                continue
            kept = _kept(folder, name, cell)
            if kept is not None:
                done[name] = kept
                continue
            wanted.append((name, cell))
            if until is not None:
                break
    return wanted


def _precise(cells: Sequence[Named], done: Done, until: float) -> bool:
    """Is the mean of every release known well enough after these cells? Depends on their results alone, not on who ran them."""
    from dpspec.executor.summary import relative_half_width

    if not cells or cells[-1][1].stop < LEAST_TRIALS or any(name not in done for name, _ in cells):
        return False
    results = [done[name] for name, _ in cells]
    return all(relative_half_width([e for r in results for e in r.errors[name]]) <= until for name in results[0].errors)


def _finished(cells: Sequence[Named], done: Done, until: float | None) -> list[CellResult] | None:
    """The results of a point, or None while it lacks some."""
    found: list[CellResult] = []
    for i, (name, _) in enumerate(cells):
        if until is not None and _precise(cells[:i], done, until):
            break
        if name not in done:
            return None
        found.append(done[name])
    return found


def _kept(folder: Path | None, name: str, cell: Cell) -> CellResult | None:
    if folder is None:
        return None
    try:
        kept = CellResult.from_json(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return kept if all(len(v) == cell.stop - cell.first for v in kept.errors.values()) else None


def _result(
    d: Design, drafts: Sequence[Any], finished: Sequence[list[CellResult] | None], until: float | None, stated: float | None
) -> StudyResult:
    import numpy as np

    from dpspec.executor import summary as s
    from dpspec.executor.enforced import ROOM

    points: list[dict[str, Any]] = []
    notes: dict[str, None] = {}
    told: dict[tuple[str, str], list[tuple[int, float]]] = {}
    expected: dict[tuple[str, str], dict[str, float]] = {}
    level = s.LEVEL / max(1, sum(len(draft.releases) for draft in drafts))
    for point, draft, results in zip(d.points, drafts, finished, strict=True):
        if results is None:
            continue
        for release in draft.releases:
            name, card = release.release.name, release.module.CARD
            measure, asked = results[0].measures[name], task_of(release.problem.task)
            errors = [e for r in results for e in r.errors[name]]
            reference = [e for r in results for e in r.reference[name]]
            bound = best(release.bounds, measure)
            order = order_of(release.bounds, measure)
            lowers = [b for b in release.bounds if b.measure == measure and b.type == "lower" and b.status != "refuted" and b.applies]
            lower = lowers[0] if lowers else None
            compared = order or bound
            if compared is not None and (name, card.id) not in expected:
                expected[name, card.id] = _exponents(compared, d.varied, release)
            shape = bound_shape(order, release)
            trivial = [e for r in results for e in r.trivial[name]]
            starts = _regime(compared, release)
            moved = _enforcement(name, results)
            judged = [e for r in results for e in r.judged.get(name, r.errors[name])]
            room = ROOM * moved["truth_error"] if moved else 0.0
            elsewhere = point.public is not None and asked.measure(measure).needs == "population"
            unmet, broken = ([u for r in results for u in r.enforcement[name].get(word, ())] for word in ("unmet", "broken"))
            unmet += ["held-out records are a sample of a law that nobody stated"] if elsewhere else []
            against = s.bound_json(
                bound, judged, level, room=room, unmet=unmet, broken=broken, trivial=sum(trivial) / len(trivial) if trivial else None
            )
            points.append(
                {
                    "release": name,
                    "algorithm": card.id,
                    "at": dict(point.at),
                    "trials": len(errors),
                    "error": s.error_json(measure, errors),
                    "beside": {
                        other: s.error_json(measure, [e for r in results for e in r.beside[name][other]])
                        for other in results[0].beside.get(name, {})
                    },
                    "reference_error": s.error_json(measure, reference) if reference else None,
                    "trivial_error": sum(trivial) / len(trivial) if trivial else None,
                    "cost_of_privacy": s.cost_of_privacy(errors, reference) if asked.measure(measure).compared else None,
                    "bound": against,
                    "target": s.target_json(release.target, errors),
                    "enforcement": moved,
                    "order_shape": shape,
                    "order_expression": order.expression if order is not None else None,
                    "bound_shape": shape if order is not None else bound.value if bound is not None else None,
                    "lower_shape": bound_shape(lower, release) if lower is not None else None,
                    "lower_bounds": [b.to_json() for b in lowers],
                    "n": draft.facts.get("n") and int(draft.facts["n"]),
                    "regime_starts": starts,
                    "regime_order": compared is not None and "C" in compared.regime,
                    "outside": list(_outside(compared, draft)),
                    "touched": _touched(draft, point, results),
                    "records": _records(point, results),
                    "on_held_out": elsewhere,
                    "held_out": _held_out(name, measure, results),
                }
            )
            bounded = tuple(dict.fromkeys(b.measure for b in release.bounds))
            if release.release.expect is None and bounded and measure not in bounded:  # said: another one is no answer to a bound
                notes[f"{name}: {card.id} bounds {', '.join(bounded)}, which these data do not tell; measured is {measure}"] = None
            if compared is None and (why := next((b for b in release.bounds if b.measure == measure and b.outside), None)) is not None:
                notes[f"{name}: no bound of {card.id} applies here; {why.theorem}: {'; '.join(why.outside)}"] = None
            for b in (bound,) if bound is not None else ():
                for condition in b.holds_if:
                    notes[f"The {b.kind} bound of {card.id} holds if: {condition}"] = None
            if reference and (caveat := asked.caveat(release.problem)):
                notes[f"{name}: {caveat}"] = None
            if moved is not None:
                notes[_moved(name, measure, moved)] = None
            if fresh := [r.enforcement[name]["fresh"] for r in results if "fresh" in r.enforcement[name]]:
                size, error = max(n for n, _ in fresh), max(e for _, e in fresh)
                told.setdefault((name, measure), []).append((size, error))
            for text in against["unmet"] if against is not None else ():
                notes[f"The bound of {card.id} is not judged: {text}"] = None
            if any(r.judged.get(name) for r in results) and not np.allclose(judged, errors, rtol=0.05, atol=0):
                text = "Errors are against the covariance; the bound is judged against E x x^T, which is what it bounds"
                notes[f"{name}: the mean of x is not 0. {text}"] = None
    for (name, measure), sizes in told.items():
        many, worst = max(n for n, _ in sizes), max(e for _, e in sizes)
        sample = f"measured on {many:,} fresh records of the law or fewer; its standard error is at most {worst:.2g}"
        notes[f"{name}: {measure} is {sample if many else 'in closed form, of the moments of the law'}"] = None
    notes.update(dict.fromkeys(_trained(points, stated)))
    if d.points[0].public is not None and d.points[0].public.path is not None and not private_known(drafts[0]):
        notes["No private file of the spec is here to compare with: that the public records are others is on your word"] = None
    notes.update(dict.fromkeys(_changed(points)))
    plan = _plan(d.points[0])
    fitted = s.constants(points)
    body = {
        "plan_sha256": plan.get("sha256", ""),
        "mode": "study",
        "seed": d.seed,
        "until": until,
        "varied": list(d.varied),
        "points": points,
        "rates": s.rates(points, d.varied, expected),
        "constant": fitted[0] if fitted else None,
        "constants": fitted,
        "comparisons": s.comparisons(points),
        "regimes": regimes(points),
        "notes": list(notes),
        "plan": plan or None,
        "environment": environment(),
    }
    return StudyResult(body)


def _enforcement(name: str, results: Sequence[CellResult]) -> dict[str, Any] | None:
    """How far enforcement moved the truth; None where it changed no record of the sample. Errors do not include the ``bias``."""
    found = [r.enforcement[name] for r in results if r.enforcement[name]["sample"]]
    if not found:
        return None
    bias, error = ([v for r in found for v in r[key]] for key in ("bias", "error"))
    return {
        "against": "the law of the enforced records",
        "changed": max(r["changed"] for r in found),
        "sample": max(r["sample"] for r in found),
        "bias": sum(bias) / len(bias),
        "truth_error": float(max(error)),
    }


def _moved(name: str, measure: str, moved: Mapping[str, Any]) -> str:
    from dpspec.executor.enforced import ROOM

    return (
        f"{name}: enforcement changes {moved['changed']:.2%} of the records. Errors are against the law of the enforced records, which is "
        f"what bounds speak of; its {measure} from the law itself, the bias of enforcement, is {moved['bias']:.4g} and comes on top for "
        f"every n (from {moved['sample']:,} records, standard error {moved['truth_error']:.2g}; verdicts leave room for {ROOM:g} of them)"
    )


def _outside(bound: BoundValue | None, draft: Any) -> tuple[str, ...]:
    """Why a point lies outside of the regime of the bound that its errors are compared with: conditions in numbers, and the least n."""
    if bound is None:
        return ()
    early = bound.least_n is not None and draft.facts["n"] < bound.least_n
    return (*bound.outside, *((f"it begins at n = {bound.least_n:.4g}, C taken as 1",) if early else ()))


def _changed(points: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Which share of the records each rule of enforcement changed, over the points: a statistic that a release never shows."""
    shares: dict[str, list[tuple[int, int]]] = {}
    for p in points:
        if p["n"]:
            total = p["records"]["read"] if p["records"] else p["n"] * p["trials"]
            for rule, count in p["touched"].items():
                shares.setdefault(rule, []).append((count, total))
    for rule, found in shares.items():
        if rule.startswith(CONSTANT):
            name = rule.removeprefix(CONSTANT)
            yield f"Column {name!r} is the same number in every record once it is encoded and enforced: do its units fit?"
            continue
        low, high = (pick(count / total for count, total in found) for pick in (min, max))
        start = f"Left out as {rule} beyond its bound:" if rule.startswith("rows of") else f"Enforcing the domain of {rule} changed"
        if low == high == 0:
            yield f"{start} no record"
        elif low == high or len(found) == 1:
            count, total = found[0]
            yield f"{start} {count:,} of {total:,} records ({low:.1%})"
        else:
            yield f"{start} {low:.1%} to {high:.1%} of the records"


def _records(point: Point, results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Of real data: how many records were read, may be trained on, and are held out."""
    rows = results[0].rows
    if rows is None:
        return None
    where = None if point.public is None or point.public.path is None else Path(point.public.path).name
    return {"file": where, "read": rows[0], "to_train_on": rows[1], "held_out": rows[2]}


def _held_out(name: str, measure: str, results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Errors on the records that no trial trained on, in the same measure: of the release, of the non-private answer, and of none."""
    from dpspec.executor.summary import error_json

    if name not in results[0].held:
        return None
    errors, reference, trivial = ([e for r in results for e in r.held[name][k]] for k in ("errors", "reference", "trivial"))
    return {
        "error": error_json(measure, errors),
        "reference_error": error_json(measure, reference) if reference else None,
        "trivial_error": sum(trivial) / len(trivial) if trivial else None,
    }


def _trained(points: Sequence[Mapping[str, Any]], stated: float | None) -> Iterator[str]:
    """On how many of the real records trials ran, where that is not all of the spec's own."""
    told: dict[str, None] = {}
    for p in points:
        r = p["records"]
        if r is None or (r["file"] is None and not r["held_out"]):
            continue
        of = f"the {r['read']:,} records of {r['file']}" if r["file"] else f"{r['read']:,} records"
        out = f"; {r['held_out']:,} ({r['held_out'] / r['read']:.1%}) are held out, and no trial trains on them" if r["held_out"] else ""
        if p["n"] < r["to_train_on"]:
            told[f"Each trial trains on n = {p['n']:,} of {of}, drawn anew{out}"] = None
        else:
            told[f"Every trial trains on the same {p['n']:,} of {of}{out}"] = None
        if stated is not None and not p["at"].get("n") and p["n"] < stated:
            told[f"The spec has n = {stated:,.0f}, and there are {p['n']:,} to train on: errors are those of the smaller n"] = None
        if r["held_out"] and p["on_held_out"]:
            told[f"{p['release']}: {p['error']['measure']} is measured on the held-out records"] = None
        elif r["held_out"] and p["held_out"] is None:
            told[f"{p['release']}: what is released speaks of the records that it was computed from, and is not measured on others"] = None
    yield from told


def _touched(draft: Any, point: Point, results: Sequence[CellResult]) -> dict[str, int]:
    """Records that enforcement changed: over all trials of a data law, once for real data (the same records every time)."""
    found: dict[str, int] = {}
    for result in results if draft.analysis.simulate and point.public is None else results[:1]:
        for rule, count in result.touched.items():
            found[rule] = found.get(rule, 0) + count
    return found


def regimes(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Where the theorem's own condition on n begins and whether the study got there, a row a release and algorithm that states one."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for p in points:
        if p["regime_starts"] is not None and p["n"]:
            groups.setdefault((p["release"], p["algorithm"]), []).append(p)
    found = []
    for (release, algorithm), group in groups.items():
        inside = sum(1 for p in group if p["n"] >= p["regime_starts"])
        starts, largest = min(p["regime_starts"] for p in group), max(p["n"] for p in group)
        order = any(p.get("regime_order") for p in group)
        at = f"at n of the order of {starts:,.0f} (its constant is not known)" if order else f"at n = {starts:,.0f}"
        if inside == 0:
            text = f"the regime of the theorem starts {at}; this study stops before it, at n = {largest:,}"
        elif inside < len(group):
            text = f"the regime of the theorem starts {at}; {inside} of {len(group)} points lie in it"
        else:
            text = "every point lies in the regime of the theorem" + (" if its constant is 1" if order else "")
        found.append(
            {"release": release, "algorithm": algorithm, "starts_at": starts, "largest_n": largest, "inside": inside, "text": text}
        )
    return found


def _plan(point: Point) -> dict[str, Any]:
    """The plan of the design's first point with the spec's text, for reports."""
    from dpspec.compiler.plan import make_plan

    made = make_plan(point.parsed)
    return {**made.to_json(), "text": point.parsed.text}


def _exponents(bound: Any, varied: Sequence[str], release: Any) -> dict[str, float]:
    """The bound's asymptotic powers in the varied variables, by sympy; a name that stands in an exponent of the expression (the order of a
    moment) has the spec's own value there, since the power depends on it."""
    if not varied:
        return {}
    from dpspec.lang.source import parse_expr
    from dpspec.spec.expr import names
    from dpspec.symbolic.bounds import BoundExpr, in_exponents

    expression = in_exponents(parse_expr(bound.expression), {k: v for k, v in release.problem.facts.items() if k not in varied})
    found: dict[str, float] = {}
    for variable in varied:
        if variable not in names(expression):
            continue
        try:
            growth = BoundExpr(expression, bound.kind).exponents(variable)
        except ValueError:
            continue
        if not growth.exponential:
            found[variable] = float(growth.power)
    return found


def bound_shape(bound: Any, release: Any) -> float | None:
    """A bound's expression with C = 1; None where it has no finite positive value."""
    return None if bound is None else positive(bound.expression, shape_names(bound, release))


def shape_names(bound: Any, release: Any) -> Mapping[str, float]:
    """The names that an order bound's expression may use: C = 1, the environment, and what the code gives for a name that another bound of
    the card defines in the same words."""
    from dpspec.compiler.bound import bound_terms, environment

    terms, mine = bound_terms(release), {b.theorem: b.where for b in release.module.CARD.bounds}
    where = mine.get(bound.theorem, {})
    shared = {n: v for of, found in terms.items() for n, v in found.items() if n in where and mine.get(of, {}).get(n) == where[n]}
    return {**environment(release), UNKNOWN: 1.0, **shared, **terms.get(bound.theorem, {})}


def _regime(bound: Any, release: Any) -> float | None:
    """The least n of the bound's own condition, from the card; None when the card states none."""
    return None if bound is None else bound.least_n
