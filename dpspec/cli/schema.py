"""``dpspec schema``: the JSON Schema (draft-07) of the YAML surface."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpspec.cli.common import Format, FormatOption, NoColorOption, QuietOption, VerboseOption, emit_json, guarded, say


@guarded
def command(
    out: Annotated[Path | None, typer.Option("--out", help="write it here instead of stdout", show_default=False)] = None,
    policy: Annotated[bool, typer.Option("--policy", help="of policy.yaml, instead of specs")] = False,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Print the JSON Schema of *.dpspec.yaml, or of policy.yaml, for editors and validators.

    Examples:

      dpspec schema --out dpspec.schema.json
    """
    import json

    from dpspec.spec.schema import json_schema

    if policy:
        from dpspec.policy.read import json_schema as of_policy

    schema = of_policy() if policy else json_schema()
    if out is not None:
        out.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
        if not quiet:
            say(f"wrote {out}")
    if out is None or format is Format.json:
        emit_json(schema)
