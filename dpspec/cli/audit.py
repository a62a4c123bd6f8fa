"""``dpspec audit``: a deployment, a record, samples or a channel against its stated guarantee."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpspec.cli.common import FINDINGS, Format, FormatOption, NoColorOption, QuietOption, VerboseOption, emit_json, guarded, say, stop


@guarded
def command(
    files: Annotated[list[Path], typer.Argument(help="deployment descriptions, plans, records or channel matrices", show_default=False)],
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Recompute a stated guarantee and name the mistake. Exit 1 unless every one of them is certified.

    Examples:

      dpspec audit deployment.yaml

      dpspec audit record.json channel.csv --format json
    """
    from dpspec.audit import audit

    results = [audit(f) for f in files]
    if format is Format.json:
        rows = [r.to_json() for r in results]
        emit_json(rows[0] if len(rows) == 1 else rows)
    else:
        say("\n\n".join(r.text() for r in results))
    if any(r.exit_code for r in results):
        stop(FINDINGS)
