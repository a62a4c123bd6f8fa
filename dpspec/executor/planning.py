"""Planning from theory: what error a bound promises over a grid of budgets and sizes, and what a fitted constant predicts.

An explicit bound (every constant known, proved) is a promise. An order bound with a constant fitted by a study is a prediction: it
names the study, gives the range of the constant and never decides a target.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpspec.executor.design import Point, design, refuse, substitute
from dpspec.executor.study import bound_shape
from dpspec.executor.trial import compiled
from dpspec.lang.source import Parsed
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import Num, evaluate
from dpspec.theory.bounds import best
from dpspec.theory.bounds import order as order_of
from dpspec.theory.least import ABOUT_BUDGET, ABOUT_RECORDS
from dpspec.theory.least import least as seek

#: Default grids, as multiples of the spec's own n and budget.
TIMES_N = (Fraction(1, 4), Fraction(1), Fraction(4), Fraction(16))
TIMES_BUDGET = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))


def budget_name(parsed: Parsed) -> str:
    """The word of the budget that the spec states: epsilon, rho or mu."""
    return next((name for name in ("epsilon", "rho", "mu") if getattr(parsed.analysis.privacy, name) is not None), "epsilon")


def trade_off(
    parsed: Parsed,
    vary: Mapping[str, Sequence[str]] | None = None,
    constants: Mapping[tuple[str, str], float] | None = None,
) -> list[dict[str, Any]]:
    """A table a release: the error that its proved explicit bound promises at each n (columns) and budget (rows).

    ``vary``: expressions for n and the budget in place of the default multiples of the spec's own. ``constants``: fitted constants by
    (release, algorithm), used where no explicit bound applies. A cell without a plan or a bound is None; ``fitted`` marks the
    cells that are predictions, not promises.
    """
    budget, vary = budget_name(parsed), dict(vary or {})
    for name in vary:
        if name not in ("n", budget):
            refuse(f"the trade-off table runs over n and {budget}, not {name}", f"--vary n=1e4,1e5 --vary {budget}=0.5,1,2")
    first = compiled(Point(0, (), None, parsed))
    own_n, own_budget = Fraction(first.facts["n"]), Fraction(first.facts[budget])
    words = {
        budget: tuple(vary.get(budget) or (str(float(own_budget * f)) for f in TIMES_BUDGET)),
        "n": tuple(vary.get("n") or (str(max(int(own_n * f), 2)) for f in TIMES_N)),
    }
    points = design(parsed, trials=1, seed=0, vary=words, compare=(), quick=False).points
    tables: list[dict[str, Any]] = []
    for i, release in enumerate(first.releases):
        cells: dict[tuple[float, float], float | None] = {}
        kinds: dict[tuple[float, float], bool] = {}
        chosen = None
        for p in points:
            at = dict(p.at)
            value, found = _promise(p, i, constants or {})
            chosen = found if found and (chosen is None or found[2] == "explicit") else chosen
            kinds[at[budget], at["n"]] = found is not None and found[2] != "explicit"
            cells[at[budget], at["n"]] = value
        rows, columns = list(dict.fromkeys(k[0] for k in cells)), list(dict.fromkeys(k[1] for k in cells))
        tables.append(
            {
                "release": release.release.name,
                "algorithm": release.module.CARD.id,
                "budget": budget,
                "measure": chosen[0] if chosen else None,
                "theorem": chosen[1] if chosen else None,
                "kind": chosen[2] if chosen else None,
                "rows": rows,
                "columns": columns,
                "values": [[cells[r, c] for c in columns] for r in rows],
                "fitted": [[kinds[r, c] for c in columns] for r in rows],
            }
        )
    return tables


def _promise(point: Point, index: int, constants: Mapping[tuple[str, str], float]) -> tuple[float | None, tuple[str, str, str] | None]:
    try:
        release = compiled(point).releases[index]
    except SpecError:
        return None, None
    for measure in dict.fromkeys(b.measure for b in release.bounds):
        bound = best(release.bounds, measure)
        if bound is not None and bound.kind == "explicit" and bound.value is not None:
            return bound.value, (measure, bound.theorem, "explicit")
    c = constants.get((release.release.name, release.module.CARD.id))
    order = order_of(release.bounds)
    if c is None or order is None:
        return None, None
    shape = bound_shape(order, release)
    return (None if shape is None else c * shape), (order.measure, order.theorem, "fitted constant")


def fitted(study: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The fitted constants of a study, by (release, algorithm)."""
    return {(c["release"], c["algorithm"]): c for c in study.get("constants", [])}


def predictions(parsed: Parsed, study: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """For each release whose order bound has a constant in ``study``: the predicted error, and the least n and budget for its target.

    ``name``: what to call the study (its file). Raises SpecError (DP411) when the study has no constant for any release of the spec.
    """
    draft = compiled(Point(0, (), None, parsed))
    constants, budget = fitted(study), budget_name(parsed)
    rows = []
    for i, release in enumerate(draft.releases):
        c = constants.get((release.release.name, release.module.CARD.id))
        order = order_of(release.bounds)
        if c is None or order is None or c["expression"] != order.expression:
            continue
        shape = bound_shape(order, release)
        if shape is None:
            continue
        low, high = c["ci95"]
        target = None
        expect = release.release.expect
        if expect is not None and expect.measure == order.measure:
            target = float(evaluate(expect.at_most, draft.facts))

        def error(variable: str, value: float, constant: float, i: int = i) -> float:
            changed = replace(parsed, analysis=substitute(parsed.analysis, variable, Num(_exact(variable, value))))
            try:
                state = compiled(Point(0, (), None, changed)).releases[i]
            except SpecError:
                return math.inf
            found = order_of(state.bounds)
            at = None if found is None else bound_shape(found, state)
            return math.inf if at is None else constant * at

        def least(variable: str, constant: float, start: float, goal: float | None = target) -> float | None:
            if goal is None:
                return None
            return seek(lambda v: error(variable, v, constant) <= goal, start, ABOUT_RECORDS if variable == "n" else ABOUT_BUDGET)

        n, b = float(draft.facts["n"]), float(draft.facts[budget])
        measured = [p["n"] for p in study["points"] if p["release"] == release.release.name and p["algorithm"] == release.module.CARD.id]
        rows.append(
            {
                "release": release.release.name,
                "algorithm": release.module.CARD.id,
                "measure": order.measure,
                "study": name,
                "study_plan_sha256": study["plan_sha256"],
                "constant": c["value"],
                "ci95": [low, high],
                "predicted": c["value"] * shape,
                "predicted95": [low * shape, high * shape],
                "target": target,
                "budget": budget,
                "least_n": least("n", c["value"], n),
                "least_n_safe": least("n", high, n),
                "least_budget": least(budget, c["value"], b),
                "least_budget_safe": least(budget, high, b),
                "extrapolates": bool(measured) and not min(measured) <= n <= max(measured),
            }
        )
    if not rows:
        refuse(f"{name} has no fitted constant for a release and algorithm of this spec", "run `dpspec study` on this spec with --out")
    return rows


def _exact(variable: str, value: float) -> Fraction:
    return Fraction(round(value)) if variable == "n" else Fraction(value)
