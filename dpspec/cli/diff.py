"""``dpspec diff``: two specs or plans, what became weaker or stronger."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
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
    refuse,
    say,
    shown,
    stop,
)


@guarded
def command(
    old: Annotated[str, typer.Argument(help="a spec, or a plan written with --out; REV:PATH is one of a git revision", show_default=False)],
    new: Annotated[str, typer.Argument(help="the same", show_default=False)],
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Compare two specs or plans in privacy, accuracy and cost. Exit 1 when privacy became weaker or cannot be compared.

    Examples:

      dpspec diff old.dps new.dps

      dpspec diff main:analysis.dps analysis.dps

      dpspec diff reviewed.plan.json analysis.dps --format json
    """
    from dpspec.compiler.diff import compare, verdict

    before, after = _body(old), _body(new)
    try:
        changes = compare(before, after)
    except MALFORMED as error:
        stored = next((p for p in (old, new) if not is_spec(Path(p))), None)
        if stored is None:
            raise
        malformed(Path(stored), "plan", error, "write one with `dpspec plan SPEC --out FILE`")
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


def _body(named: str) -> dict[str, object]:
    """The plan of a spec or a stored plan: a file, or ``REV:PATH`` where there is no file of that name."""
    from dpspec.cli.plan import read_plan

    path = Path(named)
    if path.exists() or ":" not in named:
        return _planned(path, None) if is_spec(path) or not path.exists() else read_plan(path)
    text, inside = _of_revision(named)
    if is_spec(inside):
        return _planned(Path(named), text)
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / inside.name
        kept.write_text(text, encoding="utf-8")
        return read_plan(kept)


def _planned(path: Path, text: str | None) -> dict[str, object]:
    from dpspec.compiler.plan import make_plan
    from dpspec.lang.source import parse_file, parse_text

    return make_plan(parse_file(path) if text is None else parse_text(text, str(path)), check=False).to_json()


def _of_revision(named: str) -> tuple[str, Path]:
    """The text of ``REV:PATH``, and the path in it. A relative path counts from the working folder, as elsewhere on the command line."""
    revision, _, inside = named.partition(":")
    if not revision or revision.startswith("-") or not inside:
        refuse(f"{named} is neither a file nor REV:PATH of git", "as `dpspec diff main:analysis.dps analysis.dps`")
    git = shutil.which("git")
    if git is None:
        refuse(f"{named} names a git revision, and git is not installed", "install git, or name a file", code="DP415")
    place = inside if inside.startswith(("./", "../")) or Path(inside).is_absolute() else f"./{inside}"
    done = subprocess.run([git, "show", f"{revision}:{place}"], capture_output=True, check=False, timeout=60)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ").split("\n")[0]
        refuse(f"{named} cannot be read: {said}", "name a revision and a path that git knows here")
    try:
        return done.stdout.decode("utf-8"), Path(inside)
    except UnicodeDecodeError:
        refuse(f"{named} is not UTF-8", "name a text file")
