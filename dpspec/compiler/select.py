"""Pass 3, select: every algorithm is asked; the best one that can serve is taken, and each refused one says which requirement fails.

``by auto`` ranks the eligible algorithms by predicted error, each calibrated to the whole budget on its own. A named algorithm is
taken as it is, or refused with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TypeAlias

from dpspec.algorithms.card import Card, Goal, Need, Problem, Tunables
from dpspec.compiler.calibrate import relation, solved
from dpspec.compiler.certify import binding_of, domain_path, enforced
from dpspec.compiler.draft import AssumptionStatus, Candidate, Certified, Chosen, Draft, Path, Setting, known
from dpspec.compiler.resolve import domain_of
from dpspec.compiler.tunables import Refusal, resolve_tunables
from dpspec.data.files import Corners
from dpspec.measures.measure import normal
from dpspec.numeric.norms import OutOfRange
from dpspec.privacy.schedule import Disjoint, Draw, Parallel, Sequence, Tree, has_attributes
from dpspec.spec.assumptions import gives
from dpspec.spec.expr import Name
from dpspec.spec.model import Polytope
from dpspec.spec.words import BUDGETS, LOSS_CLAIMS
from dpspec.tasks.protocol import Refusal as Asked
from dpspec.tasks.registry import of
from dpspec.theory.bounds import BoundValue, guaranteed
from dpspec.theory.formulas import numeric, value


@dataclass(frozen=True, slots=True)
class Choice:
    """An algorithm that was asked. ``chosen``: the release as it would serve it; None where it cannot."""

    candidate: Candidate
    chosen: Chosen | None = None
    place: Path | None = None  # of the mistake, where it is not the choice of the algorithm
    help: str = ""


#: Why a card that is no algorithm cannot stand after ``by``.
NO_ALGORITHM = {
    "reference": "is a non-private reference; it adds no noise",
    "mechanism": "is a mechanism that algorithms draw from, not an algorithm for a release",
    "primitive": "is a building block of algorithms, not an algorithm for a release",
    "cited": "is only cited: its bounds are compared with, its method is not implemented",
}


def _other_budget(card: Card) -> str:
    if "approx" in card.guarantees:
        return "add a delta well below 1/n: delta = 1/n^1.1"
    return f"state {' or '.join(BUDGETS[g] for g in card.guarantees)} in the privacy section"


def select(draft: Draft[Certified]) -> Draft[Certified]:
    """Releases that an algorithm serves come out as :class:`Chosen`; the others stay, and an error says why."""
    if draft.budget is None or "n" not in draft.facts or "d" not in draft.facts:
        return draft
    found: list[Certified] = []
    for release in draft.releases:
        told = release.certificate is not None and any(f.severity == "error" and f.assumption is None for f in release.certificate.findings)
        if release.problem.facts["n"] >= 1 and not told and not unread(release.problem):  # that has been reported
            asked = _asked(draft, release, release.problem)
            draft, release = _select(draft, release) if asked is draft else (asked, release)
        found.append(release)
    return draft.at(found)


def _asked(draft: Draft[Certified], release: Certified, problem: Problem) -> Draft[Certified]:
    """What the task itself refuses, whoever would serve it."""
    for found in of(problem.task).check(binding_of(draft, release, problem)):
        text = f"release {release.release.name!r}: {found.message}"
        draft = draft.report(found.code, text, path=(*release.path, *found.place), help=found.help)
    return draft


def unread(problem: Problem) -> bool:
    """Whether the set is a polytope whose file was refused."""
    over = getattr(problem.task, "over", None)
    return isinstance(over, Polytope) and not isinstance(over, Corners)


def _select(draft: Draft[Certified], release: Certified) -> tuple[Draft[Certified], Certified]:
    return _best(draft, release) if release.release.by.algorithm == "auto" else _named(draft, release)


def _named(draft: Draft[Certified], release: Certified) -> tuple[Draft[Certified], Certified]:
    """The algorithm that the spec names."""
    from dpspec.algorithms.registry import UnknownAlgorithm, get

    name = release.release.by.algorithm
    path: Path = (*release.path, "by", "algorithm")
    try:
        module = get(name)
    except UnknownAlgorithm as error:
        return draft.report("DP404", str(error), path=path, help=error.help), release
    if module.CARD.role != "algorithm":
        return draft.report(
            "DP407",
            f"{name} {NO_ALGORITHM[module.CARD.role]}",
            path=path,
            help="choose an algorithm that `dpspec algorithms` lists with role algorithm; studies run references beside it",
        ), release
    choice = consider(draft, release, module)
    if choice.chosen is not None:
        return draft, replace(choice.chosen, candidates=(choice.candidate,))
    refused, reason = choice.candidate, choice.candidate.reasons[0]
    of_the_choice = refused.code in ("task", "DP401", "DP301", "DP407", "DP409", "DP210")
    draft = draft.report(
        refused.code if refused.code not in ("DP401", "task") else "DP407",
        f"{name} cannot serve release {release.release.name!r}: {reason}" if of_the_choice else reason,
        path=path if choice.place is None else choice.place,
        help=choice.help or "`by auto` chooses among the algorithms that can serve",
    )
    return draft, replace(release, candidates=(refused,))


def _best(draft: Draft[Certified], release: Certified) -> tuple[Draft[Certified], Certified]:
    """The best of all that can serve."""
    from dpspec.algorithms.registry import all_modules

    path: Path = (*release.path, "by", "algorithm")
    choices = [consider(draft, release, module) for module in all_modules() if module.CARD.role == "algorithm"]
    centred = _uncertain_mean(draft, release)
    ordered = sorted(choices, key=lambda c: (centred and c.chosen is not None and not c.chosen.module.CARD.centres, *_rank(c)))
    candidates = tuple(c.candidate for c in ordered)
    best = next((c.chosen for c in ordered if c.chosen is not None), None)
    if best is not None:
        return draft, replace(best, candidates=candidates)
    return _nobody(draft, release, ordered, path), replace(release, candidates=candidates)


def _uncertain_mean(draft: Draft[Certified], release: Certified) -> bool:
    """Whether the question means what it says only for a mean of 0, another name is ready for the rest, and nobody says that it is 0."""
    from dpspec.compiler.centred import why_centred

    task = of(release.problem.task)
    return task.centred(release.problem.task) and task.uncentred(release.problem.task) is not None and why_centred(draft) is None


def _nobody(draft: Draft[Certified], release: Certified, ordered: list[Choice], path: Path) -> Draft[Certified]:
    """Why no algorithm serves a release: what privacy would rest on first, else every reason once."""
    if all(c.candidate.code == "task" for c in ordered):
        return draft.report(
            "DP401",
            f"no algorithm serves {of(release.release.task).words[0]}, the task of {release.release.name!r}, under any privacy model",
            path=path,
            help="`dpspec algorithms` lists the tasks and privacy models that are served",
        )
    near = [c for c in ordered if c.candidate.code != "task"] or ordered
    shared: dict[str, list[Choice]] = {}
    for c in near:
        shared.setdefault(c.candidate.reasons[0], []).append(c)
    reasons = "; ".join(f"{', '.join(c.candidate.id for c in group)}: {reason}" for reason, group in list(shared.items())[:6])
    privacy = [c for c in near if c.candidate.code == "DP210"]
    if privacy:
        first = privacy[0]
        return draft.report("DP210", f"{first.candidate.id}: {first.candidate.reasons[0]}", path=first.place or path, help=first.help)
    return draft.report(
        "DP401",
        f"no algorithm serves release {release.release.name!r} under {draft.analysis.privacy.model}; {reasons}",
        path=path,
        help=_help_of_most(list(shared.values())) or "`dpspec algorithms` lists the tasks and privacy models that are served",
    )


def _help_of_most(groups: list[list[Choice]]) -> str:
    """The repair of the reason that refuses the most algorithms; where no two share one, the first repair that there is. Another privacy
    model is the last of them: it promises something else, and its algorithms have needs of their own."""
    groups = [g for g in groups if not g[0].help.startswith("privacy ")] or groups
    most = max(groups, key=len)
    return most[0].help if len(most) > 1 else next((c.help for group in groups for c in group if c.help), "")


def _rank(choice: Choice) -> tuple[int, float, str]:
    c = choice.candidate
    error = math.inf if c.predicted_error is None or math.isnan(c.predicted_error) else c.predicted_error
    return (0 if c.eligible else 1 if c.code != "task" else 2, error, c.id)


def _counting() -> list[str]:
    """The algorithms whose sensitivities know several rows a unit."""
    from dpspec.algorithms.registry import all_modules

    return [module.CARD.id for module in all_modules() if module.CARD.contributions]


#: A slope whose square and products with it leave the doubles. Noise of that size leaves nothing anyway.
STEEP = 1e100


def consider(draft: Draft[Certified], release: Certified, module: ModuleType) -> Choice:
    """Can this algorithm serve the release? The first requirement that fails, or its schedule and predicted error."""
    card: Card = module.CARD
    problem = release.problem

    def refuse(reason: str, *, code: str = "DP401", help: str = "", place: Path | None = None) -> Choice:
        return Choice(Candidate(card.id, False, (reason,), None, code), place=place, help=help)

    words = of(problem.task).words
    if card.task not in words:
        return refuse(f"it serves the task {card.task}, not {words[-1]}", code="task")
    for found in of(problem.task).check(binding_of(draft, release, problem)):
        return refuse(found.message, code=found.code, help=found.help, place=(*release.path, *found.place))
    if problem.model not in card.models:
        return refuse(f"it works under {' and '.join(card.models)}, not under {problem.model}", help=f"privacy {card.models[0]}")
    if problem.rows > 1 and not card.contributions:
        unit = draft.analysis.data.unit
        return refuse(
            f"its sensitivity is that of one row, and {problem.rows} rows of one {unit} count",
            code="DP407",
            help=f"at most 1 rows a {unit}; {', '.join(_counting())} count several",
        )
    if release.certificate is not None and not release.certificate.exact_regulariser:
        return refuse(
            "the loss has a term without x and y that is neither c*|w|^2, c*|w|_1 nor the first c*group(w, ...)",
            code="DP407",
            help="write ridge or l1 terms" if problem.loss is not None and problem.loss.several else "write ridge, l1 or group terms",
        )
    if "online" in problem.modifiers and not getattr(module, "ONLINE", False):
        return refuse(
            "it reads all records before it releases anything; `online` asks for releases as records arrive", help="leave `online` out"
        )
    assert draft.budget is not None  # `select` asks nobody without one
    if draft.budget.kind not in card.guarantees:
        gives = " or ".join(BUDGETS[g] for g in card.guarantees)
        return refuse(f"it gives {gives}; the budget is {BUDGETS[draft.budget.kind]}", code="DP301", help=_other_budget(card))
    statuses, weak = assumption_statuses(draft, release, card)
    if weak is not None and weak.name in ("convex", "strongly-convex"):  # a property of the loss: no domain makes it true
        return refuse(weak.evidence, code="DP407", help="an algorithm whose privacy does not rest on it, or a larger ridge term")
    if weak is not None:
        return refuse(weak.evidence, code="DP210", help=_remedy(weak, problem), place=_unenforced(draft, weak))
    odd = _odd_file(card, release)
    if odd is not None:
        return refuse(odd.message, code=odd.code, help=odd.help, place=(*release.path, *odd.place))
    resolved = resolve_tunables(card, problem, release.release.by.options if release.release.by.algorithm != "auto" else ())
    if isinstance(resolved, Refusal):
        return refuse(resolved.message, code=resolved.code, help=resolved.help, place=_of_option(release, resolved))
    tunables, settings = resolved
    settings.update({name: Setting(path, path, "the spec") for name, path in release.release.by.files})
    lipschitz = release.certificate.lipschitz if release.certificate is not None else 0.0
    try:
        if STEEP < lipschitz < math.inf and any(s.name == "lipschitz" and s.role == "privacy" for s in statuses):
            raise OverflowError
        choice = _served(draft, release, module, problem, tunables, settings, statuses, refuse)
        return _for_the_target(draft, release, choice, lambda t, s: _served(draft, release, module, problem, t, s, statuses, refuse))
    except ArithmeticError:  # a product of finite constants that no double holds
        steep = f": the slope of the loss reaches {lipschitz:.3g}" if 1e30 < lipschitz < math.inf else ""
        return refuse(
            f"its constants leave the range of numbers{steep}, and noise of such a size leaves nothing of an answer",
            code="DP407",
            help="a smaller set after `over`, a smaller domain, or a loss that grows less",
        )


#: Serves a release with these settings.
_Serve: TypeAlias = Callable[[Tunables, Mapping[str, Setting]], Choice]


def _for_the_target(draft: Draft[Certified], release: Certified, choice: Choice, serve: _Serve) -> Choice:
    """The choice with the settings of its card that promise more for the target of the spec, where the default ones miss it or promise
    nothing: a target keeps its certificate as the default's way changes with n."""
    goal, by = release.problem.goal, release.release.by
    if choice.chosen is None or goal is None:
        return choice
    card: Card = choice.chosen.module.CARD
    options = by.options if by.algorithm != "auto" else ()
    if not card.certified or {name for name, _ in options} & {*card.certified, *card.settled}:
        return choice
    now = _promised(choice.chosen, goal)
    if now is not None and now <= goal.at_most:
        return choice
    words = tuple((name, Name(word)) for name, word in card.certified.items())
    resolved = resolve_tunables(card, release.problem, (*options, *words))
    if isinstance(resolved, Refusal):
        return choice
    tunables, settings = resolved
    for name, word in card.certified.items():
        settings[name] = Setting(word, word, "the default has no bound that meets the target")
    other = serve(tunables, settings)
    then = None if other.chosen is None else _promised(other.chosen, goal)
    return choice if then is None or (now is not None and now <= then) else other


