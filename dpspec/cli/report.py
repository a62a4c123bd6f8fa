"""``dpspec report``: a self-contained HTML page, or the terminal form of a stored file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from dpspec.cli.common import (
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
    read_json,
    refuse,
    say,
    use_color,
)

_STORED = "name a spec, or a file that `plan --out`, `run --out` or `study --out` wrote"


@guarded
def command(
    files: Annotated[list[Path], typer.Argument(help="study.json, record.json, a stored plan, or a spec", show_default=False)],
    html: Annotated[Path | None, typer.Option("--html", help="write the page here", show_default=False)] = None,
    table: Annotated[
        Path | None, typer.Option("--table", help="write a record's numbers here: .csv, .json or .parquet", show_default=False)
    ] = None,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Render stored results. The page needs no network and no script; it is light or dark as the reader's system is.

    Examples:

      dpspec report out/study.json --html study.html

      dpspec report analysis.dps --html plan.html

      dpspec report released/record.json --table numbers.csv
    """
    bodies = [_body(f) for f in files]
    if table is not None:
        if len(bodies) != 1 or bodies[0].get("mode") != "release":
            refuse("a table is of one record", "dpspec report released/record.json --table numbers.csv")
        from dpspec.executor.record import Record

        try:
            Record.read(files[0]).export(table)
        except ValueError as error:
            refuse(str(error), _STORED)
        if not quiet and format is not Format.json:
            say(f"wrote {table}")
    if html is not None:
        if len(bodies) != 1:
            refuse("one page shows one file", "call once for each file")
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            refuse("pages need matplotlib", "pip install 'dpspec[report]', or in a clone pip install '.[report]'", "DP415")
        from dpspec.report.html import page

        partial = html.with_name(html.name + ".partial")
        try:
            text = page(with_trade_off(bodies[0], files[0]))
        except MALFORMED as error:
            if is_spec(files[0]):
                raise
            malformed(files[0], "plan, record or study", error, _STORED)
        partial.write_text(text, encoding="utf-8")
        partial.replace(html)
        if not quiet:
            say(f"wrote {html}")
    if format is Format.json:
        emit_json(bodies[0] if len(bodies) == 1 else bodies)
    elif html is None and table is None:
        say("\n\n".join(_shown(b, f, color=use_color(no_color)) for b, f in zip(bodies, files, strict=True)))


def with_trade_off(body: dict[str, Any], file: Path) -> dict[str, Any]:
    """The page of a plan or study with what a budget buys, from public numbers alone: by the spec's text, and by the constants that a
    study has fitted. As it is where the text is not at hand, or where today's compiler has no plan for it."""
    plan = body.get("plan") if body.get("mode") == "study" else body
    if not isinstance(plan, dict) or plan.get("trade_off") or not plan.get("text"):
        return body
    from dpspec.executor import planning
    from dpspec.lang.source import parse_text
    from dpspec.spec.diagnostics import SpecError

    path = str(file) if is_spec(file) else str(plan["spec"]["path"])
    try:
        parsed = parse_text(plan["text"], path)
        constants = {k: float(c["value"]) for k, c in planning.fitted(body).items()}
        table = planning.trade_off(parsed, constants=constants)
    except SpecError:
        return body
    return {**body, "plan": {**plan, "trade_off": table}} if plan is not body else {**body, "trade_off": table}


def _shown(body: dict[str, Any], file: Path, *, color: bool) -> str:
    try:
        return _text(body, color=color)
    except MALFORMED as error:
        if is_spec(file):
            raise
        malformed(file, "plan, record or study", error, _STORED)


def _text(body: dict[str, Any], *, color: bool) -> str:
    from dpspec.report.terminal import plan_text, record_text, study_text

    writer = {"study": study_text, "release": record_text}.get(str(body.get("mode")), plan_text)
    return writer(body, color=color)


def _body(path: Path) -> dict[str, Any]:
    if is_spec(path):
        from dpspec.compiler.plan import make_plan
        from dpspec.lang.source import parse_file

        plan = make_plan(parse_file(path))
        return {**plan.to_json(), "text": plan.draft.parsed.text}
    body = read_json(path, "JSON", _STORED)
    known = isinstance(body, dict) and (body.get("mode") in ("study", "release") or ("guarantee" in body and "releases" in body))
    if not known:
        refuse(f"{path} is neither a plan, nor a record, nor a study", _STORED)
    try:
        return _infinite_again(body) if body.get("mode") == "study" else dict(body)
    except MALFORMED as error:
        malformed(path, "study", error, _STORED)


def _infinite_again(study: dict[str, Any]) -> dict[str, Any]:
    """A stored study whose errors were infinite (JSON has null there), so that it is shown as it was measured."""

    def number(value: Any) -> Any:
        return math.inf if value is None else [number(v) for v in value] if isinstance(value, list) else value

    def point(p: dict[str, Any]) -> dict[str, Any]:
        errors = {k: {s: number(v) for s, v in p[k].items()} for k in ("error", "reference_error") if p.get(k)}
        return {**p, **errors}

    return {**study, "points": [point(p) for p in study["points"]]}
