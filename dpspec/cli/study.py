"""``dpspec study``: measured error against the bounds."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from dpspec.cli.common import (
    FINDINGS,
    INTERRUPTED,
    Format,
    FormatOption,
    NoColorOption,
    QuietOption,
    SchedulerOption,
    VerboseOption,
    emit_json,
    guarded,
    note,
    refuse,
    say,
    stop,
    use_color,
)
from dpspec.cli.progress import progress_bar, progress_lines


@guarded
def command(
    spec: Annotated[Path, typer.Argument(help="a spec file with a simulate block or public data, or any with --data", show_default=False)],
    trials: Annotated[
        int | None, typer.Option("--trials", min=1, help="runs at each point (default: the spec's, or 20)", show_default=False)
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="seed of data and noise (default: the spec's, or 0)", show_default=False)
    ] = None,
    vary: Annotated[
        list[str] | None, typer.Option("--vary", help="NAME=VALUE,VALUE,...: a sweep; repeat for a grid", show_default=False)
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            help="ID,ID,...: these algorithms side by side; references too",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="few trials and the ends of each sweep: a look, not a result")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", help="a file of public records in the place of the spec's data; n of each trial is the plan's", show_default=False
        ),
    ] = None,
    holdout: Annotated[
        str | None,
        typer.Option(
            "--holdout", help="SHARE of real records that no trial trains on, and that errors are measured on too", show_default=False
        ),
    ] = None,
    until: Annotated[
        float | None,
        typer.Option(
            "--until", min=1e-6, help="go on until half the 95% interval of each mean is at most this share of it", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="folder for study.json; finished points are kept and resumed", show_default=False)
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="processes (default: all cores); results do not depend on it", show_default=False)
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="local or dask")] = "local",
    scheduler: SchedulerOption = None,
    progress: Annotated[str, typer.Option("--progress", help="bar (on a terminal), json (a line a second, to stderr) or off")] = "bar",
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Measure the error of a plan on simulated or public data, and compare it with the bounds.

    Examples:

      dpspec study analysis.dps --trials 50 --seed 7

      dpspec study analysis.dps --vary n=1e4,1e5,1e6 --vary epsilon=0.5,1,2 --out out/

      dpspec study analysis.dps --until 0.05 --trials 500

      dpspec study analysis.dps --data public.csv --holdout 0.2
    """
    from dpspec.executor.study import Interrupted, study
    from dpspec.lang.source import parse_file

    if engine not in ("local", "dask"):
        refuse(f"there is no engine {engine!r}", "--engine local, or --engine dask")
    if scheduler is not None and engine != "dask":
        refuse("--scheduler is for --engine dask", "add --engine dask, or leave it out")
    parsed = parse_file(spec)
    interrupted: Interrupted | None = None
    if progress not in ("bar", "json", "off"):
        refuse(f"there is no progress {progress!r}", "--progress bar, json or off")
    with progress_lines("study") if progress == "json" else progress_bar("study", quiet=quiet or progress == "off") as update:
        try:
            result = study(
                parsed,
                trials=trials,
                seed=seed,
                vary=parse_vary(vary or []),
                compare=tuple(compare.split(",")) if compare else (),
                quick=quick,
                until=until,
                out=out,
                workers=workers,
                engine=engine,
                scheduler=scheduler,
                data=data,
                holdout=None if holdout is None else parse_share(holdout),
                progress=update,
            )
        except Interrupted as partial:
            result, interrupted = partial.result, partial
    body = result.to_json()
    if out is not None:
        result.write(out)
    if format is Format.json:
        emit_json(body)
    elif not quiet:
        from dpspec.report.terminal import study_text

        say(study_text(body, color=use_color(no_color)))
    if interrupted is not None:
        where = f"kept in {out}; the same command resumes there" if out is not None else "nothing is kept without --out"
        kept = where if interrupted.done else "no part of it was finished, so there is nothing to keep"
        note(f"interrupted after {interrupted.done} of {interrupted.total} trials, {len(body['points'])} finished points: {kept}")
        stop(INTERRUPTED)
    if any(p["bound"] is not None and p["bound"]["holds"] is False for p in body["points"]):
        stop(FINDINGS)
    if any(p["target"] is not None and p["target"]["verdict"] == "missed" for p in body["points"]):
        stop(FINDINGS)


def parse_share(word: str) -> Fraction:
    """``0.2`` or ``1/5``."""
    try:
        return Fraction(word.strip())
    except (ValueError, ZeroDivisionError):
        refuse(f"--holdout {word!r} is no number", "a share between 0 and 1: --holdout 0.2")


def parse_vary(words: list[str]) -> dict[str, tuple[str, ...]]:
    """``n=1e4,1e5`` and the like. Values are expressions of the language; commas inside brackets do not split."""
    found: dict[str, tuple[str, ...]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or not name.strip() or not values.strip():
            refuse(f"--vary {word!r} is not NAME=VALUE,VALUE,...", "for example --vary n=1e4,1e5,1e6")
        found[name.strip()] = tuple(v.strip() for v in values.split(","))
    return found