def _promised(chosen: Chosen, goal: Goal) -> float | None:
    """What the proved explicit bounds promise for a target."""
    if not hasattr(chosen.module, "explicit_bounds"):
        return None
    numbers = chosen.module.explicit_bounds(chosen.problem, chosen.tunables, chosen.alone)
    found = []
    for b in chosen.module.CARD.bounds:
        chance = value(b.probability, {**chosen.problem.facts, **numeric(chosen.tunables)}) if b.probability else None
        found.append(BoundValue(normal(b.measure), b.kind, b.type, b.expression, numbers.get(b.theorem), chance, b.status, b.theorem))
    return guaranteed(found, goal.measure, goal.probability)


def _served(
    draft: Draft[Certified],
    release: Certified,
    module: ModuleType,
    problem: Problem,
    tunables: Tunables,
    settings: Mapping[str, Setting],
    statuses: tuple[AssumptionStatus, ...],
    refuse: Callable[..., Choice],
) -> Choice:
    from dpspec.privacy.samplers import CalibrationError

    assert draft.budget is not None  # `select` asks nobody without one
    card: Card = module.CARD
    reason = module.accepts(problem, tunables)
    if reason is None and problem.loss is not None and problem.loss.several and card.margins == "one":
        which = "multinomial(K) has one a class" if problem.loss.network is None else "this network has one a hidden unit"
        reason = f"it needs a loss of one margin <w, x>, and {which}"
    if reason is not None:
        return refuse(reason, code="DP407")
    try:
        tree = module.schedule(problem, tunables)
    except (OutOfRange, OverflowError) as error:
        why = str(error) if isinstance(error, OutOfRange) else "a sensitivity of its draws overflows"
        return refuse(why, code="DP407", help="declare x and y in other units: radii and clips between 1e-120 and 1e70 serve")
    if has_attributes(tree) and not draft.analysis.privacy.attribute:
        raise ValueError(f"{card.id} accounts attribute by attribute, and the unit here is a record")
    if relation(draft) == "add-remove" and has_disjoint(tree):
        return refuse(
            "its batches are consecutive rows: without one record every later row moves up, so one record changes several batches",
            code="DP306",
            help="neighbours replace-one or zero-out",
        )
    try:
        calibrated = solved(tree, draft.budget, relation(draft))
    except CalibrationError as error:
        return refuse(str(error), code=error.code, help=error.help)
    reason = module.uncertain(problem, tunables, calibrated) if hasattr(module, "uncertain") else None
    if reason is not None:
        return refuse(reason, code="DP407")
    predicted = module.predicted(problem, tunables, calibrated) if hasattr(module, "predicted") else None
    eligible = Candidate(card.id, True, (), None if predicted is None else float(predicted))
    chosen = Chosen(
        **known(release),
        module=module,
        settings=settings,
        tunables=tunables,
        tree=tree,
        assumptions=statuses,
        alone=calibrated,
    )
    return Choice(eligible, chosen)


