"""From a planned release to something that runs: the objective's functions, the records of its part, the released arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpspec.algorithms.card import Problem
from dpspec.compiler.draft import Draft, ReleaseDraft
from dpspec.compiler.resolve import part_rows
from dpspec.spec.model import Minimise


def bound_problem(draft: Draft, release: ReleaseDraft) -> Problem:
    """The release's problem with its vectorised objective, for ``minimise`` tasks."""
    problem = release.problem
    assert problem is not None
    task = release.release.task
    if not isinstance(task, Minimise) or task.pairwise or release.certificate is None:
        return problem
    from dpspec.algorithms.objective import Objective
    from dpspec.algorithms.sets import constraint_set, group_norm
    from dpspec.symbolic.margin import margin_loss

    certificate, loss = release.certificate, problem.loss
    bounds = {} if loss is None else {"limit": loss.slope, "length": loss.lipschitz}
    if certificate.classes > 1:
        from dpspec.algorithms.multinomial import multinomial

        over = constraint_set(problem.task.over, draft.facts)
        assert loss is not None
        alone = problem.neighbours == "add-remove"
        made = multinomial(certificate.classes, over, factor=float(certificate.factor), l2=loss.l2, l1=loss.l1, alone=alone, **bounds)
        return replace(problem, objective=made)
    functions = replace(margin_loss(certificate), limit=math.inf, curve=math.inf)  # the objective brings them into the certified range
    objective = Objective(
        phi=functions.value,
        slope=functions.derivative,
        curvature=functions.second,
        l2=loss.l2 if loss is not None else 0.0,
        l1=loss.l1 if loss is not None else 0.0,
        over=constraint_set(problem.task.over, draft.facts),
        group=group_norm(loss.group, problem.d) if loss is not None else None,
        curve=loss.curve if loss is not None else math.inf,
        **bounds,
    )
    return replace(problem, objective=objective)


def part_of(draft: Draft, release: ReleaseDraft, records: Any) -> Any:
    """The records of a release's ``part``: consecutive rows, fixed by the row order before any record is read."""
    if release.release.part is None:
        return records
    start, stop = part_rows(draft, release.index)
    return records.slice(start, stop)


def public_records(draft: Any, raw: Any, base: Path) -> Any:
    """The loaded records, with the public file of ``with public x (path ...)`` beside them."""
    public = draft.analysis.privacy.public
    if public is None or public.path is None:
        return raw.records
    from dpspec.data.problems import fail
    from dpspec.data.records import Records
    from dpspec.data.sources import load_public

    if raw.records.public_x is not None:
        fail("DP515", f"public x comes twice: from {public.path}, and beside the records as public_x", "leave one of them out")
    rows = load_public(public.path, draft.analysis.data, base_dir=base, values=values(draft))
    return Records(raw.records.x, raw.records.y, rows, raw.records.mapped)


def arrays(estimate: Any, problem: Problem, name: str = "theta") -> dict[str, Any]:
    """The released arrays of an estimate; weights of several classes as a matrix, a row a class."""
    found = {name: estimate.theta.reshape(problem.shape) if len(problem.shape) > 1 else estimate.theta}
    found.update({k: v for k, v in estimate.extras.items() if hasattr(v, "shape") or isinstance(v, (int, float))})
    return found


def values(draft: Draft) -> Mapping[str, Any]:
    return {k: v for k, v in draft.facts.items() if k not in ("n", "d")}
