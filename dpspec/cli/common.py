"""What every command shares: exit codes, output, errors."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn, ParamSpec, TypeVar

import typer

from dpspec.spec.diagnostics import Diagnostic, SpecError

CLEAN, FINDINGS, UNUSABLE, INTERRUPTED = 0, 1, 2, 130

P = ParamSpec("P")
R = TypeVar("R")


class Format(StrEnum):
    text = "text"
    json = "json"


FormatOption = Annotated[Format, typer.Option("--format", help="text for a person, json for a script (one document on stdout)")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="print findings only")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="print more")]
LedgerOption = Annotated[
    str | None, typer.Option("--ledger", envvar="DPSPEC_LEDGER", help="of accounts: a SQLite file, or a URL", show_default=False)
]
AccountOption = Annotated[
    str | None, typer.Option("--account", envvar="DPSPEC_ACCOUNT", help="the account that is charged", show_default=False)
]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", help="address of a Dask scheduler, tcp://HOST:PORT (default: DASK_SCHEDULER_ADDRESS)", show_default=False),
]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="no colour (also the NO_COLOR variable)")]


@dataclass
class _Document:
    """What the running command owes to stdout: with ``--format json`` one document and nothing else."""

    wanted: bool = False
    written: bool = False


_document = _Document()


def say(text: str = "") -> None:
    """A line for a person: on stdout, or on stderr where stdout holds a JSON document."""
    (sys.stderr if _document.wanted else sys.stdout).write(text + "\n")


def note(text: str) -> None:
    """A line about the work itself, on stderr."""
    sys.stderr.write(text + "\n")


def emit_json(value: Any) -> None:
    """The one document of ``--format json``. Numbers that JSON has no word for (infinite, not a number) become null."""
    if _document.written:
        raise RuntimeError("a second JSON document on stdout")
    from dpspec.executor.record import finite

    text = json.dumps(finite(value), indent=2, sort_keys=False, allow_nan=False, default=str)
    _document.written = True
    sys.stdout.write(text + "\n")


def refuse(message: str, help: str = "", code: str = "DP416") -> NoReturn:
    """The command's words, or a file that they name, cannot be used: exit 2."""
    raise SpecError([Diagnostic(code, "error", message, help)])


def failure(*diagnostics: Diagnostic, path: str = "", **more: Any) -> None:
    """The JSON document of a command that failed, unless it has written its own."""
    if _document.wanted and not _document.written:
        emit_json({"path": path, "diagnostics": [d.to_json() for d in diagnostics], **more})


def use_color(no_color: bool, stream: Any = None) -> bool:
    out = stream or sys.stdout
    return not no_color and "NO_COLOR" not in os.environ and out.isatty()


def show_diagnostics(error: SpecError, *, color: bool, stream: Any = None) -> None:
    from dpspec.lang.render import render

    out = stream or sys.stderr
    for d in error.diagnostics:
        out.write(render(d, error.text, error.path, color=color) + "\n\n")


def stop(code: int) -> NoReturn:
    raise typer.Exit(code)


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn what can go wrong into a message and a stable exit code, and with ``--format json`` into one document on stdout. What nobody
    foresaw is an internal error, and says so."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        no_color = bool(kwargs.get("no_color", False))
        _document.wanted, _document.written = kwargs.get("format") == Format.json, False
        try:
            return command(*args, **kwargs)
        except SpecError as error:
            if _document.wanted:
                failure(*error.diagnostics, path=error.path, **({"refused": error.detail} if hasattr(error, "detail") else {}))
            else:
                show_diagnostics(error, color=use_color(no_color, sys.stderr))
            stop(UNUSABLE if unusable(error) else FINDINGS)
        except KeyboardInterrupt:
            note("interrupted")
            failure(interrupted=True)
            stop(INTERRUPTED)
        except BrokenPipeError:
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, sys.stdout.fileno())
            stop(CLEAN)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            note(f"error: {where}{error.strerror or error}")
            failure(Diagnostic("DP416", "error", f"{where}{error.strerror or error}", "name a file that can be read or written"))
            stop(UNUSABLE)
        except MemoryError:
            message, help = "there is not enough memory for this", "free some, read fewer columns or records, or use another machine"
            note(f"error: {message}\nhelp: {help}")
            failure(Diagnostic("DP416", "error", message, help))
            stop(UNUSABLE)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if hasattr(error, "format_message"):  # an error of usage, which the group shows
                raise
            if type(error).__name__ not in ("PrivacyError", "AccountingMismatch"):
                _internal(error)
                stop(FINDINGS)
            code, message = getattr(error, "code", "DP307"), getattr(error, "message", str(error))
            help = "nothing was written; this is a fault of the algorithm or of dpspec, not of your spec"
            note(f"error[{code}]: {message}")
            note(f"help: {help}")
            failure(Diagnostic(code, "error", message, help))
            stop(FINDINGS)
        finally:
            _document.wanted = False

    return wrapper


