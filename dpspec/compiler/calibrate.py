"""Pass 4, calibrate: the noise of all releases together, from the event tree, so that the whole analysis spends the budget.

Releases on the same records compose: their trees stand in one Sequence, weighted by ``share``, and are calibrated jointly. Releases
on disjoint ``part``s are calibrated each to the whole budget (parallel composition: the parts are fixed before a record is read).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpspec.compiler.draft import Draft, ReleaseDraft
from dpspec.privacy.schedule import Disjoint, Draw, Repeat, Sampled, Sequence, Tree
from dpspec.spec.expr import evaluate
from dpspec.spec.model import Neighbours


def calibrate(draft: Draft) -> Draft:
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
            return replace(draft, calibrated=max(solved, key=lambda c: _strength(c.guarantee)))
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
        draft = _take(draft, r, replace(whole, tree=r.tree, levels=levels))
    return replace(draft, calibrated=whole)


def relation(draft: Draft) -> Neighbours:
    """The relation of the calibration: the spec's own in the central model. In a local model each user's data set is one record, and
    the relation is always its replacement."""
    return draft.analysis.data.neighbours if draft.analysis.privacy.model == "central" else "replace-one"


def qualify(tree: Tree, prefix: str, share: float) -> Tree:
    """The same tree with draw names under a release's name and weights scaled by its share."""
    match tree:
        case Draw():
            return replace(tree, name=f"{prefix}.{tree.name}", weight=tree.weight * share)
        case Sequence(parts=parts):
            return Sequence(tuple(qualify(p, prefix, share) for p in parts))
        case Repeat() | Disjoint() | Sampled():
            return replace(tree, body=qualify(tree.body, prefix, share))


def _share(draft: Draft, release: ReleaseDraft) -> float:
    e = release.release.share
    return 1.0 if e is None else float(evaluate(e, draft.facts))


def _take(draft: Draft, release: ReleaseDraft, calibrated: Any) -> Draft:
    current = next(r for r in draft.releases if r.index == release.index)
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


def _strength(guarantee: Any) -> float:
    return float(guarantee.epsilon or guarantee.rho or guarantee.mu or 0.0)
