"""Pass 5, bound: the chosen algorithm's bounds with their numbers, and what they say about the target.

Only an explicit upper bound (every constant known) with status ``proved`` can accept or miss a target. A bound in expectation
answers a target with a probability through Markov's inequality, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from dpspec.algorithms.card import Bound
from dpspec.compiler.centred import centred, why_centred
from dpspec.compiler.draft import BoundValue, Draft, ReleaseDraft, Target
from dpspec.compiler.measures import hint
from dpspec.compiler.resolve import number
from dpspec.compiler.tunables import default
from dpspec.lang.source import parse_expr
from dpspec.measures.measure import normal
from dpspec.spec.expr import NotANumber, Num, Unbound, evaluate, names
from dpspec.tasks.registry import of

Recompile = Callable[[Draft, str, float], Draft]

#: When to seek the least n and epsilon that meet a target.
Least: TypeAlias = Literal["always", "missed"]


def bound(draft: Draft, recompile: Recompile | None = None, least: Least = "always") -> Draft:
    if draft.failed:
        return draft
    if not draft.predict_only:
        draft = centred(draft)
    for release in draft.releases:
        if release.module is None or release.calibrated is None:
            continue
        values = tuple(_values(draft, release))
        draft = draft.with_release(replace(release, bounds=values))
        current = next(r for r in draft.releases if r.index == release.index)
        if release.release.expect is not None:
            draft = _target(draft, current, recompile, least)
        early = None if draft.predict_only else _outside(current)
        if early is not None and release.problem is not None:
            order = "C" in names(default(early.regime, {"C": 1.0})[0])
            draft = draft.report(
                "DP412",
                f"release {release.release.name!r}: {early.theorem} begins at n {'of the order of' if order else '='} {early.least_n:,.0f}"
                f"{' (its constant is not known)' if order else ''}, and n = {release.problem.n:,}: its bound promises nothing here",
                path=("data", "n") if release.release.part is None else (*release.path, "part"),
                help="raise n or epsilon, or try the spec with `dpspec study` first",
                severity="info" if order else "warning",
            )
        if hasattr(release.module, "warnings") and not draft.predict_only:
            for text in _warnings(release):
                draft = draft.report(
                    "DP412",
                    f"release {release.release.name!r}: {text}",
                    path=(*release.path, "by", "algorithm"),
                    help="raise n or epsilon, or try the spec with `dpspec study` first",
                    severity="warning",
                )
    return draft


def _warnings(release: ReleaseDraft) -> tuple[str, ...]:
    try:
        return tuple(release.module.warnings(release.problem, release.tunables, release.calibrated))
    except ArithmeticError:
        return ("numbers of its analysis leave the range of doubles: nothing is promised here",)


def environment(release: ReleaseDraft) -> dict[str, Any]:
    """Names a bound's expression may use: facts, numeric tunables, and each draw's noise scale as ``<draw>_scale``."""
    from dpspec.privacy.schedule import draws

    assert release.problem is not None
    assert release.tunables is not None
    assert release.tree is not None
    env: dict[str, Any] = dict(release.problem.facts)
    env.update({k: float(v) for k, v in release.tunables.items() if isinstance(v, (int, float))})
    found = draws(release.tree)
    for name, leaf in found.items():
        scale = leaf.draw.mechanism.scale(release.calibrated.levels[name])
        env[f"{name}_scale".replace("-", "_")] = scale
        if len(found) == 1:
            env["scale"] = scale
    return env


def _conditions(draft: Draft, release: ReleaseDraft, measure: str) -> tuple[str, ...]:
    """What a bound holds if: declared assumptions, and that the law it speaks of is the one of the enforced records."""
    node = release.release.task if release.problem is None else release.problem.task
    task = of(node)
    found = []
    for s in release.assumptions:
        if s.role != "utility" or s.status != "declared":
            continue
        text = s.evidence
        if text.endswith("x has mean 0") and not task.centred(node):  # needed by the name covariance alone
            continue
        said = why_centred(draft) if text.startswith("not stated in the spec: x has mean 0") else None
        found.append(text if said is None else text.replace("not stated in the spec", said))
    if release.problem is not None and release.problem.neighbours == "add-remove":
        found.append("there are n records (any number runs, and how many is private)")
    how = _enforcement(draft, release)
    on_records = any(m.name == measure and m.on_records for m in task.measures)
    if how and release.problem is not None and task.law_is and not on_records:
        found.append(f"{task.law_is} the records as they are enforced ({how}); where that changes records, its bias comes on top")
    return tuple(found)


def _enforcement(draft: Draft, release: ReleaseDraft) -> str:
    """The rules that may change a record, in words; a map only names labels."""
    rules = [f"{d.variable} by {d.by.how}" for d in draft.analysis.data.domains if d.by is not None and d.by.how != "map"]
    radius = of(release.release.task).radius(release.tunables or {})
    if math.isfinite(radius):
        rules.append(f"x scaled to norm {radius:g} by each client")
    return ", ".join(rules)


def _values(draft: Draft, release: ReleaseDraft) -> Iterator[BoundValue]:
    env = environment(release)
    explicit = getattr(release.module, "explicit_bounds", None)
    numbers: dict[str, float] | None = None
    if explicit is not None:
        try:
            numbers = dict(explicit(release.problem, release.tunables, release.calibrated))
        except ArithmeticError:  # a bound beyond the doubles bounds nothing
            numbers = {}
    for b in release.module.CARD.bounds:
        yield BoundValue(
            measure=normal(b.measure),
            kind=b.kind,
            type=b.type,
            expression=b.expression,
            value=_value(b, env, numbers),
            probability=_probability(b, env),
            status=b.status,
            theorem=b.theorem,
            conditions=b.conditions,
            holds_if=_conditions(draft, release, normal(b.measure)),
            regime=b.regime,
            least_n=regime(b, env),
        )


def regime(b: Bound, env: dict[str, Any]) -> float | None:
    """The n at which a bound begins, its unspecified constant taken as 1; None where the card states none or a name has no value."""
    if not b.regime:
        return None
    known = {**env, "C": 1.0}
    try:
        value = float(evaluate(default(b.regime, known)[0], known))
    except (Unbound, NotANumber, OverflowError):
        return None
    return value if math.isfinite(value) and value > 0 else None


def _outside(release: ReleaseDraft) -> BoundValue | None:
    """The upper bound that begins first, where n lies before every one that states where it begins."""
    assert release.problem is not None
    stated = [b for b in release.bounds if b.type == "upper" and b.status != "refuted" and b.least_n is not None]
    first = min(stated, key=lambda b: b.least_n or 0.0, default=None)
    return first if first is not None and first.least_n is not None and release.problem.n < first.least_n else None


def _value(b: Bound, env: dict[str, Any], numbers: dict[str, float] | None) -> float | None:
    """``numbers``: the module's own values by theorem (a bound that it leaves out does not apply here); without them the expression's."""
    if b.kind == "order":
        return None
    if numbers is not None:
        return numbers.get(b.theorem)
    try:
        return float(evaluate(parse_expr(b.expression), env))
    except (Unbound, NotANumber, ArithmeticError):
        return None


def _probability(b: Bound, env: dict[str, Any]) -> float | None:
    if not b.probability:
        return None
    try:
        return float(evaluate(parse_expr(b.probability), env))
    except (Unbound, NotANumber, ArithmeticError):
        return None


def at_target(values: tuple[BoundValue, ...], measure: str, probability: float | None) -> float | None:
    """The least proved explicit upper bound for a measure, at the asked probability (Markov for bounds in expectation)."""
    best: float | None = None
    for b in values:
        if b.measure != normal(measure) or b.kind != "explicit" or b.type != "upper" or b.status != "proved" or b.value is None:
            continue
        value = b.value
        if probability is not None and b.probability is None:
            value = value / (1 - probability) if probability < 1 else math.inf
        elif probability is not None and b.probability is not None and b.probability < probability:
            continue
        best = value if best is None else min(best, value)
    return best


def _target(draft: Draft, release: ReleaseDraft, recompile: Recompile | None, least: Least) -> Draft:
    expect = release.release.expect
    assert expect is not None
    path = (*release.path, "expect")
    draft, limit = number(draft, expect.at_most, draft.facts, (*path, "at_most"), what="the target")
    probability: float | None = None
    if expect.probability is not None:
        draft, p = number(draft, expect.probability, draft.facts, (*path, "probability"), what="the probability")
        if p is not None and not 0 < p < 1:
            text = f"the probability is {float(p):g}; it lies strictly between 0 and 1"
            return draft.report("DP411", text, path=(*path, "probability"), help="write 0.95, say")
        probability = None if p is None else float(p)
    if limit is None:
        return draft
    measures = {b.measure for b in release.bounds}
    known = of(release.release.task).measurable
    if normal(expect.measure) not in (*measures, *known):
        return draft.report(
            "DP413",
            f"no study measures {expect.measure} of this task, and {release.module.CARD.id} has no bound for it",
            path=(*path, "measure"),
            help=hint(expect.measure, tuple(sorted({*measures, *known}))),
        )
    if normal(expect.measure) not in measures:
        draft = draft.report(
            "DP413",
            f"{release.module.CARD.id} has no bound for {expect.measure}; its card bounds {', '.join(sorted(measures)) or 'nothing'}",
            path=(*path, "measure"),
            help="choose one of these measures, or measure this one with `dpspec study`",
            severity="warning",
        )
        return draft.with_release(replace(release, target=Target(expect.measure, float(limit), probability, None)))
    value = at_target(release.bounds, expect.measure, probability)
    if value is None:
        draft = draft.report(
            "DP403",
            f"no proved explicit bound of {release.module.CARD.id} decides {expect.measure} <= {float(limit):g}",
            path=path,
            help="order bounds have unknown constants; `dpspec study` measures the error on a simulated law",
            severity="info",
        )
        return draft.with_release(replace(release, target=Target(expect.measure, float(limit), probability, None)))
    met = value <= float(limit)
    least_n = least_epsilon = None
    if recompile is not None and not draft.predict_only and (least == "always" or not met):
        least_n = _least(draft, release, "n", float(limit), probability, recompile)
        least_epsilon = _least(draft, release, "epsilon", float(limit), probability, recompile)
    target = Target(normal(expect.measure), float(limit), probability, met, None if least_n is None else math.ceil(least_n), least_epsilon)
    draft = draft.with_release(replace(release, target=target))
    if not met:
        more = [f"n = {target.least_n:,}" if target.least_n else "", f"epsilon = {least_epsilon:.3g}" if least_epsilon else ""]
        draft = draft.report(
            "DP402",
            f"{expect.measure} <= {float(limit):g} is not met: the bound is {value:.4g}",
            path=path,
            help="the bound meets it at " + " or ".join(m for m in more if m)
            if any(more)
            else "no n or epsilon in range meets it by this bound",
        )
    return draft


def _least(
    draft: Draft, release: ReleaseDraft, variable: str, limit: float, probability: float | None, recompile: Recompile
) -> float | None:
    """The least value of n or epsilon at which the bound meets the target, everything else fixed.

    A bracket is sought outwards from the stated value by factors of four, then halved in the logarithm to 0.05%. Each probe compiles
    the analysis anew at that value, tunables included; the answer itself is always a value at which the target was seen to be met.
    """
    measure = release.release.expect.measure if release.release.expect else ""

    def meets(v: float) -> bool:
        again = recompile(draft, variable, v)
        got = next((r for r in again.releases if r.index == release.index), None)
        if got is None or again.failed or not got.bounds:
            return False
        value = at_target(got.bounds, measure, probability)
        return value is not None and value <= limit

    current = draft.facts.get(variable)
    if current is None:
        return None
    value = float(current)
    lowest, highest = (2.0, 1e13) if variable == "n" else (1e-5, 1e3)
    if meets(value):
        low, high = value, value
        while meets(low):
            if low <= lowest:
                return low
            low, high = max(low / 4, lowest), low
    else:
        low, high = value, value
        while not meets(high):
            if high >= highest:
                return None
            low, high = high, min(high * 4, highest)
    while high / low > 1.0005:
        middle = math.sqrt(low * high)
        if variable == "n":
            middle = float(round(middle))
            if middle in (low, high):
                break
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def substituted(draft: Draft, variable: str, value: float) -> Draft:
    """The same analysis with n or epsilon replaced, ready for the passes."""
    from fractions import Fraction

    a = draft.analysis
    exact = Num(Fraction(round(value))) if variable == "n" else Num(Fraction(value))
    if variable == "n":
        a = a.model_copy(update={"data": a.data.model_copy(update={"n": exact})})
    else:
        a = a.model_copy(update={"privacy": a.privacy.model_copy(update={"epsilon": exact})})
    releases = []
    for release, state in zip(a.releases, draft.releases, strict=True):
        chosen = state.module.CARD.id if state.module is not None else release.by.algorithm
        releases.append(release.model_copy(update={"by": release.by.model_copy(update={"algorithm": chosen})}))
    return Draft(parsed=replace(draft.parsed, analysis=a.model_copy(update={"releases": tuple(releases)})), predict_only=True)
