"""Pass 2, certify: what can be proved of each loss over the domains, and which claims of the spec are false.

The pass builds each release's :class:`~dpspec.algorithms.card.Problem`: the public facts and certified constants that an algorithm
may read. A constant that rests on a domain which nothing enforces keeps the status ``declared``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpspec.algorithms.card import Goal, Loss, Problem
from dpspec.algorithms.second_order import spread
from dpspec.compiler.draft import Certified, Draft, Path, Proved, Resolved, known
from dpspec.compiler.files import rows_of, vectors
from dpspec.compiler.resolve import domain_of, norms, part_rows, set_domain
from dpspec.data.files import Corners
from dpspec.domains.variable import NOTHING_SAID
from dpspec.measures.measure import normal
from dpspec.spec.expr import NotANumber, Num, Unbound, evaluate
from dpspec.spec.model import Ball, Box, Polytope, Set, Sparse
from dpspec.symbolic.certificate import Certificate
from dpspec.tasks.protocol import Binding
from dpspec.tasks.registry import of


def certify(draft: Draft[Resolved]) -> Draft[Certified]:
    found: list[Certified] = []
    for release in draft.releases:
        draft, certificate = _certify_loss(draft, release)
        proved = Proved(**known(release), certificate=certificate)
        draft, problem = _over(draft, proved, _problem(draft, proved))
        found.append(Certified(**known(proved), problem=problem))
    return draft.at(found)


def _over(draft: Draft[Resolved], release: Proved, problem: Problem) -> tuple[Draft[Resolved], Problem]:
    """The facts of the set after ``over``."""
    over: Set | None = getattr(problem.task, "over", None)
    if over is None:
        return draft, problem
    sizes = {**draft.facts, "d": Fraction(problem.d)} if "d" in draft.facts else draft.facts
    dimension = problem.d if "d" in draft.facts else None
    draft, domain = set_domain(draft, over, sizes, (*release.path, "task", "over"), dimension)
    bounds = {} if domain is None else norms(domain)
    facts = {**problem.facts, **{f"w_{norm}": float(value) for norm, value in bounds.items()}}
    if "l2" in bounds:
        facts["w_radius"] = float(bounds["l2"])
    return draft, replace(problem, facts=facts)


def enforced(draft: Draft[Resolved], variable: str) -> bool:
    domain = domain_of(draft.analysis.data.domains, variable)
    return domain is not None and domain.by is not None


def _certify_loss(draft: Draft[Resolved], release: Resolved) -> tuple[Draft[Resolved], Certificate | None]:
    from dpspec.symbolic.findings import claims_from

    task = release.release.task
    prove = of(task).certificate
    if prove is None:
        return draft, None
    path: Path = (*release.path, "task")
    try:
        certificate = prove(
            task,
            x=draft.domains.get("x", NOTHING_SAID).enforced,
            y=draft.domains.get("y", NOTHING_SAID).enforced,
            names=draft.facts,
            claims=claims_from(draft.analysis.assume, draft.facts),
        )
    except (Unbound, NotANumber, ValueError) as error:
        if not draft.failed:
            draft = draft.report(
                "DP411", f"the loss or its set has no value: {error}", path=path, help="declare the name in the data section"
            )
        return draft, None
    bounded = _bounds_records_itself(release.release.by.algorithm)
    for finding in certificate.findings:
        if finding.code == "DP207" and bounded:
            continue
        place: Path = _place(draft, finding.code, path) if finding.assumption is None else ("assume", finding.assumption)
        entry = finding.diagnostic(draft.span(*place))
        if entry not in draft.diagnostics:
            draft = replace(draft, diagnostics=(*draft.diagnostics, entry))
    return _labels(draft, certificate), certificate


def _bounds_records_itself(algorithm: str) -> bool:
    """Whether the named algorithm needs no domain of x: what a record can do is bounded by what it computes."""
    from dpspec.algorithms.registry import UnknownAlgorithm, get

    try:
        needs = get(algorithm).CARD.needs
    except UnknownAlgorithm:  # reported when it is chosen; auto is none
        return False
    return any(need.name == "x" and need.role == "privacy" and need.enforced_by for need in needs)


def _labels(draft: Draft[Resolved], certificate: Certificate) -> Draft[Resolved]:
    """A finite set of labels that the loss is not written for (DP223)."""
    from dpspec.symbolic.labels import unfit

    labels = draft.domains.get("y", NOTHING_SAID).known.values
    wrong = None if certificate.form is None or not labels else unfit(certificate.form, labels)
    if wrong is None:
        return draft
    text = f"the loss does not go with the labels: {wrong}"
    return draft.report(
        "DP223", text, path=domain_path(draft, "y"), help="map the labels, or choose the loss that is written for them", severity="warning"
    )


def domain_path(draft: Draft[Resolved], variable: str) -> Path:
    """Where the domain of x or y stands, or would have to."""
    found = (i for i, domain in enumerate(draft.analysis.data.domains) if domain.variable == variable)
    return next((("data", "domains", i) for i in found), ("data",))


def _place(draft: Draft[Resolved], code: str, path: Path) -> Path:
    """Where the mistake stands: what is said of records at their domain (at the data section where they have none), what is said of the
    set at the set, and everything else at the loss."""
    variable = {"DP207": "x", "DP214": "y", "DP220": "y"}.get(code)
    if variable is not None:
        return domain_path(draft, variable)
    over: Path = (*path, "over")
    return over if code in ("DP208", "DP221") and draft.parsed.spans.exact(*over) is not None else (*path, "loss")


def _problem(draft: Draft[Resolved], release: Proved) -> Problem:
    a = draft.analysis
    facts: dict[str, float] = {name: float(value) for name, value in draft.facts.items()}
    if "d" in facts:
        facts.update(features=facts["d"], d=_weights(release.certificate, facts["d"]))
    if release.release.part is not None and "n" in facts:
        start, stop = part_rows(draft, release.index)
        facts["n"] = float(stop - start)
    modifiers = {
        word
        for word, on in (
            ("labels-only", a.privacy.labels_only),
            ("attribute", a.privacy.attribute),
            ("online", a.privacy.online),
            ("public", a.privacy.public is not None),
        )
        if on
    }
    loss = None
    if release.certificate is not None:
        loss = _loss(release.certificate)
        facts.update(lam=loss.l2, l1_weight=loss.l1, strongly_convex=loss.strongly_convex)
        if math.isfinite(loss.lipschitz):
            facts["L"] = loss.lipschitz
        if math.isfinite(loss.lipschitz_inf):
            facts["L_inf"] = loss.lipschitz_inf
        if math.isfinite(loss.smooth):
            facts["B"] = loss.smooth
        if math.isfinite(loss.curve):
            facts.setdefault("max_curve", loss.curve)  # sup|phi''|: it tunes, and bounds of algorithms read the certificate's own
        facts.update({k: v for k, v in (("pair_spread", loss.spread), ("at_zero", loss.at_zero)) if math.isfinite(v)})
        facts.update(_of_hessians(loss))
    goal = _goal(draft, release)
    if goal is not None:
        facts.setdefault("alpha", goal.at_most)
    if "epsilon" not in facts and draft.budget is not None:
        facts["epsilon"] = _nominal_epsilon(facts)
    problem = Problem(
        model=a.privacy.model,
        neighbours=draft.neighbours,
        task=_in_numbers(release.release.task, draft),
        facts=facts,
        modifiers=frozenset(modifiers),
        loss=loss,
        domains=draft.domains,
        goal=goal,
        public=vectors(draft, release.index),
        rows=contributions(draft)[0],
        groups=contributions(draft)[1],
    )
    found = of(problem.task).facts(binding_of(draft, release, problem))
    return replace(problem, facts={**facts, **found}) if found else problem


def contributions(draft: Draft[Any]) -> tuple[int, int]:
    """How much of one unit counts, rows and groups: 1 row where a record is one."""
    data = draft.analysis.data
    if not data.identified or data.rows is None:
        return 1, 1
    try:
        rows = int(evaluate(data.rows, draft.facts))
        return rows, rows if data.groups is None else int(evaluate(data.groups, draft.facts))
    except (Unbound, NotANumber):  # it has been reported
        return 1, 1


def _weights(certificate: Certificate | None, features: float) -> float:
    """How many weights a release of that many features has."""
    if certificate is None:
        return features
    if certificate.network is not None:
        return float(certificate.network.size(int(features)))
    return features * certificate.classes


def _of_hessians(loss: Loss) -> dict[str, float]:
    """Of a loss that is not proved convex, for tunables: ``hessian_lipschitz``, and ``hessian_spread``, by how much two records'
    Hessians differ in the Frobenius norm (:mod:`dpspec.algorithms.second_order`)."""
    if loss.data_convex or loss.classes > 1 or not math.isfinite(loss.smooth):
        return {}
    found = {"hessian_lipschitz": loss.hessian_lipschitz(), "hessian_spread": spread(loss)}
    return {name: v for name, v in found.items() if math.isfinite(v)}


def binding_of(draft: Draft[Resolved], release: Proved, problem: Problem) -> Binding:
    """What the release's task knows when it binds."""
    return Binding(problem.task, problem, release.certificate, draft.facts, draft.analysis, draft.domains)


