"""Pass 4, calibrate: the noise of all releases together, from the event tree, so that the whole analysis spends the budget.

Releases on the same records compose: their trees stand in one Sequence, weighted by ``share``, and are calibrated jointly. Releases
on disjoint ``part``s are calibrated each to the whole budget (parallel composition: the parts are fixed before a record is read), and the
guarantee of the analysis is the worst of theirs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpspec.compiler.draft import Draft, ReleaseDraft
from dpspec.privacy.schedule import Disjoint, Draw, Parallel, Repeat, Sampled, Sequence, Tree
from dpspec.spec.expr import evaluate
from dpspec.spec.model import Neighbours


def calibrate(draft: Draft) -> Draft:
    from dpspec.privacy.calibrate import beside
    from dpspec.privacy.calibrate import calibrate as solve
    from dpspec.privacy.samplers import CalibrationError

    ready = list(draft.releases)
    trees = [r.tree for r in ready if r.tree is not None]
    if draft.failed or not ready or len(trees) != len(ready):
        return draft
    try:
        if all(r.release.part is not None for r in ready):
            solved = [solve(tree, draft.budget, neighbours=relation(draft)) for tree in trees]
            for r, c in zip(ready, solved, strict=True):
                draft = _take(draft, r, c)
            tree = Parallel(tuple(qualify(c.tree, r.release.name, 1.0) for r, c in zip(ready, solved, strict=True)))
            ways = [_named(way, r.release.name) for r, c in zip(ready, solved, strict=True) for way in c.ways or (c,)]
            return replace(draft, calibrated=beside(tree, ways, draft.budget))
        if len(ready) == 1:
            whole = solve(trees[0], draft.budget, neighbours=relation(draft))
            return replace(_take(draft, ready[0], whole), calibrated=whole)
        parts = tuple(qualify(tree, r.release.name, _share(draft, r)) for r, tree in zip(ready, trees, strict=True))
        whole = solve(Sequence(parts), draft.budget, neighbours=relation(draft))
    except CalibrationError as error:
        return draft.report(error.code, str(error), path=("privacy",), help=error.help)
    for r in ready:
        assert r.tree is not None
        prefix = f"{r.release.name}."
        levels = {name.removeprefix(prefix): level for name, level in whole.levels.items() if name.startswith(prefix)}
        draft = _take(draft, r, replace(whole, tree=r.tree, levels=levels, ways=()))
    return replace(draft, calibrated=whole)


def relation(draft: Draft) -> Neighbours:
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


def _named(calibrated: Any, name: str) -> Any:
    """A release's calibration with its draws under the release's name."""
    levels = {f"{name}.{draw}": level for draw, level in calibrated.levels.items()}
    return replace(calibrated, tree=qualify(calibrated.tree, name, 1.0), levels=levels)


def _share(draft: Draft, release: ReleaseDraft) -> float:
    e = release.release.share
    return 1.0 if e is None else float(evaluate(e, draft.facts))


def _take(draft: Draft, release: ReleaseDraft, calibrated: Any) -> Draft:
    current = next(r for r in draft.releases if r.index == release.index)
    if hasattr(current.module, "uncertain"):  # with its own share of the budget alone the noise is larger than when it was selected
        reason = current.module.uncertain(current.problem, current.tunables, calibrated)
        if reason is not None:
            message = f"{current.module.CARD.id} cannot serve release {current.release.name!r}: {reason}"
            draft = draft.report("DP407", message, path=current.path, help="a larger tolerance, ridge or share")
    published: tuple[Any, ...] = ()
    if hasattr(current.module, "published"):
        try:
            got = current.module.published(current.problem, current.tunables, draft.budget)
        except ArithmeticError:  # a printed formula that no double holds; the plan does not rest on it
            got = None
        published = () if got is None else tuple(got) if isinstance(got, (list, tuple)) else (got,)
    draft = draft.with_release(replace(current, calibrated=calibrated, published=published))
    stated = draft.facts.get("epsilon")
    for p in published:
        if stated is not None and p.epsilon > float(stated) * (1 + 1e-9):
            draft = draft.report(
                "DP309",
                f"release {current.release.name!r}: the noise that {p.source} prints would spend epsilon {p.epsilon:.4g}",
                path=current.path,
                help="nothing to do: the plan uses the calibrated noise",
                severity="info",
            )
    return draft
