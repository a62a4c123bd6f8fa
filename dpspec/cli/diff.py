"""``dpspec diff``: two specs or plans, what became weaker or stronger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpspec.cli.common import (
    FINDINGS,
    MALFORMED,
    Format,
    FormatOption,
    NoColorOption,
    QuietOption,
    VerboseOption,
    emit_json,
    guarded,
    is_spec,
    malformed,
    say,
    shown,
    stop,
)


@guarded
def command(
    old: Annotated[Path, typer.Argument(help="a spec, or a plan written with --out", show_default=False)],
    new: Annotated[Path, typer.Argument(help="a spec, or a plan written with --out", show_default=False)],
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Compare two specs or plans in privacy, accuracy and cost. Exit 1 when privacy became weaker or cannot be compared.

    Examples:

      dpspec diff old.dps new.dps

      dpspec diff reviewed.plan.json analysis.dps --format json
    """
    from dpspec.compiler.diff import compare, verdict

    before, after = _body(old), _body(new)
    try:
        changes = compare(before, after)
    except MALFORMED as error:
        stored = next((p for p in (old, new) if not is_spec(p)), None)
        if stored is None:
            raise
        malformed(stored, "plan", error, "write one with `dpspec plan SPEC --out FILE`")
    privacy = verdict(changes)
    weaker = privacy in ("weaker", "incomparable")
    if format is Format.json:
        emit_json({"changes": [c.to_json() for c in changes], "privacy": privacy, "privacy_weaker": weaker})
    else:
        for c in changes:
            say(f"{c.area:9} {c.direction:12} {c.what}: {shown(c.old)} -> {shown(c.new)}")
        if not quiet:
            say(f"privacy: {privacy}" if changes else "the same plan")
    if weaker:
        stop(FINDINGS)


def _body(path: Path) -> dict[str, object]:
    if is_spec(path) or not path.exists():
        from dpspec.compiler.plan import make_plan
        from dpspec.lang.source import parse_file

        return make_plan(parse_file(path), check=False).to_json()
    from dpspec.cli.plan import read_plan

    return read_plan(path)