def _goal(draft: Draft[Resolved], release: Resolved) -> Goal | None:
    """The target in numbers; None where there is none, or a number has no value (the pass that decides it says so)."""
    expect = release.release.expect
    if expect is None:
        return None
    try:
        probability = None if expect.probability is None else float(evaluate(expect.probability, draft.facts))
        return Goal(normal(expect.measure), float(evaluate(expect.at_most, draft.facts)), probability)
    except (Unbound, NotANumber, OverflowError):
        return None


def _in_numbers(task: Any, draft: Draft[Resolved]) -> Any:
    """The task with the radii and ends of its set as numbers, and with the vertices that were read of a polytope. The numbers are the
    spec's own, in which d is the number of features; facts of a release count its weights."""
    over = getattr(task, "over", None)
    if isinstance(over, Polytope):
        rows = rows_of(draft, over)
        return task.model_copy(update={"over": Corners(vertices=over.vertices, rows=rows)}) if rows else task
    found: dict[str, Any] = {}
    for name in (
        ("radius",) if isinstance(over, Ball) else ("low", "high") if isinstance(over, Box) else ("k",) if isinstance(over, Sparse) else ()
    ):
        try:
            found[name] = Num(Fraction(evaluate(getattr(over, name), draft.facts)))
        except (Unbound, NotANumber):
            return task  # reported where it stands
    return task.model_copy(update={"over": over.model_copy(update=found)}) if over is not None and found else task


