"""From a planned release to something that runs: what its algorithm asks, and the records of its part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dpspec.algorithms.card import Problem
from dpspec.compiler.certify import binding_of, contributions
from dpspec.compiler.draft import Draft, ReleaseDraft
from dpspec.compiler.resolve import part_rows
from dpspec.compiler.samples import beside as beside
from dpspec.compiler.samples import missing as missing
from dpspec.compiler.samples import values as values
from dpspec.data.enforce import enforce
from dpspec.data.problems import fail
from dpspec.executor import units
from dpspec.privacy.noise import NoiseSource
from dpspec.tasks.registry import of


def bound_problem(draft: Draft, release: ReleaseDraft) -> Problem:
    """The release's problem with what its algorithm asks."""
    problem = release.problem
    return replace(problem, oracle=of(problem.task).bind(binding_of(draft, release, problem)))


def part_of(draft: Draft, release: ReleaseDraft, records: Any) -> Any:
    """The records of a release's ``part``: consecutive rows, fixed by the row order before any record is read."""
    node = release.release.task
    if of(node).labelled(node) and not records.has_y:
        fail(
            "DP523",
            f"release {release.release.name!r} asks about y, and the records have no target",
            "name the target of the data, or its law",
        )
    if release.release.part is None:
        return records
    start, stop = part_rows(draft, release.index)
    return records.slice(start, stop)


def public_records(draft: Any, raw: Any, base: Path) -> Any:
    """The loaded records, with the public file of ``with public x (path ...)`` beside them."""
    public = draft.analysis.privacy.public
    if public is None or public.path is None:
        return raw.records
    from dpspec.data.sources import load_public

    if raw.records.public_x is not None:
        fail("DP515", f"public x comes twice: from {public.path}, and beside the records as public_x", "leave one of them out")
    rows = load_public(public.path, draft.analysis.data, base_dir=base, values=values(draft))
    return replace(raw.records, public_x=rows)


def of_units(draft: Draft, records: Any, noise: NoiseSource, counts: Any = None) -> Any:
    """The records that count where a unit has several: so many rows of each at most (:mod:`dpspec.executor.units`). Records of a data law
    have no identifier, and each is a unit of its own. ``counts``: notes how many records were left out, which only a study may show."""
    data = draft.analysis.data
    if not data.identified or (draft.analysis.simulate and not hasattr(records, "words")):
        return records
    codes, _ = records.beside(data.identified)
    kept = units.rows(codes, contributions(draft)[0], noise)
    if counts is not None and kept.size < records.n:
        counts.touched["rows of a " + data.unit] = records.n - int(kept.size)
    return records.take(kept)


def in_groups(draft: Draft, release: ReleaseDraft, problem: Problem, records: Any, noise: NoiseSource) -> Any:
    """Of these, the records in so many groups of each unit at most, where a release groups them."""
    data, group = draft.analysis.data, getattr(problem.task, "group", "")
    if not group or problem.groups >= problem.rows or data.identified not in getattr(records, "words", {}):
        return records
    codes, _ = records.beside(data.identified)
    return records.take(units.groups(codes, problem.oracle.groups(records), problem.groups, noise))


def enforced(draft: Draft, records: Any, fresh: bool = False) -> tuple[Any, Any]:
    """The records with the domains of the spec made true, and what was touched (a statistic that only a study may show). ``fresh``: nobody
    else holds x."""
    apart = draft.analysis.privacy.attribute
    return enforce(records, draft.analysis.data, values(draft), missing=missing(draft), apart=apart, fresh=fresh)
