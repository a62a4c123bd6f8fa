"""``dpspec predict``: what a released model says of other records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpspec.cli.common import Format, FormatOption, NoColorOption, QuietOption, VerboseOption, emit_json, guarded, refuse, say


@guarded
def command(
    record: Annotated[Path, typer.Argument(help="record.json of a run with --out, its arrays beside it", show_default=False)],
    data: Annotated[Path, typer.Argument(help="the records to predict for, a file with the columns of the spec", show_default=False)],
    release: Annotated[str | None, typer.Option("--release", help="which release predicts, of several", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option("--out", help="write a CSV file instead", show_default=False)] = None,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Predict with released weights. The records are encoded and enforced as the run did with its own, and need no target.

    Examples:

      dpspec predict released/record.json new.csv

      dpspec predict released/record.json new.csv --release income --out predicted.csv
    """
    from dpspec.executor.record import Record

    try:
        found = Record.read(record).predict(data, release)
    except ValueError as problem:
        refuse(str(problem), "a record of `run --out` whose spec minimises a loss or estimates theta")
    values = found.tolist()
    if out is not None:
        partial = out.with_name(out.name + ".partial")
        partial.write_text("prediction\n" + "".join(f"{v}\n" for v in values), encoding="utf-8")
        partial.replace(out)
    if format is Format.json:
        emit_json(values)
    elif out is None:
        say("\n".join(str(v) for v in values))
    elif not quiet:
        say(f"wrote {out}")
