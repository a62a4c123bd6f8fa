"""Which measure of error a release has, and what to write in place of one that is not known."""

from __future__ import annotations

from dpspec.compiler.draft import ReleaseDraft
from dpspec.measures.measure import normal
from dpspec.spec.diagnostics import Diagnostic, SpecError
from dpspec.tasks.registry import of


def hint(measure: str, known: tuple[str, ...]) -> str:
    """What to write in place of a measure that is not known."""
    from dpspec.lang.vocabulary import nearest

    near = nearest(measure, known)
    return f"did you mean {near!r}?" if near else f"one of {', '.join(known)}" if known else "leave the target out"


def choose(release: ReleaseDraft, *, simulated: bool = True, held: bool = False) -> str:
    """The measure of a release: the one it expects, the first that its algorithm bounds, or its task's own. Real data, which are not
    ``simulated``, have no population; what a release expects of one is measured on the records that are ``held`` out.

    Raises SpecError (DP413) when the one it expects cannot be measured (another one is no answer to it), or the task has none."""
    task, expect = of(release.release.task), release.release.expect
    measures = [m for m in task.measures if simulated or m.needs != "population"]
    known = tuple(m.name for m in measures)
    if expect is not None:
        if normal(expect.measure) in known or (held and normal(expect.measure) in task.measurable):
            return normal(expect.measure)
        if normal(expect.measure) in task.measurable:
            text = f"release {release.release.name!r}: {expect.measure} is of fresh records, and these data are all trained on"
            raise SpecError([Diagnostic("DP413", "error", text, "hold some of them out: --holdout 0.2")])
        text = f"release {release.release.name!r}: a study does not measure {expect.measure}"
        raise SpecError([Diagnostic("DP413", "error", text, hint(expect.measure, known))])
    bounded = next((b.measure for b in release.bounds if b.measure in known), None)
    if bounded is None and not task.measures:
        text = f"release {release.release.name!r}: no study measures the error of {task.words[0]}"
        raise SpecError([Diagnostic("DP413", "error", text, "`dpspec run` releases it; its error is not known to a study")])
    if bounded is None and not known:
        text = f"release {release.release.name!r}: {task.measures[0].name} is of fresh records, and these data are all trained on"
        raise SpecError([Diagnostic("DP413", "error", text, "hold some of them out: --holdout 0.2")])
    return known[0] if bounded is None else bounded
