"""The ``dpspec`` program: the call of a command, with the defaults of the configuration, and what shells ask to complete."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

from dpspec.cli.app import COMMANDS, build, wants_json


def main() -> None:
    given = sys.argv[1:]
    if given == ["--version"]:
        from dpspec.version import __version__

        sys.stdout.write(f"dpspec {__version__}\n")
        return
    if "_DPSPEC_COMPLETE" in os.environ:
        _complete()
        return
    # modules and schemas are made once and stay: looking through them for garbage was a fifth of the start
    gc.set_threshold(100_000, 20, 20)
    only = given[0] if given and given[0] in COMMANDS else None
    listed = given in ([], ["-h"], ["--help"])
    app = build(only, listed=listed)
    app(prog_name="dpspec", **(_defaults(app) if only is not None and not {"-h", "--help"} & set(given) else {}))


def _complete() -> None:
    """What a shell asks for: the words that may follow. Only the command on its line is imported."""
    import typer.completion

    typer.completion.completion_init()  # type: ignore[attr-defined]
    words = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()[1:]
    only = words[0] if words and words[0] in COMMANDS else None
    build(only, listed=only is None)(prog_name="dpspec", complete_var="_DPSPEC_COMPLETE")


def _defaults(app: Any) -> dict[str, Any]:
    """The configuration of a command, for click; what is wrong with it ends the call as the command's own errors do."""
    from dpspec.cli.common import failing

    found: dict[str, Any] = {}
    with failing(wants_json(sys.argv[1:])):
        from dpspec.config import load

        config = load()
        if config.path is not None:
            from typer.main import get_command

            from dpspec.cli.config import defaults

            found = defaults(config, get_command(app))
    return {"default_map": found} if found else {}