def _loss(certificate: Certificate) -> Loss:
    return Loss(
        name=certificate.name,
        lipschitz=float(certificate.lipschitz),
        smooth=float(certificate.smooth),
        strongly_convex=float(certificate.strongly_convex),
        convex=certificate.convex is True,
        l2=float(certificate.l2),
        l1=float(certificate.l1),
        evidence="; ".join(certificate.evidence),
        data_convex=certificate.data_convex is True,
        group=certificate.group,
        lipschitz_inf=float(certificate.lipschitz_inf),
        classes=certificate.classes,
        at_zero=float(certificate.at_zero),
        spread=float(certificate.spread),
        local=certificate.local,
        slope=float(certificate.slope),
        curve=float(certificate.curve),
        least_curve=float(certificate.least_curve),
        hessian=certificate.hessian,
        error=certificate.error,
        network=certificate.network,
        frobenius=float(certificate.frobenius),
    )


def _nominal_epsilon(facts: dict[str, float]) -> float:
    """For rho and mu budgets: the epsilon at delta 1e-6, used only by tunables and bounds, never by calibration."""
    from dpspec.privacy.gaussian import epsilon_of

    mu = facts.get("mu") or math.sqrt(2 * facts["rho"])
    return float(epsilon_of(mu, 1e-6))
