"""``dpspec audit``: a deployment, a configuration, a record, samples or a channel against its stated guarantee."""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from typing import Annotated, Any

import typer

from dpspec.cli.common import (
    FINDINGS,
    Format,
    FormatOption,
    NoColorOption,
    QuietOption,
    VerboseOption,
    emit_json,
    guarded,
    say,
    show_diagnostics,
    stop,
    use_color,
)
from dpspec.spec.diagnostics import Diagnostic, SpecError

UNUSABLE = 2


@guarded
def command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="descriptions, training configurations, registry entries or folders of them, plans, records, channels", show_default=False
        ),
    ] = None,
    tool: Annotated[str, typer.Option("--as", help="the tool whose configuration it is; found by its own words when left out")] = "",
    template: Annotated[
        str, typer.Option("--template", help="write a commented description of this kind (list: their names) and stop")
    ] = "",
    html: Annotated[
        Path | None, typer.Option("--html", help="write the report, or the table of a registry, as one page", show_default=False)
    ] = None,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Recompute a stated guarantee and name the mistake. Exit 1 unless every one of them is certified.

    Examples:

      dpspec audit deployment.yaml

      dpspec audit config.yaml --as opacus

      dpspec audit --template flower > run.yaml

      dpspec audit registry.yaml --html table.html

      dpspec audit record.json channel.csv --format json
    """
    if template:
        _template(template, format)
        return
    if not files:
        raise SpecError([Diagnostic("DP416", "error", "no file is named", "dpspec audit FILE, or --template KIND for a start")])
    texts, rows, bad, failed = list[str](), list[Any](), False, list[SpecError]()
    for file in files:
        try:
            text, found, clean = _one(file, tool, html)
        except SpecError as error:
            if len(files) == 1:
                raise
            failed.append(error)
            rows.append({"path": str(file), "diagnostics": [d.to_json() for d in error.diagnostics]})
            continue
        texts.append(text)
        rows += found
        bad |= not clean
    if format is Format.json:
        emit_json(rows[0] if len(rows) == 1 else rows)
    else:
        say("\n\n".join(texts))
        for unread in failed:
            show_diagnostics(unread, color=use_color(no_color, sys.stderr))
    if failed:
        stop(UNUSABLE)
    if bad:
        stop(FINDINGS)


def _one(file: Path, tool: str, html: Path | None) -> tuple[str, list[Any], bool]:
    """The text, the rows and whether all is certified, of one file or folder."""
    from dpspec.audit import audit, audit_all
    from dpspec.audit.registry import Row, page, table_html, table_text

    many = None if tool else audit_all(file)
    if many is None:
        result = audit(file, tool)
        if html is not None:
            html.write_text(page(f"<pre>{escape(result.text())}</pre>", file.stem), encoding="utf-8")
        return result.text(), [result.to_json()], result.exit_code == 0
    table = [r for r in many if isinstance(r, Row)]
    clean = all(r.verdict == "holds" for r in many)
    if table:
        if html is not None:
            html.write_text(page(table_html(table), file.stem), encoding="utf-8")
        return table_text(table), [r.to_json() for r in table], clean
    told = []
    for row in many:
        assert not isinstance(row, Row)
        name = row.id + (f": {row.variant}" if row.variant else "")
        if row.result is None:
            told.append(f"{name}\nverdict     {row.verdict}\n" + "\n".join(f"error       {f.code} {f.message}" for f in row.faults))
        else:
            told.append(row.result.text())
    text = "\n\n".join(told)
    if html is not None:
        html.write_text(page(f"<pre>{escape(text)}</pre>", file.stem), encoding="utf-8")
    return text, [r.to_json() for r in many], clean


def _template(kind: str, format: Format) -> None:
    from dpspec.audit import template
    from dpspec.audit.templates import kinds

    text = "\n".join(kinds()) if kind == "list" else template(kind).rstrip("\n")
    if format is Format.json:
        emit_json({"kind": kind, "text": text})
    else:
        say(text)