@contextlib.contextmanager
def failing(json: bool) -> Iterator[None]:
    """Work before a command is called: its refusals end as the command's own would."""
    _document.wanted, _document.written = json, False
    try:
        yield
    except SpecError as error:
        if json:
            failure(*error.diagnostics, path=error.path)
        else:
            show_diagnostics(error, color=use_color(False, sys.stderr))
        sys.exit(UNUSABLE if unusable(error) else FINDINGS)
    finally:
        _document.wanted = False


def _internal(error: Exception) -> None:
    """Say where a fault of dpspec is, without the words of the exception: a library may have put cells of private data into them."""
    import traceback

    if os.environ.get("DPSPEC_TRACEBACK"):
        traceback.print_exception(error)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "dpspec" in Path(f.filename).parts]
    place = f"{'/'.join(Path(frames[-1].filename).parts[-2:])}:{frames[-1].lineno}" if frames else "an unknown place"
    note(f"internal error: {type(error).__name__} at {place}")
    note(
        "help: this is a fault of dpspec, not of your input; report it with the command. DPSPEC_TRACEBACK=1 shows all, which may hold data"
    )
    failure(internal_error=type(error).__name__)


def read_json(path: Path, what: str, help: str) -> Any:
    """A JSON file as plain data: no key twice, no NaN or infinity. Anything else is unusable input."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            raise ValueError("a key stands twice")
        return found

    def constant(word: str) -> NoReturn:
        raise ValueError(f"{word} is no number of JSON")

    try:
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except RecursionError:
        refuse(f"{path} is not {what}: it is nested too deeply", help)
    except ValueError as error:
        refuse(f"{path} is not {what}: {error}", help)


#: What code that takes a well-formed document raises on another one.
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def malformed(path: Path, what: str, error: Exception, help: str) -> NoReturn:
    """A document that parses and lacks what it must have."""
    missing = f": the field {error.args[0]!r} is missing" if isinstance(error, KeyError) and error.args else ""
    refuse(f"{path} is not a whole {what}{missing}", help)


def usage_error(message: str) -> None:
    """The document of a command line that does not parse."""
    help = "`dpspec --help` and `dpspec COMMAND --help` list the words"
    _document.wanted, _document.written = True, False
    failure(Diagnostic("DP416", "error", message, help))
    _document.wanted = False


def unusable(error: SpecError) -> bool:
    """Exit 2 when the input does not parse or cannot be used (DP1xx, DP5xx, DP67x, DP415 to DP417, DP702, DP705, DP710, DP712, DP750);
    exit 1 when it can and has findings."""
    of_input = ("DP1", "DP5", "DP67", "DP415", "DP416", "DP417", "DP702", "DP705", "DP710", "DP712", "DP750")
    return any(d.severity == "error" and d.code.startswith(of_input) for d in error.diagnostics)


def spec_files(paths: list[Path]) -> list[Path]:
    """The spec files named or found below the named folders, sorted, without doubles."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(p for p in path.rglob("*") if is_spec(p) and p.is_file())
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def none_found(paths: list[Path]) -> NoReturn:
    help = "name a spec file, or a folder that holds some; `dpspec init` writes a starter"
    refuse(f"no spec (*.dps, *.dpspec.yaml) found under {', '.join(map(str, paths))}", help)


def is_spec(path: Path) -> bool:
    return path.suffix == ".dps" or path.name.endswith((".dpspec.yaml", ".dpspec.yml"))


def shown(value: object) -> str:
    """A number of a comparison in six figures; anything else as it is."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
