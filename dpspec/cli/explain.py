"""``dpspec explain``: the long form of a diagnostic."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

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


@guarded
def command(
    code: Annotated[str | None, typer.Argument(help="a code such as DP201; none lists all", show_default=False)] = None,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Explain a diagnostic: why it matters, an example, its repair, references.

    Examples:

      dpspec explain DP210

      dpspec explain
    """
    from dpspec.spec.codes import CODES

    table = CODES.all()
    if code is None:
        if format is Format.json:
            emit_json([{"code": c, "title": e.title} for c, e in table.items()])
        else:
            for c, entry in table.items():
                say(f"{c}  {entry.title}")
        return
    wanted = code.strip().upper()
    if wanted not in table:
        near = difflib.get_close_matches(wanted, table, n=3)
        refuse(
            f"there is no diagnostic {code}" + (f"; did you mean {', '.join(near)}?" if near else ""), "`dpspec explain` lists all of them"
        )
    entry = table[wanted]
    if format is Format.json:
        emit_json(
            {
                "code": wanted,
                "title": entry.title,
                "explanation": entry.explanation,
                "bad": entry.bad,
                "good": entry.good,
                "references": list(entry.references),
            }
        )
        return
    import textwrap

    say(f"{wanted}: {entry.title}\n")
    say(textwrap.fill(entry.explanation, 96))
    for title, text in (("For example", entry.bad), ("Instead", entry.good)):
        if text:
            say(f"\n{title}:\n\n{textwrap.indent(text, '    ')}")
    if entry.references:
        say("\nReferences: " + "; ".join(entry.references))
