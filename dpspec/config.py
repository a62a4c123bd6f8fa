"""The configuration of a project: ``dpspec.toml``, or ``[tool.dpspec]`` of ``pyproject.toml``, and the environment variables.

Commands take defaults of their options from it (:mod:`dpspec.cli.config`), the estimators their ledger and account. Whatever in it is not
understood is an error (DP417).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from dpspec.spec.diagnostics import Diagnostic, SpecError

#: Keys that stand above the tables: defaults of every command that has the option.
SHARED = ("ledger", "account", "policy", "no-color", "quiet")
#: Environment variables that dpspec reads. Another one that begins like them is refused: a misspelt DPSPEC_LEDGER would charge nobody.
VARIABLES = {
    "DPSPEC_LEDGER": "the ledger (--ledger)",
    "DPSPEC_ACCOUNT": "the account that is charged (--account)",
    "DPSPEC_POLICY": "the policy (--policy)",
    "DPSPEC_CONFIG": "the configuration file; empty: none is read",
    "DPSPEC_TRACEBACK": "1: internal errors are shown whole, which may hold data",
}
#: Of the test suite, not of the command.
_TESTS = ("DPSPEC_FUZZ", "DPSPEC_EXAMPLES")


@dataclass(frozen=True)
class Config:
    """What a configuration file says. ``path`` is None where there is none. ``tables``: by command, ``""`` for what is shared."""

    path: Path | None = None
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, command: str) -> dict[str, Any]:
        """The values of one command by option, shared ones first."""
        return {**self.tables.get("", {}), **self.tables.get(command, {})}


def load(environ: Mapping[str, str] | None = None, folder: Path | None = None) -> Config:
    """The configuration that holds in a folder (the working folder): of ``DPSPEC_CONFIG``, else the nearest ``dpspec.toml``, or
    ``pyproject.toml`` with ``[tool.dpspec]``, in the folder or above it up to the root of its git repository.

    Raises :class:`SpecError` (DP417) where it cannot be read, or holds a table or a shared key that is none.
    """
    variables = os.environ if environ is None else environ
    _known(variables)
    named = variables.get("DPSPEC_CONFIG")
    if named is not None:
        return _read(Path(named)) if named else Config()
    here = Path.cwd() if folder is None else folder
    for at in (here, *here.parents):
        own, project = at / "dpspec.toml", at / "pyproject.toml"
        shared = project.is_file() and _section(project) is not None
        if own.is_file():
            if shared:
                wrong(own, "and the [tool.dpspec] of pyproject.toml beside it are two configurations", "keep one of them")
            return _read(own)
        if shared:
            return _read(project)
        if (at / ".git").exists():
            break
    return Config()


def _known(variables: Mapping[str, str]) -> None:
    from dpspec.lang.vocabulary import nearest

    for name in variables:
        if name.startswith("DPSPEC_") and name not in VARIABLES and name not in _TESTS:
            near = nearest(name, VARIABLES)
            said = f"the environment variable {name} means nothing to dpspec"
            raise SpecError([Diagnostic("DP417", "error", said, f"did you mean {near}?" if near else "unset it")])


def wrong(path: Path, what: str, help: str) -> NoReturn:
    raise SpecError([Diagnostic("DP417", "error", f"{path}: {what}", help)])


def _section(path: Path) -> Any:
    """The table of dpspec in a TOML file: the whole of ``dpspec.toml``, ``[tool.dpspec]`` of another, None without one."""
    import tomllib

    try:
        body = tomllib.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        if path.name == "pyproject.toml":  # somebody else's file: their tools say what is wrong with it
            text = path.read_text(encoding="utf-8", errors="replace")
            if "tool.dpspec" not in text:
                return None
        wrong(path, f"it is not TOML: {error}", "mend the file")
    except OSError as error:
        wrong(path, f"it cannot be read: {error.strerror or error}", "mend DPSPEC_CONFIG, or the file's permissions")
    tool = body.get("tool")
    return (tool.get("dpspec") if isinstance(tool, dict) else None) if path.name == "pyproject.toml" else body


def _read(path: Path) -> Config:
    from dpspec.lang.vocabulary import nearest

    body = _section(path)
    if not isinstance(body, dict):
        wrong(path, "holds no table [tool.dpspec]", "write one, or name another file")
    tables: dict[str, dict[str, Any]] = {"": {}}
    for key, value in body.items():
        if key == "command" and isinstance(value, dict):
            continue
        if key not in SHARED:
            near = nearest(key, (*SHARED, "command"))
            rest = f"here stand {', '.join(SHARED)}, and options of one command under [command.NAME]"
            wrong(path, f"unknown key {key}", f"did you mean {near}?" if near else rest)
        tables[""][key] = value
    for name, values in body.get("command", {}).items():
        if not isinstance(values, dict):
            wrong(path, f"command.{name} is no table", f"write [command.{name}]")
        tables[name] = dict(_values(values))
    return Config(path, tables)


def _values(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The settings of a table: options, and for a group of commands tables of them."""
    for key, value in table.items():
        if isinstance(value, dict):
            for inner, setting in value.items():
                yield f"{key}.{inner}", setting
        else:
            yield key, value


def charged(ledger: str | None, account: str | None) -> tuple[str | None, str | None]:
    """Ledger and account of a release made in Python: as stated, else of the environment, else of the configuration."""
    config = load()
    shared = config.tables.get("", {})
    stated = ledger or os.environ.get("DPSPEC_LEDGER") or _file(config, shared.get("ledger"))
    return stated, account or os.environ.get("DPSPEC_ACCOUNT") or (shared.get("account") if stated else None)


def _file(config: Config, value: Any) -> str | None:
    """A file of the configuration counts from its folder; a URL is a URL."""
    if value is None or config.path is None:
        return None
    if not isinstance(value, str):
        wrong(config.path, f"ledger is {value!r}", "write one text")
    return value if "://" in value else str(config.path.parent / value)