def _odd_file(card: Card, release: Certified) -> Asked | None:
    """An option that is a file and should not be, or is none and should be one."""
    by = release.release.by
    for name, path in by.files:
        if name not in card.vectors:
            known = f"it has {', '.join(card.vectors)}" if card.vectors else "it reads none"
            return Asked(f"{card.id} has no option {name} that is a file, {path}", known, ("by", "options", name), "DP405")
    for name, _ in by.options:
        if name in card.vectors:
            what = f"{name} of {card.id} is a file: {card.vectors[name]}"
            return Asked(what, f'{name} = "{name}.csv"', ("by", "options", name), "DP406")
    return None


def _of_option(release: Certified, refusal: Refusal) -> Path | None:
    """The option that is at fault: its name when there is none of this name, else its value."""
    if refusal.option is None:
        return None
    path: Path = (*release.path, "by", "options", release.release.by.options[refusal.option][0])
    return (*path, "name") if refusal.code == "DP405" else path


def _unenforced(draft: Draft[Certified], weak: AssumptionStatus) -> Path | None:
    """The domain that is only declared, where privacy would rest on it."""
    named = weak.name.split()[0]
    for variable in (named,) if named in ("x", "y") else ("x", "y"):
        path = domain_path(draft, variable)
        if path != ("data",) and not enforced(draft, variable):
            return path
    return None


