"""``dpspec fmt``: the one canonical layout."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from dpspec.cli.common import (
    FINDINGS,
    UNUSABLE,
    Format,
    FormatOption,
    NoColorOption,
    QuietOption,
    VerboseOption,
    emit_json,
    guarded,
    none_found,
    say,
    show_diagnostics,
    spec_files,
    stop,
    use_color,
)
from dpspec.spec.diagnostics import SpecError


@guarded
def command(
    paths: Annotated[list[Path], typer.Argument(help="spec files or folders", show_default=False)],
    check: Annotated[bool, typer.Option("--check", help="change nothing; exit 1 when a file is not in the canonical layout")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="change nothing; print what would change")] = False,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Rewrite specs in the canonical layout; comments stay. A file that does not parse is left alone.

    Examples:

      dpspec fmt specs/

      dpspec fmt --check specs/
    """
    from dpspec.lang.format import format_text
    from dpspec.lang.source import read_text

    files = spec_files(paths)
    if not files:
        none_found(paths)
    changed: list[str] = []
    broken: list[str] = []
    diffs: dict[str, str] = {}
    found: list[dict[str, object]] = []
    for file in files:
        try:
            text = read_text(file)
            new = format_text(text, str(file))
        except SpecError as error:
            show_diagnostics(error, color=use_color(no_color))
            broken.append(str(file))
            found += [{"path": str(file), **d.to_json()} for d in error.diagnostics]
            continue
        if new == text:
            continue
        changed.append(str(file))
        if diff:
            diffs[str(file)] = "".join(difflib.unified_diff(text.splitlines(True), new.splitlines(True), str(file), str(file)))
            if format is Format.text:
                say(diffs[str(file)])
        elif not check:
            temporary = file.with_name(file.name + ".partial")
            temporary.write_text(new, encoding="utf-8")
            temporary.replace(file)
    if format is Format.json:
        more: dict[str, object] = {"diffs": diffs} if diff else {}
        emit_json({"changed": changed, "unusable": broken, "files": len(files), "diagnostics": found, **more})
    elif not quiet:
        word = "would change" if check or diff else "changed"
        for name in changed:
            say(f"{word}: {name}")
        say(f"{len(files)} spec{'s' if len(files) != 1 else ''}, {len(changed)} {word}")
    if broken:
        stop(UNUSABLE)
    if changed and (check or diff):
        stop(FINDINGS)
