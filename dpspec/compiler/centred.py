"""Whether the mean of x is known to be 0, where the name of a task needs it.

The algorithms for second moments subtract no mean: they estimate E x x^T, as the documents do, who assume a mean of 0. E x x^T is
the covariance only then; otherwise it is the covariance plus m m^T, and a constant record has a "covariance".

An algorithm whose card ``centres`` subtracts a mean itself, and is what `by auto` takes for ``covariance(x)`` where nobody says that it
is 0. By any other algorithm ``covariance(x)`` is refused where a mean of 0 is ruled out, by a domain with coordinates of one sign or by
the law of the ``simulate`` block, and planned under its right name, ``second-moment(x)``, with a warning, where nobody says anything.
``precision(x)`` and ``subspace(x, k)`` are defined by the second moment (docs/language.md): a warning where the mean may be another one, an
error where the domain rules 0 out.

The mean is 0 by the author's word (``assume centred``, ``symmetric`` or ``sub-gaussian``, of x or of nothing), or by the law of the
``simulate`` block, which is the author's word too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from dpspec.compiler.draft import Calibrated, Draft, Resolved
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import NotANumber, Unbound, evaluate
from dpspec.spec.model import Box, Domain, Finite, Simplex
from dpspec.spec.words import ASSUMPTIONS, assumed
from dpspec.tasks.registry import of

#: Assumptions that say so; sub-gaussian as the documents define it, E exp(<u, x>) <= exp(s^2 |u|^2/2), which forces a mean of 0.
WORDS: Final = frozenset(word for word, a in ASSUMPTIONS.items() if a.centred)


def centred(draft: Draft[Calibrated]) -> Draft[Calibrated]:
    """DP222 for every task whose name needs a mean of 0 that nothing says."""
    tasks = [(r, r.release.task) for r in draft.releases if of(r.release.task).centred(r.release.task) and not r.module.CARD.centres]
    if not tasks:
        return draft
    declared, mean = _declared(draft), _mean_of_law(draft)
    domain = next((d for d in draft.analysis.data.domains if d.variable == "x" and _one_sided(draft, d)), None)
    for release, task in tasks:
        other = of(task).uncentred(task)  # what it is planned as where nobody says that the mean is 0
        if domain is not None:
            text = "it needs a mean of 0, and the domain of x holds coordinates of one sign only"
            draft = _report(draft, release, f"{_name(task)}: {text}", "error")
        elif declared is None and mean is not None and mean.any():
            text = f"no mean is subtracted, and the law of x has a mean of length {float((mean**2).sum()) ** 0.5:.4g}"
            draft = _report(draft, release, f"{_name(task)}: {text}", "warning" if other is None else "error")
        elif declared is None and mean is None:
            text = f"{_name(task)}: no mean is subtracted, and nothing says that the mean of x is 0"
            if other is not None:
                text += f"; what is released is {_name(other)}, and the plan calls it so"
                named = replace(release, problem=replace(release.problem, task=other))
                draft = draft.at(named if r.index == release.index else r for r in draft.releases)
            draft = _report(draft, release, text, "warning")
    return draft


def _name(node: Any) -> str:
    return f"{node.what}(x)"


def _declared(draft: Draft[Resolved]) -> str | None:
    return next((a.name for a in draft.analysis.assume if assumed(a.name) in WORDS and a.of in (None, "x")), None)


def _mean_of_law(draft: Draft[Resolved]) -> Any:
    """The mean of x in the simulated law, (d,); None without a law or a closed form."""
    if not draft.analysis.simulate:
        return None
    from dpspec.data.laws import Simulation

    try:
        return Simulation(draft.analysis.simulate, draft.facts).mean()
    except SpecError:  # the laws have their own diagnostics
        return None


def why_centred(draft: Draft[Resolved]) -> str | None:
    """Who says that the mean of x is 0; None where nobody does."""
    declared = _declared(draft)
    if declared is not None:
        return f"assume {declared}"
    mean = _mean_of_law(draft)
    return "the law of the simulate block" if mean is not None and not mean.any() else None


def _report(draft: Draft[Calibrated], release: Calibrated, text: str, severity: str) -> Draft[Calibrated]:
    other = of(release.release.task).uncentred(release.release.task)
    instead = f"estimate {_name(other)}, which is E x x^T, or " if other is not None and severity == "error" else ""
    public = "subtract a public mean from the records first and" if severity == "error" else "if it is 0, or a public mean was subtracted,"
    return draft.report(
        "DP222",
        f"release {release.release.name!r}: {text}",
        path=(*release.path, "task"),
        help=f"{instead}{public} say so: assume centred of x",
        severity="error" if severity == "error" else "warning",
    )


def _one_sided(draft: Draft[Resolved], domain: Domain) -> bool:
    """Whether every coordinate of every record has one sign, by the set that is declared or enforced."""
    s = domain.set
    try:
        match s:
            case Simplex():
                return True
            case Box(low=low, high=high):
                ends = [float(evaluate(e, draft.facts)) for e in (low, high)]
            case Finite(values=values):
                ends = [float(evaluate(e, draft.facts)) for e in values]
            case _:
                return False
    except (Unbound, NotANumber, ArithmeticError):
        return False
    return bool(ends) and (min(ends) >= 0 or max(ends) <= 0)
