"""Pass 6, cost: gradients, draws, bits, rounds and memory of the plan, from the card's expressions and the event tree."""

from __future__ import annotations

from dataclasses import replace

from dpspec.compiler.bound import environment
from dpspec.compiler.draft import Draft
from dpspec.privacy.schedule import leaves
from dpspec.theory.formulas import value

ITEMS = ("gradients", "bits_per_user", "rounds", "memory_bytes")


def cost(draft: Draft) -> Draft:
    if draft.failed:
        return draft
    for release in draft.releases:
        if release.module is None or release.tree is None or release.calibrated is None:
            continue
        env = environment(release)
        found: dict[str, float | None] = dict.fromkeys(ITEMS)
        for item, formula in release.module.CARD.cost.items():
            found[item] = value(formula, env)
        n = float(draft.facts["n"])
        found["noise_draws"] = sum(
            leaf.draw.mechanism.size * (leaf.total if leaf.draw.per == "run" else _users(leaf.total, leaf.count, n))
            for leaf in leaves(release.tree)
        )
        draft = draft.with_release(replace(release, cost=found))
    return draft


def _users(total: int, count: int, n: float) -> float:
    """Draws by users: each user draws ``count`` times, whatever the number of rounds they are spread over."""
    return n * count
