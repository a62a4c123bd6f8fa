"""Study mode: execute the design, summarise against the theory.

Finished cells are written to ``out/cells`` as they finish, each file whole or not at all; the same study started again resumes from
them. The result does not depend on how often it was interrupted or on the number of workers.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpspec.compiler.plan import meaning
from dpspec.executor.design import Design, Point, design
from dpspec.executor.record import StudyResult, environment, write_json
from dpspec.executor.trial import Cell, CellResult, compiled, execute
from dpspec.lang.source import Parsed

Progress = Callable[[str, int, int], None]

#: Work is cut into cells of at most this many trials, so that an interrupt loses little and workers stay busy.
TRIALS_A_CELL = 10


class Interrupted(Exception):
    """Ctrl-C during a study. ``result`` holds the points whose every trial had finished."""

    def __init__(self, result: StudyResult) -> None:
        super().__init__("interrupted")
        self.result = result


def study(
    parsed: Parsed,
    *,
    trials: int | None = None,
    seed: int | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    compare: Sequence[str] = (),
    quick: bool = False,
    out: Path | str | None = None,
    workers: int | None = None,
    engine: str = "local",
    memory: Any = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Measure the error of every point of the design.

    ``trials``, ``seed``, ``vary`` (numbers or expression text by name) and ``compare`` override the spec's ``study`` block. ``out``:
    where finished cells are kept. ``memory``: (x, y) for a spec ``from memory``. ``progress(what, done, total)`` after each cell.

    Raises SpecError when a point has no plan, or the data are private (DP410); :class:`Interrupted` on Ctrl-C.
    """
    words = {name: tuple(str(v) for v in values) for name, values in (vary or {}).items()}
    d = design(parsed, trials=trials, seed=seed, vary=words, compare=compare, quick=quick)
    drafts = [compiled(p) for p in d.points]  # every point must have a plan before anything runs
    cells = list(_cells(d))
    folder = None if out is None else Path(out) / "cells"
    done: dict[int, CellResult] = {}
    todo: list[int] = []
    for i, cell in enumerate(cells):
        kept = _kept(folder, cell)
        if kept is None:
            todo.append(i)
        else:
            done[i] = kept
    interrupted = False
    try:
        for i, result in _execute(cells, todo, workers=workers, engine=engine, memory=memory):
            done[i] = result
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                write_json(result.to_json(), folder / f"{key(cells[i])}.json")
            if progress is not None:
                progress("", len(done), len(cells))
    except KeyboardInterrupt:
        interrupted = True
    summary = _result(d, drafts, cells, done)
    if interrupted:
        raise Interrupted(summary)
    return summary


def _cells(d: Design) -> Iterator[Cell]:
    for point in d.points:
        for first in range(0, d.trials, TRIALS_A_CELL):
            yield Cell(point, d.seed, first, min(first + TRIALS_A_CELL, d.trials))


def key(cell: Cell) -> str:
    """What a cell's result depends on: the meaning of its analysis, its place in the design (noise streams) and its trials."""
    text = f"{meaning(cell.point.parsed.analysis)}|{cell.point.index}|{cell.seed}|{cell.first}|{cell.stop}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _kept(folder: Path | None, cell: Cell) -> CellResult | None:
    if folder is None:
        return None
    file = folder / f"{key(cell)}.json"
    try:
        return CellResult.from_json(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError):
        return None


def _execute(
    cells: Sequence[Cell], todo: Sequence[int], *, workers: int | None, engine: str, memory: Any
) -> Iterator[tuple[int, CellResult]]:
    """Run the cells, here or in worker processes; yields as they finish."""
    count = min(workers or os.cpu_count() or 1, len(todo))
    if engine == "dask":
        yield from _dask(cells, todo, memory)
        return
    if count <= 1 or memory is not None:
        for i in todo:
            yield i, execute(cells[i], memory)
        return
    import time

    start = time.perf_counter()
    yield todo[0], execute(cells[todo[0]])
    if (time.perf_counter() - start) * (len(todo) - 1) < 4.0:  # worker processes cost about two seconds to start
        for i in todo[1:]:
            yield i, execute(cells[i])
        return
    yield from _processes(cells, todo[1:], count)