def has_disjoint(tree: Tree) -> bool:
    match tree:
        case Draw():
            return False
        case Sequence(parts=parts):
            return any(has_disjoint(part) for part in parts)
        case Parallel():
            return True
        case Disjoint():
            return tree.count > 1 or has_disjoint(tree.body)
        case _:
            return has_disjoint(tree.body)


def assumption_statuses(
    draft: Draft[Certified], release: Certified, card: Card
) -> tuple[tuple[AssumptionStatus, ...], AssumptionStatus | None]:
    """The status of each need of the card; the second value is the first privacy need that nothing proves or enforces."""
    found = tuple(_status(draft, release, need) for need in card.needs)
    weak = next((s for s in found if s.role == "privacy" and s.status == "declared"), None)
    return found, weak


def _status(draft: Draft[Certified], release: Certified, need: Need) -> AssumptionStatus:
    if need.enforced_by:
        return AssumptionStatus(need.name, need.role, "enforced", need.enforced_by)
    if need.name in LOSS_CLAIMS:
        return _loss_status(draft, release, need)
    variable = need.name.split()[0]
    if variable in ("x", "y"):
        domain = domain_of(draft.analysis.data.domains, variable)
        if domain is not None and domain.by is not None:
            return AssumptionStatus(need.name, need.role, "enforced", f"each record: {domain.by.how}")
        if domain is not None and domain.variable == "y" and draft.analysis.data.source is None:
            pass
        why = "is declared and nothing enforces it" if domain is not None else "has no bounded domain"
        return AssumptionStatus(need.name, need.role, "declared", f"{variable} {why}: {need.statement}")
    return _stated(draft, need)


