"""Non-private references beside private algorithms: the modules that the catalogue names with the role ``reference``, run on the records
of a trial and measured as the estimate is. A release of the privacy model has no such thing; a study is no release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpspec.compiler.draft import Draft, ReleaseDraft
from dpspec.compiler.tunables import Refusal, resolve_tunables
from dpspec.spec.diagnostics import Diagnostic, SpecError
from dpspec.tasks.registry import of


def is_reference(name: str) -> bool:
    """Whether ``name`` is the id of a reference; an unknown name is none."""
    from dpspec.algorithms.registry import UnknownAlgorithm, get

    try:
        return bool(get(name).CARD.role == "reference")
    except UnknownAlgorithm:
        return False


def settings(release: ReleaseDraft, problem: Any, name: str) -> Any | str:
    """The settings with which the reference ``name`` answers the question of a release, or why it does not."""
    from dpspec.algorithms.registry import get

    module = get(name)
    card, words = module.CARD, of(problem.task).words
    if card.task not in words:
        return f"it answers {card.task}, and release {release.release.name!r} asks {' or '.join(words)}"
    resolved = resolve_tunables(card, problem, ())
    if isinstance(resolved, Refusal):
        return resolved.message
    reason = module.accepts(problem, resolved[0])
    return resolved[0] if reason is None else str(reason)


def check(draft: Draft, names: Sequence[str]) -> None:
    """Raises SpecError (DP416) when a reference answers the question of no release."""
    from dpspec.executor.bind import bound_problem

    for name in names:
        found = [settings(r, bound_problem(draft, r), name) for r in draft.releases]
        if all(isinstance(s, str) for s in found):
            help = "`dpspec algorithms` lists the references and the tasks that they answer"
            finding = Diagnostic("DP416", "error", f"{name} cannot stand beside these releases: {found[0]}", help)
            raise SpecError([finding], path=draft.parsed.path, text=draft.parsed.text)


@dataclass(frozen=True, slots=True)
class PublicCoins:
    """The door of a reference: public randomness, and no mechanism at all."""

    public: Any


def estimates(release: ReleaseDraft, problem: Any, records: Any, names: Sequence[str], seed: int) -> dict[str, Any]:
    """The estimate of each reference that answers this release, on these records; its public coins come from ``seed``."""
    from dpspec.algorithms.registry import get
    from dpspec.privacy.noise import PublicRandomness

    found = {}
    for name in names:
        chosen = settings(release, problem, name)
        if not isinstance(chosen, str):
            found[name] = get(name).run(records, problem, chosen, PublicCoins(PublicRandomness(seed)))
    return found
