"""Pass 2, certify: what can be proved of each loss over the domains, and which claims of the spec are false.

The pass builds each release's :class:`~dpspec.algorithms.card.Problem`: the public facts and certified constants that an algorithm
may read. A constant that rests on a domain which nothing enforces keeps the status ``declared``.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpspec.algorithms.card import Loss, Problem
from dpspec.compiler.draft import Draft, Path, ReleaseDraft
from dpspec.compiler.files import rows_of
from dpspec.compiler.resolve import domain_of, norms, part_rows, set_domain
from dpspec.data.files import Corners
from dpspec.domains.variable import NOTHING_SAID
from dpspec.spec.expr import NotANumber, Num, Unbound, evaluate
from dpspec.spec.model import Ball, Box, Estimate, Minimise, Polytope, Set, Sparse

#: Assumption words that a loss certificate can prove or refute.
LOSS_CLAIMS = ("lipschitz", "smooth", "convex", "strongly-convex")


def certify(draft: Draft) -> Draft:
    for release in draft.releases:
        if isinstance(release.release.task, Minimise):
            draft, release = _certify_loss(draft, release)
        draft = draft.with_release(replace(release, problem=_problem(draft, release)))
        current = next(r for r in draft.releases if r.index == release.index)
        assert current.problem is not None
        over: Set | None = getattr(current.problem.task, "over", None)
        if over is not None:
            sizes = {**draft.facts, "d": Fraction(current.problem.d)} if "d" in draft.facts else draft.facts
            dimension = current.problem.d if "d" in draft.facts else None
            draft, domain = set_domain(draft, over, sizes, (*release.path, "task", "over"), dimension)
            bounds = {} if domain is None else norms(domain)
            facts = dict(current.problem.facts)
            facts.update({f"w_{norm}": float(value) for norm, value in bounds.items()})
            if "l2" in bounds:
                facts["w_radius"] = float(bounds["l2"])
            draft = draft.with_release(replace(current, problem=replace(current.problem, facts=facts)))
    return draft


def enforced(draft: Draft, variable: str) -> bool:
    domain = domain_of(draft.analysis.data.domains, variable)
    return domain is not None and domain.by is not None


def _certify_loss(draft: Draft, release: ReleaseDraft) -> tuple[Draft, ReleaseDraft]:
    from dpspec.symbolic.certify import certify as prove
    from dpspec.symbolic.findings import claims_from

    task = release.release.task
    assert isinstance(task, Minimise)
    path: Path = (*release.path, "task")
    try:
        certificate = prove(
            task.loss,
            over=task.over,
            x=draft.domains.get("x", NOTHING_SAID).enforced,
            y=draft.domains.get("y", NOTHING_SAID).enforced,
            names=draft.facts,
            claims=claims_from(draft.analysis.assume, draft.facts),
            pairwise=task.pairwise,
        )
    except (Unbound, NotANumber, ValueError) as error:
        if not draft.failed:
            draft = draft.report(
                "DP411", f"the loss or its set has no value: {error}", path=path, help="declare the name in the data section"
            )
        return draft, release
    for finding in certificate.findings:
        place: Path = _place(draft, finding.code, path) if finding.assumption is None else ("assume", finding.assumption)
        entry = finding.diagnostic(draft.span(*place))
        if entry not in draft.diagnostics:
            draft = replace(draft, diagnostics=(*draft.diagnostics, entry))
    return _labels(draft, certificate), replace(release, certificate=certificate)


def _labels(draft: Draft, certificate: Any) -> Draft:
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


def domain_path(draft: Draft, variable: str) -> Path:
    """Where the domain of x or y stands, or would have to."""
    found = (i for i, domain in enumerate(draft.analysis.data.domains) if domain.variable == variable)
    return next((("data", "domains", i) for i in found), ("data",))


def _place(draft: Draft, code: str, path: Path) -> Path:
    """Where the mistake stands: what is said of records at their domain (at the data section where they have none), what is said of the
    set at the set, and everything else at the loss."""
    variable = {"DP207": "x", "DP214": "y", "DP220": "y"}.get(code)
    if variable is not None:
        return domain_path(draft, variable)
    over: Path = (*path, "over")
    return over if code in ("DP208", "DP221") and draft.parsed.spans.exact(*over) is not None else (*path, "loss")


def _problem(draft: Draft, release: ReleaseDraft) -> Problem:
    a = draft.analysis
    facts: dict[str, float] = {name: float(value) for name, value in draft.facts.items()}
    if "d" in facts:
        facts.update(features=facts["d"], d=facts["d"] * (1 if release.certificate is None else release.certificate.classes))
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
    task = release.release.task
    if isinstance(task, Estimate) and task.what == "subspace" and task.args:
        with contextlib.suppress(Unbound, NotANumber):
            facts["rank"] = float(evaluate(task.args[0], draft.facts))
    if "epsilon" not in facts and draft.budget is not None:
        facts["epsilon"] = _nominal_epsilon(facts)
    return Problem(
        model=a.privacy.model,
        neighbours=draft.neighbours,
        task=_in_numbers(release.release.task, draft),
        facts=facts,
        modifiers=frozenset(modifiers),
        loss=loss,
    )


def _in_numbers(task: Any, draft: Draft) -> Any:
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


def _loss(certificate: Any) -> Loss:
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
        local=certificate.local,
        slope=float(certificate.slope),
        curve=float(certificate.curve),
        error=certificate.error,
    )


def _nominal_epsilon(facts: dict[str, float]) -> float:
    """For rho and mu budgets: the epsilon at delta 1e-6, used only by tunables and bounds, never by calibration."""
    from dpspec.privacy.gaussian import epsilon_of

    mu = facts.get("mu") or math.sqrt(2 * facts["rho"])
    return float(epsilon_of(mu, 1e-6))
