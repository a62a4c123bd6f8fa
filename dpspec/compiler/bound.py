"""Pass 5, bound: the chosen algorithm's bounds with their numbers, and what they say about the target.

Only an explicit upper bound (every constant known) with status ``proved`` can accept or miss a target. A bound in expectation
answers a target with a probability through Markov's inequality, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from dpspec.algorithms.card import Bound
from dpspec.compiler.centred import centred, why_centred
from dpspec.compiler.conditions import condition_words, failing
from dpspec.compiler.draft import Bounded, Calibrated, Draft, Path, Resolved, Target, known
from dpspec.compiler.measures import hint
from dpspec.compiler.resolve import number
from dpspec.measures.measure import normal
from dpspec.spec.expr import Num, evaluate
from dpspec.spec.model import Expect
from dpspec.tasks.registry import of
from dpspec.theory import formulas
from dpspec.theory.bounds import BoundValue, before, begins, guaranteed, open_constant
from dpspec.theory.least import EPSILON, RECORDS, least

#: The analysis at another n or epsilon, as far as its bounds; None where it has no plan.
Recompile: TypeAlias = Callable[["Draft[Calibrated]", str, float], "Draft[Bounded] | None"]

#: When to seek the least n and epsilon that meet a target.
Seek: TypeAlias = Literal["always", "missed", "never"]


def bound(draft: Draft[Calibrated], recompile: Recompile | None = None, seek: Seek = "always") -> Draft[Bounded]:
    if not draft.predict_only:
        draft = centred(draft)
    found: list[Bounded] = []
    for release in draft.releases:
        bounds = tuple(_values(draft, release))
        draft, target = _target(draft, release, bounds, recompile, seek)
        found.append(Bounded(**known(release), bounds=bounds, target=target))
        if not draft.predict_only:
            draft = _warned(draft, found[-1])
    return draft.at(found)


def _warned(draft: Draft[Calibrated], release: Bounded) -> Draft[Calibrated]:
    """What promises nothing at this n (DP412)."""
    name, help = release.release.name, "raise n or epsilon, or try the spec with `dpspec study` first"
    early = before(release.bounds, release.problem.n)
    if early is not None:
        order = open_constant(early.regime)
        draft = draft.report(
            "DP412",
            f"release {name!r}: {early.theorem} begins at n {'of the order of' if order else '='} {early.least_n:,.0f}"
            f"{' (its constant is not known)' if order else ''}, and n = {release.problem.n:,}: its bound promises nothing here",
            path=("data", "n") if release.release.part is None else (*release.path, "part"),
            help=help,
            severity="info" if order else "warning",
        )
    if hasattr(release.module, "warnings"):
        for text in _warnings(release):
            path: Path = (*release.path, "by", "algorithm")
            draft = draft.report("DP412", f"release {name!r}: {text}", path=path, help=help, severity="warning")
    return draft


def _warnings(release: Calibrated) -> tuple[str, ...]:
    try:
        return tuple(release.module.warnings(release.problem, release.tunables, release.calibrated))
    except ArithmeticError:
        return ("numbers of its analysis leave the range of doubles: nothing is promised here",)


def environment(release: Calibrated) -> dict[str, float]:
    """Names a bound's expression may use: facts, numeric tunables, each draw's noise scale as ``<draw>_scale``, and the certified constants
    of the loss where none of those has their letter: L, B (smoothness, the ridge's too), lam (strong convexity), D (radius of the set)."""
    known = formulas.environment(release.problem.facts, release.tunables, release.tree, release.calibrated.levels)
    loss, found = release.problem.loss, {}
    if loss is not None:
        found = {"L": loss.lipschitz, "B": loss.smooth + loss.l2, "lam": loss.strongly_convex}
    if "w_radius" in release.problem.facts:
        found["D"] = float(release.problem.facts["w_radius"])
    return {**{k: v for k, v in found.items() if math.isfinite(v) and v > 0}, **known}


def _conditions(draft: Draft[Calibrated], release: Calibrated, measure: str) -> tuple[str, ...]:
    """What a bound holds if: assumptions that are declared, or tested (a test proves nothing), and that the law it speaks of is the one of
    the enforced records."""
    node = release.problem.task
    task = of(node)
    found = []
    for s in release.assumptions:
        if s.role != "utility" or s.status not in ("declared", "tested"):
            continue
        text = s.evidence
        if text.endswith("x has mean 0") and not task.centred(node):  # needed by the name covariance alone
            continue
        said = why_centred(draft) if text.startswith("not stated in the spec: x has mean 0") else None
        found.append(text if said is None else text.replace("not stated in the spec", said))
    if release.problem.neighbours == "add-remove":
        found.append("there are n records (any number runs, and how many is private)")
    over: Any = getattr(node, "over", None)
    if task.inside and over is not None and over.kind != "reals" and not _holds_the_records(over, release.problem.facts):
        found.append(f"{task.inside} lies in the set after `over`")
    how = _enforcement(draft, release)
    on_records = any(m.name == measure and m.on_records for m in task.measures)
    if how and task.law_is and not on_records:
        found.append(f"{task.law_is} the records as they are enforced ({how}); where that changes records, its bias comes on top")
    return tuple(found)


def _holds_the_records(over: Any, facts: Mapping[str, float]) -> bool:
    """Whether every record of the enforced domain lies in a convex set after ``over``, and with them their mean."""
    if over.kind == "ball":
        return facts.get(f"x_{over.norm}", math.inf) <= evaluate(over.radius, facts)
    if over.kind == "box":
        return facts.get("x_low", -math.inf) >= evaluate(over.low, facts) and facts.get("x_high", math.inf) <= evaluate(over.high, facts)
    return False


def _enforcement(draft: Draft[Calibrated], release: Calibrated) -> str:
    """The rules that may change a record, in words; a map only names labels."""
    rules = [f"{d.variable} by {d.by.how}" for d in draft.analysis.data.domains if d.by is not None and d.by.how != "map"]
    radius = of(release.release.task).radius(release.tunables)
    if math.isfinite(radius):
        rules.append(f"x scaled to norm {radius:g} by each client")
    return ", ".join(rules)


def _values(draft: Draft[Calibrated], release: Calibrated) -> Iterator[BoundValue]:
    env = environment(release)
    explicit = getattr(release.module, "explicit_bounds", None)
    if hasattr(release.module, "bounds_apply") and not release.module.bounds_apply(release.problem, release.tunables):
        return
    numbers: dict[str, float] | None = None
    if explicit is not None:
        try:
            numbers = dict(explicit(release.problem, release.tunables, release.calibrated))
        except ArithmeticError:  # a bound beyond the doubles bounds nothing
            numbers = {}
    terms = bound_terms(release)
    for b in release.module.CARD.bounds:
        outside, undecided = failing(draft, release, b, env)
        measure = normal(b.measure)
        probability = formulas.value(b.probability, env) if b.probability else None
        if probability is not None and probability <= 0:
            outside = (*outside, f"it holds with probability {b.probability}, which is {probability:.4g}")
        yield BoundValue(
            measure=measure,
            kind=b.kind,
            type=b.type,
            expression=b.expression,
            value=None if outside else _value(b, {**env, **terms.get(b.theorem, {})}, numbers, own=b.theorem in terms),
            probability=probability,
            status=b.status,
            theorem=b.theorem,
            conditions="; ".join(x for x in (*condition_words(b), b.conditions) if x),
            holds_if=(*undecided, *_conditions(draft, release, measure)),
            regime=b.regime,
            least_n=begins(b.regime, env),
            outside=outside,
            trivial=of(release.problem.task).ceiling(release.problem, measure),
            floor=formulas.value(b.floor, {**env, **terms.get(b.theorem, {})}) if b.floor else None,
        )


def bound_terms(release: Calibrated) -> Mapping[str, Mapping[str, float]]:
    """Values of the names that a card's explicit bounds define, by theorem; of each that applies here."""
    if not hasattr(release.module, "bound_terms"):
        return {}
    try:
        return dict(release.module.bound_terms(release.problem, release.tunables, release.calibrated))
    except ArithmeticError:
        return {}


def _value(b: Bound, env: Mapping[str, float], numbers: Mapping[str, float] | None, *, own: bool) -> float | None:
    """The expression's number. ``numbers``: what the module itself computes, by theorem: a bound that it leaves out does not apply here,
    and where the names of the expression have no values (``own``: the module gives them) it is the value."""
    if b.kind == "order":
        return None
    if numbers is not None and b.theorem not in numbers:
        return None
    found = formulas.value(b.expression, env) if own or numbers is None else None
    return found if found is not None or numbers is None else numbers[b.theorem]


def _target(
    draft: Draft[Calibrated], release: Calibrated, bounds: tuple[BoundValue, ...], recompile: Recompile | None, seek: Seek
) -> tuple[Draft[Calibrated], Target | None]:
    """What the bounds say about the release's target."""
    expect = release.release.expect
    if expect is None:
        return draft, None
    path = (*release.path, "expect")
    draft, limit, probability, sound = _expected(draft, expect, path)
    if limit is None or not sound:
        return draft, None
    undecided = Target(expect.measure, limit, probability, None)
    measures, measurable = {b.measure for b in bounds}, of(release.release.task).measurable
    algorithm, measure = release.module.CARD.id, normal(expect.measure)
    if measure not in (*measures, *measurable):
        return draft.report(
            "DP413",
            f"no study measures {expect.measure} of this task, and {algorithm} has no bound for it",
            path=(*path, "measure"),
            help=hint(expect.measure, tuple(sorted({*measures, *measurable}))),
        ), None
    if measure not in measures:
        return draft.report(
            "DP413",
            f"{algorithm} has no bound for {expect.measure}; its card bounds {', '.join(sorted(measures)) or 'nothing'}",
            path=(*path, "measure"),
            help="choose one of these measures, or measure this one with `dpspec study`",
            severity="warning",
        ), undecided
    value = guaranteed(bounds, measure, probability)
    if value is None:
        return draft.report(
            "DP403",
            f"no proved explicit bound of {algorithm} decides {expect.measure} <= {limit:g}",
            path=path,
            help="order bounds have unknown constants; `dpspec study` measures the error on a simulated law",
            severity="info",
        ), undecided
    met = value <= limit
    target = Target(measure, limit, probability, met)
    sought = recompile is not None and not draft.predict_only and (seek == "always" or (seek == "missed" and not met))
    if sought and recompile is not None:
        n, epsilon = (_least(draft, release, variable, target, recompile) for variable in ("n", "epsilon"))
        target = replace(target, least_n=None if n is None else math.ceil(n), least_epsilon=epsilon)
    return (draft if met else _missed(draft, expect.measure, target, value, path, sought)), target


def _expected(draft: Draft[Calibrated], expect: Expect, path: Path) -> tuple[Draft[Calibrated], float | None, float | None, bool]:
    """The target and its probability in numbers; False where the probability is none."""
    draft, limit = number(draft, expect.at_most, draft.facts, (*path, "at_most"), what="the target")
    probability: float | None = None
    if expect.probability is not None:
        draft, p = number(draft, expect.probability, draft.facts, (*path, "probability"), what="the probability")
        if p is not None and not 0 < p < 1:
            text = f"the probability is {float(p):g}; it lies strictly between 0 and 1"
            return draft.report("DP411", text, path=(*path, "probability"), help="write 0.95, say"), None, None, False
        probability = None if p is None else float(p)
    return draft, None if limit is None else float(limit), probability, True


def _missed(draft: Draft[Calibrated], measure: str, target: Target, value: float, path: Path, sought: bool) -> Draft[Calibrated]:
    least_n, epsilon = target.least_n, target.least_epsilon
    more = [f"n = {least_n:,}" if least_n else "", f"epsilon = {epsilon:.3g}" if epsilon else ""]
    return draft.report(
        "DP402",
        f"{measure} <= {target.at_most:g} is not met: the bound is {value:.4g}",
        path=path,
        help="the bound meets it at " + " or ".join(m for m in more if m)
        if any(more)
        else "no n or epsilon in range meets it by this bound"
        if sought
        else "raise n or the budget",
    )


def _least(draft: Draft[Calibrated], release: Calibrated, variable: str, target: Target, recompile: Recompile) -> float | None:
    """The least value of n or epsilon at which the bound meets the target, everything else fixed. Each probe compiles the analysis anew
    at that value, tunables included."""

    def meets(v: float) -> bool:
        again = recompile(draft, variable, v)
        if again is None:
            return False
        value = guaranteed(again.releases[release.index].bounds, target.measure, target.probability)
        return value is not None and value <= target.at_most

    current = draft.facts.get(variable)
    return None if current is None else least(meets, float(current), RECORDS if variable == "n" else EPSILON)


def substituted(draft: Draft[Calibrated], variable: str, value: float) -> Draft[Resolved]:
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
        releases.append(release.model_copy(update={"by": release.by.model_copy(update={"algorithm": state.module.CARD.id})}))
    return Draft(parsed=replace(draft.parsed, analysis=a.model_copy(update={"releases": tuple(releases)})), predict_only=True)
