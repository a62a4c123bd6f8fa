"""``dpspec convert``: one surface into the other."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dpspec.cli.common import Format, FormatOption, NoColorOption, QuietOption, VerboseOption, emit_json, guarded, say


class Surface(StrEnum):
    yaml = "yaml"
    dps = "dps"


@guarded
def command(
    spec: Annotated[Path, typer.Argument(help="a spec file", show_default=False)],
    to: Annotated[Surface, typer.Option("--to", help="yaml or dps", show_default=False)],
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Print a spec in the other surface. Nothing of its meaning is lost; comments stay within a surface.

    Examples:

      dpspec convert analysis.dps --to yaml > analysis.dpspec.yaml
    """
    from dpspec.lang.printer import to_dps, to_yaml
    from dpspec.lang.source import parse_file

    parsed = parse_file(spec)
    text = to_yaml(parsed.analysis) if to is Surface.yaml else to_dps(parsed.analysis)
    if format is Format.json:
        emit_json({"to": to.value, "text": text})
    else:
        say(text.rstrip("\n"))
