"""``dpspec client``: what a user's device needs to report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dpspec.cli.common import Format, FormatOption, NoColorOption, QuietOption, VerboseOption, emit_json, guarded, say


@guarded
def command(
    plan: Annotated[Path, typer.Argument(help="a spec file, or a stored plan", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help="write the client file here", show_default=False)] = None,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Write the client file of a plan of the local model: the public parameters of its channels, the rules of its domains, the plan's hash.

    Devices read it with `dpspec.client`, which needs NumPy alone and refuses what spends more than the device's own limit.

    Examples:

      dpspec client survey.dps --out client.json

      dpspec client plan.json --format json
    """
    from dpspec.collector.export import client_form, device_of
    from dpspec.collector.plans import plan_of
    from dpspec.compiler.influence import influence
    from dpspec.report.terminal import influence_line

    planned = plan_of(plan)
    form, device = client_form(planned), device_of(planned)
    if out is not None:
        temporary = out.with_suffix(out.suffix + ".partial")
        temporary.write_text(json.dumps(form, indent=2, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
        temporary.replace(out)
    if format is Format.json:
        emit_json(form)
    elif not quiet:
        g = planned.guarantee
        say(f"client of the plan {planned.sha256}")
        say(f"  a report: {device.length} bytes, {sum(draw.bits for draw in device.draws):,} bits of them randomised")
        for draw in device.draws:
            times = f"{draw.count} times " if draw.count > 1 else ""
            say(f"  {draw.name}: {times}{draw.channel.kind} of {draw.feature.kind}")
        if device.rounds > 1:
            say(f"  rounds: {device.rounds}; a user answers in one of them")
        if g.epsilon is not None:
            say(f"  limit that a device must allow: epsilon = {g.epsilon:g}" + (f", delta = {g.delta:g}" if g.delta else ""))
        for row in influence(planned.draft):
            say(f"  {influence_line(row)}")
        if out is not None:
            say(f"written to {out}")
