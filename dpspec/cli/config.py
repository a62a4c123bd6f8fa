"""Defaults of options, from the project's configuration file and from the environment; ``dpspec config`` shows and checks them.

The order is that of click's ``default_map``: the command line, then an environment variable, then the file, then the option's own default.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpspec.cli.common import Format, FormatOption, NoColorOption, QuietOption, VerboseOption, emit_json, guarded, say
from dpspec.config import SHARED, VARIABLES, Config, load, wrong

#: Options whose value is about one call.
_NEVER = ("help", "version")
_FLAGS = ("no-color", "quiet")
_FILES = ("ledger", "policy", "out", "data")


def defaults(config: Config, root: Any) -> dict[str, Any]:
    """click's ``default_map`` for the commands that ``root`` holds. Raises SpecError (DP417) for a key that is no option of its command,
    and for a value that the option does not take."""
    from dpspec.cli.app import COMMANDS
    from dpspec.lang.vocabulary import nearest

    found: dict[str, Any] = {}
    if config.path is None:
        return found
    for name in config.tables:
        if name and name not in COMMANDS:
            near = nearest(name, COMMANDS)
            wrong(config.path, f"there is no command {name}", f"did you mean {near}?" if near else "commands are " + ", ".join(COMMANDS))
    for name, command in root.commands.items():
        if hasattr(command, "commands"):
            found[name] = _of_group(config, command, name)
        else:
            found[name] = _of_command(config, command, name, config.of(name))
    return found


def _of_group(config: Config, group: Any, name: str) -> dict[str, Any]:
    shared, own = config.tables.get("", {}), config.tables.get(name, {})
    found: dict[str, Any] = {}
    inner = group.commands
    for key in own:
        word = key.partition(".")[0]
        if word not in inner:
            wrong(_path(config), f"there is no command {name} {word}", "commands are " + ", ".join(inner))
    for word, command in inner.items():
        mine = {key.partition(".")[2]: value for key, value in own.items() if key.partition(".")[0] == word}
        found[word] = _of_command(config, command, f"{name} {word}", {**shared, **mine})
    return found


def _path(config: Config) -> Path:
    assert config.path is not None
    return config.path


def _of_command(config: Config, command: Any, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of one command by parameter. A shared key that the command lacks is not its own."""
    from dpspec.lang.vocabulary import nearest

    options = {
        word.removeprefix("--"): p
        for p in command.params
        if p.param_type_name == "option"
        for word in (*p.opts, *p.secondary_opts)
        if word.startswith("--") and p.name not in _NEVER
    }
    found: dict[str, Any] = {}
    head, _, inner = name.partition(" ")
    own = {key.removeprefix(f"{inner}.") for key in config.tables.get(head, {})}
    for key, value in values.items():
        option = options.get(key)
        if key in SHARED and key not in own:  # of the commands that have it: flags, and the options with a variable
            if option is None or not (option.is_flag if key in _FLAGS else option.envvar):
                continue
        elif option is None:
            near = nearest(key, options)
            wrong(_path(config), f"{name} has no option {key}", f"did you mean {near}?" if near else "options are " + ", ".join(options))
        found[str(option.name)] = _taken(_path(config), command, option, name, key, value)
    return found


def _taken(path: Path, command: Any, option: Any, name: str, key: str, value: Any) -> Any:
    """The value as the option's own type reads it; files count from the folder of the configuration."""
    from typer import BadParameter

    where = f"{key} of {name}"
    if option.is_flag:
        if not isinstance(value, bool):
            wrong(path, f"{where} is {value!r}", "write true or false")
        return value
    items = value if option.multiple and isinstance(value, list) else [value]
    if any(isinstance(item, (dict, list, bool)) or item is None for item in items):
        wrong(path, f"{where} is {value!r}", "write " + ("a list of texts" if option.multiple else "one text or number"))
    taken = [str(item) for item in items]
    if key in _FILES:
        taken = [item if "://" in item else str(path.parent / item) for item in taken]
    given: Any = taken if option.multiple else taken[0]
    try:
        option.process_value(command.context_class(command, info_name=name), given)
    except BadParameter as error:
        wrong(path, f"{where}: {error.message}", f"`dpspec {name} --help` says what it takes")
    return given


@guarded
def command(
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Show and check the configuration: the file, every value in it by command, and the environment variables that are set.

    The file is dpspec.toml, or [tool.dpspec] of pyproject.toml, in the working folder or above it up to the root of the repository.

    Examples:

      dpspec config

      DPSPEC_CONFIG=office.toml dpspec config --format json
    """
    from typer.main import get_command

    from dpspec.cli.app import build

    config = load()
    found = defaults(config, get_command(build()))
    rows = dict(_flat(found))
    variables = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    if format is Format.json:
        emit_json({"path": None if config.path is None else str(config.path), "options": rows, "environment": variables})
        return
    say(
        f"configuration: {config.path}"
        if config.path is not None
        else "no configuration file (dpspec.toml, or [tool.dpspec] of pyproject.toml)"
    )
    if quiet:
        return
    for key, value in rows.items():
        say(f"  {key} = {value}")
    for name, value in variables.items():
        say(f"  {name}={value}  ({VARIABLES[name]})")


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key} ")
        else:
            yield f"{above}--{key.replace('_', '-')}", value