def _processes(cells: Sequence[Cell], todo: Sequence[int], count: int) -> Iterator[tuple[int, CellResult]]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_one_thread)
    try:
        futures = {pool.submit(execute, cells[i]): i for i in todo}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _one_thread() -> None:
    """One BLAS thread a process: the processes already use every core. Ctrl-C is the parent's to handle."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def _dask(cells: Sequence[Cell], todo: Sequence[int], memory: Any) -> Iterator[tuple[int, CellResult]]:
    """The cells as Dask tasks, on the active distributed client when there is one, else on Dask's process scheduler."""
    from dpspec.executor.design import refuse

    try:
        import dask
    except ImportError:
        refuse("the dask engine needs the dask package", "pip install 'dpspec[dask]', or --engine local", "DP415")
    tasks = [dask.delayed(execute)(cells[i], memory) for i in todo]
    yield from zip(todo, dask.compute(*tasks), strict=True)


def _result(d: Design, drafts: Sequence[Any], cells: Sequence[Cell], done: Mapping[int, CellResult]) -> StudyResult:
    from dpspec.executor import summary as s

    points: list[dict[str, Any]] = []
    ratios: list[tuple[float, float]] = []
    notes: dict[str, None] = {}
    expected: dict[str, float] = {}
    for point, draft in zip(d.points, drafts, strict=True):
        mine = [i for i, cell in enumerate(cells) if cell.point.index == point.index]
        if any(i not in done for i in mine):
            continue
        results = [done[i] for i in mine]
        for release in draft.releases:
            name = release.release.name
            measure = results[0].measures[name]
            errors = [e for r in results for e in r.errors[name]]
            reference = [e for r in results for e in r.reference[name]]
            bound = s.best_bound(release.bounds, measure)
            order = next((b for b in release.bounds if b.measure == measure and b.kind == "order" and b.type == "upper"), None)
            if bound is not None and not expected:
                expected = _exponents(order or bound, d.varied)
            shape = _order_value(order, release)
            lower = next((b for b in release.bounds if b.measure == measure and b.type == "lower"), None)
            if shape is not None and math.isfinite(shape) and shape > 0:
                summary = s.error_json(measure, errors)
                spread = summary["std"] / math.sqrt(len(errors)) / summary["mean"] if summary["mean"] > 0 else 0.0
                ratios.append((summary["mean"] / shape, spread))
            points.append(
                {
                    "release": name,
                    "algorithm": release.module.CARD.id,
                    "at": dict(point.at),
                    "trials": len(errors),
                    "error": s.error_json(measure, errors),
                    "reference_error": s.error_json(measure, reference) if reference else None,
                    "bound": s.bound_json(bound, errors),
                    "order_shape": shape,
                    "lower_shape": _order_value(lower, release) if lower is not None else None,
                    "lower_bounds": [b.to_json() for b in release.bounds if b.type == "lower" and b.measure == measure],
                    "touched": dict(results[0].touched),
                }
            )
            for b in (bound,) if bound is not None else ():
                for condition in b.holds_if:
                    notes[f"The {b.kind} bound of {release.module.CARD.id} holds if: {condition}"] = None
    plan = _plan(d.points[0])
    body = {
        "plan_sha256": plan.get("sha256", ""),
        "mode": "study",
        "seed": d.seed,
        "varied": list(d.varied),
        "points": points,
        "rates": s.rates(points, d.varied, expected),
        "constant": s.constant(ratios),
        "notes": list(notes),
        "plan": plan or None,
        "environment": environment(),
    }
    return StudyResult(body)


def _plan(point: Point) -> dict[str, Any]:
    """The plan of the design's first point with the spec's text, for reports."""
    from dpspec.compiler.plan import make_plan

    made = make_plan(point.parsed, check=False)
    return {**made.to_json(), "text": point.parsed.text}


def _exponents(bound: Any, varied: Sequence[str]) -> dict[str, float]:
    """The bound's asymptotic powers in the varied variables, by sympy."""
    if not varied:
        return {}
    from dpspec.lang.source import parse_expr
    from dpspec.spec.expr import names
    from dpspec.symbolic.bounds import BoundExpr

    expression = parse_expr(bound.expression)
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


def _order_value(order: Any, release: Any) -> float | None:
    """The order bound's expression with C = 1."""
    if order is None:
        return None
    from dpspec.compiler.bound import environment
    from dpspec.lang.source import parse_expr
    from dpspec.spec.expr import NotANumber, Unbound, evaluate

    try:
        return float(evaluate(parse_expr(order.expression), {**environment(release), "C": 1.0}))
    except (Unbound, NotANumber):
        return None
