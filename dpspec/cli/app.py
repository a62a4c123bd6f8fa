"""The commands and the typer application: one thin file a command, each imported when it is called."""

from __future__ import annotations

import importlib
import itertools
import sys
from typing import Any

COMMANDS = {
    "init": "write a commented starter spec",
    "check": "parse, certify the assumptions, see that a plan exists",
    "plan": "the plan: what will be released, with which noise, under which guarantee",
    "diff": "what became weaker or stronger between two specs or plans",
    "run": "release mode: execute the plan on private data",
    "client": "what a user's device needs to report, in the local models",
    "collect": "reports of clients to the record of a release, from files or over HTTP",
    "ledger": "budgets that outlive a process: accounts, what is left, proofs",
    "study": "study mode: measured error against the bounds",
    "audit": "a deployment, record or channel against its stated guarantee",
    "report": "an HTML page, or the terminal form, of stored results",
    "predict": "what a released model says of other records",
    "algorithms": "the catalogue: cards, bounds, faults of the published versions",
    "explain": "the long form of a diagnostic",
    "fmt": "print specs in the one canonical layout",
    "convert": "turn YAML into the DSL and back",
    "schema": "the JSON Schema of the YAML surface",
    "config": "the configuration file and the variables that hold here",
    "completion": "the script by which a shell completes commands",
    "lsp": "the language server, for editors",
}


def group() -> Any:
    """A group whose usage errors are JSON too where ``--format json`` is among the words."""
    from typer.core import TyperGroup

    from dpspec.cli import common

    class Group(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return [name for name in COMMANDS if name in self.commands]

        def main(self, *args: Any, standalone_mode: bool = True, **more: Any) -> Any:
            base: Any = super().main
            given = args[0] if args else more.get("args")
            if not standalone_mode or not wants_json(sys.argv[1:] if given is None else list(given)):
                return base(*args, standalone_mode=standalone_mode, **more)
            try:
                sys.exit(base(*args, standalone_mode=False, **more) or 0)
            except Exception as error:
                shown: Any = error
                if not hasattr(shown, "format_message"):  # only errors of usage have it
                    raise
                shown.show()
                common.usage_error(shown.format_message())
                sys.exit(common.UNUSABLE)

    return Group


def wants_json(words: list[str]) -> bool:
    return "--format=json" in words or any(pair == ("--format", "json") for pair in itertools.pairwise(words))


def build(only: str | None = None, *, listed: bool = False) -> Any:
    """The typer application; with ``only`` just that command, so that a call imports no other; ``listed``: names and their help alone, for
    the page that lists them."""
    import typer

    from dpspec.version import __version__

    app = typer.Typer(
        name="dpspec",
        cls=group(),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Spec files, plans, studies and audits for differentially private analyses.\n\n"
        "Exit codes: 0 clean; 1 findings (an error, a missed target, a violated guarantee); 2 unusable input; 130 interrupted.",
    )

    @app.callback(invoke_without_command=True)
    def root(version: bool = typer.Option(False, "--version", help="print the version")) -> None:
        if version:
            sys.stdout.write(f"dpspec {__version__}\n")
            raise typer.Exit(0)

    for name, help_text in COMMANDS.items():
        if only is not None and name != only:
            continue
        if listed:
            app.command(name, short_help=help_text)(_nothing)
            continue
        module = importlib.import_module(f"dpspec.cli.{name}")
        if hasattr(module, "app"):  # a group of commands
            app.add_typer(module.app, name=name, short_help=help_text)
        else:
            app.command(name, short_help=help_text)(module.command)
    return app


def _nothing() -> None:
    """Stands for a command that is listed only."""
