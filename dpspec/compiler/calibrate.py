"""Pass 4, calibrate: the noise of all releases together, from the event tree, so that the whole analysis spends the budget.

Releases on the same records compose: their trees stand in one Sequence, weighted by ``share``, and are calibrated jointly. Releases
on disjoint ``part``s are calibrated each to the whole budget (parallel composition: the parts are fixed before a record is read), and the
guarantee of the analysis is the worst of theirs.
"""

from __future__ import annotations

from dataclasses import replace

from dpspec.algorithms.estimate import Published
from dpspec.compiler.draft import Calibrated, Chosen, Draft, Resolved, known
from dpspec.privacy.calibrated import Calibrated as Levels
from dpspec.privacy.schedule import Disjoint, Draw, Parallel, Repeat, Sampled, Sequence, Tree
from dpspec.spec.expr import evaluate
from dpspec.spec.model import Neighbours


def calibrate(draft: Draft[Chosen]) -> Draft[Chosen]:
    """Every release comes out as :class:`Calibrated`, or none of them, with the error that says why. What ``select`` calibrated is taken
    over where a release has the whole budget."""
    from dpspec.privacy.calibrate import beside
    from dpspec.privacy.calibrate import calibrate as solve
    from dpspec.privacy.samplers import CalibrationError

    assert draft.budget is not None  # nothing is chosen without one
    ready = draft.releases
    if all(r.release.part is not None for r in ready):
        tree = Parallel(tuple(qualify(r.alone.tree, r.release.name, 1.0) for r in ready))
        ways = [_named(way, r.release.name) for r in ready for way in r.alone.ways or (r.alone,)]
        try:
            whole = beside(tree, ways, draft.budget)
        except CalibrationError as error:
            return draft.report(error.code, str(error), path=("privacy",), help=error.help)
        return _all(draft, whole, [r.alone for r in ready])
    if len(ready) == 1:
        return _all(draft, ready[0].alone, [ready[0].alone])
    parts = tuple(qualify(r.tree, r.release.name, _share(draft, r)) for r in ready)
    try:
        whole = solve(Sequence(parts), draft.budget, neighbours=relation(draft))
    except CalibrationError as error:
        return draft.report(error.code, str(error), path=("privacy",), help=error.help)
    return _all(draft, whole, [_of_release(whole, r) for r in ready])


def _of_release(whole: Levels, release: Chosen) -> Levels:
    """The levels of one release among those of the whole analysis."""
    prefix = f"{release.release.name}."
    levels = {name.removeprefix(prefix): level for name, level in whole.levels.items() if name.startswith(prefix)}
    return replace(whole, tree=release.tree, levels=levels, ways=())


def _all(draft: Draft[Chosen], whole: Levels, each: list[Levels]) -> Draft[Chosen]:
    found: list[Chosen] = []
    for release, levels in zip(draft.releases, each, strict=True):
        draft, calibrated = _take(draft, release, levels)
        found.append(calibrated)
    return replace(draft.at(found), calibrated=whole)


def relation(draft: Draft[Resolved]) -> Neighbours:
    """The relation of the calibration: in the central model the spec's own, or the stronger one that its encodings call for. In a local
    model each user's data set is one record, and the relation is always its replacement."""
    return draft.neighbours if draft.analysis.privacy.model == "central" else "replace-one"


def qualify(tree: Tree, prefix: str, share: float) -> Tree:
    """The same tree with draw names under a release's name and weights scaled by its share."""
    match tree:
        case Draw():
            return replace(tree, name=f"{prefix}.{tree.name}", weight=tree.weight * share)
        case Sequence(parts=parts):
            return Sequence(tuple(qualify(p, prefix, share) for p in parts))
        case Parallel(parts=parts):
            return Parallel(tuple(qualify(p, prefix, share) for p in parts))
        case Repeat() | Disjoint() | Sampled():
            return replace(tree, body=qualify(tree.body, prefix, share))


def _named(calibrated: Levels, name: str) -> Levels:
    """A release's calibration with its draws under the release's name."""
    levels = {f"{name}.{draw}": level for draw, level in calibrated.levels.items()}
    return replace(calibrated, tree=qualify(calibrated.tree, name, 1.0), levels=levels)


def _share(draft: Draft[Chosen], release: Chosen) -> float:
    e = release.release.share
    return 1.0 if e is None else float(evaluate(e, draft.facts))


def _take(draft: Draft[Chosen], release: Chosen, levels: Levels) -> tuple[Draft[Chosen], Calibrated]:
    name, module = release.release.name, release.module
    if hasattr(module, "uncertain"):  # with its own share of the budget alone the noise is larger than when it was selected
        reason = module.uncertain(release.problem, release.tunables, levels)
        if reason is not None:
            message = f"{module.CARD.id} cannot serve release {name!r}: {reason}"
            draft = draft.report("DP407", message, path=release.path, help="a larger tolerance, ridge or share")
    published = _published(draft, release)
    stated = draft.facts.get("epsilon")
    for p in published:
        if stated is not None and p.epsilon > float(stated) * (1 + 1e-9):
            draft = draft.report(
                "DP309",
                f"release {name!r}: the noise that {p.source} prints would spend epsilon {p.epsilon:.4g}",
                path=release.path,
                help="nothing to do: the plan uses the calibrated noise",
                severity="info",
            )
    return draft, Calibrated(**known(release), calibrated=levels, published=published)


def _published(draft: Draft[Chosen], release: Chosen) -> tuple[Published, ...]:
    """The printed formulas of the algorithm at this budget, with what they would spend."""
    if not hasattr(release.module, "published"):
        return ()
    try:
        got = release.module.published(release.problem, release.tunables, draft.budget)
    except ArithmeticError:  # a printed formula that no double holds; the plan does not rest on it
        return ()
    return () if got is None else tuple(got) if isinstance(got, (list, tuple)) else (got,)
