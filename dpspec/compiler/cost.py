"""Pass 6, cost: gradients, draws, bits, rounds and memory of the plan, from the card's expressions and the event tree."""

from __future__ import annotations

from dataclasses import replace

from dpspec.compiler.bound import environment
from dpspec.compiler.draft import Bounded, Draft
from dpspec.compiler.needs import disk_bytes, machine_bytes, records_bytes
from dpspec.privacy.channels.protocol import message_bits
from dpspec.privacy.schedule import leaves
from dpspec.theory.formulas import value

ITEMS = ("gradients", "bits_per_user", "rounds", "memory_bytes")


def cost(draft: Draft[Bounded]) -> Draft[Bounded]:
    found = [replace(release, cost=_of(draft, release)) for release in draft.releases]
    draft = draft.at(found)
    for release in found:
        draft = _fits(draft, release)
    return draft


def _fits(draft: Draft[Bounded], release: Bounded) -> Draft[Bounded]:
    """What the machine cannot hold (DP422)."""
    needed, there = release.cost["memory_bytes"], machine_bytes()
    if needed is None or needed <= there:
        return draft
    return draft.report(
        "DP422",
        f"release {release.release.name!r}: {release.module.CARD.id} needs about {needed / 2**30:.3g} GiB of memory at "
        f"d = {release.problem.d:,}, and this machine has {there / 2**30:.3g}",
        path=("data", "d"),
        help="fewer columns, an algorithm that needs less (`dpspec plan` states it), or another machine",
        severity="warning",
    )


def _of(draft: Draft[Bounded], release: Bounded) -> dict[str, float | None]:
    env, n = environment(release), float(draft.facts["n"])
    found: dict[str, float | None] = dict.fromkeys(ITEMS)
    found.update({item: value(formula, env) for item, formula in release.module.CARD.cost.items()})
    asked = [leaf for leaf in leaves(release.tree) if leaf.draw.per == "user"]
    if asked and release.problem.model in ("nldp", "sldp"):  # the reports themselves: an option may have changed the channel of the card
        bits: list[int] = [message_bits(leaf.draw.mechanism) * leaf.each for leaf in asked]
        found["bits_per_user"] = float(sum(bits))
    found["noise_draws"] = sum(
        leaf.draw.mechanism.size * (leaf.total if leaf.draw.per == "run" else n * leaf.each)  # however many rounds users are spread over
        for leaf in leaves(release.tree)
    )
    reads, rounds = release.module.CARD.reads, float(release.tunables.get("T", 1.0))
    found["records_bytes"] = records_bytes(reads, draft.facts, rounds)
    found["disk_bytes"] = disk_bytes(reads, draft.facts)
    return found
