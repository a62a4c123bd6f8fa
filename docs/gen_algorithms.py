"""Writes one Markdown page an algorithm from its card and its module's docstring: ``python docs/gen_algorithms.py [FOLDER]``.

The pages are generated, not kept: a new algorithm is one file and one gallery spec.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]


def page(module: ModuleType) -> str:
    """The page of one algorithm."""
    card = module.CARD
    cell = lambda text: str(text).replace("|", "\\|")  # noqa: E731
    out = [f"# {card.id}", "", f"**{card.title}.** {card.summary}", ""]
    models, kinds = ", ".join(card.models), ", ".join(card.guarantees) or "none: not private"
    out += [f"Task `{card.task}` · models {models} · guarantees {kinds} · role {card.role}", ""]
    if card.margins == "several":
        out += ["It serves losses of several margins too: `multinomial(K)`, where d is the number K*d of weights.", ""]
    out += [f"- {s.document}, section {s.section}: {s.algorithm} ({'; '.join(s.theorems)})" for s in card.sources] + [""]
    out += ["## Needs", "", "| name | role | statement | enforced by |", "|---|---|---|---|"]
    out += [f"| {n.name} | {n.role} | {cell(n.statement)} | {cell(n.enforced_by)} |" for n in card.needs] + [""]
    if card.options or card.tunables:
        out += ["## Options and tunables", "", "| name | default | from |", "|---|---|---|"]
        out += [f"| {name} | {' or '.join(words)} | first word is the default |" for name, words in card.options.items()]
        out += [f"| {name} | `{cell(t.formula)}` | {cell(t.source)} |" for name, t in card.tunables.items()] + [""]
    out += ["## Bounds", "", "| measure | kind | expression | status | theorem | holds when |", "|---|---|---|---|---|---|"]
    out += [
        f"| {b.measure} | {b.kind} {b.type} | `{cell(b.expression)}` | {b.status} | {b.theorem} | {cell(b.conditions)} |"
        for b in card.bounds
    ]
    if card.faults:
        out += ["", "## Faults of the printed version", "", "| printed | true | severity | shown by |", "|---|---|---|---|"]
        out += [f"| {cell(f.claim)} | {cell(f.truth)} | {f.severity} | `{f.evidence}` |" for f in card.faults]
    if card.spec and (ROOT / card.spec).is_file():
        out += ["", "## Spec", "", f"`{card.spec}`", "", "```", (ROOT / card.spec).read_text(encoding="utf-8").rstrip(), "```"]
    out += ["", "## Derivation and differences from the printed version", "", "```text", (module.__doc__ or "").strip(), "```", ""]
    return "\n".join(out)


def main(folder: Path) -> None:
    from dpspec.algorithms.registry import all_modules

    folder.mkdir(parents=True, exist_ok=True)
    for module in all_modules():
        (folder / f"{module.CARD.id}.md").write_text(page(module), encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "algorithms")
