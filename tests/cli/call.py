"""Call the command in this process."""

from __future__ import annotations

from dataclasses import dataclass

from typer.testing import CliRunner

from dpspec.cli.app import build


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str


def call(*words: str) -> Result:
    """Exit code and output of ``dpspec WORDS``. An exception other than SystemExit is raised, not swallowed."""
    result = CliRunner().invoke(build(words[0] if words and not words[0].startswith("-") else None), list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Result(result.exit_code, result.stdout, result.stderr)