def _stated(draft: Draft[Certified], need: Need) -> AssumptionStatus:
    """What the spec's own statements say of a need that nothing proves, word and target: all of its targets have to be there."""
    wanted: list[tuple[str, ...]] = [(t,) for t in need.of] or [()]
    found = [[i for i, a in enumerate(draft.analysis.assume) if gives(a.name, a.of, need.name, target)] for target in wanted]
    lacking = [t[0] for t, places in zip(wanted, found, strict=True) if t and not places]
    if not any(found):
        return AssumptionStatus(need.name, need.role, "declared", f"not stated in the spec: {need.statement}")
    if lacking:
        return AssumptionStatus(need.name, need.role, "declared", f"not stated of {' and '.join(lacking)}: {need.statement}")
    evidence = [next((draft.tested[i] for i in places if i in draft.tested), None) for places in found]
    if all(e is not None for e in evidence):
        return AssumptionStatus(need.name, need.role, "tested", f"{evidence[0]}: {need.statement}")
    return AssumptionStatus(need.name, need.role, "declared", f"the author's word: {need.statement}")


def _loss_status(draft: Draft[Certified], release: Certified, need: Need) -> AssumptionStatus:
    c = release.certificate
    if c is None:
        return AssumptionStatus(need.name, need.role, "declared", f"no certificate for this task: {need.statement}")
    value = {
        "lipschitz": c.lipschitz,
        "smooth": c.smooth,
        # where privacy needs it, the ridge must not be what makes it convex
        "convex": 1.0 if (c.data_convex if need.role == "privacy" else c.convex) is True else math.inf,
        "strongly-convex": 1.0 if c.strongly_convex > 0 else math.inf,
    }[need.name]
    if need.name in ("convex", "strongly-convex") and not math.isfinite(value):
        alone = " by itself, without the ridge" if need.role == "privacy" and c.convex is True else ""
        return AssumptionStatus(need.name, need.role, "declared", f"the loss is not proved {need.name} in w{alone}")
    if not math.isfinite(value):
        unbounded = [v for v in ("x", "y") if not enforced(draft, v)]
        blame = f"{' and '.join(unbounded)} unbounded, or not enforced" if unbounded else "the loss has no finite constant here"
        return AssumptionStatus(need.name, need.role, "declared", f"{need.name} cannot be proved ({blame})")
    read = ("x", "y") if of(release.release.task).labelled(release.release.task) else ("x",)
    free = [v for v in read if not enforced(draft, v)]
    if need.role == "privacy" and need.name == "lipschitz" and free:
        return AssumptionStatus(
            need.name, need.role, "declared", f"the Lipschitz constant rests on the domain of {' and '.join(free)}, which nothing enforces"
        )
    return AssumptionStatus(need.name, need.role, "proved", _evidence(need.name, c.evidence))


def _evidence(name: str, lines: tuple[str, ...]) -> str:
    """The lines of a certificate that speak of one constant."""
    words = {"lipschitz": ("margin", "|phi'|"), "smooth": ("|phi''|",), "convex": ("convex",), "strongly-convex": ("convex", "regulariser")}
    return "; ".join(x for x in lines if x.startswith(words[name]) or (name != "lipschitz" and words[name][0] in x)) or "; ".join(lines)


def _remedy(weak: AssumptionStatus, problem: Problem) -> str:
    lines = []
    if "x_l2" not in problem.facts:
        lines.append("x in ball(l2, 1) by scale")
    if "y_abs" not in problem.facts:
        lines.append("y in {-1, 1} by map(0 -> -1, 1 -> 1), or y in [-1, 1] by clip")
    if lines:
        return "enforce the domain in the data section: " + "; ".join(lines)
    return "bound the set after `over` (ball(l2, 1)), or choose an algorithm that clips"
