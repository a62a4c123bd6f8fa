"""``dpspec algorithms``: the catalogue in the product."""

from __future__ import annotations

import textwrap
from typing import Annotated, Any

import typer

from dpspec.algorithms.card import Card
from dpspec.algorithms.registry import others
from dpspec.cli.common import (
    Format,
    FormatOption,
    NoColorOption,
    QuietOption,
    VerboseOption,
    emit_json,
    guarded,
    refuse,
    say,
)

READS = {
    "sums": "sums: one pass over blocks of records, in memory that does not grow with n",
    "passes": "passes: passes over blocks of records, from a local file where they are many",
    "parts": "parts: disjoint parts of the records, one at a time",
    "rows": "rows: single records by their place, from a local file where they are many",
    "whole": "whole: all records, in memory",
}


def card_json(card: Card) -> dict[str, Any]:
    """A card in the shape that scripts rely on."""
    return {
        "id": card.id,
        "title": card.title,
        "role": card.role,
        "family": card.family,
        "task": card.task,
        "privacy": {"model": card.models[0] if len(card.models) == 1 else list(card.models), "guarantees": list(card.guarantees)},
        "sources": [
            {"document": s.document, "section": s.section, "algorithm": s.algorithm, "theorems": list(s.theorems)} for s in card.sources
        ],
        "summary": card.summary,
        "reads": card.reads,
        **({"origin": made.origin} if (made := others().get(card.id)) else {}),
        "assumptions": [{"name": a.name, "role": a.role, "statement": a.statement, "enforced_by": a.enforced_by} for a in card.needs],
        "tunables": {name: {"formula": t.formula, "source": t.source} for name, t in card.tunables.items()},
        "options": {name: list(words) for name, words in card.options.items()},
        **({"vectors": dict(card.vectors)} if card.vectors else {}),
        "bounds": [
            {
                "measure": b.measure,
                "kind": b.kind,
                "type": b.type,
                "expression": b.expression,
                "status": b.status,
                "theorem": b.theorem,
                "probability": b.probability,
                "conditions": b.conditions,
                "regime": b.regime,
            }
            for b in card.bounds
        ],
        **({"no_bound": card.no_bound} if card.no_bound else {}),
        "faults": [{"claim": f.claim, "truth": f.truth, "evidence": f.evidence, "severity": f.severity} for f in card.faults],
        "spec": card.spec,
    }


@guarded
def command(
    id: Annotated[str | None, typer.Argument(help="an algorithm; none lists all", show_default=False)] = None,
    faults: Annotated[bool, typer.Option("--faults", help="what the published versions get wrong")] = False,
    measures: Annotated[bool, typer.Option("--measures", help="the measures of error of each task, for `expect` and studies")] = False,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """List the algorithms, or show one card whole.

    Examples:

      dpspec algorithms

      dpspec algorithms ldp-iht --faults

      dpspec algorithms --measures

      dpspec algorithms --format json
    """
    from dpspec.algorithms.registry import UnknownAlgorithm, cards, get

    if measures:
        if id is not None or faults:
            refuse("measures are of tasks, not of an algorithm", "dpspec algorithms --measures")
        _measures(format)
        return
    if id is not None:
        try:
            found = [get(id).CARD]
        except UnknownAlgorithm as error:
            refuse(str(error), error.help)
    else:
        found = sorted(cards(), key=lambda c: (c.family, c.role, c.id))
    if format is Format.json:
        emit_json([card_json(c) for c in found] if id is None else card_json(found[0]))
    elif id is None and not faults:
        for c in found:
            say(f"{c.family:12} {c.role:10} {c.id:38} {'/'.join(c.models):12} {c.title}{_of(c)}")
    elif faults:
        for c in found:
            for f in c.faults:
                say(f"{c.id} [{f.severity}]")
                _paragraphs([f"printed: {f.claim}", f"true:    {f.truth}", f"test:    {f.evidence}"])
    else:
        _card(found[0])


def _of(c: Card) -> str:
    other = others().get(c.id)
    return "" if other is None else f"   [{other.origin}]"


def _measures(format: Format) -> None:
    """Each task with its measures: the first is what a study measures where no target says otherwise."""
    from dpspec.tasks.registry import tasks

    found: list[dict[str, Any]] = [
        {
            "task": t.words[-1],
            "measures": [{"name": m.name, "is": " ".join((m.of.__doc__ or "").split()), "needs": m.needs} for m in t.measures],
        }
        for t in sorted(tasks(), key=lambda t: t.words[-1])
        if t.measures
    ]
    if format is Format.json:
        emit_json(found)
        return
    for task in found:
        for i, m in enumerate(task["measures"]):
            mark = "*" if i == 0 else " "
            say(f"{task['task']:24} {mark} {m['name']:36} against the {m['needs']}")
    say("\n* what a study measures where no `expect MEASURE <= VALUE` names another")


def _card(c: Card) -> None:
    say(f"{c.id}: {c.title}   ({c.family}, {c.role}){_of(c)}\n")
    say(textwrap.fill(c.summary, 96))
    say(f"\nserves      {c.task} under {', '.join(c.models)}; gives {', '.join(c.guarantees)}")
    say(f"reads       {READS[c.reads]}")
    for s in c.sources:
        say(f"source      {s.document}, {s.section}, {s.algorithm} {', '.join(s.theorems)}".rstrip(", "))
    for a in c.needs:
        how = f" [enforced: {a.enforced_by}]" if a.enforced_by else ""
        say(f"needs       {a.name} ({a.role}): {a.statement}{how}")
    for name, t in c.tunables.items():
        say(f"tunable     {name} = {t.formula}   ({t.source})")
    for name, words in c.options.items():
        say(f"option      {name} = {' | '.join(words)}")
    for name, what in c.vectors.items():
        say(f"file        {name}: {what}")
    if c.no_bound:
        say(f"bound       none: {c.no_bound}")
    for b in c.bounds:
        sign = "<=" if b.type == "upper" else ">="
        say(f"bound       {b.measure} {sign} {b.expression}   {b.kind}, {b.status}, {b.theorem}")
    say(f"faults      {len(c.faults)} in the published versions; `dpspec algorithms {c.id} --faults`")
    if c.spec:
        say(f"spec        {c.spec}")


def _paragraphs(lines: list[str]) -> None:
    for line in lines:
        say(textwrap.fill(line, 96, initial_indent="    ", subsequent_indent="             "))
